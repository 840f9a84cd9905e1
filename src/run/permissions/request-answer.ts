import { onAbort } from "../../base/abort.js";
import { nowMs, type SharedClock } from "../../base/clock.js";
import { newId, now } from "../../base/ids.js";
import type { Ask, AskReply } from "../../ports/ask.js";
import { answerAsk } from "./asks.js";
import { isAttended } from "./modes.js";
import type { PermissionRun, RunPermissions } from "./permission-run.js";

/** The fields of an ask that a run sets. */
type AskDraft = Pick<
  Ask,
  "callId" | "kind" | "tool" | "toolKind" | "title" | "input" | "locations" | "diff" | "reason" | "choices" | "freeText"
>;

/** Why an ask ended without an answer: no client can answer (`no_client`), or none answered in time (`timeout`). */
type UnansweredReason = "no_client" | "timeout";

/** Interval for checking whether a client can still answer an open ask, in ms. */
const POLL_INTERVAL_MS = 1000;

/**
 * Asks the clients of the run and waits. Resolves with the first answer, or with the reason why there is none. Rejects
 * with the reason of `signal`.
 *
 * Asks of a subagent go to the clients of its parent run. These asks are stored in the parent's session, for the tool
 * call that spawned the subagent; the title contains the subagent's title. The subagent is marked as waiting meanwhile.
 */
export async function requestAnswer(
  run: PermissionRun,
  draft: AskDraft,
  signal = run.signal,
): Promise<Ask | UnansweredReason> {
  const { parentCall } = run.info;
  const { pendingAskIds } = run.permissions;
  if (!parentCall) return storeAndWait(run, draft, signal);
  const { parentRun, callId, title } = parentCall;
  const storeState = async (state: "waiting" | "running"): Promise<void> => {
    await run.session.recorder.write({ sync: false, run: { state } }).catch((error: unknown) => {
      run.channels.logger.debug("waiting state of a subagent was not stored", { error });
    });
  };
  // The ask is stored in the parent's session, so it is tracked here by the call id.
  pendingAskIds.add(draft.callId);
  try {
    run.budget.clock?.pause();
    await storeState("waiting");
    const parentDraft = { ...draft, callId, title: `${title}: ${draft.title}` };
    return await requestAnswer(parentRun, parentDraft, signal);
  } finally {
    pendingAskIds.delete(draft.callId);
    if (pendingAskIds.size === 0) {
      if (!run.signal.aborted) run.budget.clock?.start();
      await storeState("running");
    }
  }
}

/**
 * Stores an ask, so that any client can answer it, sends it to the client that started the run, and waits. `signal` must
 * be aborted with the run's signal at the latest.
 */
async function storeAndWait(run: PermissionRun, draft: AskDraft, signal: AbortSignal): Promise<Ask | UnansweredReason> {
  const { recorder, store } = run.session;
  const { inbox, bus } = run.channels;
  const runIds = { runId: run.info.id, sessionId: run.info.sessionId };
  // If a client can answer now, the ask has no deadline. Otherwise it waits for at most the timeout.
  const hasDeadline = !isAttended(run);
  const { timeoutMs } = run.permissions.unattended;
  const deadline = hasDeadline ? new Date(nowMs(store) + timeoutMs).toISOString() : "";
  const openState = { state: "open", reply: null, answeredBy: "", closedAt: "" } as const;
  const ask: Ask = { ...draft, ...runIds, id: newId(), createdAt: now(store), deadline, ...openState };
  const [answer, stopWaiting] = inbox.waitForAnswer(ask.id);
  const endController = new AbortController();
  const removeListener = onAbort(signal, () => endController.abort(signal.reason));
  let finalAsk: Ask = ask;
  try {
    run.permissions.pendingAskIds.add(ask.id);
    run.budget.clock?.pause();
    // The client is asked before the write, so that a client that shows the call knows that the call waits.
    const clientReply = run.permissions.ask && askClient(run.permissions.ask, draft, endController.signal);
    let isClientPending = clientReply !== undefined;
    clientReply?.catch(() => (isClientPending = false));
    await recorder.write({ sync: false, asks: [ask], run: { state: "waiting" } });
    bus.emit("ask.opened", { ...runIds, ask });
    const noAnswer = waitForClients(run, hasDeadline, () => isClientPending, endController.signal);
    const outcomes: Promise<Ask | UnansweredReason>[] = [answer, noAnswer];
    if (clientReply) outcomes.push(takeClientReply(run, ask, clientReply, answer, endController.signal));
    const outcome = await Promise.race(outcomes);
    if (typeof outcome === "string") {
      finalAsk = toWithdrawnAsk(ask, store);
      finalAsk = await withdrawAsk(run, finalAsk);
    } else finalAsk = outcome;
    if (finalAsk.state === "answered") return finalAsk;
    return typeof outcome === "string" ? outcome : "no_client";
  } finally {
    removeListener();
    stopWaiting();
    endController.abort();
    await closeAsk(run, finalAsk);
  }
}

