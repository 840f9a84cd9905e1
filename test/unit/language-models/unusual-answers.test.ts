import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { AiSdkProvider, type WireName } from "gantry/adapters/language-models";
import type { ByteSource } from "../../../adapters/language-models/response-bytes.js";
import { AnswerBody } from "../../../adapters/language-models/reading/answer-body.js";
import { streamAnswer } from "../../../adapters/language-models/stream.js";
import type { BuiltInWire } from "../../../adapters/language-models/wires/wire.js";
import { startFakeModelServer, type FakeModelServer } from "../../helpers/fake-model-server.js";
import { baseUrlOf, WIRE_MODELS } from "../../helpers/model-situations.js";
import { createRequest, collectAnswer, type CompleteAnswer } from "../../helpers/model-requests.js";
import { UNUSUAL_ANSWERS, type ExpectedAnswer } from "../../helpers/unusual-answers.js";

/** Returns a source of the text's bytes in pieces of `pieceBytes`. The last piece can be shorter. */
function createByteSource(text: string, pieceBytes: number): ByteSource {
  const bytes = Buffer.from(text);
  let offset = 0;
  return {
    async next() {
      const piece = bytes.subarray(offset, (offset += pieceBytes));
      return piece.length === 0 ? undefined : piece;
    },
    release: () => undefined,
  };
}

function summarize({ text, reasoning, calls, finish }: CompleteAnswer): ExpectedAnswer {
  const { inputTokens, outputTokens, cacheReadTokens, reasoningTokens, estimated } = finish.usage;
  return {
    text,
    reasoning,
    calls: calls.map(({ name, arguments: args }) => [name, args]),
    reason: finish.reason,
    usage: estimated === true ? null : [inputTokens, outputTokens, cacheReadTokens, reasoningTokens],
  };
}

const wireLoaders: Record<WireName, () => Promise<{ wire: BuiltInWire }>> = {
  openai: () => import("../../../adapters/language-models/wires/openai.js"),
  "openai-responses": () => import("../../../adapters/language-models/wires/openai-responses.js"),
  anthropic: () => import("../../../adapters/language-models/wires/anthropic.js"),
  google: () => import("../../../adapters/language-models/wires/google.js"),
};

for (const [wire, answers] of Object.entries(UNUSUAL_ANSWERS) as [WireName, (typeof UNUSUAL_ANSWERS)[WireName]][]) {
  describe(`unusual answers that the wire ${wire} accepts`, () => {
    const request = createRequest({ model: WIRE_MODELS[wire] });
    const { signal } = new AbortController();
    let server: FakeModelServer;
    let provider: AiSdkProvider;
    before(async () => {
      server = await startFakeModelServer();
      provider = new AiSdkProvider({ name: "lab", driver: wire, baseUrl: baseUrlOf(wire, server), apiKey: "k" });
    });
    afterEach(() => assert.equal(server.queuedCount, 0));
    after(async () => {
      await provider.close();
      await server.close();
    });
    for (const { name, body, type = "text/event-stream", expected } of answers) {
      const expectedSummary = { text: "Hello", reasoning: "", calls: [], reason: "stop", usage: null, ...expected };
      it(name, async () => {
        server.enqueue({ status: 200, body, headers: { "content-type": type } });
        assert.deepEqual(
          summarize(await collectAnswer(provider.stream(request, signal), "lab", "m")),
          expectedSummary,
          "from a server",
        );
        const { wire: loadedWire } = await wireLoaders[wire]();
        for (const pieceBytes of [7, 1]) {
          const context = {
            provider: "lab",
            redact: (text: string) => text,
            wire: loadedWire,
            reasoningMark: undefined,
            addCost: ({ usage }: { usage: CompleteAnswer["finish"]["usage"] }) => Promise.resolve(usage),
          };
          const source = new AnswerBody(
            createByteSource(body, pieceBytes),
            "http://lab/",
            loadedWire.createReader(),
            context,
          );
          const attempt = { context, send: async () => source, shouldRetry: () => false };
          const answer = await collectAnswer(
            streamAnswer(async () => attempt, request, signal),
            "lab",
            "m",
          );
          assert.deepEqual(summarize(answer), expectedSummary, `in pieces of ${pieceBytes}`);
        }
      });
    }
  });
}
