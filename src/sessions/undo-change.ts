import { resolve } from "node:path";
import { newId } from "../base/ids.js";
import { InputError, NothingToUndoError } from "../ports/errors.js";
import type { FileHistory, TextHunk, UndoneFile } from "../ports/file-history.js";
import type { Session } from "../ports/session.js";
import type { SessionDriver } from "../ports/session-driver.js";
import { SubagentRuns } from "./changed-files.js";
import { requireHead } from "./require-session.js";

/** Selects the changes of one file to undo. */
export interface ChangeUndoOptions {
  /** Absolute, or relative to the session's folder. */
  path: string;
  /** Only changes of this run and its subagents. Default: all changes of the session. */
  runId?: string | undefined;
  /** `version` of the file from `changes`. Another current content is a conflict, also with `force`. */
  version?: string | undefined;
  /** Only these lines, which need `version`. Default: the complete file. */
  hunk?: TextHunk | undefined;
  /** Whether only to report the outcome. Default false. */
  dryRun?: boolean | undefined;
  /** Whether to overwrite changes of other programs and of later runs. Default false. */
  force?: boolean | undefined;
}

/**
 * Undoes the changes of one file. The caller holds the chain's lease. Rejects with `InputError`, `RunNotFoundError`,
 * `NothingToUndoError` or `UndoConflictError`.
 */
export async function undoChange(
  { store, session, history }: { store: SessionDriver; session: Session; history: FileHistory | undefined },
  { path, runId, version, hunk, dryRun = false, force = false }: ChangeUndoOptions,
): Promise<UndoneFile> {
  if (path === "") throw new InputError("path", "the path of a changed file");
  if (hunk && version === undefined) throw new InputError("version", "the version that the hunk belongs to");
  if (session.spawnedBy) throw new NothingToUndoError(`undo it with session ${session.spawnedBy.sessionId}`);
  if (!history?.changes) throw new NothingToUndoError("file history is disabled");
  const runIds = runId === undefined ? undefined : await new SubagentRuns(store, session).requireRun(runId);
  const target = { path: resolve(session.projectDir, path), runIds, version, hunk };
  const { lastSeq: seq } = (await requireHead(store, session.id)).newest;
  const sessionId = session.chain.root;
  const mark = { id: newId(), snapshotId: "", seq, afterSeq: seq, lastMessageId: "", path: target.path };
  const request = { sessionId, projectDir: session.projectDir, target, undo: mark.id, mark, seq, dryRun, force };
  const files = await history.restore(request);
  const file = files.find((restoredFile) => restoredFile.path === target.path);
  if (!file) throw new NothingToUndoError("this file has no change to undo");
  if (!dryRun) await history.mark(sessionId, mark);
  return file;
}
