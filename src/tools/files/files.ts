import { createHash } from "node:crypto";
import { basename, dirname, relative, resolve, sep } from "node:path";
import { PathError, ToolError } from "../../ports/errors.js";
import type { Diff, Location } from "../../ports/tool-display.js";
import type { ToolContext } from "../../ports/tool.js";
import { isInside, PathGuard, type OpenedFile } from "../../files/path-guard.js";
import { Protection } from "../../files/protection.js";
import { toPrintable } from "../../base/printable.js";
import { getSessionFolder } from "../../processes/output-folder.js";

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

/** Creates a guard for tools that read files. */
export function createGuard(options: FileToolOptions, { projectDir, folders = [] }: WorkFolders): Promise<PathGuard> {
  return PathGuard.create({ roots: [projectDir, ...folders, ...options.allowPaths], deniedPaths: options.deniedPaths });
}

/**
 * Like `createGuard`, for reading one path. Also allows the stored command output of this session, which lies in a
 * denied folder.
 */
export function createReadGuard(
  options: FileToolOptions,
  context: WorkFolders & Pick<ToolContext, "sessionId">,
  path: string,
): Promise<PathGuard> {
  const outputsFolder = options.outputsPath && getSessionFolder(options.outputsPath, context.sessionId);
  return outputsFolder && isInside(resolve(context.projectDir, path), outputsFolder)
    ? PathGuard.create({ roots: [outputsFolder], deniedPaths: [] })
    : createGuard(options, context);
}

/** Creates a guard for tools that change files, with the protected paths. */
export function createChangeGuard(
  options: FileToolOptions,
  { projectDir, folders = [] }: WorkFolders,
): Promise<PathGuard> {
  const { allowPaths, deniedPaths, protectedPaths = ["*"], readOnlyPaths = [] } = options;
  const protection = new Protection(protectedPaths, readOnlyPaths);
  return PathGuard.create({ roots: [projectDir, ...folders, ...allowPaths], deniedPaths, protection });
}

/**
 * Formats a path for models and users: relative to the project folder if it lies inside, and quoted if a character is
 * invisible. Does not access the disk.
 */
export function formatPath(path: string, projectDir: string): string {
  return toPrintable(relativeTo(path, projectDir));
}

/** Like `formatPath`, but unquoted, for comparisons. */
export function relativeTo(path: string, projectDir: string): string {
  const fullPath = resolve(projectDir, path);
  return isInside(fullPath, projectDir) ? relative(projectDir, fullPath).split(sep).join("/") || "." : fullPath;
}

/** Like `formatPath`, for use inside a sentence. */
export function folderName(path: string, projectDir: string): string {
  const name = formatPath(path, projectDir);
  return name === "." ? "the project folder" : name;
}

export function createLocation(path: string, projectDir: string, line?: number): Location {
  return { path: resolve(projectDir, path), ...(line === undefined ? {} : { line }) };
}

/**
 * Converts a `PathError` to a `ToolError` for the model, with the reason and the next step. Returns any other error
 * unchanged.
 */
export async function toPathToolError(
  error: unknown,
  path: string,
  projectDir: string,
  options: FileToolOptions,
): Promise<unknown> {
  if (!(error instanceof PathError)) return error;
  const name = formatPath(path, projectDir);
  const hint = await describeNextStep(error, path, projectDir, options);
  return new ToolError(`${name}: ${error.message}. ${hint}`, { cause: error });
}

async function describeNextStep(
  error: PathError,
  path: string,
  projectDir: string,
  options: FileToolOptions,
): Promise<string> {
  switch (error.reason) {
    case "not_found": {
      const similarNames = await findSimilarNames(resolve(projectDir, path), projectDir, options).catch(() => []);
      return similarNames.length > 0 ? `Did you mean ${similarNames.join(" or ")}?` : "Find it with glob or list.";
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
const MAX_SUGGESTED_NAMES = 3;
/** Minimum length of a missing name that may be part of a similar name. Shorter names occur in many others. */
const MIN_PART_CHARACTERS = 4;

/** Returns the names in the same folder that are similar to a missing name, at most `MAX_SUGGESTED_NAMES`. */
async function findSimilarNames(path: string, projectDir: string, options: FileToolOptions): Promise<string[]> {
  if (!isInside(path, projectDir)) return [];
  const normalizeName = (name: string): string => name.toLowerCase().replace(/\.[^.]*$/, "");
  const searchedName = normalizeName(basename(path));
  if (searchedName === "") return [];
  const guard = await createGuard(options, { projectDir });
  const folder = await guard.openFolder(dirname(path));
  const similarNames: string[] = [];
  let entryCount = 0;
  try {
    for await (const { name } of folder.entries()) {
      if (++entryCount > MAX_SIBLINGS) break;
      const isSimilar =
        normalizeName(name) === searchedName ||
        (searchedName.length >= MIN_PART_CHARACTERS && normalizeName(name).includes(searchedName));
      if (isSimilar && !guard.denies(resolve(folder.path, name))) similarNames.push(name);
    }
  } finally {
    await folder.close();
  }
  return similarNames
    .sort()
    .slice(0, MAX_SUGGESTED_NAMES)
    .map((name) => formatPath(resolve(dirname(path), name), projectDir));
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
    const guard = await createReadGuard(options, context, path);
    file = await guard.openFile(resolve(context.projectDir, path));
  } catch (error) {
    throw await toPathToolError(error, path, context.projectDir, options);
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
export function createDiff(path: string, oldContent: Buffer | null, newContent: Buffer): Diff[] {
  if (Math.max(oldContent?.length ?? 0, newContent.length) > MAX_DIFF_BYTES) return [];
  return [{ path, oldText: oldContent === null ? null : oldContent.toString(), newText: newContent.toString() }];
}

/**
 * Prefix of the state keys for seen files. Each file has its own key, so that the call that saw the file stores only
 * that key.
 */
const SEEN_KEY_PREFIX = "files.seen:";

/** Hash of the content that this session last saw of each file, by resolved path. */
export class SeenFiles {
  readonly #state: Map<string, unknown>;

  constructor(context: Pick<ToolContext, "state">) {
    this.#state = context.state;
  }

  recordSeen(path: string, content: Buffer): void {
    this.#state.set(SEEN_KEY_PREFIX + path, hashContent(content));
  }

  forget(path: string): void {
    this.#state.delete(SEEN_KEY_PREFIX + path);
  }

  /** Whether the file has content and the session never saw the file. */
  isUnread(path: string, content: Buffer): boolean {
    return content.length > 0 && !this.#state.has(SEEN_KEY_PREFIX + path);
  }

  /** Whether the session saw the file with other content. */
  hasChanged(path: string, content: Buffer): boolean {
    const seenHash = this.#state.get(SEEN_KEY_PREFIX + path);
    return seenHash !== undefined && seenHash !== hashContent(content);
  }
}

function hashContent(content: Buffer): string {
  return createHash("sha256").update(content).digest("base64");
}

const locksByPath = new Map<string, Promise<void>>();

/** Runs `work` while no other tool call of this process changes the file. Calls wait in order. */
export async function withFileLock<T>(path: string, work: () => Promise<T>): Promise<T> {
  const previousWork = locksByPath.get(path) ?? Promise.resolve();
  const result = previousWork.then(work);
  const completion = result.then(
    () => undefined,
    () => undefined,
  );
  locksByPath.set(path, completion);
  try {
    return await result;
  } finally {
    if (locksByPath.get(path) === completion) locksByPath.delete(path);
  }
}
