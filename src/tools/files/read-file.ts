import { ToolError } from "../../ports/errors.js";
import type { OpenedFile } from "../../files/path-guard.js";
import type { ToolContext, ToolOutput } from "../../ports/tool.js";
import { size, sniff } from "./content.js";
import { MAX_FILE_BYTES, SeenFiles } from "./files.js";
import { MODEL_BYTES } from "../../base/cut-text.js";

const MAX_LINE_CHARACTERS = 2_000;
const SNIFF_BYTES = 8_192;
/** Maximum bytes of a large file that are scanned for lines. A sparse file can report any size. */
const MAX_SCAN_BYTES = 128 * 1024 * 1024;
/** The limit of the providers. */
const MAX_IMAGE_BYTES = 5 * 1024 * 1024;

/** Runs the `read` tool: `limit` lines of a text from `offset` on, or an image. Rejects with `ToolError`. */
export async function readFile(
  file: OpenedFile,
  name: string,
  offset: number,
  limit: number,
  context: ToolContext,
): Promise<ToolOutput> {
  const locations = [{ path: file.path, line: offset }];
  const bytes = Number(file.stats.size);
  const start = Buffer.alloc(SNIFF_BYTES);
  const { bytesRead } = await file.handle.read(start, 0, SNIFF_BYTES, 0);
  const content = sniff(start.subarray(0, bytesRead));
  if (content.kind === "binary")
    throw new ToolError(
      `${name}: is ${content.what} (${size(bytes)}) and cannot be shown. Use bash with a program that reads it.`,
    );
  if (content.kind === "image") {
    if (bytes > MAX_IMAGE_BYTES)
      throw new ToolError(`${name}: the image is ${size(bytes)}; at most 5 MiB can be shown. Reduce it with bash.`);
    const data = (await readWhole(file, MAX_IMAGE_BYTES)).toString("base64");
    return {
      text: `${name}: ${content.mediaType}, ${size(bytes)}. The image is attached.`,
      parts: [{ type: "image", mediaType: content.mediaType, data }],
      locations,
    };
  }

  const page = new Page(offset, limit);
  let invalid = false;
  if (bytes <= MAX_FILE_BYTES) {
    // A short read: the whole file is already in the buffer.
    const fileBytes = bytesRead < SNIFF_BYTES ? start.subarray(0, bytesRead) : await readWhole(file, MAX_FILE_BYTES);
    new SeenFiles(context).recordSeen(file.path, fileBytes);
    const decoded = new TextDecoder(content.encoding).decode(fileBytes);
    invalid = content.encoding === "utf-8" && decoded.includes("\uFFFD") && !isUtf8(fileBytes);
    page.feed(decoded);
  } else {
    const decoder = new TextDecoder(content.encoding);
    const chunk = Buffer.alloc(256 * 1024);
    for (let at = 0; !page.isFull;) {
      context.signal.throwIfAborted();
      if (at >= MAX_SCAN_BYTES) {
        if (!page.hasReachedStart)
          throw new ToolError(
            `${name}: line ${offset} is not within the first ${size(MAX_SCAN_BYTES)} of the file (${size(bytes)}). Use bash with sed or tail.`,
          );
        page.isFull = true;
        break;
      }
      const { bytesRead: got } = await file.handle.read(chunk, 0, chunk.length, at);
      if (got === 0) break;
      at += got;
      page.feed(decoder.decode(chunk.subarray(0, got), { stream: true }));
    }
  }
  page.end();
  return { text: page.text(name, bytes, invalid), locations };
}

/** Reads at most `limit` bytes from the start, even if the file grows meanwhile. */
export async function readWhole(file: OpenedFile, limit: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for (let at = 0; at < limit;) {
    const want = Math.min(limit - at, Math.max(65_536, Number(file.stats.size) - at + 1));
    const chunk = Buffer.allocUnsafe(want);
    const { bytesRead } = await file.handle.read(chunk, 0, want, at);
    if (bytesRead === 0) break;
    chunks.push(chunk.subarray(0, bytesRead));
    at += bytesRead;
  }
  return chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks);
}

function isUtf8(bytes: Buffer): boolean {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}

/** Receives text in pieces and keeps the requested lines. A line uses no more memory than its shown part. */
class Page {
  readonly #first: number;
  readonly #last: number;
  readonly #lines: string[] = [];
  #bytes = 0;
  /** The current line: its number, the kept part of its text, and its length. */
  #number = 1;
  #line = "";
  #length = 0;
  #hasOpenLine = false;
  #isByteLimitReached = false;
  /** Whether all requested lines are complete and the file has more text. */
  isFull = false;

  constructor(offset: number, limit: number) {
    this.#first = offset;
    this.#last = offset + limit - 1;
  }

  feed(piece: string): void {
    let from = 0;
    while (from < piece.length) {
      const end = piece.indexOf("\n", from);
      const stop = end < 0 ? piece.length : end;
      if (this.#number > this.#last || this.#isByteLimitReached) this.isFull = true;
      if (this.#isLineRequested && this.#line.length <= MAX_LINE_CHARACTERS)
        this.#line += piece.slice(from, Math.min(stop, from + MAX_LINE_CHARACTERS + 2 - this.#line.length));
      this.#length += stop - from;
      this.#hasOpenLine = true;
      if (end < 0) return;
      this.#finish();
      from = end + 1;
    }
  }

  end(): void {
    if (this.#hasOpenLine) this.#finish();
  }

  /** Whether the first requested line was reached. */
  get hasReachedStart(): boolean {
    return this.#number >= this.#first;
  }

  get #isLineRequested(): boolean {
    return this.#number >= this.#first && this.#number <= this.#last && !this.#isByteLimitReached;
  }

  #finish(): void {
    if (this.#isLineRequested) {
      let line = this.#line.endsWith("\r") ? this.#line.slice(0, -1) : this.#line;
      if (line.length > MAX_LINE_CHARACTERS) {
        const cut = line.slice(0, MAX_LINE_CHARACTERS).replace(/[\uD800-\uDBFF]$/, "");
        line = `${cut}… [${(this.#length - cut.length).toLocaleString("en-US")} more characters in this line]`;
      }
      const shownLine = `${this.#number}\t${line}`;
      this.#bytes += Buffer.byteLength(shownLine) + 1;
      if (this.#bytes > MODEL_BYTES && this.#lines.length > 0) this.#isByteLimitReached = true;
      else this.#lines.push(shownLine);
    }
    this.#number++;
    this.#line = "";
    this.#length = 0;
    this.#hasOpenLine = false;
  }

  text(name: string, bytes: number, invalid: boolean): string {
    const total = this.#number - 1;
    if (total === 0) return `${name} is empty.`;
    if (this.#lines.length === 0)
      throw new ToolError(`${name}: has ${total} lines; line ${this.#first} does not exist. Use a smaller offset.`);
    const last = this.#first + this.#lines.length - 1;
    const notes: string[] = [];
    if (this.#isByteLimitReached || last < total || this.isFull) {
      const of = this.isFull && bytes > MAX_FILE_BYTES ? `a file of ${size(bytes)}` : `${total}`;
      notes.push(`[lines ${this.#first}-${last} of ${of}; continue with offset ${last + 1}]`);
    }
    if (invalid) notes.push("[not valid UTF-8: each \uFFFD stands for bytes that cannot be shown]");
    return [...this.#lines, ...notes].join("\n");
  }
}
