import { withSilenceLimit, type StreamedEvent } from "./connection.js";
import { createDisconnectedError, toApiError } from "./errors.js";
import type { ApiAgentEvent, DoneEvent } from "../shapes.js";

/** Identity of a run. `model` is `provider/model`; `""` for a queued run, because its model is chosen at its start. */
export interface RunIds {
  sessionId: string;
  runId: string;
  model: string;
}

/** Error codes of temporary failures. An answer without a stream has the status 503 for them. */
const TEMPORARY_ERROR_CODES: ReadonlySet<unknown> = new Set(["shutting_down", "store_unavailable", "too_many_runs"]);

/** Time for a stream to end after its last event, in ms. */
const DRAIN_TIMEOUT_MS = 1000;

/**
 * The events of a run. Ending the `for await` loop early closes the connection, which ends the run unless its request
 * has another `on_disconnect`.
 */
export class RunStream implements RunIds, AsyncIterable<ApiAgentEvent> {
  readonly sessionId: string;
  readonly runId: string;
  readonly model: string;
  /**
   * Number of token events that the server dropped because this reader was too slow. The session's messages contain the
   * complete text.
   */
  dropped = 0;
  readonly #events: AsyncGenerator<StreamedEvent, void, undefined>;
  readonly #closeConnection: () => void;
  readonly #pendingEvents: ApiAgentEvent[] = [];
  #pendingRead: Promise<void> | undefined;
  /** The end of the run; undefined until it is read. */
  #outcome: { done: DoneEvent } | { failure: unknown } | undefined;
  #result: Promise<DoneEvent> | undefined;

  /** @internal */
  constructor(ids: RunIds, events: AsyncGenerator<StreamedEvent, void, undefined>, closeConnection: () => void) {
    this.sessionId = ids.sessionId;
    this.runId = ids.runId;
    this.model = ids.model;
    this.#events = events;
    this.#closeConnection = closeConnection;
  }

  /**
   * The last event of the run. Reads the stream to its end, with or without an iteration. Rejects with `ApiError` if
   * the run failed.
   */
  get result(): Promise<DoneEvent> {
    this.#result ??= (async () => {
      while (!this.#outcome) await this.#read();
      return readOutcome(this.#outcome);
    })();
    // An iteration reports the same failure; avoid an unhandled rejection.
    this.#result.catch(() => undefined);
    return this.#result;
  }

  /** Yields the events of the run; throws `ApiError` if the run failed. */
  async *[Symbol.asyncIterator](): AsyncGenerator<ApiAgentEvent, void, undefined> {
    try {
      for (;;) {
        for (let event = this.#pendingEvents.shift(); event; event = this.#pendingEvents.shift()) yield event;
        if (this.#outcome) break;
        await this.#read();
      }
    } finally {
      this.close();
    }
    readOutcome(this.#outcome);
  }

  /** Closes the connection, which ends the run unless its request has another `on_disconnect`. */
  close(): void {
    if (this.#outcome) return;
    this.#outcome = { failure: createDisconnectedError("the stream was closed") };
    this.#closeConnection();
  }

  /** Reads one more event, or the end of the run. Concurrent callers share one read. */
  #read(): Promise<void> {
    this.#pendingRead ??= this.#readEvent()
      .catch((error: unknown) => void (this.#outcome ??= { failure: error }))
      .finally(() => {
        this.#pendingRead = undefined;
        if (this.#outcome) this.#closeConnection();
      });
    return this.#pendingRead;
  }

  async #readEvent(): Promise<void> {
    const { done, value } = await this.#events.next();
    if (done) throw createDisconnectedError("the connection broke");
    const { type, data, comment } = value;
    if (comment !== undefined) this.dropped += Number(/^(\d+) token events were dropped/.exec(comment)?.[1] ?? 0);
    else if (type === "agent") this.#pendingEvents.push(data as ApiAgentEvent);
    else if (type === "done" || type === "error") {
      const status = TEMPORARY_ERROR_CODES.has((data as { code?: unknown } | null)?.code) ? 503 : 500;
      this.#outcome ??= type === "done" ? { done: data as DoneEvent } : { failure: toApiError(status, data) };
      // Read to the end of the stream, so that the connection can be reused. Errors no longer matter.
      await withSilenceLimit(this.#events.next(), DRAIN_TIMEOUT_MS).catch(() => undefined);
    }
  }
}

/** Returns the last event, or throws the failure. */
function readOutcome(outcome: { done: DoneEvent } | { failure: unknown }): DoneEvent {
  if ("done" in outcome) return outcome.done;
  throw outcome.failure;
}
