import { escapeInvisible } from "../base/printable.js";
import type { Usage } from "../ports/usage.js";

/**
 * Formats rows as aligned columns. `columns` is the width of the terminal (default: unlimited). `rightAlignedColumns`
 * are indexes of table columns. Cells are formatted with `formatCell`.
 */
export function formatTable(
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  {
    columns = Infinity,
    rightAlignedColumns = [],
  }: { columns?: number | undefined; rightAlignedColumns?: readonly number[] } = {},
): string {
  const cells = [headings, ...rows].map((row) => row.map(formatCell));
  const widths = headings.map((_, column) => Math.max(...cells.map((row) => (row[column] ?? "").length)));
  return cells
    .map((row) => {
      const line = row.map((text, column) =>
        rightAlignedColumns.includes(column) ? text.padStart(widths[column] ?? 0) : text.padEnd(widths[column] ?? 0),
      );
      return `${truncate(line.join("  ").trimEnd(), columns)}\n`;
    })
    .join("");
}

/** Returns the text on one line, with white space joined and control characters escaped. */
export function formatCell(text: string): string {
  return escapeInvisible(text.replace(/\s+/g, " ").trim());
}

/** Limits a text to a number of characters. A truncated text ends in `…`. */
export function truncate(text: string, maxCharacters: number): string {
  const characters = text.length > maxCharacters ? [...text] : [];
  return characters.length > maxCharacters ? `${characters.slice(0, Math.max(0, maxCharacters - 1)).join("")}…` : text;
}

/** Formats a number as `1,234,567`. */
export function formatCount(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ",");
}

/**
 * Formats the cost of a usage as `$0.0123`, with four decimals below one dollar, because most runs cost little. Tokens
 * without a cost are those of models without a known price, except for the offline guide.
 */
export function formatCost({ cost, totalTokens }: Usage, provider: string): string {
  if (cost === 0 && totalTokens > 0 && provider !== "offline") return "no price known";
  return `$${cost >= 1 || cost === 0 ? cost.toFixed(2) : cost.toFixed(4)}`;
}

/** Formats a timestamp as `2026-11-22 16:53` in local time. */
export function formatTime(timestamp: string): string {
  const date = new Date(timestamp);
  const padTwoDigits = (value: number): string => String(value).padStart(2, "0");
  const day = [date.getFullYear(), padTwoDigits(date.getMonth() + 1), padTwoDigits(date.getDate())].join("-");
  return `${day} ${padTwoDigits(date.getHours())}:${padTwoDigits(date.getMinutes())}`;
}
