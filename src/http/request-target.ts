import type { IncomingMessage } from "node:http";

/**
 * Replaces an absolute target `http://host/path`, which clients send to proxies, with its path. Returns false if the
 * target is invalid.
 */
export function rewriteToOriginForm(request: IncomingMessage): boolean {
  const target = request.url ?? "/";
  if (target.startsWith("/") || (target === "*" && request.method === "OPTIONS")) return true;
  const [, authority, path] = /^https?:\/\/([^/?#]+)(.*)$/i.exec(target) ?? [];
  if (authority === undefined || path === undefined) return false;
  // The authority of the target overrides the `Host` header, which the checks read.
  const hostIndex = request.rawHeaders.findIndex((name, i) => i % 2 === 0 && name.toLowerCase() === "host");
  if (hostIndex === -1) request.rawHeaders.push("Host", authority);
  else request.rawHeaders[hostIndex + 1] = authority;
  request.headers.host = authority;
  request.url = path.startsWith("/") ? path : `/${path}`;
  return true;
}

/** The path of a request, without its query. */
export function pathOf(request: IncomingMessage): string {
  return (request.url ?? "/").split(/[?#]/, 1)[0] ?? "/";
}
