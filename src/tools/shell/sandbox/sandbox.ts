import { existsSync } from "node:fs";
import { shellQuote } from "../../../base/shell-quote.js";
import { ToolError } from "../../../ports/errors.js";
import { findBubblewrap, type Bubblewrap, type BubblewrapNeeds } from "./bubblewrap.js";
import type { Child } from "../../../processes/child.js";
import type { DetachedProgram } from "../../../processes/supervisor.js";
import { MountPlanner, type MountRules } from "./mount-planner.js";
import { SandboxRoots, type Root } from "./sandbox-roots.js";
import { SandboxStarter } from "./sandbox-starter.js";

export interface SandboxOptions extends MountRules {
  env: Readonly<Record<string, string>>;
  /**
   * - `auto`: use bubblewrap if it works, otherwise no sandbox
   * - `required`: reject commands if bubblewrap does not work
   * - `off`: no sandbox
   */
  sandbox: "auto" | "required" | "off";
  /** Whether commands can use the network. Default: false with `required`, otherwise true. */
  network?: boolean | undefined;
}

/** The sandbox of one call. */
export interface PreparedSandbox {
  /**
   * Starts `<shell> -c <command>`. Both output streams share one pipe, so that their order is preserved. `input`:
   * whether the command has a standard input. Default: false.
   */
  start(shell: string, command: string, input?: boolean): Promise<Child>;
  /** Returns the same command with a standard input, for a sandbox that outlives this process. */
  program(shell: string, command: string): DetachedProgram;
  /** Must be called after the command has ended. Removes forbidden entries and returns their paths. */
  tidy(): Promise<string[]>;
}

/**
 * Root may change its files in /proc without any capability. One of these files names the program that the kernel runs
 * after a crash.
 *
 * One read-only mount covers all of /proc, because bubblewrap checks all mounts for each further one.
 */
const PROC_SWITCHES = ["--proc", "/proc", ...(process.getuid?.() === 0 ? ["--remount-ro", "/proc"] : [])];

/** Time limit of the command that tests whether the sandbox starts, in ms. */
const PROBE_TIMEOUT_MS = 10_000;

/** The sandbox for the commands of one agent. */
export class Sandbox {
  readonly #options: SandboxOptions;
  readonly #roots: SandboxRoots;
  readonly #mountPlanner: MountPlanner;
  #starter: SandboxStarter | undefined;
  /** Pending and completed searches for a working bubblewrap. */
  readonly #searches = new Set<Promise<Bubblewrap | undefined>>();

  constructor(options: SandboxOptions) {
    this.#options = options;
    this.#roots = new SandboxRoots(options.allowPaths);
    const { network } = this;
    const homePath = options.env["HOME"];
    const isStrict = options.sandbox === "required";
    this.#mountPlanner = new MountPlanner({ ...options, network, homePath, isStrict }, this.#roots);
  }

  get network(): boolean {
    return this.#options.network ?? this.#options.sandbox !== "required";
  }

  /**
   * Describes the current sandbox for a user. Runs an empty command in `projectDir` as a test. Later commands have no
   * standby process. `isWeak`: whether commands run without a sandbox, or do not run at all.
   */
  async describe(projectDir: string): Promise<{ text: string; isWeak: boolean }> {
    const { sandbox, env } = this.#options;
    if (sandbox === "off") return { text: "commands run without a sandbox", isWeak: true };
    const bubblewrap = await this.#findBubblewrap({ env, network: this.network });
    const startFault = bubblewrap && (await this.#findStartFault(projectDir));
    if (startFault !== undefined)
      return { text: `commands do not run: the sandbox could not start: ${startFault}`, isWeak: true };
    if (bubblewrap) {
      const network = this.network ? "with" : "without";
      return { text: `commands run in bubblewrap, ${network} network access`, isWeak: false };
    }
    if (sandbox === "required") return { text: "commands are refused: bubblewrap does not work here", isWeak: true };
    return { text: "commands run without a sandbox: bubblewrap does not work here", isWeak: true };
  }

  /**
   * Returns the reason why the sandbox for a folder does not start. Undefined if the sandbox starts, or if the folder
   * is refused.
   */
  async #findStartFault(projectDir: string): Promise<string | undefined> {
    const prepared = await this.prepare(projectDir).catch(() => undefined);
    // Without a standby process, because no command follows.
    this.#starter?.close();
    const child = await prepared?.start("/bin/sh", ":");
    const end = await child?.run({
      timeoutMs: PROBE_TIMEOUT_MS,
      signal: new AbortController().signal,
      onOutput: () => undefined,
    });
    await prepared?.tidy();
    return end?.sandboxFault;
  }

