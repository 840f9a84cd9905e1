import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { networkInterfaces } from "node:os";
import { attempt } from "../base/attempt.js";
import type { Refusal } from "../ports/http-host.js";

/** What a request may be, by configuration and by its mount. */
export interface WebRules {
  /** Whether clients must carry headers that prove who they are; a browser's page cannot, so the rules below end there. */
  authenticated: boolean;
  /** The host that the server is bound to, as configured, and the address that it means. */
  boundHost: string;
  boundAddress: string;
  allowedHosts: readonly string[];
  allowCrossSite: boolean;
  /** Whether pages of other ports of this machine are welcome. */
  allowLoopbackPages: boolean;
  /** Whether what is asked for may be had by anybody: pages of other sites too. */
  open: boolean;
  /** Origins of pages that may open a socket, beside the server's own and loopback ones. */
  allowedOrigins: readonly string[];
}

/** A loopback name or address: `localhost`, names below it, 127.0.0.0/8, ::1. Parsed, never compared by prefix. */
export function isLoopback(host: string): boolean {
  const name = bare(host);
  if (isIP(name) === 4) return name.split(".")[0] === "127";
  if (isIP(name) === 6)
    return (
      normalV6(name) === "::1" || /^::ffff:127\./.test(normalV6(name)) || /^::ffff:7f[0-9a-f]{2}:/.test(normalV6(name))
    );
  // RFC 6761: names below localhost are loopback too; browsers resolve them so.
  return name === "localhost" || name.endsWith(".localhost");
}

/** Lower case, without brackets or a final dot. */
function bare(host: string): string {
  const name = host.toLowerCase();
  return name.startsWith("[") && name.endsWith("]") ? name.slice(1, -1) : name.replace(/\.$/, "");
}

function normalV6(address: string): string {
  return attempt(() => new URL(`http://[${address}]`).hostname.slice(1, -1), address);
}

