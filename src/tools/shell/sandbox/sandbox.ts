import { createHash } from "node:crypto";
import { existsSync, lstatSync, mkdirSync, realpathSync, unlinkSync, utimesSync, type Stats } from "node:fs";
import { lstat, readdir, realpath, rm } from "node:fs/promises";
import { basename, dirname, join, sep } from "node:path";
import { attempt } from "../../../base/attempt.js";
import { shellQuote } from "../../../base/shell-quote.js";
import { ToolError } from "../../../ports/errors.js";
import { isInside } from "../../../files/path-guard.js";
import { findBubblewrap, type Bubblewrap, type BubblewrapNeeds } from "./bubblewrap.js";
import type { Child } from "../../../processes/child.js";
import type { DetachedProgram } from "../../../processes/supervisor.js";
import { MountPlan } from "./mount-plan.js";
import { guardGit, findRepositoryFolder, type GitGuard } from "./sandbox-git.js";
import { SandboxRoots, type Root } from "./sandbox-roots.js";
import { findListeningSockets } from "./sandbox-sockets.js";
import { SandboxStarter } from "./sandbox-starter.js";

export interface SandboxOptions {
  /** Absolute paths of further folders that commands may write to. */
  allowPaths: readonly string[];
  /** Absolute paths that are hidden in the sandbox. */
  deniedPaths: readonly string[];
  /** Absolute paths that are read-only, even inside a writable folder. Default: none. */
  readOnlyPaths?: readonly string[];
  env: Readonly<Record<string, string>>;
  /**
   * - `auto`: use bubblewrap if it works, otherwise no sandbox
   * - `required`: reject commands if bubblewrap does not work
   * - `off`: no sandbox
   */
  sandbox: "auto" | "required" | "off";
  /** Whether commands can use the network. Default: false with `required`, otherwise true. */
  network?: boolean | undefined;
  /**
   * Absolute path of a folder for temporary folders, one per project. Undefined: each command gets empty temporary
   * folders.
   */
  scratchPath?: string | undefined;
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
 * Download folders of package managers, relative to the home folder. Excludes folders with programs that users call by
 * name.
 */
const DOWNLOAD_PATHS = [
  ".npm/_cacache",
  ".npm/_logs",
  ".cache/pip",
  ".cache/uv",
  ".cache/yarn",
  ".cache/deno",
  ".yarn/berry/cache",
  ".bun/install/cache",
  ".local/share/pnpm/store",
  ".cargo/registry",
  ".cargo/git",
  ".m2/repository",
  ".nuget/packages",
  "go/pkg/mod",
];

/**
 * Files in a home folder that run automatically. They are read-only if the home folder itself is writable, as when it
 * is the project.
 */
const AUTOSTART_PATHS = [
  ...[".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc"],
  ...[".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".gitconfig", ".npmrc", ".yarnrc", ".yarnrc.yml"],
  ...[".config", ".ssh", ".gnupg", ".docker", ".local/bin", ".local/share/applications", ".local/share/systemd"],
  ...["bin", ".cargo/bin", ".cargo/config.toml", ".cargo/env", ".bun/bin"],
  ...[".gradle", ".m2", ".nvm", ".pyenv", ".mozilla"],
];

/**
 * Root may change its files in /proc without any capability. One of these files names the program that the kernel runs
 * after a crash.
 *
 * One read-only mount covers all of /proc, because bubblewrap checks all mounts for each further one.
 */
const PROC_SWITCHES = ["--proc", "/proc", ...(process.getuid?.() === 0 ? ["--remount-ro", "/proc"] : [])];

/** Paths below /run that stay visible. The target of /etc/resolv.conf is added. */
const VISIBLE_RUN_PATHS = ["/run/current-system", "/run/booted-system", "/run/opengl-driver"];

/** Temporary folders of the sandbox, and their names in the scratch folder. */
const TEMPORARY_FOLDERS = [
  { path: "/tmp", name: "tmp" },
  { path: "/var/tmp", name: "var-tmp" },
];

/** Time limit of the command that tests whether the sandbox starts, in ms. */
const PROBE_TIMEOUT_MS = 10_000;

/** Temporary folders of a project are removed after this time without a command, in ms. */
const SCRATCH_RETENTION_MS = 3 * 24 * 60 * 60 * 1000;

/** The sandbox for the commands of one agent. */
export class Sandbox {
  readonly #options: SandboxOptions;
  readonly #roots: SandboxRoots;
  #scratchCleanup: Promise<void> | undefined;
  #starter: SandboxStarter | undefined;
  /** Pending and completed searches for a working bubblewrap. */
  readonly #searches = new Set<Promise<Bubblewrap | undefined>>();

  constructor(options: SandboxOptions) {
    this.#options = options;
    this.#roots = new SandboxRoots(options.allowPaths);
  }

  get network(): boolean {
    return this.#options.network ?? this.#options.sandbox !== "required";
  }

  /**
   * Describes the current sandbox for a user. Runs an empty command in `projectDir` as a test. `isWeak`: whether
   * commands run without a sandbox, or do not run at all.
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
    const additionalRoots = await this.#openRoots(folders);
    const needsForeignFiles =
      process.getuid?.() === 0 && [project, ...additionalRoots].some(({ ownerUid }) => ownerUid !== 0);
    const bubblewrap = await this.#findBubblewrap({ env, network, needsForeignFiles });
    if (!bubblewrap)
      throw new ToolError("the project folder belongs to another user, which the sandbox does not support here.");
    const { plan, roots, guards } = await this.#createPlan(project, additionalRoots, isLasting, needsForeignFiles);
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

  async #createPlan(
    project: Root,
    additionalRoots: readonly Root[],
    isLasting: boolean,
    hasCapabilities: boolean,
  ): Promise<{ plan: MountPlan; roots: Root[]; guards: GitGuard[] }> {
    const { allowPaths, deniedPaths, env, sandbox } = this.#options;
    const plan = new MountPlan();
    // Concurrent, because each look-up waits for the thread pool.
    const [home, readOnlyRealPaths, deniedRealPaths, allowedRoots, repository] = await Promise.all([
      env["HOME"] ? resolveRealPath(env["HOME"]) : undefined,
      Promise.all((this.#options.readOnlyPaths ?? []).map(resolveRealPath)),
      Promise.all(deniedPaths.map(resolveRealPath)),
      this.#openRoots(allowPaths),
      findRepositoryFolder(project.path),
    ]);
    for (const { path: folder } of sandbox === "required" ? [project, ...additionalRoots] : [])
      if ([home ?? "/", "/"].some((path) => path !== folder && isInside(path, folder)))
        throw new ToolError(`${folder} contains more than a project: the sandbox does not open it for commands.`);

    await this.#addTemporaryFolders(plan, project.path);
    plan.replace("/run");
    if (readStatsSync("/var/run")?.isDirectory()) plan.replace("/var/run");
    for (const path of [...VISIBLE_RUN_PATHS, "/etc/resolv.conf"]) {
      const realPath = resolveRealPathSync(path);
      if (realPath !== undefined && isInside(path, "/run")) plan.makeReadOnly(path, realPath);
      if (realPath !== undefined && isInside(realPath, "/run")) plan.makeReadOnly(realPath);
    }
    if (home !== undefined && plan.isHidden(home)) plan.makeReadOnly(home);

    const writableRoots = [project, ...additionalRoots, ...allowedRoots];
    // Without the network nothing can be downloaded. Most of these folders are missing, and `existsSync` detects that
    // at a hundredth of the cost.
    const downloadPaths = this.network && home !== undefined ? DOWNLOAD_PATHS.map((name) => join(home, name)) : [];
    const roots = [...writableRoots, ...(await this.#openRoots(downloadPaths.filter((path) => existsSync(path))))];
    for (const { path } of roots) plan.makeWritable(path);
    if (home !== undefined) await protectAutostart(plan, home);
    for (const realPath of readOnlyRealPaths)
      if (realPath !== undefined && plan.isWritable(realPath)) plan.makeReadOnly(realPath);
    const repositories = new Set([repository, ...writableRoots.map(({ path }) => path)]);
    const guards: GitGuard[] = [];
    for (const folder of repositories) if (folder !== undefined) guards.push(await guardGit(plan, folder, isLasting));

    const deniedStats = await Promise.all(
      deniedRealPaths.map(async (path) => (path === undefined ? undefined : lstat(path))),
    );
    for (const [i, path] of deniedPaths.entries()) {
      const realPath = deniedRealPaths[i];
      if (realPath !== undefined) plan.hide(realPath, deniedStats[i]?.isDirectory() === true);
      else if (/-(wal|shm|journal)$/.test(path)) await this.#hideMissing(plan, path);
    }
    if (plan.isHidden(project.path))
      throw new ToolError("the project folder is in a path that is hidden from commands.");
    for (const path of await findListeningSockets(hasCapabilities)) if (!plan.isHidden(path)) plan.hide(path, false);
    createMountPoints(plan);
    return { plan, roots, guards };
  }

  /** Hides a missing file beside a database, which would read the file: a command must not create it. */
  async #hideMissing(plan: MountPlan, path: string): Promise<void> {
    const folder = await resolveRealPath(dirname(path));
    if (folder !== undefined && plan.isWritable(folder)) plan.hide(join(folder, basename(path)), false);
  }

  async #openRoots(paths: readonly string[]): Promise<Root[]> {
    const roots = await Promise.all(paths.map((path) => this.#roots.open(path)));
    return roots.filter((root) => root !== undefined);
  }

  /** Gives the sandbox its own temporary folders. The machine's own folders contain sockets and files of other programs. */
  async #addTemporaryFolders(plan: MountPlan, project: string): Promise<void> {
    const { scratchPath } = this.#options;
    const temporaryFolders = TEMPORARY_FOLDERS.filter(({ path }) => existsSync(path));
    if (scratchPath === undefined) {
      for (const { path } of temporaryFolders) plan.replace(path);
      return;
    }
    await (this.#scratchCleanup ??= removeOldScratch(scratchPath));
    const projectScratch = join(scratchPath, createHash("sha256").update(project).digest("hex").slice(0, 16));
    for (const { path, name } of temporaryFolders) {
      mkdirSync(join(projectScratch, name), { recursive: true, mode: 0o700 });
      plan.replace(path, realpathSync.native(join(projectScratch, name)));
    }
    const now = new Date();
    utimesSync(projectScratch, now, now);
  }
}

/** Resolves a path. Undefined if the path does not exist. */
function resolveRealPath(path: string): Promise<string | undefined> {
  return realpath(path).catch(() => undefined);
}

/**
 * Synchronous variant for system folders and gantry's own folders. A round trip to the thread pool would take longer.
 */
function resolveRealPathSync(path: string): string | undefined {
  return attempt(() => realpathSync.native(path), undefined);
}

function readStatsSync(path: string): Stats | undefined {
  return attempt(() => lstatSync(path), undefined);
}

async function removeOldScratch(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    const path = join(folder, name);
    const lastUsedAtMs = (await lstat(path).catch(() => undefined))?.mtimeMs ?? Date.now();
    if (Date.now() - lastUsedAtMs > SCRATCH_RETENTION_MS)
      await rm(path, { recursive: true, force: true }).catch(() => undefined);
  }
}

async function protectAutostart(plan: MountPlan, home: string): Promise<void> {
  if (!plan.isWritable(home)) return;
  for (const name of AUTOSTART_PATHS) {
    const realPath = await resolveRealPath(join(home, name));
    if (realPath !== undefined && plan.isWritable(realPath)) plan.makeReadOnly(realPath);
  }
}

/**
 * Creates the mount points in the temporary folders. Bubblewrap would create them itself and follow links. A link that
 * an earlier command created there could lead bubblewrap outside.
 */
function createMountPoints(plan: MountPlan): void {
  for (const { source, relativePath } of plan.listMountPoints()) {
    const names = relativePath.split(sep);
    let mountPoint = source;
    for (const [i, name] of names.entries()) {
      mountPoint = join(mountPoint, name);
      const stats = readStatsSync(mountPoint);
      if (stats && !stats.isDirectory() && (i < names.length - 1 || stats.isSymbolicLink())) unlinkSync(mountPoint);
      if (i < names.length - 1 && !stats?.isDirectory()) mkdirSync(mountPoint, { mode: 0o700 });
    }
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
