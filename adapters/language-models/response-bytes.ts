import { pipeline, type Readable } from "node:stream";

/** Maximum bytes that are held for a slow reader; beyond it the stream is paused. */
const MAX_HELD_BYTES = 256 * 1024;
/** Limits for the rest of a complete answer. Beyond them its connection is closed. */
const DRAIN_LIMITS = { bytes: 64 * 1024, ms: 1_000 };

/** The bytes of a body, in order. */
export interface Bytes {
  /**
   * Resolves with all bytes since the last call, or with the next ones; undefined at the end. Rejects if the body is
   * interrupted.
   */
  next(): Promise<Buffer | undefined>;
  /** Discards the rest; `over`: everything of interest was read. */
  release(over?: boolean): void;
}

/** The body of an answer, decompressed if necessary. An abort ends it with the signal's reason. */
export class ResponseBytes implements Bytes {
  readonly #stream: Readable;
  readonly #signal: AbortSignal;
  #pieces: Buffer[] = [];
  #size = 0;
  #state: "reads" | "ended" | "broken" | "left" = "reads";
  #fault: unknown;
  #wake: (() => void) | undefined;
  #drainBytes = DRAIN_LIMITS.bytes;
  #drainTimer: NodeJS.Timeout | undefined;

  constructor(stream: Readable, encoding: string | undefined, signal: AbortSignal) {
    this.#stream = encoding === undefined ? stream : decompress(stream, encoding);
    this.#signal = signal;
    this.#stream
      .on("data", (piece: Buffer) => this.#take(piece))
      .once("end", () => this.#end("ended"))
      .on("error", (cause) => this.#end("broken", new TypeError("terminated", { cause })))
      .once("close", () => this.#close());
    signal.addEventListener("abort", this.#onAbort, { once: true });
    if (signal.aborted) this.#onAbort();
  }

  async next(): Promise<Buffer | undefined> {
    if (this.#size === 0 && this.#state === "reads") await new Promise<void>((resolve) => (this.#wake = resolve));
    if (this.#size > 0) {
      const came = this.#pieces;
      this.#pieces = [];
      if (this.#size > MAX_HELD_BYTES) this.#stream.resume();
      this.#size = 0;
      return came.length === 1 ? came[0] : Buffer.concat(came);
    }
    if (this.#state === "broken") throw this.#fault;
    return undefined;
  }

  release(over = false): void {
    if (this.#state !== "reads") return;
    this.#drop("left");
    if (!over) {
      this.#stream.destroy();
      return;
    }
    // A connection can be reused only after its answer was read to the end, which usually arrives soon.
    this.#drainTimer = setTimeout(() => this.#stream.destroy(), DRAIN_LIMITS.ms).unref();
    this.#stream.resume();
  }

  readonly #onAbort = (): void => {
    const reads = this.#state === "reads";
    if (reads) this.#drop("broken", this.#signal.reason);
    if (reads || this.#state === "left") this.#stream.destroy();
  };

  #take(piece: Buffer): void {
    if (this.#state === "left") {
      this.#drainBytes -= piece.length;
      if (this.#drainBytes < 0) this.#stream.destroy();
    } else if (this.#state === "reads") {
      this.#pieces.push(piece);
      this.#size += piece.length;
      if (this.#size > MAX_HELD_BYTES) this.#stream.pause();
      this.#wake?.();
    }
  }

  #close(): void {
    clearTimeout(this.#drainTimer);
    this.#signal.removeEventListener("abort", this.#onAbort);
    this.#end("broken", new TypeError("terminated"));
  }

  #end(state: "ended" | "broken", fault?: unknown): void {
    if (this.#state !== "reads") return;
    this.#state = state;
    this.#fault = fault;
    this.#wake?.();
  }

  /** Discards the bytes that were not read yet. */
  #drop(state: "left" | "broken", fault?: unknown): void {
    this.#pieces = [];
    this.#size = 0;
    this.#state = state;
    this.#fault = fault;
    this.#wake?.();
  }
}

/** Decompresses a body, also if compression was not requested. With an unknown coding the bytes stay unchanged. */
function decompress(stream: Readable, encoding: string): Readable {
  const zlib = process.getBuiltinModule("node:zlib");
  const { Z_SYNC_FLUSH: flush, BROTLI_OPERATION_FLUSH: brotliFlush } = zlib.constants;
  let readable = stream;
  for (const coding of encoding.toLowerCase().split(",").reverse()) {
    let decoder: NodeJS.ReadWriteStream & Readable;
    switch (coding.trim()) {
      case "gzip":
      case "x-gzip":
        // Flush at once, and tolerate a missing end.
        decoder = zlib.createGunzip({ flush, finishFlush: flush });
        break;
      case "deflate":
        decoder = zlib.createInflate({ flush, finishFlush: flush });
        break;
      case "br":
        decoder = zlib.createBrotliDecompress({ flush: brotliFlush, finishFlush: brotliFlush });
        break;
      default:
        return readable;
    }
    readable = pipeline(readable, decoder, () => undefined);
  }
  return readable;
}
