import { basename, dirname, join } from "node:path";
import { ToolError } from "../../ports/errors.js";
import type { PathGuard } from "../../files/path-guard.js";
import type { Diff } from "../../ports/tool-display.js";
import type { ToolCallPreview, ToolContext, ToolOutput } from "../../ports/tool.js";
import { describeUnreadContent, detectFileType, DETECTION_BYTES } from "./content.js";
import { removePath } from "./delete-path.js";
import {
  createDiff,
  withFileLock,
  createChangeGuard,
  toPathToolError,
  SeenFiles,
  type FileToolOptions,
  type WorkFolders,
} from "./files.js";
import { readContent, planPatch, type PlannedFile, type PlanRules } from "./patch-plan.js";
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
  const guard = await createChangeGuard(options, context);
  const seenFiles = new SeenFiles(context);
  const rules = createPlanRules(options, guard, context, (file) =>
    seenFiles.hasChanged(file.path, file.oldContent)
      ? "changed since you read it (by a command, another session or a person). Read it again, then patch."
      : undefined,
  );
  // The plan shows which files to lock. After the files are locked, the plan is made again.
  const paths = (await planPatch(sections, rules)).map(({ path }) => path);
  return await withFileLocks(paths.sort(), async () => {
    const files = await planPatch(sections, rules);
    if (files.some(({ path }) => !paths.includes(path)))
      throw new ToolError("The files changed meanwhile. Send the patch again.");
    context.signal.throwIfAborted();
    if (!files.some(isChanged))
      throw new ToolError("The patch changes nothing. Read the files again: it may already be applied.");
    const unreadFiles = files.filter(
      ({ path, oldContent, isReplaced }) => isReplaced && oldContent && seenFiles.isUnread(path, oldContent),
    );
    await applyPlan(guard, files, rules, context);
    for (const { path, newContent } of files)
      if (newContent === null) seenFiles.forget(path);
      else seenFiles.recordSeen(path, newContent);
    return formatResult(files, unreadFiles);
  });
}

/** Previews the result of a patch for the current files. Rejects where the tool call would be rejected. */
export async function previewPatch(
  options: FileToolOptions,
  sections: readonly PatchSection[],
  workContext: WorkFolders & Pick<ToolContext, "signal">,
): Promise<ToolCallPreview> {
  const guard = await createChangeGuard(options, workContext);
  const files = await planPatch(
    sections,
    createPlanRules(options, guard, workContext, () => undefined),
  );
  const isShown = ({ oldContent, newContent }: PlannedFile): boolean =>
    [oldContent, newContent].every((content) => {
      if (content === null) return true;
      const contentType = detectFileType(content.subarray(0, DETECTION_BYTES));
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

function createPlanRules(
  options: FileToolOptions,
  guard: PathGuard,
  { projectDir, signal }: Pick<ToolContext, "projectDir" | "signal">,
  findRefusal: PlanRules["findRefusal"],
): PlanRules {
  return {
    guard,
    projectDir,
    signal,
    findRefusal,
    toModelError: (error, path) => toPathToolError(error, path, projectDir, options),
  };
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
  { toModelError }: PlanRules,
  context: ToolContext,
): Promise<void> {
  const filesToChange = files.filter(isChanged);
  for (const { name, isLink, newContent } of filesToChange)
    if (isLink && newContent === null)
      throw new ToolError(`${name}: is a symbolic link, which a patch cannot delete or move. Use delete, or bash.`);
  // Final check before the change: another process may have written a file meanwhile.
  for (const { path, name, oldContent } of files) {
    const { content } = await readContent(guard, path, name);
    const isSame = content === null || oldContent === null ? content === oldContent : content.equals(oldContent);
    if (!isSame) throw new ToolError(`${name}: changed just now. Nothing was changed. Read it again, then patch.`);
  }
  const changedFiles: PlannedFile[] = [];
  const orderedFiles = [
    ...filesToChange.filter(({ newContent }) => newContent !== null),
    ...filesToChange.filter(({ newContent }) => newContent === null),
  ];
  for (const file of orderedFiles)
    try {
      await applyContent(guard, file, file.newContent, context);
      changedFiles.unshift(file);
    } catch (error) {
      const unrevertedNames = await revertFiles(guard, changedFiles, context);
      const outcome =
        unrevertedNames.length > 0 ? `Still changed: ${unrevertedNames.join(", ")}.` : "Nothing was changed.";
      const modelError = await toModelError(error, file.path);
      throw new ToolError(
        `${modelError instanceof ToolError ? modelError.message : `${file.name}: could not be written.`} ${outcome}`,
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
  const modeOption = file.mode === undefined ? undefined : { mode: file.mode };
  if (content !== null) await replaceFile(guard, file.path, content, context, modeOption);
  else await removePath(guard, join(dirname(file.path), basename(file.path)), false, file.name, context);
}

/** Reverts changes. Returns the names of the files that could not be reverted. */
async function revertFiles(
  guard: PathGuard,
  changedFiles: readonly PlannedFile[],
  context: ToolContext,
): Promise<string[]> {
  const unrevertedNames: string[] = [];
  // A cancelled run must not leave half of a patch, so that the revert ignores the signal.
  const uncancelledContext = { ...context, signal: new AbortController().signal };
  for (const file of changedFiles)
    await applyContent(guard, file, file.oldContent, uncancelledContext).catch(() => {
      unrevertedNames.push(file.name);
    });
  return unrevertedNames;
}

function createDiffs(files: readonly PlannedFile[]): Diff[] {
  return files.flatMap(({ path, oldContent, newContent }) => {
    return isChanged({ oldContent, newContent }) ? createDiff(path, oldContent, newContent ?? Buffer.alloc(0)) : [];
  });
}

function isChanged({ oldContent, newContent }: Pick<PlannedFile, "oldContent" | "newContent">): boolean {
  return oldContent === null || newContent === null ? oldContent !== newContent : !oldContent.equals(newContent);
}

/** Formats the result like the output on which these models were trained: one letter and path for each file. */
function formatResult(files: readonly PlannedFile[], unreadFiles: readonly PlannedFile[]): ToolOutput {
  const lines = files.flatMap(({ name, oldContent, newContent, movedFrom, isMoved, deviations }) => {
    if (newContent === null) return isMoved ? [] : [`D ${name}`];
    const changeLine =
      movedFrom === undefined ? `${oldContent === null ? "A" : "M"} ${name}` : `R ${movedFrom} -> ${name}`;
    if (!isChanged({ oldContent, newContent })) return [`${changeLine} (unchanged)`];
    return [changeLine + (deviations.length > 0 ? ` (inexact match: ${deviations.join("; ")})` : "")];
  });
  const warnings = unreadFiles.flatMap(({ name, oldContent }) =>
    oldContent ? [`${name}: ${describeUnreadContent(oldContent)}`] : [],
  );
  return {
    text: `${warnings.join("")}Success. Updated the following files:\n${lines.join("\n")}`,
    diff: createDiffs(files),
    locations: files.map(({ path, line }) => ({ path, ...(line === undefined ? {} : { line }) })),
  };
}
