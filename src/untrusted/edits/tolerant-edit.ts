import { toLf } from "../../files/line-ends.js";
import { indentRule, indentsOf, type Reindent } from "./indentation.js";
import { mergeLines, type MatchedLine } from "./merge-lines.js";
import { editInterpretations, type EditInterpretation } from "./edit-interpretations.js";
import { FileLines, indentOf, mapLine, TextView, type MatchTolerance, type ViewPlace } from "./text-views.js";
import { REINDENTED, MATCH_MODES } from "./match-modes.js";

/** A replacement in a file (one character per byte). */
export interface TolerantEdit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
  /** Line number, from 1. */
  readonly line: number;
  /** The ignored differences, in words. */
  readonly how: string;
}

/** Minimum letters and digits of a text for a tolerant match. */
const MIN_LETTERS = 3;

/** Tolerant edits of a file (one character per byte). */
export class TolerantText {
  readonly #file: FileLines;
  /** Length of the byte order mark, in bytes. */
  readonly #begin: number;
  readonly #views = new Map<MatchTolerance, TextView>();
  readonly #lineEnd: string;

  /** `lineEnd`: characters before the line feeds of new lines. */
  constructor(latin: string, lineEnd: string) {
    this.#begin = latin.startsWith("\xef\xbb\xbf") ? 3 : 0;
    this.#file = new FileLines(latin.slice(this.#begin));
    this.#lineEnd = lineEnd;
  }

  /**
   * Finds the only tolerant match of an edit whose text is not in the file exactly. Undefined if there is none. Returns
   * a message if there are several, or if the result is unclear.
   */
  edit(old: string, fresh: string): TolerantEdit | string | undefined {
    for (const reading of editInterpretations(old, fresh)) {
      const edit = this.#editBy(reading);
      if (edit !== undefined) return edit;
    }
    return undefined;
  }

  #editBy(reading: EditInterpretation): TolerantEdit | string | undefined {
    const textLines = latinOf(reading.old).split("\n");
    if ((reading.old.match(/[\p{L}\p{N}]/gu)?.length ?? 0) < MIN_LETTERS) return undefined;
    for (const [at, way] of MATCH_MODES.entries()) {
      let places = this.#places(way, textLines, reading);
      const [place] = places;
      if (!place) continue;
      // A match within a line does not take precedence over full lines that match more tolerantly.
      if (!place.isFullLines)
        for (const looser of MATCH_MODES.slice(at + 1))
          places = places.concat(
            this.#places(looser, textLines, reading).filter(
              ({ isFullLines, first }) => isFullLines && first !== place.first,
            ),
          );
      const how = [...reading.how, ...(reading.how.length > 0 && way === MATCH_MODES[0] ? [] : [way.how])].join(", ");
      if (places.length > 1) {
        const lines = [...new Set(places.map(({ first }) => first + 1))].sort((left, right) => left - right);
        return (
          `has no exact match and ${Math.max(2, lines.length)} inexact matches (${how}; lines ` +
          `${lines.slice(0, 10).join(", ")}${lines.length > 10 ? ", …" : ""}). Copy the intended lines exactly, with lines around them`
        );
      }
      const not = `has only an inexact match at line ${place.first + 1} (${how})`;
      if (reading.fresh === undefined) return `${not}, but ${reading.unclear}. Copy the text exactly from the file`;
      const edit = this.#replacement(place, textLines, latinOf(reading.fresh).split("\n"), way);
      if (!edit) return `${not}, and the result of new_string there is unclear. Copy the text exactly from the file`;
      return { ...edit, how: how + (way.indentation ? `; ${REINDENTED}` : "") };
    }
    return undefined;
  }

  #places(
    way: MatchTolerance,
    textLines: readonly string[],
    { startsAtLine, endsAtLine }: EditInterpretation,
  ): ViewPlace[] {
    return this.#view(way).places(textLines, startsAtLine, endsAtLine);
  }

  #view(way: MatchTolerance): TextView {
    let view = this.#views.get(way);
    if (!view) this.#views.set(way, (view = new TextView(this.#file, way)));
    return view;
  }

  #replacement(
    place: ViewPlace,
    textLines: readonly string[],
    fresh: readonly string[],
    way: MatchTolerance,
  ): Omit<TolerantEdit, "how"> | undefined {
    const { first, last } = place;
    const fileLines: MatchedLine[] = [];
    let [start, end] = [0, 0];
    for (let at = first; at <= last; at++) {
      const line = this.#file.lines[at] ?? "";
      const lineText = line.endsWith("\r") ? line.slice(0, -1) : line;
      const { from, to, text } = mapLine(line, way);
      const begin = at > first || way.indentation ? 0 : (from[place.from] ?? lineText.length);
      const stop = at < last || place.to === text.length ? lineText.length : (to[place.to - 1] ?? 0);
      const close = at === last && place.to === 0 ? begin : stop;
      if (at === first) start = this.#startOf(at) + begin;
      if (at === last) end = this.#startOf(at) + close;
      fileLines.push({ raw: line.slice(begin, close), end: at < last ? line.slice(lineText.length) : undefined });
    }
    const merged = way.indentation
      ? this.#mergeReindented(fileLines, textLines, fresh, way)
      : mergeLines({
          tolerance: way,
          fileLines,
          old: textLines,
          fresh,
          reindent: (indent) => indent,
          lineEnd: this.#lineEnd,
        });
    return merged === undefined ? undefined : { start, end, text: merged, line: first + 1 };
  }

  #startOf(line: number): number {
    return this.#begin + (this.#file.starts[line] ?? 0);
  }

  #mergeReindented(
    fileLines: readonly MatchedLine[],
    textLines: readonly string[],
    fresh: readonly string[],
    tolerance: MatchTolerance,
  ): string | undefined {
    const merge = (reindent: Reindent, old: readonly string[], newLines: readonly string[]): string | undefined =>
      mergeLines({ tolerance, fileLines, old, fresh: newLines, reindent, lineEnd: this.#lineEnd });
    const raws = fileLines.map(({ raw }) => raw);
    const rule = indentRule(indentsOf(textLines, raws));
    if (rule) return merge(rule, textLines, fresh);
    // A copied text often lacks only the blanks before its first word.
    const bare = (lines: readonly string[]): boolean => indentOf(lines[0] ?? "") === "" && lines[0] !== "";
    if (!bare(textLines) || !bare(fresh)) return undefined;
    const indent = indentOf(fileLines[0]?.raw ?? "");
    const withIndent = ([line = "", ...lines]: readonly string[]): string[] => [indent + line, ...lines];
    const indentedRule = indentRule(indentsOf(withIndent(textLines), raws));
    return indentedRule && merge(indentedRule, withIndent(textLines), withIndent(fresh));
  }
}

/** A text in the form of file lines: one character per byte, with line feeds as line ends. */
function latinOf(text: string): string {
  return Buffer.from(toLf(text)).toString("latin1");
}
