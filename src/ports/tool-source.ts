import type { SlashCommand } from "./slash-command.js";
import type { Tool } from "./tool.js";

/** The session for which tools are opened. */
export interface ToolSession {
  /** The chain's first session. */
  readonly sessionId: string;
  /** Absolute path of the session's project folder. */
  readonly projectDir: string;
}

/** The tools of a source, opened for one session. */
export interface OpenTools {
  /** Read at the start of each run, so the list may change between runs. A run keeps its list. */
  readonly tools: readonly Tool[];
  /**
   * How the source wants its tools to be used, for the model. Untrusted text: the system prompt names its source, and
   * has at most 2,048 characters of it. Read like `tools`.
   */
  readonly instructions?: string | undefined;
  /** Prompts available as slash commands; read on each request. */
  readonly prompts?: readonly SlashCommand[];
  /**
   * Closes the opened resources. Called once, when no run of the session is active. After 2.5 s the kernel abandons the
   * call.
   */
  close(): Promise<void>;
}

/** A source of tools that must be opened first, such as an MCP server, a connection or a process. */
export interface ToolSource {
  /** Unique in an agent. */
  readonly name: string;
  /**
   * Opens the tools for a session. Called before the session's first run, and again after a close. The kernel closes
   * them five minutes after the session's last run, if the session is deleted or changes its folder, and with the
   * agent.
   *
   * A source that rejects or takes longer than 30 s is unavailable for the run: the log, the bus and the model are
   * informed. The attempt continues for up to five minutes, also if the run is cancelled, and serves the session's next
   * run. `signal` aborts after that time or when the tools are no longer needed. For a source passed to one run, it
   * aborts when the run stops waiting. Tools that open after the abort are closed at once.
   */
  open(session: ToolSession, signal: AbortSignal): Promise<OpenTools>;
}
