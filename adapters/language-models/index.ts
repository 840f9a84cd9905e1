import { join } from "node:path";
import { defineAdapter } from "gantry/plugin";
import { AiSdkProvider } from "./ai-sdk-provider.js";
import { configured, providerOptions } from "./options.js";

export { AiSdkProvider } from "./ai-sdk-provider.js";
export { fromAiSdk, type AiSdkFactory, type FromAiSdkOptions } from "./from-ai-sdk.js";
export type { AiSdkModel } from "./language-model.js";
export { describeAiSdkModule, type AiSdkModuleOptions } from "./module.js";
export type { AiSdkProviderOptions, ConfiguredModel } from "./options.js";
export { findPreset, PRESETS, WIRES, type Preset, type Quirks, type WireName } from "./presets.js";

/**
 * Language models over four wire protocols. The packages of the AI SDK build the requests, because they keep up with the
 * options of the providers; the readers in `reading` read the answers, because they survive broken streams.
 */
export default defineAdapter({
  kind: "model-provider",
  name: "language-models",
  schema: providerOptions,
  create: ({ provider: preset, models, ...options }, { logger, home, refreshes }) => {
    const prices = refreshes === true ? { prices: { file: join(home, "prices.json") } } : {};
    return new AiSdkProvider({ ...options, preset, models: configured(models), ...prices }, logger);
  },
});
