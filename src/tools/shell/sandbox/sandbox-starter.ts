import { writeFileSync } from "node:fs";
import { shellQuote } from "../../../base/shell-quote.js";
import { Child, HOST_FD } from "../../../processes/child.js";
import type { DetachedProgram } from "../../../processes/supervisor.js";
import type { AppliedLimits } from "../command-limits.js";

/** Time that a standby process waits for a command, in ms. */
const MAX_STANDBY_MS = 60_000;

/** Environment variables that pass the command to the shell. The script removes them before the command runs. */
const COMMAND_VARIABLE = "GANTRY_COMMAND";
const SCRIPT_VARIABLE = "GANTRY_SCRIPT";
/**
 * The last variable. If it is missing, the arguments are truncated because this process was killed, and nothing runs.
 */
const COMPLETE_VARIABLE = "GANTRY_WHOLE";
const SHELL_ARGS = ["/bin/sh", "-c", `[ -n "$${COMPLETE_VARIABLE}" ] || exit 126; eval "$${SCRIPT_VARIABLE}"`, "sh"];

/**
 * Ends the shell if the host process does not answer because it was killed. The first process of the namespace sleeps
 * once it has asked the kernel to end it with its parent: from then on, the end of the host ends the command.
 */
const HOST_CHECK =
  `while read -r _ _ ${COMPLETE_VARIABLE} _ </proc/1/stat && [ "$${COMPLETE_VARIABLE}" = R ]; do :; done; ` +
  `echo >&${HOST_FD}; read -r ${COMPLETE_VARIABLE} <&${HOST_FD} || exit 126; exec ${HOST_FD}>&-; `;

/**
 * Environment for commands with an input. Node's pipes are sockets. Bash treats a socket as a remote login and reads
 * its start-up file, unless it is a nested shell.
 */
export const INPUT_ENV = { SHLVL: "1" };

/** A command for a sandbox. */
export interface SandboxedCommand {
  /** Switches for bubblewrap. */
  switches: readonly string[];
  /** Shell code that runs before the command. */
  check: string;
  shell: string;
  command: string;
  /** Undefined: no limits. */
  limits?: AppliedLimits | undefined;
  /** Whether the command has a standard input. Default: false. */
  input?: boolean;
}

/**
 * Starts bubblewrap, and a standby process for the next command. A large process takes milliseconds to start another,
 * and bubblewrap takes one more millisecond to read its switches.
 *
 * The standby process has no namespace and no mounts until it receives its switches. Each sandbox serves one command.
 * An unused standby process ends after 60 s, or with this process.
 */
export class SandboxStarter {
  readonly #file: string;
  readonly #env: Readonly<Record<string, string>>;
  #standby: Child | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** @param file Path of bubblewrap. */
  constructor(file: string, env: Readonly<Record<string, string>>) {
    this.#file = file;
    this.#env = env;
  }

  async start(command: SandboxedCommand): Promise<Child> {
    const { input = false, limits } = command;
    // The standby process has no input.
    const child = (input ? undefined : this.#takeStandby()) ?? (await this.#startChild(input));
    try {
      // Bubblewrap still waits for its switches, so that all further processes belong to the cgroup.
      for (const file of limits?.joinFiles ?? []) writeFileSync(file, String(child.pid));
    } catch (error) {
      child.kill();
      throw error;
    }
    // This process is idle once the switches are sent: the time to start the next standby process.
    child.configureSandbox(toSwitches(command, HOST_CHECK), () => void this.#startStandby());
    return child;
  }

  /** Returns the program for a sandbox that outlives this process. */
  program(command: SandboxedCommand): DetachedProgram {
    const switches = toSwitches(command).map((argument) => `${argument}\0`);
    const join = command.limits?.joinScript ?? "";
    const program = [this.#file, "--args", "4", "--", ...SHELL_ARGS] as const;
    const [file, ...args] = join === "" ? program : (["/bin/sh", "-c", `${join}exec "$@"`, "sh", ...program] as const);
    return {
      file,
      args,
      cwd: "/",
      env: this.#env,
      startupText: switches.join(""),
    };
  }

  /** Ends the standby process. Later commands start without a standby process. */
  close(): void {
    this.#isClosed = true;
    this.#takeStandby()?.kill();
  }

  #startChild(input = false): Promise<Child> {
    return Child.start({
      file: this.#file,
      args: SHELL_ARGS,
      cwd: "/",
      env: this.#env,
      isSandbox: true,
      hasInput: input,
    });
  }

  #takeStandby(): Child | undefined {
    const child = this.#standby;
    this.#standby = undefined;
    clearTimeout(this.#timer);
    if (child?.isRunning === false) {
      child.kill();
      return undefined;
    }
    child?.keepAlive(true);
    return child;
  }

  /** Starts the next standby process. Never rejects: the next command reports why it cannot start. */
  async #startStandby(): Promise<void> {
    if (this.#isClosed || this.#standby !== undefined) return;
    const child = await this.#startChild().catch(() => undefined);
    if (child === undefined) return;
    if (this.#isClosed || this.#standby !== undefined) {
      child.kill();
      return;
    }
    child.keepAlive(false);
    this.#standby = child;
    this.#timer = setTimeout(() => this.#takeStandby()?.kill(), MAX_STANDBY_MS).unref();
  }
}

function toSwitches(
  { switches, check, shell, command, limits, input = false }: SandboxedCommand,
  hostCheck = "",
): string[] {
  const script = `${hostCheck}unset ${SCRIPT_VARIABLE} ${COMPLETE_VARIABLE}; ${check}${limits?.script ?? ""}set -- "$${COMMAND_VARIABLE}"; unset ${COMMAND_VARIABLE}; exec ${shellQuote(shell)} -c "$1" 2>&1`;
  const variables = {
    [COMMAND_VARIABLE]: command,
    [SCRIPT_VARIABLE]: script,
    [COMPLETE_VARIABLE]: "1",
    ...(input && INPUT_ENV),
  };
  return [...switches, ...Object.entries(variables).flatMap((pair) => ["--setenv", ...pair])];
}
