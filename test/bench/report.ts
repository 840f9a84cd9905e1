// Output of the bench: a table with PASS or FAIL for each row, as text, JSON or Markdown.
import { ROWS, passes, rowOf, wordsOf, type Row } from "./rows.js";
import { summary, type Summary } from "./statistics.js";
import type { Figure, Line } from "./bench.js";

/** Result of a row, as in the JSON output. */
export interface Result {
  row: string;
  title: string;
  unit: Row["unit"];
  goal: string;
  judged: number;
  pass: boolean;
  gantry: Told;
  floor?: Told & { what: string };
  peers: Readonly<Record<string, Told>>;
  notes: readonly string[];
}

type Told = Summary & { cpuMs?: number };

const summarize = ({ samples, cpuMs }: Figure): Told => ({
  ...summary(samples),
  ...(cpuMs === undefined ? {} : { cpuMs }),
});

/** A measured line together with its goal. */
export function resultOf({ row: id, judged, gantry, floor, peers = {}, notes = [] }: Line): Result {
  const row = rowOf(id);
  return {
    row: id,
    title: row.title,
    unit: row.unit,
    goal: wordsOf(row),
    judged,
    pass: passes(row, judged),
    gantry: summarize(gantry),
    ...(floor ? { floor: { ...summarize(floor), what: row.floor } } : {}),
    peers: Object.fromEntries(Object.entries(peers).map(([name, figure]) => [name, summarize(figure)])),
    notes,
  };
}

/** Formats a value with three significant figures. */
export function short(value: number | undefined): string {
  if (value === undefined || !Number.isFinite(value)) return "-";
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en-US");
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

const judgedOf = ({ row, judged }: Result): string => {
  const { goal, unit } = rowOf(row);
  return goal.figure === "ratio"
    ? `${short(judged)}x`
    : `${goal.figure === "difference" ? "+ " : ""}${short(judged)} ${unit}`;
};

function cellsOf(result: Result, peers: readonly string[]): string[] {
  const { title, goal, gantry, floor, pass, unit } = result;
  const spread = gantry.count > 1 ? ` (${short(gantry.min)}-${short(gantry.max)})` : "";
  return [
    title,
    goal,
    judgedOf(result),
    pass ? "PASS" : "FAIL",
    `${short(gantry.median)}${spread} ${unit}`,
    short(gantry.cpuMs),
    floor ? `${short(floor.median)}${floor.what === "" ? "" : ` (${floor.what})`}` : "-",
    short(floor?.cpuMs),
    ...peers.map((name) => short(result.peers[name]?.median)),
  ];
}

const HEADS = ["row", "goal", "reached", "", "gantry (min-max)", "CPU ms", "floor", "CPU ms"];

function tableOf(results: readonly Result[]): string[][] {
  const peers = [...new Set(results.flatMap((result) => Object.keys(result.peers)))];
  return [[...HEADS, ...peers], ...inOrder(results).map((result) => cellsOf(result, peers))];
}

function inOrder(results: readonly Result[]): Result[] {
  const order = ROWS.map(({ id }) => id);
  return [...results].sort((a, b) => order.indexOf(a.row) - order.indexOf(b.row));
}

/** The results as a text table for a terminal. */
export function table(results: readonly Result[]): string {
  const rows = tableOf(results);
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  const lines = rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
  const notes = inOrder(results).flatMap(({ title, notes: resultNotes }) =>
    resultNotes.map((note) => `  ${title}: ${note}`),
  );
  return `${[...lines, ...(notes.length > 0 ? ["", ...notes] : [])].join("\n")}\n`;
}

/** The results as Markdown for docs/performance.md. */
export function markdown(results: readonly Result[], sitting: readonly string[]): string {
  const [head = [], ...rows] = tableOf(results);
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  const notes = inOrder(results).flatMap(({ title, notes: resultNotes }) =>
    resultNotes.map((note) => `- ${title}: ${note}`),
  );
  return [
    sitting.join("; "),
    "",
    line(head),
    line(head.map(() => "---")),
    ...rows.map(line),
    ...(notes.length > 0 ? ["", ...notes] : []),
  ].join("\n");
}

/** One line that is printed as soon as a row is measured. */
export function verdict(result: Result): string {
  const { pass, title, goal, floor, gantry, unit } = result;
  const base = floor ? `, ${floor.what || "floor"} ${short(floor.median)}` : "";
  const gantryResult = `gantry ${short(gantry.median)} ${unit}`;
  return `${pass ? "PASS" : "FAIL"}  ${title}: ${judgedOf(result)} (goal ${goal}; ${gantryResult}${base})`;
}
