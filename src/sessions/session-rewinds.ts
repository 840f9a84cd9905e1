import type { ChangedFiles, UndoneFile } from "../ports/file-history.js";
import type { Session, Snapshot } from "../ports/session.js";
import type { Worktree, WorktreeApplyOptions, WorktreeFile } from "../ports/worktrees.js";
import type { ChangedFilesQuery } from "./changed-files.js";
import { requireHead, requireSession } from "./require-session.js";
import type { ForkOptions, RevertOptions, RewindOperations, RewindServices } from "./rewind-operations.js";
import type { ChangeUndoOptions } from "./undo-change.js";
import type { UndoOptions, UndoResult } from "./undo.js";

/** Changes what a session did before: forks, reverts, undos. Each works under the chain's lease. */
export class SessionRewinds {
  readonly #services: RewindServices;

  constructor(services: RewindServices) {
    this.#services = services;
  }

  /**
   * Creates a session with a copy of the conversation up to and including a message. The copy shares no data with this
   * session, and stays when this session is deleted. The original messages of a complete chain are copied; the copy is
   * compacted again on use. Rejects with `SessionNotFoundError`, `PointNotFoundError` or `SessionBusyError`.
   */
  async fork(id: string, messageId: string, options: ForkOptions = {}): Promise<Session> {
    return (await this.#load()).fork(id, messageId, options);
  }

  /**
   * Hides all messages after a message. Files changed meanwhile stay unless `files` is set; the result then lists these
   * files and the snapshot for `restore`. Rejects like `fork`, with `files` also like `undo`.
   */
  async revert(id: string, messageId: string): Promise<Snapshot>;
  async revert(
    id: string,
    messageId: string,
    options: RevertOptions,
  ): Promise<Snapshot & { files?: readonly UndoneFile[] }>;
  async revert(
    id: string,
    messageId: string,
    options: RevertOptions = {},
  ): Promise<Snapshot & { files?: readonly UndoneFile[] }> {
    return (await this.#load()).revert(id, messageId, options);
  }

  /**
   * Undoes the last run, or everything after a message: hides the messages and restores files that this session's tools
   * changed. Changes by commands and other programs stay. A file that changed outside the session since prevents the
   * undo. Rejects like `fork`, with `NothingToUndoError`, or with `UndoConflictError`.
   */
  async undo(id: string, options: UndoOptions = {}): Promise<UndoResult> {
    return (await this.#load()).undo(id, options);
  }

  /**
   * Reverts the last undo: messages and files are as before the undo. Not possible if messages were added since.
   * Rejects like `undo`.
   */
  async redo(id: string, options: Pick<UndoOptions, "dryRun" | "force"> = {}): Promise<UndoResult> {
    return (await this.#load()).redo(id, options);
  }

  /**
   * Restores the conversation from before the revert that made the snapshot. Messages added since are hidden first.
   * Resolves with the new snapshot of these messages; undefined if there were none. Rejects like `fork`.
   */
  async restore(id: string, snapshotId: string): Promise<Snapshot | undefined> {
    return (await this.#load()).restore(id, snapshotId);
  }

  /** Snapshots that can be restored, oldest first. Rejects with `SessionNotFoundError`. */
  async snapshots(id: string): Promise<Snapshot[]> {
    return (await requireHead(await this.#services.store(), id)).snapshots;
  }

  /**
   * Files that tools of the session or of one run changed, with the texts before and after. Rejects with
   * `SessionNotFoundError` or `RunNotFoundError`.
   */
  async changes(id: string, query: ChangedFilesQuery = {}): Promise<ChangedFiles> {
    const { listChangedFiles } = await import("./changed-files.js");
    return listChangedFiles(await this.#services.store(), id, query, this.#services.fileHistory);
  }

  /**
   * Undoes the changes of one file, or some of its lines, and keeps the messages. `redo` reverts it. Rejects like
   * `undo`, or with `InputError` for invalid lines.
   */
  async undoChange(id: string, options: ChangeUndoOptions): Promise<UndoneFile> {
    return (await this.#load()).undoChange(id, options);
  }

  /**
   * The Git worktree in which a session works; undefined if it works in its project folder. Rejects with
   * `SessionNotFoundError`.
   */
  async worktree(id: string): Promise<Worktree | undefined> {
    const { projectDir } = await requireSession(await this.#services.store(), id);
    return this.#services.worktrees?.find(projectDir);
  }

  /**
   * Applies the changes in a session's worktree since the last call to the project folder: all of them, or none.
   * `dryRun`: only reports the files. Rejects with `SessionNotFoundError`, `SessionBusyError`, `WorktreeConflictError`,
   * `ProjectFolderError`, or with `InputError` if the session works in no worktree.
   */
  async applyWorktree(
    id: string,
    { dryRun = false, signal }: Partial<WorktreeApplyOptions> = {},
  ): Promise<WorktreeFile[]> {
    return (await this.#load()).applyWorktree(id, { dryRun, signal });
  }

  async #load(): Promise<RewindOperations> {
    return new (await import("./rewind-operations.js")).RewindOperations(this.#services);
  }
}
