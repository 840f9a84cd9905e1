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

const BEGIN = "*** Begin Patch";
const END = "*** End Patch";
const SECTION = /^\*\*\* (Add|Update|Delete) File: *(\S.*)$/;
const MOVE = /^\*\*\* Move to: *(\S.*)$/;
const END_OF_FILE = "*** End of File";
/** Line numbers that other tools write after `@@`. They are ignored. */
const LINE_NUMBERS = /^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@ ?/;
/** Git's note about a last line without a line feed. */
const NO_NEWLINE_NOTE = /^\\ No newline at end of file\s*$/;
const MAX_SECTIONS = 200;

/** Parses a patch. Throws `ToolInputError` that names the invalid line. */
export function parsePatch(patch: string): PatchSection[] {
  return new PatchReader(linesOf(unwrapJson(patch))).sections();
}

/** Some models send the patch inside JSON: as the arguments of a call, or as the words of a command. */
function unwrapJson(patch: string): string {
  if (!/^\s*[{[]/.test(patch)) return patch;
  try {
    const json = parseJson(patch);
    const values: readonly unknown[] = isRecord(json) ? Object.values(json) : Array.isArray(json) ? json : [];
    const patches = values.flat().filter((value) => typeof value === "string" && value.includes(BEGIN));
    return patches.length === 1 ? String(patches[0]) : patch;
  } catch {
    return patch;
  }
}

/** Removes text that models add around a patch: a code fence, or the shell command that would apply it. */
function linesOf(patch: string): string[] {
  const lines = patch.replaceAll("\r\n", "\n").split("\n");
  const first = lines.findIndex((line) => line.trim() === BEGIN);
  const last = lines.findLastIndex((line) => line.trim() === END);
  const around = [...lines.slice(0, Math.max(0, first)), ...lines.slice(last + 1)].map((line) => line.trim());
  if (first < 0) throw new ToolInputError(`input: expected a line "${BEGIN}" at the beginning`);
  if (last < first) throw new ToolInputError(`input: expected a line "${END}" at the end`);
  const words = around.map((line) => /^(?:apply_patch *)?<<-? *(['"]?)(\w+)\1$/.exec(line)?.[2]);
  const odd = around.find(
    (line, at) => !/^(?:|```\w*|EOF|PATCH)$/.test(line) && words[at] === undefined && !words.includes(line),
  );
  if (odd !== undefined)
    throw new ToolInputError(`input: expected no text outside "${BEGIN}" and "${END}", got ${quoted(odd)}`);
  return lines.slice(first + 1, last);
}

function quoted(line: string): string {
  return JSON.stringify(line.length > 80 ? `${line.slice(0, 79)}…` : line);
}

class PatchReader {
  readonly #lines: readonly string[];
  #at = 0;

  constructor(lines: readonly string[]) {
    this.#lines = lines;
  }

  sections(): PatchSection[] {
    const sections: PatchSection[] = [];
    for (this.#skipBlank(); this.#at < this.#lines.length; this.#skipBlank()) {
      const [, action, path = ""] = SECTION.exec(this.#line.trim()) ?? [];
      if (action === undefined)
        throw this.#wrong('"*** Add File: PATH", "*** Update File: PATH" or "*** Delete File: PATH"');
      this.#at++;
      if (action === "Add") sections.push({ action: "add", path, content: this.#content() });
      else if (action === "Delete") sections.push({ action: "delete", path });
      else sections.push(this.#update(path));
      if (sections.length > MAX_SECTIONS) throw new ToolInputError(`input: expected at most ${MAX_SECTIONS} files`);
    }
    if (sections.length === 0) throw new ToolInputError("input: expected a file to add, update or delete");
    return sections;
  }

  get #line(): string {
    return this.#lines[this.#at] ?? "";
  }

  #wrong(expected: string): ToolInputError {
    return new ToolInputError(
      `input: line ${this.#at + 2} of the patch: expected ${expected}, got ${quoted(this.#line)}`,
    );
  }

  #skipBlank(): void {
    while (this.#at < this.#lines.length && this.#line.trim() === "") this.#at++;
  }

  #content(): string {
    const added: string[] = [];
    let blank = 0;
    for (; this.#at < this.#lines.length && !SECTION.test(this.#line.trimEnd()); this.#at++) {
      // Models omit the sign of an empty line. It counts as an empty line unless no further line follows.
      if (this.#line.startsWith("+")) added.push(...Array<string>(blank).fill(""), this.#line.slice(1));
      else if (this.#line.trim() !== "") throw this.#wrong('a line that begins with "+"');
      blank = this.#line.startsWith("+") ? 0 : blank + 1;
    }
    return added.map((line) => `${line}\n`).join("");
  }

  #update(path: string): PatchSection {
    const [, moveTo] = MOVE.exec(this.#line.trim()) ?? [];
    if (moveTo !== undefined) this.#at++;
    this.#skipNames();
    const chunks: PatchChunk[] = [];
    for (this.#skipBlank(); this.#at < this.#lines.length && !SECTION.test(this.#line.trimEnd()); this.#skipBlank())
      chunks.push(this.#chunk());
    if (chunks.length === 0 && moveTo === undefined) throw this.#wrong(`changes of ${quoted(path)}`);
    return { action: "update", path, ...(moveTo === undefined ? {} : { moveTo }), chunks };
  }

  /** Skips the `---` and `+++` lines of Git. They are recognized only if a line with numbers follows. */
  #skipNames(): void {
    const [old = "", fresh = "", place = ""] = this.#lines.slice(this.#at, this.#at + 3);
    if (old.startsWith("--- ") && fresh.startsWith("+++ ") && LINE_NUMBERS.test(place)) this.#at += 2;
  }

  #chunk(): PatchChunk {
    const headers: string[] = [];
    for (; /^@@/.test(this.#line); this.#at++) {
      const header = this.#line.trim().replace(LINE_NUMBERS, "@@ ").slice(2).trim();
      if (header !== "") headers.push(header);
    }
    const lines: PatchLine[] = [];
    let atEnd = false;
    for (; this.#at < this.#lines.length && !/^@@/.test(this.#line); this.#at++) {
      const line = this.#line;
      const sign = line.charAt(0);
      if (line.trimEnd() === END_OF_FILE) {
        atEnd = true;
        this.#at++;
        break;
      }
      if (SECTION.test(line.trimEnd())) break;
      // Patches of this format do not specify whether the last line ends with a line feed.
      if (NO_NEWLINE_NOTE.test(line)) continue;
      if (sign === " " || sign === "+" || sign === "-") lines.push({ sign, text: line.slice(1) });
      else if (line === "") lines.push({ sign: " ", text: "", isUnsigned: true });
      else throw this.#wrong('a line that begins with " ", "+" or "-", or "@@"');
    }
    if (!lines.some(({ sign }) => sign !== " ")) {
      this.#at = Math.min(this.#at, this.#lines.length - 1);
      throw this.#wrong('a line that begins with "+" or "-" before it');
    }
    return { headers, lines, isAtEnd: atEnd };
  }
}
