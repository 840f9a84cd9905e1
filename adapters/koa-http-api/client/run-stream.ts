import { inTime, type StreamedEvent } from "./connection.js";
import { disconnected, errorOf } from "./errors.js";
import type { AgentEvent, DoneEvent } from "../shapes.js";

/** What a run is known by. `model` is `provider/model`; "" of a run in line, whose model is chosen when its turn comes. */
export interface RunIds {
  sessionId: string;
  runId: string;
  model: string;
}

/** What fails a run and passes by itself: as a plain answer it has the status 503. */
const PASSING: ReadonlySet<unknown> = new Set(["shutting_down", "store_unavailable", "too_many_runs"]);

/** Milliseconds that a stream has to end behind its last event. */
const LAST_MS = 1000;

/** A run as it goes. Who leaves the loop closes the connection, which ends the run unless its request says otherwise. */
export class RunStream implements RunIds, AsyncIterable<AgentEvent> {
  readonly sessionId: string;
  readonly runId: string;
  readonly model: string;
  /** Token events that the server left out because this reader was too slow; the session's messages have all. */
  dropped = 0;
  readonly #events: AsyncGenerator<StreamedEvent, void, undefined>;
  readonly #stop: () => void;
  readonly #held: AgentEvent[] = [];
  #reading: Promise<void> | undefined;
  #end: { done: DoneEvent } | { failure: unknown } | undefined;
  #result: Promise<DoneEvent> | undefined;

  /** @internal */
  constructor(ids: RunIds, events: AsyncGenerator<StreamedEvent, void, undefined>, stop: () => void) {
    this.sessionId = ids.sessionId;
    this.runId = ids.runId;
    this.model = ids.model;
    this.#events = events;
    this.#stop = stop;
  }

  /** How it ended: reads on to the end, also where nobody iterates. Rejects with `GantryError` when the run failed. */
  get result(): Promise<DoneEvent> {
    this.#result ??= (async () => {
      while (!this.#end) await this.#read();
      return doneOf(this.#end);
    })();
    // Who iterates as well is told there.
    this.#result.catch(() => undefined);
    return this.#result;
  }

  /** What the run says; throws `GantryError` when it failed. */
  async *[Symbol.asyncIterator](): AsyncGenerator<AgentEvent, void, undefined> {
    try {
      for (;;) {
        for (let event = this.#held.shift(); event; event = this.#held.shift()) yield event;
        if (this.#end) break;
        await this.#read();
      }
    } finally {
      this.close();
    }
    doneOf(this.#end);
  }

  /** Close the connection, which ends the run unless its request says otherwise. */
  close(): void {
    if (this.#end) return;
    this.#end = { failure: disconnected("the stream was closed") };
    this.#stop();
  }

  /** One event more is held, or it is known how it ended. Whoever waits for that waits together. */
  #read(): Promise<void> {
    this.#reading ??= this.#next()
      .catch((error: unknown) => void (this.#end ??= { failure: error }))
      .finally(() => {
        this.#reading = undefined;
        if (this.#end) this.#stop();
      });
    return this.#reading;
  }

  async #next(): Promise<void> {
    const { done, value } = await this.#events.next();
    if (done) throw disconnected("the connection broke");
    const { type, data, comment } = value;
    if (comment !== undefined) this.dropped += Number(/^(\d+) token events were dropped/.exec(comment)?.[1] ?? 0);
    else if (type === "agent") this.#held.push(data as AgentEvent);
    else if (type === "done" || type === "error") {
      const status = PASSING.has((data as { code?: unknown } | null)?.code) ? 503 : 500;
      this.#end ??= type === "done" ? { done: data as DoneEvent } : { failure: errorOf(status, data) };
      // To its end, so that the connection can be used again; how that ends is of no account any more.
      await inTime(this.#events.next(), LAST_MS).catch(() => undefined);
    }
  }
}

function doneOf(end: { done: DoneEvent } | { failure: unknown }): DoneEvent {
  if ("done" in end) return end.done;
  throw end.failure;
}
