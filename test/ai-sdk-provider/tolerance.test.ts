import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { AiSdkProvider, type WireName } from "gantry/adapters/ai-sdk-provider";
import { Handed } from "../../adapters/ai-sdk-provider/reading/hand-over.js";
import { streamAnswer } from "../../adapters/ai-sdk-provider/stream.js";
import type { Wire } from "../../adapters/ai-sdk-provider/wires/wire.js";
import { startFakeModelServer, type FakeModelServer } from "../helpers/fake-model-server.js";
import { baseUrlOf, WIRE_MODELS } from "../helpers/model-situations.js";
import { ask, gather, type Taken } from "../helpers/model-requests.js";
import { ODDITIES, type Expected } from "../helpers/odd-answers.js";

/** Bytes of an answer, in pieces of one size. */
function pieces(text: string, size: number): ReadableStream<Uint8Array> {
  const bytes = Buffer.from(text);
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) return controller.close();
      controller.enqueue(bytes.subarray(at, at + size));
      at += size;
    },
  });
}

function told({ text, reasoning, calls, finish }: Taken): Expected {
  const { inputTokens, outputTokens, cacheReadTokens, reasoningTokens, estimated } = finish.usage;
  return {
    text,
    reasoning,
    calls: calls.map(({ name, arguments: args }) => [name, args]),
    reason: finish.reason,
    usage: estimated === true ? null : [inputTokens, outputTokens, cacheReadTokens, reasoningTokens],
  };
}

const load: Record<WireName, () => Promise<{ wire: Wire }>> = {
  openai: () => import("../../adapters/ai-sdk-provider/wires/openai.js"),
  "openai-responses": () => import("../../adapters/ai-sdk-provider/wires/openai-responses.js"),
  anthropic: () => import("../../adapters/ai-sdk-provider/wires/anthropic.js"),
  google: () => import("../../adapters/ai-sdk-provider/wires/google.js"),
};

for (const [wire, oddities] of Object.entries(ODDITIES) as [WireName, (typeof ODDITIES)[WireName]][]) {
  describe(`the wire ${wire} reads on over`, () => {
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
    for (const { name, body, type = "text/event-stream", expected } of oddities) {
      const due = { text: "Hello", reasoning: "", calls: [], reason: "stop", usage: null, ...expected };
      it(name, async () => {
        server.enqueue({ status: 200, body, headers: { "content-type": type } });
        assert.deepEqual(told(await gather(provider.stream(request, signal), "lab", "m")), due, "from a server");
        const { wire: protocol } = await load[wire]();
        for (const size of [7, 1]) {
          const model = {
            specificationVersion: "v3",
            provider: "lab",
            modelId: "m",
            doStream: () => Promise.reject(new Handed(new Response(pieces(body, size)))),
          };
          const reading = {
            provider: "lab",
            redact: (text: string) => text,
            wire: protocol,
            mark: undefined,
            price: ({ usage }: { usage: Taken["finish"]["usage"] }) => Promise.resolve(usage),
          };
          const answer = await gather(streamAnswer(model, {}, request, reading, signal), "lab", "m");
          assert.deepEqual(told(answer), due, `in pieces of ${size}`);
        }
      });
    }
  });
}
