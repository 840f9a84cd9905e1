import assert from "node:assert/strict";
import { it } from "node:test";
import { findChangedWords, type TextRange } from "../../../adapters/web-console/app/changed-words.js";

it("findChangedWords returns the ranges of differing words, and nothing if most of a line differs or the line is long", () => {
  const getMarkedTexts = (text: string, spans: readonly TextRange[] = []) =>
    spans.map(([start, end]) => text.slice(start, end));
  const [oldLine, newLine] = ["const total = price * count;", "const total = price * (count + 1);"];
  const marks = findChangedWords(oldLine, newLine);
  assert.deepEqual(getMarkedTexts(oldLine, marks?.oldRanges), []);
  assert.deepEqual(getMarkedTexts(newLine, marks?.newRanges), ["(", " + 1)"]);
  const renameMarks = findChangedWords("let größe = 1", "let länge = 1");
  assert.deepEqual(getMarkedTexts("let größe = 1", renameMarks?.oldRanges), ["größe"]);
  assert.equal(findChangedWords("return a;", "throw new Error(message)"), undefined);
  assert.equal(findChangedWords("a ".repeat(500), "a ".repeat(501)), undefined);
});
