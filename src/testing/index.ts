export { MemoryDriver } from "../memory-driver.js";
export { MemoryStore } from "../memory-store.js";
export type { Check } from "./check.js";
export { ScriptedProvider, callTools, finish, say } from "./scripted-provider.js";
export type {
  ScriptedAnswer,
  ScriptedChunk,
  ScriptedProviderOptions,
  ScriptedReply,
  ScriptedStep,
} from "./scripted-provider.js";
export { sessionDriverChecks } from "./session-driver-checks.js";
export type { SessionDriverFixture } from "./session-driver-checks.js";
