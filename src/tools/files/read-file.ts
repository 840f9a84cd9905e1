import { ToolError } from "../../ports/errors.js";
import type { OpenedFile } from "../../files/path-guard.js";
import type { ToolContext, ToolOutput } from "../../ports/tool.js";
import { formatSize, detectFileType, DETECTION_BYTES } from "./content.js";
import { MAX_FILE_BYTES, SeenFiles } from "./files.js";
import { MAX_MODEL_TEXT_BYTES } from "../../base/cut-text.js";

const MAX_LINE_CHARACTERS = 2_000;
/** Maximum bytes of a large file that are scanned for lines. A sparse file can report any size. */
const MAX_SCAN_BYTES = 128 * 1024 * 1024;
/** Maximum size of an image: the limit of the providers. */
const MAX_IMAGE_BYTES = 5 * 1024 * 1024;
/** Bytes per read of a large file. */
const CHUNK_BYTES = 256 * 1024;
/** Minimum bytes per read of a file that grows. */
const MIN_READ_BYTES = 65_536;

/**
 * Runs the `read` tool: `limit` lines of a text or notebook, or pages of a PDF, from `offset` on, or an image. Rejects
 * with `ToolError`.
 */
export async function readFile(
  file: OpenedFile,
  name: string,
  offset: number,
  limit: number,
  context: ToolContext,
): Promise<ToolOutput> {
  const locations = [{ path: file.path, line: offset }];
  const sizeBytes = Number(file.stats.size);
  const headerBytes = Buffer.alloc(DETECTION_BYTES);
  const { bytesRead } = await file.handle.read(headerBytes, 0, DETECTION_BYTES, 0);
  const fileType = detectFileType(headerBytes.subarray(0, bytesRead));
  if (fileType.kind === "pdf") {
    const { readPdf } = await import("./read-pdf.js");
    const pdfOutput = await readPdf(file, name, offset, limit, context.signal);
    return { ...pdfOutput, locations: [{ path: file.path }] };
  }
  if (fileType.kind === "binary")
    throw new ToolError(
      `${name}: is ${fileType.description} (${formatSize(sizeBytes)}) and cannot be shown. Use bash with a program that reads it.`,
    );
  if (fileType.kind === "image") return { ...(await readImage(file, name, fileType.mediaType)), locations };

  const page = new Page(offset, limit);
  let isInvalidUtf8 = false;
  if (sizeBytes <= MAX_FILE_BYTES) {
    // A short read: the whole file is already in the buffer.
    const fileBytes =
      bytesRead < DETECTION_BYTES ? headerBytes.subarray(0, bytesRead) : await readWhole(file, MAX_FILE_BYTES);
    new SeenFiles(context).recordSeen(file.path, fileBytes);
    const decodedText = new TextDecoder(fileType.encoding).decode(fileBytes);
    isInvalidUtf8 = fileType.encoding === "utf-8" && decodedText.includes("\uFFFD") && !isUtf8(fileBytes);
    const notebook = file.path.endsWith(".ipynb")
      ? (await import("./read-notebook.js")).formatNotebook(decodedText)
      : undefined;
    if (notebook)
      page.notes.push(
        `[a view of the ${notebook.cellCount} cells, with its own line numbers; edit changes the JSON of the file, which bash shows]`,
      );
    page.feed(notebook?.text ?? decodedText);
  } else if (!(await scanLines(file, fileType.encoding, page, context.signal)))
    throw new ToolError(
      `${name}: line ${offset} is not within the first ${formatSize(MAX_SCAN_BYTES)} of the file (${formatSize(sizeBytes)}). Use bash with sed or tail.`,
    );
  page.end();
  return { text: page.format(name, sizeBytes, isInvalidUtf8), locations };
}

async function readImage(file: OpenedFile, name: string, mediaType: string): Promise<ToolOutput> {
  const size = formatSize(Number(file.stats.size));
  if (Number(file.stats.size) > MAX_IMAGE_BYTES)
    throw new ToolError(`${name}: the image is ${size}; at most 5 MiB can be shown. Reduce it with bash.`);
  const data = (await readWhole(file, MAX_IMAGE_BYTES)).toString("base64");
  return {
    text: `${name}: ${mediaType}, ${size}. The image is attached.`,
    parts: [{ type: "image", mediaType, data }],
  };
}

/** Feeds a large file to the page until the page is full. False if the page's first line is beyond `MAX_SCAN_BYTES`. */
async function scanLines(file: OpenedFile, encoding: string, page: Page, signal: AbortSignal): Promise<boolean> {
  const decoder = new TextDecoder(encoding);
  const chunk = Buffer.alloc(CHUNK_BYTES);
  for (let position = 0; !page.isFull;) {
    signal.throwIfAborted();
    if (position >= MAX_SCAN_BYTES) {
      page.isFull = true;
      return page.hasReachedStart;
    }
    const { bytesRead } = await file.handle.read(chunk, 0, chunk.length, position);
    if (bytesRead === 0) break;
    position += bytesRead;
    page.feed(decoder.decode(chunk.subarray(0, bytesRead), { stream: true }));
  }
  return true;
}

/** Reads at most `maxBytes` bytes from the start, even if the file grows meanwhile. */
export async function readWhole(file: OpenedFile, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for (let position = 0; position < maxBytes;) {
    const requestedBytes = Math.min(
      maxBytes - position,
      Math.max(MIN_READ_BYTES, Number(file.stats.size) - position + 1),
    );
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
  /** Number of the current line, from 1. */
  #lineNumber = 1;
  /** The kept part of the current line. */
  #line = "";
  /** Characters of the current line. */
  #lineLength = 0;
  #hasOpenLine = false;
  #isByteLimitReached = false;
  /** Whether all requested lines are complete and the file has more text. */
  isFull = false;
  /** Notes that are shown after the lines. */
  readonly notes: string[] = [];

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
        // The two further characters are a CR, and a character that shows that the line is longer.
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

  format(name: string, bytes: number, isInvalidUtf8: boolean): string {
    const lineCount = this.#lineNumber - 1;
    if (lineCount === 0) return `${name} is empty.`;
    if (this.#lines.length === 0)
      throw new ToolError(
        `${name}: has ${lineCount} lines; line ${this.#firstLine} does not exist. Use a smaller offset.`,
      );
    const lastShown = this.#firstLine + this.#lines.length - 1;
    const { notes } = this;
    if (this.#isByteLimitReached || lastShown < lineCount || this.isFull) {
      const totalNote = this.isFull && bytes > MAX_FILE_BYTES ? `a file of ${formatSize(bytes)}` : `${lineCount}`;
      notes.push(`[lines ${this.#firstLine}-${lastShown} of ${totalNote}; continue with offset ${lastShown + 1}]`);
    }
    if (isInvalidUtf8) notes.push("[not valid UTF-8: each \uFFFD stands for bytes that cannot be shown]");
    return [...this.#lines, ...notes].join("\n");
  }
}
