import { InputError, PointNotFoundError, RunKeyTakenError } from "../ports/errors.js";
import type { Message } from "../ports/message.js";
import type { RunInput, RunRecord } from "../ports/run.js";
import type { ChainHead, SessionDriver } from "../ports/session-driver.js";
import { requireHead } from "../sessions/require-session.js";
import { restore } from "../sessions/revert.js";
import { canRestart, withEffectiveState } from "../sessions/stored-run.js";
import { redo, undo, type UndoContext } from "../sessions/undo.js";
import type { AgentServices } from "./context/agent-services.js";
import type { ResolvedRequest } from "./open-session.js";

/** Runs that are searched for the last one that has started. */
const MAX_RUNS = 100;

/**
 * Whether a run with the input of an interrupted run can continue that run in place: its prompt is stored, and no other
 * run of the session has started since. The caller must hold the chain's lease.
 */
export async function canContinue(store: SessionDriver, run: RunRecord, input: RunInput): Promise<boolean> {
  if (input.compact === true || input.retry === true || run.queueLease !== null) return false;
  const { sessionId, after } = run;
  if ((await findLastStartedRun(store, sessionId))?.id !== run.id) return false;
  const messages = await store.messages(sessionId, { scope: "chain", after });
  return messages.some(({ role }) => role === "user");
}

/**
 * Hides the messages that a run replaces, under the run's lease: those from `rewind.before` on, or for `retry` and a
 * continued run an answer that broke off. Resolves with the chain's new head; undefined if there is nothing to hide. If the run does not
 * start, `request.rollbacks` shows the messages again.
 *
 * Rejects with `InputError`, `PointNotFoundError`, `UndoConflictError`, or with `RunKeyTakenError` if the run of the
 * key exists.
 */
export async function rewindForRun(
  agent: AgentServices,
  request: ResolvedRequest,
  fence: number,
  continuedRun: RunRecord | undefined,
): Promise<ChainHead | undefined> {
  const { input, store, storedSession: session } = request;
  if (!session) throw new InputError("sessionId", "the session to continue");
  const id = session.chain.root;
  const messages = await store.messages(id, { scope: "chain" });
  const before = continuedRun ? findBrokenAnswer(messages) : await findFirstHidden(store, id, messages, input);
  if (before === undefined) return undefined;
  // The interrupted run has restored the files.
  const { files = false, force = false } = (continuedRun ? undefined : input.rewind) ?? {};
  const context = { store, session, fence, history: agent.tools.fileHistory };
  const { snapshot, files: undoneFiles } = await undo(context, { before, messagesOnly: !files, force });
  const notify = () => agent.channels.liveSessions().notifyMessageChange(id, store);
  const head = await store.head(id);
  if (snapshot) {
    request.rollbacks.push(() => rollBack(context, snapshot.id, request, notify));
    agent.channels.bus.emit("session.reverted", { sessionId: id, snapshotId: snapshot.id });
  }
  const paths = undoneFiles.map(({ path }) => path);
  if (paths.length > 0) agent.channels.bus.emit("session.files_restored", { sessionId: id, paths });
  notify();
  return head;
}

async function findFirstHidden(
  store: SessionDriver,
  id: string,
  messages: readonly Message[],
  input: RunInput,
): Promise<string | undefined> {
  await requireFreeKey(store, id, input);
  return input.rewind ? findRewindTarget(store, id, messages, input) : findRetry(store, id, messages);
}

/** Rejects with `RunKeyTakenError` if the key of a run belongs to a run that is not started again. */
async function requireFreeKey(store: SessionDriver, sessionId: string, input: RunInput): Promise<void> {
  const { idempotencyKey = "" } = input;
  if (idempotencyKey === "") return;
  const [keyOwner] = await store.runs({ sessionId, idempotencyKey, limit: 1 });
  if (keyOwner && !canRestart(withEffectiveState(keyOwner, store))) throw new RunKeyTakenError(idempotencyKey);
}

/**
 * Returns the id of the first message to hide. A repeated request with a key finds its message hidden already: then the
 * messages of its earlier attempt are hidden. Undefined if there are none.
 */
async function findRewindTarget(
  store: SessionDriver,
  id: string,
  messages: readonly Message[],
  { rewind, idempotencyKey = "" }: RunInput,
): Promise<string | undefined> {
  const before = rewind?.before ?? "";
  if (messages.some((message) => message.id === before)) return before;
  if (idempotencyKey !== "")
    for (const snapshot of (await requireHead(store, id)).snapshots.reverse()) {
      const [firstMessage] = await store.messages(id, { scope: "chain", hiddenBy: snapshot.id, limit: 1 });
      if (firstMessage?.id === before) return messages.find(({ seq }) => seq > snapshot.after)?.id;
    }
  throw new PointNotFoundError("message");
}

/** Returns the id of an answer without tool calls at the end of a run that did not finish; undefined if there is none. */
async function findRetry(store: SessionDriver, id: string, messages: readonly Message[]): Promise<string | undefined> {
  const lastRun = await findLastStartedRun(store, id);
  if (messages.length === 0 || !lastRun || !["failed", "cancelled", "interrupted"].includes(lastRun.state))
    throw new InputError("retry", "a session whose last run failed, was cancelled or was interrupted");
  return findBrokenAnswer(messages);
}

async function findLastStartedRun(store: SessionDriver, sessionId: string): Promise<RunRecord | undefined> {
  const storedRuns = await store.runs({ sessionId, limit: MAX_RUNS });
  return storedRuns
    .map((storedRun) => withEffectiveState(storedRun, store))
    .find(({ queueLease }) => queueLease === null);
}

/** Returns the id of the last message if it is an answer without tool calls. */
function findBrokenAnswer(messages: readonly Message[]): string | undefined {
  const lastMessage = messages.at(-1);
  const isAnswer = lastMessage?.role === "assistant" && lastMessage.parts.every(({ type }) => type !== "tool_call");
  return isAnswer ? lastMessage.id : undefined;
}

/** Shows the hidden messages again and restores the files. Logs a failure, after which `restore` still works. */
async function rollBack(
  context: UndoContext,
  snapshotId: string,
  { logger }: ResolvedRequest,
  notify: () => void,
): Promise<void> {
  const { store, session, fence, history } = context;
  try {
    const { snapshots } = await requireHead(store, session.id);
    // A prompt that was stored although its write failed must not be hidden.
    const [addedMessage] = await store.messages(session.id, {
      scope: "chain",
      after: snapshots.find(({ id }) => id === snapshotId)?.after ?? 0,
      limit: 1,
    });
    if (addedMessage) return;
    if ((await history?.lastUndo(session.chain.root))?.snapshotId === snapshotId) await redo(context, { force: true });
    else await restore(store, fence, session.id, snapshotId);
    notify();
  } catch (error) {
    logger.warn("rewind of a run that did not start could not be reverted; restore its snapshot", {
      snapshot: snapshotId,
      error,
    });
  }
}
