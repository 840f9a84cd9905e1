import { pipeline, type Readable } from "node:stream";

/** So many bytes are held for who is slow to ask for them, before the server is made to wait. */
const HELD = 256 * 1024;
/** What may still come of an answer that has told everything, and how long it may take, before its connection is closed. */
const REST = { bytes: 64 * 1024, ms: 1_000 };

/** Bytes of a body, in order. */
export interface Bytes {
  /** All that came since the last call, or what comes next; undefined: the end. Rejects when it breaks off. */
  next(): Promise<Buffer | undefined>;
  /** Let go of the rest; `over`: all that matters was read. */
  leave(over?: boolean): void;
}

/** The body of an answer as it comes, decompressed where the server has compressed it. An abort ends it with the signal's reason. */
export class ResponseBytes implements Bytes {
  readonly #stream: Readable;
  readonly #signal: AbortSignal;
  #came: Buffer[] = [];
  #size = 0;
  #state: "reads" | "ended" | "broken" | "left" = "reads";
  #fault: unknown;
  #wake: (() => void) | undefined;
  #rest = REST.bytes;
  #patience: NodeJS.Timeout | undefined;

  constructor(stream: Readable, encoding: string | undefined, signal: AbortSignal) {
    this.#stream = encoding === undefined ? stream : decompressed(stream, encoding);
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
      const came = this.#came;
      this.#came = [];
      if (this.#size > HELD) this.#stream.resume();
      this.#size = 0;
      return came.length === 1 ? came[0] : Buffer.concat(came);
    }
    if (this.#state === "broken") throw this.#fault;
    return undefined;
  }

  leave(over = false): void {
    if (this.#state !== "reads") return;
    this.#drop("left");
    if (!over) {
      this.#stream.destroy();
      return;
    }
    // A connection serves the next question only when its answer was read to the end, which is mostly on its way.
    this.#patience = setTimeout(() => this.#stream.destroy(), REST.ms).unref();
    this.#stream.resume();
  }

  readonly #onAbort = (): void => {
    const reads = this.#state === "reads";
    if (reads) this.#drop("broken", this.#signal.reason);
    if (reads || this.#state === "left") this.#stream.destroy();
  };

  #take(piece: Buffer): void {
    if (this.#state === "left") {
      this.#rest -= piece.length;
      if (this.#rest < 0) this.#stream.destroy();
    } else if (this.#state === "reads") {
      this.#came.push(piece);
      this.#size += piece.length;
      if (this.#size > HELD) this.#stream.pause();
      this.#wake?.();
    }
  }

  #close(): void {
    clearTimeout(this.#patience);
    this.#signal.removeEventListener("abort", this.#onAbort);
    this.#end("broken", new TypeError("terminated"));
  }

  #end(state: "ended" | "broken", fault?: unknown): void {
    if (this.#state !== "reads") return;
    this.#state = state;
    this.#fault = fault;
    this.#wake?.();
  }

  /** What came is for nobody any more. */
  #drop(state: "left" | "broken", fault?: unknown): void {
    this.#came = [];
    this.#size = 0;
    this.#state = state;
    this.#fault = fault;
    this.#wake?.();
  }
}

/** What a server compressed, though it was not asked to; of a coding that nobody knows, the bytes as they are. */
function decompressed(stream: Readable, encoding: string): Readable {
  const zlib = process.getBuiltinModule("node:zlib");
  const { Z_SYNC_FLUSH: flush, BROTLI_OPERATION_FLUSH: brotliFlush } = zlib.constants;
  let readable = stream;
  for (const coding of encoding.toLowerCase().split(",").reverse()) {
    let decoder: NodeJS.ReadWriteStream & Readable;
    switch (coding.trim()) {
      case "gzip":
      case "x-gzip":
        // As they come, and without complaint about a missing end.
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
