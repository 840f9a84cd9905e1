import { resolve } from "node:path";
import { ToolError, WorkLimitError } from "../../ports/errors.js";
import type { EditedFile, TextEdit } from "../../untrusted/edits/apply-edit.js";
import { withWorker } from "../../untrusted/workers.js";
import type { PathGuard } from "../../files/path-guard.js";
import type { ToolCallPreview, ToolContext, ToolOutput } from "../../ports/tool.js";
import { formatSize, detectFileType, DETECTION_BYTES } from "./content.js";
import {
  createDiff,
  withFileLock,
  createChangeGuard,
  createLocation,
  MAX_FILE_BYTES,
  toPathToolError,
  SeenFiles,
  formatPath,
} from "./files.js";
import type { FileToolOptions, WorkFolders } from "./files.js";
import { readWhole } from "./read-file.js";
import { replaceFile } from "./replace-file.js";

/** Time limit for all edits of a call, in ms. */
const EDIT_TIMEOUT_MS = 10_000;
/**
 * Maximum size of a file that a permission request shows completely. A request for a larger file shows only the changed part,
 * because the request is stored with it.
 */
const MAX_PREVIEW_BYTES = 256 * 1024;
/** Context lines on each side of the changed part. */
const CONTEXT_LINES = 3;

/** Applies edits to one file in order, all or none. Rejects with `ToolError` or the signal's reason. */
export async function editFile(
  options: FileToolOptions,
  path: string,
  edits: readonly TextEdit[],
  context: ToolContext,
): Promise<ToolOutput> {
  const { projectDir } = context;
  const name = formatPath(path, projectDir);
  try {
    const guard = await createChangeGuard(options, context);
    const { path: target } = await guard.resolveForChange(resolve(projectDir, path));
    return await withFileLock(target, async () => {
      const seenFiles = new SeenFiles(context);
      const oldContent = await readEditableText(guard, target, name);
      if (seenFiles.hasChanged(target, oldContent))
        throw new ToolError(
          `${name}: changed since you read it (by a command, another session or a person). Read it again, then edit.`,
        );

      const { content: editedBytes, descriptions, line } = await applyEdits(oldContent, edits, name, context.signal);
      const newContent = Buffer.from(editedBytes.buffer, editedBytes.byteOffset, editedBytes.byteLength);
      context.signal.throwIfAborted();
      // Final check before the change: another process may have written the file meanwhile.
      if (!(await readEditableText(guard, target, name)).equals(oldContent))
        throw new ToolError(`${name}: changed just now. Read it again, then edit.`);
      const realPath = await replaceFile(guard, target, newContent, context);
      seenFiles.recordSeen(realPath, newContent);
      return {
        text: `Edited ${name}: replaced ${descriptions.join("; ")}.`,
        diff: createDiff(realPath, oldContent, newContent),
        locations: [{ path: realPath, ...(line === undefined ? {} : { line }) }],
      };
    });
  } catch (error) {
    throw await toPathToolError(error, path, projectDir, options);
  }
}

/**
 * Previews edits that match the file only approximately. Returns an empty preview if all edits match exactly, because
 * the arguments then show the change.
 *
 * Rejects where the tool call would be rejected.
 */
export async function previewEdits(
  options: FileToolOptions,
  path: string,
  edits: readonly TextEdit[],
  workContext: WorkFolders & Pick<ToolContext, "signal">,
): Promise<ToolCallPreview> {
  const { projectDir, signal } = workContext;
  const guard = await createChangeGuard(options, workContext);
  const { path: target } = await guard.resolveForChange(resolve(projectDir, path));
  const name = formatPath(path, projectDir);
  const oldContent = await readEditableText(guard, target, name);
  const { content: editedBytes, descriptions } = await applyEdits(oldContent, edits, name, signal);
  const newContent = Buffer.from(editedBytes.buffer, editedBytes.byteOffset, editedBytes.byteLength);
  const inexactEdits = descriptions.filter((description) => description.includes("inexact match"));
  if (inexactEdits.length === 0) return {};
  const canShowFile = Math.max(oldContent.length, newContent.length) <= MAX_PREVIEW_BYTES;
  const texts = canShowFile
    ? { oldText: oldContent.toString(), newText: newContent.toString() }
    : findChangedPart(oldContent, newContent);
  return {
    ...(texts && { diff: [{ path: createLocation(path, projectDir).path, ...texts }] }),
    note: `The text was found ${inexactEdits.join("; ")}.`,
  };
}

/** Returns the lines that differ, with context lines. Undefined if these lines are too long to be shown. */
function findChangedPart(oldContent: Buffer, newContent: Buffer): { oldText: string; newText: string } | undefined {
  const [oldLines, newLines] = [oldContent.toString().split("\n"), newContent.toString().split("\n")];
  const minLength = Math.min(oldLines.length, newLines.length);
  let equalStartLines = 0;
  while (equalStartLines < minLength && oldLines[equalStartLines] === newLines[equalStartLines]) equalStartLines++;
  let equalEndLines = 0;
  while (
    equalEndLines < minLength - equalStartLines &&
    oldLines[oldLines.length - 1 - equalEndLines] === newLines[newLines.length - 1 - equalEndLines]
  )
    equalEndLines++;
  const joinPart = (lines: readonly string[]): string =>
    lines
      .slice(Math.max(0, equalStartLines - CONTEXT_LINES), lines.length - Math.max(0, equalEndLines - CONTEXT_LINES))
      .join("\n");
  const texts = { oldText: joinPart(oldLines), newText: joinPart(newLines) };
  const bytes = Buffer.byteLength(texts.oldText) + Buffer.byteLength(texts.newText);
  return bytes <= 2 * MAX_PREVIEW_BYTES ? texts : undefined;
}

/** Reads a text file that can be edited. Rejects with `ToolError` for any other file. */
async function readEditableText(guard: PathGuard, target: string, name: string): Promise<Buffer> {
  const file = await guard.openFile(target);
  try {
    if (file.stats.size > MAX_FILE_BYTES)
      throw new ToolError(
        `${name}: is ${formatSize(Number(file.stats.size))}, too large for edit. Use bash with sed or a script.`,
      );
    const content = await readWhole(file, MAX_FILE_BYTES);
    const fileType = detectFileType(content.subarray(0, DETECTION_BYTES));
    if (fileType.kind !== "text") throw new ToolError(`${name}: is not a text file. Use bash.`);
    if (fileType.encoding !== "utf-8")
      throw new ToolError(`${name}: is ${fileType.encoding} text, which edit cannot change. Use bash.`);
    return content;
  } finally {
    await file.handle.close();
  }
}

async function applyEdits(
  oldContent: Buffer,
  edits: readonly TextEdit[],
  name: string,
  signal: AbortSignal,
): Promise<EditedFile> {
  // A copy, because the memory is transferred to the worker.
  const content = new Uint8Array(oldContent);
  const job = { content, edits, name, maxBytes: MAX_FILE_BYTES };
  try {
    const result = await withWorker(signal, (thread) =>
      thread.runJob("edit", job, { ms: EDIT_TIMEOUT_MS, transfer: [content] }),
    );
    if ("errorMessage" in result) throw new ToolError(result.errorMessage);
    return result;
  } catch (error) {
    if (!(error instanceof WorkLimitError)) throw error;
    throw new ToolError(`${name}: the edit was aborted: ${error.message}. Use bash with a script.`, { cause: error });
  }
}
