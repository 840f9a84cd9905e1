/**
 * Adds Markdown to the document. This is the only place where text becomes HTML. marked parses text of a model, a tool
 * or a file into HTML, and DOMPurify sanitizes that. No other module creates HTML from text.
 */
import DOMPurify, { type Config } from "dompurify";
import { htmlOf, PICTURE, type MarkdownBlock } from "./blocks.js";
import { escapeReordering, escapeInvisible } from "./seen.js";

const LINK = /^(?:https?:\/\/|mailto:)/i;
const CLASS = /^(?:hljs-[\w-]+|language-[\w+#.-]+|function_|class_|)$/;

const ALLOWED: Config = {
  ALLOWED_TAGS: [
    ...["p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "code", "span", "div"],
    ...["ul", "ol", "li", "input", "table", "thead", "tbody", "tr", "th", "td", "a", "img", "del", "s", "u", "mark"],
    ...["strong", "em", "b", "i", "sub", "sup", "kbd", "details", "summary"],
  ],
  ALLOWED_ATTR: ["href", "title", "src", "alt", "align", "start", "type", "checked", "disabled", "class"],
  // Their values are not URLs.
  ADD_URI_SAFE_ATTR: ["align", "start", "type"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|data:image\/)/i,
  RETURN_DOM_FRAGMENT: true,
};

const purify = DOMPurify(window);

// In code, all invisible characters are shown, because a reader copies code exactly. In prose, only those that reorder
// text.
purify.addHook("beforeSanitizeElements", (node) => {
  if (node.nodeType !== Node.TEXT_NODE || node.nodeValue === null) return;
  const shown = node.parentElement?.closest("code, pre")
    ? escapeInvisible(node.nodeValue)
    : escapeReordering(node.nodeValue);
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
    if (text !== null) element.setAttribute(read, escapeInvisible(text));
  }
  if (name === "IMG" && !PICTURE.test(element.getAttribute("src") ?? "")) element.remove();
  // Only checkboxes of task lists are allowed; they are disabled.
  if (name === "INPUT") {
    if (element.getAttribute("type") !== "checkbox") element.remove();
    else element.setAttribute("disabled", "");
  }
  const classes = element.getAttribute("class");
  if (classes !== null && !classes.split(/\s+/).every((className) => CLASS.test(className)))
    element.removeAttribute("class");
});

/** Replaces the content of an element with a block. */
export function showBlock(element: Element, block: MarkdownBlock): void {
  if (block.type === "plain") element.replaceChildren(preOf(block.raw));
  else element.replaceChildren(clean(htmlOf(block)));
}

/** Replaces the content of an element with a highlighter's HTML. */
export function showHighlighted(element: Element, html: string): void {
  element.replaceChildren(clean(html));
}

function clean(html: string): DocumentFragment {
  return purify.sanitize(html, ALLOWED) as unknown as DocumentFragment;
}

function preOf(text: string): HTMLElement {
  const element = document.createElement("pre");
  element.className = "markdown-plain";
  element.textContent = escapeInvisible(text);
  return element;
}
