/** State of a path, as far as it can be restored. */
export type FileState =
  | { readonly kind: "none" }
  /** `content` is undefined if the file is too large to be recorded. */
  | {
      readonly kind: "file";
      readonly content: Buffer | undefined;
      readonly mode: number;
      readonly uid: number;
      readonly gid: number;
    }
  | { readonly kind: "link"; readonly target: string }
  | { readonly kind: "folder"; readonly mode: number };

/** A planned change of one path. */
export interface FileChange {
  /** Absolute path without symbolic links. */
  readonly path: string;
  readonly before: FileState;
  /** State after the change. For a file only the content counts. */
  readonly after: FileState;
  /** Number of missing parent folders that the change creates. Default 0. */
  readonly createdFolders?: number;
}

/** A recorded state, and the planned change of it. */
export interface RecordedChange {
  /** Whether the change can be undone completely. */
  readonly isRestorable: boolean;
  /** Records that the change was made. */
  commit(): void;
}

/** Records files before a tool changes them, so that the change can be undone. */
export interface FileRecorder {
  /**
   * Resolves when the current state of the paths is on disk. Never rejects: if recording fails, the tool continues
   * without it.
   */
  record(changes: readonly FileChange[]): Promise<RecordedChange>;
}

/** Position of a change in a session. */
export interface ChangeOrigin {
  /** The chain's first session. */
  readonly sessionId: string;
  /** `""` if the change belongs to no run. */
  readonly runId: string;
  readonly callId: string;
  /** The `seq` of the next message. A change comes after every message with a smaller `seq`. */
  readonly seq: number;
  /** Further folders, besides the project, that the run may use. Absolute paths. Default none. */
  readonly folders?: readonly string[];
}

/** Result of an undo for one path, planned or done. */
export interface UndoneFile {
  /** Absolute path. */
  readonly path: string;
  /**
   * Outcome for the path:
   *
   * - `restored`: the file has its previous content again.
   * - `recreated`: the path exists again.
   * - `removed`: the path is gone again.
   * - `conflict`: the path was changed outside the session since, or its current state could not be recorded. Nothing
   *   is undone. `force` overrides only a change outside the session.
   * - `lost`: no copy was recorded.
   * - `failed`: the path is unreachable or must not be changed.
   *
   * With `force`, paths that are `lost` or `failed` stay unchanged and the remaining paths are undone.
   */
  readonly outcome: "restored" | "recreated" | "removed" | "conflict" | "lost" | "failed";
  /** Reason for `conflict`, `lost` and `failed`; otherwise `""`. */
  readonly reason: string;
}

/** Selects the changes of a session to undo, and the mode. */
export interface RestoreRequest {
  readonly sessionId: string;
  readonly projectDir: string;
  /**
   * The changes to undo: all with a greater `seq`, the changes that the undo with the id `undo` made, or the changes of
   * one file.
   */
  readonly target: { readonly seq: number } | { readonly undo: string } | FileTarget;
  /** Id of this undo. A later request names it in `target` to revert this undo. */
  readonly undo: string;
  /**
   * Stored as started before any file is changed. `lastUndo` reports this undo as open until `mark` closes it, also
   * after a crash.
   */
  readonly mark: UndoMark;
  /**
   * Absolute paths that calls after the target point reported as changed. A path without a recorded state has the
   * outcome `lost`. Default none.
   */
  readonly expected?: readonly ExpectedChange[];
  /** The `seq` of the last message, recorded for the changes that this undo makes. */
  readonly seq: number;
  /** Whether only to report the outcomes, without changing files. */
  readonly dryRun: boolean;
  /** Whether to overwrite changes made outside the session, and to skip paths that cannot be restored. */
  readonly force: boolean;
}

/** Selects the changes of one file to undo. */
export interface FileTarget {
  /** Absolute path, as `changes` returns it. */
  readonly path: string;
  /** Only changes of these runs. If a later run changed the file too, that is a conflict. Default: all runs. */
  readonly runIds?: ReadonlySet<string> | undefined;
  /** `version` of the content that the user saw. Another current content is a conflict, also with `force`. */
  readonly version?: string | undefined;
  /** Only these lines. Requires `version`. Default: the complete file. */
  readonly hunk?: TextHunk | undefined;
}

