import { settlesWithin } from "../base/abort.js";
import { newId, now } from "../base/ids.js";
import {
  InputError,
  RunCancelledError,
  RunNotFoundError,
  ShuttingDownError,
  TooManyRunsError,
} from "../ports/errors.js";
import type { Instruction, RunRecord, RunState } from "../ports/run.js";
import type { RunQuery, SessionDriver } from "../ports/session-driver.js";
import type { WatchEvent, WatchOptions } from "../ports/watch.js";
import { KEY_MS } from "../sessions/housekeeping.js";
import { notifierOf } from "../sessions/polling-notifier.js";
import { Looks } from "../sessions/poll-schedule.js";
import { found } from "../sessions/require-session.js";
import { asItIs, brokeOff, isOpen } from "../sessions/stored-run.js";
import { withdraw, type Inbox } from "./queue/inbox.js";
import { oneOf } from "./input/run-input.js";

/** Every state of a run. */
const STATES: readonly RunState[] = ["queued", "running", "waiting", "finished", "failed", "cancelled", "interrupted"];
const KNOWN: Readonly<Record<keyof RunQuery, true>> = {
  id: true,
  sessionId: true,
  states: true,
  key: true,
  limit: true,
  before: true,
};
/** Runs of a list that asks for no number. */
const PAGE = 50;

/**
 * Whoever cancels a run of another process looks whether it has ended after so long, in ms, then after twice as long, and
 * after a hint; all in all so long.
 */
const LOOK_MS = 50;
const CANCEL_MS = 5_000;

/** Whoever waits for one in line looks so often, in ms, and at most so often for hints. */
const LINE_LOOK_MS = 1_000;
const LINE_GAP_MS = 200;

/** Messages for one run that its model was not asked with yet. */
const MAX_WAITING_STEERS = 100;

/** A run under way in this process. */
export interface Running {
  readonly id: string;
  readonly cancel: AbortController;
  readonly inbox: Inbox;
  /** Never rejects. */
  readonly ended: Promise<unknown>;
}

/** What `Runs` needs of the agent that it belongs to. */
export interface RunsOptions {
  store: () => Promise<SessionDriver>;
  /** The run of a chain in this process. */
  running: (rootId: string) => Running | undefined;
  /** Ends the waiting in line of a run in this process; undefined when it does not wait here. */
  unqueue: (rootId: string, runId: string) => { ended: Promise<unknown> } | undefined;
  /** Settles when a run of this process waits in line no more; undefined when it does not wait here. Never rejects. */
  waits: (rootId: string, runId: string) => Promise<unknown> | undefined;
  watch: (sessionId: string, options: WatchOptions) => AsyncIterable<WatchEvent>;
}

/** The runs of a store, those of other processes too. */
export class Runs {
  readonly #store: () => Promise<SessionDriver>;
  readonly #running: RunsOptions["running"];
  readonly #unqueue: RunsOptions["unqueue"];
  readonly #waits: RunsOptions["waits"];
  readonly #watch: RunsOptions["watch"];

  constructor({ store, running, unqueue, waits, watch }: RunsOptions) {
    this.#unqueue = unqueue;
    this.#waits = waits;
    this.#watch = watch;
    this.#store = store;
    this.#running = running;
  }

  /** By its id; undefined when there is none. Rejects with `StoreError`. */
  async get(id: string): Promise<RunRecord | undefined> {
    const store = await this.#store();
    const [stored] = await store.runs({ id, limit: 1 });
    return stored && asItIs(stored);
  }

  /**
   * End a run, whichever process it runs in. Resolves with the run as it is then: one that had ended before is left as it
   * was, and one that does not end within five seconds still goes on, until its process can follow. Rejects with `RunNotFoundError` or `StoreError`.
   */
  async cancel(id: string): Promise<RunRecord> {
    const store = await this.#store();
    const run = await this.#found(id);
    if (!isOpen(run)) return run;
    await this.#unqueue(run.sessionId, id)?.ended;
    const here = this.#running(run.sessionId);
    if (here?.id === id) {
      here.cancel.abort(new RunCancelledError());
      await settlesWithin(here.ended, CANCEL_MS);
      return this.#found(id);
    }
    const looks = new Looks(notifierOf(store), run.sessionId, LOOK_MS);
    try {
      const instruction = await this.#instruct(store, run, "cancel", "");
      const late = Date.now() + CANCEL_MS;
      for (let wait = LOOK_MS; ; wait *= 2) {
        const left = late - Date.now();
        await looks.next(Math.max(0, Math.min(wait, left)));
        const now = await this.#found(id);
        // A process that is stopped for now finds it when it goes on.
        if (isOpen(now) && left > 0) continue;
        if (!isOpen(now)) await withdraw(store, [instruction]);
        return now;
      }
    } finally {
      looks.end();
    }
  }

