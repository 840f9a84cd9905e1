import { ToolError } from "../../ports/errors.js";
import { prefersCrlf } from "../../files/line-ends.js";
import { findPlaces, replacePlaces } from "./find-places.js";
import { freshText } from "./reindent-replacement.js";
import { LooseText } from "./tolerant-edit.js";
import { notFound } from "./near-miss.js";

/** Edits of one file. Looking for a text in another can take the product of their lengths. */
export interface EditJob {
  content: Uint8Array;
  edits: readonly TextEdit[];
  /** As the model knows the file. */
  name: string;
  /** Most bytes of the result. */
  maxBytes: number;
}

export interface EditedFile {
  content: Uint8Array;
  /** Where each edit went, in words. */
  done: string[];
  /** Of the first one. */
  line: number | undefined;
}

/** All or none. */
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
      const how = applied.how === undefined ? "" : ` (not to the letter: ${applied.how})`;
      done.push(
        applied.count > 1 ? `${applied.count} times from line ${applied.line}` : `at line ${applied.line}${how}`,
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

/** Where an edit went. */
interface Applied {
  /** One character per byte of the file, so that bytes that are no UTF-8 come out as they went in. */
  latin: string;
  count: number;
  /** Of the first replacement, from 1. */
  line: number;
  /** What was overlooked where the text is not in the file to the letter. */
  how?: string;
}

/**
 * Replace a text: to the letter where it is in the file so, else at the one place that is meant. `latin` is the file as
 * latin1. Line ends of the file are kept, whichever ones the edit has.
 */
function applyEdit(latin: string, edit: TextEdit, name: string, maxBytes: number): Applied {
  if (edit.old_string === "")
    throw new ToolError(`${name}: old_string is empty. Give the text to replace, or use write.`);
  if (edit.old_string === edit.new_string)
    throw new ToolError(`${name}: old_string and new_string are the same. Nothing to do.`);
  const asked = bytesOf(edit.old_string);
  const found = findPlaces(latin, asked);
  const places = [...found.values()].flat();
  if (found.size > 1) places.sort((one, two) => one - two);
  const [first] = places;
  if (first === undefined) return applyLoosely(latin, edit, name, maxBytes);
  if (places.length > 1 && !edit.replace_all) {
    const lines = lineNumbers(latin, places.slice(0, 10));
    throw new ToolError(
      `${name}: old_string occurs ${places.length} times (lines ${lines.join(", ")}${places.length > 10 ? ", …" : ""}). ` +
        "Add lines around it until it is unique, or set replace_all.",
    );
  }
  const freshFor = freshText(asked, bytesOf(edit.new_string), prefersCrlf(latin));
  const growths = [...found].map(([old, some]) => some.length * (freshFor(old).length - old.length));
  if ([...found.keys()].every((old) => freshFor(old) === old))
    throw new ToolError(`${name}: old_string and new_string differ in line ends alone. Nothing to do.`);
  refuseLarge(
    growths.reduce((sum, growth) => sum + growth, latin.length),
    name,
    maxBytes,
  );
  return {
    latin: replacePlaces(latin, found, freshFor),
    count: places.length,
    line: lineNumbers(latin, [first])[0] ?? 1,
  };
}

function applyLoosely(latin: string, edit: TextEdit, name: string, maxBytes: number): Applied {
  const found = new LooseText(latin, prefersCrlf(latin) ? "\r" : "").edit(edit.old_string, edit.new_string);
  if (found === undefined) throw new ToolError(notFound(latin, edit.old_string, name));
  if (typeof found === "string") throw new ToolError(`${name}: old_string ${found}.`);
  const { start, end, text, line, how } = found;
  if (latin.slice(start, end) === text)
    throw new ToolError(
      `${name}: old_string is at line ${line} (not to the letter: ${how}), and new_string would change nothing there.`,
    );
  refuseLarge(latin.length + text.length - (end - start), name, maxBytes);
  return { latin: latin.slice(0, start) + text + latin.slice(end), count: 1, line, how };
}

function refuseLarge(bytes: number, name: string, maxBytes: number): void {
  if (bytes > maxBytes)
    throw new ToolError(
      `${name}: the file would have more bytes than edit takes (${maxBytes}). Use bash with a script.`,
    );
}

function bytesOf(text: string): string {
  return Buffer.from(text).toString("latin1");
}

/** @param places Ascending. */
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