/** The host of a `Host` header, without its port; undefined when it is no valid host. */
export function hostOf(header: string): string | undefined {
  const match = /^(\[[0-9a-fA-F:.]+\]|[^:/?#@\s\\]+)(?::(\d{1,5}))?$/.exec(header);
  if (!match?.[1] || Number(match[2] ?? 0) > 65_535) return undefined;
  const name = bare(match[1]);
  if (match[1].startsWith("[") && isIP(name) !== 6) return undefined;
  return isIP(name) !== 0 || /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/.test(name) ? name : undefined;
}

/**
 * What leads a browser of this machine to it, and is trusted by browsers as such: `localhost`, names below it,
 * 127.0.0.0/8, ::1. Not 0.0.0.0, ::, nor an IPv4 address in IPv6's clothes: to those browsers tell no server whose page asks.
 */
function isLoopbackName(host: string): boolean {
  return isLoopback(host) && !(isIP(host) === 6 && normalV6(host) !== "::1");
}

/** Whether a `Host` that is an address is one of this machine that the server is bound to. */
function isBound(host: string, boundAddress: string): boolean {
  const version = isIP(host);
  const bound = bare(boundAddress);
  const same = (one: string, other: string) =>
    version === 6 ? isIP(one) === 6 && normalV6(one) === normalV6(other) : one === other;
  if (bound !== "::" && bound !== "0.0.0.0") return same(bound, host);
  if (bound === "0.0.0.0" && version === 6) return false;
  return Object.values(networkInterfaces()).some((list) => list?.some(({ address }) => same(address, host)));
}

/** DNS rebinding: a page of `evil.example` that resolves to this machine still sends its own name as `Host`. */
function hostAllowed(header: string | undefined, rules: WebRules): boolean {
  const host = header === undefined ? undefined : hostOf(header);
  if (host === undefined) return false;
  if (isLoopbackName(host) || rules.allowedHosts.some((allowed) => host === bare(allowed))) return true;
  if (isIP(host) === 0) return host === bare(rules.boundHost);
  return !isLoopback(rules.boundAddress) && isBound(host, rules.boundAddress);
}

/** The host of an `Origin`; undefined for `null` and what is no origin. */
export function originHost(origin: string): string | undefined {
  try {
    const url = new URL(origin);
    return url.host !== "" && url.origin === origin.toLowerCase() ? url.hostname : undefined;
  } catch {
    return undefined;
  }
}

/** Values of a header as sent; node joins or drops repeated ones in `headers`. */
export function headerValues(request: IncomingMessage, name: string): string[] {
  const values: string[] = [];
  const wanted = name.toLowerCase();
  for (let i = 0; i < request.rawHeaders.length; i += 2) {
    if (request.rawHeaders[i]?.toLowerCase() === wanted) values.push(request.rawHeaders[i + 1] ?? "");
  }
  return values;
}

/** Whether a content type is JSON: `application/json`, with or without parameters, or `application/*+json`. */
export function isJsonType(contentType: string | undefined): boolean {
  return /^application\/(?:[\w.!#$&^-]+\+)?json\s*(?:;|$)/i.test(contentType?.trim() ?? "");
}

type Whose = "own" | "loopback" | "foreign";

/** Whose page an `Origin` names: this server's own, one of this machine, or another. */
function whose(origin: string, request: IncomingMessage): Whose {
  const host = originHost(origin);
  if (host === undefined) return "foreign";
  if (new URL(origin).host === request.headers.host?.toLowerCase()) return "own";
  return isLoopbackName(bare(host)) ? "loopback" : "foreign";
}

/** Whether a browser says, in any way, that a page which is not welcome asks. */
function isForeignPage(request: IncomingMessage, { allowLoopbackPages }: WebRules): boolean {
  const pages = headerValues(request, "origin").map((origin) => whose(origin, request));
  if (pages.some((page) => page === "foreign" || (page === "loopback" && !allowLoopbackPages))) return true;
  const sites = headerValues(request, "sec-fetch-site").map((site) => site.trim().toLowerCase());
  // One page of this machine may well be of another site than this server: `localhost` and 127.0.0.1 are two.
  if (allowLoopbackPages) return sites.some((site) => site.includes("cross-site")) && !pages.includes("loopback");
  return sites.some((site) => site !== "same-origin" && site !== "none");
}

const NOT_WELCOME: Refusal = { status: 403, message: "cross-site request refused", code: "cross_site" };

/**
 * What a request is refused for before its body is read: a foreign `Host` or a page of another site, where nothing
 * proves who asks; a browser's POST that is no JSON, always, since it needs no preflight.
 */
export function refusalOf(request: IncomingMessage, rules: WebRules): Refusal | undefined {
  const hosts = headerValues(request, "host");
  if (!rules.authenticated && (hosts.length !== 1 || !hostAllowed(hosts[0], rules)))
    return { status: 403, message: "host not allowed", code: "host_not_allowed" };
  // Asking for permission changes nothing, and a browser that gets none says so to its page.
  if (request.method === "OPTIONS") return undefined;
  if (!rules.authenticated && !rules.allowCrossSite && !rules.open && isForeignPage(request, rules)) return NOT_WELCOME;
  if (
    request.method === "POST" &&
    (request.headers.origin !== undefined || headerValues(request, "sec-fetch-site").length > 0) &&
    !isJsonType(request.headers["content-type"])
  ) {
    return { status: 415, message: "content type must be application/json", code: "unsupported_media_type" };
  }
  return undefined;
}

/** What an upgrade to a socket is refused for: browsers put no other check before a page's socket than ours. */
export function upgradeRefusalOf(request: IncomingMessage, rules: WebRules): Refusal | undefined {
  const allowed = originAllowed(request, rules.allowedOrigins, rules.allowLoopbackPages);
  if (headerValues(request, "origin").length === 0) return refusalOf(request, rules);
  // A page that is allowed by its name is not refused for being another site's.
  return (
    refusalOf(request, { ...rules, allowCrossSite: true }) ??
    (allowed ? undefined : { status: 403, message: "origin not allowed", code: "origin_not_allowed" })
  );
}

/** Whether a WebSocket upgrade's `Origin` is this server's own, loopback, or allowed; without one it is no browser. */
export function originAllowed(
  request: IncomingMessage,
  allowedOrigins: readonly string[],
  allowLoopbackPages = true,
): boolean {
  const [origin, ...more] = headerValues(request, "origin");
  if (origin === undefined) return true;
  if (more.length > 0) return false;
  if (allowedOrigins.some((allowed) => allowed.toLowerCase() === origin.toLowerCase())) return true;
  const page = whose(origin, request);
  return page === "own" || (page === "loopback" && allowLoopbackPages);
}

/** Whether headers prove anything: one that must only be there, whatever its value, can be sent by anybody. */
export function authenticates(required: Readonly<Record<string, string>>): boolean {
  return Object.values(required).some((value) => value.trim() !== "");
}

const digest = (text: string) => createHash("sha256").update(text).digest();
const folded = (text: string) => text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());

/**
 * The message for the first header, in the order configured, that is missing or wrong; undefined when all are right.
 * Every header is compared, in constant time, whatever the others were. An empty value only asks for presence.
 */
export function headerFault(request: IncomingMessage, required: Readonly<Record<string, string>>): string | undefined {
  let fault: string | undefined;
  for (const [name, expected] of Object.entries(required)) {
    const values = headerValues(request, name);
    // Clients and servers strip white space around values.
    const wanted = digest(folded(expected.trim()));
    // Bytes outside ASCII reach us as latin1; some clients mean that, others UTF-8.
    const matches = values.map((value) => {
      const forms = [value, Buffer.from(value, "latin1").toString("utf8")];
      return forms.filter((form) => timingSafeEqual(digest(folded(form)), wanted)).length > 0;
    });
    const good = expected.trim() === "" ? new Set(values).size === 1 : matches.length > 0 && matches.every(Boolean);
    if (!good) fault ??= values.length === 0 ? `missing required header: ${name}` : `invalid header: ${name}`;
  }
  return fault;
}
