import { request, type IncomingMessage } from "node:http";
import { EventPage, type WireEvent, type WireMessage } from "./event-page.js";

/** A page that detects events which are repeated or out of order. */
export class CountedPage extends EventPage {
  events = 0;
  /** Characters of texts and reasoning. */
  characters = 0;
  rewinds = 0;
  /** Number of messages that were sent again in full. */
  retold = 0;
  /** Descriptions of wrong events. */
  readonly faults: string[] = [];
  /** Short form of all events and connection starts. */
  readonly trace: string[] = [];
  /** Cursors since the last rewind. */
  #ids = new Set<string>();

  override apply(event: WireEvent): void {
    const { type, id, data } = event as WireEvent & { data: { seq?: number; message?: WireMessage } };
    this.events += 1;
    if (type === "rewind") {
      this.rewinds += 1;
      this.#ids = new Set();
    }
    if (id !== undefined && this.#ids.has(id)) this.faults.push(`${type} with a cursor of before: ${id}`);
    if (id !== undefined) this.#ids.add(id);
    if (this.trace.at(-1)?.startsWith("connection") && type !== "state") this.faults.push(`${type} before any state`);
    this.trace.push(`${type} ${id ?? ""}`);
    const before = this.at(data.seq ?? data.message?.seq ?? 0);
    if (type === "message" && before) this.retold += 1;
    if ((type === "delta" || type === "message_end") && before?.["finished"] !== false)
      this.faults.push(`${type} of a message that ${before ? "is whole" : "was not told"}: ${JSON.stringify(data)}`);
    super.apply(event);
    const { content, reasoning } = (type === "message" ? data.message : type === "delta" ? data : {}) as {
      content?: unknown;
      reasoning?: unknown;
    };
    for (const text of [content, reasoning]) if (typeof text === "string") this.characters += text.length;
  }
}

/**
 * A watcher of a session over HTTP whose connection drops after random numbers of bytes, also within an event. It
 * reconnects to any available server, with the last complete cursor.
 */
export class HttpWatcher {
  readonly page = new CountedPage();
  connections = 0;
  drops = 0;
  /** Drops in the middle of an event. */
  broken = 0;
  /** Cursors that a server rejected as past the end. */
  refused = 0;
  readonly #path: string;
  readonly #base: () => string | undefined;
  readonly #random: () => number;
  readonly #over = new AbortController();
  #done: Promise<void>;
  #reconnectsByHeader = false;

  /** `base` returns the origin of a server that may be available. */
  constructor(path: string, base: () => string | undefined, random: () => number) {
    this.#path = path;
    this.#base = base;
    this.#random = random;
    this.#done = this.#watch();
  }

  /** Stops watching. Resolves when the last connection has ended. */
  async end(): Promise<void> {
    this.#over.abort();
    await this.#done;
  }

  async #watch(): Promise<void> {
    while (!this.#over.signal.aborted && !this.page.deleted) {
      const base = this.#base();
      if (base !== undefined) await this.#connect(base);
      // Reconnects after a random delay, which the seed determines.
      await new Promise((resolve) => setTimeout(resolve, this.#random() * 20));
    }
  }

  /** One connection, until either side ends it. */
  #connect(base: string): Promise<void> {
    const random = this.#random;
    const kind = random();
    const limit = kind < 0.2 ? Infinity : Math.ceil(random() * (kind < 0.5 ? 900 : 9_000));
    const url = new URL(this.#path, base);
    const headers: Record<string, string> = {};
    const { lastId } = this.page;
    const byQuery = lastId !== "" && !this.#reconnectsByHeader && random() < 0.5;
    if (byQuery) url.searchParams.set("after", lastId);
    else if (lastId !== "") headers["last-event-id"] = lastId;
    this.#reconnectsByHeader = false;
    this.connections += 1;
    this.page.trace.push(`connection ${byQuery ? "?after=" : ""}${lastId}`);
    return new Promise((resolve) => {
      let answer: IncomingMessage | undefined;
      const clientRequest = request(url, { headers, agent: false, signal: this.#over.signal }, (response) => {
        answer = response;
        if (response.statusCode === 200) this.#read(response, limit, () => clientRequest.destroy());
        else {
          if (response.statusCode === 400) {
            this.refused += 1;
            this.#reconnectsByHeader = true;
            if (!byQuery) this.page.faults.push("a cursor of a reader that came back by itself was refused");
          } else if (response.statusCode !== 503) this.page.faults.push(`answered with ${response.statusCode}`);
          response.resume();
        }
      });
      // The server died or is not running.
      clientRequest.on("error", () => {});
      // A paused reader may still have data of the closed connection; reconnect only after it.
      clientRequest.on("close", () => (answer && !answer.closed ? answer.once("close", resolve) : resolve()));
      clientRequest.end();
    });
  }

  #read(response: IncomingMessage, limit: number, drop: () => void): void {
    let remainingBytes = limit;
    let incompleteBytes = Buffer.alloc(0);
    response.on("error", () => {});
    response.on("data", (piece: Buffer) => {
      if (remainingBytes === 0) return;
      incompleteBytes = Buffer.concat([incompleteBytes, piece.subarray(0, remainingBytes)]);
      remainingBytes = Math.max(0, remainingBytes - piece.length);
      for (let end = incompleteBytes.indexOf("\n\n"); end >= 0; end = incompleteBytes.indexOf("\n\n")) {
        this.#block(incompleteBytes.toString("utf8", 0, end));
        incompleteBytes = incompleteBytes.subarray(end + 2);
      }
      if (remainingBytes === 0) {
        this.drops += 1;
        if (incompleteBytes.length > 0) this.broken += 1;
        drop();
      } else if (this.#random() < 0.02) {
        response.pause();
        // A slow reader, with a delay that the seed determines.
        setTimeout(() => response.resume(), this.#random() * 100);
      }
    });
  }

  #block(block: string): void {
    if (block.startsWith(":")) return;
    const fields = new Map(
      block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]),
    );
    const data: unknown = JSON.parse(fields.get("data") ?? "null");
    this.page.apply({ type: fields.get("event") ?? "", id: fields.get("id"), data });
  }
}
