/** A background command of a session. */
export interface ProcessState {
  /** Unique in its session. */
  readonly id: string;
  /** Single line, without secrets. */
  readonly command: string;
  readonly state: "running" | "ended";
  readonly startedAt: string;
  /** Null while the command runs, if a signal ended it, or if its end was not observed. */
  readonly exitCode: number | null;
  /** Whether the command keeps running after the server ends. */
  readonly detached: boolean;
}

/** Background work of tools, outside their calls. A session is named by the id of its chain's first session. */
export interface BackgroundWork {
  /** The running commands and the most recently ended ones, oldest first. Never rejects. */
  list(sessionId: string): Promise<readonly ProcessState[]>;
  /** Ends the background work of a deleted session, except detached commands. */
  end(sessionId: string): Promise<void>;
  /** Calls `listener` when the list of a session changes. The returned function unsubscribes. */
  onChange(listener: (sessionId: string) => void): () => void;
}
