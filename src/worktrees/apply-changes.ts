import { constants } from "node:fs";
import { access, lstat, readFile, readlink, rm } from "node:fs/promises";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { PathGuard } from "../files/path-guard.js";
import { Protection } from "../files/protection.js";
import { GantryError, InputError, PathError, WorktreeConflictError } from "../ports/errors.js";
import type { WorktreeFile } from "../ports/worktrees.js";
import { openGit, type Git, type GitLocation } from "../processes/git.js";
import type { WorktreeRecord, WorktreeStorage } from "./worktree-record.js";

/** Paths of project folders that changes must not reach, and the environment of Git. */
export interface ApplyRules {
  readonly environment: GitLocation["environment"];
  readonly deniedPaths?: readonly string[] | undefined;
  readonly readOnlyPaths?: readonly string[] | undefined;
}

export interface ApplyRequest {
  readonly storage: WorktreeStorage;
  readonly record: WorktreeRecord;
  readonly rules: ApplyRules;
  readonly dryRun: boolean;
  readonly signal: AbortSignal;
}

/** The changes of a worktree since they were last applied. */
interface Changes {
  /** Id of the tree with the worktree's current files. */
  readonly tree: string;
  /** Changed files, in the order of the patch. A file that became a link, or the reverse, has two entries. */
  readonly entries: readonly Omit<WorktreeFile, "reason">[];
  /** Absolute path of the patch file. */
  readonly patch: string;
}

/** Maximum characters of Git's lists of files. */
const MAX_LIST_CHARACTERS = 64_000_000;
/** Maximum bytes of the file names in the arguments of Git. Linux limits all arguments of a program together. */
const MAX_EXCLUDED_BYTES = 100_000;
/** Settings of the user that would change the comparison, or would accept a patch that does not fit exactly. */
const EXACT_SETTINGS = ["core.safecrlf=false", "apply.ignoreWhitespace=no", "apply.whitespace=nowarn"].flatMap(
  (setting) => ["-c", setting],
);
const PLAIN_DIFF = ["--no-renames", "--ignore-submodules=all", "--no-ext-diff", "--no-textconv", "--no-color"];
/** Settings whose values are files from which Git runs or reads commands. */
const COMMAND_SETTINGS = /^(?:core\.hookspath|core\.fsmonitor|include\.path|includeif\..*\.path)$/s;

/**
 * Applies the changes of a worktree to its project folder: all of them, or none. Returns the changed files. Rejects
 * with `WorktreeConflictError`, `InputError` or the signal's reason.
 */
export async function applyChanges(request: ApplyRequest): Promise<WorktreeFile[]> {
  const { storage, record, rules, dryRun, signal } = request;
  const { source } = record;
  const git = await openRepository(source.root, source.gitFolder, {}, request);
  const changes = await collectChanges(request);
  if (changes.entries.length === 0) return [];
  const guard = await createApplyGuard(source, git, rules);
  const reasons = await findRefusals(changes.entries, guard);
  const run = (args: readonly string[], runSignal: AbortSignal) => {
    const options = { signal: runSignal, maxCharacters: MAX_LIST_CHARACTERS };
    return git.run([...EXACT_SETTINGS, "apply", ...args, changes.patch], options);
  };
  let excludeOptions: readonly string[] = [];
  let missingEntries = changes.entries;
  let check = await run(["--check", "--verbose"], signal);
  if (!check.isSuccess) {
    missingEntries = await listMissingEntries(changes.entries, record);
    excludeOptions = listExcludeOptions(changes.entries, missingEntries, source.root);
    check = await run(["--check", "--verbose", ...excludeOptions], signal);
  }
  if (!check.isSuccess) addConflicts(reasons, missingEntries, check.stderr);
  const files = toFiles(changes.entries, reasons);
  if (reasons.size > 0) throw new WorktreeConflictError(files);
  if (dryRun) return files;
  signal.throwIfAborted();
  // Not cancelled when the caller leaves: a killed Git would have applied a part of the changes.
  const result = await run(excludeOptions, new AbortController().signal);
  if (!result.isSuccess) throw new Error(`git apply failed after a successful check: ${result.stderr}`);
  await storage.write({ ...record, appliedTree: changes.tree });
  await rm(changes.patch, { force: true });
  return files;
}

