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
const COMMENT = /^(?:\/\/|\/\*|\*\s|\*\/|--\s|#\s)/;
/** A decorator, an attribute or template parameters: applies to the next line. */
const ATTRIBUTE = /^(?:@[\w.]+\s*(?:\(.*)?$|#!?\[.*\]\s*$|template\s*<)/;
const CSHARP_ATTRIBUTE = /^\[[A-Z]\w*(?:\(.*\))?\]\s*$/;
const DIRECTIVE = /^#\s*(?:if|ifdef|ifndef|else|elif|endif|define|undef|pragma|include)\b/;
const HEADING = /^(#{1,6})\s/;
const PROSE = /\.(?:md|mdx|markdown|mkd)$/i;

/**
 * Finds the end of the block that a line opens: a class, a function, a section.
 *
 * Uses the indentation and the closing line on the same level, because the language is not known. If the end is
 * ambiguous, the earlier one is used. `name`: the file's name.
 */
export function findNamedBlock(lines: readonly string[], at: number, name: string): NamedBlock {
  return { at, end: new Layout(lines, name).end(at) };
}

class Layout {
  readonly #lines: readonly string[];
  readonly #isProse: boolean;
  readonly #isCSharp: boolean;

  constructor(lines: readonly string[], name: string) {
    this.#lines = lines;
    this.#isProse = PROSE.test(name);
    this.#isCSharp = /\.cs$/i.test(name);
  }

  end(at: number): number {
    const [, hashes] = this.#isProse ? (HEADING.exec(this.#text(at)) ?? []) : [];
    if (hashes !== undefined) return this.#nextHeading(at, hashes.length);
    const head = this.#declarationOf(at);
    const nextLine = this.#nextNonBlank(head);
    const level = this.#width(head);
    const [headText, nextText] = [this.#text(head), this.#text(nextLine)];
    if (OPENING_LINE.test(headText) || (this.#width(nextLine) === level && nextText === "{"))
      return this.#bracketEnd(head, level);
    // A list may be on the same level as its key.
    const isList =
      headText.endsWith(":") &&
      !headText.startsWith("- ") &&
      nextText.startsWith("- ") &&
      this.#width(nextLine) === level;
    return isList || this.#width(nextLine) > level || CLOSING_LINE.test(nextText)
      ? this.#indentedEnd(head, level, isList)
      : this.#flatEnd(head, level);
  }

  /** For a comment or decorator: the line to which it applies. */
  #declarationOf(at: number): number {
    let head = at;
    for (;;) {
      const text = this.#text(head);
      const isAttribute = ATTRIBUTE.test(text) || (this.#isCSharp && CSHARP_ATTRIBUTE.test(text));
      if (this.#isProse || !(isAttribute || COMMENT.test(text)) || /[{[]$/.test(text)) return head;
      // The arguments of an attribute may span several lines.
      const lastLine = isAttribute && text.endsWith("(") ? this.#bracketEnd(head, this.#width(head)) - 1 : head;
      const nextLine = this.#nextNonBlank(lastLine);
      if (nextLine >= this.#lines.length || this.#width(nextLine) < this.#width(at)) return at;
      head = nextLine;
    }
  }

  /** Index after the line that closes the bracket. */
  #bracketEnd(head: number, level: number): number {
    for (let at = head + 1; at < this.#lines.length; at++) {
      const text = this.#text(at);
      if (this.#width(at) > level || !/^[)\]}]/.test(text) || OPENING_LINE.test(text)) continue;
      // The parameters are closed here, and the function body follows.
      if (text.endsWith(":")) return this.#indentedEnd(at, level, false);
      const nextLine = this.#nextNonBlank(at);
      const isContinued =
        this.#width(nextLine) === level && (CONTINUING_LINE.test(this.#text(nextLine)) || this.#text(nextLine) === "{");
      if (!isContinued) return at + 1;
    }
    return this.#lines.length;
  }

  /** Index of the first line that is not indented more and neither closes nor continues the block. */
  #indentedEnd(head: number, level: number, isList: boolean): number {
    // A string in triple quotes may have any indentation.
    let isQuoted = false;
    let undecidedAt: number | undefined;
    for (let at = head; at < this.#lines.length; at++) {
      const text = this.#text(at);
      const wasQuoted = isQuoted;
      if ((text.split('"""').length + text.split("'''").length) % 2 === 1) isQuoted = !isQuoted;
      if (at === head || text === "" || wasQuoted) continue;
      const width = this.#width(at);
      const isContinued =
        CLOSING_LINE.test(text) || CONTINUING_LINE.test(text) || text === "{" || (isList && text.startsWith("- "));
      if (width > level || (width === level && isContinued)) undecidedAt = undefined;
      // The next line determines whether a comment or directive belongs to this block or to the next.
      else if (COMMENT.test(text) || DIRECTIVE.test(text)) undecidedAt ??= at;
      else return undecidedAt ?? at;
    }
    return undecidedAt ?? this.#lines.length;
  }

  /**
   * End of a line that visibly opens nothing: the next line of the same kind, a line that opens a block, or a lower
   * level.
   */
  #flatEnd(head: number, level: number): number {
    const headText = this.#text(head);
    const [, tag] = /^<([\w-]+)/.exec(headText) ?? [];
    const kind = firstTokenOf(headText);
    for (let at = head + 1; at < this.#lines.length; at++) {
      const text = this.#text(at);
      const width = this.#width(at);
      if (text === "" || width > level) continue;
      if (tag !== undefined && width === level) {
        if (text.startsWith(`</${tag}`)) return at + 1;
        continue;
      }
      const startsNextBlock =
        width < level || firstTokenOf(text) === kind || OPENING_LINE.test(text) || this.#isHeading(text);
      if (startsNextBlock || this.#width(this.#nextNonBlank(at)) > level) return at;
    }
    return this.#lines.length;
  }

  #isHeading(text: string): boolean {
    return this.#isProse && HEADING.test(text);
  }

  #nextHeading(from: number, depth: number): number {
    let isCode = false;
    for (let at = from + 1; at < this.#lines.length; at++) {
      const text = this.#text(at);
      if (/^(?:```|~~~)/.test(text)) isCode = !isCode;
      const [, hashes] = isCode ? [] : (HEADING.exec(text) ?? []);
      if (hashes !== undefined && hashes.length <= depth) return at;
    }
    return this.#lines.length;
  }

  /** Index of the next line that is not blank; the number of lines if there is none. */
  #nextNonBlank(at: number): number {
    let nextLine = at + 1;
    while (nextLine < this.#lines.length && this.#text(nextLine) === "") nextLine++;
    return nextLine;
  }

  #text(at: number): string {
    return (this.#lines[at] ?? "").trim();
  }

  /** Width of the indentation, with tabs counted as in Python. */
  #width(at: number): number {
    let width = 0;
    for (const char of indentOf(this.#lines[at] ?? "")) width += char === "\t" ? 8 - (width % 8) : 1;
    return width;
  }
}

function firstTokenOf(text: string): string {
  return /^(?:\w+|[^\w\s])/.exec(text)?.[0].toLowerCase() ?? "";
}
