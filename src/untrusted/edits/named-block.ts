import { indentOf } from "./text-views.js";

/** What a line of a file opens, as who names it means it. */
export interface NamedBlock {
  /** The line that was named, from 0. */
  readonly at: number;
  /** The first line behind it that is something else. */
  readonly end: number;
}

const OPENS = /(?:[([{]|=>)\s*$/;
/** Closes what was opened on its level. */
const CLOSES = /^(?:[)\]}]|\/?>\s*$|<\/|(?:end|fi|done|esac)\b(?!\s*(?:[=([:]|\w+\s*=)))/i;
/** Goes on with what the lines before it began, on the same level. */
const GOES_ON =
  /^(?:(?:else|elif|elsif|elseif|except|finally|catch|then|where)\b|(?:rescue|ensure)\b(?!\s*[(.=])|do\s*$)/;
const COMMENT = /^(?:\/\/|\/\*|\*\s|\*\/|--\s|#\s)/;
/** A decorator, an attribute, what a template takes: said of what stands behind it. */
const ATTRIBUTE = /^(?:@[\w.]+\s*(?:\(.*)?$|#!?\[.*\]\s*$|template\s*<)/;
const CSHARP_ATTRIBUTE = /^\[[A-Z]\w*(?:\(.*\))?\]\s*$/;
const DIRECTIVE = /^#\s*(?:if|ifdef|ifndef|else|elif|endif|define|undef|pragma|include)\b/;
const HEADING = /^(#{1,6})\s/;
const PROSE = /\.(?:md|mdx|markdown|mkd)$/i;

/**
 * Up to where what a line opens goes: a class, a function, a section. Found by how lines are indented and by what closes it
 * on the level of the line, as no language is known; where that may be sooner or later, it is sooner. `name`: the file's.
 */
export function namedBlock(lines: readonly string[], at: number, name: string): NamedBlock {
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
    const [, signs] = this.#isProse ? (HEADING.exec(this.#text(at)) ?? []) : [];
    if (signs !== undefined) return this.#nextHeading(at, signs.length);
    const head = this.#announced(at);
    const next = this.#nextFull(head);
    const level = this.#width(head);
    const [own, behind] = [this.#text(head), this.#text(next)];
    if (OPENS.test(own) || (this.#width(next) === level && behind === "{")) return this.#bracketEnd(head, level);
    // A list may stand on the level of its name.
    const isList = own.endsWith(":") && !own.startsWith("- ") && behind.startsWith("- ") && this.#width(next) === level;
    return isList || this.#width(next) > level || CLOSES.test(behind)
      ? this.#indentedEnd(head, level, isList)
      : this.#flatEnd(head, level);
  }

  /** Of a comment or a decorator: the line that it is for. */
  #announced(at: number): number {
    let head = at;
    for (;;) {
      const text = this.#text(head);
      const isAttribute = ATTRIBUTE.test(text) || (this.#isCSharp && CSHARP_ATTRIBUTE.test(text));
      if (this.#isProse || !(isAttribute || COMMENT.test(text)) || /[{[]$/.test(text)) return head;
      // Its arguments may have lines of their own.
      const last = isAttribute && text.endsWith("(") ? this.#bracketEnd(head, this.#width(head)) - 1 : head;
      const next = this.#nextFull(last);
      if (next >= this.#lines.length || this.#width(next) < this.#width(at)) return at;
      head = next;
    }
  }

  /** Behind the line that closes it. */
  #bracketEnd(head: number, level: number): number {
    for (let at = head + 1; at < this.#lines.length; at++) {
      const text = this.#text(at);
      if (this.#width(at) > level || !/^[)\]}]/.test(text) || OPENS.test(text)) continue;
      // The body of a function whose arguments were in it.
      if (text.endsWith(":")) return this.#indentedEnd(at, level, false);
      const next = this.#nextFull(at);
      const goesOn = this.#width(next) === level && (GOES_ON.test(this.#text(next)) || this.#text(next) === "{");
      if (!goesOn) return at + 1;
    }
    return this.#lines.length;
  }

  /** Where the first line is that is indented no more, and neither closes it nor goes on with it. */
  #indentedEnd(head: number, level: number, isList: boolean): number {
    // A text in three quotes may stand anywhere.
    let isQuoted = false;
    let said: number | undefined;
    for (let at = head; at < this.#lines.length; at++) {
      const text = this.#text(at);
      const wasQuoted = isQuoted;
      if ((text.split('"""').length + text.split("'''").length) % 2 === 1) isQuoted = !isQuoted;
      if (at === head || text === "" || wasQuoted) continue;
      const width = this.#width(at);
      const goesOn = CLOSES.test(text) || GOES_ON.test(text) || text === "{" || (isList && text.startsWith("- "));
      if (width > level || (width === level && goesOn)) said = undefined;
      // Whether it belongs to what was or to what comes, the next line says.
      else if (COMMENT.test(text) || DIRECTIVE.test(text)) said ??= at;
      else return said ?? at;
    }
    return said ?? this.#lines.length;
  }

  /** Of a line that opens nothing that can be seen: where another of its kind is, something that opens, or a lower level. */
  #flatEnd(head: number, level: number): number {
    const own = this.#text(head);
    const [, tag] = /^<([\w-]+)/.exec(own) ?? [];
    const kind = kindOf(own);
    for (let at = head + 1; at < this.#lines.length; at++) {
      const text = this.#text(at);
      const width = this.#width(at);
      if (text === "" || width > level) continue;
      if (tag !== undefined && width === level) {
        if (text.startsWith(`</${tag}`)) return at + 1;
        continue;
      }
      const isOther = width < level || kindOf(text) === kind || OPENS.test(text) || this.#isHeading(text);
      if (isOther || this.#width(this.#nextFull(at)) > level) return at;
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
      const [, signs] = isCode ? [] : (HEADING.exec(text) ?? []);
      if (signs !== undefined && signs.length <= depth) return at;
    }
    return this.#lines.length;
  }

  /** The next line that is not blank; behind the last one: none. */
  #nextFull(at: number): number {
    let next = at + 1;
    while (next < this.#lines.length && this.#text(next) === "") next++;
    return next;
  }

  #text(at: number): string {
    return (this.#lines[at] ?? "").trim();
  }

  /** Of its indentation, with tabs as Python counts them. */
  #width(at: number): number {
    let width = 0;
    for (const char of indentOf(this.#lines[at] ?? "")) width += char === "\t" ? 8 - (width % 8) : 1;
    return width;
  }
}

function kindOf(text: string): string {
  return /^(?:\w+|[^\w\s])/.exec(text)?.[0].toLowerCase() ?? "";
}
