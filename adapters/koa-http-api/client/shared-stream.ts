import type { ApiAsk, ApiSession } from "../shapes.js";
import { linkSignal, withSilenceLimit, type ServerConnection, type StreamedEvent } from "./connection.js";
import { ApiError, createDisconnectedError, createInvalidAnswerError, toApiError } from "./errors.js";
import type { StreamedWatch } from "./streamed-watch.js";
import {
  EVENT_TYPES,
  isPermanent,
  MAX_RETRY_MS,
  pause,
  pauseBeforeRetry,
  type ConnectionState,
  type WatchedEvent,
} from "./watch.js";

/** Delay before a connection with other sessions is opened, in ms: sessions added within it cause one connection. */
const ADD_DELAY_MS = 10;
/** The same for removed sessions. Until then, their events are ignored. */
const REMOVE_DELAY_MS = 1_000;
/**
 * Minimum time for which a connection delivers events before another replaces it, in ms. It is at least as long as the
 * request took, so that sessions progress although others are added all the time.
 */
const MIN_READ_MS = 50;

/** Functions that get the events besides those of watched sessions. */
export interface SharedStreamHandlers {
  /** Called with all open questions, newest first: when connected, and after each change. */
  onAsks?: ((asks: readonly ApiAsk[]) => void) | undefined;
  /** Called with an entry of the session list that is new or has changed. */
  onSession?: ((session: ApiSession) => void) | undefined;
  /** Called with the id of a session that was deleted. */
  onSessionRemoved?: ((id: string) => void) | undefined;
  /** Called when the state of the connection changes; `error` is the reason for `lost`. */
  onConnection?: ((state: ConnectionState, error?: ApiError) => void) | undefined;
}

/** A connection whose events are delivered. */
interface Reading {
  response: Response;
  /** The watches by the index that events have. */
  watches: readonly StreamedWatch[];
  /** Minimum time before a replacement, in ms. */
  minReadMs: number;
  signal: AbortSignal;
  /** Called after each event with a position. */
  onProgress: () => void;
}

/**
 * One connection to the server with the events of many sessions. A change of the sessions opens another connection,
 * which continues each session at its position and replaces the first.
 */
export class SharedStream {
  readonly #connection: ServerConnection;
  readonly #canAnswer: boolean;
  readonly #handlers: SharedStreamHandlers;
  readonly #watches = new Set<StreamedWatch>();
  readonly #closeController = new AbortController();
  #isRunning = false;
  #changeTimer: ReturnType<typeof setTimeout> | undefined;
  #changeDueMs = Infinity;
  /** Whether the watches have changed since the connection was requested. */
  #isOutdated = false;
  /** Called when the open connection must be replaced. */
  #replace: (() => void) | undefined;
  #state: ConnectionState = "connecting";

  constructor(connection: ServerConnection, canAnswer: boolean, handlers: SharedStreamHandlers) {
    this.#connection = connection;
    this.#canAnswer = canAnswer;
    this.#handlers = handlers;
    this.#start();
  }

  /** Number of watched sessions. */
  get size(): number {
    return this.#watches.size;
  }

