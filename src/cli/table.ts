import { escapeInvisible } from "../base/printable.js";

/**
 * Formats rows as aligned columns. `columns` is the width of the terminal, `rightAligned` are indexes of columns. Line
 * breaks and control characters in cells are escaped.
 */
export function formatTable(
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  { columns = Infinity, rightAligned = [] }: { columns?: number | undefined; rightAligned?: readonly number[] } = {},
): string {
  const cells = [headings, ...rows].map((row) => row.map(formatCell));
  const widths = headings.map((_, at) => Math.max(...cells.map((row) => (row[at] ?? "").length)));
  return cells
    .map((row) => {
      const line = row.map((text, at) =>
        rightAligned.includes(at) ? text.padStart(widths[at] ?? 0) : text.padEnd(widths[at] ?? 0),
      );
      return `${truncate(line.join("  ").trimEnd(), columns)}\n`;
    })
    .join("");
}

/** Returns the text on one line, with control characters escaped. */
export function formatCell(text: string): string {
  return escapeInvisible(text.replace(/\s+/g, " ").trim());
}

/** Limits a text to a number of characters. A truncated text ends in `…`. */
export function truncate(text: string, columns: number): string {
  const characters = text.length > columns ? [...text] : [];
  return characters.length > columns ? `${characters.slice(0, Math.max(0, columns - 1)).join("")}…` : text;
}

/** Formats a number as `1,234,567`. */
export function formatCount(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Formats a cost as `$0.0123`, with four decimals below one dollar, because most runs cost little. */
export function formatDollars(usd: number): string {
  return `$${usd >= 1 || usd === 0 ? usd.toFixed(2) : usd.toFixed(4)}`;
}

/** Formats a timestamp as `2026-11-22 16:53` in local time. */
export function formatTime(iso: string): string {
  const date = new Date(iso);
  const padTwoDigits = (value: number): string => String(value).padStart(2, "0");
  const day = [date.getFullYear(), padTwoDigits(date.getMonth() + 1), padTwoDigits(date.getDate())].join("-");
  return `${day} ${padTwoDigits(date.getHours())}:${padTwoDigits(date.getMinutes())}`;
}
