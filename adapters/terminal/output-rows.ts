import { cleanText, trimLineBreaks, truncate } from "./text.js";
import { span, wrap, type Line, type SpanStyle } from "./spans.js";

/** Maximum rows of an output, unless the user shows all. */
export const MAX_OUTPUT_ROWS = 6;
/** Maximum rows when the user shows all: a terminal cannot page through megabytes. */
export const MAX_EXPANDED_ROWS = 2_000;
/** Maximum characters of an output that are split into rows. */
const MAX_OUTPUT_CHARACTERS = 200_000;

export interface Layout {
  /** Width of the screen. */
  readonly columns: number;
  /** Whether thoughts, outputs and diffs are shown in full. */
  readonly showsAll: boolean;
}

/** Renders the output of a tool or command: its start, or its end while it is unfinished. */
export function renderOutputRows(
  output: string,
  { isFinished, style }: { isFinished: boolean; style: SpanStyle },
  { columns, showsAll }: Layout,
): Line[] {
  if (output.trim() === "") return [];
  const maxRows = showsAll ? MAX_EXPANDED_ROWS : MAX_OUTPUT_ROWS;
  const lines = trimLineBreaks(
    cleanText(isFinished ? output.slice(0, MAX_OUTPUT_CHARACTERS) : output.slice(-MAX_OUTPUT_CHARACTERS)),
  ).split("\n");
  const visibleLines = isFinished ? lines.slice(0, maxRows) : lines.slice(-maxRows);
  const rows = visibleLines.flatMap((line) =>
    showsAll
      ? wrap([span(line, style)], columns, [span("    ")])
      : [[span("    "), span(truncate(line, columns - 4), style)]],
  );
  const hiddenLines = lines.length - visibleLines.length;
  if (hiddenLines > 0)
    rows.push([span(`    … ${hiddenLines} more lines${showsAll ? "" : ", Ctrl+O shows them"}`, "dim")]);
  return rows;
}
