import { describe, it } from "node:test";
import { ProviderError } from "gantry";
import { callTools, modelProviderChecks, ScriptedProvider } from "gantry/testing";
import { createRequest, createModel, readTool } from "../../helpers/model-requests.js";

describe("ScriptedProvider", () => {
  let provider: ScriptedProvider;
  const request = createRequest({ model: createModel({ id: "scripted-1" }) });
  const toTextChunk = (piece: string) => ({ type: "text" as const, block: "0", text: piece });
  const checks = modelProviderChecks({
    create: () => Promise.resolve((provider = new ScriptedProvider())),
    text: () => {
      provider.push(["One ", "two ", "three."].map(toTextChunk));
      return Promise.resolve(request);
    },
    toolCall: () => {
      provider.push(callTools(["read", { path: "a" }]));
      return Promise.resolve({ ...request, tools: [readTool] });
    },
    stall: () => {
      provider.push({ chunks: [toTextChunk("One ")], hang: true });
      return Promise.resolve(request);
    },
    fault: () => {
      provider.push(new ProviderError("scripted", "server", "oops"));
      return Promise.resolve(request);
    },
    clean: () => Promise.resolve(),
  });
  for (const check of checks) it(check.name, () => check.run());
});
