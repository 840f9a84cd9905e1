import { basename, dirname, join } from "node:path";
import { ToolError } from "../../ports/errors.js";
import type { PathGuard } from "../../files/path-guard.js";
import type { Diff, ToolCallPreview, ToolContext, ToolOutput } from "../../ports/tool.js";
import { detectFileType } from "./content.js";
import { removePath } from "./delete-path.js";
import {
  createDiff,
  withFileLock,
  guardForChange,
  toPathFault,
  SeenFiles,
  type FileToolOptions,
  type WorkFolders,
} from "./files.js";
import { contentOf, planPatch, type PlannedFile, type PlanRules } from "./patch-plan.js";
import type { PatchSection } from "./patch-text.js";
import { replaceFile } from "./replace-file.js";

/** Maximum size of a file that a permission request shows, because the request is stored with it. */
const MAX_PREVIEW_BYTES = 256 * 1024;

/** Makes all changes of a patch, or none. Rejects with `ToolError`, or with the signal's reason. */
export async function patchFiles(
  options: FileToolOptions,
  sections: readonly PatchSection[],
  context: ToolContext,
): Promise<ToolOutput> {
  const guard = await guardForChange(options, context);
  const seenFiles = new SeenFiles(context);
  const rules = toPlanRules(options, guard, context, (file, action) => {
    if (action === "add" && !seenFiles.isCurrent(file.path, file.before))
      return "already exists, and you have not read its current content. Read it first, or use Update File.";
    return seenFiles.hasChanged(file.path, file.before)
      ? "changed since you read it (by a command, another session or a person). Read it again, then patch."
      : undefined;
  });
  // The plan shows which files to lock. It is repeated once they are locked.
  const paths = (await planPatch(sections, rules)).map(({ path }) => path);
  return await withFileLocks(paths.sort(), async () => {
    const files = await planPatch(sections, rules);
    if (files.some(({ path }) => !paths.includes(path)))
      throw new ToolError("The files changed meanwhile. Send the patch again.");
    context.signal.throwIfAborted();
    if (!files.some(isChanged))
      throw new ToolError("The patch changes nothing. Read the files again: it may already be applied.");
    await applyPlan(guard, files, rules, context);
    for (const { path, after } of files)
      if (after === null) seenFiles.forget(path);
      else seenFiles.recordSeen(path, after);
    return formatResult(files);
  });
}

/** Previews the result of a patch for the current files. Rejects where the tool call would be rejected. */
export async function previewPatch(
  options: FileToolOptions,
  sections: readonly PatchSection[],
  workContext: WorkFolders & Pick<ToolContext, "signal">,
): Promise<ToolCallPreview> {
  const guard = await guardForChange(options, workContext);
  const files = await planPatch(
    sections,
    toPlanRules(options, guard, workContext, () => undefined),
  );
  const isShown = ({ before, after }: PlannedFile): boolean =>
    [before, after].every((content) => {
      if (content === null) return true;
      const contentType = detectFileType(content.subarray(0, 8_192));
      return contentType.kind === "text" && contentType.encoding === "utf-8" && content.length <= MAX_PREVIEW_BYTES;
    });
  const hiddenNames = files.filter((file) => !isShown(file)).map(({ name }) => name);
  const inexactFiles = files.flatMap(({ name, deviations }) =>
    deviations.length > 0 ? [`${name} (${deviations.join("; ")})`] : [],
  );
  const notes = [
    ...(hiddenNames.length > 0 ? [`Not shown (too large, or not text): ${hiddenNames.join(", ")}.`] : []),
    ...(inexactFiles.length > 0 ? [`Inexact matches: ${inexactFiles.join(", ")}.`] : []),
  ];
  return { diff: createDiffs(files.filter(isShown)), ...(notes.length > 0 && { note: notes.join(" ") }) };
}

function toPlanRules(
  options: FileToolOptions,
  guard: PathGuard,
  { projectDir, signal }: Pick<ToolContext, "projectDir" | "signal">,
  refusal: PlanRules["refusal"],
): PlanRules {
  return { guard, projectDir, signal, refusal, fault: (error, path) => toPathFault(error, path, projectDir, options) };
}

/**
 * Runs `work` while no other tool call of this process changes one of these files. The paths must be sorted, to prevent
 * deadlocks.
 */
