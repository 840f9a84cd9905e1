/** Length of a repeated text. */
const TEXT_CHARACTERS = 198_000;

function repeatToLength(unit: string, prefix = "", suffix = ""): string {
  return prefix + unit.repeat(Math.floor((TEXT_CHARACTERS - prefix.length - suffix.length) / unit.length)) + suffix;
}

/**
 * Texts short enough to be shown as Markdown, on which Markdown parsers without limits take extremely long or produce
 * huge output.
 */
export const EXPENSIVE_MARKDOWN: Readonly<Record<string, string>> = {
  "words that may be an address": repeatToLength("a.", "", "@"),
  "a word that may be emphasis": repeatToLength("_a"),
  "emphasis that may be an address": repeatToLength("_a."),
  "base64 of addresses": repeatToLength("aZ09-_"),
  "emphasis that never ends": repeatToLength("**a "),
  "two kinds of emphasis": repeatToLength("*_"),
  "brackets that never end": repeatToLength("["),
  "code spans with delimiters of many lengths": Array.from({ length: 600 }, (_, i) => "`".repeat(i + 1)).join("a"),
  "nested lists on one line": repeatToLength("* ", "", "a"),
  "nested quotes": repeatToLength("> ", "", "a"),
  "nested lists on separate lines": Array.from({ length: 600 }, (_, i) => `${" ".repeat(i)}- a`).join("\n"),
  "a list item that continues": repeatToLength("<a \n", "1. "),
  "a task that continues": repeatToLength("  \n]", "- [ ] "),
  "lines of an item without an indent": repeatToLength("a\n", "- "),
  "lines of an item with an indent": repeatToLength("\tb\n", "- a\n"),
  "lines of an item with half an indent": repeatToLength(" b\n", "- a\n"),
  "lines of an item after text that looks like a code block": repeatToLength("a\n", "<div>\n```\n\n- "),
  "a table that is wide and long": `${"a|".repeat(20_000)}\n${"-|".repeat(20_000)}\n${"a\n".repeat(50_000)}`,
  "a link reference that is defined once and has a long address": repeatToLength(
    "[a] ",
    `[a]: https://a.example/${"y".repeat(50_000)}\n\n`,
  ),
  "tags that are left open": repeatToLength("a\n\n", "<b><i><u><s><em><strong>\n\n"),
  "tags that are closed in another order": repeatToLength("<b>a</i>"),
};
