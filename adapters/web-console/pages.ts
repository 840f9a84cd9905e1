import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { answer, type HttpHost, type Refusal } from "gantry/http";
import { CONSOLE_PATH } from "./console-path.js";
import type { OneTimeLinks } from "./one-time-links.js";
import type { WebConsoleOptions } from "./options.js";
import { SECURITY_HEADERS } from "./security-headers.js";

const ASSETS_PATH = `${CONSOLE_PATH}/assets/`;
const LINKS_PATH = `${CONSOLE_PATH}/links`;
const LOGIN_PATH = `${CONSOLE_PATH}/login`;

/** Content types by file extension, for all files of the build. */
const CONTENT_TYPES: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".ico": "image/x-icon",
  ".js": "text/javascript; charset=utf-8",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".webmanifest": "application/manifest+json",
};
/** Matches names of files of the build, but no folder and no hidden file. */
const FILE_NAME_PATTERN = /^[A-Za-z0-9][\w.-]*$/;

/** Characters of a base64 hash in an `ETag`: about 160 bits. */
const ETAG_CHARACTERS = 27;

const NOT_FOUND_REFUSAL: Refusal = { status: 404, message: "not found", code: "not_found" };
const NOT_BUILT_REFUSAL: Refusal = {
  status: 404,
  message: "the console is not built: run npm run build in gantry's folder",
  code: "not_found",
};
const createNotAllowedRefusal = (allowedMethods: string): Refusal => ({
  status: 405,
  message: `method not allowed; expected ${allowedMethods}`,
  code: "method_not_allowed",
  headers: { Allow: allowedMethods },
});

/** Serves the built pages of the console, and the login with one-time links. */
export class ConsolePages {
  readonly #pagesDir: string;
  readonly #host: HttpHost;
  readonly #requiredHeaders: Readonly<Record<string, string>>;
  #links: Promise<OneTimeLinks> | undefined;

  constructor({ requiredHeaders = {}, assets: pagesDir }: WebConsoleOptions, host: HttpHost) {
    this.#host = host;
    // Relative to the bundle of this package, see .ci/build.mjs.
    this.#pagesDir = pagesDir ?? fileURLToPath(new URL("../../dist/console/", import.meta.url));
    this.#requiredHeaders = requiredHeaders;
  }

  /** Answers a request below `/console`. Rejects if an existing file cannot be read. */
  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? "").split("?", 1)[0] ?? "";
    const { method } = request;
    if (path === LINKS_PATH || path === LOGIN_PATH) {
      if (method !== "POST") return answer(response, createNotAllowedRefusal("POST"), SECURITY_HEADERS);
      const links = await (this.#links ??= this.#loadLinks());
      return path === LINKS_PATH
        ? links.respondWithLink(response, this.#getLinkHeaders(request))
        : links.redeem(request, response, () => this.#getTokenHeaders(request));
    }
    if (method !== "GET" && method !== "HEAD")
      return answer(response, createNotAllowedRefusal("GET, HEAD"), SECURITY_HEADERS);
    if (path === CONSOLE_PATH || path === `${CONSOLE_PATH}/`) return this.#sendFile(request, response, "index.html");
    const name = path.startsWith(ASSETS_PATH) ? path.slice(ASSETS_PATH.length) : "";
    if (!FILE_NAME_PATTERN.test(name) || CONTENT_TYPES[extname(name)] === undefined)
      return answer(response, NOT_FOUND_REFUSAL, SECURITY_HEADERS);
    return this.#sendFile(request, response, `assets/${name}`);
  }

  /** Answers a request that the HTTP host has refused. */
  refuse(response: ServerResponse, refusal: Refusal): void {
    answer(response, refusal, SECURITY_HEADERS);
  }

  async #loadLinks(): Promise<OneTimeLinks> {
    const { OneTimeLinks } = await import("./one-time-links.js");
    return new OneTimeLinks();
  }

  /** Headers that a new link gives to a page: the required headers, otherwise the token of the request. */
  #getLinkHeaders(request: IncomingMessage): Readonly<Record<string, string>> {
    const { authorization } = request.headers;
    if (Object.keys(this.#requiredHeaders).length > 0) return this.#requiredHeaders;
    return authorization !== undefined && this.#host.isFromPerson(request) ? { Authorization: authorization } : {};
  }

  /** The `Authorization` header for a page that was opened without a link. Empty for a page that gets no token. */
  #getTokenHeaders(request: IncomingMessage): Readonly<Record<string, string>> {
    const { "sec-fetch-site": site = "same-origin" } = request.headers;
    const token = site === "same-origin" ? this.#host.tokenFor(request) : undefined;
    return token === undefined ? {} : { Authorization: `Bearer ${token}` };
  }

  async #sendFile(request: IncomingMessage, response: ServerResponse, name: string): Promise<void> {
    const isPage = name === "index.html";
    const acceptsGzip = /\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/.test(request.headers["accept-encoding"] ?? "");
    const file = join(this.#pagesDir, name);
    const gzipBody = acceptsGzip ? await readOptionalFile(`${file}.gz`) : undefined;
    const body = gzipBody ?? (await readOptionalFile(file));
    if (body === undefined) return answer(response, isPage ? NOT_BUILT_REFUSAL : NOT_FOUND_REFUSAL, SECURITY_HEADERS);
    const etag = `"${createHash("sha256").update(body).digest("base64url").slice(0, ETAG_CHARACTERS)}"`;
    const headers = {
      ...SECURITY_HEADERS,
      // The file name contains a hash of the content, except for the page itself.
      "Cache-Control": isPage ? "no-cache" : "public, max-age=31536000, immutable",
      ETag: etag,
      Vary: "Accept-Encoding",
    };
    if (matchesETag(request, etag)) {
      response.writeHead(304, headers).end();
      return;
    }
    response.writeHead(200, {
      ...headers,
      "Content-Type": CONTENT_TYPES[extname(name)],
      "Content-Length": body.length,
      ...(gzipBody && { "Content-Encoding": "gzip" }),
    });
    response.end(request.method === "HEAD" ? undefined : body);
  }
}

/** Whether the client already has this version of the file. */
function matchesETag(request: IncomingMessage, etag: string): boolean {
  const clientTags = request.headers["if-none-match"];
  return (
    clientTags !== undefined && clientTags.split(",").some((candidate) => candidate.trim().replace(/^W\//, "") === etag)
  );
}

/** Undefined if the file does not exist. Rejects with other errors. */
async function readOptionalFile(file: string): Promise<Buffer | undefined> {
  try {
    return await readFile(file);
  } catch (error) {
    if (/^(ENOENT|ENOTDIR|EISDIR)$/.test((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
}
