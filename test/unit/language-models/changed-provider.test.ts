import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ModelMessage } from "gantry/plugin";
import { AiSdkProvider, WIRES, type WireName } from "gantry/adapters/language-models";
import { startFakeModelServer } from "../../helpers/fake-model-server.js";
import { baseUrlOf, WIRE_MODELS } from "../../helpers/model-situations.js";
import {
  createRequest,
  PNG,
  readTool,
  toolResultMessage,
  readAnswer,
  userMessage,
} from "../../helpers/model-requests.js";

describe("a session that changes its provider", () => {
  const routes: WireName[][] = [
    ["anthropic", "openai-responses", "google", "openai", "anthropic"],
    ["google", "anthropic", "google", "openai-responses"],
    ["openai-responses", "google", "openai-responses", "openai", "openai-responses"],
  ];
  for (const route of routes) {
    it(`sends only valid requests, and sends each provider only its own reasoning: ${route.join(", ")}`, async () => {
      const server = await startFakeModelServer();
      const providers = new Map(
        WIRES.map((wire) => [
          wire,
          new AiSdkProvider({ name: `p-${wire}`, driver: wire, baseUrl: baseUrlOf(wire, server), apiKey: "k" }),
        ]),
      );
      try {
        const messages: ModelMessage[] = [];
        for (const [turn, wire] of route.entries()) {
          const provider = providers.get(wire)!;
          const request = createRequest({ model: WIRE_MODELS[wire], tools: [readTool], effort: "medium" });
          messages.push(userMessage(`Turn ${turn}`));
          // Three answers with reasoning: two calls, one call, and the final answer.
          server.enqueue(
            {
              say: [
                { reasoning: `plan of ${wire} ${turn}` },
                { text: "Reading." },
                {
                  calls: [
                    { name: "read", arguments: { path: "a" } },
                    { name: "read", arguments: { path: "b" } },
                  ],
                },
              ],
            },
            { say: [{ reasoning: `second of ${wire} ${turn}` }, { call: { name: "read", arguments: "{broken" } }] },
            { say: [{ reasoning: `last of ${wire} ${turn}` }, { text: `Answer ${turn}.` }] },
          );
          for (;;) {
            const { message, calls } = await readAnswer(provider, { ...request, messages });
            messages.push(message);
            if (calls.length === 0) break;
            for (const { id } of calls)
              messages.push(
                toolResultMessage(id, "read", [
                  { type: "text", text: "found" },
                  { type: "image", mediaType: "image/png", data: PNG },
                ]),
              );
          }
          const { body } = server.requests.at(-1)!;
          const sentBody = JSON.stringify(body);
          // A provider receives only its own earlier reasoning.
          for (const [earlierTurn, earlierWire] of route.slice(0, turn).entries()) {
            const isReasoningSent = sentBody.includes(`plan of ${earlierWire} ${earlierTurn}`);
            // Reasoning of Gemini and of chat completions has no data that could be sent back.
            assert.equal(
              isReasoningSent,
              earlierWire === wire && (wire === "anthropic" || wire === "openai-responses"),
              `${wire} sees the reasoning of ${earlierWire} ${earlierTurn}`,
            );
            assert.ok(sentBody.includes(`Answer ${earlierTurn}.`));
          }
        }
        assert.deepEqual(server.violations, []);
        assert.equal(server.requests.length, route.length * 3);
      } finally {
        await Promise.all([...providers.values()].map((provider) => provider.close()));
        await server.close();
      }
    });
  }
});
