import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { cleanTitle } from "../../../src/run/title.js";

describe("cleanTitle", () => {
  it("removes quotes, markup, reasoning and extra white space, and cuts a title at 50 characters", () => {
    assert.equal(cleanTitle('  "Fix   the\n parser." '), "Fix the parser");
    assert.equal(cleanTitle("“Über uns”"), "Über uns");
    assert.equal(cleanTitle("<think>what to call it</think>Name it"), "Name it");
    assert.equal(cleanTitle("<think>never ends"), "");
    assert.equal(cleanTitle("**Bold title**"), "Bold title");
    assert.equal(cleanTitle("Wait..."), "Wait...");
    assert.equal(cleanTitle("a".repeat(80)), "a".repeat(50));
  });

  it("keeps quotes and marks that belong to the title, and removes quotes and marks around the title", () => {
    const unchangedTitles = [
      'Fix "parser" and "lexer"',
      'Say "hello"',
      '"Fix" or "break"',
      "Port it to C#",
      "#123 fails on start",
      "`foo` fails in `bar`",
      "Match **/*.ts",
      "*.log is ignored",
      "The users' list",
      "Rock 'n' roll",
      "Was tun «heute»",
    ];
    for (const title of unchangedTitles) assert.equal(cleanTitle(title), title);
    for (const [answer, title] of [
      ['"Fix "parser""', '"Fix "parser""'],
      ["# Heading", "Heading"],
      ["* One point", "One point"],
      ["`npm test`", "npm test"],
      ["*Emphasis*.", "Emphasis"],
      ["'It is so.'", "It is so"],
      ['"Never closed', "Never closed"],
      ['**"Twice"**', "Twice"],
      ["„Deutsch“", "Deutsch"],
    ] as const)
      assert.equal(cleanTitle(answer), title);
  });

  it("does not cut a title within a grapheme", () => {
    const familyEmoji = "👨‍👩‍👧‍👦";
    const title = cleanTitle(familyEmoji.repeat(10));
    assert.ok(title.length <= 50);
    assert.equal(title, familyEmoji.repeat(Math.floor(50 / familyEmoji.length)));
  });
});
