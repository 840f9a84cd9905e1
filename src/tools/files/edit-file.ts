import { resolve } from "node:path";
import { ToolError, WorkLimitError } from "../../ports/errors.js";
import type { EditedFile, TextEdit } from "../../untrusted/edits/apply-edit.js";
import { withWorker } from "../../untrusted/workers.js";
import type { PathGuard } from "../../files/path-guard.js";
import type { ToolCallPreview, ToolContext, ToolOutput } from "../../ports/tool.js";
import { size, sniff } from "./content.js";
import {
  diffOf,
  withFileLock,
  guardForChange,
  location,
  MAX_FILE_BYTES,
  pathFault,
  SeenFiles,
  shown,
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
  const name = shown(path, projectDir);
  try {
    const guard = await guardForChange(options, context);
    const { path: target } = await guard.resolveForChange(resolve(projectDir, path));
    return await withFileLock(target, async () => {
      const seen = new SeenFiles(context);
      const before = await textOf(guard, target, name);
      if (seen.hasChanged(target, before))
        throw new ToolError(
          `${name}: changed since you read it (by a command, another session or a person). Read it again, then edit.`,
        );

      const { content: edited, done, line } = await edit(before, edits, name, context.signal);
      const after = Buffer.from(edited.buffer, edited.byteOffset, edited.byteLength);
      context.signal.throwIfAborted();
      // Final check before the change: another process may have written the file meanwhile.
      if (!(await textOf(guard, target, name)).equals(before))
        throw new ToolError(`${name}: changed just now. Read it again, then edit.`);
      const real = await replaceFile(guard, target, after, context);
      seen.recordSeen(real, after);
      return {
        text: `Edited ${name}: replaced ${done.join("; ")}.`,
        diff: diffOf(real, before, after),
        locations: [{ path: real, ...(line === undefined ? {} : { line }) }],
      };
    });
  } catch (error) {
    throw await pathFault(error, path, projectDir, options);
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
  reach: WorkFolders & Pick<ToolContext, "signal">,
): Promise<ToolCallPreview> {
  const { projectDir, signal } = reach;
  const guard = await guardForChange(options, reach);
  const { path: target } = await guard.resolveForChange(resolve(projectDir, path));
  const name = shown(path, projectDir);
  const before = await textOf(guard, target, name);
  const { content: edited, done } = await edit(before, edits, name, signal);
  const after = Buffer.from(edited.buffer, edited.byteOffset, edited.byteLength);
  const loose = done.filter((description) => description.includes("inexact match"));
  if (loose.length === 0) return {};
  const isShown = Math.max(before.length, after.length) <= MAX_PREVIEW_BYTES;
  const texts = isShown ? { oldText: before.toString(), newText: after.toString() } : changedPart(before, after);
  return {
    ...(texts && { diff: [{ path: location(path, projectDir).path, ...texts }] }),
    note: `The text was found ${loose.join("; ")}.`,
  };
}

/** The lines that differ, with context lines. Undefined if they are too long to be shown. */
function changedPart(before: Buffer, after: Buffer): { oldText: string; newText: string } | undefined {
  const [olds, news] = [before.toString().split("\n"), after.toString().split("\n")];
  const shorter = Math.min(olds.length, news.length);
  let start = 0;
  while (start < shorter && olds[start] === news[start]) start++;
  let end = 0;
  while (end < shorter - start && olds[olds.length - 1 - end] === news[news.length - 1 - end]) end++;
  const part = (lines: readonly string[]): string =>
    lines.slice(Math.max(0, start - CONTEXT_LINES), lines.length - Math.max(0, end - CONTEXT_LINES)).join("\n");
  const texts = { oldText: part(olds), newText: part(news) };
  return texts.oldText.length + texts.newText.length <= 2 * MAX_PREVIEW_BYTES ? texts : undefined;
}

/** Reads a text file that can be edited. Rejects with `ToolError` for any other file. */
async function textOf(guard: PathGuard, target: string, name: string): Promise<Buffer> {
  const file = await guard.openFile(target);
  try {
    if (file.stats.size > MAX_FILE_BYTES)
      throw new ToolError(
        `${name}: is ${size(Number(file.stats.size))}, too large for edit. Use bash with sed or a script.`,
      );
    const text = await readWhole(file, MAX_FILE_BYTES);
    const content = sniff(text.subarray(0, 8_192));
    if (content.kind !== "text") throw new ToolError(`${name}: is not a text file. Use bash.`);
    if (content.encoding !== "utf-8")
      throw new ToolError(`${name}: is ${content.encoding} text, which edit cannot change. Use bash.`);
    return text;
  } finally {
    await file.handle.close();
  }
}

async function edit(
  before: Buffer,
  edits: readonly TextEdit[],
  name: string,
  signal: AbortSignal,
): Promise<EditedFile> {
  // A copy, because the memory is transferred to the worker.
  const content = new Uint8Array(before);
  const job = { content, edits, name, maxBytes: MAX_FILE_BYTES };
  try {
    const edited = await withWorker(signal, (thread) =>
      thread.runJob("edit", job, { ms: EDIT_TIMEOUT_MS, transfer: [content] }),
    );
    if ("refused" in edited) throw new ToolError(edited.refused);
    return edited;
  } catch (error) {
    if (!(error instanceof WorkLimitError)) throw error;
    throw new ToolError(`${name}: the edit was aborted: ${error.message}. Use bash with a script.`, { cause: error });
  }
}
