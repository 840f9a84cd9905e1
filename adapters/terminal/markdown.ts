import { clean } from "./text.js";
import { span, wrap, type Line, type Look, type Span } from "./spans.js";

/** Rows of what a model wrote: headings, lists, quotes, code. What is no Markdown stands as it is. */
export function markdownRows(text: string, columns: number): Line[] {
  const rows: Line[] = [];
  let fence = "";
  for (const line of clean(text).split("\n")) {
    const mark = /^\s{0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (mark !== undefined && fence === "") {
      fence = mark;
      const language = line.replace(mark, "").trim();
      rows.push([span(`┌ ${language}`.trimEnd(), "dim")]);
      continue;
    }
    if (fence !== "" && mark?.startsWith(fence) === true && line.trim() === mark) {
      fence = "";
      rows.push([span("└", "dim")]);
      continue;
    }
    if (fence !== "") {
      rows.push(...wrap([span(line, "code")], columns, [span("│ ", "dim")]));
      continue;
    }
    const heading = /^#{1,6} +(.*)$/.exec(line)?.[1];
    if (heading !== undefined) {
      rows.push(...wrap([span(heading, "heading")], columns));
      continue;
    }
    if (/^ {0,3}([-*_])( *\1){2,} *$/.test(line)) {
      rows.push([span("─".repeat(Math.min(columns, 40)), "dim")]);
      continue;
    }
    const item = /^( *)([-*+]|\d{1,9}[.)]) (.*)$/.exec(line);
    if (item) {
      const [, space = "", bullet = "", said = ""] = item;
      const sign = /\d/.test(bullet) ? bullet : "•";
      const indent = space.slice(0, Math.max(0, Math.floor(columns / 2)));
      const rest = " ".repeat(indent.length + sign.length + 1);
      rows.push(...wrap(inline(said), columns, [span(`${indent}${sign} `)], [span(rest)]));
      continue;
    }
    const quote = /^ {0,3}> ?(.*)$/.exec(line)?.[1];
    if (quote !== undefined) rows.push(...wrap([span(quote, "dim")], columns, [span("▌ ", "dim")]));
    else rows.push(...wrap(inline(line), columns));
  }
  return rows;
}

/** `code`, **bold** and *slanted*, each within its line. */
function inline(text: string): Span[] {
  const spans: Span[] = [];
  let at = 0;
  for (const match of text.matchAll(/`([^`]+)`|\*\*([^*]+)\*\*|(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])/g)) {
    const [whole, code, bold, slanted] = match;
    if (match.index > at) spans.push(span(text.slice(at, match.index)));
    const look: Look = code !== undefined ? "code" : bold !== undefined ? "bold" : "italic";
    spans.push(span(code ?? bold ?? slanted ?? whole, look));
    at = match.index + whole.length;
  }
  if (at < text.length || spans.length === 0) spans.push(span(text.slice(at)));
  return spans;
}
