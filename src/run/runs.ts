import { InputError } from "../ports/errors.js";
import type { RunRecord, RunState } from "../ports/run.js";
import type { RunQuery, SessionDriver } from "../ports/session-driver.js";
import { found } from "../sessions/sessions.js";
import { asItIs } from "../sessions/stored-run.js";
import { oneOf } from "./input.js";

/** Every state of a run. */
const STATES: readonly RunState[] = ["running", "waiting", "finished", "failed", "cancelled", "interrupted"];
const KNOWN: Readonly<Record<keyof RunQuery, true>> = { sessionId: true, states: true, limit: true, before: true };
/** Runs of a list that asks for no number. */
const PAGE = 50;

/** The runs of a store, those of other processes too. */
export class Runs {
  readonly #store: () => Promise<SessionDriver>;

  constructor(store: () => Promise<SessionDriver>) {
    this.#store = store;
  }

  /** By its id; undefined when there is none. Rejects with `StoreError`. */
  async get(id: string): Promise<RunRecord | undefined> {
    const store = await this.#store();
    const stored = await store.run(id);
    return stored && asItIs(stored);
  }

  /**
   * Newest first; without `limit` 50 of them. `sessionId` is any id of a chain, or an alias; `states` are as `get` tells
   * them; `before` is the last of the page before. Rejects with `InputError`, `SessionNotFoundError` or `StoreError`.
   */
  async list(query: Partial<RunQuery> = {}): Promise<RunRecord[]> {
    checkQuery(query);
    const { sessionId, states, limit = PAGE } = query;
    const store = await this.#store();
    // A store does not know who is dead.
    const stored = states?.includes("interrupted") ? [...new Set([...states, "running", "waiting"] as const)] : states;
    const narrowed = {
      limit,
      ...(sessionId === undefined ? {} : { sessionId: (await found(store, sessionId)).id }),
      ...(stored === undefined ? {} : { states: stored }),
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
function checkQuery(query: Partial<RunQuery>): void {
  for (const key of Object.keys(query))
    if (!Object.hasOwn(KNOWN, key)) throw new InputError(key, `one of ${Object.keys(KNOWN).join(", ")}`);
  const { sessionId = "", states = [], limit = PAGE, before } = query;
  if (typeof sessionId !== "string") throw new InputError("sessionId", "a string");
  if (!Array.isArray(states)) throw new InputError("states", "a list of states");
  for (const state of states) oneOf("states", STATES, state);
  if (!Number.isSafeInteger(limit) || limit < 0) throw new InputError("limit", "a whole number, at least 0");
  if (before !== undefined && (typeof before?.startedAt !== "string" || typeof before.id !== "string"))
    throw new InputError("before", "a run, or its startedAt and id");
}
