/** Splits Markdown into blocks and renders them as HTML. The HTML is not sanitized yet; markdown.ts does that. */
import { Marked, type Token } from "marked";
import { withBareTags } from "./bare-tags.js";
import { BoundedLexer } from "./bounded-lexer.js";

/** Maximum characters of formatted text. Longer texts are rarely read, and formatting each would cost a frame. */
const MAX_FORMATTED_CHARACTERS = 200_000;
/** Images embedded as data URLs. Other images would cause a request. */
export const PICTURE = /^data:image\/(?:png|jpeg|gif|webp);base64,[a-z0-9+/=\s]+$/i;

const marked = new Marked({
  gfm: true,
  breaks: false,
  renderer: {
    // The lexer has already turned unpaired inline tags into text.
    html: ({ text, block }) => (block ? withBareTags(text, escaped) : text),
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

/** A self-contained piece of Markdown: a paragraph, a list, a code block. */
export interface MarkdownBlock {
  readonly raw: string;
  /** marked's token type, `plain` for unformatted text, or `whole` for many blocks in one. */
  readonly type: string;
  readonly tokens: readonly Token[];
}

export function blocksOf(text: string): MarkdownBlock[] {
  if (text.length > MAX_FORMATTED_CHARACTERS) return [plain(text)];
  try {
    return new BoundedLexer(marked.defaults)
      .lex(text)
      .filter(({ type }) => type !== "space" && type !== "def")
      .map((token) => ({ raw: token.raw, type: token.type, tokens: [token] }));
  } catch {
    // The text exceeds the work limit, or is nested too deeply for the parser.
    return [plain(text)];
  }
}

/** A text that does not grow any more, as one block: sanitizing it at once is much less work. */
export function singleBlockOf(text: string): readonly MarkdownBlock[] {
  const blocks = blocksOf(text);
  if (blocks.length < 2) return blocks;
  return [{ raw: text, type: "whole", tokens: blocks.flatMap(({ tokens }) => tokens) }];
}

/**
 * Blocks of a text that has grown. Blocks that the new text cannot change stay the same objects. `last` are the blocks
 * of the text `before`.
 */
export function blocksOfGrown(before: string, last: readonly MarkdownBlock[], text: string): readonly MarkdownBlock[] {
  if (text === before) return last;
  if (!text.startsWith(before) || last.length < 3 || text.length > MAX_FORMATTED_CHARACTERS) return blocksOf(text);
  // The last block may grow, and the one before it may turn out to be its start.
  const stableBlocks = last.slice(0, -2);
  let end = 0;
  for (const { raw } of stableBlocks) {
    const at = text.indexOf(raw, end);
    if (at < 0) return blocksOf(text);
    end = at + raw.length;
  }
  return [...stableBlocks, ...blocksOf(text.slice(end))];
}

/** HTML of a block, not sanitized. */
export function htmlOf({ tokens, raw }: MarkdownBlock): string {
  try {
    return marked.parser([...tokens]);
  } catch {
    return `<pre>${escaped(raw)}</pre>`;
  }
}

function plain(text: string): MarkdownBlock {
  return { raw: text, type: "plain", tokens: [] };
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
