import { createHash } from "node:crypto";
import { basename, dirname, relative, resolve, sep } from "node:path";
import { PathError, ToolError } from "../../ports/errors.js";
import type { Diff, Location, ToolContext } from "../../ports/tool.js";
import { isInside, PathGuard, type OpenedFile } from "../../files/path-guard.js";
import { Protection } from "../../files/protection.js";
import { printable } from "../../base/printable.js";
import { sessionFolder } from "../../processes/outputs.js";

/** Paths that the file tools may use beside the project folder, and paths that they may not. All paths are absolute. */
export interface FileToolOptions {
  allowPaths: readonly string[];
  deniedPaths: readonly string[];
  /** Patterns of paths that may be read but not changed, for `Protection`. Default: the built-in list. */
  protectedPaths?: readonly string[] | undefined;
  /** Files that may be read but not changed, regardless of `protectedPaths`. Default: none. */
  readOnlyPaths?: readonly string[] | undefined;
  /**
   * Folder for the output of commands, with one subfolder per session. Only that session may read it. Undefined: output
   * is not stored.
   */
  outputsPath?: string | undefined;
}

/** Maximum size, in bytes, of a file that is edited or read completely. */
export const MAX_FILE_BYTES = 10 * 1024 * 1024;

/** The folders that a tool call may use. */
export type WorkFolders = Pick<ToolContext, "projectDir" | "folders">;

export function guardFor(options: FileToolOptions, { projectDir, folders = [] }: WorkFolders): Promise<PathGuard> {
  return PathGuard.create({ roots: [projectDir, ...folders, ...options.allowPaths], denied: options.deniedPaths });
}

/**
 * Like `guardFor`, for reading one path. Also allows the stored command output of this session, which lies in a denied
 * folder.
 */
export function guardForReading(
  options: FileToolOptions,
  reach: WorkFolders & Pick<ToolContext, "sessionId">,
  path: string,
): Promise<PathGuard> {
  const outputsFolder = options.outputsPath && sessionFolder(options.outputsPath, reach.sessionId);
  return outputsFolder && isInside(resolve(reach.projectDir, path), outputsFolder)
    ? PathGuard.create({ roots: [outputsFolder], denied: [] })
    : guardFor(options, reach);
}

/** Creates a guard for tools that change files, with the protected paths. */
export function guardForChange(
  options: FileToolOptions,
  { projectDir, folders = [] }: WorkFolders,
): Promise<PathGuard> {
  const { allowPaths, deniedPaths, protectedPaths = ["*"], readOnlyPaths = [] } = options;
  const protection = new Protection(protectedPaths, readOnlyPaths);
  return PathGuard.create({ roots: [projectDir, ...folders, ...allowPaths], denied: deniedPaths, protection });
}

/**
 * Formats a path for models and users: relative to the project folder if it lies inside, and quoted if a character is
 * invisible. Does not access the disk.
 */
export function shown(path: string, projectDir: string): string {
  return printable(relativeTo(path, projectDir));
}

/** Like `shown`, but unquoted, for comparisons. */
export function relativeTo(path: string, projectDir: string): string {
  const full = resolve(projectDir, path);
  return isInside(full, projectDir) ? relative(projectDir, full).split(sep).join("/") || "." : full;
}

/** Like `shown`, for use inside a sentence. */
export function folderName(path: string, projectDir: string): string {
  const name = shown(path, projectDir);
  return name === "." ? "the project folder" : name;
}

export function location(path: string, projectDir: string, line?: number): Location {
  return { path: resolve(projectDir, path), ...(line === undefined ? {} : { line }) };
}

/**
 * Converts a `PathError` to a `ToolError` for the model, with the reason and the next step. Returns any other error
 * unchanged.
 */
export async function pathFault(
  error: unknown,
  path: string,
  projectDir: string,
  options: FileToolOptions,
): Promise<unknown> {
  if (!(error instanceof PathError)) return error;
  const name = shown(path, projectDir);
  const next = await nextStep(error, path, projectDir, options);
  return new ToolError(`${name}: ${error.message}. ${next}`, { cause: error });
}

