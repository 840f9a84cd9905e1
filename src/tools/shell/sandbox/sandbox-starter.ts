import { shellQuote } from "../../../base/shell-quote.js";
import { Child } from "../../../processes/child.js";
import type { KeptProgram } from "../../../processes/supervisor.js";

/** How long a sandbox waits for a command, in ms. */
const READY_MS = 60_000;

/** What a command is in the environment of the shell that starts it; taken away again before it runs. */
const COMMAND = "GANTRY_COMMAND";
const SCRIPT = "GANTRY_SCRIPT";
/** Comes last: what was cut off, because this process was ended as it wrote, is not run. */
const WHOLE = "GANTRY_WHOLE";
const SHELL = ["/bin/sh", "-c", `[ -n "$${WHOLE}" ] || exit 126; eval "$${SCRIPT}"`, "sh"];

/** Node's pipes are sockets: bash takes one as its input for a login from afar, and reads its start-up file, unless it is the shell of a shell. */
export const WITH_INPUT = { SHLVL: "1" };

/** What runs in a sandbox. */
export interface SandboxedCommand {
  /** Bubblewrap's switches. */
  switches: readonly string[];
  /** For `sh`, in front of the command. */
  check: string;
  shell: string;
  command: string;
  /** Whether something may be said to its standard input. Default false. */
  input?: boolean;
}

/**
 * Starts bubblewrap, and while a command runs the one for the next: a large process takes milliseconds to start another,
 * bubblewrap one more until it reads its switches. Until it has them it is a program like others, in no namespace, with
 * no mount; a sandbox is made for its own command alone. It ends when nobody comes, and by itself with this process.
 */
export class SandboxStarter {
  readonly #file: string;
  readonly #env: Readonly<Record<string, string>>;
  #ready: Child | undefined;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  /** @param file bubblewrap */
  constructor(file: string, env: Readonly<Record<string, string>>) {
    this.#file = file;
    this.#env = env;
  }

  async start(given: SandboxedCommand): Promise<Child> {
    const { input = false } = given;
    // What waits has no input.
    const child = (input ? undefined : this.#take()) ?? (await this.#start(input));
    // When the switches are on their way this process has nothing to do.
    child.arrange(switchesOf(given), { taken: () => void this.#makeReady() });
    return child;
  }

  /** What it takes to start it in a sandbox that does not end with this process. */
  program(given: SandboxedCommand): KeptProgram {
    const said = switchesOf(given).map((one) => `${one}\0`);
    return { file: this.#file, args: ["--args", "4", "--", ...SHELL], cwd: "/", env: this.#env, said: said.join("") };
  }

  /** What waits is ended; later commands find nothing ready. */
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

  /** Never rejects: the next command says why it cannot start. */
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
