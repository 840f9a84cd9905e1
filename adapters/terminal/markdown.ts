import { clean, trimEmptyLines } from "./text.js";
import { span, wrap, type Line, type Look, type Span } from "./spans.js";

/** Maximum characters of a line that are formatted together. The rest of a longer line is shown without formatting. */
const MAX_PIECE_CHARACTERS = 4_000;

/**
 * Renders a model's Markdown: headings, lists, quotes, code. Other text is unchanged. For a growing text it formats
 * only the new part.
 */
export class Prose {
  readonly #indent: Line;
  #columns = 0;
  /** Text whose rows are final: whole lines, and whole pieces of an unfinished line. */
  #done = "";
  #rows: Line[] = [];
  #fence = "";
  /** Whether the next character continues a line. */
  #isWithin = false;

  constructor(indent: Line = []) {
    this.#indent = indent;
  }

  rows(text: string, columns: number): Line[] {
    const trimmedText = trimEmptyLines(text);
    if (columns !== this.#columns || !trimmedText.startsWith(this.#done)) {
      [this.#columns, this.#done, this.#rows, this.#fence, this.#isWithin] = [columns, "", [], "", false];
    }
    let from = this.#done.length;
    for (;;) {
      const end = trimmedText.indexOf("\n", from);
      const to = end === -1 ? trimmedText.length : end;
      if (to - from > MAX_PIECE_CHARACTERS) {
        const cutAt = pieceOf(trimmedText, from);
        this.#take(trimmedText.slice(from, cutAt), this.#rows);
        this.#isWithin = true;
        from = cutAt;
      } else if (end === -1) break;
      else {
        this.#take(trimmedText.slice(from, trimmedText[end - 1] === "\r" ? end - 1 : end), this.#rows);
        this.#isWithin = false;
        from = end + 1;
      }
    }
    this.#done = trimmedText.slice(0, from);
    const rows = [...this.#rows];
    // The last line may still change: format it, but keep the fence state of the lines before it.
    const fence = this.#fence;
    if (from < trimmedText.length || !this.#isWithin) this.#take(trimmedText.slice(from).replace(/\r$/, ""), rows);
    this.#fence = fence;
    return rows;
  }

  #take(raw: string, rows: Line[]): void {
    for (const line of clean(raw).split("\n"))
      for (const row of this.#laidOut(line, this.#columns)) rows.push([...this.#indent, ...row]);
  }

  #laidOut(line: string, columns: number): Line[] {
    if (this.#isWithin)
      return this.#fence === ""
        ? wrap([span(line)], columns)
        : wrap([span(line, "code")], columns, [span("│ ", "dim")]);
    const mark = /^\s{0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (mark !== undefined && this.#fence === "") {
      this.#fence = mark;
      const language = line.replace(mark, "").trim();
      return [[span(`┌ ${language}`.trimEnd(), "dim")]];
    }
    if (this.#fence !== "" && mark?.startsWith(this.#fence) === true && line.trim() === mark) {
      this.#fence = "";
      return [[span("└", "dim")]];
    }
    if (this.#fence !== "") return wrap([span(line, "code")], columns, [span("│ ", "dim")]);
    const heading = /^#{1,6} +(.*)$/.exec(line)?.[1];
    if (heading !== undefined) return wrap([span(heading, "heading")], columns);
    if (/^ {0,3}([-*_])( *\1){2,} *$/.test(line)) return [[span("─".repeat(Math.min(columns, 40)), "dim")]];
    const item = /^( *)([-*+]|\d{1,9}[.)]) (.*)$/.exec(line);
    if (item) {
      const [, space = "", bullet = "", itemText = ""] = item;
      const sign = /\d/.test(bullet) ? bullet : "•";
      const indent = space.slice(0, Math.max(0, Math.floor(columns / 2)));
      const continuationIndent = " ".repeat(indent.length + sign.length + 1);
      return wrap(inline(itemText), columns, [span(`${indent}${sign} `)], [span(continuationIndent)]);
    }
    const quote = /^ {0,3}> ?(.*)$/.exec(line)?.[1];
    return quote !== undefined ? wrap([span(quote, "dim")], columns, [span("▌ ", "dim")]) : wrap(inline(line), columns);
  }
}

/** End of a piece of a long line that starts at `from`: after a space, or else between two characters. */
function pieceOf(text: string, from: number): number {
  const space = text.lastIndexOf(" ", from + MAX_PIECE_CHARACTERS);
  if (space > from + MAX_PIECE_CHARACTERS / 2) return space + 1;
  let to = from + MAX_PIECE_CHARACTERS;
  // Do not split a surrogate pair, or a character from its combining marks.
  while (to > from + MAX_PIECE_CHARACTERS / 2 && /^[\p{M}\u200d\udc00-\udfff]/u.test(text.slice(to, to + 2))) to -= 1;
  return to;
}

/** Parses `code`, **bold** and *italic*, each within its line. */
function inline(text: string): Span[] {
  const spans: Span[] = [];
  let at = 0;
  for (const match of text.matchAll(/`([^`]+)`|\*\*([^*]+)\*\*|(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])/g)) {
    const [matchedText, code, bold, slanted] = match;
    if (match.index > at) spans.push(span(text.slice(at, match.index)));
    const look: Look = code !== undefined ? "code" : bold !== undefined ? "bold" : "italic";
    spans.push(span(code ?? bold ?? slanted ?? matchedText, look));
    at = match.index + matchedText.length;
  }
  if (at < text.length || spans.length === 0) spans.push(span(text.slice(at)));
  return spans;
}
