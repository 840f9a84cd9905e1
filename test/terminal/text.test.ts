import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { clean, cleanLine, cut, short, widthOf } from "../../adapters/terminal/text.js";
import { paint, span, textOf, wrap } from "../../adapters/terminal/spans.js";
import { PAYLOADS } from "./payloads.js";

describe("text of strangers", () => {
  it("has nothing left that a terminal acts on, whatever it was", () => {
    for (const payload of PAYLOADS) {
      // eslint-disable-next-line no-control-regex -- what must not be there
      assert.doesNotMatch(clean(payload), /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/u);
      assert.doesNotMatch(cleanLine(payload), /\n/);
      assert.match(clean(payload), /before/);
      assert.match(clean(payload), /fter$/);
    }
  });

  it("keeps what people write", () => {
    for (const text of ["plain", "äöü ß", "漢字かな", "👩‍👩‍👧 ❤️ 🇨🇭", "e\u0301", "עברית", "a\nb"])
      assert.equal(clean(text), text);
    assert.equal(clean("a\tb\r\nc"), "a    b\nc");
    assert.equal(clean("\u001b[1;31mred\u001b[0m \u001b]8;;http://a\u0007link\u001b]8;;\u0007"), "red link");
    assert.equal(clean("50%\r100%"), "50%␍100%");
  });

  it("is as wide as a terminal shows it", () => {
    assert.deepEqual(["abc", "漢字", "👩‍👩‍👧", "e\u0301"].map(widthOf), [3, 4, 2, 1]);
    assert.equal(cut("漢字漢字", 5), "漢字…");
    assert.equal(cut("short", 5), "short");
    assert.deepEqual([999, 1000, 99_949, 999_949, 1_200_000].map(short), ["999", "1.0k", "99.9k", "1000k", "1.2M"]);
  });

  it("breaks between words, in words that are too long, and never within a character", () => {
    const rows = (text: string, columns: number) => wrap([span(text)], columns).map(textOf);
    assert.deepEqual(rows("one two three", 7), ["one two", "three"]);
    assert.deepEqual(rows("abcdefghij", 4), ["abcd", "efgh", "ij"]);
    assert.deepEqual(rows("漢字漢字漢", 5), ["漢字", "漢字", "漢"]);
    assert.deepEqual(rows("", 5), [""]);
    assert.deepEqual(rows("漢", 1), ["?"]);
    for (const columns of [1, 2, 3, 7, 20])
      for (const row of rows("words 漢字 and 👩‍👩‍👧 some more-of-them-that-are-long", columns))
        assert.ok(widthOf(row) <= columns);
    const rest = wrap([span("a bold word", "bold")], 8, [span("> ")], [span("  ")]);
    assert.deepEqual(rest.map(textOf), ["> a bold", "  word"]);
    assert.equal(paint([span("x", "bad")], true), "\u001b[31mx\u001b[0m");
    assert.equal(paint([span("x", "bad")], false), "x");
  });
});
