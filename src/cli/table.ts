import { seen } from "../base/printable.js";

/** Rows in columns as people read them; a column of numbers stands at its right. No cell can break a line or steer the terminal. */
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
      return `${cut(line.join("  ").trimEnd(), columns)}\n`;
    })
    .join("");
}

/** In one line. */
export function cell(text: string): string {
  return seen(text.replace(/\s+/g, " ").trim());
}

/** At most so many characters; what is left out is told. */
export function cut(text: string, columns: number): string {
  const characters = text.length > columns ? [...text] : [];
  return characters.length > columns ? `${characters.slice(0, Math.max(0, columns - 1)).join("")}…` : text;
}

/** `1,234,567` */
export function grouped(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** `$0.0123`; four figures below a dollar, as most runs cost little. */
export function dollars(usd: number): string {
  return `$${usd >= 1 || usd === 0 ? usd.toFixed(2) : usd.toFixed(4)}`;
}

/** `2026-11-22 16:53` of a timestamp, in the time of this machine. */
export function moment(iso: string): string {
  const date = new Date(iso);
  const two = (value: number): string => String(value).padStart(2, "0");
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join("-");
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}`;
}
