import { request, type IncomingMessage } from "node:http";
import { EventPage, type WireEvent, type WireMessage } from "./event-page.js";

/** A page that records repeated and misordered events as faults. */
export class CheckedPage extends EventPage {
  /** Number of events. */
  events = 0;
  /** Characters of texts and reasoning. */
  characters = 0;
  /** Number of rewind events. */
  rewinds = 0;
  /** Number of messages that were sent again in full. */
  repeatedMessages = 0;
  /** Descriptions of wrong events. */
  readonly faults: string[] = [];
  /** Short form of all events and connection starts. */
  readonly trace: string[] = [];
  /** Descriptions of wrong states of runs. A store that loses writes may cause them. */
  readonly stateFaults: string[] = [];
  /** Contents of all user messages ever received, by id. */
  readonly prompts = new Map<string, unknown>();
  /** Runs that were `interrupted` before another state. */
  readonly resumedRunIds = new Set<string>();
  /** Cursors since the last rewind. */
  #cursors = new Set<string>();
  /** Newest known states of all runs ever received, in the order of the runs. */
  readonly #runs = new Map<string, WireRun>();

  override apply(event: WireEvent): void {
    const { type, id, data } = event as WireEvent & { data: { seq?: number; message?: WireMessage } };
    this.events += 1;
    if (type === "rewind") {
      this.rewinds += 1;
      this.#cursors = new Set();
    }
    if (id !== undefined && this.#cursors.has(id)) this.faults.push(`${type} repeats the cursor ${id}`);
    if (id !== undefined) this.#cursors.add(id);
    if (this.trace.at(-1)?.startsWith("connection") && type !== "state") this.faults.push(`${type} before any state`);
    this.trace.push(`${type} ${id ?? ""}`);
    const storedMessage = this.getMessage(data.seq ?? data.message?.seq ?? 0);
    if (type === "message" && storedMessage) this.repeatedMessages += 1;
    if (type === "message" && data.message?.["role"] === "user")
      this.prompts.set(String(data.message["id"]), data.message.content);
    if (type === "state") this.#checkRun((data as { run?: WireRun | null }).run ?? undefined);
    if ((type === "delta" || type === "message_end") && storedMessage?.["finished"] !== false)
      this.faults.push(
        `${type} of a message that ${storedMessage ? "is finished" : "was not sent"}: ${JSON.stringify(data)}`,
      );
    super.apply(event);
    const { content, reasoning } = (type === "message" ? data.message : type === "delta" ? data : {}) as {
      content?: unknown;
      reasoning?: unknown;
    };
    for (const text of [content, reasoning]) if (typeof text === "string") this.characters += text.length;
  }

  /** Ids of all runs ever received, oldest first. */
  get runIds(): string[] {
    return [...this.#runs.keys()];
  }

  /** Checks that a session's newest run follows the earlier runs, and that a run that has ended stays so. */
  #checkRun(run: WireRun | undefined): void {
    const newestId = this.runIds.at(-1);
    if (!run) {
      if (newestId !== undefined) this.stateFaults.push(`no run after the run ${newestId}`);
      return;
    }
    const { id, state } = run;
    const lastRun = this.#runs.get(id);
    if (lastRun && id !== newestId) this.stateFaults.push(`the run ${id} after the later run ${newestId}`);
    if (lastRun && hasEnded(lastRun) && state !== lastRun.state)
      this.stateFaults.push(`the run ${id}, which was ${lastRun.state}, is ${state}`);
    if (lastRun?.state === "interrupted" && state !== "interrupted") this.resumedRunIds.add(id);
    if (lastRun?.state !== state) this.trace.push(`run ${id} ${state}`);
    this.#runs.set(id, run);
  }
}

interface WireRun {
  id: string;
  state: string;
  error: { code: string } | null;
}

/** Whether no repeated request can continue the run. */
function hasEnded({ state, error }: WireRun): boolean {
  const isRestartable = error?.code === "shutting_down" || error?.code === "store";
  return ["finished", "failed", "cancelled"].includes(state) && !isRestartable;
}

/**
 * A watcher of a session over HTTP. Most of its connections drop after a random number of bytes, also within an event.
 * The watcher then connects to the server that `getOrigin` returns, with the last complete cursor.
 */
export class HttpWatcher {
  readonly page = new CheckedPage();
  /** Number of connection attempts. */
  connections = 0;
  /** Number of connections that the watcher dropped. */
  drops = 0;
  /** Number of drops within an event. */
  splitEvents = 0;
  /** Number of cursors that a server rejected as past the end. */
  refusedCursors = 0;
  readonly #path: string;
  readonly #getOrigin: () => string | undefined;
  readonly #getHeaders: () => Record<string, string>;
  readonly #random: () => number;
  readonly #abort = new AbortController();
  #watchEnd: Promise<void>;
  /** True after a rejected cursor: the next connection sends the cursor as a header, which servers must accept. */
  #reconnectsByHeader = false;

