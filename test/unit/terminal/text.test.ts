import assert from "node:assert/strict";
import { describe, it } from "node:test";
import stringWidth from "string-width";
import { MarkdownRenderer } from "../../../adapters/terminal/markdown.js";
import {
  cleanText,
  truncate,
  toGraphemes,
  formatCount,
  textWidth,
  escapeInvisible,
  escapeLine,
} from "../../../adapters/terminal/text.js";
import { paint, span, getLineText, wrap } from "../../../adapters/terminal/spans.js";
import { TERMINAL_PAYLOADS } from "../../helpers/terminal-payloads.js";

describe("untrusted terminal text", () => {
  it("contains no control or reordering characters after clean and escapeInvisible", () => {
    for (const payload of TERMINAL_PAYLOADS) {
      // eslint-disable-next-line no-control-regex -- The pattern lists the characters that must be removed.
      assert.doesNotMatch(cleanText(payload), /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/u);
      assert.doesNotMatch(escapeLine(payload), /\n/);
      assert.match(cleanText(payload), /before/);
      assert.match(cleanText(payload), /fter$/);
      // Escaped text must be complete.
      assert.doesNotMatch(
        escapeInvisible(payload),
        // eslint-disable-next-line no-control-regex
        /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/u,
      );
      for (const visibleWord of payload.replace(/[^\u0020-\u007e]/gu, " ").split(/ +/))
        assert.ok(escapeInvisible(payload).includes(visibleWord));
    }
  });

  it("keeps its text after an escape sequence without an end", () => {
    for (const sequenceStart of ["\u001b]0;", "\u009d", "\u001bP", "\u001b_"]) {
      assert.match(cleanText(`a ${sequenceStart} hidden\nseen\u0007`), /hidden\n.*seen/);
      assert.match(cleanText(`a ${sequenceStart} hidden`), /hidden/);
    }
  });

  it("is processed even if it repeats a costly sequence 50,000 times", () => {
    const texts = ["\u009d", "\u001b]", "\u001b[", " \u001b", "\n", " ", "\u0301", "a\u0301", "漢", "👩‍", "\u001b[1;"];
    for (const text of texts)
      for (const repeatedText of [text.repeat(50_000), `${text.repeat(50_000)}x`]) {
        cleanText(repeatedText);
        escapeLine(repeatedText);
        new MarkdownRenderer().renderRows(repeatedText.slice(0, 20_000), 80);
      }
  });

  it("keeps ordinary characters, expands tabs, and loses colour and link sequences", () => {
    for (const text of ["plain", "äöü ß", "漢字かな", "👩‍👩‍👧 ❤️ 🇨🇭", "e\u0301", "עברית", "a\nb"])
      assert.equal(cleanText(text), text);
    assert.equal(cleanText("a\tb\r\nc"), "a    b\nc");
    assert.equal(cleanText("\u001b[1;31mred\u001b[0m \u001b]8;;http://a\u0007link\u001b]8;;\u0007"), "red link");
    assert.equal(cleanText("50%\r100%"), "50%␍100%");
  });

  it("textWidth counts columns, truncate fits text into them, and formatCount shortens numbers", () => {
    assert.deepEqual(["abc", "漢字", "👩‍👩‍👧", "e\u0301"].map(textWidth), [3, 4, 2, 1]);
    assert.equal(truncate("漢字漢字", 5), "漢字…");
    assert.equal(truncate("short", 5), "short");
    assert.deepEqual([999, 1000, 99_949, 999_949, 1_200_000].map(formatCount), [
      "999",
      "1.0k",
      "99.9k",
      "1000k",
      "1.2M",
    ]);
  });

  it("toGraphemes and textWidth agree with Intl.Segmenter and string-width", () => {
    const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" });
    for (const text of [
      "añ\u0301漢\u3099字かな\u309a",
      "한국어 \u1100\u1161",
      "ж\u0483я",
      "©️ 1️⃣ 👩‍👩‍👧🇨🇭",
      "é漢 e\u0301 ❤️",
      "Ꭰ ꙮ ﷽ กำ",
      "Grüße ── ┌ └ │ ❯ — “quoted” … · █▌",
      "cafe\u0301 ❯\ufe0f —\u0301",
    ]) {
      assert.deepEqual(
        toGraphemes(text),
        Array.from(segmenter.segment(text), ({ segment }) => segment),
      );
      assert.equal(textWidth(text), stringWidth(text), text);
    }
    for (let code = 0x20; code < 0x1_0000; code += 1) {
      const character = String.fromCharCode(code);
      assert.equal(textWidth(character), stringWidth(character), code.toString(16));
    }
  });

  it("MarkdownRenderer renders the same rows for a text at once and piece by piece", () => {
    const text = [
      "# Heading\r\n",
      "A **bold** word, `code`, 漢字 and 👩‍👩‍👧.\n\n- one\n  1. two\n\n> said\n\n---\n",
      "```ts\nconst a = 1; // `b`\n\n```\n~~~\nopen\n",
      "~~~\n\nText | x\n| a | b |\n|---|--:|\n| 1 | 漢字 |\n| 3 | 4 |\nNo table | here\n| c |\n| - |\n\n",
      `${"a long line of words ".repeat(500)}\n`,
      "漢字".repeat(5_000),
    ].join("");
    const joinRows = (renderedRows: readonly (readonly { text: string }[])[]) =>
      renderedRows.map((row) => row.map((part) => part.text).join(""));
    const growingRenderer = new MarkdownRenderer([span("  ")]);
    for (let end = 0; end < text.length; end += 97) growingRenderer.renderRows(text.slice(0, end), 60);
    const expectedRows = joinRows(new MarkdownRenderer([span("  ")]).renderRows(text, 60));
    assert.deepEqual(joinRows(growingRenderer.renderRows(text, 60)), expectedRows);
    assert.equal(expectedRows.join("").replace(/[ │]/g, "").includes("漢字".repeat(5_000)), true);
    // For another width or another text, all rows are rendered again.
    assert.deepEqual(
      joinRows(growingRenderer.renderRows(text, 30)),
      joinRows(new MarkdownRenderer([span("  ")]).renderRows(text, 30)),
    );
    assert.deepEqual(joinRows(growingRenderer.renderRows("other", 30)), ["  other"]);
  });

  it("wrap breaks between words, within long words, and never within a character", () => {
    const wrapRows = (text: string, columns: number) => wrap([span(text)], columns).map(getLineText);
    assert.deepEqual(wrapRows("one two three", 7), ["one two", "three"]);
    assert.deepEqual(wrapRows("abcdefghij", 4), ["abcd", "efgh", "ij"]);
    assert.deepEqual(wrapRows("漢字漢字漢", 5), ["漢字", "漢字", "漢"]);
    assert.deepEqual(wrapRows("", 5), [""]);
    assert.deepEqual(wrapRows("漢", 1), ["?"]);
    for (const columns of [1, 2, 3, 7, 20])
      for (const row of wrapRows("words 漢字 and 👩‍👩‍👧 some more-of-them-that-are-long", columns))
        assert.ok(textWidth(row) <= columns);
    const wrappedLines = wrap([span("a bold word", "bold")], 8, [span("> ")], [span("  ")]);
    assert.deepEqual(wrappedLines.map(getLineText), ["> a bold", "  word"]);
    assert.equal(paint([span("x", "bad")], true), "\u001b[31mx\u001b[0m");
    assert.equal(paint([span("x", "bad")], false), "x");
  });
});
