import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { escapeExactly, escapeReordering, escapeInvisible } from "../../../adapters/web-console/app/content/escape.js";
import { escapeInvisible as escapeForTerminal } from "../../../src/base/printable.js";

/** The last Unicode code point. */
const LAST_CODE_POINT = 0x10ffff;

describe("escapes of invisible characters", () => {
  it("escapeInvisible escapes what the terminal escapes and each default-ignorable character", () => {
    const invisiblePattern = /[\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\uFFF9-\uFFFB]/u;
    for (let code = 0; code <= LAST_CODE_POINT; code += 1) {
      const character = String.fromCodePoint(code);
      const isInvisible = escapeForTerminal(character, true) !== character || invisiblePattern.test(character);
      const hex = `U+${code.toString(16)}`;
      assert.equal(escapeInvisible(character) !== character, isInvisible, hex);
      if (isInvisible) assert.match(escapeInvisible(character), /^\\u(?:[0-9a-f]{4}|\{[0-9a-f]{5}\})$/, hex);
      if (isInvisible) assert.equal(escapeExactly(character), escapeInvisible(character), hex);
    }
  });

  it("escapeInvisible shows a command in its actual order, with direction marks as escapes", () => {
    assert.equal(
      escapeInvisible("echo safe \u202e; '~/ fr- mr' \u202c done"),
      "echo safe \\u202e; '~/ fr- mr' \\u202c done",
    );
    assert.equal(
      escapeInvisible("l\u200bs \u2066a\u2069\u061c \u{e0041}"),
      "l\\u200bs \\u2066a\\u2069\\u061c \\u{e0041}",
    );
    assert.equal(escapeInvisible("ls\rrm \u001b[8mx\u0000"), "ls\\u000drm \\u001b[8mx\\u0000");
    assert.equal(escapeInvisible("\ud800x"), "\\ud800x");
  });

  it("escapeExactly keeps 8 combining marks, and replaces further marks by their number", () => {
    const mark = "\u0301";
    assert.equal(escapeExactly(`x${mark.repeat(400)}y`), `x${mark.repeat(8)}<392 more marks>y`);
    assert.equal(escapeExactly(`x${mark.repeat(8)}y`), `x${mark.repeat(8)}y`);
  });

  it("escapeInvisible keeps joiners within emoji and joined scripts, and escapes isolated joiners", () => {
    const ordinaryTexts = [
      "Zeile\n\tmit Umlauten: äöü, ¿qué?, 中文, עברית, العربية",
      "👨‍👩‍👧 ❤️ 👍🏽 1️⃣ 🏳️‍🌈 ☺︎",
      "می‌خواهم क्‍ष",
      "10\u00a0%",
      "",
    ];
    for (const text of ordinaryTexts) assert.equal(escapeInvisible(text), text);
    assert.equal(escapeInvisible("a\r\nb\r\n"), "a\nb\n");
    // Joiners without neighbours would be invisible.
    assert.equal(escapeInvisible("a\u200db\ufe0f 1\ufe0f"), "a\\u200db\\ufe0f 1\\ufe0f");
  });

  it("escapeExactly escapes unusual blanks and carriage returns", () => {
    assert.equal(escapeExactly("rm a\u00a0b\u3000c\u2800\r\n\td e"), "rm a\\u00a0b\\u3000c\\u2800\\u000d\n\td e");
  });

  it("escapeReordering escapes direction overrides, and keeps soft hyphens and zero-width spaces", () => {
    assert.equal(
      escapeReordering("Donau\u00addampf\u200bschiff \u200e\u202eolleH\u2067"),
      "Donau\u00addampf\u200bschiff \u200e\\u202eolleH\\u2067",
    );
  });
});