  /** `getOrigin` returns the origin of a server, which may be down; undefined if none is running. */
  constructor(
    path: string,
    getOrigin: () => string | undefined,
    random: () => number,
    getHeaders: () => Record<string, string> = () => ({}),
  ) {
    this.#path = path;
    this.#getOrigin = getOrigin;
    this.#getHeaders = getHeaders;
    this.#random = random;
    this.#watchEnd = this.#watch();
  }

  /** Stops watching. Resolves when the last connection has ended. */
  async end(): Promise<void> {
    this.#abort.abort();
    await this.#watchEnd;
  }

  async #watch(): Promise<void> {
    while (!this.#abort.signal.aborted && !this.page.isDeleted) {
      const origin = this.#getOrigin();
      if (origin !== undefined) await this.#connect(origin);
      // Reconnects after a random delay, which the seed determines.
      await new Promise((resolve) => setTimeout(resolve, this.#random() * 20));
    }
  }

  /** Opens a connection. Resolves when either side has ended the connection. */
  #connect(origin: string): Promise<void> {
    const random = this.#random;
    const lengthKind = random();
    // A fifth of the connections does not drop; the others drop within the first events or after several events.
    const maxBytes = lengthKind < 0.2 ? Infinity : Math.ceil(random() * (lengthKind < 0.5 ? 900 : 9_000));
    const url = new URL(this.#path, origin);
    const headers = { ...this.#getHeaders() };
    const { lastId } = this.page;
    const isQueryUsed = lastId !== "" && !this.#reconnectsByHeader && random() < 0.5;
    if (isQueryUsed) url.searchParams.set("after", lastId);
    else if (lastId !== "") headers["last-event-id"] = lastId;
    this.#reconnectsByHeader = false;
    this.connections += 1;
    this.page.trace.push(`connection ${isQueryUsed ? "?after=" : ""}${lastId}`);
    return new Promise((resolve) => {
      let currentResponse: IncomingMessage | undefined;
      const clientRequest = request(url, { headers, agent: false, signal: this.#abort.signal }, (response) => {
        currentResponse = response;
        if (response.statusCode === 200) this.#readEvents(response, maxBytes, () => clientRequest.destroy());
        else {
          if (response.statusCode === 400) {
            this.refusedCursors += 1;
            this.#reconnectsByHeader = true;
            if (!isQueryUsed) this.page.faults.push("the server rejected the cursor of an automatic reconnect");
          } else if (response.statusCode === 404) this.page.isDeleted = true;
          // A suspended server finds the request too late.
          else if (response.statusCode !== 503 && response.statusCode !== 408)
            this.page.faults.push(`the server answered with ${response.statusCode}`);
          response.resume();
        }
      });
      // The server died or is not running.
      clientRequest.on("error", () => {});
      // A paused reader may still have data of the closed connection; reconnect only after it.
      clientRequest.on("close", () =>
        currentResponse && !currentResponse.closed ? currentResponse.once("close", resolve) : resolve(),
      );
      clientRequest.end();
    });
  }

  #readEvents(response: IncomingMessage, maxBytes: number, dropConnection: () => void): void {
    let remainingBytes = maxBytes;
    let incompleteBytes = Buffer.alloc(0);
    response.on("error", () => {});
    response.on("data", (piece: Buffer) => {
      if (remainingBytes === 0) return;
      incompleteBytes = Buffer.concat([incompleteBytes, piece.subarray(0, remainingBytes)]);
      remainingBytes = Math.max(0, remainingBytes - piece.length);
      for (let blockEnd = incompleteBytes.indexOf("\n\n"); blockEnd >= 0; blockEnd = incompleteBytes.indexOf("\n\n")) {
        this.#applyBlock(incompleteBytes.toString("utf8", 0, blockEnd));
        incompleteBytes = incompleteBytes.subarray(blockEnd + 2);
      }
      if (remainingBytes === 0) {
        this.drops += 1;
        if (incompleteBytes.length > 0) this.splitEvents += 1;
        dropConnection();
      } else if (this.#random() < 0.02) {
        response.pause();
        // A slow reader, with a delay that the seed determines.
        setTimeout(() => response.resume(), this.#random() * 100);
      }
    });
  }

  #applyBlock(block: string): void {
    if (block.startsWith(":")) return;
    const fields = new Map(
      block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]),
    );
    const data: unknown = JSON.parse(fields.get("data") ?? "null");
    this.page.apply({ type: fields.get("event") ?? "", id: fields.get("id"), data });
  }
}
