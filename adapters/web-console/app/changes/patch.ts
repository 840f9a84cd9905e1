import type { ApiChangedFile } from "gantry/client";
import { compareTexts } from "../diff-lines.js";
import type { DiffRow } from "../diff-rows.js";
import { toHunks, type Hunk } from "./hunks.js";

/** A unified diff, and the number of files that it cannot contain. */
export interface Patch {
  text: string;
  omittedCount: number;
}

/**
 * Creates a patch that `git apply` accepts in the project folder. It omits files without texts, and files outside of
 * the folder.
 */
export async function createPatch(files: readonly ApiChangedFile[], projectDir: string): Promise<Patch> {
  let [text, emptyFiles, omittedCount] = ["", "", 0];
  for (const file of files) {
    const path = toRelativePath(file.path, projectDir);
    if (file.omitted !== "" || path === file.path) omittedCount++;
    else if ((file.old_text ?? "") !== (file.new_text ?? "")) text += await createFilePatch(file, path);
    else emptyFiles += createEmptyFilePatch(file, path);
  }
  // Git would read the lines of another file after these headers as changes of an empty file.
  return { text: `${text}${emptyFiles}`, omittedCount };
}

/** The path in the folder; unchanged outside of the folder. */
export function toRelativePath(path: string, projectDir: string): string {
  const prefix = projectDir.endsWith("/") ? projectDir : `${projectDir}/`;
  return path.startsWith(prefix) ? path.slice(prefix.length) : path;
}

async function createFilePatch(file: ApiChangedFile, path: string): Promise<string> {
  const [oldName, newName] = [toName(`a/${path}`), toName(`b/${path}`)];
  const hunks = toHunks(await compareTexts(file.old_text ?? "", file.new_text ?? ""));
  // Without Git's own header, the paths are relative to the current folder instead of the repository.
  const header = [
    `--- ${file.old_text === null ? "/dev/null" : oldName}`,
    `+++ ${file.new_text === null ? "/dev/null" : newName}`,
  ];
  return `${[...header, ...hunks.flatMap(toPatchLines)].join("\n")}\n`;
}

/** Only Git's own header can describe an empty file. Returns `""` for a file that has its old text again. */
function createEmptyFilePatch({ old_text: oldText, new_text: newText }: ApiChangedFile, path: string): string {
  if ((oldText === null) === (newText === null)) return "";
  const mode = oldText === null ? "new file mode 100644" : "deleted file mode 100644";
  return `diff --git ${quote(`a/${path}`)} ${quote(`b/${path}`)}\n${mode}\n`;
}

function toPatchLines({ rows, range }: Hunk): string[] {
  const { old_start, old_lines, new_start, new_lines } = range;
  // An empty range is named by the line before it.
  const oldRange = `${old_lines === 0 ? old_start - 1 : old_start},${old_lines}`;
  const newRange = `${new_lines === 0 ? new_start - 1 : new_start},${new_lines}`;
  return [`@@ -${oldRange} +${newRange} @@`, ...rows.flatMap(toRowLines)];
}

const SIGNS = { same: " ", removed: "-", added: "+" } as const;

function toRowLines({ kind, text, lacksLineBreak }: DiffRow): string[] {
  const line = `${SIGNS[kind]}${text}`;
  return lacksLineBreak ? [line, "\\ No newline at end of file"] : [line];
}

/** A name of a header. A tab ends a name that contains spaces. */
function toName(path: string): string {
  return path.includes(" ") ? `${quote(path)}\t` : quote(path);
}

function quote(path: string): string {
  return /["\\\n\r\t]/.test(path) ? JSON.stringify(path) : path;
}
