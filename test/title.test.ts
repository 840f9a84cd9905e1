import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { cleanTitle } from "../src/title.js";

describe("a title", () => {
  it("is folded, stripped and cut", () => {
    assert.equal(cleanTitle('  "Fix   the\n parser." '), "Fix the parser");
    assert.equal(cleanTitle("“Über uns”"), "Über uns");
    assert.equal(cleanTitle("<think>what to call it</think>Name it"), "Name it");
    assert.equal(cleanTitle("<think>never ends"), "");
    assert.equal(cleanTitle("**Bold title**"), "Bold title");
    assert.equal(cleanTitle("Wait..."), "Wait...");
    assert.equal(cleanTitle("a".repeat(80)), "a".repeat(50));
  });

  it("is never cut within a character", () => {
    const family = "👨‍👩‍👧‍👦";
    const title = cleanTitle(family.repeat(10));
    assert.ok(title.length <= 50);
    assert.equal(title, family.repeat(Math.floor(50 / family.length)));
  });
});
