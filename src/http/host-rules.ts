import { isIP } from "node:net";

/** A host that commands may connect to. */
export interface HostRule {
  /** Host name or address in canonical form. With `isWildcard`, the domain whose subdomains are allowed. */
  readonly host: string;
  readonly isWildcard: boolean;
  /** Undefined: the ports of HTTP and HTTPS. */
  readonly port: number | undefined;
}

/** The target of a connection. `host` is in canonical form; an IPv6 address has no brackets. */
export interface HostTarget {
  readonly host: string;
  readonly port: number;
}

/** Ports of a rule without a port: HTTP and HTTPS. */
const DEFAULT_PORTS = [80, 443];

/**
 * Parses an entry of `tools.bash.network`: `name`, `*.name` or an address, each with an optional port. Undefined for an
 * invalid entry.
 */
export function parseHostRule(text: string): HostRule | undefined {
  const isWildcard = text.startsWith("*.");
  const authority = isWildcard ? text.slice(2) : text;
  const host = parseHost(authority.replace(/:\d+$/, ""));
  const port = /:(\d+)$/.exec(authority)?.[1];
  if (host === undefined || host.includes("*") || (isWildcard && isIP(host) !== 0)) return undefined;
  if (port !== undefined && !isPort(Number(port))) return undefined;
  return { host, isWildcard, port: port === undefined ? undefined : Number(port) };
}

/** Parses the target of a CONNECT request, `host:port`. Undefined if it is anything else. */
export function parseConnectTarget(text: string): HostTarget | undefined {
  const [, hostText = "", portText] = /^(.+):(\d{1,5})$/.exec(text) ?? [];
  const host = parseHost(hostText);
  const port = Number(portText);
  return host === undefined || !isPort(port) ? undefined : { host, port };
}

/** Returns the target of a URL in canonical form. Undefined if the URL is not plain HTTP or has a user name. */
export function parseHttpTarget(url: URL): HostTarget | undefined {
  if (url.protocol !== "http:" || url.username !== "" || url.password !== "") return undefined;
  const host = parseHost(url.hostname);
  return host === undefined ? undefined : { host, port: url.port === "" ? 80 : Number(url.port) };
}

/** Whether a rule allows the target. An address is allowed only by a rule with the same address. */
export function isTargetAllowed(rules: readonly HostRule[], { host, port }: HostTarget): boolean {
  return rules.some(
    (rule) =>
      (rule.isWildcard ? isIP(host) === 0 && host.endsWith(`.${rule.host}`) : host === rule.host) &&
      (rule.port === undefined ? DEFAULT_PORTS.includes(port) : port === rule.port),
  );
}

/**
 * Converts a host to its canonical form, as a URL parser does: lower case, punycode, `127.0.0.1` for `0x7f.1`. Removes
 * brackets and a final dot. Undefined unless the text is only a host.
 */
function parseHost(text: string): string | undefined {
  if (text === "" || /[\s/\\?#@%]/.test(text) || (text.includes(":") && !text.startsWith("["))) return undefined;
  if (!URL.canParse(`http://${text}/`)) return undefined;
  const host = new URL(`http://${text}/`).hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
  return host === "" ? undefined : host;
}

function isPort(port: number): boolean {
  return port > 0 && port <= 65_535;
}
