import { now } from "../base/ids.js";
import { AskClosedError, AskNotFoundError, InputError } from "../ports/errors.js";
import type { Ask, AskReply } from "../ports/ask.js";
import type { AskQuery, SessionDriver } from "../ports/session-driver.js";
import { asItIs, isOpen } from "../sessions/stored-run.js";
import type { Running } from "./runs.js";

/** Asks of a list that asks for no number. */
const PAGE = 50;

/** What `Asks` needs of the agent that it belongs to. */
export interface AsksOptions {
  store: () => Promise<SessionDriver>;
  /** The run of a chain in this process. */
  running: (rootId: string) => Running | undefined;
  /** Something of the chain is new. */
  changed: (rootId: string) => void;
}

/** What the runs of a store ask of people, those of other processes too. */
export class Asks {
  readonly #options: AsksOptions;

  constructor(options: AsksOptions) {
    this.#options = options;
  }

  /** By its id; undefined when there is none. Rejects with `StoreError`. */
  async get(id: string): Promise<Ask | undefined> {
    const store = await this.#options.store();
    const stored = await store.ask(id);
    return stored && (await asTheyAre(store, [stored]))[0];
  }

  /** Newest first; without `limit` 50 of them. `sessionId` is any id of a chain. Rejects with `InputError` or `StoreError`. */
  async list(query: Partial<AskQuery> = {}): Promise<Ask[]> {
    const { limit = PAGE } = query;
    if (!Number.isSafeInteger(limit) || limit < 0) throw new InputError("limit", "a whole number, at least 0");
    const store = await this.#options.store();
    const asks = await asTheyAre(store, await store.asks({ ...query, limit }));
    return query.open === true ? asks.filter(({ state }) => state === "open") : asks;
  }

  /**
   * Answer what a run asks, whichever process it runs in. `by` names the door. Resolves with the ask as it is stored
   * then. Rejects with `InputError` (no such choice), `AskNotFoundError`, `AskClosedError` (somebody was faster, or
   * nobody waits any more) or `StoreError`.
   */
  async answer(id: string, { choice = "", text = "" }: Partial<AskReply>, by = "sdk"): Promise<Ask> {
    const store = await this.#options.store();
    const ask = await this.get(id);
    if (!ask) throw new AskNotFoundError(id);
    if (ask.state !== "open") throw new AskClosedError(ask);
    checkReply(ask, { choice, text });
    const told = await store.answer(id, { reply: { choice, text }, answeredBy: by, closedAt: now() });
    if (!told) throw new AskNotFoundError(id);
    if (!told.counts) throw new AskClosedError(told.ask);
    const { sessionId, runId } = told.ask;
    const running = this.#options.running(sessionId);
    if (running?.id === runId) running.inbox.answered(told.ask);
    this.#options.changed(sessionId);
    return told.ask;
  }
}

/** What a run asked that is dead nobody waits for, whatever the store says. */
async function asTheyAre(store: SessionDriver, asks: readonly Ask[]): Promise<Ask[]> {
  const open = [...new Set(asks.filter(({ state }) => state === "open").map(({ runId }) => runId))];
  const runs = await Promise.all(open.map((id) => store.run(id)));
  const waiting = new Set(runs.flatMap((stored) => (stored && isOpen(asItIs(stored)) ? [stored.run.id] : [])));
  return asks.map((ask) =>
    ask.state === "open" && !waiting.has(ask.runId) ? { ...ask, state: "withdrawn", closedAt: ask.createdAt } : ask,
  );
}

/** Throws `InputError`. */
function checkReply({ choices, freeText }: Ask, { choice, text }: AskReply): void {
  if (typeof choice !== "string") throw new InputError("choice", "a string");
  if (typeof text !== "string") throw new InputError("text", "a string");
  const ids = choices.map(({ id }) => JSON.stringify(id)).join(", ");
  if (choice === "" && freeText && text.trim() !== "") return;
  if (!choices.some(({ id }) => id === choice))
    throw new InputError("choice", freeText ? `one of ${ids}, or a text` : `one of ${ids}`);
}
