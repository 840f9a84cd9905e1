import type { SlashCommand } from "./slash-command.js";
import type { Tool } from "./tool.js";

/** The session that tools are opened for. */
export interface ToolSession {
  /** The chain's first session. */
  readonly sessionId: string;
  /** Absolute path of the folder that the session works on. */
  readonly projectDir: string;
}

/** The tools of a source, at hand for one session. */
export interface OpenTools {
  /** Read when a run starts: they may be others by then, and stay the same while it goes. */
  readonly tools: readonly Tool[];
  /** What people may say by a slash command; read whenever somebody looks. */
  readonly prompts?: readonly SlashCommand[];
  /** End what was opened. Called once, when no run of the session goes on; who takes longer than 2.5 s is left behind. */
  close(): Promise<void>;
}

/** Where tools come from that must be opened first: a server of them, a connection, a process. */
export interface ToolSource {
  /** Unique in an agent. */
  readonly name: string;
  /**
   * Called before a session's first run, and again when what it opened was closed: five minutes after the session's last
   * run, when the session is deleted or works on another folder, when the agent closes. Whoever rejects, or is not ready
   * within 30 s, is left out of the run: it is in the log and on the bus, and the model is told. What is not ready goes on
   * for up to five minutes, also when the run is cancelled, and is there for the session's next run. The signal aborts when
   * that time is over or nobody needs it any more; of a source that a run brings for itself, with the run's wait. What
   * opens all the same is closed at once.
   */
  open(session: ToolSession, signal: AbortSignal): Promise<OpenTools>;
}
