/** Default limit, in bytes, of text that a tool returns to a model: about 8,000 tokens. */
export const MAX_MODEL_TEXT_BYTES = 30_000;

/** Maximum distance from a cut to a line end. If a line ends within this distance, the cut is moved to the line end. */
const MAX_LINE_SEARCH_BYTES = 2_000;
/** Room for the inserted line without its hint. */
const NOTE_BYTES = 120;
/** Maximum number of stored chunks. Many small chunks use more memory as objects than for their bytes. */
const MAX_CHUNKS = 256;
const LINE_FEED = 10;

/**
 * Shortens `text` to at most `maxBytes` bytes of UTF-8. Removes the middle, keeps the start and the end, and inserts a
 * line that states how much was removed.
 */
export function capText(text: string, maxBytes: number): string {
  return cutMiddle(text, maxBytes);
}

/** As `capText`. `hint` is added to the inserted line and explains how to read the removed part. */
export function cutMiddle(text: string, maxBytes: number, hint = ""): string {
  // A UTF-16 unit takes at most 3 bytes, so most texts need no byte count.
  if (text.length * 3 <= maxBytes) return text;
  if (Buffer.byteLength(text) <= maxBytes) return text;
  const buffer = Buffer.from(text);
  const halfBytes = Math.max(0, Math.floor((maxBytes - NOTE_BYTES - hint.length * 3) / 2));
  return joinHeadAndTail(headOf(buffer, halfBytes), tailOf(buffer, halfBytes), buffer.length, maxBytes, hint);
}

function joinHeadAndTail(head: Buffer, tail: Buffer, totalBytes: number, maxBytes: number, hint: string): string {
  const cutBytes = (totalBytes - head.length - tail.length).toLocaleString("en-US");
  const note = `[... ${cutBytes} bytes cut from the middle${hint === "" ? "" : `; ${hint}`} ...]`;
  const breakAfterHead = head.length > 0 && head[head.length - 1] !== LINE_FEED ? "\n" : "";
  const breakBeforeTail = tail.length > 0 ? "\n" : "";
  const text = `${head.toString()}${breakAfterHead}${note}${breakBeforeTail}${tail.toString()}`;
  return Buffer.byteLength(text) <= maxBytes ? text : headOf(Buffer.from(note), maxBytes, false).toString();
}

/**
 * Returns the first bytes of `buffer`, at most `maxBytes`. With `prefersLineEnd`, ends after a line if a line ends
 * close to the limit. Never splits a code point.
 */
function headOf(buffer: Buffer, maxBytes: number, prefersLineEnd = true): Buffer {
  if (buffer.length <= maxBytes) return buffer;
  let end = maxBytes;
  const lineEnd = prefersLineEnd ? buffer.lastIndexOf(LINE_FEED, end - 1) + 1 : 0;
  if (lineEnd > 0 && end - lineEnd <= Math.min(MAX_LINE_SEARCH_BYTES, maxBytes / 2)) return buffer.subarray(0, lineEnd);
  while (end > 0 && isContinuation(buffer[end])) end--;
  return buffer.subarray(0, end);
}

/** Returns the last bytes of `buffer`, at most `maxBytes`. Starts with a line if a line starts close to the limit. */
function tailOf(buffer: Buffer, maxBytes: number): Buffer {
  if (buffer.length <= maxBytes) return buffer;
  let start = buffer.length - maxBytes;
  const lineStart = buffer.indexOf(LINE_FEED, start) + 1;
  if (lineStart > 0 && lineStart < buffer.length && lineStart - start <= Math.min(MAX_LINE_SEARCH_BYTES, maxBytes / 2))
    return buffer.subarray(lineStart);
  while (start < buffer.length && isContinuation(buffer[start])) start++;
  return buffer.subarray(start);
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}

/** A function that removes parts of a text before the text is shortened, such as secrets. */
export interface Cleaning {
  clean(text: string): string;
  /** Maximum length of a part that `clean` removes, in characters. */
  reach: number;
}

