import { settlesWithin } from "../../base/abort.js";
import { nowMs } from "../../base/clock.js";
import { InputError, RunCancelledError, RunNotFoundError, ShuttingDownError } from "../../ports/errors.js";
import type { RunRecord, RunState } from "../../ports/run.js";
import type { RunQuery } from "../../ports/session-queries.js";
import type { SessionDriver } from "../../ports/session-driver.js";
import type { WatchEvent, WatchOptions } from "../../ports/watch.js";
import { RUN_KEY_RETENTION_MS } from "../../sessions/housekeeping.js";
import { notifierOf } from "../../sessions/polling-notifier.js";
import { PollSchedule } from "../../sessions/poll-schedule.js";
import { requireSession } from "../../sessions/require-session.js";
import { withEffectiveState, canRestart, isOpen } from "../../sessions/stored-run.js";
import { withdrawInstructions, type Inbox } from "./inbox.js";
import type { InstructionWriter } from "./instruction-writer.js";
import type { RunQueue } from "./queue.js";
import { checkFields, checkOneOf, type FieldTypes } from "../input/input-checks.js";

const RUN_STATES: readonly RunState[] = [
  "queued",
  "running",
  "waiting",
  "finished",
  "failed",
  "cancelled",
  "interrupted",
];
const QUERY_TYPES: FieldTypes<RunQuery> = {
  id: "string",
  sessionId: "string",
  states: "any",
  idempotencyKey: "string",
  startedBy: "string",
  visibleTo: "string",
  limit: "any",
  before: "any",
};
const PAGE_SIZE = 50;

/**
 * First poll delay after a cancel of a run in another process, in ms; the delay doubles each time. Also the minimum
 * interval between polls after notifications.
 */
const INITIAL_POLL_DELAY_MS = 50;
/** Maximum wait of a cancel for the end of the run, in ms. */
const CANCEL_TIMEOUT_MS = 5_000;

/** Poll interval for a queued run, and minimum interval after notifications, in ms. */
const QUEUE_POLL_INTERVAL_MS = 1_000;
const MIN_QUEUE_POLL_INTERVAL_MS = 200;

/** An active run of this process. */
export interface LocalRun {
  readonly id: string;
  readonly cancel: AbortController;
  readonly inbox: Inbox;
  /** Settles when the run ends. Never rejects. */
  readonly completion: Promise<unknown>;
}

/** The agent's members that `Runs` uses. */
export interface RunsOptions {
  store: () => Promise<SessionDriver>;
  /** Returns the active run of a chain in this process; undefined if there is none. */
  findLocalRun: (rootId: string) => LocalRun | undefined;
  /** Returns the queued runs of this process; undefined if no run was queued yet. */
  findQueue: () => Pick<RunQueue<unknown>, "cancel" | "waitUntilDequeued"> | undefined;
  /** Like `Sessions.watch`. */
  watch: (sessionId: string, options: WatchOptions) => AsyncIterable<WatchEvent>;
}

/** The runs of a store, including runs of other processes. */
export class Runs {
  readonly #options: RunsOptions;
  #instructionWriter: Promise<InstructionWriter> | undefined;

  constructor(options: RunsOptions) {
    this.#options = options;
  }

  /** Returns a run by its id; undefined if it does not exist. Rejects with `StoreError`. */
  async get(id: string): Promise<RunRecord | undefined> {
    const store = await this.#options.store();
    const [storedRun] = await store.runs({ id, limit: 1 });
    return storedRun && withEffectiveState(storedRun, store);
  }

