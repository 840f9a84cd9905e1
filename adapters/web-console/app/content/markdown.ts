/**
 * Adds Markdown to the document. marked converts the text of a model, a tool or a file to HTML, and DOMPurify sanitizes
 * the HTML. No other module adds HTML to the document.
 */
import DOMPurify, { type Config } from "dompurify";
import { renderHtml, IMAGE_DATA_URL, type MarkdownBlock } from "./blocks.js";
import { FILE_TARGET_ATTRIBUTE } from "./file-target.js";
import { escapeReordering, escapeInvisible } from "./escape.js";

const LINK_URL_PATTERN = /^(?:https?:\/\/|mailto:)/i;
const CLASS_NAME_PATTERN = /^(?:hljs-[\w-]+|language-[\w+#.-]+|function_|class_|)$/;

const SANITIZER_CONFIG: Config = {
  ALLOWED_TAGS: [
    ...["p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "code", "span", "div"],
    ...["ul", "ol", "li", "input", "table", "thead", "tbody", "tr", "th", "td", "a", "img", "del", "s", "u", "mark"],
    ...["strong", "em", "b", "i", "sub", "sup", "kbd", "details", "summary"],
  ],
  ALLOWED_ATTR: ["href", "title", "src", "alt", "align", "start", "type", "checked", "disabled", "class"],
  // The values of these attributes are not URLs.
  ADD_URI_SAFE_ATTR: ["align", "start", "type"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|data:image\/)/i,
  RETURN_DOM_FRAGMENT: true,
};

const purify = DOMPurify(window);

// In code, all invisible characters are escaped, because a reader copies code exactly. In prose, only characters that
// reorder the text are escaped.
purify.addHook("beforeSanitizeElements", (node) => {
  if (node.nodeType !== Node.TEXT_NODE || node.nodeValue === null) return;
  const escapedText = node.parentElement?.closest("code, pre")
    ? escapeInvisible(node.nodeValue)
    : escapeReordering(node.nodeValue);
  if (escapedText !== node.nodeValue) node.nodeValue = escapedText;
});

/** The target of the link that is sanitized now. */
let linkTarget = "";
purify.addHook("beforeSanitizeAttributes", (element) => {
  linkTarget = element.getAttribute?.("href") ?? "";
});

purify.addHook("afterSanitizeAttributes", (element) => {
  const name = element.tagName;
  if (name === "A") {
    if (LINK_URL_PATTERN.test(element.getAttribute("href") ?? "")) {
      element.setAttribute("rel", "noopener noreferrer");
      element.setAttribute("target", "_blank");
    } else {
      element.removeAttribute("href");
      if (linkTarget !== "") element.setAttribute(FILE_TARGET_ATTRIBUTE, linkTarget);
    }
  }
  for (const attribute of ["title", "alt"]) {
    const text = element.getAttribute(attribute);
    if (text !== null) element.setAttribute(attribute, escapeInvisible(text));
  }
  if (name === "IMG" && !IMAGE_DATA_URL.test(element.getAttribute("src") ?? "")) element.remove();
  // Only checkboxes of task lists are allowed; they are disabled.
  if (name === "INPUT") {
    if (element.getAttribute("type") !== "checkbox") element.remove();
    else element.setAttribute("disabled", "");
  }
  const classes = element.getAttribute("class");
  if (classes !== null && !classes.split(/\s+/).every((className) => CLASS_NAME_PATTERN.test(className)))
    element.removeAttribute("class");
});

/** Replaces the content of an element with a block. */
export function showBlock(element: Element, block: MarkdownBlock): void {
  if (block.type === "plain") element.replaceChildren(createPre(block.raw));
  else element.replaceChildren(sanitize(renderHtml(block)));
}

/** Replaces the content of an element with a highlighter's HTML. */
export function showHighlighted(element: Element, html: string): void {
  element.replaceChildren(sanitize(html));
}

function sanitize(html: string): DocumentFragment {
  return purify.sanitize(html, SANITIZER_CONFIG) as unknown as DocumentFragment;
}

function createPre(text: string): HTMLElement {
  const element = document.createElement("pre");
  element.className = "markdown-plain";
  element.textContent = escapeInvisible(text);
  return element;
}
