import { escapeInvisible } from "../../base/printable.js";
import type { Dispatcher, Response } from "undici";
import { createDeadline } from "../../base/abort.js";
import { ToolError, ToolInputError, WorkLimitError } from "../../ports/errors.js";
import type { PageText } from "../../untrusted/html/page.js";
import { withWorker } from "../../untrusted/workers.js";
import type { ToolOutput } from "../../ports/tool.js";
import { formatSize, detectFileType, DETECTION_BYTES } from "../files/content.js";
import { MAX_MODEL_TEXT_BYTES } from "../../base/cut-text.js";

export interface WebfetchOptions {
  /** Whether addresses outside the public internet may be fetched. */
  allowPrivate: boolean;
  /** Time limit for the request with all redirects, in ms. Default: 30,000. */
  timeoutMs?: number;
}

/** Arguments of the `webfetch` tool; see its schema. */
export interface WebfetchArgs {
  url: string;
  offset: number;
  raw: boolean;
}

const MAX_PAGE_BYTES = 5 * 1024 * 1024;
const MAX_PDF_PAGES = 1_000;
const MAX_REDIRECTS = 5;
/** Time limit for converting a page to text, in ms. */
const CONVERT_TIMEOUT_MS = 5_000;
/** Maximum bytes read of the page of an HTTP error. */
const MAX_ERROR_PAGE_BYTES = 64 * 1024;
/** Initial size of the buffer for a response. */
const INITIAL_BUFFER_BYTES = 16 * 1024;
/** Maximum characters of an error page in the error message. */
const MAX_REASON_CHARACTERS = 300;
/** Maximum nested causes of an error that are searched, because causes may form a loop. */
const MAX_CAUSES = 5;
const ACCEPT_HEADER = "text/html,application/xhtml+xml,text/markdown,text/plain,application/json;q=0.9,*/*;q=0.8";

/** Fetches a page and formats it for the model. Rejects with `ToolError`, or with the signal's reason. */
export async function fetchPage(
  args: WebfetchArgs,
  { allowPrivate, timeoutMs = 30_000 }: WebfetchOptions,
  signal: AbortSignal,
): Promise<ToolOutput> {
  const dispatcher = await createDispatcher(allowPrivate);
  const timeout = createDeadline(timeoutMs, signal);
  try {
    const page = await loadPage(args.url, allowPrivate, dispatcher, timeout.signal);
    // The conversion has its own time limit.
    timeout.clear();
    return await formatPage(args, page, signal);
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    if (timeout.hasExpired) throw new ToolError(`${args.url}: the request timed out. Try another address.`);
    throw await toToolError(args.url, error);
  } finally {
    timeout.clear();
    await dispatcher.destroy();
  }
}

/**
 * Parses an address and removes its fragment. Throws `ToolInputError` unless it is http or https and has no user name
 * and password.
 */
export function parseUrl(address: string): URL {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (!url || (url.protocol !== "http:" && url.protocol !== "https:"))
    throw new ToolInputError(`url: expected an http or https address, got ${JSON.stringify(address.slice(0, 200))}`);
  if (url.username !== "" || url.password !== "")
    throw new ToolInputError("url: must not contain a user name or password. Remove them.");
  url.hash = "";
  return url;
}

/**
 * Creates the connection pool of one call. Unless private addresses are allowed, each connection is checked when it is
 * made.
 */
export async function createDispatcher(allowPrivate: boolean): Promise<Dispatcher> {
  // Uses the default export: in a bundle, a CommonJS package has no named exports.
  const { Agent, buildConnector } = (await import("undici")).default;
  if (allowPrivate) return new Agent();
  const { isPublicPeer, lookupPublicAddress, NotPublicError } = await import("./public-address.js");
  const connect = buildConnector({ lookup: lookupPublicAddress });
  return new Agent({
    connect: (target, callback) =>
      connect(target, (error, socket) => {
        if (error || !socket) return callback(error ?? new Error("no socket"), null);
        if (isPublicPeer(socket)) return callback(null, socket);
        socket.destroy();
        callback(new NotPublicError(target.hostname), null);
      }),
  });
}

interface LoadedPage {
  url: string;
  type: string;
  charset: string | undefined;
  body: Buffer;
  /** Whether the response is longer than the limit. */
  isTruncated: boolean;
}