  /**
   * Cancels a run of any process. Resolves with the run's record afterwards. A run that had already ended is unchanged.
   * A run that does not end within five seconds stays active until its process reads the instruction. Rejects with
   * `RunNotFoundError` or `StoreError`.
   */
  async cancel(id: string): Promise<RunRecord> {
    const store = await this.#options.store();
    const run = await this.#requireRun(id);
    if (!isOpen(run)) return run;
    await this.#options.findQueue()?.cancel(run.sessionId, id);
    const localRun = this.#options.findLocalRun(run.sessionId);
    if (localRun?.id === id) {
      localRun.cancel.abort(new RunCancelledError());
      await settlesWithin(localRun.completion, CANCEL_TIMEOUT_MS);
      return this.#requireRun(id);
    }
    const schedule = new PollSchedule(notifierOf(store), run.sessionId, INITIAL_POLL_DELAY_MS);
    try {
      const instruction = await this.#storeInstruction(store, run, "cancel", "");
      const deadlineMs = Date.now() + CANCEL_TIMEOUT_MS;
      for (let delayMs = INITIAL_POLL_DELAY_MS; ; delayMs *= 2) {
        const remainingMs = deadlineMs - Date.now();
        await schedule.next(Math.max(0, Math.min(delayMs, remainingMs)));
        const currentRun = await this.#requireRun(id);
        // While the run is active, the instruction stays stored: a suspended process reads it when it continues.
        if (isOpen(currentRun) && remainingMs > 0) continue;
        if (!isOpen(currentRun)) await withdrawInstructions(store, [instruction]);
        return currentRun;
      }
    } finally {
      schedule.end();
    }
  }

