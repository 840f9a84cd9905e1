import { existsSync } from "node:fs";
import { shellQuote } from "../../../base/shell-quote.js";
import { ToolError } from "../../../ports/errors.js";
import type { Logger } from "../../../ports/logger.js";
import type { Child } from "../../../processes/child.js";
import type { DetachedProgram } from "../../../processes/supervisor.js";
import type { AppliedLimits, Overhead } from "../command-limits.js";
import type { CommandNetwork, HostFilter } from "./command-network.js";
import type { ConnectHost } from "../../../http/filtering-proxy.js";
import { findBubblewrap, type Bubblewrap, type BubblewrapNeeds } from "./bubblewrap.js";
import { MountPlanner, type MountRules } from "./mount-planner.js";
import type { GitGuard } from "./sandbox-git.js";
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
  /**
   * Whether commands can use the network, or the hosts that they can reach through a proxy. Hosts need a sandbox.
   * Default: false with `required`, otherwise true.
   */
  network?: boolean | readonly string[] | undefined;
  /** Receives a line for each host that is refused. Default: nothing is logged. */
  logger?: Logger | undefined;
  /** Replaces connections to public addresses, for tests. */
  connect?: ConnectHost | undefined;
}

/** A command for the sandbox: `<shell> -c <command>`. */
export interface LimitedCommand {
  readonly shell: string;
  readonly command: string;
  /** Undefined: no limits. */
  readonly limits: AppliedLimits | undefined;
}

/** The sandbox of one call. */
export interface PreparedSandbox {
  /**
   * Starts a command. Both output streams share one pipe, so that their order is preserved. `input`: whether the command
   * has a standard input. Default: false.
   */
  start(command: LimitedCommand, input?: boolean): Promise<Child>;
  /**
   * Returns the same command with a standard input, for a sandbox that outlives this process. Throws `ToolError` if the
   * command needs this process.
   */
  program(command: LimitedCommand): DetachedProgram;
  /** Resources that the sandbox itself uses. */
  readonly overhead: Overhead;
  /** Must be called after the command has ended. Removes forbidden entries and returns notes for the model. */
  tidy(): Promise<string[]>;
}

/**
 * Root may change its files in /proc without any capability. One of these files names the program that the kernel runs
 * after a crash.
 *
 * One read-only mount covers all of /proc, because bubblewrap checks all mounts for each further one.
 */
const PROC_SWITCHES = ["--proc", "/proc", ...(process.getuid?.() === 0 ? ["--remount-ro", "/proc"] : [])];

const HOSTS_NEED_SANDBOX =
  "a list of hosts in tools.bash.network needs bubblewrap, which is not in use or does not work";

/** Time limit of the command that tests whether the sandbox starts, in ms. */
const PROBE_TIMEOUT_MS = 10_000;

/** Resources of bubblewrap and of the shell that starts the command, rounded up. */
const SANDBOX_OVERHEAD: Overhead = { memoryBytes: 8 * 1024 * 1024, processes: 4 };
/** The same with the forwarder, which is a Node process. */
const FORWARDER_OVERHEAD: Overhead = { memoryBytes: 128 * 1024 * 1024, processes: 24 };

/** The sandbox for the commands of one agent. */
export class Sandbox {
  readonly #options: SandboxOptions;
  readonly #roots: SandboxRoots;
  readonly #mountPlanner: MountPlanner;
  #starter: SandboxStarter | undefined;
  #hostFilter: HostFilter | undefined;
  /** Pending and completed searches for a working bubblewrap. */
  readonly #searches = new Set<Promise<Bubblewrap | undefined>>();

  constructor(options: SandboxOptions) {
    this.#options = options;
    this.#roots = new SandboxRoots(options.allowPaths);
    const network = this.network !== false;
    const homePath = options.env["HOME"];
    const isStrict = options.sandbox === "required";
    this.#mountPlanner = new MountPlanner({ ...options, network, homePath, isStrict }, this.#roots);
  }

