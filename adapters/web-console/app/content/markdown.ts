/**
 * Markdown on its way into the document: the one place where text becomes HTML. What a model, a tool or a file said is
 * parsed to HTML by marked and comes in as what DOMPurify leaves of it; nothing else in the app makes HTML of text.
 */
import DOMPurify, { type Config } from "dompurify";
import { Marked, type Token } from "marked";
import { inOrder, seen } from "./seen.js";

/** Longer ones are shown as they are: nobody reads them, and each costs a frame. */
const LONGEST = 200_000;
/** Tags without attributes that models write into Markdown. All else between `<` and `>` is text. */
const BARE_TAG = /(<\/?(?:br|sub|sup|kbd|b|i|em|strong|u|s|mark|details|summary|hr)\s*\/?>)/i;
const LINK = /^(?:https?:\/\/|mailto:)/i;
/** Pictures that stand in the text itself. Others would be a request. */
const PICTURE = /^data:image\/(?:png|jpeg|gif|webp);base64,[a-z0-9+/=\s]+$/i;

const ALLOWED: Config = {
  ALLOWED_TAGS: [
    ...["p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "code", "span", "div"],
    ...["ul", "ol", "li", "input", "table", "thead", "tbody", "tr", "th", "td", "a", "img", "del", "s", "u", "mark"],
    ...["strong", "em", "b", "i", "sub", "sup", "kbd", "details", "summary"],
  ],
  ALLOWED_ATTR: ["href", "title", "src", "alt", "align", "start", "type", "checked", "disabled", "class"],
  // Their values are no addresses.
  ADD_URI_SAFE_ATTR: ["align", "start", "type"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|data:image\/)/i,
  RETURN_DOM_FRAGMENT: true,
};

const purify = DOMPurify(window);

// Code is read, and copied, to the letter.
purify.addHook("beforeSanitizeElements", (node) => {
  if (node.nodeType !== Node.TEXT_NODE || node.nodeValue === null) return;
  const shown = node.parentElement?.closest("code, pre") ? seen(node.nodeValue) : inOrder(node.nodeValue);
  if (shown !== node.nodeValue) node.nodeValue = shown;
});

purify.addHook("afterSanitizeAttributes", (element) => {
  const name = element.tagName;
  if (name === "A") {
    if (LINK.test(element.getAttribute("href") ?? "")) {
      element.setAttribute("rel", "noopener noreferrer");
      element.setAttribute("target", "_blank");
    } else element.removeAttribute("href");
  }
  for (const read of ["title", "alt"]) {
    const text = element.getAttribute(read);
    if (text !== null) element.setAttribute(read, seen(text));
  }
  if (name === "IMG" && !PICTURE.test(element.getAttribute("src") ?? "")) element.remove();
  // Boxes of task lists; no other field is anybody's business.
  if (name === "INPUT") {
    if (element.getAttribute("type") !== "checkbox") element.remove();
    else element.setAttribute("disabled", "");
  }
  const classes = element.getAttribute("class");
  if (classes !== null && !/^(?:hljs-[\w-]+|language-[\w+#.-]+|function_|class_|\s)+$/.test(classes))
    element.removeAttribute("class");
});

const marked = new Marked({
  gfm: true,
  breaks: false,
  renderer: {
    html: ({ text }) => withoutTags(text),
    image: ({ href, text }) =>
      PICTURE.test(href)
        ? `<img src="${escaped(href)}" alt="${escaped(text)}">`
        : `<a href="${escaped(href)}">${escaped(text || href)}</a>`,
    code: ({ text, lang }) => {
      const language = (lang ?? "").match(/^[\w+#.-]{1,30}/)?.[0] ?? "";
      return `<pre><code class="language-${language || "none"}">${escaped(text)}\n</code></pre>`;
    },
  },
});

/** A piece of Markdown that stands for itself: a paragraph, a list, a block of code. */
export interface Block {
  readonly raw: string;
  /** `plain` where it is shown as it is, `whole` where it is many blocks in one. */
  readonly type: string;
  readonly tokens: readonly Token[];
}

/** The blocks of a text. */
export function blocksOf(text: string): Block[] {
  if (text.length > LONGEST) return [plain(text)];
  try {
    const tokens = marked.lexer(text);
    return tokens
      .filter(({ type }) => type !== "space" && type !== "def")
      .map((token) => ({ raw: token.raw, type: token.type, tokens: [token] }));
  } catch {
    // Nested deeper than the parser goes.
    return [plain(text)];
  }
}

/** A text that grows no more, as one block: it is cleaned at once, which is much less work. */
export function wholeOf(text: string): readonly Block[] {
  const blocks = blocksOf(text);
  if (blocks.length < 2) return blocks;
  return [{ raw: text, type: "whole", tokens: blocks.flatMap(({ tokens }) => tokens) }];
}

/**
 * The blocks of a text that has grown: those that what was added cannot change stay the same objects. `last` are the
 * blocks of the text before.
 */
export function blocksOfGrown(before: string, last: readonly Block[], text: string): readonly Block[] {
  if (text === before) return last;
  if (!text.startsWith(before) || last.length < 3 || text.length > LONGEST) return blocksOf(text);
  // The last may grow, and the one before it may turn out to be its begin.
  const kept = last.slice(0, -2);
  let end = 0;
  for (const { raw } of kept) {
    const at = text.indexOf(raw, end);
    if (at < 0) return blocksOf(text);
    end = at + raw.length;
  }
  return [...kept, ...blocksOf(text.slice(end))];
}

/** Show a block in an element, in place of what is there. */
export function showBlock(element: Element, block: Block): void {
  if (block.type === "plain") element.replaceChildren(preOf(block.raw));
  else element.replaceChildren(clean(htmlOf(block)));
}

/** Show HTML that a highlighter made of code in an element. */
export function showHighlighted(element: Element, html: string): void {
  element.replaceChildren(clean(html));
}

function htmlOf({ tokens, raw }: Block): string {
  try {
    return marked.parser([...tokens]);
  } catch {
    return `<pre>${escaped(raw)}</pre>`;
  }
}

function clean(html: string): DocumentFragment {
  return purify.sanitize(html, ALLOWED) as unknown as DocumentFragment;
}

function plain(text: string): Block {
  return { raw: text, type: "plain", tokens: [] };
}

function preOf(text: string): HTMLElement {
  const element = document.createElement("pre");
  element.className = "markdown-plain";
  element.textContent = seen(text);
  return element;
}

/** A few tags as they are, all others as text that can be read. */
function withoutTags(text: string): string {
  return text
    .split(BARE_TAG)
    .map((part, index) => (index % 2 === 1 ? part : escaped(part)))
    .join("");
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
