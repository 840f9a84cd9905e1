import type {
  ApiHunk,
  ApiSession,
  ApiSnapshot,
  ApiUndoneFile,
  ApiUndoResult,
  ApiWorktree,
  ApiWorktreeFile,
  ChangedFileList,
  RewindRequest,
} from "../shapes.js";
import { areIds, createResourcePath, type CallOptions, type ServerConnection } from "./connection.js";

/** Messages to hide, and whether to restore the files that tools changed since. Set one of the two ids. */
export interface RewindInput {
  /** The message that stays as the last one. */
  messageId?: string | undefined;
  /** The first message that is hidden. */
  beforeMessageId?: string | undefined;
  /** Default false. */
  files?: boolean | undefined;
  /** Whether only to report the outcomes. Default false. */
  dryRun?: boolean | undefined;
  /** Whether to overwrite files that changed outside the session. Default false. */
  force?: boolean | undefined;
}

/** Options of an undo. */
export interface UndoInput {
  /** Whether only to report the outcomes. Default false. */
  dryRun?: boolean | undefined;
  force?: boolean | undefined;
  /** Whether to keep the messages. Default false. */
  filesOnly?: boolean | undefined;
  /** Whether to keep the files. Default false. */
  messagesOnly?: boolean | undefined;
}

/** The changes of one file to undo. */
export interface UndoChangeInput {
  path: string;
  /** Only the changes of this run. Default: all changes of the session. */
  runId?: string | undefined;
  /** `version` of the shown file. Another content is a conflict. */
  version?: string | undefined;
  /** Only these lines, which need `version`. */
  hunk?: ApiHunk | undefined;
  dryRun?: boolean | undefined;
  force?: boolean | undefined;
}

/**
 * The methods of `client.sessions` that fork, rewind and undo. They reject with `BusyError` during a run, with
 * `NotFoundError` if the server disables them, and with `ApiError` with the code `undo_conflict` or `nothing_to_undo`.
 */
export class SessionRewindsApi {
  readonly #connection: ServerConnection;

  constructor(connection: ServerConnection) {
    this.#connection = connection;
  }

  /** Creates a copy of a session up to and including a message. Default: up to the newest message. */
  fork(id: string, { messageId }: { messageId?: string } = {}, options?: CallOptions): Promise<ApiSession> {
    return this.#post<ApiSession>(id, "fork", { message_id: messageId }, options, (session) => areIds(session.id));
  }

  /** Hides messages. `redo` reverts it. */
  rewind(id: string, input: RewindInput, options?: CallOptions): Promise<ApiUndoResult> {
    const { messageId: message_id, beforeMessageId: before_message_id, dryRun: dry_run, ...flags } = input;
    const body: RewindRequest = { message_id, before_message_id, dry_run, ...flags };
    return this.#post<ApiUndoResult>(id, "rewind", body, options, hasFiles);
  }

  /** Undoes the last run: hides its messages and restores the files that it changed. */
  undo(id: string, input: UndoInput = {}, options?: CallOptions): Promise<ApiUndoResult> {
    const { dryRun: dry_run, filesOnly: files_only, messagesOnly: messages_only, force } = input;
    return this.#post<ApiUndoResult>(id, "undo", { dry_run, files_only, messages_only, force }, options, hasFiles);
  }

  /** Reverts the last undo, rewind or undone change, if no message was added since. */
  redo(
    id: string,
    { dryRun, force }: Pick<UndoInput, "dryRun" | "force"> = {},
    options?: CallOptions,
  ): Promise<ApiUndoResult> {
    return this.#post<ApiUndoResult>(id, "redo", { dry_run: dryRun, force }, options, hasFiles);
  }

  /** Shows the messages that a rewind hid. Returns the snapshot of the messages that are hidden instead; `""`: none. */
  async restore(id: string, snapshotId: string, options?: CallOptions): Promise<string> {
    const body = { snapshot_id: snapshotId };
    return (await this.#post<{ snapshot_id: string }>(id, "restore", body, options)).snapshot_id;
  }

  /** The snapshots that can be restored, oldest first. */
  snapshots(id: string, { signal }: CallOptions = {}): Promise<ApiSnapshot[]> {
    return this.#connection.requestList("snapshots", `${createResourcePath("session", id)}/snapshots`, { signal });
  }

  /**
   * A page of the files that tools changed, with the texts before and after. `runId`: only the files of this run, with
   * their content after the run. `page` counts from 1.
   */
  async changes(
    id: string,
    { runId, path, page, size }: { runId?: string; path?: string; page?: number; size?: number } = {},
    { signal }: CallOptions = {},
  ): Promise<ChangedFileList> {
    const request = { query: { run_id: runId, path, page, size }, signal };
    const address = `${createResourcePath("session", id)}/changes`;
    return (await this.#connection.requestJson<ChangedFileList>(address, request, hasFiles)).body;
  }

  /** Undoes the changes of one file, or some of its lines, and keeps the messages. `redo` reverts it. */
  undoChange(id: string, input: UndoChangeInput, options?: CallOptions): Promise<ApiUndoneFile> {
    const { runId: run_id, dryRun: dry_run, ...body } = input;
    return this.#post(id, "changes/undo", { ...body, run_id, dry_run }, options);
  }

  /** The Git worktree in which a session works; null if it works in its project folder. */
  async worktree(id: string, { signal }: CallOptions = {}): Promise<ApiWorktree | null> {
    const path = `${createResourcePath("session", id)}/worktree`;
    return (await this.#connection.requestJson<{ worktree: ApiWorktree | null }>(path, { signal })).body.worktree;
  }

  /**
   * Applies the changes of a session's worktree to the project folder. Returns the changed files. Rejects with
   * `BusyError` during a run, and with `ApiError` with the code `worktree_conflict`.
   */
  async applyWorktree(
    id: string,
    { dryRun }: { dryRun?: boolean | undefined } = {},
    options?: CallOptions,
  ): Promise<ApiWorktreeFile[]> {
    const body = { dry_run: dryRun };
    return (await this.#post<{ files: ApiWorktreeFile[] }>(id, "worktree/apply", body, options, hasFiles)).files;
  }

  async #post<T extends object>(
    id: string,
    action: string,
    body: object,
    { signal }: CallOptions = {},
    isExpectedBody?: (answer: T) => boolean,
  ): Promise<T> {
    const request = { method: "POST", body, signal };
    const path = `${createResourcePath("session", id)}/${action}`;
    return (await this.#connection.requestJson<T>(path, request, isExpectedBody)).body;
  }
}

const hasFiles = ({ files }: { files: unknown }): boolean => Array.isArray(files);
