import { GantryClient, NotFoundError, SessionMirror, type WatchAll } from "gantry/client";
import { CheckedPage } from "./http-watcher.js";

/** Maximum bytes of a connection that drops. */
const MAX_DROP_BYTES = 12_000;
/** Share of the events after which a shared connection is replaced. */
const REPLACEMENT_SHARE = 0.03;
const LINE_FEED = 10;

/**
 * A watcher that uses `gantry/client`, which reconnects automatically. About half of its connections drop after a
 * random number of bytes. With `isShared` it uses
 * `client.watchAll`, and other watches begin and end meanwhile.
 */
export class ClientWatcher {
  readonly page = new CheckedPage();
  readonly mirror = new SessionMirror();
  connections = 0;
  drops = 0;
  /** Number of drops after a byte that ends no line. */
  splitEvents = 0;
  /** Always 0, because the client handles rejected cursors. Present for the counts of the schedule. */
  readonly refusedCursors = 0;
  readonly #abort = new AbortController();
  readonly #watchEnd: Promise<void>;

  /** `fetchAny` sends a request to any server; it rejects if none is running. */
  constructor(sessionId: string, fetchAny: typeof fetch, random: () => number, isShared = false) {
    const client = new GantryClient({
      url: "http://gantry.invalid",
      fetch: async (input, init) => {
        const response = await fetchAny(input, init);
        return this.#limitResponse(response, random() < 0.5 ? Infinity : Math.ceil(random() * MAX_DROP_BYTES));
      },
    });
    this.#watchEnd = isShared
      ? this.#watchShared(client, sessionId, random)
      : this.#watch(client.sessions.watch(sessionId, this.#options));
  }

  /** Stops watching. Resolves when the watch has ended. */
  async end(): Promise<void> {
    this.#abort.abort();
    await this.#watchEnd;
  }

  get #options() {
    const onConnection = (state: string) => void this.page.trace.push(`client ${state}`);
    return { signal: this.#abort.signal, after: this.mirror.cursor, onConnection };
  }

  async #watchShared(client: GantryClient, sessionId: string, random: () => number): Promise<void> {
    const watchAll = await client.watchAll();
    const otherWatches = new Set<Promise<void>>();
    // Another watch of the session that begins and ends, so that the connection is replaced.
    const watchBriefly = async (events: ReturnType<WatchAll["watch"]>) => {
      let remainingEvents = Math.ceil(random() * 5);
      for await (const _event of events) if ((remainingEvents -= 1) < 0) break;
    };
    while (!this.#abort.signal.aborted && !this.mirror.deleted)
      await this.#watch(watchAll.watch(sessionId, this.#options), () => {
        if (random() < REPLACEMENT_SHARE)
          otherWatches.add(watchBriefly(watchAll.watch(sessionId)).catch(() => undefined));
        return random() < REPLACEMENT_SHARE;
      });
    watchAll.close();
    await Promise.all(otherWatches);
  }

  /** Applies events until their end, or until `shouldEnd` returns true after an event. */
  async #watch(events: ReturnType<WatchAll["watch"]>, shouldEnd = () => false): Promise<void> {
    try {
      for await (const event of events) {
        this.mirror.apply(event);
        const { type, cursor: id, first, ...data } = event;
        if (first) this.page.trace.push("connection");
        // A copy, because the mirror and the page both change messages in place.
        this.page.apply({ type, id, data: structuredClone(data) });
        if (shouldEnd()) break;
      }
    } catch (error) {
      // A watch that begins after the delete.
      if (error instanceof NotFoundError && this.page.events > 0) {
        this.mirror.apply({ type: "deleted" });
        this.page.apply({ type: "deleted", id: undefined, data: {} });
      } else this.page.faults.push(String(error));
    }
    if (JSON.stringify(this.mirror.messages) !== JSON.stringify(this.page.messages))
      this.page.faults.push("the client's messages differ from those of the page");
  }

  #limitResponse(response: Response, maxBytes: number): Response {
    this.connections += 1;
    let remainingBytes = maxBytes;
    let lastByte = 0;
    const limiter = new TransformStream<Uint8Array, Uint8Array>({
      transform: (piece, controller) => {
        const passedBytes = piece.subarray(0, remainingBytes);
        if (passedBytes.length > 0) controller.enqueue(passedBytes);
        lastByte = passedBytes.at(-1) ?? lastByte;
        remainingBytes -= passedBytes.length;
        if (remainingBytes > 0) return;
        this.drops += 1;
        if (lastByte !== LINE_FEED) this.splitEvents += 1;
        controller.error(new Error("the connection is cut"));
      },
    });
    const body = (response.body as ReadableStream<Uint8Array> | null)?.pipeThrough(limiter) ?? null;
    return new Response(body, { status: response.status, headers: response.headers });
  }
}
