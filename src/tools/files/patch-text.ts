import { isRecord, parseJson } from "../../base/json.js";
import { ToolInputError } from "../../ports/errors.js";
import type { PatchChunk, PatchLine } from "../../untrusted/edits/apply-chunks.js";

/** The change of one file in a patch. */
export type PatchSection =
  | { readonly action: "add"; readonly path: string; readonly content: string }
  | { readonly action: "delete"; readonly path: string }
  | {
      readonly action: "update";
      readonly path: string;
      /** New path of the file. Undefined: the file is not moved. */
      readonly moveTo?: string;
      /** Empty for a file that is only moved. */
      readonly chunks: readonly PatchChunk[];
    };

const BEGIN_LINE = "*** Begin Patch";
const END_LINE = "*** End Patch";
const SECTION_HEADER = /^\*\*\* (Add|Update|Delete) File: *(\S.*)$/;
const MOVE_LINE = /^\*\*\* Move to: *(\S.*)$/;
const END_OF_FILE_LINE = "*** End of File";
/** Line numbers that other tools write after `@@`. The numbers are ignored. */
const LINE_NUMBERS_PREFIX = /^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@ ?/;
/** A header that names nothing. Some models write three dots. */
const EMPTY_HEADER = /^(?:|\.\.\.|…)$/;
/** Git's note about a last line without a line feed. */
const NO_NEWLINE_NOTE = /^\\ No newline at end of file\s*$/;
const MAX_SECTIONS = 200;
const MAX_QUOTED_CHARACTERS = 80;

/** Parses a patch. Throws a `ToolInputError` that names the invalid line. */
export function parsePatch(patch: string): PatchSection[] {
  return new PatchReader(takePatchLines(unwrapJson(patch))).readSections();
}

