import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { formatNotFoundMessage } from "../../../../src/untrusted/edits/not-found-message.js";

const explain = (text: string, requestedText: string): string =>
  formatNotFoundMessage(Buffer.from(text).toString("latin1"), requestedText, "a.txt");

describe("the message for a text that was not found", () => {
  for (const [name, text, requestedText, expectedQuotes] of [
    [
      "another normalization",
      "x\nlet cafe\u0301 = 1;\n",
      "let caf\u00e9 = 1;",
      ["let cafe\\u0301 = 1;", "let caf\\u00e9 = 1;"],
    ],
    ["a short word", "\u00e9", "e\u0301", ["\\u00e9", "e\\u0301"]],
    ["a variation selector", "ok \u2714\ufe0f done", "ok \u2714 done", ["ok \u2714\\ufe0f done", "ok \u2714 done"]],
    ["a zero width joiner", "a\u200db", "ab", ["a\\u200db", "ab"]],
    ["a full-width sign", "f\uff08x)", "f(x)", ["f\\uff08x)", "f(x)"]],
    ["Hangul", "\ud55c\uad6d x", "\u1112\u1161\u11ab\uad6d x", ["\\ud55c\uad6d x", "\\u1112\\u1161\\u11ab\uad6d x"]],
  ] as const)
    it(`shows an invisible difference as escapes: ${name}`, () => {
      const message = explain(text, requestedText);
      const [shownText, shownRequest] = expectedQuotes.map((quote) => `"${quote}"`);
      assert.ok(message.includes(`is most similar: ${shownText}, where old_string has ${shownRequest}.`), message);
      assert.match(message, /Both look the same.* as JSON escapes in the arguments\.$/);
    });

  it("points to the invisible difference and not to different white space before it", () => {
    const message = explain("  a();\n  b('e\u0301');\n", "a();\nb('\u00e9');");
    assert.match(message, /Line 2 is most similar: "  b\('e\\u0301'\);", where old_string has "b\('\\u00e9'\);"/);
  });

  it("shows the part of a long line that differs", () => {
    const start = "word ".repeat(100);
    const message = explain(`${start}cafe\u0301 ${start}`, `${start}caf\u00e9 ${start}`);
    assert.match(message, /"…[^"]*cafe\\u0301 word[^"]*…", where old_string has "…[^"]*caf\\u00e9 word[^"]*…"/);
    assert.ok(message.length < 900);
  });

  it("leaves letters of other scripts readable", () => {
    const message = explain("x = '\u4f60\u597d';  y()", "x = '\u4f60\u597d'; y(1)");
    assert.match(message, /"x = '你好'; {2}y\(\)", where old_string has "x = '你好'; y\(1\)"/);
    assert.match(explain("a\u00a0b c", "a b d"), /"a\\u00a0b c", where old_string has "a b d"/);
  });
});
