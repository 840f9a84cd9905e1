import { createHash } from "node:crypto";
import { basename, dirname, relative, resolve, sep } from "node:path";
import { PathError, ToolError } from "../../ports/errors.js";
import type { Diff, Location, ToolContext } from "../../ports/tool.js";
import { isInside, PathGuard, type OpenedFile } from "../../files/path-guard.js";
import { Protection } from "../../files/protection.js";
import { printable } from "../../base/printable.js";
import { folderOf } from "../../processes/outputs.js";

/** Where the file tools may go beside the project folder, and where never. Absolute paths. */
export interface FileToolOptions {
  allowPaths: readonly string[];
  deniedPaths: readonly string[];
  /** What may be read and not changed, as `Protection` takes it; default the built-in list. */
  protectedPaths?: readonly string[] | undefined;
  /** Files that may be read and not changed, whatever that list says. */
  readOnlyPaths?: readonly string[] | undefined;
  /** Folder for what commands printed, one folder in it for each session, which alone may read it. */
  outputsPath?: string | undefined;
}

/** Files beyond this are neither edited nor read whole, in bytes. */
export const MAX_FILE_BYTES = 10 * 1024 * 1024;

/** Where a call may go. */
export type Reach = Pick<ToolContext, "projectDir" | "folders">;

export function guardFor(options: FileToolOptions, { projectDir, folders = [] }: Reach): Promise<PathGuard> {
  return PathGuard.create({ roots: [projectDir, ...folders, ...options.allowPaths], denied: options.deniedPaths });
}

/** As `guardFor`, for one path that is read: what the session's own commands printed may be, though it lies where nobody else may look. */
export function guardForReading(
  options: FileToolOptions,
  reach: Reach & Pick<ToolContext, "sessionId">,
  path: string,
): Promise<PathGuard> {
  const own = options.outputsPath && folderOf(options.outputsPath, reach.sessionId);
  return own && isInside(resolve(reach.projectDir, path), own)
    ? PathGuard.create({ roots: [own], denied: [] })
    : guardFor(options, reach);
}

/** For tools that change files. */
export function guardForChange(options: FileToolOptions, { projectDir, folders = [] }: Reach): Promise<PathGuard> {
  const { allowPaths, deniedPaths, protectedPaths = ["*"], readOnlyPaths = [] } = options;
  const protection = new Protection(protectedPaths, readOnlyPaths);
  return PathGuard.create({ roots: [projectDir, ...folders, ...allowPaths], denied: deniedPaths, protection });
}

/**
 * A path as models and people see it: relative to the project where it lies in it, and in quotes where a character of it
 * would not be seen. Touches no disk.
 */
export function shown(path: string, projectDir: string): string {
  return printable(relativeTo(path, projectDir));
}

/** As `shown`, as it is: for comparisons. */
export function relativeTo(path: string, projectDir: string): string {
  const full = resolve(projectDir, path);
  return isInside(full, projectDir) ? relative(projectDir, full).split(sep).join("/") || "." : full;
}

/** As `shown`, in the middle of a sentence. */
export function folderName(path: string, projectDir: string): string {
  const name = shown(path, projectDir);
  return name === "." ? "the project folder" : name;
}

export function location(path: string, projectDir: string, line?: number): Location {
  return { path: resolve(projectDir, path), ...(line === undefined ? {} : { line }) };
}

/** What the model is told of a path that cannot be used: why, and what to do next. */
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
      const near = await similar(resolve(projectDir, path), projectDir, options).catch(() => []);
      return near.length > 0 ? `Did you mean ${near.join(" or ")}?` : "Find it with glob or list.";
    }
    case "outside":
      return `Use a path inside ${projectDir}; tools.allow_paths in the configuration adds other folders.`;
    case "folder":
      return "Use list to see what is in it.";
    case "denied":
    case "not_regular":
      return "It cannot be used; go on without it.";
    case "protected":
      return "Leave it as it is and tell the user what you would change; tools.protected_paths in the configuration lifts this.";
    case "permission":
      return "Tell the user, or use another file.";
    default:
      return "Check the path.";
  }
}

/** Names of a folder that are looked at for one like another. */
const MAX_SIBLINGS = 10_000;

/** Siblings with almost the same name. */
async function similar(path: string, projectDir: string, options: FileToolOptions): Promise<string[]> {
  if (!isInside(path, projectDir)) return [];
  const plain = (name: string): string => name.toLowerCase().replace(/\.[^.]*$/, "");
  const wanted = plain(basename(path));
  if (wanted === "") return [];
  const guard = await guardFor(options, { projectDir });
  const folder = await guard.openFolder(dirname(path));
  const near: string[] = [];
  let looked = 0;
  try {
    for await (const { name } of folder.entries()) {
      if (++looked > MAX_SIBLINGS) break;
      const alike = plain(name) === wanted || (wanted.length > 3 && plain(name).includes(wanted));
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

/** Open a regular file and hand it to `use`; closed afterwards. Rejects with a `ToolError` for the model. */
export async function withFile<T>(
  options: FileToolOptions,
  path: string,
  context: Reach & Pick<ToolContext, "sessionId">,
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

/** Clients are not sent the whole of larger files, in bytes. */
const MAX_DIFF_BYTES = 1024 * 1024;

/** A change as clients show it; none where the file is too large for that. */
export function diffOf(path: string, before: Buffer | null, after: Buffer): Diff[] {
  if (Math.max(before?.length ?? 0, after.length) > MAX_DIFF_BYTES) return [];
  return [{ path, oldText: before === null ? null : before.toString(), newText: after.toString() }];
}

/** Begins the keys of a session's state that hold what was seen; one a file, so that each is stored with the call that saw it. */
const SEEN = "files.seen:";

/** What this session last saw of each file, by resolved path: a hash of the whole content. */
export class SeenFiles {
  readonly #state: Map<string, unknown>;

  constructor(context: Pick<ToolContext, "state">) {
    this.#state = context.state;
  }

  saw(path: string, content: Buffer): void {
    this.#state.set(SEEN + path, hash(content));
  }

  forget(path: string): void {
    this.#state.delete(SEEN + path);
  }

  /** Whether it was seen as it is now. */
  knows(path: string, content: Buffer): boolean {
    return this.#state.get(SEEN + path) === hash(content);
  }

  /** Whether it was seen, and is another now. */
  changed(path: string, content: Buffer): boolean {
    const known = this.#state.get(SEEN + path);
    return known !== undefined && known !== hash(content);
  }
}

function hash(content: Buffer): string {
  return createHash("sha256").update(content).digest("base64");
}

const busy = new Map<string, Promise<void>>();

/** Do `work` while no other tool call of this process changes the file; calls wait in order. */
export async function exclusively<T>(path: string, work: () => Promise<T>): Promise<T> {
  const before = busy.get(path) ?? Promise.resolve();
  const mine = before.then(work);
  const settled = mine.then(
    () => undefined,
    () => undefined,
  );
  busy.set(path, settled);
  try {
    return await mine;
  } finally {
    if (busy.get(path) === settled) busy.delete(path);
  }
}
