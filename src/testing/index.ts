export type { Check } from "./check.js";
export { compactionStrategyChecks, type CompactionStrategyFixture } from "./compaction-strategy-checks.js";
export { hooksChecks, type HooksFixture } from "./hooks-checks.js";
export { modelProviderChecks } from "./model-provider-checks.js";
export type { ModelProviderFixture } from "./model-provider/fixture.js";
export { ScriptedProvider, callTools, finish, say } from "./scripted-provider.js";
export type {
  ScriptedAnswer,
  ScriptedChunk,
  ScriptedProviderOptions,
  ScriptedReply,
  ScriptedStep,
} from "./scripted-provider.js";
export { sessionDriverChecks } from "./session-driver-checks.js";
export type { SessionDriverFixture, HeldStore } from "./session-driver/fixture.js";
export { toolChecks, type ToolFixture, type ToolTestbed } from "./tool-checks.js";
export { transportChecks } from "./transport-checks.js";
export type { TransportClient, TransportFixture } from "./transport/fixture.js";