async function loadPage(
  requestedUrl: string,
  allowPrivate: boolean,
  dispatcher: Dispatcher,
  signal: AbortSignal,
): Promise<LoadedPage> {
  const { fetch } = (await import("undici")).default;
  let url = requestedUrl;
  for (let redirects = 0; ; redirects++) {
    if (!allowPrivate) await refusePrivateLiteral(url);
    const response = await fetch(url, {
      dispatcher,
      signal,
      redirect: "manual",
      headers: { accept: ACCEPT_HEADER, "user-agent": "gantry (coding agent)" },
    });
    const nextUrl = response.status >= 300 && response.status < 400 ? response.headers.get("location") : null;
    if (nextUrl === null) return receivePage(response, url, signal);
    await response.body?.cancel();
    if (redirects === MAX_REDIRECTS)
      throw new ToolError(`${requestedUrl}: more than ${MAX_REDIRECTS} redirects. Try another address.`);
    try {
      url = parseUrl(new URL(nextUrl, url).href).href;
    } catch {
      throw new ToolError(
        `${requestedUrl}: redirects to ${nextUrl.slice(0, 200)}, which is not an http or https address.`,
      );
    }
  }
}

/** Checks a literal IP address before the request, because it is connected to without a lookup. */
async function refusePrivateLiteral(url: string): Promise<void> {
  const { isIP } = await import("node:net");
  const host = new URL(url).hostname.replace(/^\[|\]$/g, "");
  if (isIP(host) === 0) return;
  const { isPublicAddress, NotPublicError } = await import("./public-address.js");
  if (!isPublicAddress(host)) throw new NotPublicError(host);
}

/** Reads the first `maxBytes` bytes of the body. */
export async function readBody(response: Response, maxBytes: number): Promise<Buffer> {
  // One growing buffer: a server that sends single bytes would otherwise create a million small ones.
  let body = Buffer.allocUnsafe(INITIAL_BUFFER_BYTES);
  let bytes = 0;
  if (response.body) {
    for await (const chunk of response.body) {
      const part = (chunk as Uint8Array).subarray(0, maxBytes - bytes);
      if (bytes + part.length > body.length)
        body = Buffer.concat([body], Math.min(maxBytes, Math.max(2 * body.length, bytes + part.length)));
      body.set(part, bytes);
      bytes += part.length;
      // Leaving the loop ends the transfer.
      if (bytes >= maxBytes) break;
    }
  }
  return body.subarray(0, bytes);
}

async function receivePage(response: Response, url: string, signal: AbortSignal): Promise<LoadedPage> {
  const [type = "", ...parameters] = (response.headers.get("content-type") ?? "").split(";").map((part) => part.trim());
  const charset = parameters
    .find((parameter) => /^charset=/i.test(parameter))
    ?.slice(8)
    .replaceAll('"', "");
  const maxBytes = response.ok ? MAX_PAGE_BYTES : MAX_ERROR_PAGE_BYTES;
  const body = await readBody(response, maxBytes);
  const page = {
    url,
    type: type.toLowerCase(),
    charset,
    body,
    isTruncated: body.length >= maxBytes,
  };
  if (!response.ok) {
    const reason = await convertToText(page, { raw: false, offset: 0, maxBytes: 2_000 }, signal).then(
      (page) => page?.text.replace(/\s+/g, " ").trim().slice(0, MAX_REASON_CHARACTERS),
      () => "",
    );
    const status = escapeInvisible(`HTTP ${response.status} ${response.statusText}${reason ? ` (${reason})` : ""}`);
    throw new ToolError(`${url}: ${status}. Check the address, or try another.`);
  }
  return page;
}

