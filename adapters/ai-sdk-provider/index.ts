import { defineAdapter } from "gantry";
import { AiSdkProvider } from "./ai-sdk-provider.js";
import { parseOptions, type AiSdkProviderOptions } from "./options.js";

export { AiSdkProvider } from "./ai-sdk-provider.js";
export { fromAiSdk } from "./from-ai-sdk.js";
export type { AiSdkFactory, FromAiSdkOptions } from "./from-ai-sdk.js";
export type { AiSdkModel } from "./language-model.js";
export { describeAiSdkModule } from "./module.js";
export type { AiSdkModuleOptions } from "./module.js";
export type { AiSdkProviderOptions, ConfiguredModel } from "./options.js";
export { findPreset, PRESETS, WIRES } from "./presets.js";
export type { Preset, Quirks, WireName } from "./presets.js";

export default defineAdapter<"model-provider", AiSdkProviderOptions>({
  kind: "model-provider",
  name: "ai-sdk-provider",
  parse: parseOptions,
  use: AiSdkProvider,
});
