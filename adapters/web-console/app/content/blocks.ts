/** Splits Markdown into blocks and renders them as HTML. The HTML is not sanitized yet; markdown.ts does that. */
import { Marked, type Token } from "marked";
import { keepBareTags } from "./bare-tags.js";
import { BoundedLexer } from "./bounded-lexer.js";

/** Maximum characters of a text that is formatted. Formatting a longer text would delay a frame. */
const MAX_FORMATTED_CHARACTERS = 200_000;
/** Number of last blocks that more text can change: the last block may grow and join with the block before it. */
const UNSTABLE_BLOCKS = 2;
/** Matches images that are embedded as data URLs. Other images would cause a request. */
export const IMAGE_DATA_URL = /^data:image\/(?:png|jpeg|gif|webp);base64,[a-z0-9+/=\s]+$/i;

const marked = new Marked({
  gfm: true,
  breaks: false,
  renderer: {
    // The lexer has already turned unpaired inline tags into text.
    html: ({ text, block }) => (block ? keepBareTags(text, escapeHtml) : text),
    image: ({ href, text }) =>
      IMAGE_DATA_URL.test(href)
        ? `<img src="${escapeHtml(href)}" alt="${escapeHtml(text)}">`
        : `<a href="${escapeHtml(href)}">${escapeHtml(text || href)}</a>`,
    code: ({ text, lang }) => {
      const language = (lang ?? "").match(/^[\w+#.-]{1,30}/)?.[0] ?? "";
      return `<pre><code class="language-${language || "none"}">${escapeHtml(text)}\n</code></pre>`;
    },
  },
});

/** A self-contained piece of Markdown: a paragraph, a list, a code block. */
export interface MarkdownBlock {
  readonly raw: string;
  /** marked's token type, `plain` for unformatted text, or `whole` for many blocks in one. */
  readonly type: string;
  readonly tokens: readonly Token[];
}

/** Splits a text into blocks. A text that is too long or too nested becomes one `plain` block. */
export function parseBlocks(text: string): MarkdownBlock[] {
  if (text.length > MAX_FORMATTED_CHARACTERS) return [toPlainBlock(text)];
  try {
    return new BoundedLexer(marked.defaults)
      .lex(text)
      .filter(({ type }) => type !== "space" && type !== "def")
      .map((token) => ({ raw: token.raw, type: token.type, tokens: [token] }));
  } catch {
    // The text exceeds the work limit, or is nested too deeply for the parser.
    return [toPlainBlock(text)];
  }
}

/** Parses a complete text into at most one block, because sanitizing one block is much less work than many. */
export function parseSingleBlock(text: string): readonly MarkdownBlock[] {
  const blocks = parseBlocks(text);
  if (blocks.length < 2) return blocks;
  return [{ raw: text, type: "whole", tokens: blocks.flatMap(({ tokens }) => tokens) }];
}

/**
 * Parses a text that has grown since `previousText`. Blocks that the added text cannot change stay the same objects.
 */
export function parseGrownText(
  previousText: string,
  previousBlocks: readonly MarkdownBlock[],
  text: string,
): readonly MarkdownBlock[] {
  if (text === previousText) return previousBlocks;
  if (
    !text.startsWith(previousText) ||
    previousBlocks.length <= UNSTABLE_BLOCKS ||
    text.length > MAX_FORMATTED_CHARACTERS
  )
    return parseBlocks(text);
  const stableBlocks = previousBlocks.slice(0, -UNSTABLE_BLOCKS);
  let end = 0;
  for (const { raw } of stableBlocks) {
    const blockStart = text.indexOf(raw, end);
    if (blockStart < 0) return parseBlocks(text);
    end = blockStart + raw.length;
  }
  return [...stableBlocks, ...parseBlocks(text.slice(end))];
}

/** Renders a block as HTML that is not sanitized. */
export function renderHtml({ tokens, raw }: MarkdownBlock): string {
  try {
    return marked.parser([...tokens]);
  } catch {
    return `<pre>${escapeHtml(raw)}</pre>`;
  }
}

function toPlainBlock(text: string): MarkdownBlock {
  return { raw: text, type: "plain", tokens: [] };
}

function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
