import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { EventParser } from "../../../../adapters/koa-http-api/client/event-parser.js";
import { randomOf } from "../../../helpers/random.js";

/** Parses the bytes in pieces that end at any place, also within a character. */
function parsed(bytes: Uint8Array, cuts: readonly number[]) {
  const [parser, decoder] = [new EventParser(), new TextDecoder()];
  return [0, ...cuts].flatMap((from, n) =>
    parser.push(decoder.decode(bytes.subarray(from, cuts[n] ?? bytes.length), { stream: true })),
  );
}

const bytesOf = (text: string) => new TextEncoder().encode(text);

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
  const event = (type: string, data: string, id?: string) => ({ type, data, id });
  const expectedEvents = [
    { type: "", data: "", id: undefined, comment: "stream" },
    event("state", "{}"),
    event("message", "🙂 äöü\u2028\n two\n", "a.1"),
    event("", "last"),
  ];

  for (const [name, end] of Object.entries({ LF: "\n", CR: "\r", CRLF: "\r\n" })) {
    it(`parses lines that end with ${name} equally, wherever the input is split`, () => {
      // The last event is incomplete: its empty line is missing.
      const bytes = bytesOf(`\ufeff${lines.join(end)}`);
      assert.deepEqual(parsed(bytes, []), expectedEvents);
      for (let at = 0; at <= bytes.length; at += 1)
        assert.deepEqual(parsed(bytes, [at]), expectedEvents, `cut at ${at}`);
      const random = randomOf(7);
      for (let round = 0; round < 300; round += 1) {
        const cuts = Array.from({ length: 1 + random() * 40 }, () => Math.floor(random() * bytes.length));
        assert.deepEqual(parsed(bytes, cuts.sort((a, b) => a - b)), expectedEvents, String(cuts)); // prettier-ignore
      }
      assert.deepEqual(parsed(bytes, [...bytes.keys()]), expectedEvents, "a byte at a time");
    });
  }

  it("accepts mixed line endings, wherever the input is split", () => {
    const bytes = bytesOf("data: a\r\ndata: b\rdata: c\n\r\ndata: d\r\r\n\n");
    const all = [event("", "a\nb\nc"), event("", "d")];
    for (let at = 0; at <= bytes.length; at += 1) assert.deepEqual(parsed(bytes, [at]), all, `cut at ${at}`);
  });

  it("parses a line of 64 MiB that arrives in 65,536 pieces", () => {
    const parser = new EventParser();
    const piece = "x".repeat(1024);
    parser.push("data: ");
    // 64 MiB: a parser that scans its whole buffer for each piece would take minutes.
    for (let n = 0; n < 64 * 1024; n += 1) assert.equal(parser.push(piece).length, 0);
    assert.equal(parser.push("\n\n")[0]?.data.length, 64 * 1024 * 1024);
  });
});
