import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import type { Refusal } from "./ports/transport.js";

/** What a request may be, by configuration. */
export interface WebRules {
  /** Whether clients must carry headers that prove who they are; a browser's page cannot, so the rules below end there. */
  authenticated: boolean;
  /** The host that the server is bound to. */
  boundHost: string;
  allowedHosts: readonly string[];
  allowCrossSite: boolean;
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
  try {
    return new URL(`http://[${address}]`).hostname.slice(1, -1);
  } catch {
    return address;
  }
}

/** The host of a `Host` header, without its port; undefined when it is no valid host. */
export function hostOf(header: string): string | undefined {
  const match = /^(\[[0-9a-fA-F:.]+\]|[^:/?#@\s\\]+)(?::(\d{1,5}))?$/.exec(header);
  if (!match?.[1] || Number(match[2] ?? 0) > 65_535) return undefined;
  const name = bare(match[1]);
  if (match[1].startsWith("[") && isIP(name) !== 6) return undefined;
  return isIP(name) !== 0 || /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/.test(name) ? name : undefined;
}

/** DNS rebinding: a page of `evil.example` that resolves to this machine still sends its own name as `Host`. */
function hostAllowed(header: string | undefined, rules: WebRules): boolean {
  const host = header === undefined ? undefined : hostOf(header);
  if (host === undefined) return false;
  return (
    isIP(host) !== 0 ||
    isLoopback(host) ||
    host === bare(rules.boundHost) ||
    rules.allowedHosts.some((allowed) => host === bare(allowed))
  );
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

/**
 * What a request is refused for before its body is read: a foreign `Host` or a page of another site, where nothing
 * proves who asks; a browser's POST that is no JSON, always, since it needs no preflight.
 */
export function refusalOf(request: IncomingMessage, rules: WebRules): Refusal | undefined {
  const hosts = headerValues(request, "host");
  if (!rules.authenticated && (hosts.length !== 1 || !hostAllowed(hosts[0], rules)))
    return { status: 403, message: "host not allowed" };
  // Asking for leave changes nothing, and a browser that gets none says so to its page.
  if (request.method === "OPTIONS") return undefined;
  const origin = request.headers.origin;
  const site = headerValues(request, "sec-fetch-site");
  if (!rules.authenticated && !rules.allowCrossSite && site.some((value) => /\bcross-site\b/i.test(value))) {
    const host = origin === undefined ? undefined : originHost(origin);
    if (host === undefined || !isLoopback(host)) return { status: 403, message: "cross-site request refused" };
  }
  if (
    request.method === "POST" &&
    (origin !== undefined || site.length > 0) &&
    !isJsonType(request.headers["content-type"])
  ) {
    return { status: 415, message: "content type must be application/json" };
  }
  return undefined;
}

/** Whether a WebSocket upgrade's `Origin` is this server's own, loopback, or allowed; without one it is no browser. */
export function originAllowed(request: IncomingMessage, allowedOrigins: readonly string[]): boolean {
  const [origin, ...more] = headerValues(request, "origin");
  if (origin === undefined) return true;
  if (more.length > 0) return false;
  if (allowedOrigins.some((allowed) => allowed.toLowerCase() === origin.toLowerCase())) return true;
  const host = originHost(origin);
  if (host === undefined) return false;
  return isLoopback(host) || new URL(origin).host === request.headers.host?.toLowerCase();
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
