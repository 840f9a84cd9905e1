import { pipeline, type Readable } from "node:stream";

/** Maximum bytes that are held for a slow reader; the stream pauses at the limit. */
const MAX_HELD_BYTES = 256 * 1024;
/** Limits for reading the rest of a released body, so that the connection can be reused. */
const DRAIN_LIMITS = { bytes: 64 * 1024, timeMs: 1_000 };

/** The bytes of a body, in order. */
export interface ByteSource {
  /**
   * Resolves with all bytes since the last call, or else with the next bytes; undefined at the end and after `release`.
   * Rejects if the body is interrupted.
   */
  next(): Promise<Buffer | undefined>;
  /** Discards the remaining bytes. `isComplete`: everything of interest was read, so the connection may be reused. */
  release(isComplete?: boolean): void;
}

/** The body of an answer, decompressed if necessary. An abort ends the body with the signal's reason. */
export class ResponseBytes implements ByteSource {
  readonly #stream: Readable;
  readonly #signal: AbortSignal;
  #pieces: Buffer[] = [];
  #heldBytes = 0;
  #state: "reading" | "ended" | "failed" | "released" = "reading";
  #fault: unknown;
  #wakeReader: (() => void) | undefined;
  #drainBytes = DRAIN_LIMITS.bytes;
  #drainTimer: NodeJS.Timeout | undefined;

  constructor(stream: Readable, encoding: string | undefined, signal: AbortSignal) {
    this.#stream = encoding === undefined ? stream : decompress(stream, encoding);
    this.#signal = signal;
    this.#stream
      .on("data", (piece: Buffer) => this.#addPiece(piece))
      .once("end", () => this.#end("ended"))
      .on("error", (cause) => this.#end("failed", new TypeError("terminated", { cause })))
      .once("close", () => this.#close());
    signal.addEventListener("abort", this.#onAbort, { once: true });
    if (signal.aborted) this.#onAbort();
  }

  async next(): Promise<Buffer | undefined> {
    if (this.#heldBytes === 0 && this.#state === "reading")
      await new Promise<void>((resolve) => (this.#wakeReader = resolve));
    if (this.#heldBytes > 0) {
      const pieces = this.#pieces;
      this.#pieces = [];
      if (this.#heldBytes > MAX_HELD_BYTES) this.#stream.resume();
      this.#heldBytes = 0;
      return pieces.length === 1 ? pieces[0] : Buffer.concat(pieces);
    }
    if (this.#state === "failed") throw this.#fault;
    return undefined;
  }

  release(isComplete = false): void {
    if (this.#state !== "reading") return;
    this.#discard("released");
    if (!isComplete) {
      this.#stream.destroy();
      return;
    }
    // A connection can be reused only after its answer was read to the end. The end usually arrives soon.
    this.#drainTimer = setTimeout(() => this.#stream.destroy(), DRAIN_LIMITS.timeMs).unref();
    this.#stream.resume();
  }

  readonly #onAbort = (): void => {
    const isReading = this.#state === "reading";
    if (isReading) this.#discard("failed", this.#signal.reason);
    if (isReading || this.#state === "released") this.#stream.destroy();
  };

  #addPiece(piece: Buffer): void {
    if (this.#state === "released") {
      this.#drainBytes -= piece.length;
      if (this.#drainBytes < 0) this.#stream.destroy();
    } else if (this.#state === "reading") {
      this.#pieces.push(piece);
      this.#heldBytes += piece.length;
      if (this.#heldBytes > MAX_HELD_BYTES) this.#stream.pause();
      this.#wakeReader?.();
    }
  }

  #close(): void {
    clearTimeout(this.#drainTimer);
    this.#signal.removeEventListener("abort", this.#onAbort);
    this.#end("failed", new TypeError("terminated"));
  }

  #end(state: "ended" | "failed", fault?: unknown): void {
    if (this.#state !== "reading") return;
    this.#state = state;
    this.#fault = fault;
    this.#wakeReader?.();
  }

  /** Discards the unread bytes and changes the state. */
  #discard(state: "released" | "failed", fault?: unknown): void {
    this.#pieces = [];
    this.#heldBytes = 0;
    this.#state = state;
    this.#fault = fault;
    this.#wakeReader?.();
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
