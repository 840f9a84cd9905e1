import type { PathGuard } from "../files/path-guard.js";
import { InputError } from "../ports/errors.js";
import type { FileTarget, RestoreRequest, TextHunk, UndoneFile } from "../ports/file-history.js";
import { hashOf } from "./content-store.js";
import type { ChangeLine, JournalContents, StoredFileState } from "./journal.js";
import { planRestore, type PlannedPath } from "./plan.js";
import { CHANGED_REASON, NOT_STORED_REASON, readCurrentState } from "./restore.js";
import type { SessionFiles } from "./session-files.js";
import { decodeText, splitLines } from "./text.js";

/** The recorded changes of a session, and access to its files. */
export interface RecordedFiles {
  journal: JournalContents;
  sessionFiles: SessionFiles;
  guard: PathGuard;
}

/** The planned restore of the paths that a request selects. */
export interface TargetPlan {
  plan: PlannedPath[];
  /** Content to restore that is not stored yet. */
  newContent?: Buffer;
  /** Result of the requested file if it cannot be restored. The plan is then empty. */
  refusal?: UndoneFile;
}

/** Plans the undo of the changes that a request selects. Rejects with `InputError` for an invalid hunk. */
export async function createTargetPlan(target: RestoreRequest["target"], files: RecordedFiles): Promise<TargetPlan> {
  if ("path" in target) return createFilePlan(target, files);
  let isAfterTarget = false;
  const plan = planRestore(files.journal, (line) => {
    isAfterTarget ||= "seq" in target ? line.seq > target.seq : line.undo === target.undo;
    return isAfterTarget;
  });
  return { plan };
}

/** Plans the undo of one file. Folders that were created for the file are part of the plan. */
async function createFilePlan(target: FileTarget, files: RecordedFiles): Promise<TargetPlan> {
  const { path, runIds, version, hunk } = target;
  const touchesPath = ({ steps }: ChangeLine): boolean => steps.some((step) => step.path === path);
  const isSelected = (line: ChangeLine): boolean =>
    line.undo === "" && (runIds?.has(line.run) ?? true) && touchesPath(line);
  const plan = planRestore(files.journal, isSelected).filter(
    (planned) => planned.path === path || (planned.isParentFolder && path.startsWith(`${planned.path}/`)),
  );
  const plannedFile = plan.find((planned) => planned.path === path);
  if (!plannedFile) return { plan: [] };
  const firstIndex = files.journal.changes.findIndex(isSelected);
  plannedFile.hasLaterRun = files.journal.changes
    .slice(firstIndex)
    .some((line) => line.undo === "" && touchesPath(line) && !isSelected(line));
  if (version === undefined) return { plan };
  const { state } = await readCurrentState(files.guard, path);
  const content = state.kind === "file" ? state.content : undefined;
  if ((content ? hashOf(content) : "") !== version)
    return { plan: [], refusal: { path, outcome: "conflict", reason: CHANGED_REASON } };
  if (!hunk) return { plan };
  if (state.kind !== "file" || !content) throw new InputError("hunk", "lines of a file that exists");
  const newContent = await createUndoneContent(content, plannedFile.targetState, hunk, files);
  if (!newContent) return { plan: [], refusal: { path, outcome: "lost", reason: NOT_STORED_REASON } };
  const { mode, uid, gid } = state;
  const createState = (hash: string): StoredFileState => ({ kind: "file", hash, mode, uid, gid });
  return {
    plan: [
      {
        ...plannedFile,
        targetState: createState(hashOf(newContent)),
        // The version identifies the content that the user saw, whatever program wrote it.
        expectedStates: [createState(version)],
        isMixed: false,
        isRemade: false,
        hasLaterRun: false,
      },
    ],
    newContent,
  };
}

/** Returns the current content with the old lines of a hunk. Undefined if the old content is not stored. */
async function createUndoneContent(
  content: Buffer,
  oldState: StoredFileState,
  { oldStart, oldLines, newStart, newLines }: TextHunk,
  { journal, sessionFiles }: RecordedFiles,
): Promise<Buffer | undefined> {
  if (oldState.kind !== "file") throw new InputError("hunk", "lines of a file that existed before");
  const oldContent = await sessionFiles.readContent(oldState.hash, journal);
  if (!oldContent) return undefined;
  const [oldText, newText] = [decodeText(oldContent), decodeText(content)];
  if (oldText === undefined || newText === undefined) throw new InputError("hunk", "lines of a text file");
  const [allOldLines, allNewLines] = [splitLines(oldText), splitLines(newText)];
  const isInRange = (start: number, count: number, total: number): boolean =>
    start >= 1 && count >= 0 && start + count <= total + 1;
  if (!isInRange(oldStart, oldLines, allOldLines.length) || !isInRange(newStart, newLines, allNewLines.length))
    throw new InputError("hunk", "lines within the texts");
  const restoredLines = allOldLines.slice(oldStart - 1, oldStart - 1 + oldLines);
  const resultLines = [
    ...allNewLines.slice(0, newStart - 1),
    ...restoredLines,
    ...allNewLines.slice(newStart - 1 + newLines),
  ];
  return Buffer.from(resultLines.join(""));
}
