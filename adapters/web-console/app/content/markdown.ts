/**
 * Markdown on its way into the document: the one place where text becomes HTML. What a model, a tool or a file said is
 * parsed to HTML by marked and comes in as what DOMPurify leaves of it; nothing else in the app makes HTML of text.
 */
import DOMPurify, { type Config } from "dompurify";
import { htmlOf, PICTURE, type Block } from "./blocks.js";
import { inOrder, seen } from "./seen.js";

const LINK = /^(?:https?:\/\/|mailto:)/i;
const CLASS = /^(?:hljs-[\w-]+|language-[\w+#.-]+|function_|class_|)$/;

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
  if (classes !== null && !classes.split(/\s+/).every((one) => CLASS.test(one))) element.removeAttribute("class");
});

/** Show a block in an element, in place of what is there. */
export function showBlock(element: Element, block: Block): void {
  if (block.type === "plain") element.replaceChildren(preOf(block.raw));
  else element.replaceChildren(clean(htmlOf(block)));
}

/** Show HTML that a highlighter made of code in an element. */
export function showHighlighted(element: Element, html: string): void {
  element.replaceChildren(clean(html));
}

function clean(html: string): DocumentFragment {
  return purify.sanitize(html, ALLOWED) as unknown as DocumentFragment;
}

function preOf(text: string): HTMLElement {
  const element = document.createElement("pre");
  element.className = "markdown-plain";
  element.textContent = seen(text);
  return element;
}
