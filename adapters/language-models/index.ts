import { join } from "node:path";
import { defineAdapter } from "gantry/plugin";
import { AiSdkProvider } from "./ai-sdk-provider.js";
import { toConfiguredModels, providerOptions } from "./options.js";

export { AiSdkProvider } from "./ai-sdk-provider.js";
export { fromAiSdk, type AiSdkFactory, type FromAiSdkOptions } from "./from-ai-sdk.js";
export type { AiSdkModel } from "./language-model.js";
export { describeAiSdkModule, type AiSdkModuleOptions } from "./module.js";
export type { AiSdkProviderOptions, ConfiguredModel } from "./options.js";
export { findPreset, PRESETS, WIRES, type Preset, type Quirks, type WireName } from "./presets.js";

/**
 * Language models over four wire protocols. The packages of the AI SDK build the requests, because they follow the
 * options of the providers. The readers in `reading` read the answers, because they tolerate broken streams.
 */
export default defineAdapter({
  kind: "model-provider",
  name: "language-models",
  schema: providerOptions,
  create: ({ provider: preset, models, ...options }, { logger, home, canRefresh, configDir }) => {
    const priceOptions = canRefresh === true ? { prices: { file: join(home, "prices.json") } } : {};
    return new AiSdkProvider(
      { ...options, preset, models: toConfiguredModels(models), ...priceOptions },
      logger,
      configDir,
    );
  },
});