  /**
   * Prepares the sandbox for one command. Undefined if the command runs without a sandbox. Rejects with `ToolError` if
   * the command must not run.
   *
   * @param isLasting Whether the command continues after its call. Default: false.
   */
  async prepare(
    projectDir: string,
    folders: readonly string[] = [],
    isLasting = false,
  ): Promise<PreparedSandbox | undefined> {
    const { sandbox, env } = this.#options;
    if (sandbox === "off") return undefined;
    const { network } = this;
    if ((await this.#findBubblewrap({ env, network })) === undefined) {
      if (sandbox === "auto") return undefined;
      throw new ToolError(
        "commands need a sandbox, and bubblewrap does not work here. Tell the user; continue without bash.",
      );
    }
    const project = await this.#roots.open(projectDir);
    if (!project) throw new ToolError(`the project folder ${projectDir} cannot be opened.`);
    const additionalRoots = await this.#roots.openAll(folders);
    const needsForeignFiles =
      process.getuid?.() === 0 && [project, ...additionalRoots].some(({ ownerUid }) => ownerUid !== 0);
    const bubblewrap = await this.#findBubblewrap({ env, network, needsForeignFiles });
    if (!bubblewrap)
      throw new ToolError("the project folder belongs to another user, which the sandbox does not support here.");
    const mountRequest = { project, additionalRoots, isLasting, hasCapabilities: needsForeignFiles };
    const { plan, roots, guards } = await this.#mountPlanner.plan(mountRequest);
    const switches = [
      ...["--ro-bind", "/", "/"],
      ...plan.createArguments(),
      // These mounts come last, so that no root covers them.
      ...["--dev", "/dev", ...PROC_SWITCHES],
      ...bubblewrap.switches,
      ...["--setenv", "TMPDIR", "/tmp", "--setenv", "GOCACHE", "/tmp/go-build"],
      ...["--chdir", project.path],
    ];
    const check = createRootCheck(roots.filter(({ path }) => !plan.isHidden(path)));
    this.#starter ??= new SandboxStarter(bubblewrap.file, env);
    const starter = this.#starter;
    return {
      start: (shell, command, input = false) => starter.start({ switches, check, shell, command, input }),
      program: (shell, command) => starter.program({ switches, check, shell, command, input: true }),
      tidy: async () => (await Promise.all(guards.map((guard) => guard.tidy()))).flat(),
    };
  }

  /** Ends the standby process and waits for running searches for bubblewrap. */
  async close(): Promise<void> {
    this.#starter?.close();
    await Promise.all(this.#searches);
  }

  #findBubblewrap(needs: BubblewrapNeeds): Promise<Bubblewrap | undefined> {
    const bubblewrap = findBubblewrap(needs);
    this.#searches.add(bubblewrap);
    return bubblewrap;
  }
}

/**
 * Creates shell code that runs the command only if each root is still the checked folder. The check runs in the
 * sandbox, where mounts are final. Names could change while the mounts were made.
 */
function createRootCheck(roots: readonly Root[]): string {
  const stat = ["/usr/bin/stat", "/bin/stat", "/run/current-system/sw/bin/stat"].find((path) => existsSync(path));
  if (stat === undefined) throw new ToolError("the sandbox needs the program stat, which is not installed.");
  const expectedIdentities = roots.map(({ identity }) => identity).join("\n");
  const statCommand = [stat, "-c", "%d:%i", "--", ...roots.map(({ path }) => path)].map(shellQuote).join(" ");
  const refusal = "echo 'a folder was replaced while the sandbox started; try again' >&2; exit 126";
  return roots.length === 0 ? "" : `[ "$(${statCommand})" = ${shellQuote(expectedIdentities)} ] || { ${refusal}; }; `;
}
