import { InputError, NothingToUndoError, PointNotFoundError, UndoConflictError } from "../ports/errors.js";
import { newId } from "../base/ids.js";
import type { ExpectedChange, FileHistory, RestoreRequest, UndoMark, UndoneFile } from "../ports/file-history.js";
import type { Message } from "../ports/message.js";
import type { Session, Snapshot } from "../ports/session.js";
import type { SessionDriver } from "../ports/session-driver.js";
import { requireHead } from "./require-session.js";
import { restore, revert } from "./revert.js";

/** Target and mode of an undo. */
export interface UndoOptions {
  /** Id of the message that stays as the last one. Default: undo the last run, including its prompt. */
  to?: string | undefined;
  /** Id of the first message that is undone, instead of `to`. */
  before?: string | undefined;
  /** Whether only to report the outcomes. Default false. */
  dryRun?: boolean | undefined;
  /**
   * Whether to overwrite files changed outside the session, and to skip files that cannot be restored. Default false:
   * such files prevent the undo.
   */
  force?: boolean | undefined;
  /** Whether to keep the messages. Default false. */
  filesOnly?: boolean | undefined;
  /** Whether to keep the files. Default false. */
  messagesOnly?: boolean | undefined;
}

/** Result of an undo, done or planned. */
export interface UndoResult {
  /** Every path whose current state differs from the target state, ordered by path. */
  files: readonly UndoneFile[];
  /** Snapshot of the hidden messages, for `restore`; null if none were hidden. */
  snapshot: Snapshot | null;
  /** Id of the last remaining message; `""` if none remains. */
  to: string;
}

/** Context of an undo; the caller holds the chain's lease. */
export interface UndoContext {
  store: SessionDriver;
  history: FileHistory | undefined;
  session: Session;
  fence: number;
}

/** Maximum number of runs that are searched for the last run with visible messages. */
const MAX_RUNS = 100;

/** Built-in tools that report the files they change. */
const CHANGING_TOOLS: ReadonlySet<string> = new Set(["write", "edit", "multiedit", "apply_patch", "delete"]);

/**
 * Undoes changes and messages. Without `to`, continues an undo that a crash interrupted. Rejects with `InputError`,
 * `PointNotFoundError`, `NothingToUndoError` or `UndoConflictError`.
 */
export async function undo(context: UndoContext, options: UndoOptions): Promise<UndoResult> {
  const { store, history, session, fence } = context;
  const { dryRun = false, force = false, filesOnly = false, messagesOnly = false } = options;
  if (filesOnly && messagesOnly) throw new InputError("messagesOnly", "false where filesOnly is true");
  if (options.to !== undefined && options.before !== undefined) throw new InputError("before", "absent if to is set");
  const { newest, snapshots } = await requireHead(store, session.id);
  const seq = newest.lastSeq;
  const lastUndo = await history?.lastUndo(session.chain.root);
  // The undo of one file changes that file completely or not at all.
  const canContinue = lastUndo?.isOpen === true && lastUndo.seq === seq && lastUndo.path === undefined;
  const interruptedUndo = canContinue ? lastUndo : undefined;
  const messages = await store.messages(session.id, { scope: "chain" });
  const { afterSeq, lastMessageId } =
    interruptedUndo && options.to === undefined && options.before === undefined
      ? interruptedUndo
      : await resolveTarget(store, session, messages, options);
  const isEnd = (messages.at(-1)?.id ?? "") === lastMessageId;
  // The interrupted undo is complete, but is not recorded as complete.
  const existingSnapshot =
    interruptedUndo && isEnd ? snapshots.find(({ id }) => id === interruptedUndo.snapshotId) : undefined;
  const isRevert = !filesOnly && !isEnd;
  const snapshotId = isRevert ? newId() : (existingSnapshot?.id ?? "");
  const mark: UndoMark = { id: interruptedUndo?.id ?? newId(), snapshotId, seq, afterSeq, lastMessageId };
  const expectedChanges = findReportedChanges(messages, afterSeq);
  const request = {
    ...getSessionFolder(session),
    target: { seq: afterSeq },
    undo: mark.id,
    mark,
    expected: expectedChanges,
    seq,
    dryRun,
    force,
  };
  // A subagent's changes are recorded in its parent's session.
  const parentSessionId = session.spawnedBy?.sessionId;
  const availableHistory = parentSessionId !== undefined && expectedChanges.length > 0 ? undefined : history;
  const reason = parentSessionId === undefined ? "file history is disabled" : `undo it with session ${parentSessionId}`;
  const files = messagesOnly
    ? []
    : ((await availableHistory?.restore(request)) ?? reportLostFiles(expectedChanges, reason, request));
  if (dryRun) return { files, snapshot: null, to: lastMessageId };
  const snapshot = isRevert
    ? await revert(store, fence, session.id, lastMessageId, snapshotId)
    : (existingSnapshot ?? null);
  if (snapshot || files.length > 0 || interruptedUndo) await history?.mark(session.chain.root, mark);
  return { files, snapshot, to: lastMessageId };
}

