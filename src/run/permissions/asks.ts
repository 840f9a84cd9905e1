import { onAbort } from "../../base/abort.js";
import { newId, now } from "../../base/ids.js";
import { AskClosedError, AskNotFoundError, hasCode, InputError } from "../../ports/errors.js";
import type { Ask, AskReply } from "../../ports/ask.js";
import type { SessionDriver } from "../../ports/session-driver.js";
import type { AskQuery } from "../../ports/session-queries.js";
import type { AnswerResult } from "../../ports/session-change.js";
import { withEffectiveState, isOpen } from "../../sessions/stored-run.js";
import { isAttended } from "./modes.js";
import type { PermissionRun } from "./permission-run.js";
import type { Inbox } from "../queue/inbox.js";

/** Default number of asks in a list. */
const PAGE_SIZE = 50;

/** The fields of an ask that a run sets. */
export type AskDraft = Pick<
  Ask,
  "callId" | "kind" | "tool" | "toolKind" | "title" | "input" | "locations" | "diff" | "reason" | "choices" | "freeText"
>;

/** Why an ask ended without an answer: no client can answer (`no_client`), or none answered in time (`timeout`). */
export type UnansweredReason = "no_client" | "timeout";

/** Interval for checking whether a client can still answer an open ask, in ms. */
const POLL_INTERVAL_MS = 1000;

/**
 * Stores an ask, so that any client can answer it, and waits. `askClient` also sends the ask to the client that started
 * the run; undefined: that client cannot be asked. Resolves with the first answer, or with the reason why there is
 * none. Rejects with the reason of `signal`, which must be aborted with the run's signal at the latest.
 */
export async function requestAnswer(
  run: PermissionRun,
  draft: AskDraft,
  askClient: ((signal: AbortSignal) => Promise<AskReply>) | undefined,
  signal = run.signal,
): Promise<Ask | UnansweredReason> {
  const { recorder, inbox, store, bus, logger } = run;
  const { timeoutMs, policy: unattended } = run.agent.unattended;
  const runIds = { runId: run.id, sessionId: run.sessionId };
  // If a client can answer now, the ask has no deadline. Otherwise it waits for at most the timeout.
  const hasDeadline = !isAttended(run);
  const ask: Ask = {
    ...draft,
    ...runIds,
    id: newId(),
    createdAt: now(),
    deadline: hasDeadline ? new Date(Date.now() + timeoutMs).toISOString() : "",
    state: "open",
    reply: null,
    answeredBy: "",
    closedAt: "",
  };
  const [answer, stopWaiting] = inbox.waitForAnswer(ask.id);
  const endController = new AbortController();
  const removeListener = onAbort(signal, () => endController.abort(signal.reason));
  let timer: NodeJS.Timeout | undefined;
  let finalAsk: Ask = ask;
  try {
    run.pendingAskIds.add(ask.id);
    run.clock?.pause();
    // The client is asked before the write, so that a client that shows the call knows that the call waits.
    const clientReply = askClient?.(endController.signal);
    let isClientPending = clientReply !== undefined;
    clientReply?.catch(() => (isClientPending = false));
    await recorder.write({ sync: false, asks: [ask], run: { state: "waiting" } });
    bus.emit("ask.opened", { ...runIds, ask });
    const timeout = new Promise<UnansweredReason>((resolve) => {
      let waitStartMs = Date.now();
      const checkClients = () => {
        // After the last client has disconnected, the ask waits only with the policy `wait`.
        const canBeAnswered = isClientPending || run.tail.isAttended;
        if (!canBeAnswered && unattended !== "wait") return resolve("no_client");
        if (canBeAnswered && !hasDeadline) waitStartMs = Date.now();
        const remainingMs = waitStartMs + timeoutMs - Date.now();
        if (remainingMs > 0)
          timer = setTimeout(checkClients, hasDeadline ? remainingMs : Math.min(remainingMs, POLL_INTERVAL_MS));
        else resolve("timeout");
      };
      checkClients();
    });
    const cancellation = new Promise<never>((_, reject) =>
      onAbort(endController.signal, () => reject(toAbortError(endController.signal))),
    );
    const outcomes: Promise<Ask | UnansweredReason>[] = [answer, timeout, cancellation];
    if (clientReply)
      outcomes.push(
        clientReply.then<Ask | UnansweredReason, Ask | UnansweredReason>(
          async (reply) => {
            const answerResult = await answerAsk(store, ask, reply, run.clientName);
            return answerResult?.ask ?? "no_client";
          },
          (error: unknown): UnansweredReason | Promise<Ask> => {
            if (!endController.signal.aborted) logger.warn("the run's client could not be asked", { error });
            // Another client may still answer.
            return run.tail.isAttended || unattended === "wait" ? answer : "no_client";
          },
        ),
      );
    const outcome = await Promise.race(outcomes);
    if (typeof outcome !== "string") finalAsk = outcome;
    else {
      finalAsk = toWithdrawnAsk(ask);
      await recorder.write({ sync: false, asks: [finalAsk] });
      // An answer stored before the withdrawal was accepted, so it counts.
      const [storedAsk] = await store.asks({ id: ask.id, limit: 1 });
      finalAsk = storedAsk ?? finalAsk;
    }
    if (finalAsk.state === "answered") return finalAsk;
    return typeof outcome === "string" ? outcome : "no_client";
  } finally {
    clearTimeout(timer);
    removeListener();
    stopWaiting();
    endController.abort();
    run.pendingAskIds.delete(ask.id);
    const state = run.pendingAskIds.size > 0 ? "waiting" : "running";
    // The clock of a cancelled run stays paused.
    if (state === "running" && !run.signal.aborted) run.clock?.start();
    const withdrawal = finalAsk.state === "open" ? { asks: [(finalAsk = toWithdrawnAsk(ask))] } : {};
    await recorder.write({ sync: false, ...withdrawal, run: { state } }).catch((error: unknown) => {
      logger.debug("end of an ask was not stored", { error });
    });
    bus.emit("ask.closed", { ...runIds, ask: finalAsk });
  }
}

function toWithdrawnAsk(ask: Ask): Ask {
  return { ...ask, state: "withdrawn", closedAt: now() };
}

function toAbortError(signal: AbortSignal): Error {
  return signal.reason as Error;
}

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
async function answerAsk(
  store: SessionDriver,
  { id: askId, sessionId }: Ask,
  reply: AskReply,
  answeredBy: string,
): Promise<AnswerResult | undefined> {
  const answer = { askId, reply, answeredBy, closedAt: now() };
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
    runs.flat().flatMap((storedRun) => (isOpen(withEffectiveState(storedRun)) ? [storedRun.run.id] : [])),
  );
  return asks.map((ask) =>
    ask.state === "open" && !waitingRunIds.has(ask.runId)
      ? { ...ask, state: "withdrawn", closedAt: ask.createdAt }
      : ask,
  );
}

/** Throws `InputError` for an invalid reply. */
function checkReply({ choices, freeText }: Ask, { choice, text }: AskReply): void {
  if (typeof choice !== "string") throw new InputError("choice", "a string");
  if (typeof text !== "string") throw new InputError("text", "a string");
  const ids = choices.map(({ id }) => JSON.stringify(id)).join(", ");
  if (choice === "" && freeText && text.trim() !== "") return;
  if (!choices.some(({ id }) => id === choice))
    throw new InputError("choice", freeText ? `one of ${ids}, or a text` : `one of ${ids}`);
}
