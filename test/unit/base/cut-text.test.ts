import assert from "node:assert/strict";
import { it } from "node:test";
import { capText, cutMiddle, HeadTail } from "../../../src/base/cut-text.js";
import { fc } from "../../helpers/fast-check.js";

it("capText returns a text within the limit unchanged", () => {
  assert.equal(capText("äöü", 6), "äöü");
  assert.equal(capText("", 0), "");
});

it("cutMiddle cuts at line boundaries and reports the number of bytes cut", () => {
  const text = Array.from({ length: 1000 }, (_, i) => `line ${i}`).join("\n");
  const cutText = cutMiddle(text, 1000, "read the rest");
  assert.match(cutText, /^line 0\nline 1\n/);
  assert.match(cutText, /\nline 999$/);
  const keptText = cutText
    .split("\n")
    .filter((line) => /^line \d+$/.test(line))
    .join("\n");
  const cutBytes = Number(
    /\[\.\.\. ([\d,]+) bytes cut from the middle; read the rest \.\.\.\]/.exec(cutText)![1]!.replaceAll(",", ""),
  );
  assert.equal(cutText.split("\n").length, keptText.split("\n").length + 1);
  // The line feeds around the cut may belong to neither number.
  assert.ok(Math.abs(cutBytes + keptText.length - text.length) <= 2);
});

it("capText never exceeds the limit and never splits a code point", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "binary", maxLength: 400 }),
      fc.integer({ min: 0, max: 500 }),
      fc.integer({ min: 1, max: 4 }),
      (part, maxBytes, repeatCount) => {
        const text = part.repeat(repeatCount).toWellFormed();
        const cutText = capText(text, maxBytes);
        assert.ok(Buffer.byteLength(cutText) <= maxBytes);
        assert.ok(cutText.isWellFormed());
        if (!text.includes("\uFFFD")) assert.ok(!cutText.includes("\uFFFD"));
      },
    ),
  );
});

it("HeadTail returns a short stream completely, and the start and end of a longer stream", () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ minLength: 1, maxLength: 300 }), { maxLength: 40 }),
      fc.integer({ min: 2, max: 2000 }),
      (chunks, maxBytes) => {
        const headTail = new HeadTail(maxBytes);
        for (const chunk of chunks) headTail.push(Buffer.from(chunk));
        const allBytes = Buffer.concat(chunks);
        if (allBytes.length <= maxBytes - 1) assert.equal(headTail.text(), allBytes.toString());
      },
    ),
  );
  const headTail = new HeadTail(1000);
  for (let i = 0; i < 100_000; i++) headTail.push(Buffer.from(`${i}\n`));
  const text = headTail.text();
  // The notice between head and tail may exceed the limit.
  assert.ok(Buffer.byteLength(text) < 1200);
  assert.match(text, /^0\n1\n/);
  assert.match(text, /99999\n$/);
});