/** Stores the worktree's current files as a tree, outside the repository, and compares it with the last one. */
async function collectChanges(request: ApplyRequest): Promise<Changes> {
  const { storage, record, signal } = request;
  const { root, gitFolder, source, base, appliedTree } = record;
  const index = storage.getOwnPath("index");
  const patch = storage.getOwnPath("changes.patch");
  // An interrupted call may have left these files.
  for (const path of [index, `${index}.lock`, patch]) await rm(path, { force: true });
  const git = await openRepository(
    root,
    gitFolder,
    { GIT_INDEX_FILE: index, GIT_OBJECT_DIRECTORY: storage.getOwnPath("objects") },
    request,
  );
  const run = async (...args: readonly string[]): Promise<string> => {
    const options = { signal, maxCharacters: MAX_LIST_CHARACTERS };
    const result = await git.run([...EXACT_SETTINGS, ...args], options);
    if (result.isSuccess && !result.isCut) return result.stdout;
    throw new InputError("worktree", `files that Git can read (${result.stderr.trim().split("\n").at(-1) ?? ""})`);
  };
  const project = relative(source.root, source.projectDir).split(sep).join("/") || ".";
  const previousTree = appliedTree || base;
  await run("read-tree", previousTree);
  await run("add", "--all", "--", project);
  const tree = (await run("write-tree")).trim();
  const compare = (...options: readonly string[]) =>
    run("diff-tree", "-r", ...PLAIN_DIFF, ...options, previousTree, tree, "--", project);
  const entries = parseNames(await compare("--name-status", "-z"), source.root);
  if (entries.length > 0)
    await compare("-p", "--binary", "--full-index", "-U3", "--src-prefix=a/", "--dst-prefix=b/", `--output=${patch}`);
  return { tree, entries, patch };
}

/** Opens a repository by its recorded Git folder: a session could have replaced the file `.git` of its worktree. */
async function openRepository(
  folder: string,
  gitFolder: string,
  variables: Readonly<Record<string, string>>,
  { rules, signal }: ApplyRequest,
): Promise<Git> {
  const location = {
    ...{ folder, environment: rules.environment },
    variables: { GIT_DIR: gitFolder, GIT_WORK_TREE: folder, GIT_LITERAL_PATHSPECS: "1", ...variables },
  };
  const git = await openGit(location, signal);
  if (!git) throw new InputError("worktree", "a project folder that is still a Git repository");
  return git;
}

/** Parses the output of `git diff-tree --name-status -z`. */
function parseNames(output: string, root: string): Omit<WorktreeFile, "reason">[] {
  const fields = output.split("\0");
  const entries: Omit<WorktreeFile, "reason">[] = [];
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const [status, name = ""] = [fields[i], fields[i + 1]];
    const change = status === "A" ? "added" : status === "D" ? "deleted" : "changed";
    const entry = { path: join(root, name), change } as const;
    // The patch deletes a file that changes its type, and adds the other one.
    entries.push(...(status === "T" ? [entry, entry] : [entry]));
  }
  return entries;
}

/** Creates the guard of the project folder. Files from which Git or gantry would run commands stay unchanged. */
function createApplyGuard(
  { root, projectDir, gitFolder }: WorktreeRecord["source"],
  git: Git,
  { deniedPaths = [], readOnlyPaths = [] }: ApplyRules,
): Promise<PathGuard> {
  const commandPaths = git.settings.flatMap(([name, value]) =>
    COMMAND_SETTINGS.test(name) && value !== "" && !value.startsWith("~")
      ? [resolve(name.startsWith("core.") ? root : gitFolder, value)]
      : [],
  );
  const protection = new Protection([], [...readOnlyPaths, ...commandPaths]);
  return PathGuard.create({ roots: [projectDir], deniedPaths, protection });
}

