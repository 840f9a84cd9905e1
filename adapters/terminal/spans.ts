import { truncate, graphemes, textWidth, graphemeWidth } from "./text.js";

/** Meaning of a piece of a line. It maps to the terminal's 16 colours, which suit its background. */
export type Look =
  "plain" | "bold" | "dim" | "italic" | "code" | "heading" | "accent" | "good" | "bad" | "warn" | "selected" | "person";

/** A piece of a line. Its text is clean: it contains no control characters. */
export interface Span {
  readonly text: string;
  readonly look: Look;
}

/** Contents of one row. */
export type Line = readonly Span[];

/** Does not use blue and yellow: blue is unreadable on many dark backgrounds, yellow on many light ones. */
const CODES: Readonly<Record<Look, string>> = {
  plain: "",
  bold: "1",
  dim: "2",
  italic: "3",
  code: "36",
  heading: "1;4",
  accent: "36",
  good: "32",
  bad: "31",
  warn: "1;35",
  selected: "7",
  person: "1",
};
/** Codes without colours; only weight distinguishes them. */
const COLOURLESS: Readonly<Record<Look, string>> = {
  ...CODES,
  code: "",
  accent: "",
  good: "",
  bad: "",
  warn: "1",
};

export function span(text: string, look: Look = "plain"): Span {
  return { text, look };
}

export function paint(line: Line, colours: boolean): string {
  const codes = colours ? CODES : COLOURLESS;
  return line
    .map(({ text, look }) => (codes[look] === "" || text === "" ? text : `\u001b[${codes[look]}m${text}\u001b[0m`))
    .join("");
}

/** A line as text for the terminal, cut to `columns`. */
export function paintRow(line: Line, columns: number, hasColours: boolean): string {
  let remainingColumns = columns;
  const fitting: Span[] = [];
  for (const { text, look } of line) {
    if (remainingColumns <= 0) break;
    const width = textWidth(text);
    fitting.push(span(width <= remainingColumns ? text : truncate(text, remainingColumns), look));
    remainingColumns -= width;
  }
  return paint(fitting, hasColours);
}

/** Text of a line, without styles. */
export function textOf(line: Line): string {
  return line.map(({ text }) => text).join("");
}

interface Cell {
  readonly text: string;
  readonly width: number;
  readonly look: Look;
}

/**
 * Breaks a line into rows, between words if possible. The third argument precedes the first row, the fourth all others.
 * Default of the fourth: the third.
 */
export function wrap(line: Line, columns: number, first: Line = [], continuation: Line = first): Line[] {
  const room = Math.max(1, columns - Math.max(textWidth(textOf(first)), textWidth(textOf(continuation))));
  const cells: Cell[] = [];
  for (const { text, look } of line)
    for (const grapheme of graphemes(text)) {
      const width = graphemeWidth(grapheme);
      // The terminal would break a grapheme that is wider than the row.
      cells.push(width > room ? { text: "?", width: 1, look } : { text: grapheme, width, look });
    }
  const rows: Line[] = [];
  let start = 0;
  let used = 0;
  let space = -1;
  for (let at = 0; at < cells.length; at += 1) {
    const cell = cells[at];
    if (!cell) break;
    if (used + cell.width > room && cell.text === " ") {
      // Drops the space at which the row breaks.
      rows.push(joined(cells, start, at));
      start = at + 1;
      used = 0;
      space = -1;
      continue;
    }
    if (used + cell.width > room) {
      const end = space > start ? space : at;
      rows.push(joined(cells, start, end));
      start = space > start ? space + 1 : at;
      used = 0;
      for (let i = start; i < at; i += 1) used += cells[i]?.width ?? 0;
      space = -1;
    }
    if (cell.text === " ") space = at;
    used += cell.width;
  }
  if (start < cells.length || rows.length === 0) rows.push(joined(cells, start, cells.length));
  return rows.map((row, i) => [...(i === 0 ? first : continuation), ...row]);
}

function joined(cells: readonly Cell[], from: number, to: number): Line {
  const spans: { text: string; look: Look }[] = [];
  for (let at = from; at < to; at += 1) {
    const cell = cells[at];
    if (!cell) break;
    const last = spans.at(-1);
    if (last?.look === cell.look) last.text += cell.text;
    else spans.push({ text: cell.text, look: cell.look });
  }
  return spans;
}