/** Sends an ask to the client that started the run. Rejects if the client fails, or if its reply is no answer. */
async function askClient(
  ask: NonNullable<RunPermissions["ask"]>,
  { kind, toolKind, diff, reason, choices, freeText, ...fields }: AskDraft,
  signal: AbortSignal,
): Promise<AskReply> {
  const details = { ...(diff.length > 0 && { diff }), ...(reason !== "" && { reason }) };
  const question = kind === "question" ? { question: { choices, freeText } } : {};
  const answer: unknown = await ask({ ...fields, kind: toolKind, ...details, ...question }, signal);
  const reply = (typeof answer === "object" ? (answer ?? {}) : { choice: answer }) as Record<string, unknown>;
  const choice = typeof reply["choice"] === "string" ? reply["choice"] : "";
  const text = typeof reply["text"] === "string" ? reply["text"] : "";
  if (kind === "question" && !choices.some(({ id }) => id === choice) && !(freeText && text !== ""))
    throw new Error("the reply of the client has no valid choice");
  return { choice, text };
}

/**
 * Resolves with the reason when no client can answer any more, or when none answered in time. Rejects with the signal's
 * reason. `hasDeadline`: whether the time runs while clients are connected.
 */
function waitForClients(
  { channels: { tail }, permissions: { unattended } }: PermissionRun,
  hasDeadline: boolean,
  isClientPending: () => boolean,
  signal: AbortSignal,
): Promise<UnansweredReason> {
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    let waitStartMs = Date.now();
    const checkClients = () => {
      // After the last client has disconnected, the ask waits only with the policy `wait`.
      const canBeAnswered = isClientPending() || tail.isAttended;
      if (!canBeAnswered && unattended.policy !== "wait") return resolve("no_client");
      if (canBeAnswered && !hasDeadline) waitStartMs = Date.now();
      const remainingMs = waitStartMs + unattended.timeoutMs - Date.now();
      if (remainingMs > 0)
        timer = setTimeout(checkClients, hasDeadline ? remainingMs : Math.min(remainingMs, POLL_INTERVAL_MS));
      else resolve("timeout");
    };
    checkClients();
    onAbort(signal, () => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    });
  });
}

/** Stores the reply of the run's own client. If that client fails, another client may still give `answer`. */
async function takeClientReply(
  run: PermissionRun,
  ask: Ask,
  clientReply: Promise<AskReply>,
  answer: Promise<Ask>,
  signal: AbortSignal,
): Promise<Ask | UnansweredReason> {
  const { tail, logger } = run.channels;
  const { unattended, clientName } = run.permissions;
  let reply: AskReply;
  try {
    reply = await clientReply;
  } catch (error) {
    if (!signal.aborted) logger.warn("the run's client could not be asked", { error });
    return tail.isAttended || unattended.policy === "wait" ? answer : "no_client";
  }
  return (await answerAsk(run.session.store, ask, reply, clientName))?.ask ?? "no_client";
}

/** Stores the withdrawal. Resolves with the stored ask: an answer stored before was accepted, so it counts. */
async function withdrawAsk({ session: { recorder, store } }: PermissionRun, withdrawnAsk: Ask): Promise<Ask> {
  await recorder.write({ sync: false, asks: [withdrawnAsk] });
  const [storedAsk] = await store.asks({ id: withdrawnAsk.id, limit: 1 });
  return storedAsk ?? withdrawnAsk;
}

/** Stores that the run no longer waits for an ask, and withdraws the ask if it is still open. Never rejects. */
async function closeAsk(run: PermissionRun, ask: Ask): Promise<void> {
  const { bus, logger } = run.channels;
  const { pendingAskIds } = run.permissions;
  pendingAskIds.delete(ask.id);
  const state = pendingAskIds.size > 0 ? "waiting" : "running";
  // The clock of a cancelled run stays paused.
  if (state === "running" && !run.signal.aborted) run.budget.clock?.start();
  const finalAsk = ask.state === "open" ? toWithdrawnAsk(ask, run.session.store) : ask;
  const withdrawal = finalAsk === ask ? {} : { asks: [finalAsk] };
  await run.session.recorder.write({ sync: false, ...withdrawal, run: { state } }).catch((error: unknown) => {
    logger.debug("end of an ask was not stored", { error });
  });
  bus.emit("ask.closed", { runId: ask.runId, sessionId: ask.sessionId, ask: finalAsk });
}

function toWithdrawnAsk(ask: Ask, store: SharedClock): Ask {
  return { ...ask, state: "withdrawn", closedAt: now(store) };
}
