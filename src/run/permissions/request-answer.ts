import { onAbort } from "../../base/abort.js";
import { newId, now } from "../../base/ids.js";
import type { Ask, AskReply } from "../../ports/ask.js";
import { answerAsk } from "./asks.js";
import { isAttended } from "./modes.js";
import type { PermissionRun } from "./permission-run.js";

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
  const { recorder } = run.session;
  const { inbox, bus } = run.channels;
  const runIds = { runId: run.info.id, sessionId: run.info.sessionId };
  // If a client can answer now, the ask has no deadline. Otherwise it waits for at most the timeout.
  const hasDeadline = !isAttended(run);
  const { timeoutMs } = run.permissions.unattended;
  const deadline = hasDeadline ? new Date(Date.now() + timeoutMs).toISOString() : "";
  const openState = { state: "open", reply: null, answeredBy: "", closedAt: "" } as const;
  const ask: Ask = { ...draft, ...runIds, id: newId(), createdAt: now(), deadline, ...openState };
  const [answer, stopWaiting] = inbox.waitForAnswer(ask.id);
  const endController = new AbortController();
  const removeListener = onAbort(signal, () => endController.abort(signal.reason));
  let finalAsk: Ask = ask;
  try {
    run.permissions.pendingAskIds.add(ask.id);
    run.budget.clock?.pause();
    // The client is asked before the write, so that a client that shows the call knows that the call waits.
    const clientReply = askClient?.(endController.signal);
    let isClientPending = clientReply !== undefined;
    clientReply?.catch(() => (isClientPending = false));
    await recorder.write({ sync: false, asks: [ask], run: { state: "waiting" } });
    bus.emit("ask.opened", { ...runIds, ask });
    const noAnswer = waitForClients(run, hasDeadline, () => isClientPending, endController.signal);
    const outcomes: Promise<Ask | UnansweredReason>[] = [answer, noAnswer];
    if (clientReply) outcomes.push(takeClientReply(run, ask, clientReply, answer, endController.signal));
    const outcome = await Promise.race(outcomes);
    if (typeof outcome === "string") {
      finalAsk = toWithdrawnAsk(ask);
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
  const finalAsk = ask.state === "open" ? toWithdrawnAsk(ask) : ask;
  const withdrawal = finalAsk === ask ? {} : { asks: [finalAsk] };
  await run.session.recorder.write({ sync: false, ...withdrawal, run: { state } }).catch((error: unknown) => {
    logger.debug("end of an ask was not stored", { error });
  });
  bus.emit("ask.closed", { runId: ask.runId, sessionId: ask.sessionId, ask: finalAsk });
}

function toWithdrawnAsk(ask: Ask): Ask {
  return { ...ask, state: "withdrawn", closedAt: now() };
}
