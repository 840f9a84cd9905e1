import { toPrintable } from "../../../base/printable.js";
import type { Grammar } from "../../../untrusted/grammar.js";
import { withWorker } from "../../../untrusted/workers.js";
import type { ToolContext } from "../../../ports/tool.js";
import { relativeTo } from "../files.js";

/** A file before and after a change; `oldText` is null for a new file. */
export interface ChangedFile {
  path: string;
  oldText: string | null;
  newText: string;
}

interface Fault {
  /** Line number, from 1. */
  line: number;
  message: string;
}

const JSON_FILES = /\.(json|jsonc|code-workspace|code-snippets)$/i;
const GRAMMARS_BY_FILE_NAME: readonly (readonly [files: RegExp, Grammar])[] = [
  [/\.([cm]?js|jsx)$/i, "javascript"],
  [/(?<!\.d)\.[cm]?ts$/i, "typescript"],
  [/\.tsx$/i, "tsx"],
  [/\.pyi?$/i, "python"],
  [/\.(sh|bash)$/i, "bash"],
  [/\.go$/i, "go"],
  [/\.rb$/i, "ruby"],
  [/(?<!\.blade)\.php$/i, "php"],
  [/\.java$/i, "java"],
  [/\.rs$/i, "rust"],
];
/**
 * Matches texts that are not checked: templates, dialects that the grammar does not support, and text that is not
 * UTF-8.
 */
const UNCHECKED_TEXT = /<%|\{%|\{\{\s*cookiecutter\b|@(no)?flow\b|\uFFFD|^#!.*\bpython2\b/;
/** Maximum changed files that are checked. */
const MAX_FILES = 20;
/** Maximum characters of the old and the new text together. */
const MAX_FILE_CHARACTERS = 1_000_000;
/** Maximum characters of a shown line. */
const MAX_LINE_CHARACTERS = 120;

/**
 * Returns the new syntax errors of changed files, one line each. Rejects with the signal's reason, or `WorkLimitError`.
 */
export async function findNewSyntaxFaults(
  changedFiles: readonly ChangedFile[],
  timeoutMs: number,
  { projectDir, signal }: ToolContext,
): Promise<string[]> {
  const files = changedFiles.filter((file) => isChecked(file)).slice(0, MAX_FILES);
  const toTexts = ({ oldText, newText }: ChangedFile) => ({
    oldText: oldText === null || oldText.trim() === "" ? null : removeByteOrderMark(oldText),
    newText: removeByteOrderMark(newText),
  });
  const jsonFiles = files.filter(({ path }) => JSON_FILES.test(path));
  const parsedFiles = files.flatMap((file) => {
    const [, grammar] = GRAMMARS_BY_FILE_NAME.find(([pattern]) => pattern.test(file.path)) ?? [];
    if (grammar === undefined || (grammar === "bash" && !isCheckedScript(file))) return [];
    return [{ file, grammar }];
  });
  const faultsByFile = new Map<ChangedFile, readonly Fault[]>();
  if (jsonFiles.length + parsedFiles.length > 0)
    await withWorker(signal, async (thread) => {
      if (jsonFiles.length > 0) {
        const jsonTexts = jsonFiles.map((file) => ({ name: relativeTo(file.path, projectDir), ...toTexts(file) }));
        const faults = await thread.runJob("json", { files: jsonTexts }, { ms: timeoutMs });
        jsonFiles.forEach((file, i) => faultsByFile.set(file, faults[i] ? [faults[i]] : []));
      }
      if (parsedFiles.length > 0) {
        const parserTexts = parsedFiles.map(({ file, grammar }) => ({ grammar, ...toTexts(file) }));
        const faults = await thread.runJob("syntax", { files: parserTexts }, { ms: timeoutMs });
        parsedFiles.forEach(({ file }, i) => faultsByFile.set(file, faults[i] ?? []));
      }
    });
  return files.flatMap((file) => (faultsByFile.get(file) ?? []).map((fault) => formatFault(file, fault, projectDir)));
}

function isChecked({ oldText, newText }: ChangedFile): boolean {
  const isShort = newText.length + (oldText ?? "").length <= MAX_FILE_CHARACTERS;
  return newText !== "" && isShort && !UNCHECKED_TEXT.test(newText);
}

/** Whether a script is checked. The bash grammar rejects some valid scripts, so that new scripts are not checked. */
function isCheckedScript({ path, oldText, newText }: ChangedFile): boolean {
  return (oldText ?? "").trim() !== "" && (/\.bash$/i.test(path) || /^#!.*\b(?:ba|da|a)?sh\b/.test(newText));
}

function formatFault({ path, newText }: ChangedFile, { line, message }: Fault, projectDir: string): string {
  const text = (newText.split("\n")[line - 1] ?? "").trim();
  const source = text.length > MAX_LINE_CHARACTERS ? `${text.slice(0, MAX_LINE_CHARACTERS)}…` : text;
  return `${toPrintable(relativeTo(path, projectDir))}${line > 0 ? `:${line}` : ""}: ${toPrintable(message)}${source === "" ? "" : ` | ${toPrintable(source)}`}`;
}

function removeByteOrderMark(text: string): string {
  return text.replace(/^\uFEFF/, "");
}
