import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { answer, type HttpHost, type Refusal } from "gantry/http";
import type { OneTimeLinks } from "./one-time-links.js";
import type { WebConsoleOptions } from "./options.js";
import { ADDRESS, ASSETS, LINKS, LOGIN, SECURITY } from "./paths.js";

/** Content types by file extension, for all files of the build. */
const TYPES: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".ico": "image/x-icon",
  ".js": "text/javascript; charset=utf-8",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".webmanifest": "application/manifest+json",
};
/** Valid file names of the build: no folder, no hidden file. */
const NAME = /^[A-Za-z0-9][\w.-]*$/;

const NOT_FOUND: Refusal = { status: 404, message: "not found", code: "not_found" };
const NOT_BUILT: Refusal = {
  status: 404,
  message: "the console is not built: run npm run build in gantry's folder",
  code: "not_found",
};
const notAllowed = (allow: string): Refusal => ({
  status: 405,
  message: `method not allowed; expected ${allow}`,
  code: "method_not_allowed",
  headers: { Allow: allow },
});

/** Serves the built pages of the console, and the login with one-time links. */
export class ConsolePages {
  readonly #folder: string;
  readonly #host: HttpHost;
  readonly #headers: Readonly<Record<string, string>>;
  #links: Promise<OneTimeLinks> | undefined;

  constructor({ requiredHeaders = {}, assets }: WebConsoleOptions, host: HttpHost) {
    this.#host = host;
    // Relative to the bundle of this package, see .ci/build.mjs.
    this.#folder = assets ?? fileURLToPath(new URL("../../dist/console/", import.meta.url));
    this.#headers = requiredHeaders;
  }

  /** Answers a request below `/console`. Rejects if an existing file cannot be read. */
  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? "").split("?", 1)[0] ?? "";
    const { method } = request;
    if (path === LINKS || path === LOGIN) {
      if (method !== "POST") return answer(response, notAllowed("POST"), SECURITY);
      const links = await (this.#links ??= this.#loadLinks());
      return path === LINKS
        ? links.make(response, this.#headersOf(request))
        : links.use(request, response, () => this.#tokenFor(request));
    }
    if (method !== "GET" && method !== "HEAD") return answer(response, notAllowed("GET, HEAD"), SECURITY);
    if (path === ADDRESS || path === `${ADDRESS}/`) return this.#send(request, response, "index.html");
    const name = path.startsWith(ASSETS) ? path.slice(ASSETS.length) : "";
    if (!NAME.test(name) || TYPES[extname(name)] === undefined) return answer(response, NOT_FOUND, SECURITY);
    return this.#send(request, response, `assets/${name}`);
  }

  /** Answers a request that the HTTP host has refused. */
  refuse(response: ServerResponse, refusal: Refusal): void {
    answer(response, refusal, SECURITY);
  }

  async #loadLinks(): Promise<OneTimeLinks> {
    const { OneTimeLinks } = await import("./one-time-links.js");
    return new OneTimeLinks();
  }

  /** Headers that a link gives to a page: the required ones, or else the token of the request. */
  #headersOf(request: IncomingMessage): Readonly<Record<string, string>> {
    const { authorization } = request.headers;
    if (Object.keys(this.#headers).length > 0) return this.#headers;
    return authorization !== undefined && this.#host.isOfPerson(request) ? { Authorization: authorization } : {};
  }

  /** The token for a page that was opened without a link. A page of another origin gets none. */
  #tokenFor(request: IncomingMessage): Readonly<Record<string, string>> {
    const { "sec-fetch-site": site = "same-origin" } = request.headers;
    const token = site === "same-origin" ? this.#host.tokenFor(request) : undefined;
    return token === undefined ? {} : { Authorization: `Bearer ${token}` };
  }

  async #send(request: IncomingMessage, response: ServerResponse, name: string): Promise<void> {
    const isPage = name === "index.html";
    const packed = /\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/.test(request.headers["accept-encoding"] ?? "");
    const file = join(this.#folder, name);
    const zipped = packed ? await read(`${file}.gz`) : undefined;
    const body = zipped ?? (await read(file));
    if (body === undefined) return answer(response, isPage ? NOT_BUILT : NOT_FOUND, SECURITY);
    const tag = `"${createHash("sha256").update(body).digest("base64url").slice(0, 27)}"`;
    const headers = {
      ...SECURITY,
      // The file name contains a hash of the content, except for the page itself.
      "Cache-Control": isPage ? "no-cache" : "public, max-age=31536000, immutable",
      ETag: tag,
      Vary: "Accept-Encoding",
    };
    if (knows(request, tag)) {
      response.writeHead(304, headers).end();
      return;
    }
    response.writeHead(200, {
      ...headers,
      "Content-Type": TYPES[extname(name)],
      "Content-Length": body.length,
      ...(zipped && { "Content-Encoding": "gzip" }),
    });
    response.end(request.method === "HEAD" ? undefined : body);
  }
}

function knows(request: IncomingMessage, tag: string): boolean {
  const clientTags = request.headers["if-none-match"];
  return (
    clientTags !== undefined && clientTags.split(",").some((candidate) => candidate.trim().replace(/^W\//, "") === tag)
  );
}

async function read(file: string): Promise<Buffer | undefined> {
  try {
    return await readFile(file);
  } catch (error) {
    if (/^(ENOENT|ENOTDIR|EISDIR)$/.test((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
}
