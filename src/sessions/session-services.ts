import type { SessionContext } from "../ports/session-context.js";
import type { UserCommand, UserCommandResult } from "../ports/user-command.js";
import type { RewindServices } from "./rewind-operations.js";
import { SessionRewinds } from "./session-rewinds.js";

/** The parts of an agent that `SessionServices` uses. */
export interface SessionServicesOptions extends RewindServices {
  /** Loads the code of runs, which most requests do not need. */
  loadLocalRuns: () => Promise<{
    measureContext: (id: string, signal: AbortSignal | undefined) => Promise<SessionContext>;
    runCommand: (id: string, command: UserCommand) => Promise<UserCommandResult>;
  }>;
}

/** The methods of sessions that need more of the agent than the store. */
export class SessionServices extends SessionRewinds {
  readonly #options: SessionServicesOptions;

  constructor(options: SessionServicesOptions) {
    super(options);
    this.#options = options;
  }

  /**
   * Measures what the next model call would contain, for an idle or a running session. Starts no run and calls no
   * model. Rejects with `SessionNotFoundError`, `StoreError` or the signal's reason.
   */
  async context(id: string, { signal }: { signal?: AbortSignal | undefined } = {}): Promise<SessionContext> {
    return (await this.#options.loadLocalRuns()).measureContext(id, signal);
  }

  /**
   * Runs a person's shell command in the project folder, with the environment, sandbox and limits of the tool `bash`.
   * Permission rules and modes do not apply. A shared command holds the session until its end: no run can start.
   *
   * Rejects with `InputError`, `CommandsDisabledError` (no tool `bash`), `SessionNotFoundError`, `SessionBusyError` (a
   * run is active), `TooManyRunsError`, `ShuttingDownError`, `ProjectFolderError`, `ToolError` (the command could not
   * start), `StoreError` or the signal's reason. A cancelled command stores nothing.
   */
  async runCommand(id: string, command: UserCommand): Promise<UserCommandResult> {
    return (await this.#options.loadLocalRuns()).runCommand(id, command);
  }
}
