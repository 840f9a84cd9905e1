export { MemoryDriver, MemoryStore } from "../memory-driver.js";
export { ScriptedProvider, callTools, finish, say } from "./scripted-provider.js";
export type {
  ScriptedAnswer,
  ScriptedChunk,
  ScriptedProviderOptions,
  ScriptedReply,
  ScriptedStep,
} from "./scripted-provider.js";