async function nextStep(error: PathError, path: string, projectDir: string, options: FileToolOptions): Promise<string> {
  switch (error.reason) {
    case "not_found": {
      const near = await findSimilarNames(resolve(projectDir, path), projectDir, options).catch(() => []);
      return near.length > 0 ? `Did you mean ${near.join(" or ")}?` : "Find it with glob or list.";
    }
    case "outside":
      return `Use a path inside ${projectDir}; tools.allow_paths in the configuration adds other folders.`;
    case "folder":
      return "Use list to show its contents.";
    case "denied":
    case "not_regular":
      return "It cannot be used; continue without it.";
    case "protected":
      return "Do not change it; tell the user what you would change. tools.protected_paths in the configuration lifts the protection.";
    case "permission":
      return "Tell the user, or use another file.";
    default:
      return "Check the path.";
  }
}

/** Maximum names of a folder that are compared with a missing name. */
const MAX_SIBLINGS = 10_000;

/** Returns up to three siblings with a similar name. */
async function findSimilarNames(path: string, projectDir: string, options: FileToolOptions): Promise<string[]> {
  if (!isInside(path, projectDir)) return [];
  const plain = (name: string): string => name.toLowerCase().replace(/\.[^.]*$/, "");
  const searchedName = plain(basename(path));
  if (searchedName === "") return [];
  const guard = await guardFor(options, { projectDir });
  const folder = await guard.openFolder(dirname(path));
  const near: string[] = [];
  let looked = 0;
  try {
    for await (const { name } of folder.entries()) {
      if (++looked > MAX_SIBLINGS) break;
      const alike = plain(name) === searchedName || (searchedName.length > 3 && plain(name).includes(searchedName));
      if (alike && !guard.denies(resolve(folder.path, name))) near.push(name);
    }
  } finally {
    await folder.close();
  }
  return near
    .sort()
    .slice(0, 3)
    .map((name) => shown(resolve(dirname(path), name), projectDir));
}

/**
 * Opens a regular file, passes it to `use` and closes it afterwards. Rejects with a `ToolError` for the model, or with
 * the error of `use`.
 */
export async function withFile<T>(
  options: FileToolOptions,
  path: string,
  context: WorkFolders & Pick<ToolContext, "sessionId">,
  use: (file: OpenedFile) => Promise<T>,
): Promise<T> {
  let file: OpenedFile;
  try {
    const guard = await guardForReading(options, context, path);
    file = await guard.openFile(resolve(context.projectDir, path));
  } catch (error) {
    throw await pathFault(error, path, context.projectDir, options);
  }
  try {
    return await use(file);
  } finally {
    await file.handle.close();
  }
}

/** Maximum size, in bytes, of a file whose content is sent to clients. */
const MAX_DIFF_BYTES = 1024 * 1024;

/** Returns the diff of a change for clients. Empty if the file is too large. */
export function diffOf(path: string, before: Buffer | null, after: Buffer): Diff[] {
  if (Math.max(before?.length ?? 0, after.length) > MAX_DIFF_BYTES) return [];
  return [{ path, oldText: before === null ? null : before.toString(), newText: after.toString() }];
}

/** Prefix of the state keys for seen files. One key per file, so that it is stored with the call that saw the file. */
const SEEN_PREFIX = "files.seen:";

/** Hash of the content that this session last saw of each file, by resolved path. */
export class SeenFiles {
  readonly #state: Map<string, unknown>;

  constructor(context: Pick<ToolContext, "state">) {
    this.#state = context.state;
  }

  recordSeen(path: string, content: Buffer): void {
    this.#state.set(SEEN_PREFIX + path, hash(content));
  }

  forget(path: string): void {
    this.#state.delete(SEEN_PREFIX + path);
  }

  /** Whether the session saw the file with this content. */
  isCurrent(path: string, content: Buffer): boolean {
    return this.#state.get(SEEN_PREFIX + path) === hash(content);
  }

  /** Whether the session saw the file with other content. */
  hasChanged(path: string, content: Buffer): boolean {
    const seenHash = this.#state.get(SEEN_PREFIX + path);
    return seenHash !== undefined && seenHash !== hash(content);
  }
}

function hash(content: Buffer): string {
  return createHash("sha256").update(content).digest("base64");
}

const locksByPath = new Map<string, Promise<void>>();

/** Runs `work` while no other tool call of this process changes the file. Calls wait in order. */
export async function withFileLock<T>(path: string, work: () => Promise<T>): Promise<T> {
  const before = locksByPath.get(path) ?? Promise.resolve();
  const result = before.then(work);
  const settled = result.then(
    () => undefined,
    () => undefined,
  );
  locksByPath.set(path, settled);
  try {
    return await result;
  } finally {
    if (locksByPath.get(path) === settled) locksByPath.delete(path);
  }
}
