import { resolve } from "node:path";
import { PathError, ToolError, WorkLimitError } from "../../ports/errors.js";
import type { PathGuard } from "../../files/path-guard.js";
import { withWorker } from "../../untrusted/workers.js";
import { formatSize, detectFileType, DETECTION_BYTES } from "./content.js";
import { MAX_FILE_BYTES, formatPath } from "./files.js";
import type { PatchSection } from "./patch-text.js";
import { readWhole } from "./read-file.js";

/** Time limit for all chunks of one file, in ms. */
const PATCH_TIMEOUT_MS = 10_000;

/**
 * A file that a patch changes, with its content before and after the patch. The content is null if the file does not
 * exist.
 */
export interface PlannedFile {
  /** Real path, without symbolic links. */
  readonly path: string;
  /** Path as shown to the model. */
  name: string;
  readonly oldContent: Buffer | null;
  newContent: Buffer | null;
  /** Line number of the first change, from 1. Undefined if no chunk was applied. */
  line?: number | undefined;
  /** Descriptions of differences that the matching ignored. */
  deviations: string[];
  /** Mode of the existing file, or of the file that was moved to this path. Undefined for a new file. */
  mode: number | undefined;
  /** Whether the named path is a symbolic link. */
  readonly isLink: boolean;
  /** Former name of a file that was moved to this path. */
  movedFrom?: string;
  /** Whether the file was moved to another path. */
  isMoved?: boolean;
  /** Whether an existing file was replaced as a whole, by a new file or a moved one. */
  isReplaced?: boolean;
}

/** Services and limits for planning a patch. */
export interface PlanRules {
  readonly guard: PathGuard;
  readonly projectDir: string;
  readonly signal: AbortSignal;
  /** Returns the reason why an existing file must not be changed. Undefined if the file may be changed. */
  findRefusal(file: { path: string; oldContent: Buffer }): string | undefined;
  /** Converts an error about a path to the error for the model. */
  toModelError(error: unknown, path: string): Promise<unknown>;
}

/**
 * Plans a patch without changing files. Each section is applied to the result of the sections before it.
 *
 * Rejects with `ToolError`, or with the result of `toModelError`.
 */
export async function planPatch(sections: readonly PatchSection[], rules: PlanRules): Promise<PlannedFile[]> {
  const filesByPath = new Map<string, PlannedFile>();
  for (const section of sections) {
    const { path, action } = section;
    const file = await loadFile(path, filesByPath, rules);
    if (action === "add")
      Object.assign(file, { newContent: Buffer.from(section.content), isReplaced: file.newContent !== null });
    else if (file.newContent === null) throw await rules.toModelError(new PathError("not_found", "not found"), path);
    else if (action === "delete") file.newContent = null;
    else {
      if (section.chunks.length > 0) await applyChunks(file, section.chunks, rules.signal);
      if (section.moveTo !== undefined) moveFile(file, await loadFile(section.moveTo, filesByPath, rules));
    }
  }
  return [...filesByPath.values()].filter(({ oldContent, newContent }) => oldContent !== null || newContent !== null);
}

async function loadFile(
  path: string,
  filesByPath: Map<string, PlannedFile>,
  { guard, projectDir, signal, findRefusal, toModelError }: PlanRules,
): Promise<PlannedFile> {
  signal.throwIfAborted();
  const name = formatPath(path, projectDir);
  try {
    const fullPath = resolve(projectDir, path);
    const { path: target } = await guard.resolveForChange(fullPath);
    const plannedFile = filesByPath.get(target);
    if (plannedFile) return plannedFile;
    const { content: oldContent, mode } = await readContent(guard, target, name);
    const refusalReason = oldContent && findRefusal({ path: target, oldContent });
    if (typeof refusalReason === "string") throw new ToolError(`${name}: ${refusalReason}`);
    const isLink = oldContent !== null && (await guard.readLink(fullPath)) !== undefined;
    const file: PlannedFile = { path: target, name, oldContent, newContent: oldContent, mode, isLink, deviations: [] };
    filesByPath.set(target, file);
    return file;
  } catch (error) {
    throw await toModelError(error, path);
  }
}

function moveFile(file: PlannedFile, target: PlannedFile): void {
  if (target === file) return;
  // An earlier section has changed the target: the model expects it to stay.
  if (target.newContent !== null && target.newContent !== target.oldContent)
    throw new ToolError(
      `${target.name}: already exists, so ${file.name} was not moved. Delete it, or use another name.`,
    );
  const { newContent, line, deviations, mode } = file;
  const isReplaced = target.newContent !== null;
  Object.assign(target, { newContent, line, deviations, mode, movedFrom: file.name, isReplaced });
  Object.assign(file, { newContent: null, deviations: [], isMoved: true });
}

/** Reads the current content and mode. Null if the file does not exist. */
export async function readContent(
  guard: PathGuard,
  path: string,
  name: string,
): Promise<{ content: Buffer | null; mode: number | undefined }> {
  try {
    const file = await guard.openFile(path);
    try {
      if (file.stats.size > MAX_FILE_BYTES)
        throw new ToolError(`${name}: is ${formatSize(Number(file.stats.size))}, too large for a patch. Use bash.`);
      return { content: await readWhole(file, MAX_FILE_BYTES), mode: Number(file.stats.mode) & 0o7777 };
    } finally {
      await file.handle.close();
    }
  } catch (error) {
    if (error instanceof PathError && error.reason === "not_found") return { content: null, mode: undefined };
    throw error;
  }
}

async function applyChunks(
  file: PlannedFile,
  chunks: (PatchSection & { action: "update" })["chunks"],
  signal: AbortSignal,
): Promise<void> {
  const { name, newContent } = file;
  if (newContent === null) return;
  const contentType = detectFileType(newContent.subarray(0, DETECTION_BYTES));
  if (contentType.kind !== "text") throw new ToolError(`${name}: is not a text file. Use bash.`);
  if (contentType.encoding !== "utf-8")
    throw new ToolError(`${name}: is ${contentType.encoding} text, which a patch cannot change. Use bash.`);
  // A copy, because the memory is transferred to the worker.
  const content = new Uint8Array(newContent);
  const job = { content, chunks, name, maxBytes: MAX_FILE_BYTES };
  try {
    const result = await withWorker(signal, (thread) =>
      thread.runJob("patch", job, { ms: PATCH_TIMEOUT_MS, transfer: [content] }),
    );
    if ("errorMessage" in result) throw new ToolError(result.errorMessage);
    const { content: bytes, line, matchNotes } = result;
    file.newContent = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    file.line ??= line;
    file.deviations = [...file.deviations, ...matchNotes];
  } catch (error) {
    if (!(error instanceof WorkLimitError)) throw error;
    throw new ToolError(`${name}: the patch was aborted: ${error.message}. Use bash with a script.`, { cause: error });
  }
}
