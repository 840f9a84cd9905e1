import { toLf } from "../../files/line-ends.js";
import { findIndentRule, pairIndents, type Reindent } from "./indentation.js";
import { mergeLines, type MatchedLine } from "./merge-lines.js";
import { interpretEdit, type EditInterpretation } from "./edit-interpretations.js";
import { FileLines, indentOf, mapLine, TextView, type MatchTolerance, type ViewMatch } from "./text-views.js";
import { REINDENT_NOTE, MATCH_MODES, MAX_LISTED_MATCHES } from "./match-modes.js";

/** A replacement in a file text decoded as latin1. `start` and `end` are byte offsets; `end` is exclusive. */
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

/** Finds tolerant edits in a file text decoded as latin1. */
export class TolerantText {
  readonly #file: FileLines;
  /** Length of the byte order mark, in bytes. */
  readonly #markBytes: number;
  readonly #views = new Map<MatchTolerance, TextView>();
  readonly #lineEnd: string;

  /** `lineEnd`: `\r` for a file with CRLF line ends, otherwise `""`. */
  constructor(latin1Text: string, lineEnd: string) {
    this.#markBytes = latin1Text.startsWith("\xef\xbb\xbf") ? 3 : 0;
    this.#file = new FileLines(latin1Text.slice(this.#markBytes));
    this.#lineEnd = lineEnd;
  }

  /**
   * Finds the only tolerant match of an edit whose text has no exact match. Returns undefined without a tolerant match.
   * Returns the predicate of an error message (`has no exact match and ...`) if there are several matches or the result
   * is unclear. The caller adds the subject.
   */
  findEdit(oldText: string, replacement: string): TolerantEdit | string | undefined {
    for (const interpretation of interpretEdit(oldText, replacement)) {
      const edit = this.#applyInterpretation(interpretation);
      if (edit !== undefined) return edit;
    }
    return undefined;
  }

  #applyInterpretation(interpretation: EditInterpretation): TolerantEdit | string | undefined {
    const textLines = toLatin1(interpretation.oldText).split("\n");
    if ((interpretation.oldText.match(/[\p{L}\p{N}]/gu)?.length ?? 0) < MIN_LETTERS) return undefined;
    for (const [modeIndex, mode] of MATCH_MODES.entries()) {
      let matches = this.#findMatches(mode, textLines, interpretation);
      const [match] = matches;
      if (!match) continue;
      // A match within a line does not take precedence over full lines that match more tolerantly.
      if (!match.isFullLines)
        for (const looserMode of MATCH_MODES.slice(modeIndex + 1))
          matches = matches.concat(
            this.#findMatches(looserMode, textLines, interpretation).filter(
              ({ isFullLines, firstRow }) => isFullLines && firstRow !== match.firstRow,
            ),
          );
      const differences = [
        ...interpretation.differences,
        ...(interpretation.differences.length > 0 && mode === MATCH_MODES[0] ? [] : [mode.differences]),
      ].join(", ");
      if (matches.length > 1) {
        const lines = [...new Set(matches.map(({ firstRow }) => firstRow + 1))].sort((left, right) => left - right);
        // Two matches can start on the same line.
        return (
          `has no exact match and ${Math.max(2, lines.length)} inexact matches (${differences}; lines ` +
          `${lines.slice(0, MAX_LISTED_MATCHES).join(", ")}${lines.length > MAX_LISTED_MATCHES ? ", …" : ""}). Copy the intended lines exactly, with lines around them`
        );
      }
      const matchNote = `has only an inexact match at line ${match.firstRow + 1} (${differences})`;
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
    const { firstRow, lastRow } = match;
    const fileLines: MatchedLine[] = [];
    let [start, end] = [0, 0];
    for (let row = firstRow; row <= lastRow; row++) {
      const line = this.#file.lines[row] ?? "";
      const lineText = line.endsWith("\r") ? line.slice(0, -1) : line;
      const { startColumns, endColumns, text } = mapLine(line, mode);
      const startColumn = row > firstRow || mode.indentation ? 0 : (startColumns[match.from] ?? lineText.length);
      const matchedEndColumn =
        row < lastRow || match.to === text.length ? lineText.length : (endColumns[match.to - 1] ?? 0);
      const endColumn = row === lastRow && match.to === 0 ? startColumn : matchedEndColumn;
      if (row === firstRow) start = this.#getLineStart(row) + startColumn;
      if (row === lastRow) end = this.#getLineStart(row) + endColumn;
      fileLines.push({
        raw: line.slice(startColumn, endColumn),
        lineEnd: row < lastRow ? line.slice(lineText.length) : undefined,
      });
    }
    const mergedText = mode.indentation
      ? this.#mergeReindented(fileLines, textLines, replacement, mode)
      : mergeLines({
          tolerance: mode,
          fileLines,
          oldLines: textLines,
          replacement,
          reindent: (indent) => indent,
          lineEnd: this.#lineEnd,
        });
    return mergedText === undefined ? undefined : { start, end, text: mergedText, line: firstRow + 1 };
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
    const merge = (reindent: Reindent, oldLines: readonly string[], newLines: readonly string[]): string | undefined =>
      mergeLines({ tolerance, fileLines, oldLines, replacement: newLines, reindent, lineEnd: this.#lineEnd });
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
