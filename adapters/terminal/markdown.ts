import type { CodeHighlighter } from "./code-highlighter.js";
import { parseInline } from "./inline-markdown.js";
import { continuesTable, isTableLine, renderTable } from "./markdown-table.js";
import { cleanText, trimLineBreaks } from "./text.js";
import { span, wrap, type Line } from "./spans.js";

export { CodeHighlighter } from "./code-highlighter.js";

/** Maximum characters of a line that are formatted. The rest of a longer line is shown without formatting. */
const MAX_PIECE_CHARACTERS = 4_000;
const MAX_RULE_COLUMNS = 40;

/** A code block without its end. */
interface CodeBlock {
  readonly openingMarks: string;
  /** The language in lower case; "" if the block names none. */
  readonly language: string;
  readonly lines: string[];
  /** Index of its first line in the rows. */
  readonly startRow: number;
  /** Whether a line is so long that it was split. */
  hasSplitLine: boolean;
}

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
  /** The current code block; undefined outside of code. */
  #code: CodeBlock | undefined;
  /** Whether the next text continues a line whose start is final. */
  #isLineContinued = false;
  /** The last lines if they may be a table. They are not in the final rows yet. */
  #tableLines: string[] = [];

  readonly #highlighter: CodeHighlighter | undefined;

  /** Without a highlighter, code has one colour. */
  constructor(indent: Line = [], highlighter?: CodeHighlighter) {
    this.#indent = indent;
    this.#highlighter = highlighter;
  }

  renderRows(text: string, columns: number): Line[] {
    const trimmedText = trimLineBreaks(text);
    if (columns !== this.#columns || !trimmedText.startsWith(this.#finalText)) {
      [this.#columns, this.#finalText, this.#finalRows] = [columns, "", []];
      [this.#code, this.#isLineContinued, this.#tableLines] = [undefined, false, []];
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
    // The last line may still change: format it, but keep the code block and the table of the final lines.
    const [finalCode, finalTableLines] = [this.#code, this.#tableLines];
    const codeLineCount = finalCode?.lines.length ?? 0;
    this.#tableLines = [...finalTableLines];
    if (start < trimmedText.length || !this.#isLineContinued)
      this.#append(trimmedText.slice(start).replace(/\r$/, ""), rows, "unfinished line");
    this.#endTable(rows);
    [this.#code, this.#tableLines] = [finalCode, finalTableLines];
    finalCode?.lines.splice(codeLineCount);
    return rows;
  }

  #append(text: string, rows: Line[], kind: "line" | "piece" | "unfinished line"): void {
    for (const line of cleanText(text).split("\n")) {
      const isPossibleTable = kind !== "piece" && !this.#isLineContinued && !this.#code && isTableLine(line);
      if (!isPossibleTable || !continuesTable(this.#tableLines, line, kind === "unfinished line")) this.#endTable(rows);
      if (isPossibleTable) this.#tableLines.push(line);
      else if (this.#code) this.#addCodeLine(this.#code, line, rows);
      else this.#addLine(line, rows);
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

  #addLine(line: string, rows: Line[]): void {
    const openingMarks = this.#isLineContinued ? undefined : readFenceMarks(line);
    if (openingMarks === undefined) return this.#addRows(this.#renderLine(line, this.#columns), rows);
    const info = line.replace(openingMarks, "").trim();
    this.#addRows([[span(`┌ ${info}`.trimEnd(), "dim")]], rows);
    const language = /^[^\s{,:]*/.exec(info)?.[0].toLowerCase() ?? "";
    this.#code = { openingMarks, language, lines: [], startRow: rows.length, hasSplitLine: false };
  }

  #addCodeLine(code: CodeBlock, line: string, rows: Line[]): void {
    const marks = this.#isLineContinued ? undefined : readFenceMarks(line);
    if (marks?.startsWith(code.openingMarks) && line.trim() === marks) {
      this.#code = undefined;
      this.#colourCode(code, rows);
      return this.#addRows([[span("└", "dim")]], rows);
    }
    if (this.#isLineContinued) code.hasSplitLine = true;
    else code.lines.push(line);
    this.#addCodeRows([span(line, "code")], rows);
  }

  /** Replaces the rows of a complete code block. */
  #colourCode({ lines, language, startRow, hasSplitLine }: CodeBlock, rows: Line[]): void {
    const colouredLines = hasSplitLine ? undefined : this.#highlighter?.highlight(lines, language);
    if (!colouredLines) return;
    rows.splice(startRow);
    for (const line of colouredLines) this.#addCodeRows(line, rows);
  }

  #addCodeRows(line: Line, rows: Line[]): void {
    this.#addRows(wrap(line, this.#columns, [span("│ ", "dim")]), rows);
  }

  #renderLine(line: string, columns: number): Line[] {
    if (this.#isLineContinued) return wrap([span(line)], columns);
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

/** Returns the marks with which a line starts or ends a code block. */
function readFenceMarks(line: string): string | undefined {
  return /^\s{0,3}(`{3,}|~{3,})/.exec(line)?.[1];
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