/** Returns the patch inside JSON, which some models send: the arguments of a call, or the words of a command. */
function unwrapJson(patch: string): string {
  if (!/^\s*[{[]/.test(patch)) return patch;
  try {
    const json = parseJson(patch);
    const values: readonly unknown[] = isRecord(json) ? Object.values(json) : Array.isArray(json) ? json : [];
    const patches = values.flat().filter((value) => typeof value === "string" && value.includes(BEGIN_LINE));
    return patches.length === 1 ? String(patches[0]) : patch;
  } catch {
    return patch;
  }
}

/** Removes text that models add around a patch: a code fence, or the shell command that would apply it. */
function takePatchLines(patch: string): string[] {
  const lines = patch.replaceAll("\r\n", "\n").split("\n");
  const beginIndex = lines.findIndex((line) => line.trim() === BEGIN_LINE);
  const endIndex = lines.findLastIndex((line) => line.trim() === END_LINE);
  const outerLines = [...lines.slice(0, Math.max(0, beginIndex)), ...lines.slice(endIndex + 1)].map((line) =>
    line.trim(),
  );
  if (beginIndex < 0) throw new ToolInputError(`input: expected a line "${BEGIN_LINE}" at the beginning`);
  if (endIndex < beginIndex) throw new ToolInputError(`input: expected a line "${END_LINE}" at the end`);
  const heredocWords = outerLines.map((line) => /^(?:apply_patch *)?<<-? *(['"]?)(\w+)\1$/.exec(line)?.[2]);
  const unexpectedLine = outerLines.find(
    (line, i) => !/^(?:|```\w*|EOF|PATCH)$/.test(line) && heredocWords[i] === undefined && !heredocWords.includes(line),
  );
  if (unexpectedLine !== undefined)
    throw new ToolInputError(
      `input: expected no text outside "${BEGIN_LINE}" and "${END_LINE}", got ${quoteLine(unexpectedLine)}`,
    );
  return lines.slice(beginIndex + 1, endIndex);
}

function quoteLine(line: string): string {
  return JSON.stringify(line.length > MAX_QUOTED_CHARACTERS ? `${line.slice(0, MAX_QUOTED_CHARACTERS - 1)}…` : line);
}

class PatchReader {
  readonly #lines: readonly string[];
  #position = 0;

  constructor(lines: readonly string[]) {
    this.#lines = lines;
  }

  readSections(): PatchSection[] {
    const sections: PatchSection[] = [];
    for (this.#skipBlankLines(); this.#position < this.#lines.length; this.#skipBlankLines()) {
      const [, action, path = ""] = SECTION_HEADER.exec(this.#line.trim()) ?? [];
      if (action === undefined)
        throw this.#createError('"*** Add File: PATH", "*** Update File: PATH" or "*** Delete File: PATH"');
      this.#position++;
      if (action === "Add") sections.push({ action: "add", path, content: this.#readContent() });
      else if (action === "Delete") sections.push({ action: "delete", path });
      else sections.push(this.#readUpdate(path));
      if (sections.length > MAX_SECTIONS) throw new ToolInputError(`input: expected at most ${MAX_SECTIONS} files`);
    }
    if (sections.length === 0) throw new ToolInputError("input: expected a file to add, update or delete");
    return sections;
  }

  get #line(): string {
    return this.#lines[this.#position] ?? "";
  }

  #createError(expected: string): ToolInputError {
    return new ToolInputError(
      `input: line ${this.#position + 2} of the patch: expected ${expected}, got ${quoteLine(this.#line)}`,
    );
  }

  #skipBlankLines(): void {
    while (this.#position < this.#lines.length && this.#line.trim() === "") this.#position++;
  }

  #readContent(): string {
    const addedLines: string[] = [];
    let blankCount = 0;
    for (; this.#position < this.#lines.length && !SECTION_HEADER.test(this.#line.trimEnd()); this.#position++) {
      // Models omit the sign of an empty line. Such a line counts as an empty line unless no further line follows.
      if (this.#line.startsWith("+")) addedLines.push(...Array<string>(blankCount).fill(""), this.#line.slice(1));
      else if (this.#line.trim() !== "") throw this.#createError('a line that begins with "+"');
      blankCount = this.#line.startsWith("+") ? 0 : blankCount + 1;
    }
    return addedLines.map((line) => `${line}\n`).join("");
  }

  #readUpdate(path: string): PatchSection {
    const [, moveTo] = MOVE_LINE.exec(this.#line.trim()) ?? [];
    if (moveTo !== undefined) this.#position++;
    this.#skipFileNames();
    const chunks: PatchChunk[] = [];
    for (
      this.#skipBlankLines();
      this.#position < this.#lines.length && !SECTION_HEADER.test(this.#line.trimEnd());
      this.#skipBlankLines()
    )
      chunks.push(this.#readChunk());
    if (chunks.length === 0 && moveTo === undefined) throw this.#createError(`changes of ${quoteLine(path)}`);
    return { action: "update", path, ...(moveTo === undefined ? {} : { moveTo }), chunks };
  }

  /** Skips the `---` and `+++` lines of Git, which are recognized only if a line with numbers follows. */
  #skipFileNames(): void {
    const [oldNameLine = "", newNameLine = "", rangeLine = ""] = this.#lines.slice(this.#position, this.#position + 3);
    if (oldNameLine.startsWith("--- ") && newNameLine.startsWith("+++ ") && LINE_NUMBERS_PREFIX.test(rangeLine))
      this.#position += 2;
  }

  #readChunk(): PatchChunk {
    const headers: string[] = [];
    for (; /^@@/.test(this.#line); this.#position++) {
      const header = this.#line.trim().replace(LINE_NUMBERS_PREFIX, "@@ ").slice(2).replace(/@@$/, "").trim();
      if (!EMPTY_HEADER.test(header)) headers.push(header);
    }
    const lines: PatchLine[] = [];
    let isAtEnd = false;
    for (; this.#position < this.#lines.length && !/^@@/.test(this.#line); this.#position++) {
      const line = this.#line;
      const sign = line.charAt(0);
      if (line.trimEnd() === END_OF_FILE_LINE) {
        isAtEnd = true;
        this.#position++;
        break;
      }
      if (SECTION_HEADER.test(line.trimEnd())) break;
      // Patches of this format do not specify whether the last line ends with a line feed.
      if (NO_NEWLINE_NOTE.test(line)) continue;
      if (sign === " " || sign === "+" || sign === "-") lines.push({ sign, text: line.slice(1) });
      else if (line === "") lines.push({ sign: " ", text: "", isUnsigned: true });
      else throw this.#createError('a line that begins with " ", "+" or "-", or "@@"');
    }
    if (!lines.some(({ sign }) => sign !== " ")) {
      this.#position = Math.min(this.#position, this.#lines.length - 1);
      throw this.#createError('a line that begins with "+" or "-" before it');
    }
    return { headers, lines, isAtEnd };
  }
}
