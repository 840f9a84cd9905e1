/** Elements whose content is omitted from the text. */
const SKIPPED_ELEMENTS = new Set([
  "title",
  "script",
  "style",
  "noscript",
  "template",
  "svg",
  "iframe",
  "object",
  "canvas",
  "select",
  "button",
  "nav",
  "dialog",
]);
const BLOCK_ELEMENTS = new Set([
  "address",
  "article",
  "aside",
  "blockquote",
  "body",
  "details",
  "dd",
  "div",
  "dl",
  "dt",
  "fieldset",
  "figcaption",
  "figure",
  "footer",
  "header",
  "hr",
  "html",
  "li",
  "main",
  "ol",
  "p",
  "pre",
  "section",
  "summary",
  "table",
  "tr",
  "ul",
  "h1",
  "h2",
  "h3",
  "h4",
  "h5",
  "h6",
]);
/** Blocks with an empty line before and after. */
const SPACED_BLOCKS = new Set([
  "p",
  "pre",
  "ul",
  "ol",
  "table",
  "blockquote",
  "h1",
  "h2",
  "h3",
  "h4",
  "h5",
  "h6",
  "dl",
  "figure",
  "section",
  "article",
]);

/** Maximum characters of text. Text after it is dropped. */
const MAX_TEXT_CHARACTERS = 5 * 1024 * 1024;
const MAX_TITLE_CHARACTERS = 500;
const MAX_LINK_CHARACTERS = 500;
/** Time limit for parsing a page, in ms. The text read until then is returned. */
const PARSE_TIMEOUT_MS = 3_000;
/** Characters parsed between two checks of the time limit. */
const SLICE_CHARACTERS = 64 * 1024;

export interface HtmlPage {
  title: string;
  /** Page content as Markdown. */
  text: string;
  /** Whether the page had more text than was read. */
  isTruncated: boolean;
}

/**
 * nesting depth, and stops at `PARSE_TIMEOUT_MS` or `MAX_TEXT_CHARACTERS`. `base`: the address to which links are
 * relative.
 */
export async function htmlToText(html: string, base: string): Promise<HtmlPage> {
  const { FlatParser } = await import("./flat-parser.js");
  const writer = new MarkdownWriter(base);
  const parser = new FlatParser(
    {
      onopentag: (name, attributes) => writer.openElement(name, attributes),
      onclosetag: (name) => writer.closeElement(name),
      ontext: (text) => writer.addText(text),
    },
    { decodeEntities: true, lowerCaseTags: true },
  );
  const deadlineMs = performance.now() + PARSE_TIMEOUT_MS;
  for (let start = 0; start < html.length; start += SLICE_CHARACTERS) {
    if (writer.isFull || performance.now() > deadlineMs) return { ...writer.createPage(), isTruncated: true };
    parser.write(html.slice(start, start + SLICE_CHARACTERS));
  }
  parser.end();
  return { ...writer.createPage(), isTruncated: writer.isFull };
}

/** Writes Markdown during parsing, without a tree. */
class MarkdownWriter {
  readonly #base: string;
  #pieces: string[] = [];
  #title = "";
  #isInTitle = false;
  #skippedDepth = 0;
  #preDepth = 0;
  /** Line breaks to write before the next text. */
  #pendingBreaks = 0;
  /** Whether to write a space before the next word. */
  #needsSpace = false;
  #isAtStart = true;
  readonly #lists: { isOrdered: boolean; nextNumber: number }[] = [];
  readonly #links: (string | undefined)[] = [];
  #cellCount = 0;
  /** Upper bound of the written characters. */
  #length = 0;

  constructor(base: string) {
    this.#base = base;
  }

  /** Whether the maximum length is reached. */
  get isFull(): boolean {
    return this.#length >= MAX_TEXT_CHARACTERS;
  }

