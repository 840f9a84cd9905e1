import { now } from "../../base/ids.js";
import { AskClosedError, AskNotFoundError, hasCode, InputError } from "../../ports/errors.js";
import type { Ask, AskReply } from "../../ports/ask.js";
import type { SessionDriver } from "../../ports/session-driver.js";
import type { AskQuery } from "../../ports/session-queries.js";
import type { AnswerResult } from "../../ports/session-change.js";
import { withEffectiveState, isOpen } from "../../sessions/stored-run.js";
import type { Inbox } from "../queue/inbox.js";

const PAGE_SIZE = 50;

/** The agent's members that `Asks` uses. */
export interface AsksOptions {
  store: () => Promise<SessionDriver>;
  /** Returns the active run of a chain in this process. */
  findLocalRun: (rootId: string) => { id: string; inbox: Inbox } | undefined;
  /** Reports a change of the chain to watchers. */
  notifyChange: (rootId: string) => void;
}

/** The asks of all runs on the store, including runs of other processes. */
export class Asks {
  readonly #options: AsksOptions;

  constructor(options: AsksOptions) {
    this.#options = options;
  }

  /** Returns an ask by its id; undefined if it does not exist. Rejects with `StoreError`. */
  async get(id: string): Promise<Ask | undefined> {
    const store = await this.#options.store();
    return (await withEffectiveAskStates(store, await store.asks({ id, limit: 1 })))[0];
  }

  /**
   * Lists asks, newest first. Default `limit`: 50. `sessionId` is any id of a chain. Rejects with `InputError` or
   * `StoreError`.
   */
  async list(query: { [Key in keyof AskQuery]?: AskQuery[Key] | undefined } = {}): Promise<Ask[]> {
    const { limit = PAGE_SIZE } = query;
    if (!Number.isSafeInteger(limit) || limit < 0) throw new InputError("limit", "a whole number, at least 0");
    const store = await this.#options.store();
    const asks = await withEffectiveAskStates(store, await store.asks({ ...query, limit }));
    return query.open === true ? asks.filter(({ state }) => state === "open") : asks;
  }

  /**
   * Answers an ask of a run in any process. `answeredBy` names the client. Resolves with the stored ask. Rejects with
   * `InputError` (invalid choice), `AskNotFoundError`, `StoreError`, or `AskClosedError`: another client was faster, or
   * the run no longer waits.
   */
  async answer(
    id: string,
    { choice = "", text = "" }: { [Key in keyof AskReply]?: AskReply[Key] | undefined },
    answeredBy = "sdk",
  ): Promise<Ask> {
    const store = await this.#options.store();
    const ask = await this.get(id);
    if (!ask) throw new AskNotFoundError(id);
    if (ask.state !== "open") throw new AskClosedError(ask);
    checkReply(ask, { choice, text });
    const result = await answerAsk(store, ask, { choice, text }, answeredBy);
    if (!result) throw new AskNotFoundError(id);
    if (!result.isAccepted) throw new AskClosedError(result.ask);
    const { sessionId, runId } = result.ask;
    const localRun = this.#options.findLocalRun(sessionId);
    if (localRun?.id === runId) localRun.inbox.deliverAnswer(result.ask);
    this.#options.notifyChange(sessionId);
    return result.ask;
  }
}

/** Stores an answer. Resolves with undefined if the ask was deleted with its session. Rejects with `StoreError`. */
export async function answerAsk(
  store: SessionDriver,
  { id: askId, sessionId }: Ask,
  reply: AskReply,
  answeredBy: string,
): Promise<AnswerResult | undefined> {
  const answer = { askId, reply, answeredBy, closedAt: now(store) };
  try {
    return (await store.write(sessionId, { fence: null, sync: true, answer })).answer;
  } catch (error) {
    if (hasCode(error, "session_not_found")) return undefined;
    throw error;
  }
}

/** Marks open asks of dead runs as withdrawn, because the store may not contain their end. */
async function withEffectiveAskStates(store: SessionDriver, asks: readonly Ask[]): Promise<Ask[]> {
  const openRunIds = [...new Set(asks.filter(({ state }) => state === "open").map(({ runId }) => runId))];
  const runs = await Promise.all(openRunIds.map((id) => store.runs({ id, limit: 1 })));
  const waitingRunIds = new Set(
    runs.flat().flatMap((storedRun) => (isOpen(withEffectiveState(storedRun, store)) ? [storedRun.run.id] : [])),
  );
  return asks.map((ask) =>
    ask.state === "open" && !waitingRunIds.has(ask.runId)
      ? { ...ask, state: "withdrawn", closedAt: ask.createdAt }
      : ask,
  );
}

function checkReply({ choices, freeText }: Ask, { choice, text }: AskReply): void {
  if (typeof choice !== "string") throw new InputError("choice", "a string");
  if (typeof text !== "string") throw new InputError("text", "a string");
  const ids = choices.map(({ id }) => JSON.stringify(id)).join(", ");
  if (choice === "" && freeText && text.trim() !== "") return;
  if (!choices.some(({ id }) => id === choice))
    throw new InputError("choice", freeText ? `one of ${ids}, or a text` : `one of ${ids}`);
}
