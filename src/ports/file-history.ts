/** What is at a path, as far as it can be brought back. */
export type FileState =
  | { readonly kind: "none" }
  /** `content` undefined: it is too large to be kept. */
  | {
      readonly kind: "file";
      readonly content: Buffer | undefined;
      readonly mode: number;
      readonly uid: number;
      readonly gid: number;
    }
  | { readonly kind: "link"; readonly target: string }
  | { readonly kind: "folder"; readonly mode: number };

/** One path that is about to become something else. */
export interface FileChange {
  /** Absolute, without links. */
  readonly path: string;
  readonly before: FileState;
  /** What it will be. Of a file the content alone counts. */
  readonly after: FileState;
  /** How many folders above it are missing, and made with it. Default 0. */
  readonly made?: number;
}

/** What was kept of a change that comes now. */
export interface Keeping {
  /** Whether all of it can be brought back. */
  readonly kept: boolean;
  /** The change is made. */
  done(): void;
}

/** Told by a tool of every file before it changes it, so that it can be undone. */
export interface FileKeeper {
  /** What is there now is on disk when this resolves. Never rejects: work goes on where nothing can be kept. */
  keep(changes: readonly FileChange[]): Promise<Keeping>;
}

/** Where in a session a change is made. */
export interface ChangePlace {
  /** The chain's first session. */
  readonly sessionId: string;
  /** `""` where no run makes it. */
  readonly runId: string;
  readonly callId: string;
  /** The `seq` of the next message: those behind a smaller one are behind the change. */
  readonly seq: number;
  /** Folders beside the project that the run may use; absolute paths. Default none. */
  readonly folders?: readonly string[];
}

/** What becomes, or became, of a path. */
export interface UndoneFile {
  /** Absolute. */
  readonly path: string;
  /**
   * `restored`: its content is as it was. `made`: it is there again. `removed`: it is gone again. `conflict`: somebody else
   * changed it since, or what is there could not be kept; nothing is undone then, unless it is of the first kind and that is
   * forced. `lost`: no copy was kept. `failed`: it cannot be reached any more, or must not be changed. These two stay as
   * they are, and the rest is undone where that is forced.
   */
  readonly outcome: "restored" | "made" | "removed" | "conflict" | "lost" | "failed";
  /** Why, of the last three; else `""`. */
  readonly why: string;
}

/** Which changes of a session are taken back, and how. */
export interface RestoreRequest {
  readonly sessionId: string;
  readonly projectDir: string;
  /** Changes with a greater `seq`; or those of an undo, to take it back. */
  readonly behind: { readonly seq: number } | { readonly undo: string };
  /** Of the one that this is, by which it is taken back itself. */
  readonly undo: string;
  /** Noted as begun before anything is touched; `lastUndo` finds it open until `mark` ends it, also after a crash. */
  readonly begins: UndoMark;
  /** What calls behind the point told that they changed, by absolute paths: lost where nothing was kept of it. Default none. */
  readonly expected?: readonly ExpectedChange[];
  /** The `seq` that what is changed now has: that of the last message. */
  readonly seq: number;
  /** Change nothing, and say what would be. */
  readonly dryRun: boolean;
  /** Overwrite what somebody else changed since, too, and leave what cannot be brought back. */
  readonly force: boolean;
}

/** A path that a call told that it changed. */
export interface ExpectedChange {
  readonly callId: string;
  readonly path: string;
}

/** An undo that can be taken back. */
export interface UndoMark {
  readonly id: string;
  /** Of the messages that it puts aside; `""` for none. */
  readonly snapshotId: string;
  /** Greatest `seq` of the chain when it was made. */
  readonly seq: number;
  /** The `seq` behind which it takes changes back. */
  readonly point: number;
  /** Id of the message that is the last then; `""`: none is left. */
  readonly to: string;
}

/** The undo that was made last. */
export interface LastUndo extends UndoMark {
  /** It, or its taking back, was begun and never ended: another undo goes on with it, and a redo takes it back. */
  readonly isOpen: boolean;
}

/** Keeps what the files of a project were before the tools of a session changed them. */
export interface FileHistory {
  keeper(place: ChangePlace): FileKeeper;
  /**
   * Take changes back, all or none: what is there now is kept first, with a plan that `begins` leads, and what fails in the
   * middle is taken back. Ordered by path. Rejects with `UndoConflictError` where something is in the way, and with the
   * system's error where what was kept cannot be read; nothing is changed then.
   */
  restore(request: RestoreRequest): Promise<UndoneFile[]>;
  /** Note that an undo is complete, with the words too, or was itself taken back. */
  mark(sessionId: string, mark: UndoMark | { readonly redone: string }): Promise<void>;
  /** The undo that was made last and not taken back; undefined when there is none, or a run changed files since. */
  lastUndo(sessionId: string): Promise<LastUndo | undefined>;
  /** Remove all that is kept of a session. */
  forget(sessionId: string): Promise<void>;
  /** Remove what is old. Never rejects. */
  sweep(): Promise<void>;
}
