import assert from "node:assert/strict";
import { it } from "node:test";
import { capText, cutMiddle, HeadTail } from "../../../src/base/cut-text.js";
import { fc } from "../../helpers/properties.js";

it("leaves what fits alone", () => {
  assert.equal(capText("äöü", 6), "äöü");
  assert.equal(capText("", 0), "");
});

it("cuts the middle at lines and says how much", () => {
  const text = Array.from({ length: 1000 }, (_, i) => `line ${i}`).join("\n");
  const cut = cutMiddle(text, 1000, "read the rest");
  assert.match(cut, /^line 0\nline 1\n/);
  assert.match(cut, /\nline 999$/);
  const keptLines = cut
    .split("\n")
    .filter((line) => /^line \d+$/.test(line))
    .join("\n");
  const gone = Number(
    /\[\.\.\. ([\d,]+) bytes cut from the middle; read the rest \.\.\.\]/.exec(cut)![1]!.replaceAll(",", ""),
  );
  assert.equal(cut.split("\n").length, keptLines.split("\n").length + 1);
  assert.ok(Math.abs(gone + keptLines.length - text.length) <= 2);
});

it("never passes the limit and never breaks a code point", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "binary", maxLength: 400 }),
      fc.integer({ min: 0, max: 500 }),
      fc.integer({ min: 1, max: 4 }),
      (part, bytes, times) => {
        const text = part.repeat(times).toWellFormed();
        const cut = capText(text, bytes);
        assert.ok(Buffer.byteLength(cut) <= bytes);
        assert.ok(cut.isWellFormed());
        if (!text.includes("\uFFFD")) assert.ok(!cut.includes("\uFFFD"));
      },
    ),
  );
});

it("keeps head and tail of a stream in bounded memory", () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ minLength: 1, maxLength: 300 }), { maxLength: 40 }),
      fc.integer({ min: 2, max: 2000 }),
      (chunks, bytes) => {
        const headTail = new HeadTail(bytes);
        for (const chunk of chunks) headTail.push(Buffer.from(chunk));
        const allBytes = Buffer.concat(chunks);
        if (allBytes.length <= bytes - 1) assert.equal(headTail.text(), allBytes.toString());
      },
    ),
  );
  const headTail = new HeadTail(1000);
  for (let i = 0; i < 100_000; i++) headTail.push(Buffer.from(`${i}\n`));
  const text = headTail.text();
  assert.ok(Buffer.byteLength(text) < 1200);
  assert.match(text, /^0\n1\n/);
  assert.match(text, /99999\n$/);
});
