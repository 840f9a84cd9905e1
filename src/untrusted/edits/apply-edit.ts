import { ToolError } from "../../ports/errors.js";
import { prefersCrlf } from "../../files/line-ends.js";
import { findMatchOffsets, replaceMatches } from "./match-offsets.js";
import { reindentReplacement } from "./reindent-replacement.js";
import { TolerantText } from "./tolerant-edit.js";
import { notFoundMessage } from "./not-found-message.js";

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
  /** For each edit: its location, in words. */
  done: string[];
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
      const which = edits.length > 1 ? `${name} (edit ${index + 1} of ${edits.length}; none was applied)` : name;
      const applied = applyEdit(latin, edit, which, maxBytes);
      latin = applied.latin;
      line ??= applied.line;
      const how = applied.how === undefined ? "" : ` (inexact match: ${applied.how})`;
      done.push(
        applied.count > 1 ? `${applied.count} occurrences from line ${applied.line}` : `at line ${applied.line}${how}`,
      );
    }
  } catch (error) {
    if (error instanceof ToolError) return { refused: error.message };
    throw error;
  }
  return { content: Buffer.from(latin, "latin1"), done, line };
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
  how?: string;
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
  const places = [...offsetsByText.values()].flat();
  if (offsetsByText.size > 1) places.sort((left, right) => left - right);
  const [first] = places;
  if (first === undefined) return applyTolerantly(latin, edit, name, maxBytes);
  if (places.length > 1 && !edit.replace_all) {
    const lines = lineNumbers(latin, places.slice(0, 10));
    throw new ToolError(
      `${name}: old_string occurs ${places.length} times (lines ${lines.join(", ")}${places.length > 10 ? ", …" : ""}). ` +
        "Add lines around it until it is unique, or set replace_all.",
    );
  }
  const freshFor = reindentReplacement(oldBytes, bytesOf(edit.new_string), prefersCrlf(latin));
  const growths = [...offsetsByText].map(([old, offsets]) => offsets.length * (freshFor(old).length - old.length));
  if ([...offsetsByText.keys()].every((old) => freshFor(old) === old))
    throw new ToolError(`${name}: old_string and new_string differ only in line endings. Nothing to do.`);
  refuseLarge(
    growths.reduce((sum, growth) => sum + growth, latin.length),
    name,
    maxBytes,
  );
  return {
    latin: replaceMatches(latin, offsetsByText, freshFor),
    count: places.length,
    line: lineNumbers(latin, [first])[0] ?? 1,
  };
}

function applyTolerantly(latin: string, edit: TextEdit, name: string, maxBytes: number): AppliedEdit {
  const match = new TolerantText(latin, prefersCrlf(latin) ? "\r" : "").edit(edit.old_string, edit.new_string);
  if (match === undefined) throw new ToolError(notFoundMessage(latin, edit.old_string, name));
  if (typeof match === "string") throw new ToolError(`${name}: old_string ${match}.`);
  const { start, end, text, line, how } = match;
  if (latin.slice(start, end) === text)
    throw new ToolError(
      `${name}: old_string has only an inexact match at line ${line} (${how}), and new_string would change nothing there.`,
    );
  refuseLarge(latin.length + text.length - (end - start), name, maxBytes);
  return { latin: latin.slice(0, start) + text + latin.slice(end), count: 1, line, how };
}

function refuseLarge(bytes: number, name: string, maxBytes: number): void {
  if (bytes > maxBytes)
    throw new ToolError(`${name}: the result would be larger than ${maxBytes} bytes. Use bash with a script.`);
}

function bytesOf(text: string): string {
  return Buffer.from(text).toString("latin1");
}

/** @param places Ascending offsets. */
function lineNumbers(latin: string, places: readonly number[]): number[] {
  let line = 1;
  let at = 0;
  return places.map((place) => {
    for (let end = latin.indexOf("\n", at); end >= 0 && end < place; end = latin.indexOf("\n", at)) {
      line++;
      at = end + 1;
    }
    return line;
  });
}