/**
 * Corresponding lines of the old and of the new text of a file. The first line has the number 1. An empty range starts
 * at the line before which it lies.
 */
export interface TextHunk {
  readonly oldStart: number;
  readonly oldLines: number;
  readonly newStart: number;
  readonly newLines: number;
}

/** Selects files that a session changed. */
export interface ChangesQuery {
  readonly sessionId: string;
  readonly projectDir: string;
  /** Only files that these runs changed, with their content after these runs. Default: all runs, current content. */
  readonly runIds?: ReadonlySet<string> | undefined;
  /** Only this file. Absolute path. */
  readonly path?: string | undefined;
  /** Number of files to skip. */
  readonly offset: number;
  readonly limit: number;
}

/** A file that tools of a session changed, if its content now differs. Links count as files without text. */
export interface FileDifference {
  /** Absolute path. */
  readonly path: string;
  readonly kind: "created" | "changed" | "deleted";
  /** Runs that changed the file, oldest first. */
  readonly runIds: readonly string[];
  /** Text before the first of these changes. Null if there was no file, or if the text is omitted. */
  readonly oldText: string | null;
  /** Text after the changes. Null if there is no file, or if the text is omitted. */
  readonly newText: string | null;
  /**
   * Reason why both texts are omitted: no UTF-8 text, too much text, or a content that is not stored. `""`: they are
   * included.
   */
  readonly omitted: "" | "binary" | "too_large" | "lost";
  /** Identifies the new content. `""` if there is no file, or if its content is unknown. */
  readonly version: string;
  /** Number of added and removed lines. Null if the texts are omitted. */
  readonly added: number | null;
  readonly removed: number | null;
}

/** One page of changed files, ordered by path. */
export interface ChangedFiles {
  readonly files: readonly FileDifference[];
  /** Number of changed files on all pages. */
  readonly total: number;
}

/** A path that a call reported as changed. */
export interface ExpectedChange {
  readonly callId: string;
  readonly path: string;
}

/** An undo that can be reverted. */
export interface UndoMark {
  readonly id: string;
  /** Snapshot of the messages that the undo hides; `""` for none. */
  readonly snapshotId: string;
  /** Greatest `seq` of the chain at the time of the undo. */
  readonly seq: number;
  /** The undo reverts changes with a `seq` greater than `afterSeq`. */
  readonly afterSeq: number;
  /** Id of the last message that remains after the undo; `""` if none remains. */
  readonly lastMessageId: string;
  /** Set for the undo of one file only. A later undo does not continue it. */
  readonly path?: string;
}

/** The most recent undo. */
export interface LastUndo extends UndoMark {
  /**
   * True if the undo, or its revert, started and never finished. The next undo continues this undo; a redo reverts it.
   */
  readonly isOpen: boolean;
}

/** Records the files of a project before the tools of a session change them. */
export interface FileHistory {
  /** Creates the recorder for the changes of one call. */
  recorder(origin: ChangeOrigin): FileRecorder;
  /**
   * Undoes changes, all or none, and returns the files ordered by path. Before the first change, the current state is
   * recorded, with a plan that starts with `mark`. After a later failure, the recorded state is restored. Rejects with
   * `UndoConflictError` on a conflict, and with the system's error if the record is unreadable. No file is changed in
   * either case.
   */
  restore(request: RestoreRequest): Promise<UndoneFile[]>;
  /** Records that an undo is complete, including its messages. `redone`: id of an undo that was reverted instead. */
  mark(sessionId: string, mark: UndoMark | { readonly redone: string }): Promise<void>;
  /** The most recent undo that was not reverted. Undefined if there is none, or if a run changed files since. */
  lastUndo(sessionId: string): Promise<LastUndo | undefined>;
  /** Lists changed files. Optional: without this method, clients cannot show or undo the changes of single files. */
  changes?(query: ChangesQuery): Promise<ChangedFiles>;
  /** Removes everything recorded for a session. */
  forget(sessionId: string): Promise<void>;
  /** Removes records older than the implementation's limit. Never rejects. */
  sweep(): Promise<void>;
}
