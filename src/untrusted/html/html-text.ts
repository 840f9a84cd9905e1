/** Elements whose content is not for readers. */
const SKIPPED = new Set([
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
const BLOCKS = new Set([
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
 * Converts the readable content of a page to Markdown: headings, text, lists, code, tables and links. Handles any
 * nesting depth, parses for at most 3 s, and returns at most 5 million characters.
 */
export async function htmlToText(html: string, base: string): Promise<HtmlPage> {
  const { FlatParser } = await import("./flat-parser.js");
  const writer = new MarkdownWriter(base);
  const parser = new FlatParser(
    {
      onopentag: (name, attributes) => writer.open(name, attributes),
      onclosetag: (name) => writer.close(name),
      ontext: (text) => writer.text(text),
    },
    { decodeEntities: true, lowerCaseTags: true },
  );
  const until = performance.now() + PARSE_TIMEOUT_MS;
  for (let from = 0; from < html.length; from += SLICE_CHARACTERS) {
    if (writer.isFull || performance.now() > until) return { ...writer.page(), isTruncated: true };
    parser.write(html.slice(from, from + SLICE_CHARACTERS));
  }
  parser.end();
  return { ...writer.page(), isTruncated: writer.isFull };
}

/** Builds the text during parsing, without a tree. */
class MarkdownWriter {
  readonly #base: string;
  #out: string[] = [];
  #title = "";
  #inTitle = false;
  #skipped = 0;
  #pre = 0;
  /** Line breaks to write before the next text, and whether to write a space before the next word. */
  #breaks = 0;
  #space = false;
  #atStart = true;
  readonly #lists: { ordered: boolean; next: number }[] = [];
  readonly #links: (string | undefined)[] = [];
  #cell = 0;
  #length = 0;

  constructor(base: string) {
    this.#base = base;
  }

  /** Whether the maximum length is reached. */
  get isFull(): boolean {
    return this.#length >= MAX_TEXT_CHARACTERS;
  }

  open(name: string, attributes: Record<string, string>): void {
    // An SVG drawing has its own `title` elements.
    if (name === "title") this.#inTitle = this.#title === "" && this.#skipped === 0;
    if (SKIPPED.has(name)) this.#skipped++;
    if (this.#skipped > 0) return;
    if (BLOCKS.has(name))
      this.#break(SPACED_BLOCKS.has(name) && !(this.#lists.length > 0 && /^[uo]l$/.test(name)) ? 2 : 1);
    if (name === "br" && this.#pre > 0) this.#put("\n");
    else if (name === "br") this.#break(this.#breaks + 1);
    else if (name === "hr") this.#put("---");
    else if (/^h[1-6]$/.test(name)) this.#put(`${"#".repeat(Number(name[1]))} `);
    else if (name === "ul" || name === "ol")
      this.#lists.push({ ordered: name === "ol", next: Number(attributes.start) || 1 });
    else if (name === "li") this.#item();
    else if (name === "blockquote") this.#put("> ");
    else if (name === "pre") {
      this.#put("```\n");
      this.#pre++;
    } else if (name === "code" && this.#pre === 0) this.#put("`");
    else if (name === "tr") this.#cell = 0;
    else if (name === "td" || name === "th") {
      if (this.#cell++ > 0) this.#put(" | ");
    } else if (name === "img") this.#image(attributes);
    else if (name === "a") {
      const link = this.#link(attributes.href);
      this.#links.push(link);
      if (link !== undefined) this.#put("[");
    }
  }

  close(name: string): void {
    if (name === "title") this.#inTitle = false;
    if (SKIPPED.has(name)) {
      this.#skipped = Math.max(0, this.#skipped - 1);
      return;
    }
    if (this.#skipped > 0) return;
    if (name === "ul" || name === "ol") this.#lists.pop();
    else if (name === "pre") {
      this.#pre = Math.max(0, this.#pre - 1);
      const last = this.#out.at(-1) ?? "";
      this.#put(last.endsWith("\n") ? "```" : "\n```");
    } else if (name === "code" && this.#pre === 0) this.#put("`", false);
    else if (name === "a") {
      const link = this.#links.pop();
      if (link !== undefined) this.#closeLink(link);
    }
    if (BLOCKS.has(name))
      this.#break(SPACED_BLOCKS.has(name) && !(this.#lists.length > 0 && /^[uo]l$/.test(name)) ? 2 : 1);
  }

  text(text: string): void {
    if (this.#inTitle && this.#title.length < MAX_TITLE_CHARACTERS) this.#title += text.slice(0, MAX_TITLE_CHARACTERS);
    if (this.#skipped > 0) return;
    if (this.#pre > 0) return this.#put(text);
    const words = text.split(/[\s\u200B\uFEFF]+/);
    words.forEach((word, index) => {
      if (index > 0) this.#space = true;
      if (word !== "") this.#put(word);
    });
  }

  page(): Omit<HtmlPage, "isTruncated"> {
    const text = this.#out
      .join("")
      .replace(/\n{3,}/g, "\n\n")
      .trim()
      .slice(0, MAX_TEXT_CHARACTERS);
    return { title: this.#title.replace(/\s+/g, " ").trim(), text };
  }

  #put(text: string, spaced = true): void {
    if (this.isFull) return;
    // At most two characters are written before the text.
    this.#length += text.length + (this.#breaks > 0 ? Math.min(2, this.#breaks) : 1);
    if (this.#breaks > 0 && !this.#atStart) {
      this.#out.push("\n".repeat(Math.min(2, this.#breaks)));
    } else if (this.#space && spaced && !this.#atStart && !/\s/.test(this.#out.at(-1)?.at(-1) ?? ""))
      this.#out.push(" ");
    this.#breaks = 0;
    // A closing mark does not consume the space after it.
    if (spaced) this.#space = false;
    this.#atStart = false;
    this.#out.push(text);
  }

  #break(count: number): void {
    this.#breaks = Math.max(this.#breaks, count);
    this.#space = false;
  }

  #item(): void {
    const list = this.#lists.at(-1);
    const indent = "  ".repeat(Math.min(8, Math.max(0, this.#lists.length - 1)));
    this.#put(`${indent}${list?.ordered ? `${list.next++}.` : "-"} `);
  }

  #image(attributes: Record<string, string>): void {
    const alt = attributes.alt?.trim();
    if (alt) this.#put(`![${alt.replace(/\s+/g, " ")}]`);
  }

  #link(href: string | undefined): string | undefined {
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
    if (this.#out.at(-1) === "[") this.#out.pop();
    else this.#put(`](${link})`, false);
  }
}
