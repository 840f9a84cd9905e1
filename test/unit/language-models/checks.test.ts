import { describe, it } from "node:test";
import { AiSdkProvider, WIRES } from "gantry/adapters/language-models";
import { modelProviderChecks } from "gantry/testing";
import {
  callStep,
  errorStep,
  textStep,
  startFakeModelServer,
  type FakeModelServer,
} from "../../helpers/fake-model-server.js";
import { createRequest, readTool } from "../../helpers/model-requests.js";
import { baseUrlOf, WIRE_MODELS } from "../../helpers/model-situations.js";

for (const wire of WIRES) {
  describe(`contract of the model provider AiSdkProvider on the wire ${wire}`, () => {
    const model = WIRE_MODELS[wire];
    let server: FakeModelServer;
    let isServerOpen = false;
    const checks = modelProviderChecks({
      create: async () => {
        server = await startFakeModelServer({ models: [model.id] });
        isServerOpen = true;
        return new AiSdkProvider({
          name: "lab",
          driver: wire,
          baseUrl: baseUrlOf(wire, server),
          apiKey: "key",
          models: [{ id: model.id }],
        });
      },
      text: () => {
        server.enqueue(textStep(["One ", "two ", "three."]));
        return Promise.resolve(createRequest({ model }));
      },
      toolCall: () => {
        server.enqueue(callStep("read", { path: "a.txt" }));
        return Promise.resolve(createRequest({ model, tools: [readTool] }));
      },
      stall: () => {
        server.enqueue({ say: [{ text: "One " }, { stall: true }] });
        return Promise.resolve(createRequest({ model }));
      },
      fault: () => {
        server.enqueue(errorStep(500, "Oops."));
        return Promise.resolve(createRequest({ model }));
      },
      clean: async () => {
        if (isServerOpen) await server.close();
        isServerOpen = false;
      },
    });
    for (const check of checks) it(check.name, () => check.run());
  });
}
