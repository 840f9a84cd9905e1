import { toLf } from "../../files/line-ends.js";
import { indentRule, indentsOf, type Reindent } from "./indentation.js";
import { mergeLines, type FoundLine } from "./merge-lines.js";
import { editInterpretations, type EditInterpretation } from "./edit-interpretations.js";
import { FileLines, indentOf, mapped, TextView, type MatchTolerance, type ViewPlace } from "./text-views.js";
import { REINDENTED, MATCH_MODES } from "./match-modes.js";

/** A replacement in a file, one character a byte. */
export interface TolerantEdit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
  /** From 1. */
  readonly line: number;
  /** What was overlooked, in words. */
  readonly how: string;
}

/** A text with less in it is found by its letter alone. */
const MIN_LETTERS = 3;

/** The lines of a file, one character a byte, and how they are compared. */
export class TolerantText {
  readonly #file: FileLines;
  /** Bytes of the byte order mark. */
  readonly #begin: number;
  readonly #views = new Map<MatchTolerance, TextView>();
  readonly #lineEnd: string;

  /** `lineEnd`: what stands before the line feeds of new lines. */
  constructor(latin: string, lineEnd: string) {
    this.#begin = latin.startsWith("\xef\xbb\xbf") ? 3 : 0;
    this.#file = new FileLines(latin.slice(this.#begin));
    this.#lineEnd = lineEnd;
  }

  /**
   * The one place that is meant by an edit whose text is not in the file to the letter. Undefined where there is none; a
   * text where there are several, or where it cannot be said what to make of it.
   */
  edit(old: string, fresh: string): TolerantEdit | string | undefined {
    for (const reading of editInterpretations(old, fresh)) {
      const found = this.#by(reading);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  #by(reading: EditInterpretation): TolerantEdit | string | undefined {
    const wanted = latinOf(reading.old).split("\n");
    if ((reading.old.match(/[\p{L}\p{N}]/gu)?.length ?? 0) < MIN_LETTERS) return undefined;
    for (const [at, way] of MATCH_MODES.entries()) {
      let places = this.#places(way, wanted, reading);
      const [place] = places;
      if (!place) continue;
      // Part of a line is not preferred to lines that are meant as a whole, maybe.
      if (!place.whole)
        for (const looser of MATCH_MODES.slice(at + 1))
          places = places.concat(
            this.#places(looser, wanted, reading).filter(({ whole, first }) => whole && first !== place.first),
          );
      const how = [...reading.how, ...(reading.how.length > 0 && way === MATCH_MODES[0] ? [] : [way.how])].join(", ");
      if (places.length > 1) {
        const lines = [...new Set(places.map(({ first }) => first + 1))].sort((one, other) => one - other);
        return (
          `is nowhere to the letter, and ${Math.max(2, lines.length)} times not to the letter (${how}; lines ` +
          `${lines.slice(0, 10).join(", ")}${lines.length > 10 ? ", …" : ""}). Copy the lines that you mean exactly, with lines around them`
        );
      }
      const not = `is at line ${place.first + 1}, not to the letter (${how})`;
      if (reading.fresh === undefined) return `${not}, but ${reading.unclear}. Copy the text exactly as it is there`;
      const edit = this.#replacement(place, wanted, latinOf(reading.fresh).split("\n"), way);
      if (!edit) return `${not}, and what new_string becomes there is not clear. Copy the text exactly as it is there`;
      return { ...edit, how: how + (way.indentation ? `; ${REINDENTED}` : "") };
    }
    return undefined;
  }

  #places(way: MatchTolerance, wanted: readonly string[], { begins, ends }: EditInterpretation): ViewPlace[] {
    return this.#view(way).places(wanted, begins, ends);
  }

  #view(way: MatchTolerance): TextView {
    let view = this.#views.get(way);
    if (!view) this.#views.set(way, (view = new TextView(this.#file, way)));
    return view;
  }

  #replacement(
    place: ViewPlace,
    wanted: readonly string[],
    fresh: readonly string[],
    way: MatchTolerance,
  ): Omit<TolerantEdit, "how"> | undefined {
    const { first, last } = place;
    const found: FoundLine[] = [];
    let [start, end] = [0, 0];
    for (let at = first; at <= last; at++) {
      const line = this.#file.lines[at] ?? "";
      const own = line.endsWith("\r") ? line.slice(0, -1) : line;
      const { from, to, text } = mapped(line, way);
      const begin = at > first || way.indentation ? 0 : (from[place.from] ?? own.length);
      const stop = at < last || place.to === text.length ? own.length : (to[place.to - 1] ?? 0);
      const close = at === last && place.to === 0 ? begin : stop;
      if (at === first) start = this.#startOf(at) + begin;
      if (at === last) end = this.#startOf(at) + close;
      found.push({ raw: line.slice(begin, close), end: at < last ? line.slice(own.length) : undefined });
    }
    const merged = way.indentation
      ? this.#indented(found, wanted, fresh, way)
      : mergeLines({ tolerance: way, found, old: wanted, fresh, reindent: (indent) => indent, lineEnd: this.#lineEnd });
    return merged === undefined ? undefined : { start, end, text: merged, line: first + 1 };
  }

  #startOf(line: number): number {
    return this.#begin + (this.#file.starts[line] ?? 0);
  }

  #indented(
    found: readonly FoundLine[],
    wanted: readonly string[],
    fresh: readonly string[],
    tolerance: MatchTolerance,
  ): string | undefined {
    const merge = (reindent: Reindent, old: readonly string[], other: readonly string[]): string | undefined =>
      mergeLines({ tolerance, found, old, fresh: other, reindent, lineEnd: this.#lineEnd });
    const raws = found.map(({ raw }) => raw);
    const rule = indentRule(indentsOf(wanted, raws));
    if (rule) return merge(rule, wanted, fresh);
    // Who copies a piece often leaves out the blanks before its first word, and no others.
    const bare = (lines: readonly string[]): boolean => indentOf(lines[0] ?? "") === "" && lines[0] !== "";
    if (!bare(wanted) || !bare(fresh)) return undefined;
    const indent = indentOf(found[0]?.raw ?? "");
    const whole = ([line = "", ...lines]: readonly string[]): string[] => [indent + line, ...lines];
    const other = indentRule(indentsOf(whole(wanted), raws));
    return other && merge(other, whole(wanted), whole(fresh));
  }
}

/** As the lines of a file are held: one character a byte, lines ended by line feeds alone. */
function latinOf(text: string): string {
  return Buffer.from(toLf(text)).toString("latin1");
}