  add(watch: StreamedWatch): void {
    this.#watches.add(watch);
    watch.reportConnection("connecting");
    if (this.#isRunning) this.#scheduleChange(ADD_DELAY_MS);
    else this.#start();
  }

  /** Sends the events of a watch again that was too slow. */
  resume(): void {
    this.#scheduleChange(ADD_DELAY_MS);
  }

  remove(watch: StreamedWatch): void {
    if (this.#watches.delete(watch)) this.#scheduleChange(REMOVE_DELAY_MS);
  }

  /** Ends the connection and all watches. */
  close(): void {
    clearTimeout(this.#changeTimer);
    this.#closeController.abort();
    for (const watch of this.#watches) watch.abort();
    this.#watches.clear();
  }

  #scheduleChange(delayMs: number): void {
    const dueMs = performance.now() + delayMs;
    if (this.#closeController.signal.aborted || this.#changeDueMs <= dueMs) return;
    clearTimeout(this.#changeTimer);
    this.#changeDueMs = dueMs;
    this.#changeTimer = setTimeout(() => {
      this.#changeDueMs = Infinity;
      this.#isOutdated = true;
      this.#replace?.();
    }, delayMs);
  }

  #start(): void {
    this.#isRunning = true;
    void this.#run();
  }

  /** Stays connected until the stream is closed or the server permanently refuses. Never rejects. */
  async #run(): Promise<void> {
    const { signal } = this.#closeController;
    let endPrevious = (): void => undefined;
    await pause(ADD_DELAY_MS, signal);
    for (let attempt = 0; !signal.aborted; attempt += 1) {
      if (this.#state === "lost") this.#report("connecting");
      const startedAtMs = performance.now();
      let failure: ApiError;
      const link = linkSignal(signal);
      const onProgress = () => (attempt = 0);
      try {
        const watches = this.#takeWatches();
        const response = await withSilenceLimit(this.#open(watches, link.signal), this.#connection.silenceMs);
        endPrevious();
        this.#report("open");
        const minReadMs = Math.max(MIN_READ_MS, performance.now() - startedAtMs);
        const reading = { response, watches, minReadMs, signal: link.signal, onProgress };
        const isReplaced = await this.#readUntilReplaced(reading);
        if (isReplaced) {
          endPrevious = link.end;
          attempt = -1;
          continue;
        }
        failure = createDisconnectedError("the stream ended");
      } catch (error) {
        if (signal.aborted) break;
        if (!(error instanceof ApiError) || isPermanent(error.status)) {
          link.end();
          endPrevious();
          this.#fail(error);
          return;
        }
        failure = error;
      }
      link.end();
      endPrevious();
      // A connection that lasted longer than the maximum delay counts as successful, even without events.
      if (performance.now() - startedAtMs > MAX_RETRY_MS) attempt = 0;
      this.#report("lost", failure);
      await pauseBeforeRetry(attempt, failure, signal);
    }
    endPrevious();
  }

  /** The watches of the next connection. It includes all changes up to now. */
  #takeWatches(): readonly StreamedWatch[] {
    clearTimeout(this.#changeTimer);
    this.#changeDueMs = Infinity;
    this.#isOutdated = false;
    return [...this.#watches].filter(({ isPaused }) => !isPaused);
  }

  async #open(watches: readonly StreamedWatch[], signal: AbortSignal): Promise<Response> {
    const query = new URLSearchParams();
    for (const { parameter } of watches) query.append("watch", parameter);
    if (this.#canAnswer) query.set("can_answer", "true");
    const response = await this.#connection.sendRequest(`events?${query.toString()}`, { signal });
    if (!response.headers.get("content-type")?.startsWith("text/event-stream"))
      throw createInvalidAnswerError(502, "the answer is not a stream");
    return response;
  }

  /**
   * Delivers the events of a connection until its end or its replacement. Resolves with whether it must be replaced; it
   * then stays open, so that the server sees no gap, but its further events are ignored.
   */
  async #readUntilReplaced({ response, watches, minReadMs, signal, onProgress }: Reading): Promise<boolean> {
    let isReplaced = false;
    const startedWatches = new Set<StreamedWatch>();
    let minReadTimer: ReturnType<typeof setTimeout> | undefined;
    const replacement = new Promise<void>((resolve) => {
      const replace = () => {
        isReplaced = true;
        resolve();
      };
      minReadTimer = setTimeout(() => {
        this.#replace = replace;
        if (this.#isOutdated) replace();
      }, minReadMs);
    });
    const read = async () => {
      for await (const event of this.#connection.readEvents(response, signal)) {
        if (isReplaced) continue;
        if (event.id !== undefined) onProgress();
        this.#deliver(event, watches, startedWatches);
      }
    };
    const reading = read();
    // After a replacement the rejection is the expected end of the connection.
    reading.catch(() => undefined);
    try {
      await Promise.race([reading, replacement]);
    } finally {
      clearTimeout(minReadTimer);
      this.#replace = undefined;
    }
    return isReplaced;
  }

  #deliver(
    { type, data, id }: StreamedEvent,
    watches: readonly StreamedWatch[],
    startedWatches: Set<StreamedWatch>,
  ): void {
    const { onAsks, onSession, onSessionRemoved } = this.#handlers;
    if (type === "asks") onAsks?.((data as { asks: ApiAsk[] }).asks);
    if (type === "session") onSession?.((data as { session: ApiSession }).session);
    if (type === "session_removed") onSessionRemoved?.((data as { session_id: string }).session_id);
    const { watch: index = -1, session_id: _, ...fields } = Object(data) as { watch?: number; session_id?: string };
    const watch = watches[index];
    if (!watch || watch.isPaused || !this.#watches.has(watch)) return;
    if (type === "watch_failed") {
      this.#watches.delete(watch);
      const { status, code } = fields as { status: number; code: string };
      const isDeleted = watch.hasEvents && code === "session_not_found";
      if (isDeleted) watch.push({ type: "deleted" });
      watch.finish(isDeleted ? {} : { error: toApiError(status, fields) });
    }
    if (!EVENT_TYPES.has(type)) return;
    const isAccepted = watch.push({
      type,
      ...fields,
      ...(id !== undefined && { cursor: id.slice(id.lastIndexOf("@") + 1) }),
      ...(!startedWatches.has(watch) && { first: true }),
    } as WatchedEvent);
    startedWatches.add(watch);
    if (!isAccepted) this.#scheduleChange(REMOVE_DELAY_MS);
    if (type !== "deleted") return;
    this.#watches.delete(watch);
    watch.finish();
  }

  /** Ends all watches with the error of a refusal that a retry would not change. */
  #fail(error: unknown): void {
    this.#isRunning = false;
    this.#state = "lost";
    for (const watch of this.#watches) watch.finish({ error });
    this.#watches.clear();
    this.#handlers.onConnection?.("lost", error instanceof ApiError ? error : undefined);
  }

  #report(state: ConnectionState, error?: ApiError): void {
    for (const watch of this.#watches) watch.reportConnection(state, error);
    if (this.#state === state) return;
    this.#state = state;
    this.#handlers.onConnection?.(state, error);
  }
}
