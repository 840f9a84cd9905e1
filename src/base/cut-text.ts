/** Bytes of text that a tool shows a model by default: some 8,000 tokens. */
export const MODEL_BYTES = 30_000;

const LINE_SEARCH = 2_000;

/** Cut `text` to at most `bytes` bytes of UTF-8: the middle goes, head and tail stay, and a line says so. */
export function capText(text: string, bytes: number): string {
  return cutMiddle(text, bytes);
}

/** As `capText`; `hint` tells the reader how to see the rest. */
export function cutMiddle(text: string, bytes: number, hint = ""): string {
  // A UTF-16 unit is at most 3 bytes, so most texts need no counting.
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

/** The first bytes of `buffer`, at most `bytes`, ending behind a line where one ends near, never within a code point. */
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

/** What becomes of a text before it is cut, and how far beyond a cut it must be able to look. */
export interface Cleaning {
  clean(text: string): string;
  /** In characters. Nothing that `clean` takes out is longer. */
  reach: number;
}

/**
 * Takes a stream of any length and keeps its beginning and its end, in memory bounded by twice `bytes` and one chunk.
 * More is kept than is shown: what was cleaned with nothing behind the cut would show the half of what lies on it.
 */
export class HeadTail {
  readonly #half: number;
  readonly #kept: number;
  readonly #cleaning: Cleaning | undefined;
  #head: Buffer[] = [];
  #headBytes = 0;
  #tail: Buffer[] = [];
  #tailBytes = 0;
  #total = 0;

  /** @param bytes How much is shown. */
  constructor(
    readonly bytes: number,
    cleaning?: Cleaning,
  ) {
    this.#half = Math.max(1, Math.floor(bytes / 2));
    this.#cleaning = cleaning;
    // A character has at most four bytes.
    this.#kept = this.#half + 4 * (cleaning?.reach ?? 0);
  }

  push(chunk: Buffer): void {
    this.#total += chunk.length;
    let rest = chunk;
    if (this.#headBytes < this.#kept) {
      const part = rest.subarray(0, this.#kept - this.#headBytes);
      this.#head.push(part);
      this.#headBytes += part.length;
      rest = rest.subarray(part.length);
    }
    if (rest.length === 0) return;
    this.#tail.push(rest);
    this.#tailBytes += rest.length;
    for (let [first] = this.#tail; first && this.#tailBytes - first.length >= this.#kept; [first] = this.#tail) {
      this.#tail.shift();
      this.#tailBytes -= first.length;
    }
    // Many tiny chunks cost more in objects than in bytes.
    if (this.#tail.length > 256) this.#tail = [Buffer.concat(this.#tail)];
    if (this.#head.length > 256) this.#head = [Buffer.concat(this.#head)];
  }

  /** What was kept, cleaned; bytes that are no UTF-8 become U+FFFD. */
  text(hint = ""): string {
    const head = Buffer.concat(this.#head);
    const tail = Buffer.concat(this.#tail);
    const shown = Math.max(0, this.#half - 60 - hint.length);
    const whole = this.#total === head.length + tail.length;
    if (!this.#cleaning) {
      if (whole && this.#total <= this.bytes) return Buffer.concat([head, tail]).toString();
      return join(headOf(head, shown), tailOf(tail, shown), this.#total, Number.POSITIVE_INFINITY, hint);
    }
    const { clean, reach } = this.#cleaning;
    // All of it is there: it is cut, if at all, when it is clean.
    if (whole) return clean(Buffer.concat([head, tail]).toString());
    const before = clean(head.toString());
    // What lies on the cut cannot be told from other text.
    const first = Buffer.from(before.slice(0, Math.max(0, before.length - reach)));
    const last = Buffer.from(clean(tail.toString()).slice(reach));
    return join(headOf(first, shown), tailOf(last, shown), this.#total, Number.POSITIVE_INFINITY, hint);
  }
}