async function withFileLocks<T>([path, ...otherPaths]: readonly string[], work: () => Promise<T>): Promise<T> {
  return path === undefined ? work() : withFileLock(path, () => withFileLocks(otherPaths, work));
}

/** Creates and replaces files before it deletes any. Reverts all changes if one fails. Rejects with `ToolError`. */
async function applyPlan(
  guard: PathGuard,
  files: readonly PlannedFile[],
  { fault }: PlanRules,
  context: ToolContext,
): Promise<void> {
  const filesToChange = files.filter(isChanged);
  for (const { name, isLink, after } of filesToChange)
    if (isLink && after === null)
      throw new ToolError(`${name}: is a symbolic link, which a patch cannot delete or move. Use delete, or bash.`);
  // Final check before the change: another process may have written a file meanwhile.
  for (const { path, name, before } of files) {
    const { content } = await contentOf(guard, path, name);
    const isSame = content === null || before === null ? content === before : content.equals(before);
    if (!isSame) throw new ToolError(`${name}: changed just now. Nothing was changed. Read it again, then patch.`);
  }
  const changedFiles: PlannedFile[] = [];
  const orderedFiles = [
    ...filesToChange.filter(({ after }) => after !== null),
    ...filesToChange.filter(({ after }) => after === null),
  ];
  for (const file of orderedFiles)
    try {
      await applyContent(guard, file, file.after, context);
      changedFiles.unshift(file);
    } catch (error) {
      const unrevertedFiles = await revertFiles(guard, changedFiles, context);
      const outcome =
        unrevertedFiles.length > 0 ? `Still changed: ${unrevertedFiles.join(", ")}.` : "Nothing was changed.";
      const pathFaultError = await fault(error, file.path);
      throw new ToolError(
        `${pathFaultError instanceof ToolError ? pathFaultError.message : `${file.name}: could not be written.`} ${outcome}`,
        {
          cause: error,
        },
      );
    }
}

async function applyContent(
  guard: PathGuard,
  file: PlannedFile,
  content: Buffer | null,
  context: ToolContext,
): Promise<void> {
  const as = file.mode === undefined ? undefined : { mode: file.mode };
  if (content !== null) await replaceFile(guard, file.path, content, context, as);
  else await removePath(guard, join(dirname(file.path), basename(file.path)), false, file.name, context);
}

/** Reverts changes. Returns the names of the files that could not be reverted. */
async function revertFiles(
  guard: PathGuard,
  changedFiles: readonly PlannedFile[],
  context: ToolContext,
): Promise<string[]> {
  const unrevertedFiles: string[] = [];
  // A cancelled run must not leave half of a patch, so that the revert ignores the signal.
  const uncancelledContext = { ...context, signal: new AbortController().signal };
  for (const file of changedFiles)
    await applyContent(guard, file, file.before, uncancelledContext).catch(() => {
      unrevertedFiles.push(file.name);
    });
  return unrevertedFiles;
}

function createDiffs(files: readonly PlannedFile[]): Diff[] {
  return files.flatMap(({ path, before, after }) => {
    return isChanged({ before, after }) ? createDiff(path, before, after ?? Buffer.alloc(0)) : [];
  });
}

function isChanged({ before, after }: Pick<PlannedFile, "before" | "after">): boolean {
  return before === null || after === null ? before !== after : !before.equals(after);
}

/** Result in the format that these models were trained on: one letter and path per file. */
function formatResult(files: readonly PlannedFile[]): ToolOutput {
  const lines = files.flatMap(({ name, before, after, movedFrom, isMoved, deviations }) => {
    if (after === null) return isMoved ? [] : [`D ${name}`];
    const changeLine = movedFrom === undefined ? `${before === null ? "A" : "M"} ${name}` : `R ${movedFrom} -> ${name}`;
    if (!isChanged({ before, after })) return [`${changeLine} (unchanged)`];
    return [changeLine + (deviations.length > 0 ? ` (inexact match: ${deviations.join("; ")})` : "")];
  });
  return {
    text: `Success. Updated the following files:\n${lines.join("\n")}`,
    diff: createDiffs(files),
    locations: files.map(({ path, line }) => ({ path, ...(line === undefined ? {} : { line }) })),
  };
}
