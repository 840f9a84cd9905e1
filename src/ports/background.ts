/** A command that goes on in the background of a session. */
export interface ProcessState {
  /** Unique in its session. */
  readonly id: string;
  /** One line, without secrets. */
  readonly command: string;
  readonly state: "running" | "ended";
  /** ISO 8601. */
  readonly since: string;
  /** Null while it runs, when a signal ended it, and where nobody saw it end. */
  readonly exitCode: number | null;
  /** Whether it goes on when the server ends. */
  readonly keep: boolean;
}

/** What tools keep going for sessions beside their calls. Sessions are named by the id of their chain's first. */
export interface BackgroundWork {
  /** Oldest first: those that run, and the last that ended. Never rejects. */
  list(sessionId: string): Promise<readonly ProcessState[]>;
  /** The session was deleted: what goes on for it ends, unless it was to be kept. */
  end(sessionId: string): Promise<void>;
  /** Call this when the list of a session is another; the returned function ends that. */
  onChange(listener: (sessionId: string) => void): () => void;
}
