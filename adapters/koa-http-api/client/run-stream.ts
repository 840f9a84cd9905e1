import type { AgentEvent, DoneEvent, Failure } from "../shapes.js";
import { disconnected, errorOf } from "./errors.js";
import type { ServerSentEvent } from "./server-sent-events.js";

/** What a run is known by. `model` is `provider/model`; "" where it waits in line, for it is chosen when its turn comes. */
export interface RunIds {
  sessionId: string;
  runId: string;
  model: string;
}

/** Failures of a stream that pass by themselves; as a plain answer they have the status 503. */
const PASSING: ReadonlySet<string> = new Set(["shutting_down", "store_unavailable", "too_many_runs"]);

/** A run as it goes. Whoever leaves the loop closes the connection, which ends the run unless it says otherwise. */
export class RunStream implements RunIds, AsyncIterable<AgentEvent> {
  readonly sessionId: string;
  readonly runId: string;
  readonly model: string;
  /** Token events that the server left out because this reader was too slow; the messages of the session have all. */
  dropped = 0;
  readonly #events: AsyncGenerator<ServerSentEvent, void, undefined>;
  readonly #held: AgentEvent[] = [];
  #reading: Promise<void> | undefined;
  #done: DoneEvent | undefined;
  #ended = false;
  #failure: unknown;
  #result: Promise<DoneEvent> | undefined;

  constructor({ sessionId, runId, model }: RunIds, events: AsyncGenerator<ServerSentEvent, void, undefined>) {
    this.sessionId = sessionId;
    this.runId = runId;
    this.model = model;
    this.#events = events;
  }

  /** How it ended: reads on to the end, also where nobody iterates. Rejects with `GantryError` when the run failed. */
  get result(): Promise<DoneEvent> {
    this.#result ??= (async () => {
      while (!this.#ended) await this.#read();
      if (this.#done) return this.#done;
      throw this.#failure;
    })();
    // Whoever iterates as well is told there.
    this.#result.catch(() => undefined);
    return this.#result;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<AgentEvent, void, undefined> {
    try {
      for (;;) {
        for (let event = this.#held.shift(); event; event = this.#held.shift()) yield event;
        if (this.#ended) break;
        await this.#read();
      }
    } finally {
      if (!this.#ended) await this.close();
    }
    if (!this.#done) throw this.#failure;
  }

  /** Close the connection, which ends the run unless it says otherwise. */
  async close(): Promise<void> {
    if (!this.#ended) this.#end(disconnected("the stream was closed"));
    await this.#events.return();
  }

  #read(): Promise<void> {
    this.#reading ??= this.#next()
      .catch((error: unknown) => this.#end(error))
      .finally(() => (this.#reading = undefined));
    return this.#reading;
  }

  async #next(): Promise<void> {
    const { done, value } = await this.#events.next();
    if (done) return this.#end(disconnected("the connection broke"));
    const { type, data, comment } = value;
    if (comment !== undefined) this.dropped += Number(/^(\d+) token events were dropped/.exec(comment)?.[1] ?? 0);
    else if (type === "agent") this.#held.push(JSON.parse(data) as AgentEvent);
    else if (type === "done") {
      this.#done = JSON.parse(data) as DoneEvent;
      this.#end(undefined);
    } else if (type === "error") {
      const failure = JSON.parse(data) as Failure;
      this.#end(errorOf(PASSING.has(failure.code) ? 503 : 500, failure));
    }
  }

  #end(failure: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#failure = failure;
  }
}
