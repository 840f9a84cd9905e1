/** Default limit, in bytes, of text that a tool returns to a model: about 8,000 tokens. */
export const MAX_MODEL_TEXT_BYTES = 30_000;

const MAX_LINE_SEARCH_BYTES = 2_000;

/**
 * Shortens `text` to at most `bytes` bytes of UTF-8. Removes the middle, keeps the start and the end, and inserts a
 * line that states how much was removed.
 */
export function capText(text: string, bytes: number): string {
  return cutMiddle(text, bytes);
}

/** As `capText`. `hint` is added to the inserted line and explains how to read the removed part. */
export function cutMiddle(text: string, bytes: number, hint = ""): string {
  // A UTF-16 unit takes at most 3 bytes, so most texts need no byte count.
  if (text.length * 3 <= bytes) return text;
  if (Buffer.byteLength(text) <= bytes) return text;
  const buffer = Buffer.from(text);
  const halfBytes = Math.max(0, Math.floor((bytes - 120 - hint.length * 3) / 2));
  return joinHeadAndTail(headOf(buffer, halfBytes), tailOf(buffer, halfBytes), buffer.length, bytes, hint);
}

function joinHeadAndTail(head: Buffer, tail: Buffer, totalBytes: number, bytes: number, hint: string): string {
  const cutBytes = (totalBytes - head.length - tail.length).toLocaleString("en-US");
  const note = `[... ${cutBytes} bytes cut from the middle${hint === "" ? "" : `; ${hint}`} ...]`;
  const breakAfterHead = head.length > 0 && head[head.length - 1] !== 10 ? "\n" : "";
  const breakBeforeTail = tail.length > 0 ? "\n" : "";
  const text = `${head.toString()}${breakAfterHead}${note}${breakBeforeTail}${tail.toString()}`;
  return Buffer.byteLength(text) <= bytes ? text : headOf(Buffer.from(note), bytes, false).toString();
}

/**
 * Returns the first bytes of `buffer`, at most `bytes`. Ends after a line if a line ends close to the limit. Never
 * splits a code point.
 */
function headOf(buffer: Buffer, bytes: number, endsAtLine = true): Buffer {
  if (buffer.length <= bytes) return buffer;
  let end = bytes;
  const lineEnd = endsAtLine ? buffer.lastIndexOf(10, end - 1) + 1 : 0;
  if (lineEnd > 0 && end - lineEnd <= Math.min(MAX_LINE_SEARCH_BYTES, bytes / 2)) return buffer.subarray(0, lineEnd);
  while (end > 0 && isContinuation(buffer[end])) end--;
  return buffer.subarray(0, end);
}

function tailOf(buffer: Buffer, bytes: number): Buffer {
  if (buffer.length <= bytes) return buffer;
  let start = buffer.length - bytes;
  const lineStart = buffer.indexOf(10, start) + 1;
  if (lineStart > 0 && lineStart < buffer.length && lineStart - start <= Math.min(MAX_LINE_SEARCH_BYTES, bytes / 2))
    return buffer.subarray(lineStart);
  while (start < buffer.length && isContinuation(buffer[start])) start++;
  return buffer.subarray(start);
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}

/** A function that cleans text before it is shortened, with the context that the function needs beyond a cut. */
export interface Cleaning {
  clean(text: string): string;
  /** Characters. `clean` removes nothing longer than this. */
  reach: number;
}

/**
 * Keeps the start and the end of a stream of any length. Memory is bounded by twice `bytes`, twice the reach of the
 * cleaning, and one chunk.
 *
 * More is kept than shown. If cleaning had no context beyond the cut, half of a match at the cut would stay visible.
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

  /** @param bytes Bytes to show. */
  constructor(
    readonly bytes: number,
    cleaning?: Cleaning,
  ) {
    this.#halfBytes = Math.max(1, Math.floor(bytes / 2));
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
    // Many small chunks use more memory as objects than for their bytes.
    if (this.#tail.length > 256) this.#tail = [Buffer.concat(this.#tail)];
    if (this.#head.length > 256) this.#head = [Buffer.concat(this.#head)];
  }

  /** The kept text, cleaned. Bytes that are not valid UTF-8 become U+FFFD. */
  text(hint = ""): string {
    const head = Buffer.concat(this.#head);
    const tail = Buffer.concat(this.#tail);
    const shownBytes = Math.max(0, this.#halfBytes - 60 - hint.length);
    const isComplete = this.#totalBytes === head.length + tail.length;
    if (!this.#cleaning) {
      if (isComplete && this.#totalBytes <= this.bytes) return Buffer.concat([head, tail]).toString();
      return joinHeadAndTail(
        headOf(head, shownBytes),
        tailOf(tail, shownBytes),
        this.#totalBytes,
        Number.POSITIVE_INFINITY,
        hint,
      );
    }
    const { clean, reach } = this.#cleaning;
    // The stream is complete: the caller may shorten it after cleaning.
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
