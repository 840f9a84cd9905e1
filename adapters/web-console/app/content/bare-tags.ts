import type { Token } from "marked";

/** Tags without attributes that models use in Markdown. Everything else between `<` and `>` is text. */
const BARE_TAG = /(<\/?(?:br|sub|sup|kbd|b|i|em|strong|u|s|mark|details|summary|hr)\s*\/?>)/i;
const BARE_ALONE = new RegExp(`^${BARE_TAG.source}$`, "i");
const PARTS = /^<(\/?)([a-z]+)/i;
const WITHOUT_END = /^[bh]r$/;
/** Tags that may start in one block and end in another. */
const FOLD = /^(?:details|summary)$/;

/**
 * Turns unpaired tags in a run of text into text. The HTML parser would reopen an unclosed tag in all following
 * content, once more for each level.
 */
export function pairTags(tokens: Token[]): void {
  const tags = tokens.filter(({ type }) => type === "html");
  if (tags.length === 0) return;
  const stand = findPairedTags(tags.map(({ raw }) => raw));
  tags.forEach((tag, index) => {
    if (!stand[index]) Object.assign(tag, { type: "text", text: tag.raw, escaped: false });
  });
}

/** Converts HTML in Markdown: keeps a few bare tags, and escapes all others as readable text. */
export function withBareTags(html: string, escaped: (text: string) => string): string {
  const parts = html.split(BARE_TAG);
  const stand = findPairedTags(parts, FOLD);
  return parts.map((part, index) => (stand[index] ? part : escaped(part))).join("");
}

/** Returns for each part whether it is a bare tag with a matching tag. Tags that match `alone` need no match. */
function findPairedTags(parts: readonly string[], alone?: RegExp): boolean[] {
  const stand = parts.map(() => false);
  const open: { name: string; index: number }[] = [];
  const count = new Map<string, number>();
  const step = (name: string, by: number) => count.set(name, (count.get(name) ?? 0) + by);
  parts.forEach((part, index) => {
    if (!BARE_ALONE.test(part)) return;
    const [, end, written = ""] = PARTS.exec(part) ?? [];
    const name = written.toLowerCase();
    if (WITHOUT_END.test(name) || alone?.test(name)) stand[index] = true;
    else if (end !== "/") {
      open.push({ name, index });
      step(name, 1);
    } else
      while ((count.get(name) ?? 0) > 0) {
        const last = open.pop();
        if (!last) break;
        step(last.name, -1);
        if (last.name !== name) continue;
        stand[last.index] = stand[index] = true;
        break;
      }
  });
  return stand;
}
