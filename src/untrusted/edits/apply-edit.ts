import { ToolError } from "../../ports/errors.js";
import { prefersCrlf } from "../../files/line-ends.js";
import { findMatchOffsets, replaceMatches } from "./match-offsets.js";
import { createReplacer } from "./reindent-replacement.js";
import { TolerantText } from "./tolerant-edit.js";
import { formatNotFoundMessage } from "./not-found-message.js";

/** Edits of one file. The search for a text can take time proportional to the product of the lengths. */
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
  /** Description of the location of each edit. */
  descriptions: string[];
  /** Line number of the first edit. */
  line: number | undefined;
}

/** Applies all edits, or none. */
export function editText({ content, edits, name, maxBytes }: EditJob): EditedFile | { refused: string } {
  let latin = Buffer.from(content.buffer, content.byteOffset, content.byteLength).toString("latin1");
  const done: string[] = [];
  let line: number | undefined;
  try {
    for (const [index, edit] of edits.entries()) {
      const label = edits.length > 1 ? `${name} (edit ${index + 1} of ${edits.length}; none was applied)` : name;
      const appliedEdit = applyEdit(latin, edit, label, maxBytes);
      latin = appliedEdit.latin;
      line ??= appliedEdit.line;
      const differences = appliedEdit.differences === undefined ? "" : ` (inexact match: ${appliedEdit.differences})`;
      done.push(
        appliedEdit.count > 1
          ? `${appliedEdit.count} occurrences from line ${appliedEdit.line}`
          : `at line ${appliedEdit.line}${differences}`,
      );
    }
  } catch (error) {
    if (error instanceof ToolError) return { refused: error.message };
    throw error;
  }
  return { content: Buffer.from(latin, "latin1"), descriptions: done, line };
}

export interface TextEdit {
  old_string: string;
  new_string: string;
  replace_all: boolean;
}

/** Result of one edit. */
interface AppliedEdit {
  /** The file as Latin-1, one character per byte, so that bytes that are not UTF-8 stay unchanged. */
  latin: string;
  count: number;
  /** Line number of the first replacement, from 1. */
  line: number;
  /** The ignored differences, if the text did not match exactly. */
  differences?: string;
}

/**
 * Replaces a text: at its exact occurrences, otherwise at the only tolerant match. `latin` is the file as Latin-1.
 * Keeps the file's line ends, whatever the edit contains. Throws `ToolError`.
 */
function applyEdit(latin: string, edit: TextEdit, name: string, maxBytes: number): AppliedEdit {
  if (edit.old_string === "")
    throw new ToolError(`${name}: old_string is empty. Give the text to replace, or use write.`);
  if (edit.old_string === edit.new_string)
    throw new ToolError(`${name}: old_string and new_string are the same. Nothing to do.`);
  const oldBytes = bytesOf(edit.old_string);
  const offsetsByText = findMatchOffsets(latin, oldBytes);
  const offsets = [...offsetsByText.values()].flat();
  if (offsetsByText.size > 1) offsets.sort((left, right) => left - right);
  const [firstOffset] = offsets;
  if (firstOffset === undefined) return applyTolerantly(latin, edit, name, maxBytes);
  if (offsets.length > 1 && !edit.replace_all) {
    const lines = lineNumbers(latin, offsets.slice(0, 10));
    throw new ToolError(
      `${name}: old_string occurs ${offsets.length} times (lines ${lines.join(", ")}${offsets.length > 10 ? ", …" : ""}). ` +
        "Add lines around it until it is unique, or set replace_all.",
    );
  }
  const replacementFor = createReplacer(oldBytes, bytesOf(edit.new_string), prefersCrlf(latin));
  const sizeChanges = [...offsetsByText].map(
    ([old, offsets]) => offsets.length * (replacementFor(old).length - old.length),
  );
  if ([...offsetsByText.keys()].every((old) => replacementFor(old) === old))
    throw new ToolError(`${name}: old_string and new_string differ only in line endings. Nothing to do.`);
  refuseLarge(
    sizeChanges.reduce((sum, growth) => sum + growth, latin.length),
    name,
    maxBytes,
  );
  return {
    latin: replaceMatches(latin, offsetsByText, replacementFor),
    count: offsets.length,
    line: lineNumbers(latin, [firstOffset])[0] ?? 1,
  };
}

function applyTolerantly(latin: string, edit: TextEdit, name: string, maxBytes: number): AppliedEdit {
  const match = new TolerantText(latin, prefersCrlf(latin) ? "\r" : "").edit(edit.old_string, edit.new_string);
  if (match === undefined) throw new ToolError(formatNotFoundMessage(latin, edit.old_string, name));
  if (typeof match === "string") throw new ToolError(`${name}: old_string ${match}.`);
  const { start, end, text, line, differences } = match;
  if (latin.slice(start, end) === text)
    throw new ToolError(
      `${name}: old_string has only an inexact match at line ${line} (${differences}), and new_string would change nothing there.`,
    );
  refuseLarge(latin.length + text.length - (end - start), name, maxBytes);
  return { latin: latin.slice(0, start) + text + latin.slice(end), count: 1, line, differences };
}

function refuseLarge(bytes: number, name: string, maxBytes: number): void {
  if (bytes > maxBytes)
    throw new ToolError(`${name}: the result would be larger than ${maxBytes} bytes. Use bash with a script.`);
}

function bytesOf(text: string): string {
  return Buffer.from(text).toString("latin1");
}

/** @param offsets Ascending offsets. */
function lineNumbers(latin: string, offsets: readonly number[]): number[] {
  let line = 1;
  let lineStart = 0;
  return offsets.map((offset) => {
    for (let end = latin.indexOf("\n", lineStart); end >= 0 && end < offset; end = latin.indexOf("\n", lineStart)) {
      line++;
      lineStart = end + 1;
    }
    return line;
  });
}
