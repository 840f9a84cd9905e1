import { toLf } from "../../files/line-ends.js";
import { findIndentRule, pairIndents, type Reindent } from "./indentation.js";
import { mergeLines, type MatchedLine } from "./merge-lines.js";
import { interpretEdit, type EditInterpretation } from "./edit-interpretations.js";
import { FileLines, indentOf, mapLine, TextView, type MatchTolerance, type ViewMatch } from "./text-views.js";
import { REINDENT_NOTE, MATCH_MODES, MAX_LISTED_MATCHES } from "./match-modes.js";

/** A replacement in a file (one character per byte). */
export interface TolerantEdit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
  /** Line number, from 1. */
  readonly line: number;
  /** Description of the ignored differences, for the model. */
  readonly differences: string;
}

/** Minimum letters and digits of a text for a tolerant match. */
const MIN_LETTERS = 3;

/** Tolerant edits of a file (one character per byte). */
export class TolerantText {
  readonly #file: FileLines;
  /** Length of the byte order mark, in bytes. */
  readonly #markBytes: number;
  readonly #views = new Map<MatchTolerance, TextView>();
  readonly #lineEnd: string;

  /** `lineEnd`: characters before the line feeds of new lines. */
  constructor(latin1Text: string, lineEnd: string) {
    this.#markBytes = latin1Text.startsWith("\xef\xbb\xbf") ? 3 : 0;
    this.#file = new FileLines(latin1Text.slice(this.#markBytes));
    this.#lineEnd = lineEnd;
  }

  /**
   * Finds the only tolerant match of an edit whose text has no exact match. Returns undefined without a tolerant match,
   * and an error message for the model if there are several matches or the result is unclear.
   */
  findEdit(old: string, replacement: string): TolerantEdit | string | undefined {
    for (const interpretation of interpretEdit(old, replacement)) {
      const edit = this.#applyInterpretation(interpretation);
      if (edit !== undefined) return edit;
    }
    return undefined;
  }

  #applyInterpretation(interpretation: EditInterpretation): TolerantEdit | string | undefined {
    const textLines = toLatin1(interpretation.old).split("\n");
    if ((interpretation.old.match(/[\p{L}\p{N}]/gu)?.length ?? 0) < MIN_LETTERS) return undefined;
    for (const [modeIndex, mode] of MATCH_MODES.entries()) {
      let matches = this.#findMatches(mode, textLines, interpretation);
      const [match] = matches;
      if (!match) continue;
      // A match within a line does not take precedence over full lines that match more tolerantly.
      if (!match.isFullLines)
        for (const looserMode of MATCH_MODES.slice(modeIndex + 1))
          matches = matches.concat(
            this.#findMatches(looserMode, textLines, interpretation).filter(
              ({ isFullLines, first }) => isFullLines && first !== match.first,
            ),
          );
      const differences = [
        ...interpretation.differences,
        ...(interpretation.differences.length > 0 && mode === MATCH_MODES[0] ? [] : [mode.differences]),
      ].join(", ");
      if (matches.length > 1) {
        const lines = [...new Set(matches.map(({ first }) => first + 1))].sort((left, right) => left - right);
        // Two matches can start on the same line.
        return (
          `has no exact match and ${Math.max(2, lines.length)} inexact matches (${differences}; lines ` +
          `${lines.slice(0, MAX_LISTED_MATCHES).join(", ")}${lines.length > MAX_LISTED_MATCHES ? ", …" : ""}). Copy the intended lines exactly, with lines around them`
        );
      }
      const matchNote = `has only an inexact match at line ${match.first + 1} (${differences})`;
      if (interpretation.replacement === undefined)
        return `${matchNote}, but ${interpretation.unclearReason}. Copy the text exactly from the file`;
      const edit = this.#createReplacement(match, textLines, toLatin1(interpretation.replacement).split("\n"), mode);
      if (!edit)
        return `${matchNote}, and the result of new_string there is unclear. Copy the text exactly from the file`;
      return { ...edit, differences: differences + (mode.indentation ? `; ${REINDENT_NOTE}` : "") };
    }
    return undefined;
  }

  #findMatches(
    mode: MatchTolerance,
    textLines: readonly string[],
    { startsAtLine, endsAtLine }: EditInterpretation,
  ): ViewMatch[] {
    return this.#getView(mode).findMatches(textLines, startsAtLine, endsAtLine);
  }

  #getView(mode: MatchTolerance): TextView {
    let view = this.#views.get(mode);
    if (!view) this.#views.set(mode, (view = new TextView(this.#file, mode)));
    return view;
  }

  #createReplacement(
    match: ViewMatch,
    textLines: readonly string[],
    replacement: readonly string[],
    mode: MatchTolerance,
  ): Omit<TolerantEdit, "differences"> | undefined {
    const { first, last } = match;
    const fileLines: MatchedLine[] = [];
    let [start, end] = [0, 0];
    for (let row = first; row <= last; row++) {
      const line = this.#file.lines[row] ?? "";
      const lineText = line.endsWith("\r") ? line.slice(0, -1) : line;
      const { from, to, text } = mapLine(line, mode);
      const startColumn = row > first || mode.indentation ? 0 : (from[match.from] ?? lineText.length);
      const matchedEndColumn = row < last || match.to === text.length ? lineText.length : (to[match.to - 1] ?? 0);
      const endColumn = row === last && match.to === 0 ? startColumn : matchedEndColumn;
      if (row === first) start = this.#getLineStart(row) + startColumn;
      if (row === last) end = this.#getLineStart(row) + endColumn;
      fileLines.push({
        raw: line.slice(startColumn, endColumn),
        end: row < last ? line.slice(lineText.length) : undefined,
      });
    }
    const mergedText = mode.indentation
      ? this.#mergeReindented(fileLines, textLines, replacement, mode)
      : mergeLines({
          tolerance: mode,
          fileLines,
          old: textLines,
          replacement,
          reindent: (indent) => indent,
          lineEnd: this.#lineEnd,
        });
    return mergedText === undefined ? undefined : { start, end, text: mergedText, line: first + 1 };
  }

  #getLineStart(line: number): number {
    return this.#markBytes + (this.#file.starts[line] ?? 0);
  }

  #mergeReindented(
    fileLines: readonly MatchedLine[],
    textLines: readonly string[],
    replacement: readonly string[],
    tolerance: MatchTolerance,
  ): string | undefined {
    const merge = (reindent: Reindent, old: readonly string[], newLines: readonly string[]): string | undefined =>
      mergeLines({ tolerance, fileLines, old, replacement: newLines, reindent, lineEnd: this.#lineEnd });
    const fileTexts = fileLines.map(({ raw }) => raw);
    const rule = findIndentRule(pairIndents(textLines, fileTexts));
    if (rule) return merge(rule, textLines, replacement);
    // A copied text often lacks only the blanks before its first word.
    const isUnindented = (lines: readonly string[]): boolean => indentOf(lines[0] ?? "") === "" && lines[0] !== "";
    if (!isUnindented(textLines) || !isUnindented(replacement)) return undefined;
    const indent = indentOf(fileLines[0]?.raw ?? "");
    const addIndent = ([line = "", ...lines]: readonly string[]): string[] => [indent + line, ...lines];
    const indentedRule = findIndentRule(pairIndents(addIndent(textLines), fileTexts));
    return indentedRule && merge(indentedRule, addIndent(textLines), addIndent(replacement));
  }
}

/** Encodes a text like the file's lines: one character per byte, with line feeds as line ends. */
function toLatin1(text: string): string {
  return Buffer.from(toLf(text)).toString("latin1");
}