  /**
   * Resolves with the record of a run of any process when it has ended. Rejects with `RunNotFoundError` (also if its
   * session is deleted meanwhile), `StoreError`, or the signal's reason.
   */
  async ended(id: string, signal?: AbortSignal): Promise<RunRecord> {
    const run = await this.started(id, signal);
    if (!isOpen(run)) return run;
    // The watch reports each change and polls once a second, because dead processes report nothing.
    for await (const event of this.#options.watch(run.sessionId, {
      afterSeq: Number.MAX_SAFE_INTEGER,
      ...(signal && { signal }),
    })) {
      if (event.type === "deleted") throw new RunNotFoundError(id);
      if (event.type !== "state") continue;
      const currentRun = event.state.run?.id === id ? event.state.run : await this.#requireRun(id);
      if (!isOpen(currentRun)) return currentRun;
    }
    signal?.throwIfAborted();
    throw new ShuttingDownError();
  }

  /** Resolves with a run when the run leaves the queue: the run is active or has ended. Rejects like `ended`. */
  async started(id: string, signal: AbortSignal = new AbortController().signal): Promise<RunRecord> {
    const store = await this.#options.store();
    const run = await this.#requireRun(id);
    if (run.state !== "queued") return run;
    // The watched state of a session does not include its queue.
    const schedule = new PollSchedule(notifierOf(store), run.sessionId, MIN_QUEUE_POLL_INTERVAL_MS);
    void this.#options
      .findQueue()
      ?.waitUntilDequeued(run.sessionId, id)
      ?.then(() => schedule.wakeNow());
    try {
      for (;;) {
        await schedule.next(QUEUE_POLL_INTERVAL_MS, signal);
        const currentRun = await this.#requireRun(id);
        if (currentRun.state !== "queued") return currentRun;
      }
    } finally {
      schedule.end();
    }
  }

  /**
   * Sends a user message to an active run, before the next model call. If the run ends first, the message starts
   * another run of the session, unless the run was cancelled.
   *
   * Resolves with false, without effect, if the run had already ended. Rejects with `InputError`, `RunNotFoundError`,
   * `StoreError`, or `TooManyRunsError` if too many messages are pending.
   */
  async steer(id: string, text: string): Promise<boolean> {
    if (typeof text !== "string" || text.trim() === "") throw new InputError("text", "text that is not empty");
    const store = await this.#options.store();
    const run = await this.#requireRun(id);
    if (!isOpen(run)) return false;
    const instruction = await this.#storeInstruction(store, run, "steer", text);
    const localRun = this.#options.findLocalRun(run.sessionId);
    if (localRun?.id === id) await localRun.inbox.read();
    // A run that ends after this check reads the instruction itself.
    return isOpen(await this.#requireRun(id)) || (await withdrawInstructions(store, [instruction])).length === 0;
  }

  /**
   * Moves a running tool call of an active run to the background, so that the model continues without its end. Without
   * `callId`, moves all running calls. Calls that have ended or whose tool has no background work are unchanged.
   *
   * Resolves with false, without effect, if the run had already ended. Rejects with `InputError`, `RunNotFoundError`,
   * `StoreError`, or `TooManyRunsError` if too many such requests are pending.
   */
  async moveToBackground(id: string, callId = ""): Promise<boolean> {
    if (typeof callId !== "string") throw new InputError("callId", "the id of a tool call");
    const store = await this.#options.store();
    const run = await this.#requireRun(id);
    if (!isOpen(run)) return false;
    await this.#storeInstruction(store, run, "background", callId);
    const localRun = this.#options.findLocalRun(run.sessionId);
    if (localRun?.id === id) await localRun.inbox.read();
    return true;
  }

  async #storeInstruction(...args: Parameters<InstructionWriter["store"]>): ReturnType<InstructionWriter["store"]> {
    this.#instructionWriter ??= import("./instruction-writer.js").then(
      ({ InstructionWriter }) => new InstructionWriter(),
    );
    return (await this.#instructionWriter).store(...args);
  }

  /** Returns the run of an idempotency key if it was interrupted, so that another run can continue it. */
  async findInterruptedRun(key: string): Promise<RunRecord | undefined> {
    const [run] = await this.list({ idempotencyKey: key, limit: 1 });
    return run && canRestart(run) ? run : undefined;
  }

  /**
   * Frees an idempotency key if its run can be restarted, or if the run has ended and started more than a day ago.
   * Returns whether the key is free.
   */
  async freeKey(key: string): Promise<boolean> {
    const store = await this.#options.store();
    const oldestKeptAt = new Date(nowMs(store) - RUN_KEY_RETENTION_MS).toISOString();
    const [storedRun] = await store.runs({ idempotencyKey: key, limit: 1 });
    if (!storedRun) return true;
    const run = withEffectiveState(storedRun, store);
    const isOld = run.startedAt < oldestKeptAt && !isOpen(run);
    if (!isOld && !canRestart(run)) return false;
    // Remove the answer too, because it was stored for requests with this key.
    const runs = [{ ...run, idempotencyKey: "", fingerprint: "", answer: null }];
    await store.write(run.sessionId, { fence: null, sync: false, runs });
    return true;
  }

  async #requireRun(id: string): Promise<RunRecord> {
    const run = await this.get(id);
    if (!run) throw new RunNotFoundError(id);
    return run;
  }

  /**
   * Lists runs, newest first. Default `limit`: 50. `sessionId` is any id of a chain, or an alias. `states` are compared
   * with the state that `get` returns. `before` is the last run of the previous page. Rejects with `InputError`,
   * `SessionNotFoundError` or `StoreError`.
   */
  async list(query: { [Key in keyof RunQuery]?: RunQuery[Key] | undefined } = {}): Promise<RunRecord[]> {
    checkQuery(query);
    const { id, sessionId, states, idempotencyKey, startedBy, visibleTo, limit = PAGE_SIZE } = query;
    const store = await this.#options.store();
    // The store does not know which runs are dead, so open runs are read too.
    const storedStates = states?.includes("interrupted")
      ? [...new Set([...states, "queued", "running", "waiting"] as const)]
      : states;
    const storeQuery = {
      limit,
      ...(id === undefined ? {} : { id }),
      ...(sessionId === undefined ? {} : { sessionId: (await requireSession(store, sessionId)).id }),
      ...(storedStates === undefined ? {} : { states: storedStates }),
      ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
      ...(startedBy === undefined ? {} : { startedBy }),
      ...(visibleTo === undefined ? {} : { visibleTo }),
    };
    const runs: RunRecord[] = [];
    for (let { before } = query; ;) {
      const page = await store.runs({ ...storeQuery, ...(before === undefined ? {} : { before }) });
      for (const storedRun of page) {
        const run = withEffectiveState(storedRun, store);
        if (states?.includes(run.state) !== false) runs.push(run);
      }
      if (page.length < limit || runs.length >= limit) return runs.slice(0, limit);
      before = page.at(-1)?.run;
    }
  }
}

function checkQuery(query: Parameters<Runs["list"]>[0] & object): void {
  checkFields(query, QUERY_TYPES);
  const { states = [], limit = PAGE_SIZE, before } = query;
  if (!Array.isArray(states)) throw new InputError("states", "a list of states");
  for (const state of states) checkOneOf("states", RUN_STATES, state);
  if (!Number.isSafeInteger(limit) || limit < 0) throw new InputError("limit", "a whole number, at least 0");
  if (before !== undefined && (typeof before?.startedAt !== "string" || typeof before.id !== "string"))
    throw new InputError("before", "a run, or its startedAt and id");
}