/**
 * Stores the start and the end of a stream of any length. Memory is bounded by twice `maxShownBytes`, twice the reach
 * of the cleaning, and one chunk.
 *
 * Stores more text than it shows. Without text beyond the cut, `clean` would not find a match that the cut splits, and
 * half of the match would stay visible.
 */
export class HeadTail {
  readonly #halfBytes: number;
  readonly #maxPartBytes: number;
  readonly #cleaning: Cleaning | undefined;
  #head: Buffer[] = [];
  #headBytes = 0;
  #tail: Buffer[] = [];
  #tailBytes = 0;
  #totalBytes = 0;

  constructor(
    readonly maxShownBytes: number,
    cleaning?: Cleaning,
  ) {
    this.#halfBytes = Math.max(1, Math.floor(maxShownBytes / 2));
    this.#cleaning = cleaning;
    // A character takes at most four bytes.
    this.#maxPartBytes = this.#halfBytes + 4 * (cleaning?.reach ?? 0);
  }

  push(chunk: Buffer): void {
    this.#totalBytes += chunk.length;
    let remainingChunk = chunk;
    if (this.#headBytes < this.#maxPartBytes) {
      const part = remainingChunk.subarray(0, this.#maxPartBytes - this.#headBytes);
      this.#head.push(part);
      this.#headBytes += part.length;
      remainingChunk = remainingChunk.subarray(part.length);
    }
    if (remainingChunk.length === 0) return;
    this.#tail.push(remainingChunk);
    this.#tailBytes += remainingChunk.length;
    for (
      let [firstChunk] = this.#tail;
      firstChunk && this.#tailBytes - firstChunk.length >= this.#maxPartBytes;
      [firstChunk] = this.#tail
    ) {
      this.#tail.shift();
      this.#tailBytes -= firstChunk.length;
    }
    if (this.#tail.length > MAX_CHUNKS) this.#tail = [Buffer.concat(this.#tail)];
    if (this.#head.length > MAX_CHUNKS) this.#head = [Buffer.concat(this.#head)];
  }

  /** The stored bytes, before the cleaning. */
  get chunks(): readonly Buffer[] {
    return [...this.#head, ...this.#tail];
  }

  /** Whether bytes in the middle were not stored. */
  get isCut(): boolean {
    return this.#totalBytes > this.#headBytes + this.#tailBytes;
  }

  /**
   * Returns the stored text, cleaned. `hint` is added to the line that replaces the removed middle. Bytes that are not
   * valid UTF-8 become U+FFFD.
   */
  text(hint = ""): string {
    const head = Buffer.concat(this.#head);
    const tail = Buffer.concat(this.#tail);
    const shownBytes = Math.max(0, this.#halfBytes - NOTE_BYTES / 2 - hint.length);
    const isComplete = this.#totalBytes === head.length + tail.length;
    if (!this.#cleaning) {
      if (isComplete && this.#totalBytes <= this.maxShownBytes) return Buffer.concat([head, tail]).toString();
      return joinHeadAndTail(
        headOf(head, shownBytes),
        tailOf(tail, shownBytes),
        this.#totalBytes,
        Number.POSITIVE_INFINITY,
        hint,
      );
    }
    const { clean, reach } = this.#cleaning;
    // The whole stream is stored: the caller may shorten the cleaned text.
    if (isComplete) return clean(Buffer.concat([head, tail]).toString());
    const cleanedHead = clean(head.toString());
    // At the cut, a partial match cannot be distinguished from other text.
    const certainHead = Buffer.from(cleanedHead.slice(0, Math.max(0, cleanedHead.length - reach)));
    const certainTail = Buffer.from(clean(tail.toString()).slice(reach));
    return joinHeadAndTail(
      headOf(certainHead, shownBytes),
      tailOf(certainTail, shownBytes),
      this.#totalBytes,
      Number.POSITIVE_INFINITY,
      hint,
    );
  }
}
