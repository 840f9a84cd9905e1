import { resolve } from "node:path";
import { PathError, ToolError, WorkLimitError } from "../../ports/errors.js";
import type { PathGuard } from "../../files/path-guard.js";
import { withWorker } from "../../untrusted/workers.js";
import { formatSize, detectFileType } from "./content.js";
import { MAX_FILE_BYTES, formatPath } from "./files.js";
import type { PatchSection } from "./patch-text.js";
import { readWhole } from "./read-file.js";

/** Time limit for all chunks of one file, in ms. */
const PATCH_TIMEOUT_MS = 10_000;

/** A file that a patch changes, with its content before and after the patch. Null: the file does not exist. */
export interface PlannedFile {
  /** Real path, without symbolic links. */
  readonly path: string;
  /** Path as shown to the model. */
  name: string;
  readonly before: Buffer | null;
  after: Buffer | null;
  /** Line of the first change. Undefined: not known. */
  line?: number | undefined;
  /** Descriptions of differences that the matching ignored. */
  deviations: string[];
  /** Mode of the existing file, or of the file that was moved here. Undefined for a new file. */
  mode: number | undefined;
  /** Whether the named path is a symbolic link. */
  readonly isLink: boolean;
  /** Former name of a file that was moved here. */
  movedFrom?: string;
  /** Whether the file was moved to another path. */
  isMoved?: boolean;
}

/** Services and limits for planning a patch. */
export interface PlanRules {
  readonly guard: PathGuard;
  readonly projectDir: string;
  readonly signal: AbortSignal;
  /** Returns the reason why an existing file must not be changed. Undefined if it may be changed. */
  refusal(file: { path: string; before: Buffer }, action: PatchSection["action"]): string | undefined;
  /** Converts an error about a path to the error for the model. */
  fault(error: unknown, path: string): Promise<unknown>;
}

/**
 * Plans a patch without changing files. Each section is applied to the result of the sections before it.
 *
 * Rejects with `ToolError`, or with the result of `fault`.
 */
export async function planPatch(sections: readonly PatchSection[], rules: PlanRules): Promise<PlannedFile[]> {
  const files = new Map<string, PlannedFile>();
  for (const section of sections) {
    const { path, action } = section;
    const file = await loadFile(path, action, files, rules);
    if (action === "add") file.after = Buffer.from(section.content);
    else if (file.after === null) throw await rules.fault(new PathError("not_found", "not found"), path);
    else if (action === "delete") file.after = null;
    else {
      if (section.chunks.length > 0) await applyChunks(file, section.chunks, rules.signal);
      if (section.moveTo !== undefined) moveFile(file, await loadFile(section.moveTo, "update", files, rules));
    }
  }
  return [...files.values()].filter(({ before, after }) => before !== null || after !== null);
}

async function loadFile(
  path: string,
  action: PatchSection["action"],
  files: Map<string, PlannedFile>,
  { guard, projectDir, signal, refusal, fault }: PlanRules,
): Promise<PlannedFile> {
  signal.throwIfAborted();
  const name = formatPath(path, projectDir);
  try {
    const fullPath = resolve(projectDir, path);
    const { path: target } = await guard.resolveForChange(fullPath);
    const plannedFile = files.get(target);
    if (plannedFile) return plannedFile;
    const { content: before, mode } = await contentOf(guard, target, name);
    const refusalReason = before && refusal({ path: target, before }, action);
    if (typeof refusalReason === "string") throw new ToolError(`${name}: ${refusalReason}`);
    const isLink = before !== null && (await guard.readLink(fullPath)) !== undefined;
    const file: PlannedFile = { path: target, name, before, after: before, mode, isLink, deviations: [] };
    files.set(target, file);
    return file;
  } catch (error) {
    throw await fault(error, path);
  }
}

function moveFile(file: PlannedFile, target: PlannedFile): void {
  if (target === file) return;
  if (target.after !== null)
    throw new ToolError(
      `${target.name}: already exists, so ${file.name} was not moved. Delete it, or use another name.`,
    );
  const { after, line, deviations, mode } = file;
  Object.assign(target, { after, line, deviations, mode, movedFrom: file.name });
  Object.assign(file, { after: null, deviations: [], isMoved: true });
}

/** Reads the current content and mode. Null if the file does not exist. */
export async function contentOf(
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
  const { name, after } = file;
  if (after === null) return;
  const contentType = detectFileType(after.subarray(0, 8_192));
  if (contentType.kind !== "text") throw new ToolError(`${name}: is not a text file. Use bash.`);
  if (contentType.encoding !== "utf-8")
    throw new ToolError(`${name}: is ${contentType.encoding} text, which a patch cannot change. Use bash.`);
  // A copy, because the memory is transferred to the worker.
  const content = new Uint8Array(after);
  const job = { content, chunks, name, maxBytes: MAX_FILE_BYTES };
  try {
    const result = await withWorker(signal, (thread) =>
      thread.runJob("patch", job, { ms: PATCH_TIMEOUT_MS, transfer: [content] }),
    );
    if ("refused" in result) throw new ToolError(result.refused);
    const { content: bytes, line, tolerated } = result;
    file.after = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    file.line ??= line;
    file.deviations = [...file.deviations, ...tolerated];
  } catch (error) {
    if (!(error instanceof WorkLimitError)) throw error;
    throw new ToolError(`${name}: the patch was aborted: ${error.message}. Use bash with a script.`, { cause: error });
  }
}