/** Returns the reasons, by path, why files must not or cannot be written. */
async function findRefusals(entries: Changes["entries"], guard: PathGuard): Promise<Map<string, string>> {
  const reasons = new Map<string, string>();
  for (const { path } of entries) {
    try {
      // Git replaces a link itself, so only the links in the folder's path are followed.
      const realPath = join((await guard.resolve(dirname(path))).path, basename(path));
      if (guard.denies(realPath)) throw new PathError("denied", "access is denied");
      guard.refuseProtected([path, realPath]);
      await requireWritableFolder(dirname(path));
    } catch (error) {
      reasons.set(path, error instanceof GantryError ? error.message : "its folder is not writable");
    }
  }
  return reasons;
}

/** Git replaces each changed file: the nearest existing folder must be writable. Rejects with the system's error. */
async function requireWritableFolder(folder: string): Promise<void> {
  try {
    await access(folder, constants.W_OK);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT" || dirname(folder) === folder) throw error;
    await requireWritableFolder(dirname(folder));
  }
}

/**
 * Lists the changes that the project folder does not contain yet. It contains some if a process was killed, or the disk
 * was full, during an earlier apply.
 */
async function listMissingEntries(entries: Changes["entries"], record: WorktreeRecord): Promise<Changes["entries"]> {
  const missingEntries: Changes["entries"][number][] = [];
  for (const entry of entries) {
    const name = relative(record.source.root, entry.path);
    if (!(await isSameFile(entry.path, join(record.root, name)))) missingEntries.push(entry);
  }
  return missingEntries;
}

/** Whether two files have the same type, content and executable bit, or both do not exist. */
async function isSameFile(path: string, otherPath: string): Promise<boolean> {
  const [state, otherState] = await Promise.all([path, otherPath].map((file) => lstat(file).catch(() => undefined)));
  if (!state || !otherState) return state === otherState;
  if (state.isSymbolicLink() && otherState.isSymbolicLink())
    return (await readlink(path)) === (await readlink(otherPath));
  if (!state.isFile() || !otherState.isFile() || state.size !== otherState.size) return false;
  if ((state.mode & constants.S_IXUSR) !== (otherState.mode & constants.S_IXUSR)) return false;
  const [content, otherContent] = await Promise.all([readFile(path), readFile(otherPath)]);
  return content.equals(otherContent);
}

/** Returns the options of `git apply` that leave out all files but those of `missingEntries`. */
function listExcludeOptions(
  entries: Changes["entries"],
  missingEntries: Changes["entries"],
  root: string,
): readonly string[] {
  const missingPaths = new Set(missingEntries.map(({ path }) => path));
  const names = entries.flatMap(({ path }) => (missingPaths.has(path) ? [] : [relative(root, path)]));
  // Git reads the names as patterns.
  const options = names.map(
    (name) =>
      `--exclude=${name
        .split(sep)
        .join("/")
        .replace(/[*?[\]\\]/g, "\\$&")}`,
  );
  if (Buffer.byteLength(options.join(" ")) > MAX_EXCLUDED_BYTES)
    throw new InputError("worktree", "a project folder in which fewer of the changes exist already");
  return options;
}

/** Adds the reasons from the messages of `git apply --check --verbose`, which checks the files in order. */
function addConflicts(reasons: Map<string, string>, entries: Changes["entries"], messages: string): void {
  let index = -1;
  let count = 0;
  for (const line of messages.split("\n")) {
    if (line.startsWith("Checking patch ")) index += 1;
    const entry = entries[index];
    if (!line.startsWith("error: ") || !entry) continue;
    count += 1;
    if (!reasons.has(entry.path)) reasons.set(entry.path, toReason(line));
  }
  if (count === 0) for (const { path } of entries) reasons.set(path, messages.trim().split("\n").at(-1) ?? "");
}

function toReason(line: string): string {
  if (line.includes("already exists")) return "exists already in the project folder";
  if (/No such file|does not exist/.test(line)) return "does not exist in the project folder";
  return "was changed in the project folder too";
}

function toFiles(entries: Changes["entries"], reasons: ReadonlyMap<string, string>): WorktreeFile[] {
  const filesByPath = new Map(entries.map((entry) => [entry.path, entry]));
  return [...filesByPath.values()].map((entry) => ({ ...entry, reason: reasons.get(entry.path) ?? "" }));
}
