/** Markdown as blocks, and these as HTML that nobody has cleaned yet: markdown.ts does. */
import { Marked, type Token } from "marked";
import { withBareTags } from "./bare-tags.js";
import { BoundedLexer } from "./bounded-lexer.js";

/** Longer ones are shown as they are: nobody reads them, and each costs a frame. */
const LONGEST = 200_000;
/** Pictures that stand in the text itself. Others would be a request. */
export const PICTURE = /^data:image\/(?:png|jpeg|gif|webp);base64,[a-z0-9+/=\s]+$/i;

const marked = new Marked({
  gfm: true,
  breaks: false,
  renderer: {
    // Of those in a line the lexer has left none that does not stand.
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

/** A piece of Markdown that stands for itself: a paragraph, a list, a block of code. */
export interface Block {
  readonly raw: string;
  /** `plain` where it is shown as it is, `whole` where it is many blocks in one. */
  readonly type: string;
  readonly tokens: readonly Token[];
}

export function blocksOf(text: string): Block[] {
  if (text.length > LONGEST) return [plain(text)];
  try {
    return new BoundedLexer(marked.defaults)
      .lex(text)
      .filter(({ type }) => type !== "space" && type !== "def")
      .map((token) => ({ raw: token.raw, type: token.type, tokens: [token] }));
  } catch {
    // More than it is worth, or nested deeper than the parser goes.
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

/** HTML of a block, as marked makes it. */
export function htmlOf({ tokens, raw }: Block): string {
  try {
    return marked.parser([...tokens]);
  } catch {
    return `<pre>${escaped(raw)}</pre>`;
  }
}

function plain(text: string): Block {
  return { raw: text, type: "plain", tokens: [] };
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
