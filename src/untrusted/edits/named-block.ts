import { indentOf } from "./text-views.js";

/** The block that a named line of a file opens. */
export interface NamedBlock {
  /** Index of the named line, from 0. */
  readonly at: number;
  /** Index of the first line after the block. */
  readonly end: number;
}

const OPENING_LINE = /(?:[([{]|=>)\s*$/;
/** Closes a block on the same level. */
const CLOSING_LINE = /^(?:[)\]}]|\/?>\s*$|<\/|(?:end|fi|done|esac)\b(?!\s*(?:[=([:]|\w+\s*=)))/i;
/** Continues a block on the same level. */
const CONTINUING_LINE =
  /^(?:(?:else|elif|elsif|elseif|except|finally|catch|then|where)\b|(?:rescue|ensure)\b(?!\s*[(.=])|do\s*$)/;
const COMMENT_LINE = /^(?:\/\/|\/\*|\*\s|\*\/|--\s|#\s)/;
/** A decorator, an attribute or template parameters, which apply to the next line. */
const ATTRIBUTE_LINE = /^(?:@[\w.]+\s*(?:\(.*)?$|#!?\[.*\]\s*$|template\s*<)/;
const CSHARP_ATTRIBUTE_LINE = /^\[[A-Z]\w*(?:\(.*\))?\]\s*$/;
const DIRECTIVE_LINE = /^#\s*(?:if|ifdef|ifndef|else|elif|endif|define|undef|pragma|include)\b/;
const HEADING_LINE = /^(#{1,6})\s/;
const PROSE_FILE_NAME = /\.(?:md|mdx|markdown|mkd)$/i;

/**
 * Finds the end of the block that a line opens: a class, a function, a section.
 *
 * Uses the indentation and the closing line on the same level, because the language is not known. If several lines may
 * be the end, the first is used. `name`: the file's name.
 */
export function findNamedBlock(lines: readonly string[], at: number, name: string): NamedBlock {
  return { at, end: new BlockLayout(lines, name).findEnd(at) };
}

class BlockLayout {
  readonly #lines: readonly string[];
  readonly #isProse: boolean;
  readonly #isCSharp: boolean;

  constructor(lines: readonly string[], name: string) {
    this.#lines = lines;
    this.#isProse = PROSE_FILE_NAME.test(name);
    this.#isCSharp = /\.cs$/i.test(name);
  }

  findEnd(at: number): number {
    const [, hashes] = this.#isProse ? (HEADING_LINE.exec(this.#text(at)) ?? []) : [];
    if (hashes !== undefined) return this.#findNextHeading(at, hashes.length);
    const head = this.#findDeclaration(at);
    const nextLine = this.#findNextNonBlank(head);
    const level = this.#measureIndent(head);
    const [headText, nextText] = [this.#text(head), this.#text(nextLine)];
    if (OPENING_LINE.test(headText) || (this.#measureIndent(nextLine) === level && nextText === "{"))
      return this.#findBracketEnd(head, level);
    // A list may be on the same level as its key.
    const isList =
      headText.endsWith(":") &&
      !headText.startsWith("- ") &&
      nextText.startsWith("- ") &&
      this.#measureIndent(nextLine) === level;
    return isList || this.#measureIndent(nextLine) > level || CLOSING_LINE.test(nextText)
      ? this.#findIndentedEnd(head, level, isList)
      : this.#findFlatEnd(head, level);
  }

  /** Returns the line to which a comment or decorator applies. Returns `at` for other lines. */
  #findDeclaration(at: number): number {
    let head = at;
    for (;;) {
      const text = this.#text(head);
      const isAttribute = ATTRIBUTE_LINE.test(text) || (this.#isCSharp && CSHARP_ATTRIBUTE_LINE.test(text));
      if (this.#isProse || !(isAttribute || COMMENT_LINE.test(text)) || /[{[]$/.test(text)) return head;
      // The arguments of an attribute may span several lines.
      const lastLine =
        isAttribute && text.endsWith("(") ? this.#findBracketEnd(head, this.#measureIndent(head)) - 1 : head;
      const nextLine = this.#findNextNonBlank(lastLine);
      if (nextLine >= this.#lines.length || this.#measureIndent(nextLine) < this.#measureIndent(at)) return at;
      head = nextLine;
    }
  }

  /** Index of the line after the closing bracket of the line `head`; the number of lines if no bracket closes. */
  #findBracketEnd(head: number, level: number): number {
    for (let at = head + 1; at < this.#lines.length; at++) {
      const text = this.#text(at);
      if (this.#measureIndent(at) > level || !/^[)\]}]/.test(text) || OPENING_LINE.test(text)) continue;
      // The parameters are closed here, and the function body follows.
      if (text.endsWith(":")) return this.#findIndentedEnd(at, level, false);
      const nextLine = this.#findNextNonBlank(at);
      const isContinued =
        this.#measureIndent(nextLine) === level &&
        (CONTINUING_LINE.test(this.#text(nextLine)) || this.#text(nextLine) === "{");
      if (!isContinued) return at + 1;
    }
    return this.#lines.length;
  }

  /** Index of the first line that is not indented more and neither closes nor continues the block. */
  #findIndentedEnd(head: number, level: number, isList: boolean): number {
    // A string in triple quotes may have any indentation.
    let isQuoted = false;
    let undecidedAt: number | undefined;
    for (let at = head; at < this.#lines.length; at++) {
      const text = this.#text(at);
      const wasQuoted = isQuoted;
      if ((text.split('"""').length + text.split("'''").length) % 2 === 1) isQuoted = !isQuoted;
      if (at === head || text === "" || wasQuoted) continue;
      const width = this.#measureIndent(at);
      const isContinued =
        CLOSING_LINE.test(text) || CONTINUING_LINE.test(text) || text === "{" || (isList && text.startsWith("- "));
      if (width > level || (width === level && isContinued)) undecidedAt = undefined;
      // The next line determines whether a comment or directive belongs to this block or to the next.
      else if (COMMENT_LINE.test(text) || DIRECTIVE_LINE.test(text)) undecidedAt ??= at;
      else return undecidedAt ?? at;
    }
    return undecidedAt ?? this.#lines.length;
  }

  /**
   * Finds the end of a line that opens no visible block: the next line of the same kind, a line that opens a block, or
   * a line on a lower level.
   */
  #findFlatEnd(head: number, level: number): number {
    const headText = this.#text(head);
    const [, tag] = /^<([\w-]+)/.exec(headText) ?? [];
    const kind = firstTokenOf(headText);
    for (let at = head + 1; at < this.#lines.length; at++) {
      const text = this.#text(at);
      const width = this.#measureIndent(at);
      if (text === "" || width > level) continue;
      if (tag !== undefined && width === level) {
        if (text.startsWith(`</${tag}`)) return at + 1;
        continue;
      }
      const startsNextBlock =
        width < level || firstTokenOf(text) === kind || OPENING_LINE.test(text) || this.#isHeading(text);
      if (startsNextBlock || this.#measureIndent(this.#findNextNonBlank(at)) > level) return at;
    }
    return this.#lines.length;
  }

  #isHeading(text: string): boolean {
    return this.#isProse && HEADING_LINE.test(text);
  }

  #findNextHeading(from: number, depth: number): number {
    let isCode = false;
    for (let at = from + 1; at < this.#lines.length; at++) {
      const text = this.#text(at);
      if (/^(?:```|~~~)/.test(text)) isCode = !isCode;
      const [, hashes] = isCode ? [] : (HEADING_LINE.exec(text) ?? []);
      if (hashes !== undefined && hashes.length <= depth) return at;
    }
    return this.#lines.length;
  }

  /** Index of the next line that is not blank; the number of lines if there is none. */
  #findNextNonBlank(at: number): number {
    let nextLine = at + 1;
    while (nextLine < this.#lines.length && this.#text(nextLine) === "") nextLine++;
    return nextLine;
  }

  #text(at: number): string {
    return (this.#lines[at] ?? "").trim();
  }

  /** Width of the indentation in columns. As in Python, a tab stop is every 8 columns. */
  #measureIndent(at: number): number {
    let width = 0;
    for (const char of indentOf(this.#lines[at] ?? "")) width += char === "\t" ? 8 - (width % 8) : 1;
    return width;
  }
}

function firstTokenOf(text: string): string {
  return /^(?:\w+|[^\w\s])/.exec(text)?.[0].toLowerCase() ?? "";
}