  /** Whether commands can use the network, or the hosts that they can reach. */
  get network(): boolean | readonly string[] {
    return this.#options.network ?? this.#options.sandbox !== "required";
  }

  /**
   * Describes the current sandbox for a user. Runs an empty command in `projectDir` as a test. Later commands have no
   * standby process. `isWeak`: whether commands run without a sandbox, or do not run at all.
   */
  async describe(projectDir: string): Promise<{ text: string; isWeak: boolean }> {
    const { sandbox, env } = this.#options;
    if (sandbox === "off") return { text: "commands run without a sandbox", isWeak: true };
    const { network } = this;
    const bubblewrap = await this.#findBubblewrap({ env, network: network === true });
    const startFault = bubblewrap && (await this.#findStartFault(projectDir));
    if (startFault !== undefined)
      return { text: `commands do not run: the sandbox could not start: ${startFault}`, isWeak: true };
    if (bubblewrap) {
      const hosts = typeof network === "object" ? ` to ${network.join(", ") || "no host"}` : "";
      const access = `${network === false ? "without" : "with"} network access${hosts}`;
      return { text: `commands run in bubblewrap, ${access}`, isWeak: false };
    }
    if (typeof network === "object") return { text: `commands are refused: ${HOSTS_NEED_SANDBOX}`, isWeak: true };
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
    const child = await prepared?.start({ shell: "/bin/sh", command: ":", limits: undefined });
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
    const hosts = typeof this.network === "object" ? this.network : undefined;
    const network = this.network === true;
    if (sandbox === "off" || (await this.#findBubblewrap({ env, network })) === undefined) {
      if (hosts) throw new ToolError(`${HOSTS_NEED_SANDBOX}. The command did not run. Tell the user.`);
      if (sandbox !== "required") return undefined;
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
    const hostFilter = hosts && (await this.#openHostFilter(hosts));
    let commandNetwork: CommandNetwork | undefined;
    return {
      overhead: hostFilter ? FORWARDER_OVERHEAD : SANDBOX_OVERHEAD,
      start: async (command, input = false) => {
        commandNetwork = await hostFilter?.open();
        const networkSwitches = commandNetwork?.switches ?? [];
        const script = check + (commandNetwork?.script ?? "");
        const sandboxedCommand = { ...command, switches: [...switches, ...networkSwitches], check: script, input };
        return starter.start(sandboxedCommand).catch(async (error: unknown) => {
          await commandNetwork?.close();
          throw error;
        });
      },
      program: (command) => {
        if (hostFilter)
          throw new ToolError("a detached command would outlive the proxy of tools.bash.network. Set background only.");
        return starter.program({ ...command, switches, check, input: true });
      },
      tidy: () => tidyCommand(guards, commandNetwork),
    };
  }

  /** Ends the standby process and open connections, and waits for running searches for bubblewrap. */
  async close(): Promise<void> {
    this.#starter?.close();
    await Promise.all([...this.#searches, this.#hostFilter?.close()]);
  }

  async #openHostFilter(hosts: readonly string[]): Promise<HostFilter> {
    const { HostFilter } = await import("./command-network.js");
    const { logger, connect } = this.#options;
    return (this.#hostFilter ??= new HostFilter({ hosts, logger, connect }));
  }

  #findBubblewrap(needs: BubblewrapNeeds): Promise<Bubblewrap | undefined> {
    const bubblewrap = findBubblewrap(needs);
    this.#searches.add(bubblewrap);
    return bubblewrap;
  }
}

/** Returns notes for the model about refused connections and removed files. */
async function tidyCommand(guards: readonly GitGuard[], network: CommandNetwork | undefined): Promise<string[]> {
  await network?.close();
  const removedPaths = (await Promise.all(guards.map((guard) => guard.tidy()))).flat();
  const removal = `[removed, because git would run or read it: ${removedPaths.join(", ")}]`;
  return [...(network?.listNotes() ?? []), ...(removedPaths.length > 0 ? [removal] : [])];
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
