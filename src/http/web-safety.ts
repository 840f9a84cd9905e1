import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { networkInterfaces } from "node:os";
import { attempt } from "../base/attempt.js";
import type { Refusal } from "../ports/http-host.js";

/** Rules for a request, from the configuration and the mount. */
export interface WebRules {
  /**
   * Whether requests must carry authenticating headers. Pages of other sites cannot send such headers, so the rules
   * below then do not apply.
   */
  isAuthenticated: boolean;
  /** Configured host of the server, and the address to which the host resolves. */
  boundHost: string;
  boundAddress: string;
  allowedHosts: readonly string[];
  allowCrossSite: boolean;
  /** Whether pages of other ports of this machine are allowed. */
  allowLoopbackPages: boolean;
  /** Whether pages of other sites may request the path. */
  isPublic: boolean;
  /** Origins of pages that may open a WebSocket, besides the server's own origin and loopback origins. */
  allowedOrigins: readonly string[];
}

/**
 * Whether a host is a loopback name or address: `localhost`, its subdomains, 127.0.0.0/8, ::1. Addresses are parsed,
 * not compared by prefix.
 */
export function isLoopback(host: string): boolean {
  const name = normalizeHost(host);
  if (isIP(name) === 4) return name.split(".")[0] === "127";
  if (isIP(name) === 6)
    return (
      normalizeV6(name) === "::1" ||
      /^::ffff:127\./.test(normalizeV6(name)) ||
      /^::ffff:7f[0-9a-f]{2}:/.test(normalizeV6(name))
    );
  // RFC 6761: subdomains of localhost are loopback too, and browsers resolve them so.
  return name === "localhost" || name.endsWith(".localhost");
}

/** Returns the host in lower case, without brackets or a final dot. */
function normalizeHost(host: string): string {
  const name = host.toLowerCase();
  return name.startsWith("[") && name.endsWith("]") ? name.slice(1, -1) : name.replace(/\.$/, "");
}

function normalizeV6(address: string): string {
  return attempt(() => new URL(`http://[${address}]`).hostname.slice(1, -1), address);
}

