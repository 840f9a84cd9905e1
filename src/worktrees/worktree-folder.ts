import { mkdir, readdir, readFile, realpath, rm, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { createDeadline, delay } from "../base/abort.js";
import { createFolder } from "../base/create-folder.js";
import { silentLogger } from "../base/log.js";
import { AccessRules } from "../files/access-rules.js";
import { isInside } from "../files/names.js";
import { InputError, ProjectFolderError } from "../ports/errors.js";
import type { Logger } from "../ports/logger.js";
import type {
  FolderUse,
  NewWorktree,
  Worktree,
  WorktreeApplyOptions,
  WorktreeFile,
  Worktrees,
} from "../ports/worktrees.js";
import { openGit, type Git } from "../processes/git.js";
import { ProcessLock } from "../sessions/process-lock.js";
import { applyChanges } from "./apply-changes.js";
import { WorktreeStorage, type WorktreeRecord } from "./worktree-record.js";

/** Options of `gitWorktrees`. All paths are absolute. */
export interface GitWorktreesOptions {
  /** Source of `PATH` and `HOME` for Git. */
  environment: Readonly<Record<string, string | undefined>>;
  /** Paths that no session may reach. The folder of the worktrees must not lie in them. Default: none. */
  deniedPaths?: readonly string[] | undefined;
  /** Files of project folders to which no change is applied. Default: none. */
  readOnlyPaths?: readonly string[] | undefined;
  logger?: Logger | undefined;
}

/** Maximum time of all Git commands of a creation, an application or a removal, in ms. */
const GIT_TIMEOUT_MS = 120_000;
/** Lock of all applications, beside the worktrees. */
const APPLY_LOCK = "apply.lock";
const LOCK_POLL_INTERVAL_MS = 50;
/** Minimum age of a folder without a record before it is removed, in ms. Its creator needs milliseconds to write it. */
const MIN_UNUSED_AGE_MS = 3_600_000;
/** Git writes the link between worktree and repository as absolute paths, which the sandbox checks. */
const ABSOLUTE_LINKS = ["-c", "worktree.useRelativePaths=false"];

/** The worktrees below one folder. */
export class WorktreeFolder implements Worktrees {
  readonly #folder: string;
  readonly #options: GitWorktreesOptions;
  readonly #logger: Logger;

  constructor(folder: string, options: GitWorktreesOptions) {
    this.#folder = folder;
    this.#options = options;
    this.#logger = options.logger ?? silentLogger;
  }

  async create(projectDir: string, isUsed: FolderUse, signal?: AbortSignal): Promise<NewWorktree> {
    createFolder(this.#folder);
    // The sandbox and Git compare real paths.
    const parent = await realpath(this.#folder);
    if (new AccessRules("anywhere", this.#options.deniedPaths ?? []).denies(parent))
      throw new InputError("worktree", "a folder of worktrees (session.worktrees) outside gantry's home folder");
    await this.#removeAbandoned(parent, isUsed);
    return this.#withDeadline(signal, async (gitSignal) => {
      const repository = await this.#inspect(projectDir, gitSignal);
      const storage = await WorktreeStorage.create(parent);
      const discard = () => this.#remove(storage);
      try {
        const record = await this.#checkOut(storage, repository, gitSignal);
        const confirm = () => storage.setPending(false).catch(() => undefined);
        return { folder: record.folder, projectDir, base: record.base, confirm, discard };
      } catch (error) {
        await discard();
        throw error;
      }
    });
  }

  async find(folder: string): Promise<Worktree | undefined> {
    const record = await (await this.#findStorage(folder))?.read();
    return record && { folder: record.folder, projectDir: record.source.projectDir, base: record.base };
  }

  async apply(folder: string, { dryRun, signal }: WorktreeApplyOptions): Promise<WorktreeFile[]> {
    const storage = await this.#findStorage(folder);
    const record = await storage?.read();
    if (!storage || !record) throw new InputError("worktree", "a session that works in a worktree");
    const isFolder = async (path: string) => (await stat(path).catch(() => undefined))?.isDirectory() === true;
    if (!(await isFolder(record.source.projectDir)) || !(await isFolder(record.root))) throw new ProjectFolderError();
    return this.#withDeadline(signal, async (gitSignal) => {
      // Git checks all files and then writes them: the changes of two worktrees could overwrite each other.
      const lock = await ProcessLock.acquire(join(dirname(storage.path), APPLY_LOCK), () =>
        delay(LOCK_POLL_INTERVAL_MS, gitSignal),
      );
      try {
        // Read again, because another call may have applied changes meanwhile.
        const current = (await storage.read()) ?? record;
        return await applyChanges({ storage, record: current, rules: this.#options, dryRun, signal: gitSignal });
      } finally {
        lock.release();
      }
    });
  }

  async prepareRemoval(folder: string, isUsed: FolderUse): Promise<(() => Promise<void>) | undefined> {
    const storage = await this.#findStorage(folder);
    const record = await storage?.read();
    if (!storage || !record) return undefined;
    // If the process ends after the session is deleted, the next creation removes the worktree.
    await storage.setPending(true).catch(() => undefined);
    return () => this.#settle(storage, record, isUsed);
  }

  async #findStorage(path: string): Promise<WorktreeStorage | undefined> {
    return WorktreeStorage.find(await realpath(this.#folder).catch(() => this.#folder), path);
  }

  /** Finds the repository of a project folder. Rejects with `InputError`. */
  async #inspect(projectDir: string, signal: AbortSignal) {
    const realDir = await realpath(projectDir).catch(() => undefined);
    if (realDir === undefined) throw new ProjectFolderError();
    const { environment } = this.#options;
    const git = await openGit({ folder: realDir, environment }, signal).catch(throwStartError);
    const pathQuery = ["rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-path", "objects"];
    const paths = await git?.run(pathQuery, { signal });
    const [root, gitFolder, objects, extraLine] = paths?.isSuccess === true ? paths.stdout.trimEnd().split("\n") : [];
    // A repository's own settings could name another folder.
    const isRepository = root !== undefined && gitFolder !== undefined && objects !== undefined;
    if (!git || !isRepository || extraLine !== undefined || !isInside(realDir, root))
      throw new InputError("worktree", "a project folder in a Git repository of this user");
    const commit = await git.run(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"], { signal });
    const base = commit.stdout.trim();
    if (!commit.isSuccess || base === "") throw new InputError("worktree", "a Git repository with a commit");
    return { git, base, source: { root, projectDir: realDir, gitFolder }, objects: resolve(realDir, objects) };
  }

  /** Copies the commit into a reserved folder. Rejects with `InputError`. */
  async #checkOut(
    storage: WorktreeStorage,
    { source, base, objects, git }: Pick<WorktreeRecord, "source" | "base"> & { objects: string; git: Git },
    signal: AbortSignal,
  ): Promise<WorktreeRecord> {
    const name = basename(source.root);
    const root = join(storage.path, name === "" || name.startsWith(".") ? "worktree" : name);
    const folder = join(root, relative(source.root, source.projectDir));
    const record: WorktreeRecord = { root, folder, gitFolder: "", source, base, appliedTree: "" };
    // Stored first, so that a later process can remove an incomplete worktree.
    await storage.write(record);
    const checkout = ["worktree", "add", "--quiet", "--detach", root, base];
    const { isSuccess, stderr } = await git.run([...ABSOLUTE_LINKS, ...checkout], { signal });
    if (!isSuccess) throw new InputError("worktree", `a repository that Git can copy (${formatFault(stderr)})`);
    if (!(await stat(folder).catch(() => undefined))?.isDirectory())
      throw new InputError("worktree", "a project folder that the current commit contains");
    const link = await readFile(join(root, ".git"), "utf8");
    const completeRecord = { ...record, gitFolder: link.replace(/^gitdir: /, "").trimEnd() };
    await createObjectStore(storage, objects);
    await storage.write(completeRecord);
    return completeRecord;
  }

  /** Removes the worktrees whose process ended before it stored or deleted the session. Never rejects. */
  async #removeAbandoned(parent: string, isUsed: FolderUse): Promise<void> {
    for (const storage of await WorktreeStorage.list(parent)) {
      try {
        const record = await storage.read();
        if (await storage.isAbandoned()) await this.#settle(storage, record, isUsed);
        else if (!record && Date.now() - (await stat(storage.path)).mtimeMs > MIN_UNUSED_AGE_MS)
          await rm(storage.path, { recursive: true, force: true });
      } catch (error) {
        this.#logger.debug("abandoned worktree was not removed; retrying with the next worktree", { error });
      }
    }
  }

  /** Removes a pending worktree, or keeps it if a session uses it. Never rejects. */
  async #settle(storage: WorktreeStorage, record: WorktreeRecord | undefined, isUsed: FolderUse): Promise<void> {
    try {
      if (record && (await isUsed(record.folder))) await storage.setPending(false);
      else await this.#remove(storage);
    } catch (error) {
      this.#logger.warn("worktree could not be removed; retrying after a restart", { folder: storage.path, error });
    }
  }

  /** Removes the files first and the record last, so that an interrupted removal can continue. Never rejects. */
  async #remove(storage: WorktreeStorage): Promise<void> {
    try {
      const record = await storage.read();
      const options = { recursive: true, force: true, maxRetries: 5, retryDelay: 50 };
      const ownFolder = basename(storage.getOwnPath());
      for (const name of await readdir(storage.path))
        if (name !== ownFolder) await rm(join(storage.path, name), options);
      if (record) await this.#unregister(record);
      await rm(storage.path, options);
    } catch (error) {
      this.#logger.warn("worktree could not be removed; retrying after a restart", { folder: storage.path, error });
    }
  }

  /** Removes the worktree, whose files no longer exist, from the repository. */
  async #unregister({ root, source }: WorktreeRecord): Promise<void> {
    await this.#withDeadline(undefined, async (signal) => {
      const location = { folder: source.root, environment: this.#options.environment };
      // The repository may have been deleted meanwhile.
      const git = await openGit(location, signal).catch(() => undefined);
      // `prune` is not used: it would also forget the user's own worktrees on disks that are not mounted.
      const result = await git?.run(["worktree", "remove", "--force", "--force", root], { signal });
      if (result?.isSuccess === false)
        this.#logger.debug("worktree was not registered in its repository", { folder: root });
    });
  }

  /** Runs work with a signal that aborts after `GIT_TIMEOUT_MS`. Rejects with `InputError` after that time. */
  async #withDeadline<T>(signal: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const deadline = createDeadline(GIT_TIMEOUT_MS, ...(signal ? [signal] : []));
    try {
      return await work(deadline.signal);
    } catch (error) {
      if (!deadline.hasExpired) throw error;
      throw new InputError("worktree", `a repository for which Git takes less than ${GIT_TIMEOUT_MS / 1000} s`);
    } finally {
      deadline.clear();
    }
  }
}

/** Creates a store for the objects of later comparisons, which also contains all objects of the repository. */
async function createObjectStore(storage: WorktreeStorage, repositoryObjects: string): Promise<void> {
  await mkdir(storage.getOwnPath("objects/info"), { recursive: true, mode: 0o700 });
  await writeFile(storage.getOwnPath("objects/info/alternates"), `${repositoryObjects}\n`, { mode: 0o600 });
}

function throwStartError(error: unknown): never {
  if ((error as NodeJS.ErrnoException).code === "ENOENT") throw new InputError("worktree", "an installed Git");
  throw error;
}

/** Returns the first line of Git's error that states the reason. */
function formatFault(stderr: string): string {
  const lines = stderr.split("\n").filter((line) => line !== "");
  return lines.find((line) => /^(?:fatal|error): /.test(line)) ?? lines[0] ?? "no reason given";
}
