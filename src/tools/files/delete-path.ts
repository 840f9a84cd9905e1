import type { Stats } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { PathError, ToolError } from "../../ports/errors.js";
import { asPathError, type OpenedFolder, type PathGuard } from "../../files/path-guard.js";
import type { ToolCallPreview, ToolContext, ToolOutput } from "../../ports/tool.js";
import { formatSize, detectFileType, DETECTION_BYTES } from "./content.js";
import {
  withFileLock,
  createChangeGuard,
  toPathToolError,
  SeenFiles,
  formatPath,
  type FileToolOptions,
  type WorkFolders,
} from "./files.js";
import { recordBefore, recordTree } from "./record-file.js";
import { readWhole } from "./read-file.js";

/** Maximum size of a deleted text file whose content is sent to clients. */
const MAX_DIFF_BYTES = 256 * 1024;

interface Deletion {
  readonly path: string;
  readonly recursive: boolean;
}

/**
 * Identity of the file or folder in a permission request, by the arguments of the call. Undefined if the path did not
 * exist.
 */
const previewedIdentities = new WeakMap<Deletion, Identity | undefined>();

type Identity = Readonly<Record<"dev" | "ino", number>>;

/**
 * Records the identity of the file or folder that the permission request is for. Rejects where the tool call would be
 * rejected.
 */
export async function previewDeletion(
  options: FileToolOptions,
  deletion: Deletion,
  workFolders: WorkFolders,
): Promise<ToolCallPreview> {
  const fullPath = resolve(workFolders.projectDir, deletion.path);
  const guard = await createChangeGuard(options, workFolders);
  const folder = await guard.openFolder((await guard.resolve(dirname(fullPath))).path);
  try {
    previewedIdentities.set(deletion, await folder.stat(basename(fullPath)));
  } finally {
    await folder.close();
  }
  return {};
}

/** Runs the `delete` tool. Rejects with `ToolError`, or with the signal's reason. */
export async function deletePath(
  options: FileToolOptions,
  deletion: Deletion,
  context: ToolContext,
): Promise<ToolOutput> {
  const { path, recursive } = deletion;
  const fullPath = resolve(context.projectDir, path);
  try {
    const guard = await createChangeGuard(options, context);
    const name = formatPath(path, context.projectDir);
    const requireSameIdentity = (identity: Identity): void => {
      const requestedIdentity = previewedIdentities.get(deletion);
      if (
        previewedIdentities.has(deletion) &&
        (requestedIdentity?.dev !== identity.dev || requestedIdentity.ino !== identity.ino)
      )
        throw new ToolError(
          `${name}: was replaced during the permission request. Nothing was deleted; check it again.`,
        );
    };
    return await withFileLock(fullPath, () =>
      removePath(guard, fullPath, recursive, name, context, requireSameIdentity),
    );
  } catch (error) {
    throw await toPathToolError(error, path, context.projectDir, options);
  }
}

const NO_FILE = { kind: "none" } as const;
const NOT_RECORDED_NOTE = " No copy was stored: undo cannot restore it.";

/**
 * Deletes a file, link or folder. The target of a link stays. `checkIdentity` receives the current identity and throws
 * if the entry must stay.
 *
 * Rejects with `PathError` and `ToolError`.
 */
export async function removePath(
  guard: PathGuard,
  fullPath: string,
  recursive: boolean,
  name: string,
  context: ToolContext,
  checkIdentity: (identity: Identity) => void = () => undefined,
): Promise<ToolOutput> {
  const target = await findTarget(guard, fullPath, name);
  const entryName = basename(target);
  const folder = await guard.openFolder(dirname(target));
  try {
    await guard.refuseProtectedIn(folder, entryName);
    const stats = await folder.stat(entryName);
    if (!stats) throw new PathError("not_found", "not found");
    checkIdentity(stats);
    context.signal.throwIfAborted();
    const entry: OpenedEntry = { guard, folder, entryName, target, name, context };
    return await (stats.isDirectory() ? removeFolder(entry, recursive) : removeFile(entry, stats));
  } catch (error) {
    throw error instanceof ToolError || context.signal.aborted ? error : asPathError(error);
  } finally {
    await folder.close();
  }
}

