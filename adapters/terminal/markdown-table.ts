import { parseInline } from "./inline-markdown.js";
import { getLineText, span, wrap, type Line } from "./spans.js";
import { textWidth } from "./text.js";

/** Maximum lines of a table. Each change of an unfinished table renders all its rows again. */
const MAX_TABLE_LINES = 500;
/** Lines with more cells are shown as text. */
const MAX_TABLE_CELLS = 64;
/** Minimum columns of a shortened cell. Narrower tables are shown as a list. */
const MIN_CELL_COLUMNS = 6;
const SEPARATOR = " │ ";

type Alignment = "left" | "center" | "right";
/** The lines of a cell, before they are wrapped. */
type Cell = readonly Line[];

/** Whether the line may be a line of a table. */
export function isTableLine(line: string): boolean {
  return line.includes("|") && !/^\s{0,3}(`{3}|~{3})/.test(line);
}

/**
 * Whether a table line continues the lines of a table, of which the second separates the header from the rows.
 * `isUnfinished`: whether the line may grow.
 */
export function continuesTable(lines: readonly string[], line: string, isUnfinished: boolean): boolean {
  const [header = "", delimiter] = lines;
  if (delimiter !== undefined) return lines.length < MAX_TABLE_LINES;
  if (lines.length === 0 || (isUnfinished && header.trimStart().startsWith("|") && /^[\s|:-]+$/.test(line)))
    return true;
  const marks = splitCells(line);
  if (marks.length > MAX_TABLE_CELLS || marks.length !== splitCells(header).length) return false;
  return marks.every((mark) => /^:?-+:?$/.test(mark));
}

/** Renders the lines of a table with aligned columns, or as a list if the columns do not fit. */
export function renderTable([header = "", delimiter = "", ...lines]: readonly string[], columns: number): Line[] {
  const labels = splitCells(header).map(toCell);
  const alignments = splitCells(delimiter).map(readAlignment);
  const rows = lines.map((line) => toRow(splitCells(line), labels.length));
  const head = labels.map((cell) => cell.map(toBold));
  const widths = fitWidths(
    labels.map((_, i) => Math.max(1, ...[head, ...rows].map((row) => getWidth(row[i] ?? [])))),
    columns - SEPARATOR.length * (labels.length - 1),
  );
  if (!widths) return renderList(labels, rows, columns);
  const renderRow = (row: readonly Cell[]) => renderCells(row, widths, alignments);
  const rule: Line = [span(widths.map((width) => "─".repeat(width)).join("─┼─"), "dim")];
  const renderedRows = rows.map(renderRow);
  // Rules separate the rows if one of them has several lines.
  const hasRules = renderedRows.some(({ length }) => length > 1);
  return [...renderRow(head), rule, ...renderedRows.flatMap((row, i) => (hasRules && i > 0 ? [rule, ...row] : row))];
}

function splitCells(line: string): string[] {
  const cells = line.trim().split(/(?<!\\)\|/);
  if (cells[0]?.trim() === "") cells.shift();
  if (cells.at(-1)?.trim() === "") cells.pop();
  return cells.map((cell) => cell.trim().replaceAll("\\|", "|"));
}

/** Fills missing cells. The last cell contains all excess cells. */
function toRow(cells: readonly string[], count: number): Cell[] {
  return Array.from({ length: count }, (_, i) =>
    toCell(i === count - 1 ? cells.slice(i).join(" | ") : (cells[i] ?? "")),
  );
}

function toCell(text: string): Cell {
  return text.split(/<br ?\/?>/i).map((line) => parseInline(line.trim()));
}

function toBold(line: Line): Line {
  return line.map(({ text, style }) => span(text, style === "plain" ? "bold" : style));
}

function readAlignment(mark: string): Alignment {
  if (!mark.endsWith(":")) return "left";
  return mark.startsWith(":") ? "center" : "right";
}

function getWidth(cell: Cell): number {
  return Math.max(0, ...cell.map((line) => textWidth(getLineText(line))));
}

/** Shortens the widest columns until all fit. Undefined if a column would be too narrow. */
function fitWidths(widths: readonly number[], availableColumns: number): number[] | undefined {
  const limitWidths = (limit: number) => widths.map((width) => Math.min(width, limit));
  if (sum(limitWidths(MIN_CELL_COLUMNS)) > availableColumns) return undefined;
  let limit = Math.min(availableColumns, Math.max(...widths));
  while (sum(limitWidths(limit)) > availableColumns) limit -= 1;
  let freeColumns = availableColumns - sum(limitWidths(limit));
  return widths.map((width) => (width > limit && freeColumns-- > 0 ? limit + 1 : Math.min(width, limit)));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

function renderCells(row: readonly Cell[], widths: readonly number[], alignments: readonly Alignment[]): Line[] {
  const cells = row.map((cell, i) => cell.flatMap((line) => wrap(line, widths[i] ?? 1)));
  const height = Math.max(...cells.map(({ length }) => length));
  return Array.from({ length: height }, (_, y) =>
    cells.flatMap((lines, i): Line => {
      const line = alignLine(lines[y] ?? [], widths[i] ?? 1, alignments[i] ?? "left");
      return i === 0 ? line : [span(SEPARATOR, "dim"), ...line];
    }),
  );
}

function alignLine(line: Line, width: number, alignment: Alignment): Line {
  const freeColumns = Math.max(0, width - textWidth(getLineText(line)));
  const before = alignment === "left" ? 0 : alignment === "right" ? freeColumns : Math.floor(freeColumns / 2);
  return [span(" ".repeat(before)), ...line, span(" ".repeat(freeColumns - before))];
}

/** Renders each row as lines of `header: value`. An empty line separates two rows. */
function renderList(labels: readonly Cell[], rows: readonly (readonly Cell[])[], columns: number): Line[] {
  const labelSpans = labels.map((label) => label.flat().map(({ text }) => span(text, "bold")));
  if (rows.length === 0) return labelSpans.flatMap((label) => wrap(label, columns));
  return rows.flatMap((row, i): Line[] => [
    ...(i > 0 ? [[]] : []),
    ...row.flatMap((cell, k) => {
      const label = labelSpans[k] ?? [];
      const value = cell.flatMap((line, y): Line => (y > 0 ? [span(" "), ...line] : line));
      return wrap(getLineText(label) === "" ? value : [...label, span(": ", "bold"), ...value], columns);
    }),
  ]);
}
