import { ToolError } from "../../ports/errors.js";
import type { OpenedFile } from "../../files/path-guard.js";
import type { ToolContext, ToolOutput } from "../../ports/tool.js";
import { formatSize, detectFileType } from "./content.js";
import { MAX_FILE_BYTES, SeenFiles } from "./files.js";
import { MAX_MODEL_TEXT_BYTES } from "../../base/cut-text.js";

const MAX_LINE_CHARACTERS = 2_000;
const HEADER_BYTES = 8_192;
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
  const start = Buffer.alloc(HEADER_BYTES);
  const { bytesRead } = await file.handle.read(start, 0, HEADER_BYTES, 0);
  const content = detectFileType(start.subarray(0, bytesRead));
  if (content.kind === "binary")
    throw new ToolError(
      `${name}: is ${content.description} (${formatSize(bytes)}) and cannot be shown. Use bash with a program that reads it.`,
    );
  if (content.kind === "image") {
    if (bytes > MAX_IMAGE_BYTES)
      throw new ToolError(
        `${name}: the image is ${formatSize(bytes)}; at most 5 MiB can be shown. Reduce it with bash.`,
      );
    const data = (await readWhole(file, MAX_IMAGE_BYTES)).toString("base64");
    return {
      text: `${name}: ${content.mediaType}, ${formatSize(bytes)}. The image is attached.`,
      parts: [{ type: "image", mediaType: content.mediaType, data }],
      locations,
    };
  }

  const page = new Page(offset, limit);
  let isInvalidUtf8 = false;
  if (bytes <= MAX_FILE_BYTES) {
    // A short read: the whole file is already in the buffer.
    const fileBytes = bytesRead < HEADER_BYTES ? start.subarray(0, bytesRead) : await readWhole(file, MAX_FILE_BYTES);
    new SeenFiles(context).recordSeen(file.path, fileBytes);
    const decoded = new TextDecoder(content.encoding).decode(fileBytes);
    isInvalidUtf8 = content.encoding === "utf-8" && decoded.includes("\uFFFD") && !isUtf8(fileBytes);
    page.feed(decoded);
  } else {
    const decoder = new TextDecoder(content.encoding);
    const chunk = Buffer.alloc(256 * 1024);
    for (let position = 0; !page.isFull;) {
      context.signal.throwIfAborted();
      if (position >= MAX_SCAN_BYTES) {
        if (!page.hasReachedStart)
          throw new ToolError(
            `${name}: line ${offset} is not within the first ${formatSize(MAX_SCAN_BYTES)} of the file (${formatSize(bytes)}). Use bash with sed or tail.`,
          );
        page.isFull = true;
        break;
      }
      const { bytesRead: chunkBytes } = await file.handle.read(chunk, 0, chunk.length, position);
      if (chunkBytes === 0) break;
      position += chunkBytes;
      page.feed(decoder.decode(chunk.subarray(0, chunkBytes), { stream: true }));
    }
  }
  page.end();
  return { text: page.text(name, bytes, isInvalidUtf8), locations };
}

/** Reads at most `limit` bytes from the start, even if the file grows meanwhile. */
export async function readWhole(file: OpenedFile, limit: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for (let position = 0; position < limit;) {
    const requestedBytes = Math.min(limit - position, Math.max(65_536, Number(file.stats.size) - position + 1));
    const chunk = Buffer.allocUnsafe(requestedBytes);
    const { bytesRead } = await file.handle.read(chunk, 0, requestedBytes, position);
    if (bytesRead === 0) break;
    chunks.push(chunk.subarray(0, bytesRead));
    position += bytesRead;
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
  readonly #firstLine: number;
  readonly #lastLine: number;
  readonly #lines: string[] = [];
  #bytes = 0;
  /** The current line: its number, the kept part of its text, and its length. */
  #lineNumber = 1;
  #line = "";
  #lineLength = 0;
  #hasOpenLine = false;
  #isByteLimitReached = false;
  /** Whether all requested lines are complete and the file has more text. */
  isFull = false;

  constructor(offset: number, limit: number) {
    this.#firstLine = offset;
    this.#lastLine = offset + limit - 1;
  }

  feed(piece: string): void {
    let start = 0;
    while (start < piece.length) {
      const end = piece.indexOf("\n", start);
      const lineEnd = end < 0 ? piece.length : end;
      if (this.#lineNumber > this.#lastLine || this.#isByteLimitReached) this.isFull = true;
      if (this.#isLineRequested && this.#line.length <= MAX_LINE_CHARACTERS)
        this.#line += piece.slice(start, Math.min(lineEnd, start + MAX_LINE_CHARACTERS + 2 - this.#line.length));
      this.#lineLength += lineEnd - start;
      this.#hasOpenLine = true;
      if (end < 0) return;
      this.#finishLine();
      start = end + 1;
    }
  }

  end(): void {
    if (this.#hasOpenLine) this.#finishLine();
  }

  /** Whether the first requested line was reached. */
  get hasReachedStart(): boolean {
    return this.#lineNumber >= this.#firstLine;
  }

  get #isLineRequested(): boolean {
    return this.#lineNumber >= this.#firstLine && this.#lineNumber <= this.#lastLine && !this.#isByteLimitReached;
  }

  #finishLine(): void {
    if (this.#isLineRequested) {
      let line = this.#line.endsWith("\r") ? this.#line.slice(0, -1) : this.#line;
      if (line.length > MAX_LINE_CHARACTERS) {
        const shownStart = line.slice(0, MAX_LINE_CHARACTERS).replace(/[\uD800-\uDBFF]$/, "");
        line = `${shownStart}… [${(this.#lineLength - shownStart.length).toLocaleString("en-US")} more characters in this line]`;
      }
      const shownLine = `${this.#lineNumber}\t${line}`;
      this.#bytes += Buffer.byteLength(shownLine) + 1;
      if (this.#bytes > MAX_MODEL_TEXT_BYTES && this.#lines.length > 0) this.#isByteLimitReached = true;
      else this.#lines.push(shownLine);
    }
    this.#lineNumber++;
    this.#line = "";
    this.#lineLength = 0;
    this.#hasOpenLine = false;
  }

  text(name: string, bytes: number, isInvalidUtf8: boolean): string {
    const lineCount = this.#lineNumber - 1;
    if (lineCount === 0) return `${name} is empty.`;
    if (this.#lines.length === 0)
      throw new ToolError(
        `${name}: has ${lineCount} lines; line ${this.#firstLine} does not exist. Use a smaller offset.`,
      );
    const lastShown = this.#firstLine + this.#lines.length - 1;
    const notes: string[] = [];
    if (this.#isByteLimitReached || lastShown < lineCount || this.isFull) {
      const totalNote = this.isFull && bytes > MAX_FILE_BYTES ? `a file of ${formatSize(bytes)}` : `${lineCount}`;
      notes.push(`[lines ${this.#firstLine}-${lastShown} of ${totalNote}; continue with offset ${lastShown + 1}]`);
    }
    if (isInvalidUtf8) notes.push("[not valid UTF-8: each \uFFFD stands for bytes that cannot be shown]");
    return [...this.#lines, ...notes].join("\n");
  }
}
