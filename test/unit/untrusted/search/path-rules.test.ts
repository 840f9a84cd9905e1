import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { splitNames, PathPattern } from "../../../../src/untrusted/search/glob-match.js";
import { compileGlob } from "../../../../src/untrusted/search/globs.js";
import { TimeBudget, TimeLimitExceeded, PathRules } from "../../../../src/untrusted/search/path-rules.js";
import { fc } from "../../../helpers/fast-check.js";

const piece = fc.constantFrom(
  "a",
  "b",
  "ab",
  "a.b",
  ".b",
  "*",
  "**",
  "?",
  "*b",
  "a*",
  "*.b",
  "a*b",
  "[ab]",
  "\\*",
  "😀*",
  "",
);
const pattern = fc
  .tuple(fc.constantFrom("", "**/"), fc.array(piece, { minLength: 1, maxLength: 3 }))
  .map(([start, pieces]) => start + pieces.join("/"));
const name = fc.constantFrom("a", "b", "ab", "a.b", ".b", "aab", "*", "😀", "😀b");

describe("PathRules", () => {
  it("find the last matching rule, like a linear search", () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ pattern, foldersOnly: fc.boolean() }), { maxLength: 30 }),
        fc.array(fc.array(name, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 10 }),
        fc.boolean(),
        (rules, paths, isFolder) => {
          const pathRules = new PathRules(rules, new TimeBudget(60_000));
          for (const path of paths.map((names) => names.join("/"))) {
            const expectedIndex = rules.findLastIndex(
              (rule) => (isFolder || !rule.foldersOnly) && new PathPattern(rule.pattern).matches(splitNames(path)),
            );
            assert.equal(pathRules.findLast(path, isFolder), expectedIndex, path);
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  it("throw TimeLimitExceeded after their time budget, which counts only while they work", () => {
    const slowPattern = `${"*[!b]".repeat(100)}*x*`;
    const rules = new PathRules(
      Array.from({ length: 2_000 }, () => ({ pattern: `**/${slowPattern}`, foldersOnly: false })),
      new TimeBudget(60_000),
    );
    assert.equal(rules.findLast("b", false), -1);
    const shortBudget = new TimeBudget(50);
    const slowRules = new PathRules(
      Array.from({ length: 2_000 }, () => ({ pattern: `**/${slowPattern}`, foldersOnly: false })),
      shortBudget,
    );
    assert.throws(() => {
      for (let n = 0; n < 10_000; n++) shortBudget.measure(() => slowRules.findLast("a".repeat(255), false));
    }, TimeLimitExceeded);
  });

  it("compileGlob() expands nested braces, and rejects too many alternatives", () => {
    const compile = (glob: string) => compileGlob(glob, new TimeBudget(60_000));
    assert.equal(compile("{".repeat(900) + "{a,b}".repeat(8))("{".repeat(900) + "abababab"), true);
    assert.throws(() => compile("{a,b}".repeat(9)), RangeError);
    assert.throws(() => compile("{a,{b,{c,{d,e}}}}".repeat(4)), RangeError);
    assert.equal(compile("x{a,{b,c}d,}y")("xcdy"), true);
    assert.equal(compile("x{a,{b,c}d,}y")("xy"), true);
  });
});