  /**
   * Resolves with a run when it has ended, whichever process it runs in. Rejects with `RunNotFoundError` (also when its
   * session is deleted meanwhile), `StoreError`, or the signal's reason.
   */
  async ended(id: string, signal?: AbortSignal): Promise<RunRecord> {
    const run = await this.begun(id, signal);
    if (!isOpen(run)) return run;
    // Told at each change, and once a second beside: the dead tell nothing.
    for await (const event of this.#watch(run.sessionId, {
      behind: Number.MAX_SAFE_INTEGER,
      ...(signal && { signal }),
    })) {
      if (event.type === "deleted") throw new RunNotFoundError(id);
      if (event.type !== "state") continue;
      const now = event.state.run?.id === id ? event.state.run : await this.#found(id);
      if (!isOpen(now)) return now;
    }
    signal?.throwIfAborted();
    throw new ShuttingDownError();
  }

  /** Resolves with a run when it waits in line no more: it goes on, or has ended. Rejects as `ended`. */
  async begun(id: string, signal: AbortSignal = new AbortController().signal): Promise<RunRecord> {
    const store = await this.#store();
    const run = await this.#found(id);
    if (run.state !== "queued") return run;
    // A line is no part of what is told of its session.
    const looks = new Looks(notifierOf(store), run.sessionId, LINE_GAP_MS);
    void this.#waits(run.sessionId, id)?.then(() => looks.now());
    try {
      for (;;) {
        await looks.next(LINE_LOOK_MS, signal);
        const now = await this.#found(id);
        if (now.state !== "queued") return now;
      }
    } finally {
      looks.end();
    }
  }

  /**
   * Tell a run something, as the user's, before its model is asked again; what comes too late for that begins the
   * session's next run by itself, unless the run is cancelled. Resolves with false, and nothing was told, when the run
   * had ended before. Rejects with `InputError`, `RunNotFoundError`, `StoreError`, or `TooManyRunsError` where the run has
   * not read many others yet.
   */
  async steer(id: string, text: string): Promise<boolean> {
    if (typeof text !== "string" || text.trim() === "") throw new InputError("text", "text that is not empty");
    const store = await this.#store();
    const run = await this.#found(id);
    if (!isOpen(run)) return false;
    const waiting = (await store.instructions(run.sessionId)).filter(
      ({ runId, kind }) => runId === id && kind === "steer",
    );
    if (waiting.length >= MAX_WAITING_STEERS) throw new TooManyRunsError(1000, "too many messages wait for this run");
    const instruction = await this.#instruct(store, run, "steer", text);
    const here = this.#running(run.sessionId);
    if (here?.id === id) await here.inbox.look();
    // One that ends later than this look finds the instruction by itself.
    return isOpen(await this.#found(id)) || (await withdraw(store, [instruction])).length === 0;
  }

  /** Free a key whose run broke off, or ended and is older than a day. False when it is neither. */
  async freeKey(key: string): Promise<boolean> {
    const store = await this.#store();
    const before = new Date(Date.now() - KEY_MS).toISOString();
    const [stored] = await store.runs({ key, limit: 1 });
    if (!stored) return true;
    const run = asItIs(stored);
    const isOld = run.startedAt < before && !isOpen(run);
    if (!isOld && !brokeOff(run)) return false;
    // The answer of one that broke off is null.
    const runs = [{ ...run, key: "", fingerprint: "", answer: null }];
    await store.write(run.sessionId, { fence: null, sync: false, runs });
    return true;
  }

  async #found(id: string): Promise<RunRecord> {
    const run = await this.get(id);
    if (!run) throw new RunNotFoundError(id);
    return run;
  }

  async #instruct(store: SessionDriver, run: RunRecord, kind: Instruction["kind"], text: string): Promise<Instruction> {
    const { id: runId, sessionId } = run;
    const instruction: Instruction = { id: newId(), sessionId, runId, kind, text, createdAt: now() };
    await store.write(sessionId, { fence: null, sync: true, instruct: instruction });
    notifierOf(store).publish(sessionId);
    return instruction;
  }

  /**
   * Newest first; without `limit` 50 of them. `sessionId` is any id of a chain, or an alias; `states` are as `get` tells
   * them; `before` is the last of the page before. Rejects with `InputError`, `SessionNotFoundError` or `StoreError`.
   */
  async list(query: { [Key in keyof RunQuery]?: RunQuery[Key] | undefined } = {}): Promise<RunRecord[]> {
    checkQuery(query);
    const { id, sessionId, states, key, limit = PAGE } = query;
    const store = await this.#store();
    // A store does not know who is dead.
    const stored = states?.includes("interrupted")
      ? [...new Set([...states, "queued", "running", "waiting"] as const)]
      : states;
    const narrowed = {
      limit,
      ...(id === undefined ? {} : { id }),
      ...(sessionId === undefined ? {} : { sessionId: (await found(store, sessionId)).id }),
      ...(stored === undefined ? {} : { states: stored }),
      ...(key === undefined ? {} : { key }),
    };
    const runs: RunRecord[] = [];
    for (let { before } = query; ;) {
      const page = await store.runs({ ...narrowed, ...(before === undefined ? {} : { before }) });
      for (const one of page) {
        const run = asItIs(one);
        if (states?.includes(run.state) !== false) runs.push(run);
      }
      if (page.length < limit || runs.length >= limit) return runs.slice(0, limit);
      before = page.at(-1)?.run;
    }
  }
}

/** Throws `InputError`. */
function checkQuery(query: Parameters<Runs["list"]>[0] & object): void {
  for (const key of Object.keys(query))
    if (!Object.hasOwn(KNOWN, key)) throw new InputError(key, `one of ${Object.keys(KNOWN).join(", ")}`);
  const { id = "", sessionId = "", states = [], key = "", limit = PAGE, before } = query;
  if (typeof id !== "string") throw new InputError("id", "a string");
  if (typeof sessionId !== "string") throw new InputError("sessionId", "a string");
  if (typeof key !== "string") throw new InputError("key", "a string");
  if (!Array.isArray(states)) throw new InputError("states", "a list of states");
  for (const state of states) oneOf("states", STATES, state);
  if (!Number.isSafeInteger(limit) || limit < 0) throw new InputError("limit", "a whole number, at least 0");
  if (before !== undefined && (typeof before?.startedAt !== "string" || typeof before.id !== "string"))
    throw new InputError("before", "a run, or its startedAt and id");
}
