import type { Token } from "marked";

/** Tags without attributes that models use in Markdown. Everything else between `<` and `>` is text. */
const BARE_TAG_PATTERN = /(<\/?(?:br|sub|sup|kbd|b|i|em|strong|u|s|mark|details|summary|hr)\s*\/?>)/i;
const BARE_TAG_ONLY_PATTERN = new RegExp(`^${BARE_TAG_PATTERN.source}$`, "i");
const TAG_PARTS_PATTERN = /^<(\/?)([a-z]+)/i;
const VOID_TAG_PATTERN = /^[bh]r$/;
/** Tags that may start in one block and end in another. */
const CROSS_BLOCK_TAG_PATTERN = /^(?:details|summary)$/;

/**
 * Turns the unpaired tags of inline content into text. The HTML parser would reopen an unclosed tag in all following
 * content, once more for each nesting level.
 */
export function pairTags(tokens: Token[]): void {
  const tags = tokens.filter(({ type }) => type === "html");
  if (tags.length === 0) return;
  const pairedFlags = findPairedTags(tags.map(({ raw }) => raw));
  tags.forEach((tag, index) => {
    if (!pairedFlags[index]) Object.assign(tag, { type: "text", text: tag.raw, escaped: false });
  });
}

/** Converts HTML in Markdown: keeps paired bare tags, and escapes all other content as readable text. */
export function keepBareTags(html: string, escapeText: (text: string) => string): string {
  const parts = html.split(BARE_TAG_PATTERN);
  const keptFlags = findPairedTags(parts, CROSS_BLOCK_TAG_PATTERN);
  return parts.map((part, index) => (keptFlags[index] ? part : escapeText(part))).join("");
}

/**
 * Returns for each part whether it is a bare tag with a matching tag. Tags that match `unpairedTagPattern` need none.
 */
function findPairedTags(parts: readonly string[], unpairedTagPattern?: RegExp): boolean[] {
  const isPaired = parts.map(() => false);
  const openTags: { name: string; index: number }[] = [];
  const openCounts = new Map<string, number>();
  const changeCount = (name: string, difference: number) =>
    openCounts.set(name, (openCounts.get(name) ?? 0) + difference);
  parts.forEach((part, index) => {
    if (!BARE_TAG_ONLY_PATTERN.test(part)) return;
    const [, slash, writtenName = ""] = TAG_PARTS_PATTERN.exec(part) ?? [];
    const name = writtenName.toLowerCase();
    if (VOID_TAG_PATTERN.test(name) || unpairedTagPattern?.test(name)) isPaired[index] = true;
    else if (slash !== "/") {
      openTags.push({ name, index });
      changeCount(name, 1);
    } else
      while ((openCounts.get(name) ?? 0) > 0) {
        const lastTag = openTags.pop();
        if (!lastTag) break;
        changeCount(lastTag.name, -1);
        if (lastTag.name !== name) continue;
        isPaired[lastTag.index] = isPaired[index] = true;
        break;
      }
  });
  return isPaired;
}
