/** Length of each text, in characters. */
const TEXT_CHARACTERS = 198_000;

function filled(unit: string, begin = "", end = ""): string {
  return begin + unit.repeat(Math.floor((TEXT_CHARACTERS - begin.length - end.length) / unit.length)) + end;
}

/**
 * Texts short enough to be shown as Markdown, on which Markdown parsers without limits take extremely long or produce
 * huge output.
 */
export const HOSTILE_MARKDOWN: Readonly<Record<string, string>> = {
  "words that may be an address": filled("a.", "", "@"),
  "a word that may be emphasis": filled("_a"),
  "emphasis that may be an address": filled("_a."),
  "base64 of addresses": filled("aZ09-_"),
  "emphasis that never ends": filled("**a "),
  "two kinds of it": filled("*_"),
  "brackets that never end": filled("["),
  "code of many lengths": Array.from({ length: 600 }, (_, i) => "`".repeat(i + 1)).join("a"),
  "lists in lists on one line": filled("* ", "", "a"),
  "quotes in quotes": filled("> ", "", "a"),
  "lists in lists": Array.from({ length: 600 }, (_, i) => `${" ".repeat(i)}- a`).join("\n"),
  "a list whose item goes on": filled("<a \n", "1. "),
  "a task that goes on": filled("  \n]", "- [ ] "),
  "lines of an item without an indent": filled("a\n", "- "),
  "lines of an item with one": filled("\tb\n", "- a\n"),
  "lines of an item with half of one": filled(" b\n", "- a\n"),
  "that behind what looks like a block of code": filled("a\n", "<div>\n```\n\n- "),
  "a table that is wide and long": `${"a|".repeat(20_000)}\n${"-|".repeat(20_000)}\n${"a\n".repeat(50_000)}`,
  "an address that is said once and used often": filled("[a] ", `[a]: https://a.example/${"y".repeat(50_000)}\n\n`),
  "tags that are left open": filled("a\n\n", "<b><i><u><s><em><strong>\n\n"),
  "tags that are closed in another order": filled("<b>a</i>"),
};