/**
 * Returns the path of the entry to delete. Rejects with `PathError` or `ToolError` if it may not be deleted.
 *
 * Resolves the parent but not the last name, so that a link is deleted and not its target.
 */
async function findTarget(guard: PathGuard, fullPath: string, name: string): Promise<string> {
  const parent = await guard.resolve(dirname(fullPath)).catch((error: unknown) => {
    // The parent of a root lies outside the roots. The error must name the root instead.
    throw error instanceof PathError && error.reason === "outside" && guard.containsRoot(fullPath)
      ? createRootError(name)
      : error;
  });
  const target = join(parent.path, basename(fullPath));
  if (guard.containsRoot(target)) throw createRootError(name);
  if (guard.containsDeniedPathOrRoot(target)) throw new PathError("denied", "access is denied");
  if (basename(target) === ".git")
    throw new ToolError(
      `${name}: contains the history of the repository and cannot be deleted. Ask the user to delete it.`,
    );
  guard.refuseProtected(parent.traversedPaths.map((traversedPath) => join(traversedPath, basename(fullPath))));
  return target;
}

/** An entry of an open folder. */
interface OpenedEntry {
  readonly guard: PathGuard;
  readonly folder: OpenedFolder;
  readonly entryName: string;
  /** Complete path of the entry. */
  readonly target: string;
  /** Name for messages. */
  readonly name: string;
  readonly context: ToolContext;
}

async function removeFolder(entry: OpenedEntry, recursive: boolean): Promise<ToolOutput> {
  const { guard, folder, entryName, target, name, context } = entry;
  const record = await (recursive
    ? recordTree(guard, folder, entryName, context, context.signal)
    : recordBefore(guard, folder, entryName, NO_FILE, context));
  if (recursive) await folder.removeTree(entryName, context.signal);
  else if (!(await folder.removeEmpty(entryName)))
    throw new ToolError(`${name}: the folder is not empty. Set recursive to delete it with its contents.`);
  record.commit();
  await folder.sync();
  const note = record.isRestorable ? "" : NOT_RECORDED_NOTE;
  return {
    text: `Deleted ${name}/${recursive ? " with its contents" : ""}.${note}`,
    locations: [{ path: target }],
  };
}

/** Deletes a file or a link. */
async function removeFile(entry: OpenedEntry, stats: Stats): Promise<ToolOutput> {
  const { guard, folder, entryName, target, name, context } = entry;
  const deletedText = stats.isFile() ? await readDiffText(guard, folder, entryName) : undefined;
  const record = await recordBefore(guard, folder, entryName, NO_FILE, context);
  await folder.unlink(entryName);
  record.commit();
  new SeenFiles(context).forget(target);
  await folder.sync();
  const detail = stats.isSymbolicLink() ? "a symbolic link; its target still exists" : formatSize(stats.size);
  return {
    text: `Deleted ${name} (${detail}).${record.isRestorable ? "" : NOT_RECORDED_NOTE}`,
    ...(deletedText === undefined ? {} : { diff: [{ path: target, oldText: deletedText, newText: "" }] }),
    locations: [{ path: target }],
  };
}

function createRootError(name: string): ToolError {
  return new ToolError(`${name}: is the working folder, or contains it. Delete its contents instead.`);
}

/** Returns the text of a file for a diff. Undefined if the file is too large, not text, or not readable. */
async function readDiffText(guard: PathGuard, folder: OpenedFolder, name: string): Promise<string | undefined> {
  try {
    const file = await guard.openFile(join(folder.path, name));
    try {
      if (file.stats.size > MAX_DIFF_BYTES) return undefined;
      const content = await readWhole(file, MAX_DIFF_BYTES);
      return detectFileType(content.subarray(0, DETECTION_BYTES)).kind === "text" ? content.toString() : undefined;
    } finally {
      await file.handle.close();
    }
  } catch {
    return undefined;
  }
}
