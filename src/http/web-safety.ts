import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { networkInterfaces } from "node:os";
import { attempt } from "../base/attempt.js";
import type { Refusal } from "../ports/http-host.js";

/** Rules for a request, from the configuration and the mount. */
export interface WebRules {
  /**
   * Whether clients must carry authenticating headers. A browser page cannot send them, so the rules below then do not
   * apply.
   */
  isAuthenticated: boolean;
  /** The host that the server is bound to, as configured, and its address. */
  boundHost: string;
  boundAddress: string;
  allowedHosts: readonly string[];
  allowCrossSite: boolean;
  /** Whether pages of other ports of this machine are allowed. */
  allowLoopbackPages: boolean;
  /** Whether the requested path is public, also for pages of other sites. */
  isPublic: boolean;
  /** Origins of pages that may open a WebSocket, besides the server's own origin and loopback origins. */
  allowedOrigins: readonly string[];
}

/**
 * Whether a host is a loopback name or address: `localhost`, its subdomains, 127.0.0.0/8, ::1. Addresses are parsed,
 * not compared by prefix.
 */
export function isLoopback(host: string): boolean {
  const name = bareHost(host);
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

/** Lower case, without brackets or a final dot. */
function bareHost(host: string): string {
  const name = host.toLowerCase();
  return name.startsWith("[") && name.endsWith("]") ? name.slice(1, -1) : name.replace(/\.$/, "");
}

function normalizeV6(address: string): string {
  return attempt(() => new URL(`http://[${address}]`).hostname.slice(1, -1), address);
}

/** The host of a `Host` header without its port; undefined if the host is invalid. */
export function hostOf(header: string): string | undefined {
  const match = /^(\[[0-9a-fA-F:.]+\]|[^:/?#@\s\\]+)(?::(\d{1,5}))?$/.exec(header);
  if (!match?.[1] || Number(match[2] ?? 0) > 65_535) return undefined;
  const name = bareHost(match[1]);
  if (match[1].startsWith("[") && isIP(name) !== 6) return undefined;
  return isIP(name) !== 0 || /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/.test(name) ? name : undefined;
}

/**
 * Whether a host leads a browser of this machine to this machine, and browsers trust it as such: `localhost`, its
 * subdomains, 127.0.0.0/8, ::1.
 *
 * Not 0.0.0.0, :: or an IPv4-mapped IPv6 address: for these, browsers do not report the page that sends the request.
 */
function isLoopbackName(host: string): boolean {
  return isLoopback(host) && !(isIP(host) === 6 && normalizeV6(host) !== "::1");
}

/** Whether a `Host` that is an address is an address of this machine to which the server is bound. */
function isBound(host: string, boundAddress: string): boolean {
  const version = isIP(host);
  const bound = bareHost(boundAddress);
  const isSameAddress = (left: string, right: string) =>
    version === 6 ? isIP(left) === 6 && normalizeV6(left) === normalizeV6(right) : left === right;
  if (bound !== "::" && bound !== "0.0.0.0") return isSameAddress(bound, host);
  if (bound === "0.0.0.0" && version === 6) return false;
  return Object.values(networkInterfaces()).some((list) => list?.some(({ address }) => isSameAddress(address, host)));
}

/**
 * Whether a `Host` header is allowed. Prevents DNS rebinding: a page of `evil.example` that resolves to this machine
 * still sends its own name as `Host`.
 */
function hostAllowed(header: string | undefined, rules: WebRules): boolean {
  const host = header === undefined ? undefined : hostOf(header);
  if (host === undefined) return false;
  if (isLoopbackName(host) || rules.allowedHosts.some((allowed) => host === bareHost(allowed))) return true;
  if (isIP(host) === 0) return host === bareHost(rules.boundHost);
  return !isLoopback(rules.boundAddress) && isBound(host, rules.boundAddress);
}

/** The host of an `Origin`; undefined for `null` and for an invalid origin. */
export function originHost(origin: string): string | undefined {
  try {
    const url = new URL(origin);
    return url.host !== "" && url.origin === origin.toLowerCase() ? url.hostname : undefined;
  } catch {
    return undefined;
  }
}

/** Values of a header as sent. In `headers`, node joins or drops repeated values. */
export function headerValues(request: IncomingMessage, name: string): string[] {
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
function pageOwner(origin: string, request: IncomingMessage): PageOwner {
  const host = originHost(origin);
  if (host === undefined) return "foreign";
  if (new URL(origin).host === request.headers.host?.toLowerCase()) return "own";
  return isLoopbackName(bareHost(host)) ? "loopback" : "foreign";
}

/** Whether any header of a browser shows that a page that is not allowed sends the request. */
function isForeignPage(request: IncomingMessage, { allowLoopbackPages }: WebRules): boolean {
  const pages = headerValues(request, "origin").map((origin) => pageOwner(origin, request));
  if (pages.some((page) => page === "foreign" || (page === "loopback" && !allowLoopbackPages))) return true;
  const sites = headerValues(request, "sec-fetch-site").map((site) => site.trim().toLowerCase());
  // A page of this machine can belong to another site than this server: `localhost` and 127.0.0.1 are two sites.
  if (allowLoopbackPages) return sites.some((site) => site.includes("cross-site")) && !pages.includes("loopback");
  return sites.some((site) => site !== "same-origin" && site !== "none");
}

const NOT_WELCOME: Refusal = { status: 403, message: "cross-site request refused", code: "cross_site" };

/**
 * Why a request is rejected before its body is read; undefined if it is allowed.
 * - Unless clients authenticate: a `Host` that is not allowed, or a page of another site.
 * - Always: a POST of a browser that is not JSON, because it needs no preflight.
 */
export function refusalOf(request: IncomingMessage, rules: WebRules): Refusal | undefined {
  const hosts = headerValues(request, "host");
  if (!rules.isAuthenticated && (hosts.length !== 1 || !hostAllowed(hosts[0], rules)))
    return { status: 403, message: "host not allowed", code: "host_not_allowed" };
  // A preflight request changes nothing. The browser reports a denial to its page.
  if (request.method === "OPTIONS") return undefined;
  if (!rules.isAuthenticated && !rules.allowCrossSite && !rules.isPublic && isForeignPage(request, rules))
    return NOT_WELCOME;
  if (
    request.method === "POST" &&
    (request.headers.origin !== undefined || headerValues(request, "sec-fetch-site").length > 0) &&
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
  const allowed = originAllowed(request, rules.allowedOrigins, rules.allowLoopbackPages);
  if (headerValues(request, "origin").length === 0) return refusalOf(request, rules);
  // A page whose origin is allowed is not rejected as a page of another site.
  return (
    refusalOf(request, { ...rules, allowCrossSite: true }) ??
    (allowed ? undefined : { status: 403, message: "origin not allowed", code: "origin_not_allowed" })
  );
}

/**
 * Whether the `Origin` of a WebSocket upgrade is this server's own, loopback, or allowed. True without an `Origin`,
 * because then the client is not a browser.
 */
export function originAllowed(
  request: IncomingMessage,
  allowedOrigins: readonly string[],
  allowLoopbackPages = true,
): boolean {
  const [origin, ...extraOrigins] = headerValues(request, "origin");
  if (origin === undefined) return true;
  if (extraOrigins.length > 0) return false;
  if (allowedOrigins.some((allowed) => allowed.toLowerCase() === origin.toLowerCase())) return true;
  const page = pageOwner(origin, request);
  return page === "own" || (page === "loopback" && allowLoopbackPages);
}

/** Whether these headers authenticate a client. A header that must only be present, with any value, proves nothing. */
export function authenticates(required: Readonly<Record<string, string>>): boolean {
  return Object.values(required).some((value) => value.trim() !== "");
}

const digest = (text: string) => createHash("sha256").update(text).digest();
const foldCase = (text: string) => text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());

/**
 * Returns the message for the first missing or wrong header, in configured order; undefined if all are right.
 *
 * Every header is compared in constant time, whatever the result of the others. An empty expected value requires only
 * presence.
 */
export function headerFault(request: IncomingMessage, required: Readonly<Record<string, string>>): string | undefined {
  let fault: string | undefined;
  for (const [name, expected] of Object.entries(required)) {
    const values = headerValues(request, name);
    // Clients and servers strip white space around values.
    const expectedDigest = digest(foldCase(expected.trim()));
    // Bytes outside ASCII arrive as Latin-1. Some clients send Latin-1, others UTF-8.
    const matches = values.map((value) => {
      const forms = [value, Buffer.from(value, "latin1").toString("utf8")];
      return forms.filter((form) => timingSafeEqual(digest(foldCase(form)), expectedDigest)).length > 0;
    });
    const good = expected.trim() === "" ? new Set(values).size === 1 : matches.length > 0 && matches.every(Boolean);
    if (!good) fault ??= values.length === 0 ? `missing required header: ${name}` : `invalid header: ${name}`;
  }
  return fault;
}