async function formatPage(
  { offset, raw, url: requestedUrl }: WebfetchArgs,
  loadedPage: LoadedPage,
  signal: AbortSignal,
): Promise<ToolOutput> {
  const content = detectFileType(loadedPage.body.subarray(0, DETECTION_BYTES));
  if (content.kind === "image" && !loadedPage.isTruncated)
    return {
      text: `${loadedPage.url}: ${content.mediaType}, ${formatSize(loadedPage.body.length)}. The image is attached.`,
      parts: [{ type: "image", mediaType: content.mediaType, data: loadedPage.body.toString("base64") }],
    };
  if (content.kind === "pdf" && !loadedPage.isTruncated) {
    const { formatPages, readPdfText } = await import("../files/read-pdf.js");
    // The offset counts the pages of a PDF, from 1.
    const firstPage = Math.max(1, offset);
    const pdf = await readPdfText(loadedPage.body, loadedPage.url, firstPage, MAX_PDF_PAGES, signal);
    return { text: formatPages(firstPage, pdf) };
  }
  const page = await convertToText(loadedPage, { raw, offset, maxBytes: MAX_MODEL_TEXT_BYTES }, signal);
  if (page === undefined) {
    const description = "description" in content ? content.description : loadedPage.type || "binary data";
    throw new ToolError(`${loadedPage.url}: is ${description} and cannot be shown. Use bash with curl to save it.`);
  }
  if (page.isBlank)
    return { text: `${loadedPage.url} has no text. It may need a browser; set raw to show its source.` };
  if (offset >= page.length)
    throw new ToolError(
      `${requestedUrl}: has ${page.length} characters; offset ${offset} is past the end. Use a smaller offset.`,
    );
  const notes: string[] = [];
  if (loadedPage.url !== requestedUrl) notes.push(`[redirected to ${loadedPage.url}]`);
  const end = offset + page.text.length;
  if (end < page.length) notes.push(`[characters ${offset}-${end} of ${page.length}; continue with offset ${end}]`);
  if (loadedPage.isTruncated) notes.push("[only the first 5 MiB were fetched]");
  if (page.isTruncated) notes.push("[the page is too long to read completely; set raw to show its source]");
  return { text: [notes.length > 0 ? page.text.replace(/\n$/, "") : page.text, ...notes].join("\n") };
}

/** Converts a page to text. Undefined if the page is not text. */
async function convertToText(
  { url, type, charset, body }: LoadedPage,
  { raw, offset, maxBytes }: { raw: boolean; offset: number; maxBytes: number },
  signal: AbortSignal,
): Promise<PageText | undefined> {
  const content = detectFileType(body.subarray(0, DETECTION_BYTES));
  if (content.kind !== "text") return undefined;
  const isHtml =
    type === "text/html" ||
    type === "application/xhtml+xml" ||
    (type === "" && /^\s*<(!doctype html|html)/i.test(body.toString("latin1", 0, 500)));
  const namedCharset =
    charset ??
    (isHtml ? /<meta[^>]{0,200}charset=["']?([\w-]+)/i.exec(body.toString("latin1", 0, 2_048))?.[1] : undefined);
  // `body` is a copy, because the memory is transferred to the worker.
  const job = {
    body: new Uint8Array(body),
    isHtml: isHtml && !raw,
    charset: namedCharset ?? content.encoding,
    url,
    offset,
    maxBytes,
  };
  try {
    return await withWorker(signal, (thread) =>
      thread.runJob("page", job, { ms: CONVERT_TIMEOUT_MS, transfer: [job.body] }),
    );
  } catch (error) {
    if (!(error instanceof WorkLimitError)) throw error;
    throw new ToolError(`${url}: cannot be read as text: ${error.message}. Set raw to show its source.`, {
      cause: error,
    });
  }
}

async function toToolError(url: string, error: unknown): Promise<ToolError> {
  if (error instanceof ToolError) return error;
  const { NotPublicError } = await import("./public-address.js");
  const causes: unknown[] = [];
  for (let cause: unknown = error; cause instanceof Error && causes.length < MAX_CAUSES; cause = cause.cause)
    causes.push(cause);
  const notPublicError = causes.find((cause) => cause instanceof NotPublicError);
  if (notPublicError instanceof NotPublicError)
    return new ToolError(
      `${url}: ${notPublicError.message}, so it is not fetched. The user can allow it with tools.webfetch.allow_private.`,
      { cause: error },
    );
  const rootCause = (causes.at(-1) ?? error) as NodeJS.ErrnoException;
  const reason = rootCause.code === "ENOTFOUND" ? "host not found" : rootCause.message || (rootCause.code ?? "failed");
  return new ToolError(`${url}: ${reason}. Check the address, or try another.`, { cause: error });
}
