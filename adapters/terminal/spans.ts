import { truncate, toGraphemes, textWidth, graphemeWidth } from "./text.js";

/** Style of a span. Styles use the terminal's 16 colours, which suit the terminal's background. */
export type SpanStyle =
  | "plain"
  | "bold"
  | "dim"
  | "italic"
  | "code"
  | "keyword"
  | "heading"
  | "accent"
  | "good"
  | "bad"
  | "warn"
  | "selected"
  | "person";

/** A part of a line with one style. The text contains no control characters. */
export interface Span {
  readonly text: string;
  readonly style: SpanStyle;
}

/** Contents of one row. */
export type Line = readonly Span[];

/** Escape codes by style. Blue is unreadable on many dark backgrounds, yellow on many light backgrounds. */
const SGR_CODES: Readonly<Record<SpanStyle, string>> = {
  plain: "",
  bold: "1",
  dim: "2",
  italic: "3",
  code: "36",
  keyword: "35",
  heading: "1;4",
  accent: "36",
  good: "32",
  bad: "31",
  warn: "1;35",
  selected: "7",
  person: "1",
};
/** Escape codes by style, for a terminal without colours. */
const COLOURLESS_SGR_CODES: Readonly<Record<SpanStyle, string>> = {
  ...SGR_CODES,
  code: "",
  keyword: "",
  accent: "",
  good: "",
  bad: "",
  warn: "1",
};

export function span(text: string, style: SpanStyle = "plain"): Span {
  return { text, style };
}

/** Converts a line to text with escape sequences for the terminal. */
export function paint(line: Line, hasColours: boolean): string {
  const codes = hasColours ? SGR_CODES : COLOURLESS_SGR_CODES;
  return line
    .map(({ text, style }) => (codes[style] === "" || text === "" ? text : `\u001b[${codes[style]}m${text}\u001b[0m`))
    .join("");
}

/** Converts a line to text for the terminal, truncated to `columns`. */
export function paintRow(line: Line, columns: number, hasColours: boolean): string {
  let remainingColumns = columns;
  const visibleSpans: Span[] = [];
  for (const { text, style } of line) {
    if (remainingColumns <= 0) break;
    const width = textWidth(text);
    visibleSpans.push(span(width <= remainingColumns ? text : truncate(text, remainingColumns), style));
    remainingColumns -= width;
  }
  return paint(visibleSpans, hasColours);
}

/** Returns the text of a line without styles. */
export function getLineText(line: Line): string {
  return line.map(({ text }) => text).join("");
}

interface Cell {
  readonly text: string;
  readonly width: number;
  readonly style: SpanStyle;
}

/**
 * Breaks a line into rows, between words if possible. `firstPrefix` precedes the first row, `nextPrefix` all other
 * rows.
 */
export function wrap(line: Line, columns: number, firstPrefix: Line = [], nextPrefix: Line = firstPrefix): Line[] {
  const contentColumns = Math.max(
    1,
    columns - Math.max(textWidth(getLineText(firstPrefix)), textWidth(getLineText(nextPrefix))),
  );
  const cells: Cell[] = [];
  for (const { text, style } of line)
    for (const grapheme of toGraphemes(text)) {
      const width = graphemeWidth(grapheme);
      // The terminal would break a grapheme that is wider than the row.
      cells.push(width > contentColumns ? { text: "?", width: 1, style } : { text: grapheme, width, style });
    }
  const rows: Line[] = [];
  let startIndex = 0;
  let usedColumns = 0;
  /** Index of the last space in the row; -1 if the row has none. */
  let spaceIndex = -1;
  for (let index = 0; index < cells.length; index += 1) {
    const cell = cells[index];
    if (!cell) break;
    if (usedColumns + cell.width > contentColumns && cell.text === " ") {
      // Drops the space at which the row breaks.
      rows.push(joinCells(cells, startIndex, index));
      startIndex = index + 1;
      usedColumns = 0;
      spaceIndex = -1;
      continue;
    }
    if (usedColumns + cell.width > contentColumns) {
      const end = spaceIndex > startIndex ? spaceIndex : index;
      rows.push(joinCells(cells, startIndex, end));
      startIndex = spaceIndex > startIndex ? spaceIndex + 1 : index;
      usedColumns = 0;
      for (let i = startIndex; i < index; i += 1) usedColumns += cells[i]?.width ?? 0;
      spaceIndex = -1;
    }
    if (cell.text === " ") spaceIndex = index;
    usedColumns += cell.width;
  }
  if (startIndex < cells.length || rows.length === 0) rows.push(joinCells(cells, startIndex, cells.length));
  return rows.map((row, i) => [...(i === 0 ? firstPrefix : nextPrefix), ...row]);
}

function joinCells(cells: readonly Cell[], startIndex: number, endIndex: number): Line {
  const spans: { text: string; style: SpanStyle }[] = [];
  for (let index = startIndex; index < endIndex; index += 1) {
    const cell = cells[index];
    if (!cell) break;
    const lastSpan = spans.at(-1);
    if (lastSpan?.style === cell.style) lastSpan.text += cell.text;
    else spans.push({ text: cell.text, style: cell.style });
  }
  return spans;
}
