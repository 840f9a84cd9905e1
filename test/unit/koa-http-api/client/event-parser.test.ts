import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { EventParser } from "../../../../adapters/koa-http-api/client/event-parser.js";
import { createRandom } from "../../../helpers/random.js";

/** Parses the bytes in pieces that end at `cutOffsets`, which may be within a character. */
function parseInPieces(bytes: Uint8Array, cutOffsets: readonly number[]) {
  const [parser, decoder] = [new EventParser(), new TextDecoder()];
  return [0, ...cutOffsets].flatMap((start, n) =>
    parser.push(decoder.decode(bytes.subarray(start, cutOffsets[n] ?? bytes.length), { stream: true })),
  );
}

const encode = (text: string) => new TextEncoder().encode(text);

describe("EventParser", () => {
  const lines = [
    ": stream",
    "",
    "event: state",
    "data: {}",
    "",
    "event:message",
    "id: a.1",
    "data: 🙂 äöü\u2028",
    "data:  two",
    "data",
    "",
    "id: only a place",
    "",
    "event: none",
    "",
    "retry: 5",
    "unknown: field",
    "data: last",
    "",
    "data: is not whole",
    "",
  ];
  const createEvent = (type: string, data: string, id?: string) => ({ type, data, id });
  const expectedEvents = [
    { type: "", data: "", id: undefined, comment: "stream" },
    createEvent("state", "{}"),
    createEvent("message", "🙂 äöü\u2028\n two\n", "a.1"),
    createEvent("", "last"),
  ];

  for (const [name, lineEnding] of Object.entries({ LF: "\n", CR: "\r", CRLF: "\r\n" })) {
    it(`parses lines that end with ${name}, independently of where the input is split`, () => {
      // The last event is incomplete: its empty line is missing.
      const bytes = encode(`\ufeff${lines.join(lineEnding)}`);
      assert.deepEqual(parseInPieces(bytes, []), expectedEvents);
      for (let cutOffset = 0; cutOffset <= bytes.length; cutOffset += 1)
        assert.deepEqual(parseInPieces(bytes, [cutOffset]), expectedEvents, `cut at ${cutOffset}`);
      const random = createRandom(7);
      for (let round = 0; round < 300; round += 1) {
        const cutOffsets = Array.from({ length: 1 + random() * 40 }, () => Math.floor(random() * bytes.length));
        assert.deepEqual(parseInPieces(bytes, cutOffsets.sort((a, b) => a - b)), expectedEvents, String(cutOffsets)); // prettier-ignore
      }
      assert.deepEqual(parseInPieces(bytes, [...bytes.keys()]), expectedEvents, "a byte at a time");
    });
  }

  it("parses mixed line endings, independently of where the input is split", () => {
    const bytes = encode("data: a\r\ndata: b\rdata: c\n\r\ndata: d\r\r\n\n");
    const mixedEvents = [createEvent("", "a\nb\nc"), createEvent("", "d")];
    for (let cutOffset = 0; cutOffset <= bytes.length; cutOffset += 1)
      assert.deepEqual(parseInPieces(bytes, [cutOffset]), mixedEvents, `cut at ${cutOffset}`);
  });

  it("parses a line of 64 MiB that arrives in 65,536 pieces", () => {
    const parser = new EventParser();
    const piece = "x".repeat(1024);
    parser.push("data: ");
    // A parser that scans its whole buffer for each piece would take minutes.
    for (let n = 0; n < 64 * 1024; n += 1) assert.equal(parser.push(piece).length, 0);
    assert.equal(parser.push("\n\n")[0]?.data.length, 64 * 1024 * 1024);
  });
});
