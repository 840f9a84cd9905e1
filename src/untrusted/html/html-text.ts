/** Nothing in these is for readers. */
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
/** Blocks with an empty line around them. */
const APART = new Set([
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

/** Of the text, in characters; there is nothing behind it. */
const MAX_TEXT = 5 * 1024 * 1024;
const MAX_TITLE = 500;
const MAX_LINK = 500;
/** For one page, in ms; then what was read until there is all. */
const PARSE_MS = 3_000;
/** How much is parsed between two looks at the clock, in characters. */
const SLICE = 64 * 1024;

export interface Page {
  title: string;
  /** Markdown. */
  text: string;
  /** Whether there was more than is read. */
  cut: boolean;
}

/**
 * What a person would read of a page: headings, text, lists, code, tables and links, as Markdown. Takes nesting of any
 * depth, a few seconds at most, and text of 5 million characters.
 */
export async function htmlToText(html: string, base: string): Promise<Page> {
  const { FlatParser } = await import("./flat-parser.js");
  const writer = new Writer(base);
  const parser = new FlatParser(
    {
      onopentag: (name, attributes) => writer.open(name, attributes),
      onclosetag: (name) => writer.close(name),
      ontext: (text) => writer.text(text),
    },
    { decodeEntities: true, lowerCaseTags: true },
  );
  const until = performance.now() + PARSE_MS;
  for (let from = 0; from < html.length; from += SLICE) {
    if (writer.full || performance.now() > until) return { ...writer.page(), cut: true };
    parser.write(html.slice(from, from + SLICE));
  }
  parser.end();
  return { ...writer.page(), cut: writer.full };
}

/** Builds the text while the parser goes, without a tree. */
class Writer {
  readonly #base: string;
  #out: string[] = [];
  #title = "";
  #inTitle = false;
  #skipped = 0;
  #pre = 0;
  /** Line breaks to write before the next text; a space to write before the next word. */
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

  /** Whether it takes no more. */
  get full(): boolean {
    return this.#length >= MAX_TEXT;
  }

  open(name: string, attributes: Record<string, string>): void {
    // A drawing has titles of its own.
    if (name === "title") this.#inTitle = this.#title === "" && this.#skipped === 0;
    if (SKIPPED.has(name)) this.#skipped++;
    if (this.#skipped > 0) return;
    if (BLOCKS.has(name)) this.#break(APART.has(name) && !(this.#lists.length > 0 && /^[uo]l$/.test(name)) ? 2 : 1);
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
    if (BLOCKS.has(name)) this.#break(APART.has(name) && !(this.#lists.length > 0 && /^[uo]l$/.test(name)) ? 2 : 1);
  }

  text(text: string): void {
    if (this.#inTitle && this.#title.length < MAX_TITLE) this.#title += text.slice(0, MAX_TITLE);
    if (this.#skipped > 0) return;
    if (this.#pre > 0) return this.#put(text);
    const words = text.split(/[\s\u200B\uFEFF]+/);
    words.forEach((word, index) => {
      if (index > 0) this.#space = true;
      if (word !== "") this.#put(word);
    });
  }

  page(): Omit<Page, "cut"> {
    const text = this.#out
      .join("")
      .replace(/\n{3,}/g, "\n\n")
      .trim()
      .slice(0, MAX_TEXT);
    return { title: this.#title.replace(/\s+/g, " ").trim(), text };
  }

  #put(text: string, spaced = true): void {
    if (this.full) return;
    // At most two signs come before it.
    this.#length += text.length + (this.#breaks > 0 ? Math.min(2, this.#breaks) : 1);
    if (this.#breaks > 0 && !this.#atStart) {
      this.#out.push("\n".repeat(Math.min(2, this.#breaks)));
    } else if (this.#space && spaced && !this.#atStart && !/\s/.test(this.#out.at(-1)?.at(-1) ?? ""))
      this.#out.push(" ");
    this.#breaks = 0;
    // A closing sign does not use up the space behind it.
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
    if (href === undefined || href.startsWith("#") || href.length > MAX_LINK) return undefined;
    try {
      const url = new URL(href, this.#base);
      return /^https?:$/.test(url.protocol) && url.href.length <= MAX_LINK ? url.href : undefined;
    } catch {
      return undefined;
    }
  }

  /** A link around nothing (an icon) is left out. */
  #closeLink(link: string): void {
    if (this.#out.at(-1) === "[") this.#out.pop();
    else this.#put(`](${link})`, false);
  }
}
