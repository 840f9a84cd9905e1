import { request, type IncomingMessage } from "node:http";
import { EventPage, type WireEvent, type WireMessage } from "./event-page.js";

/** A page that finds out what is told twice, or out of its place. */
export class CountedPage extends EventPage {
  events = 0;
  /** Of texts and reasonings. */
  characters = 0;
  cuts = 0;
  /** Messages that were told anew in place of what they had been. */
  retold = 0;
  /** What should not have been told, in words. */
  readonly faults: string[] = [];
  /** All that came, in short, and where connections began. */
  readonly trace: string[] = [];
  /** Cursors since the last cut. */
  #ids = new Set<string>();

  override apply(event: WireEvent): void {
    const { type, id, data } = event as WireEvent & { data: { seq?: number; message?: WireMessage } };
    this.events += 1;
    if (type === "rewind") {
      this.cuts += 1;
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
 * Somebody who watches a session over HTTP, and whose connection drops after random numbers of bytes, also in the middle
 * of an event; each time they come back to whichever server there is, with the last cursor that came whole.
 */
export class HttpWatcher {
  readonly page = new CountedPage();
  connections = 0;
  drops = 0;
  /** Drops in the middle of an event. */
  broken = 0;
  /** Cursors that a server refused as past the end. */
  refused = 0;
  readonly #path: string;
  readonly #base: () => string | undefined;
  readonly #random: () => number;
  readonly #over = new AbortController();
  #done: Promise<void>;
  #comesBackByItself = false;

  /** `base` gives the origin of a server that may be there. */
  constructor(path: string, base: () => string | undefined, random: () => number) {
    this.#path = path;
    this.#base = base;
    this.#random = random;
    this.#done = this.#watch();
  }

  /** Resolves when it watches no more. */
  async end(): Promise<void> {
    this.#over.abort();
    await this.#done;
  }

  async #watch(): Promise<void> {
    while (!this.#over.signal.aborted && !this.page.deleted) {
      const base = this.#base();
      if (base !== undefined) await this.#connect(base);
      // Time: a reader comes back after a moment, which the seed decides.
      await new Promise((resolve) => setTimeout(resolve, this.#random() * 20));
    }
  }

  /** One connection, to its end, whoever ends it. */
  #connect(base: string): Promise<void> {
    const random = this.#random;
    const kind = random();
    const limit = kind < 0.2 ? Infinity : Math.ceil(random() * (kind < 0.5 ? 900 : 9_000));
    const url = new URL(this.#path, base);
    const headers: Record<string, string> = {};
    const { lastId } = this.page;
    const byQuery = lastId !== "" && !this.#comesBackByItself && random() < 0.5;
    if (byQuery) url.searchParams.set("after", lastId);
    else if (lastId !== "") headers["last-event-id"] = lastId;
    this.#comesBackByItself = false;
    this.connections += 1;
    this.page.trace.push(`connection ${byQuery ? "?after=" : ""}${lastId}`);
    return new Promise((resolve) => {
      let answer: IncomingMessage | undefined;
      const asked = request(url, { headers, agent: false, signal: this.#over.signal }, (response) => {
        answer = response;
        if (response.statusCode === 200) this.#read(response, limit, () => asked.destroy());
        else {
          if (response.statusCode === 400) {
            this.refused += 1;
            this.#comesBackByItself = true;
            if (!byQuery) this.page.faults.push("a cursor of a reader that came back by itself was refused");
          } else if (response.statusCode !== 503) this.page.faults.push(`answered with ${response.statusCode}`);
          response.resume();
        }
      });
      // A server that dies, or is not there.
      asked.on("error", () => {});
      // A reader that pauses may have more to read of a connection that is over, and comes back behind that.
      asked.on("close", () => (answer && !answer.closed ? answer.once("close", resolve) : resolve()));
      asked.end();
    });
  }

  #read(response: IncomingMessage, limit: number, drop: () => void): void {
    let left = limit;
    let rest = Buffer.alloc(0);
    response.on("error", () => {});
    response.on("data", (piece: Buffer) => {
      if (left === 0) return;
      rest = Buffer.concat([rest, piece.subarray(0, left)]);
      left = Math.max(0, left - piece.length);
      for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
        this.#block(rest.toString("utf8", 0, end));
        rest = rest.subarray(end + 2);
      }
      if (left === 0) {
        this.drops += 1;
        if (rest.length > 0) this.broken += 1;
        drop();
      } else if (this.#random() < 0.02) {
        response.pause();
        // Time: a reader that is slow, as the seed decides.
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
