import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { AiSdkProvider, WIRES } from "gantry/adapters/ai-sdk-provider";
import { startFakeModelServer, type FakeModelServer } from "../helpers/fake-model-server.js";
import { baseUrlOf, SITUATIONS, WIRE_MODELS } from "../helpers/model-situations.js";

const key = "sk-matrix-0123456789abcdef";

for (const wire of WIRES) {
  describe(`the wire ${wire} masters`, () => {
    let server: FakeModelServer;
    let provider: AiSdkProvider;
    before(async () => {
      server = await startFakeModelServer({ apiKey: key });
      provider = new AiSdkProvider({ name: "lab", driver: wire, baseUrl: baseUrlOf(wire, server), apiKey: key });
    });
    afterEach(() => {
      assert.deepEqual(server.violations, []);
      assert.equal(server.queued, 0);
    });
    after(async () => {
      await provider.close();
      await server.close();
    });
    for (const { name, except, run } of SITUATIONS) {
      if (except?.[wire] !== undefined) continue;
      it(name, () => run({ wire, model: WIRE_MODELS[wire], server, provider, key }));
    }
  });
}
