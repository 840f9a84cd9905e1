import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { StreamPart } from "../../../adapters/language-models/language-model.js";
import type { ByteSource } from "../../../adapters/language-models/response-bytes.js";
import { AnswerBody } from "../../../adapters/language-models/reading/answer-body.js";
import { ChatReader } from "../../../adapters/language-models/reading/openai.js";

const toSseEvent = (delta: object, finishReason: string | null = null): string =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finishReason }] })}\n\n`;
const DELTAS = Array.from({ length: 2_000 }, (_, n) => `wört ${n} 😀 `);
const EVENT_STREAM = [
  ...DELTAS.map((content) => toSseEvent({ content })),
  toSseEvent({}, "stop"),
  "data: [DONE]\n\n",
].join("");

function createAnswerBody(pieces: readonly (Buffer | Error)[]): AnswerBody {
  const remainingPieces = [...pieces];
  const bytes: ByteSource = {
    async next() {
      const piece = remainingPieces.shift();
      if (piece instanceof Error) throw piece;
      return piece;
    },
    release: () => undefined,
  };
  return new AnswerBody(bytes, "http://lab/v1", new ChatReader("lab"), { provider: "lab", redact: (secret) => secret });
}

const getText = (parts: readonly StreamPart[]): string =>
  parts.map((part) => (part.type === "text-delta" ? part.delta : "")).join("");

describe("AnswerBody", () => {
  it("returns under 500 characters first if the answer arrives in one piece, then the rest without loss", async () => {
    const body = createAnswerBody([Buffer.from(EVENT_STREAM)]);
    const firstText = getText((await body.next())!);
    assert.ok(firstText.startsWith(DELTAS[0]!));
    assert.ok(firstText.length < 500, `${firstText.length} characters`);
    const laterParts: StreamPart[] = [];
    for (let parts = await body.next(); parts !== undefined; parts = await body.next()) laterParts.push(...parts);
    assert.equal(firstText + getText(laterParts), DELTAS.join(""));
    assert.equal(laterParts.at(-1)?.type, "finish");
  });

  it("returns the text received before a connection error, then rejects with that error", async () => {
    const body = createAnswerBody([Buffer.from(EVENT_STREAM.slice(0, 100_000)), new Error("reset")]);
    const receivedText = getText((await body.next())!) + getText((await body.next())!);
    assert.ok(receivedText.length > 10_000 && DELTAS.join("").startsWith(receivedText));
    await assert.rejects(body.next(), /reset/);
  });

  it("reads a JSON completion that is not an event stream", async () => {
    const completion = { choices: [{ index: 0, message: { content: DELTAS.join("") }, finish_reason: "stop" }] };
    const body = createAnswerBody([Buffer.from(JSON.stringify(completion))]);
    const parts: StreamPart[] = [];
    for (let nextParts = await body.next(); nextParts !== undefined; nextParts = await body.next())
      parts.push(...nextParts);
    assert.equal(getText(parts), DELTAS.join(""));
  });
});