/** Returns the host of a `Host` header without its port; undefined if the header is invalid. */
export function parseHostHeader(header: string): string | undefined {
  const match = /^(\[[0-9a-fA-F:.]+\]|[^:/?#@\s\\]+)(?::(\d{1,5}))?$/.exec(header);
  if (!match?.[1] || Number(match[2] ?? 0) > 65_535) return undefined;
  const name = normalizeHost(match[1]);
  if (match[1].startsWith("[") && isIP(name) !== 6) return undefined;
  return isIP(name) !== 0 || /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/.test(name) ? name : undefined;
}

/**
 * Whether browsers treat a host as this machine: `localhost`, its subdomains, 127.0.0.0/8, ::1.
 *
 * Not 0.0.0.0, :: or an IPv4-mapped IPv6 address: browsers do not report the page that sends a request to such a host.
 */
function isLoopbackName(host: string): boolean {
  return isLoopback(host) && !(isIP(host) === 6 && normalizeV6(host) !== "::1");
}

/** Whether the server is bound to the address in `host`. A wildcard address binds all addresses of this machine. */
function isBoundAddress(host: string, boundAddress: string): boolean {
  const version = isIP(host);
  const bareBoundAddress = normalizeHost(boundAddress);
  const isSameAddress = (left: string, right: string) =>
    version === 6 ? isIP(left) === 6 && normalizeV6(left) === normalizeV6(right) : left === right;
  if (bareBoundAddress !== "::" && bareBoundAddress !== "0.0.0.0") return isSameAddress(bareBoundAddress, host);
  if (bareBoundAddress === "0.0.0.0" && version === 6) return false;
  return Object.values(networkInterfaces()).some((interfaceAddresses) =>
    interfaceAddresses?.some(({ address }) => isSameAddress(address, host)),
  );
}

/**
 * Whether a `Host` header is allowed. Prevents DNS rebinding: a page of `evil.example` that resolves to this machine
 * still sends its own name as `Host`.
 */
function isHostAllowed(header: string | undefined, rules: WebRules): boolean {
  const host = header === undefined ? undefined : parseHostHeader(header);
  if (host === undefined) return false;
  if (isLoopbackName(host) || rules.allowedHosts.some((allowed) => host === normalizeHost(allowed))) return true;
  if (isIP(host) === 0) return host === normalizeHost(rules.boundHost);
  return !isLoopback(rules.boundAddress) && isBoundAddress(host, rules.boundAddress);
}

/** Returns the host of an `Origin`; undefined for `null` and for an invalid origin. */
export function hostOfOrigin(origin: string): string | undefined {
  try {
    const url = new URL(origin);
    return url.host !== "" && url.origin === origin.toLowerCase() ? url.hostname : undefined;
  } catch {
    return undefined;
  }
}

/** Returns all values of a header. In `request.headers`, node joins or drops repeated values. */
export function getHeaderValues(request: IncomingMessage, name: string): string[] {
  const values: string[] = [];
  const lowerCaseName = name.toLowerCase();
  for (let i = 0; i < request.rawHeaders.length; i += 2) {
    if (request.rawHeaders[i]?.toLowerCase() === lowerCaseName) values.push(request.rawHeaders[i + 1] ?? "");
  }
  return values;
}

/** Whether a content type is JSON: `application/json`, with or without parameters, or `application/*+json`. */
export function isJsonType(contentType: string | undefined): boolean {
  return /^application\/(?:[\w.!#$&^-]+\+)?json\s*(?:;|$)/i.test(contentType?.trim() ?? "");
}

type PageOwner = "own" | "loopback" | "foreign";

/** Owner of the page in an `Origin`: this server, another server on this machine, or another site. */
function findPageOwner(origin: string, request: IncomingMessage): PageOwner {
  const host = hostOfOrigin(origin);
  if (host === undefined) return "foreign";
  if (new URL(origin).host === request.headers.host?.toLowerCase()) return "own";
  return isLoopbackName(normalizeHost(host)) ? "loopback" : "foreign";
}

/** Whether the headers show that the browser page that sent the request is not allowed. */
function isForeignPage(request: IncomingMessage, { allowLoopbackPages }: WebRules): boolean {
  const pageOwners = getHeaderValues(request, "origin").map((origin) => findPageOwner(origin, request));
  if (pageOwners.some((page) => page === "foreign" || (page === "loopback" && !allowLoopbackPages))) return true;
  const sites = getHeaderValues(request, "sec-fetch-site").map((site) => site.trim().toLowerCase());
  // A page of this machine can be cross-site: `localhost` and 127.0.0.1 are two sites.
  if (allowLoopbackPages) return sites.some((site) => site.includes("cross-site")) && !pageOwners.includes("loopback");
  return sites.some((site) => site !== "same-origin" && site !== "none");
}

const CROSS_SITE_REFUSAL: Refusal = { status: 403, message: "cross-site request refused", code: "cross_site" };

/**
 * Why a request is rejected before its body is read; undefined if it is allowed.
 * - Unless clients authenticate: a `Host` that is not allowed, or a page of another site.
 * - Always: a POST of a browser that is not JSON, because browsers send such a POST without a preflight request.
 */
export function refusalOf(request: IncomingMessage, rules: WebRules): Refusal | undefined {
  const hosts = getHeaderValues(request, "host");
  if (!rules.isAuthenticated && (hosts.length !== 1 || !isHostAllowed(hosts[0], rules)))
    return { status: 403, message: "host not allowed", code: "host_not_allowed" };
  // A preflight request changes nothing. The mount decides about it.
  if (request.method === "OPTIONS") return undefined;
  if (!rules.isAuthenticated && !rules.allowCrossSite && !rules.isPublic && isForeignPage(request, rules))
    return CROSS_SITE_REFUSAL;
  if (
    request.method === "POST" &&
    (request.headers.origin !== undefined || getHeaderValues(request, "sec-fetch-site").length > 0) &&
    !isJsonType(request.headers["content-type"])
  ) {
    return { status: 415, message: "content type must be application/json", code: "unsupported_media_type" };
  }
  return undefined;
}

/**
 * Why a WebSocket upgrade is rejected; undefined if it is allowed. Browsers make no check of their own before a page
 * opens a WebSocket.
 */
export function upgradeRefusalOf(request: IncomingMessage, rules: WebRules): Refusal | undefined {
  const isAllowed = isOriginAllowed(request, rules.allowedOrigins, rules.allowLoopbackPages);
  if (getHeaderValues(request, "origin").length === 0) return refusalOf(request, rules);
  // A page whose origin is allowed is not rejected as a page of another site.
  return (
    refusalOf(request, { ...rules, allowCrossSite: true }) ??
    (isAllowed ? undefined : { status: 403, message: "origin not allowed", code: "origin_not_allowed" })
  );
}

/**
 * Whether the `Origin` of a WebSocket upgrade is this server's own, loopback, or allowed. True without an `Origin`,
 * because then the client is not a browser.
 */
export function isOriginAllowed(
  request: IncomingMessage,
  allowedOrigins: readonly string[],
  allowLoopbackPages = true,
): boolean {
  const [origin, ...extraOrigins] = getHeaderValues(request, "origin");
  if (origin === undefined) return true;
  if (extraOrigins.length > 0) return false;
  if (allowedOrigins.some((allowed) => allowed.toLowerCase() === origin.toLowerCase())) return true;
  const owner = findPageOwner(origin, request);
  return owner === "own" || (owner === "loopback" && allowLoopbackPages);
}

/** Whether these headers authenticate a client. A header that must only be present, with any value, proves nothing. */
export function authenticates(required: Readonly<Record<string, string>>): boolean {
  return Object.values(required).some((value) => value.trim() !== "");
}

const digest = (text: string) => createHash("sha256").update(text).digest();
const foldCase = (text: string) => text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());

/**
 * Returns the message for the first missing or wrong header, in configured order; undefined if all headers are right.
 *
 * Every header is compared in constant time, whatever the result of the other headers. If the expected value is empty,
 * the header must only be present.
 */
export function findHeaderFault(
  request: IncomingMessage,
  requiredHeaders: Readonly<Record<string, string>>,
): string | undefined {
  let faultMessage: string | undefined;
  for (const [name, expected] of Object.entries(requiredHeaders)) {
    const values = getHeaderValues(request, name);
    // Clients and servers strip white space around values.
    const expectedDigest = digest(foldCase(expected.trim()));
    // Bytes outside ASCII arrive as Latin-1. Some clients send Latin-1, others UTF-8.
    const matches = values.map((value) => {
      const forms = [value, Buffer.from(value, "latin1").toString("utf8")];
      return forms.filter((form) => timingSafeEqual(digest(foldCase(form)), expectedDigest)).length > 0;
    });
    const isCorrect =
      expected.trim() === "" ? new Set(values).size === 1 : matches.length > 0 && matches.every(Boolean);
    if (!isCorrect)
      faultMessage ??= values.length === 0 ? `missing required header: ${name}` : `invalid header: ${name}`;
  }
  return faultMessage;
}
