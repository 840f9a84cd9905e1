import { escapeInvisible } from "../base/printable.js";

/**
 * Formats rows as aligned columns; the columns in `right` are right-aligned. Line breaks and control characters in
 * cells are escaped.
 */
export function table(
  heads: readonly string[],
  rows: readonly (readonly string[])[],
  { columns = Infinity, right = [] }: { columns?: number | undefined; right?: readonly number[] } = {},
): string {
  const cells = [heads, ...rows].map((row) => row.map(cell));
  const widths = heads.map((_, at) => Math.max(...cells.map((row) => (row[at] ?? "").length)));
  return cells
    .map((row) => {
      const line = row.map((text, at) =>
        right.includes(at) ? text.padStart(widths[at] ?? 0) : text.padEnd(widths[at] ?? 0),
      );
      return `${truncate(line.join("  ").trimEnd(), columns)}\n`;
    })
    .join("");
}

/** Returns the text on one line, with control characters escaped. */
export function cell(text: string): string {
  return escapeInvisible(text.replace(/\s+/g, " ").trim());
}

/** Limits a text to a number of characters. A truncated text ends in `…`. */
export function truncate(text: string, columns: number): string {
  const characters = text.length > columns ? [...text] : [];
  return characters.length > columns ? `${characters.slice(0, Math.max(0, columns - 1)).join("")}…` : text;
}

/** Format: `1,234,567` */
export function formatCount(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Format: `$0.0123`. Four decimals below one dollar, because most runs cost little. */
export function formatDollars(usd: number): string {
  return `$${usd >= 1 || usd === 0 ? usd.toFixed(2) : usd.toFixed(4)}`;
}

/** Formats a timestamp as `2026-11-22 16:53` in local time. */
export function formatTime(iso: string): string {
  const date = new Date(iso);
  const two = (value: number): string => String(value).padStart(2, "0");
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join("-");
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}`;
}
