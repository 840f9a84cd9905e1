import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseFrontMatter } from "../../../src/project/front-matter.js";

const readFields = (frontMatter: string) =>
  Object.fromEntries(parseFrontMatter(`---\n${frontMatter}\n---\nbody`).fields);

describe("parseFrontMatter()", () => {
  it("reads bare, quoted and multi-line strings, and drops comments", () => {
    assert.deepEqual(readFields("name: a b\ndescription: it's good # aside"), {
      name: "a b",
      description: "it's good",
    });
    assert.deepEqual(readFields(`a: "x: \\"y\\" # no"\nb: 'it''s'`), { a: 'x: "y" # no', b: "it's" });
    assert.deepEqual(readFields("a: |\n  one\n  two\nb: >-\n  three\n  four\nc: five\n  six"), {
      a: "one\ntwo",
      b: "three four",
      c: "five six",
    });
    assert.deepEqual(readFields("a: http://x.y/#z\r\nb:\r\nc: 1"), { a: "http://x.y/#z", b: "", c: "1" });
  });

  it("ignores lists, maps, anchors, aliases and `__proto__`, and keeps the first of duplicate keys", () => {
    assert.deepEqual(readFields("a: [x]\nb: {c: d}\ne: &f g\nh: *i\nj:\n  - k\nl: m\nl: n"), { l: "m" });
    assert.deepEqual(readFields("__proto__: x\nconstructor: y"), { constructor: "y" });
  });

  it("separates the fields from the body, and returns the text unchanged if there is no front matter", () => {
    assert.equal(parseFrontMatter("\uFEFF---\nname: x\n---\n\n# Title\n").body, "# Title");
    for (const text of ["# Title", "---\nname: x", "text\n---\nname: x\n---"]) {
      assert.equal(parseFrontMatter(text).body, text);
      assert.equal(parseFrontMatter(text).fields.size, 0);
    }
  });

  it("keeps at most 32 of 100,000 fields, and drops a quoted value that never closes", () => {
    const manyFields = Array.from({ length: 100_000 }, (_, i) => `k${i}: ${'"'.repeat(i % 7)}\\`).join("\n");
    assert.ok(parseFrontMatter(`---\n${manyFields}\n---\n`).fields.size <= 32);
    assert.equal(parseFrontMatter(`---\na: "${"\\".repeat(50_001)}\n---`).fields.get("a"), undefined);
  });
});