  openElement(name: string, attributes: Record<string, string>): void {
    // An SVG drawing has its own `title` elements.
    if (name === "title") this.#isInTitle = this.#title === "" && this.#skippedDepth === 0;
    if (SKIPPED_ELEMENTS.has(name)) this.#skippedDepth++;
    if (this.#skippedDepth > 0) return;
    if (BLOCK_ELEMENTS.has(name))
      this.#addBreaks(SPACED_BLOCKS.has(name) && !(this.#lists.length > 0 && /^[uo]l$/.test(name)) ? 2 : 1);
    if (name === "br" && this.#preDepth > 0) this.#write("\n");
    else if (name === "br") this.#addBreaks(this.#pendingBreaks + 1);
    else if (name === "hr") this.#write("---");
    else if (/^h[1-6]$/.test(name)) this.#write(`${"#".repeat(Number(name[1]))} `);
    else if (name === "ul" || name === "ol")
      this.#lists.push({ isOrdered: name === "ol", nextNumber: Number(attributes.start) || 1 });
    else if (name === "li") this.#startListItem();
    else if (name === "blockquote") this.#write("> ");
    else if (name === "pre") {
      this.#write("```\n");
      this.#preDepth++;
    } else if (name === "code" && this.#preDepth === 0) this.#write("`");
    else if (name === "tr") this.#cellCount = 0;
    else if (name === "td" || name === "th") {
      if (this.#cellCount++ > 0) this.#write(" | ");
    } else if (name === "img") this.#writeImage(attributes);
    else if (name === "a") {
      const link = this.#resolveLink(attributes.href);
      this.#links.push(link);
      if (link !== undefined) this.#write("[");
    }
  }

  closeElement(name: string): void {
    if (name === "title") this.#isInTitle = false;
    if (SKIPPED_ELEMENTS.has(name)) {
      this.#skippedDepth = Math.max(0, this.#skippedDepth - 1);
      return;
    }
    if (this.#skippedDepth > 0) return;
    if (name === "ul" || name === "ol") this.#lists.pop();
    else if (name === "pre") {
      this.#preDepth = Math.max(0, this.#preDepth - 1);
      const lastPiece = this.#pieces.at(-1) ?? "";
      this.#write(lastPiece.endsWith("\n") ? "```" : "\n```");
    } else if (name === "code" && this.#preDepth === 0) this.#write("`", false);
    else if (name === "a") {
      const link = this.#links.pop();
      if (link !== undefined) this.#closeLink(link);
    }
    if (BLOCK_ELEMENTS.has(name))
      this.#addBreaks(SPACED_BLOCKS.has(name) && !(this.#lists.length > 0 && /^[uo]l$/.test(name)) ? 2 : 1);
  }

  addText(text: string): void {
    if (this.#isInTitle && this.#title.length < MAX_TITLE_CHARACTERS)
      this.#title += text.slice(0, MAX_TITLE_CHARACTERS);
    if (this.#skippedDepth > 0) return;
    if (this.#preDepth > 0) return this.#write(text);
    const words = text.split(/[\s\u200B\uFEFF]+/);
    words.forEach((word, index) => {
      if (index > 0) this.#needsSpace = true;
      if (word !== "") this.#write(word);
    });
  }

  createPage(): Omit<HtmlPage, "isTruncated"> {
    const text = this.#pieces
      .join("")
      .replace(/\n{3,}/g, "\n\n")
      .trim()
      .slice(0, MAX_TEXT_CHARACTERS);
    return { title: this.#title.replace(/\s+/g, " ").trim(), text };
  }

  /** `isSpaced`: whether a pending space is written before the text. */
  #write(text: string, isSpaced = true): void {
    if (this.isFull) return;
    // At most two characters are written before the text.
    this.#length += text.length + (this.#pendingBreaks > 0 ? Math.min(2, this.#pendingBreaks) : 1);
    if (this.#pendingBreaks > 0 && !this.#isAtStart) {
      this.#pieces.push("\n".repeat(Math.min(2, this.#pendingBreaks)));
    } else if (this.#needsSpace && isSpaced && !this.#isAtStart && !/\s/.test(this.#pieces.at(-1)?.at(-1) ?? ""))
      this.#pieces.push(" ");
    this.#pendingBreaks = 0;
    // Closing Markdown does not consume the space after it.
    if (isSpaced) this.#needsSpace = false;
    this.#isAtStart = false;
    this.#pieces.push(text);
  }

  #addBreaks(count: number): void {
    this.#pendingBreaks = Math.max(this.#pendingBreaks, count);
    this.#needsSpace = false;
  }

  /** Items on more than 9 levels are indented like those on level 9. */
  #startListItem(): void {
    const list = this.#lists.at(-1);
    const indent = "  ".repeat(Math.min(8, Math.max(0, this.#lists.length - 1)));
    this.#write(`${indent}${list?.isOrdered ? `${list.nextNumber++}.` : "-"} `);
  }

  #writeImage(attributes: Record<string, string>): void {
    const alt = attributes.alt?.trim();
    if (alt) this.#write(`![${alt.replace(/\s+/g, " ")}]`);
  }

  #resolveLink(href: string | undefined): string | undefined {
    if (href === undefined || href.startsWith("#") || href.length > MAX_LINK_CHARACTERS) return undefined;
    try {
      const url = new URL(href, this.#base);
      return /^https?:$/.test(url.protocol) && url.href.length <= MAX_LINK_CHARACTERS ? url.href : undefined;
    } catch {
      return undefined;
    }
  }

  /** Links without text, such as icons, are omitted. */
  #closeLink(link: string): void {
    if (this.#pieces.at(-1) === "[") this.#pieces.pop();
    else this.#write(`](${link})`, false);
  }
}
