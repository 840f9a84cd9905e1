import { describe, it } from "node:test";
import { AiSdkProvider, WIRES } from "gantry/adapters/language-models";
import { modelProviderChecks } from "gantry/testing";
import { call, fail, say, startFakeModelServer, type FakeModelServer } from "../../helpers/fake-model-server.js";
import { ask, readTool } from "../../helpers/model-requests.js";
import { baseUrlOf, WIRE_MODELS } from "../../helpers/model-situations.js";

for (const wire of WIRES) {
  describe(`contract of the model provider AiSdkProvider on the wire ${wire}`, () => {
    const model = WIRE_MODELS[wire];
    let server: FakeModelServer;
    let open = false;
    const checks = modelProviderChecks({
      create: async () => {
        server = await startFakeModelServer({ models: [model.id] });
        open = true;
        return new AiSdkProvider({
          name: "lab",
          driver: wire,
          baseUrl: baseUrlOf(wire, server),
          apiKey: "key",
          models: [{ id: model.id }],
        });
      },
      text: () => {
        server.enqueue(say(["One ", "two ", "three."]));
        return Promise.resolve(ask({ model }));
      },
      toolCall: () => {
        server.enqueue(call("read", { path: "a.txt" }));
        return Promise.resolve(ask({ model, tools: [readTool] }));
      },
      stall: () => {
        server.enqueue({ say: [{ text: "One " }, { stall: true }] });
        return Promise.resolve(ask({ model }));
      },
      fault: () => {
        server.enqueue(fail(500, "Oops."));
        return Promise.resolve(ask({ model }));
      },
      clean: async () => {
        if (open) await server.close();
        open = false;
      },
    });
    for (const check of checks) it(check.name, () => check.run());
  });
}
