import { shellQuote } from "../../../base/shell-quote.js";
import { Child } from "../../../processes/child.js";
import type { KeptProgram } from "../../../processes/supervisor.js";

/** Time that a standby process waits for a command, in ms. */
const READY_MS = 60_000;

/** Environment variables that pass the command to the shell. The script removes them before the command runs. */
const COMMAND = "GANTRY_COMMAND";
const SCRIPT = "GANTRY_SCRIPT";
/**
 * The last variable. If it is missing, the arguments are truncated because this process was killed, and nothing runs.
 */
const WHOLE = "GANTRY_WHOLE";
const SHELL = ["/bin/sh", "-c", `[ -n "$${WHOLE}" ] || exit 126; eval "$${SCRIPT}"`, "sh"];

/**
 * Environment for commands with an input. Node's pipes are sockets. Bash treats a socket as a remote login and reads
 * its start-up file, unless it is a nested shell.
 */
export const WITH_INPUT = { SHLVL: "1" };

/** A command for a sandbox. */
export interface SandboxedCommand {
  /** Switches for bubblewrap. */
  switches: readonly string[];
  /** Shell code that runs before the command. */
  check: string;
  shell: string;
  command: string;
  /** Whether the command has a standard input. Default: false. */
  input?: boolean;
}

/**
 * Starts bubblewrap, and a standby process for the next command. A large process takes milliseconds to start another,
 * and bubblewrap takes one more to read its switches.
 *
 * The standby process has no namespace and no mounts until it receives its switches. Each sandbox serves one command.
 * An unused standby process ends after 60 s, or with this process.
 */
export class SandboxStarter {
  readonly #file: string;
  readonly #env: Readonly<Record<string, string>>;
  #ready: Child | undefined;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  /** @param file Path of bubblewrap. */
  constructor(file: string, env: Readonly<Record<string, string>>) {
    this.#file = file;
    this.#env = env;
  }

  async start(given: SandboxedCommand): Promise<Child> {
    const { input = false } = given;
    // The standby process has no input.
    const child = (input ? undefined : this.#take()) ?? (await this.#start(input));
    // This process is idle once the switches are sent: the time to start the next standby process.
    child.arrange(switchesOf(given), { taken: () => void this.#makeReady() });
    return child;
  }

  /** Returns the program for a sandbox that outlives this process. */
  program(given: SandboxedCommand): KeptProgram {
    const said = switchesOf(given).map((one) => `${one}\0`);
    return { file: this.#file, args: ["--args", "4", "--", ...SHELL], cwd: "/", env: this.#env, said: said.join("") };
  }

  /** Ends the standby process. Later commands start without one. */
  close(): void {
    this.#closed = true;
    this.#take()?.kill();
  }

  #start(input = false): Promise<Child> {
    return Child.start({ file: this.#file, args: SHELL, cwd: "/", env: this.#env, sandbox: true, input });
  }

  #take(): Child | undefined {
    const child = this.#ready;
    this.#ready = undefined;
    clearTimeout(this.#timer);
    if (child?.living === false) {
      child.kill();
      return undefined;
    }
    child?.hold(true);
    return child;
  }

  /** Never rejects: the next command reports why it cannot start. */
  async #makeReady(): Promise<void> {
    if (this.#closed || this.#ready !== undefined) return;
    const child = await this.#start().catch(() => undefined);
    if (child === undefined) return;
    if (this.#closed || this.#ready !== undefined) {
      child.kill();
      return;
    }
    child.hold(false);
    this.#ready = child;
    this.#timer = setTimeout(() => this.#take()?.kill(), READY_MS).unref();
  }
}

function switchesOf({ switches, check, shell, command, input = false }: SandboxedCommand): string[] {
  const script = `unset ${SCRIPT} ${WHOLE}; ${check}set -- "$${COMMAND}"; unset ${COMMAND}; exec ${shellQuote(shell)} -c "$1" 2>&1`;
  const variables = { [COMMAND]: command, [SCRIPT]: script, [WHOLE]: "1", ...(input && WITH_INPUT) };
  return [...switches, ...Object.entries(variables).flatMap((pair) => ["--setenv", ...pair])];
}
