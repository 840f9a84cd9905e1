import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { AiSdkProvider, type WireName } from "gantry/adapters/language-models";
import type { ByteSource } from "../../../adapters/language-models/response-bytes.js";
import { AnswerBody } from "../../../adapters/language-models/reading/answer-body.js";
import { streamAnswer } from "../../../adapters/language-models/stream.js";
import type { BuiltInWire } from "../../../adapters/language-models/wires/wire.js";
import { startFakeModelServer, type FakeModelServer } from "../../helpers/fake-model-server.js";
import { baseUrlOf, WIRE_MODELS } from "../../helpers/model-situations.js";
import { ask, gather, type Taken } from "../../helpers/model-requests.js";
import { UNUSUAL_ANSWERS, type Expected } from "../../helpers/unusual-answers.js";

/** The bytes of a response, in pieces of equal size. */
function pieces(text: string, size: number): ByteSource {
  const bytes = Buffer.from(text);
  let at = 0;
  return {
    async next() {
      const piece = bytes.subarray(at, (at += size));
      return piece.length === 0 ? undefined : piece;
    },
    release: () => undefined,
  };
}

function summarize({ text, reasoning, calls, finish }: Taken): Expected {
  const { inputTokens, outputTokens, cacheReadTokens, reasoningTokens, estimated } = finish.usage;
  return {
    text,
    reasoning,
    calls: calls.map(({ name, arguments: args }) => [name, args]),
    reason: finish.reason,
    usage: estimated === true ? null : [inputTokens, outputTokens, cacheReadTokens, reasoningTokens],
  };
}

const load: Record<WireName, () => Promise<{ wire: BuiltInWire }>> = {
  openai: () => import("../../../adapters/language-models/wires/openai.js"),
  "openai-responses": () => import("../../../adapters/language-models/wires/openai-responses.js"),
  anthropic: () => import("../../../adapters/language-models/wires/anthropic.js"),
  google: () => import("../../../adapters/language-models/wires/google.js"),
};

for (const [wire, answers] of Object.entries(UNUSUAL_ANSWERS) as [WireName, (typeof UNUSUAL_ANSWERS)[WireName]][]) {
  describe(`unusual answers that the wire ${wire} accepts`, () => {
    const request = ask({ model: WIRE_MODELS[wire] });
    const { signal } = new AbortController();
    let server: FakeModelServer;
    let provider: AiSdkProvider;
    before(async () => {
      server = await startFakeModelServer();
      provider = new AiSdkProvider({ name: "lab", driver: wire, baseUrl: baseUrlOf(wire, server), apiKey: "k" });
    });
    afterEach(() => assert.equal(server.queued, 0));
    after(async () => {
      await provider.close();
      await server.close();
    });
    for (const { name, body, type = "text/event-stream", expected } of answers) {
      const due = { text: "Hello", reasoning: "", calls: [], reason: "stop", usage: null, ...expected };
      it(name, async () => {
        server.enqueue({ status: 200, body, headers: { "content-type": type } });
        assert.deepEqual(summarize(await gather(provider.stream(request, signal), "lab", "m")), due, "from a server");
        const { wire: protocol } = await load[wire]();
        for (const size of [7, 1]) {
          const context = {
            provider: "lab",
            redact: (text: string) => text,
            wire: protocol,
            reasoningMark: undefined,
            addCost: ({ usage }: { usage: Taken["finish"]["usage"] }) => Promise.resolve(usage),
          };
          const source = new AnswerBody(pieces(body, size), "http://lab/", protocol.createReader(), context);
          const attempt = { context, send: async () => source, shouldRetry: () => false };
          const answer = await gather(
            streamAnswer(async () => attempt, request, signal),
            "lab",
            "m",
          );
          assert.deepEqual(summarize(answer), due, `in pieces of ${size}`);
        }
      });
    }
  });
}
