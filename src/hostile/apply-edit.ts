import { ToolError } from "../ports/errors.js";
import { placesOf, replaceAt } from "./find-text.js";
import { prefersCrlf, toCrlf, toLf } from "../files/line-ends.js";

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
      done.push(applied.count > 1 ? `${applied.count} times from line ${applied.line}` : `at line ${applied.line}`);
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
}

/** Replace exact text. `latin` is the file as latin1. Line ends of the file are kept, whichever ones the edit has. */
function applyEdit(latin: string, edit: TextEdit, name: string, maxBytes: number): Applied {
  if (edit.old_string === "")
    throw new ToolError(`${name}: old_string is empty. Give the text to replace, or use write.`);
  if (edit.old_string === edit.new_string)
    throw new ToolError(`${name}: old_string and new_string are the same. Nothing to do.`);
  const crlf = prefersCrlf(latin);
  const variants = [edit.old_string, toLf(edit.old_string), toCrlf(edit.old_string)].map(bytesOf);
  const found = [...new Set(variants)].map((old) => ({ old, places: placesOf(latin, old) }));
  const first = found.find(({ places }) => places.length > 0);
  if (!first) throw new ToolError(notFound(latin, edit.old_string, name));
  const { old, places } = first;
  if (places.length > 1 && !edit.replace_all) {
    const lines = lineNumbers(latin, places.slice(0, 10));
    throw new ToolError(
      `${name}: old_string occurs ${places.length} times (lines ${lines.join(", ")}${places.length > 10 ? ", …" : ""}). ` +
        "Add lines around it until it is unique, or set replace_all.",
    );
  }
  const fresh = bytesOf(crlf ? toCrlf(edit.new_string) : edit.new_string);
  if (fresh === old)
    throw new ToolError(`${name}: old_string and new_string differ in line ends alone. Nothing to do.`);
  if (latin.length + places.length * (fresh.length - old.length) > maxBytes)
    throw new ToolError(
      `${name}: the file would have more bytes than edit takes (${maxBytes}). Use bash with a script.`,
    );
  return {
    latin: replaceAt(latin, places, old.length, fresh),
    count: places.length,
    line: lineNumbers(latin, places.slice(0, 1))[0] ?? 1,
  };
}

function bytesOf(text: string): string {
  return Buffer.from(text).toString("latin1");
}

function textOf(latin: string): string {
  return Buffer.from(latin, "latin1").toString();
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

/** Why it may not have matched, by the place in the file that is most like it. */
function notFound(latin: string, wanted: string, name: string): string {
  const start = `${name}: old_string was not found`;
  const lines = toLf(wanted).split("\n");
  const numbered = lines.filter((line) => line.trim() !== "");
  if (numbered.length > 0 && numbered.every((line) => /^\s*\d+\t/.test(line)))
    return `${start}. It begins each line with a number and a tab, which are not part of the file. Leave them out.`;
  const near = closest(textOf(latin).split(/\r?\n/), lines);
  if (!near) return `${start}, nor anything like it. Read the file and copy the text exactly.`;
  const quoted = near.text.length > 200 ? `${near.text.slice(0, 199)}…` : near.text;
  const why = near.blanks ? "which differs in white space alone" : "which is most like it";
  return `${start}. Look at line ${near.line}, ${why}: ${JSON.stringify(quoted)}. Copy the text exactly as it is there, or read the file again.`;
}

/** The line where the wanted lines fit best. */
function closest(
  file: readonly string[],
  wanted: readonly string[],
): { line: number; text: string; blanks: boolean } | undefined {
  const start = wanted.findIndex((line) => line.trim() !== "");
  if (start < 0) return undefined;
  const pattern = wanted.slice(start, start + 40).map(squeezed);
  const lines = file.slice(0, 100_000).map(squeezed);
  const place = (at: number, blanks: boolean) => ({ line: at + 1, text: file[at] ?? "", blanks });
  let best = { score: 0, at: -1 };
  for (let at = 0; at < lines.length; at++) {
    // Whole lines that agree but for white space; a long one says more than a brace.
    let score = 0;
    for (const [i, line] of pattern.entries()) if (line !== "" && lines[at + i] === line) score += line.length;
    if (score > best.score) best = { score, at };
  }
  if (best.at >= 0) {
    // Told is the first line that disagrees, as that is where to look.
    const offset = pattern.findIndex((line, i) => line !== (lines[best.at + i] ?? ""));
    return place(Math.min(best.at + Math.max(0, offset), file.length - 1), offset < 0);
  }
  const pairs = pairsOf(pattern[0] ?? "");
  if (pairs.size === 0) return undefined;
  for (const [at, line] of lines.slice(0, 20_000).entries()) {
    const other = pairsOf(line);
    let common = 0;
    for (const pair of pairs) if (other.has(pair)) common++;
    const score = (2 * common) / (pairs.size + other.size);
    if (score > best.score) best = { score, at };
  }
  return best.score >= 0.5 ? place(best.at, false) : undefined;
}

function squeezed(line: string): string {
  return line.slice(0, 2_000).trim().replace(/\s+/g, " ");
}

function pairsOf(line: string): Set<string> {
  const pairs = new Set<string>();
  for (let i = 0; i + 1 < line.length && i < 300; i++) pairs.add(line.slice(i, i + 2));
  return pairs;
}
