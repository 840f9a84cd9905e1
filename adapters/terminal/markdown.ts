import { parseInline } from "./inline-markdown.js";
import { continuesTable, isTableLine, renderTable } from "./markdown-table.js";
import { cleanText, trimLineBreaks } from "./text.js";
import { span, wrap, type Line } from "./spans.js";

/** Maximum characters of a line that are formatted. The rest of a longer line is shown without formatting. */
const MAX_PIECE_CHARACTERS = 4_000;
const MAX_RULE_COLUMNS = 40;

/**
 * Renders a model's Markdown: headings, lists, quotes, code, tables. Other text is unchanged. If the text has grown
 * since the last call, only the new part and an unfinished table are formatted.
 */
export class MarkdownRenderer {
  readonly #indent: Line;
  #columns = 0;
  /** Text whose rows are final: whole lines, and whole pieces of an unfinished line. */
  #finalText = "";
  #finalRows: Line[] = [];
  /** Opening marks of the current code fence; `""` outside of code. */
  #codeFence = "";
  /** Whether the next text continues a line whose start is final. */
  #isLineContinued = false;
  /** The last lines if they may be a table. They are not in the final rows yet. */
  #tableLines: string[] = [];

  constructor(indent: Line = []) {
    this.#indent = indent;
  }

  renderRows(text: string, columns: number): Line[] {
    const trimmedText = trimLineBreaks(text);
    if (columns !== this.#columns || !trimmedText.startsWith(this.#finalText)) {
      [this.#columns, this.#finalText, this.#finalRows] = [columns, "", []];
      [this.#codeFence, this.#isLineContinued, this.#tableLines] = ["", false, []];
    }
    let start = this.#finalText.length;
    for (;;) {
      const end = trimmedText.indexOf("\n", start);
      const lineEnd = end === -1 ? trimmedText.length : end;
      if (lineEnd - start > MAX_PIECE_CHARACTERS) {
        const pieceEnd = findPieceEnd(trimmedText, start);
        this.#append(trimmedText.slice(start, pieceEnd), this.#finalRows, "piece");
        this.#isLineContinued = true;
        start = pieceEnd;
      } else if (end === -1) break;
      else {
        this.#append(trimmedText.slice(start, trimmedText[end - 1] === "\r" ? end - 1 : end), this.#finalRows, "line");
        this.#isLineContinued = false;
        start = end + 1;
      }
    }
    this.#finalText = trimmedText.slice(0, start);
    const rows = [...this.#finalRows];
    // The last line may still change: format it, but keep the fence and the table of the final lines.
    const [finalFence, finalTableLines] = [this.#codeFence, this.#tableLines];
    this.#tableLines = [...finalTableLines];
    if (start < trimmedText.length || !this.#isLineContinued)
      this.#append(trimmedText.slice(start).replace(/\r$/, ""), rows, "unfinished line");
    this.#endTable(rows);
    [this.#codeFence, this.#tableLines] = [finalFence, finalTableLines];
    return rows;
  }

  #append(text: string, rows: Line[], kind: "line" | "piece" | "unfinished line"): void {
    for (const line of cleanText(text).split("\n")) {
      const isPart = kind === "piece" || this.#isLineContinued || this.#codeFence !== "";
      const isPossibleTable = !isPart && isTableLine(line);
      if (!isPossibleTable || !continuesTable(this.#tableLines, line, kind === "unfinished line")) this.#endTable(rows);
      if (isPossibleTable) this.#tableLines.push(line);
      else this.#addRows(this.#renderLine(line, this.#columns), rows);
    }
  }

  /** Renders the lines that may be a table. */
  #endTable(rows: Line[]): void {
    const [lines, columns] = [this.#tableLines, this.#columns];
    this.#tableLines = [];
    if (lines.length > 1) this.#addRows(renderTable(lines, columns), rows);
    else for (const line of lines) this.#addRows(this.#renderLine(line, columns), rows);
  }

  #addRows(newRows: readonly Line[], rows: Line[]): void {
    for (const row of newRows) rows.push([...this.#indent, ...row]);
  }

  #renderLine(line: string, columns: number): Line[] {
    if (this.#isLineContinued)
      return this.#codeFence === ""
        ? wrap([span(line)], columns)
        : wrap([span(line, "code")], columns, [span("│ ", "dim")]);
    const fenceMark = /^\s{0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (fenceMark !== undefined && this.#codeFence === "") {
      this.#codeFence = fenceMark;
      const language = line.replace(fenceMark, "").trim();
      return [[span(`┌ ${language}`.trimEnd(), "dim")]];
    }
    if (this.#codeFence !== "" && fenceMark?.startsWith(this.#codeFence) === true && line.trim() === fenceMark) {
      this.#codeFence = "";
      return [[span("└", "dim")]];
    }
    if (this.#codeFence !== "") return wrap([span(line, "code")], columns, [span("│ ", "dim")]);
    const heading = /^#{1,6} +(.*)$/.exec(line)?.[1];
    if (heading !== undefined) return wrap([span(heading, "heading")], columns);
    if (/^ {0,3}([-*_])( *\1){2,} *$/.test(line))
      return [[span("─".repeat(Math.min(columns, MAX_RULE_COLUMNS)), "dim")]];
    const itemMatch = /^( *)([-*+]|\d{1,9}[.)]) (.*)$/.exec(line);
    if (itemMatch) {
      const [, indentation = "", bullet = "", itemText = ""] = itemMatch;
      const sign = /\d/.test(bullet) ? bullet : "•";
      const indent = indentation.slice(0, Math.max(0, Math.floor(columns / 2)));
      const continuationIndent = " ".repeat(indent.length + sign.length + 1);
      return wrap(parseInline(itemText), columns, [span(`${indent}${sign} `)], [span(continuationIndent)]);
    }
    const quote = /^ {0,3}> ?(.*)$/.exec(line)?.[1];
    return quote !== undefined
      ? wrap([span(quote, "dim")], columns, [span("▌ ", "dim")])
      : wrap(parseInline(line), columns);
  }
}

/** Returns the end of a piece of a long line: after a space if possible, otherwise between two characters. */
function findPieceEnd(text: string, start: number): number {
  const spaceIndex = text.lastIndexOf(" ", start + MAX_PIECE_CHARACTERS);
  if (spaceIndex > start + MAX_PIECE_CHARACTERS / 2) return spaceIndex + 1;
  let end = start + MAX_PIECE_CHARACTERS;
  // Do not split a surrogate pair, or a character from its combining marks.
  while (end > start + MAX_PIECE_CHARACTERS / 2 && /^[\p{M}\u200d\udc00-\udfff]/u.test(text.slice(end, end + 2)))
    end -= 1;
  return end;
}
