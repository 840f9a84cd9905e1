import { GantryClient, SessionMirror } from "gantry/client";
import { CountedPage } from "./http-watcher.js";

/**
 * A watcher that uses `gantry/client`, which reconnects automatically. Its connections drop after random numbers of
 * bytes, and each goes to any available server.
 */
export class ClientWatcher {
  readonly page = new CountedPage();
  readonly clientPage = new SessionMirror();
  connections = 0;
  drops = 0;
  /** Drops in the middle of an event. */
  broken = 0;
  /** Always 0: the client retries refused connections itself. */
  readonly refused = 0;
  readonly #over = new AbortController();
  readonly #done: Promise<void>;

  /** `base` returns the origin of a server that may be available. */
  constructor(sessionId: string, base: () => string | undefined, random: () => number) {
    const client = new GantryClient({
      url: "http://gantry.invalid",
      fetch: async (input, init) => {
        const server = base();
        if (server === undefined) throw new TypeError("no server is up");
        const { pathname, search } = new URL(String(input));
        const response = await fetch(new URL(pathname + search, server), init);
        return this.#cut(response, random() < 0.5 ? Infinity : Math.ceil(random() * 12_000));
      },
    });
    this.#done = this.#watch(client, sessionId);
  }

  /** Stops watching. Resolves when the watch has ended. */
  async end(): Promise<void> {
    this.#over.abort();
    await this.#done;
  }

  async #watch(client: GantryClient, sessionId: string): Promise<void> {
    const onConnection = (state: string) => void this.page.trace.push(`connection ${state}`);
    try {
      for await (const event of client.sessions.watch(sessionId, { signal: this.#over.signal, onConnection })) {
        this.clientPage.apply(event);
        const { type, cursor: id, first: _first, ...data } = event;
        // A copy, because the other page changes messages in place.
        this.page.apply({ type, id, data: structuredClone(data) });
      }
    } catch (error) {
      this.page.faults.push(String(error));
    }
    if (JSON.stringify(this.clientPage.messages) !== JSON.stringify(this.page.messages))
      this.page.faults.push("the client's page is another one");
  }

  #cut(response: Response, limit: number): Response {
    this.connections += 1;
    let remainingBytes = limit;
    let last = 0;
    const cut = new TransformStream<Uint8Array, Uint8Array>({
      transform: (piece, controller) => {
        const passed = piece.subarray(0, remainingBytes);
        if (passed.length > 0) controller.enqueue(passed);
        last = passed.at(-1) ?? last;
        remainingBytes -= passed.length;
        if (remainingBytes > 0) return;
        this.drops += 1;
        if (last !== 10) this.broken += 1;
        controller.error(new Error("the connection is cut"));
      },
    });
    const body = (response.body as ReadableStream<Uint8Array> | null)?.pipeThrough(cut) ?? null;
    return new Response(body, { status: response.status, headers: response.headers });
  }
}
