import { describe, it } from "node:test";
import { OfflineProvider } from "gantry/adapters/offline-provider";
import { builtinTools } from "gantry";
import type { ModelRequest } from "gantry/plugin";
import { modelProviderChecks } from "gantry/testing";
import { createRequest, userMessage } from "../../helpers/model-requests.js";

describe("contract of the model provider OfflineProvider", () => {
  const provider = new OfflineProvider({ servers: [] });
  const model = provider.configuredModels[0];
  const createPromptRequest = (message: string): Promise<ModelRequest> =>
    Promise.resolve(
      createRequest({ ...(model ? { model } : {}), messages: [userMessage(message)], tools: builtinTools() }),
    );
  const checks = modelProviderChecks({
    create: () => Promise.resolve(new OfflineProvider({ servers: [] })),
    text: () => createPromptRequest("Hello"),
    toolCall: () => createPromptRequest("Which files are here?"),
    // The provider follows fixed rules: it neither waits nor fails.
    stall: undefined,
    fault: undefined,
    clean: () => Promise.resolve(),
  });
  for (const check of checks) it(check.name, () => check.run());
});
