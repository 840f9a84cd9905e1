// Output of the bench: a table with PASS or FAIL for each row, as text, JSON or Markdown.
import { ROWS, meetsGoal, getRow, formatGoal, type Row } from "./rows.js";
import { summarize, type Summary } from "./statistics.js";
import type { Figure, RowMeasurement } from "./bench.js";

/** Result of a row, as in the JSON output. */
export interface Result {
  row: string;
  title: string;
  unit: Row["unit"];
  goal: string;
  comparedValue: number;
  pass: boolean;
  gantry: FigureSummary;
  floor?: FigureSummary & { description: string };
  peers: Readonly<Record<string, FigureSummary>>;
  notes: readonly string[];
}

type FigureSummary = Summary & { cpuMs?: number };

const summarizeFigure = ({ samples, cpuMs }: Figure): FigureSummary => ({
  ...summarize(samples),
  ...(cpuMs === undefined ? {} : { cpuMs }),
});

/** Creates the result of a row from its measurement and its goal. */
export function createResult({
  row: id,
  comparedValue,
  gantry,
  floor,
  peers = {},
  notes = [],
}: RowMeasurement): Result {
  const row = getRow(id);
  return {
    row: id,
    title: row.title,
    unit: row.unit,
    goal: formatGoal(row),
    comparedValue,
    pass: meetsGoal(row, comparedValue),
    gantry: summarizeFigure(gantry),
    ...(floor ? { floor: { ...summarizeFigure(floor), description: row.floor } } : {}),
    peers: Object.fromEntries(Object.entries(peers).map(([name, figure]) => [name, summarizeFigure(figure)])),
    notes,
  };
}

/** Formats a value: the larger the value, the fewer decimals (at most three). `-` for a missing or infinite value. */
export function formatNumber(value: number | undefined): string {
  if (value === undefined || !Number.isFinite(value)) return "-";
  const magnitude = Math.abs(value);
  if (magnitude >= 1000) return Math.round(value).toLocaleString("en-US");
  return value.toFixed(magnitude >= 100 ? 0 : magnitude >= 10 ? 1 : magnitude >= 1 ? 2 : 3);
}

const formatComparedValue = ({ row, comparedValue }: Result): string => {
  const { goal, unit } = getRow(row);
  return goal.comparison === "ratio"
    ? `${formatNumber(comparedValue)}x`
    : `${goal.comparison === "difference" ? "+ " : ""}${formatNumber(comparedValue)} ${unit}`;
};

function createCells(result: Result, peers: readonly string[]): string[] {
  const { title, goal, gantry, floor, pass, unit } = result;
  const spread = gantry.count > 1 ? ` (${formatNumber(gantry.min)}-${formatNumber(gantry.max)})` : "";
  return [
    title,
    goal,
    formatComparedValue(result),
    pass ? "PASS" : "FAIL",
    `${formatNumber(gantry.median)}${spread} ${unit}`,
    formatNumber(gantry.cpuMs),
    floor ? `${formatNumber(floor.median)}${floor.description === "" ? "" : ` (${floor.description})`}` : "-",
    formatNumber(floor?.cpuMs),
    ...peers.map((name) => formatNumber(result.peers[name]?.median)),
  ];
}

const COLUMN_TITLES = ["row", "goal", "reached", "", "gantry (min-max)", "CPU ms", "floor", "CPU ms"];

function createTable(results: readonly Result[]): string[][] {
  const peers = [...new Set(results.flatMap((result) => Object.keys(result.peers)))];
  return [[...COLUMN_TITLES, ...peers], ...sortResults(results).map((result) => createCells(result, peers))];
}

function sortResults(results: readonly Result[]): Result[] {
  const order = ROWS.map(({ id }) => id);
  return [...results].sort((a, b) => order.indexOf(a.row) - order.indexOf(b.row));
}

/** Formats the results as a text table for a terminal. */
export function formatTable(results: readonly Result[]): string {
  const rows = createTable(results);
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  const lines = rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
  const notes = sortResults(results).flatMap(({ title, notes: resultNotes }) =>
    resultNotes.map((note) => `  ${title}: ${note}`),
  );
  return `${[...lines, ...(notes.length > 0 ? ["", ...notes] : [])].join("\n")}\n`;
}

/**
 * Formats the results as Markdown for docs/performance.md. Each of `introduction` is a paragraph; `skippedRows` says
 * which rows are missing.
 */
export function formatMarkdown(
  results: readonly Result[],
  introduction: readonly string[],
  skippedRows: readonly string[] = [],
): string {
  const [titles = [], ...rows] = createTable(results);
  const formatLine = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  const notes = sortResults(results).flatMap(({ title, notes: resultNotes }) =>
    resultNotes.map((note) => `${title}: ${note}`),
  );
  const listItems = [...skippedRows, ...notes].map((note) => `- ${note}`);
  return [
    ...introduction.flatMap((paragraph) => [paragraph, ""]),
    formatLine(titles),
    formatLine(titles.map(() => "---")),
    ...rows.map(formatLine),
    ...(listItems.length > 0 ? ["", ...listItems] : []),
  ].join("\n");
}

/** Formats the line that is printed as soon as a row is measured. */
export function formatVerdict(result: Result): string {
  const { pass, title, goal, floor, gantry, unit } = result;
  const floorText = floor ? `, ${floor.description || "floor"} ${formatNumber(floor.median)}` : "";
  const gantryResult = `gantry ${formatNumber(gantry.median)} ${unit}`;
  return `${pass ? "PASS" : "FAIL"}  ${title}: ${formatComparedValue(result)} (goal ${goal}; ${gantryResult}${floorText})`;
}
