/** A Git worktree: a copy of a project's committed files, in which sessions work instead of in the project folder. */
export interface Worktree {
  /** Absolute path of the folder in which the sessions work. */
  readonly folder: string;
  /** Absolute path of the project folder of which this is a copy. */
  readonly projectDir: string;
  /** Id of the commit that was copied. */
  readonly base: string;
}

/** A worktree whose session is not stored yet. */
export interface NewWorktree extends Worktree {
  /** Must be called after the session is stored. Never rejects. */
  confirm(): Promise<void>;
  /** Removes the worktree, for a session that was not stored. Never rejects. */
  discard(): Promise<void>;
}

/** A file of a worktree that differs from the last applied state, or from the base. */
export interface WorktreeFile {
  /** Absolute path in the project folder. */
  readonly path: string;
  readonly change: "added" | "changed" | "deleted";
  /** Why the change cannot be applied; `""` if it can. */
  readonly reason: string;
}

/** Whether a stored session works in a folder. */
export type FolderUse = (folder: string) => Promise<boolean>;

/** Options of `Worktrees.apply`. */
export interface WorktreeApplyOptions {
  /** Whether to change nothing, and only report the files. */
  readonly dryRun: boolean;
  readonly signal?: AbortSignal | undefined;
}

/** Creates worktrees for sessions, copies their changes back, and removes them. */
export interface Worktrees {
  /**
   * Creates a worktree of a project folder. Also removes worktrees of processes that ended before they stored the
   * session. Rejects with `InputError`, or with the signal's reason.
   */
  create(projectDir: string, isUsed: FolderUse, signal?: AbortSignal): Promise<NewWorktree>;
  /** Returns the worktree that contains a folder of a session; undefined if there is none. */
  find(folder: string): Promise<Worktree | undefined>;
  /**
   * Applies the changes since the last call to the project folder: all of them, or none. Rejects with `InputError` for
   * a folder that is no worktree, and with `WorktreeConflictError`. The caller must hold the lease of the session.
   */
  apply(folder: string, options: WorktreeApplyOptions): Promise<WorktreeFile[]>;
  /**
   * Announces the removal of the worktree that contains a folder. Call the result after the session is deleted: it
   * removes the worktree unless another session uses it, and never rejects. Undefined if the folder is no worktree.
   */
  prepareRemoval(folder: string, isUsed: FolderUse): Promise<(() => Promise<void>) | undefined>;
}