/** Reverts the last undo, also an interrupted one. Rejects like `undo`. */
export async function redo(context: UndoContext, { dryRun = false, force = false }: UndoOptions): Promise<UndoResult> {
  const { store, history, session, fence } = context;
  const { newest, snapshots } = await requireHead(store, session.id);
  const seq = newest.lastSeq;
  const lastUndo = await history?.lastUndo(session.chain.root);
  // A redo would hide messages added since.
  if (!lastUndo || lastUndo.seq !== seq) throw new NothingToUndoError("there is no undo to revert");
  const { id, snapshotId, afterSeq, lastMessageId, path } = lastUndo;
  const mark: UndoMark = { id, snapshotId, seq, afterSeq, lastMessageId, ...(path !== undefined && { path }) };
  const request = { ...getSessionFolder(session), target: { undo: id }, undo: newId(), mark, seq, dryRun, force };
  const files = (await history?.restore(request)) ?? [];
  if (!dryRun) {
    // An undo interrupted before its revert has hidden no messages.
    const hasHiddenMessages = snapshots.some((snapshot) => snapshot.id === snapshotId);
    if (hasHiddenMessages) await restore(store, fence, session.id, snapshotId);
    await history?.mark(session.chain.root, { redone: id });
  }
  const [lastMessage] = await store.messages(session.id, { scope: "chain", before: Number.MAX_SAFE_INTEGER, limit: 1 });
  return { files, snapshot: null, to: lastMessage?.id ?? "" };
}

/** Returns the changes after a `seq`, as reported by the calls that made them. */
function findReportedChanges(messages: readonly Message[], afterSeq: number): ExpectedChange[] {
  return messages.flatMap(({ seq, role, name, failed, shown, toolCallId: callId }) =>
    seq <= afterSeq || role !== "tool" || failed || !CHANGING_TOOLS.has(name)
      ? []
      : // A patch also names files that it did not change.
        [...(shown?.diff ?? []), ...(name === "apply_patch" ? [] : (shown?.locations ?? []))].map(({ path }) => ({
          callId,
          path,
        })),
  );
}

/**
 * Returns the outcome without a file history: the files stay changed and are reported as lost. Throws
 * `UndoConflictError` unless `force` or `dryRun` is set.
 */
function reportLostFiles(
  expected: readonly ExpectedChange[],
  reason: string,
  { dryRun, force }: Pick<RestoreRequest, "dryRun" | "force">,
): UndoneFile[] {
  const paths = [...new Set(expected.map(({ path }) => path))].sort();
  const files = paths.map((path): UndoneFile => ({ path, outcome: "lost", reason }));
  if (files.length > 0 && !force && !dryRun) throw new UndoConflictError(files);
  return files;
}

function getSessionFolder({ chain, projectDir }: Session): { sessionId: string; projectDir: string } {
  return { sessionId: chain.root, projectDir };
}

/** Returns the `seq` after which to undo, and the last message that then remains. */
async function resolveTarget(
  store: SessionDriver,
  { chain }: Session,
  messages: readonly Message[],
  { to, before }: UndoOptions,
): Promise<Pick<UndoMark, "afterSeq" | "lastMessageId">> {
  const lastMessage = messages.at(-1);
  const requestedId = to ?? before;
  if (requestedId !== undefined) {
    const index = messages.findIndex((message) => message.id === requestedId);
    const targetMessage = messages[index];
    if (!targetMessage) throw new PointNotFoundError("message");
    if (to !== undefined) return { afterSeq: targetMessage.seq, lastMessageId: targetMessage.id };
    return { afterSeq: targetMessage.seq - 1, lastMessageId: messages[index - 1]?.id ?? "" };
  }
  const runs = await store.runs({ sessionId: chain.root, limit: MAX_RUNS });
  // A run whose messages a revert has hidden has nothing left to undo.
  const run = runs
    .map(({ run }) => run)
    .find(({ queueLease, after }) => queueLease === null && lastMessage !== undefined && after < lastMessage.seq);
  if (!run) throw new NothingToUndoError("there is no run to undo");
  return { afterSeq: run.after, lastMessageId: messages.findLast(({ seq }) => seq <= run.after)?.id ?? "" };
}
