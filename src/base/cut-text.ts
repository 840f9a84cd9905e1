/** Default limit, in bytes, of text that a tool returns to a model: about 8,000 tokens. */
export const MODEL_BYTES = 30_000;

const LINE_SEARCH = 2_000;

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
  const half = Math.max(0, Math.floor((bytes - 120 - hint.length * 3) / 2));
  return join(headOf(buffer, half), tailOf(buffer, half), buffer.length, bytes, hint);
}

function join(head: Buffer, tail: Buffer, total: number, bytes: number, hint: string): string {
  const gone = (total - head.length - tail.length).toLocaleString("en-US");
  const note = `[... ${gone} bytes cut from the middle${hint === "" ? "" : `; ${hint}`} ...]`;
  const before = head.length > 0 && head[head.length - 1] !== 10 ? "\n" : "";
  const after = tail.length > 0 ? "\n" : "";
  const text = `${head.toString()}${before}${note}${after}${tail.toString()}`;
  return Buffer.byteLength(text) <= bytes ? text : headOf(Buffer.from(note), bytes, false).toString();
}

/**
 * Returns the first bytes of `buffer`, at most `bytes`. Ends after a line if a line ends close to the limit. Never
 * splits a code point.
 */
function headOf(buffer: Buffer, bytes: number, lines = true): Buffer {
  if (buffer.length <= bytes) return buffer;
  let end = bytes;
  const line = lines ? buffer.lastIndexOf(10, end - 1) + 1 : 0;
  if (line > 0 && end - line <= Math.min(LINE_SEARCH, bytes / 2)) return buffer.subarray(0, line);
  while (end > 0 && isContinuation(buffer[end])) end--;
  return buffer.subarray(0, end);
}

function tailOf(buffer: Buffer, bytes: number): Buffer {
  if (buffer.length <= bytes) return buffer;
  let start = buffer.length - bytes;
  const line = buffer.indexOf(10, start) + 1;
  if (line > 0 && line < buffer.length && line - start <= Math.min(LINE_SEARCH, bytes / 2))
    return buffer.subarray(line);
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
  readonly #keptBytes: number;
  readonly #cleaning: Cleaning | undefined;
  #head: Buffer[] = [];
  #headBytes = 0;
  #tail: Buffer[] = [];
  #tailBytes = 0;
  #total = 0;

  /** @param bytes Bytes to show. */
  constructor(
    readonly bytes: number,
    cleaning?: Cleaning,
  ) {
    this.#halfBytes = Math.max(1, Math.floor(bytes / 2));
    this.#cleaning = cleaning;
    // A character takes at most four bytes.
    this.#keptBytes = this.#halfBytes + 4 * (cleaning?.reach ?? 0);
  }

  push(chunk: Buffer): void {
    this.#total += chunk.length;
    let remainingChunk = chunk;
    if (this.#headBytes < this.#keptBytes) {
      const part = remainingChunk.subarray(0, this.#keptBytes - this.#headBytes);
      this.#head.push(part);
      this.#headBytes += part.length;
      remainingChunk = remainingChunk.subarray(part.length);
    }
    if (remainingChunk.length === 0) return;
    this.#tail.push(remainingChunk);
    this.#tailBytes += remainingChunk.length;
    for (let [first] = this.#tail; first && this.#tailBytes - first.length >= this.#keptBytes; [first] = this.#tail) {
      this.#tail.shift();
      this.#tailBytes -= first.length;
    }
    // Many small chunks use more memory as objects than for their bytes.
    if (this.#tail.length > 256) this.#tail = [Buffer.concat(this.#tail)];
    if (this.#head.length > 256) this.#head = [Buffer.concat(this.#head)];
  }

  /** The kept text, cleaned. Bytes that are not valid UTF-8 become U+FFFD. */
  text(hint = ""): string {
    const head = Buffer.concat(this.#head);
    const tail = Buffer.concat(this.#tail);
    const shown = Math.max(0, this.#halfBytes - 60 - hint.length);
    const isComplete = this.#total === head.length + tail.length;
    if (!this.#cleaning) {
      if (isComplete && this.#total <= this.bytes) return Buffer.concat([head, tail]).toString();
      return join(headOf(head, shown), tailOf(tail, shown), this.#total, Number.POSITIVE_INFINITY, hint);
    }
    const { clean, reach } = this.#cleaning;
    // The stream is complete: the caller may shorten it after cleaning.
    if (isComplete) return clean(Buffer.concat([head, tail]).toString());
    const before = clean(head.toString());
    // At the cut, a partial match cannot be distinguished from other text.
    const first = Buffer.from(before.slice(0, Math.max(0, before.length - reach)));
    const last = Buffer.from(clean(tail.toString()).slice(reach));
    return join(headOf(first, shown), tailOf(last, shown), this.#total, Number.POSITIVE_INFINITY, hint);
  }
}
