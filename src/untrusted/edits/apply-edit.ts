import { ToolError } from "../../ports/errors.js";
import { prefersCrlf } from "../../files/line-ends.js";
import { findMatchOffsets, replaceMatches } from "./match-offsets.js";
import { createReplacer } from "./line-end-replacer.js";
import { TolerantText } from "./tolerant-edit.js";
import { MAX_LISTED_MATCHES } from "./match-modes.js";
import { formatNotFoundMessage } from "./not-found-message.js";

/** Edits of one file. They run in a worker thread, because tolerant matching of long texts takes long. */
export interface EditJob {
  content: Uint8Array;
  edits: readonly TextEdit[];
  /** The file's name as the model knows it. */
  name: string;
  /** Maximum size of the result, in bytes. */
  maxBytes: number;
}

export interface EditedFile {
  content: Uint8Array;
  /** The location of each edit, for the model. */
  descriptions: string[];
  /** Line number, from 1, at which the first edit of the list starts. Undefined if the list is empty. */
  line: number | undefined;
}

/** Applies all edits or none. Returns an error message for the model if an edit cannot be applied. */
export function editText({ content, edits, name, maxBytes }: EditJob): EditedFile | { errorMessage: string } {
  let latin1Text = Buffer.from(content.buffer, content.byteOffset, content.byteLength).toString("latin1");
  const descriptions: string[] = [];
  let line: number | undefined;
  try {
    for (const [index, edit] of edits.entries()) {
      const label = edits.length > 1 ? `${name} (edit ${index + 1} of ${edits.length}; none was applied)` : name;
      const appliedEdit = applyEdit(latin1Text, edit, label, maxBytes);
      latin1Text = appliedEdit.latin1Text;
      line ??= appliedEdit.line;
      const differences = appliedEdit.differences === undefined ? "" : ` (inexact match: ${appliedEdit.differences})`;
      descriptions.push(
        appliedEdit.count > 1
          ? `${appliedEdit.count} occurrences from line ${appliedEdit.line}`
          : `at line ${appliedEdit.line}${differences}`,
      );
    }
  } catch (error) {
    if (error instanceof ToolError) return { errorMessage: error.message };
    throw error;
  }
  return { content: Buffer.from(latin1Text, "latin1"), descriptions, line };
}

export interface TextEdit {
  old_string: string;
  new_string: string;
  replace_all: boolean;
}

/** Result of one edit. */
interface AppliedEdit {
  /** The file as Latin-1, one character per byte, so that bytes that are not UTF-8 stay unchanged. */
  latin1Text: string;
  /** Number of replacements. */
  count: number;
  /** Line number of the first replacement, from 1. */
  line: number;
  /** Description of the ignored differences. Undefined if the text matched exactly. */
  differences?: string;
}

/**
 * Replaces a text: at its exact occurrences, otherwise at the only tolerant match. `latin1Text` is the file as Latin-1.
 * Keeps the file's line ends, whatever the edit contains. Throws `ToolError`.
 */
function applyEdit(latin1Text: string, edit: TextEdit, name: string, maxBytes: number): AppliedEdit {
  if (edit.old_string === "")
    throw new ToolError(`${name}: old_string is empty. Give the text to replace, or use write.`);
  if (edit.old_string === edit.new_string)
    throw new ToolError(`${name}: old_string and new_string are the same. Nothing to do.`);
  const oldBytes = toLatin1(edit.old_string);
  const offsetsByText = findMatchOffsets(latin1Text, oldBytes);
  const offsets = [...offsetsByText.values()].flat();
  if (offsetsByText.size > 1) offsets.sort((left, right) => left - right);
  const [firstOffset] = offsets;
  if (firstOffset === undefined) return applyTolerantEdit(latin1Text, edit, name, maxBytes);
  if (offsets.length > 1 && !edit.replace_all) {
    const lines = findLineNumbers(latin1Text, offsets.slice(0, MAX_LISTED_MATCHES));
    throw new ToolError(
      `${name}: old_string occurs ${offsets.length} times (lines ${lines.join(", ")}${offsets.length > MAX_LISTED_MATCHES ? ", …" : ""}). ` +
        "Add lines around it until it is unique, or set replace_all.",
    );
  }
  const getReplacement = createReplacer(oldBytes, toLatin1(edit.new_string), prefersCrlf(latin1Text));
  const sizeChanges = [...offsetsByText].map(
    ([old, offsets]) => offsets.length * (getReplacement(old).length - old.length),
  );
  if ([...offsetsByText.keys()].every((old) => getReplacement(old) === old))
    throw new ToolError(`${name}: old_string and new_string differ only in line endings. Nothing to do.`);
  requireMaxSize(
    sizeChanges.reduce((sum, growth) => sum + growth, latin1Text.length),
    name,
    maxBytes,
  );
  return {
    latin1Text: replaceMatches(latin1Text, offsetsByText, getReplacement),
    count: offsets.length,
    line: findLineNumbers(latin1Text, [firstOffset])[0] ?? 1,
  };
}

/** Replaces the only tolerant match. Throws `ToolError` if there is no match, or more than one. */
function applyTolerantEdit(latin1Text: string, edit: TextEdit, name: string, maxBytes: number): AppliedEdit {
  const match = new TolerantText(latin1Text, prefersCrlf(latin1Text) ? "\r" : "").findEdit(
    edit.old_string,
    edit.new_string,
  );
  if (match === undefined) throw new ToolError(formatNotFoundMessage(latin1Text, edit.old_string, name));
  if (typeof match === "string") throw new ToolError(`${name}: old_string ${match}.`);
  const { start, end, text, line, differences } = match;
  if (latin1Text.slice(start, end) === text)
    throw new ToolError(
      `${name}: old_string has only an inexact match at line ${line} (${differences}), and new_string would change nothing there.`,
    );
  requireMaxSize(latin1Text.length + text.length - (end - start), name, maxBytes);
  return { latin1Text: latin1Text.slice(0, start) + text + latin1Text.slice(end), count: 1, line, differences };
}

function requireMaxSize(bytes: number, name: string, maxBytes: number): void {
  if (bytes > maxBytes)
    throw new ToolError(`${name}: the result would be larger than ${maxBytes} bytes. Use bash with a script.`);
}

function toLatin1(text: string): string {
  return Buffer.from(text).toString("latin1");
}

/** Returns the line numbers, from 1, of ascending offsets. */
function findLineNumbers(latin1Text: string, offsets: readonly number[]): number[] {
  let line = 1;
  let lineStart = 0;
  return offsets.map((offset) => {
    for (
      let end = latin1Text.indexOf("\n", lineStart);
      end >= 0 && end < offset;
      end = latin1Text.indexOf("\n", lineStart)
    ) {
      line++;
      lineStart = end + 1;
    }
    return line;
  });
}
