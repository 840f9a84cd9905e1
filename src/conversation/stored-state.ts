import type { Message, ModelMessage, OpaqueData } from "../ports/message.js";

/**
 * Owner of the state stored with a tool result. The owner is no real provider or model, so the state is never sent to a
 * model.
 */
const OWNER = { provider: "gantry", model: "tool state" } as const;

/** Prefix of the keys of permanent permission grants. */
export const GRANT_PREFIX = "leave:";

/** Key of the environment that a session was last given. Stored only with a prompt. */
export const ENVIRONMENT_KEY = "surroundings";

/** Prefix of the keys of instruction files that a tool result contained. The value is the version of the file. */
export const INSTRUCTION_PREFIX = "told:";

/** Session state that a call changed, by key. Null removes the key. */
export type StateChanges = Record<string, unknown>;

/**
 * Adds state to a tool result (changed by its call) or to a prompt (the environment). Returns the message unchanged if
 * there are no changes or its first part is not text.
 */
export function withState(result: ModelMessage, changes: StateChanges): ModelMessage {
  const [firstPart, ...otherParts] = result.parts;
  if (Object.keys(changes).length === 0 || firstPart?.type !== "text") return result;
  return { ...result, parts: [{ ...firstPart, opaque: { ...OWNER, data: changes } }, ...otherParts] };
}

/** Collects the session's state from the messages of a conversation. */
export function collectState(messages: readonly Message[]): Map<string, unknown> {
  const state = new Map<string, unknown>();
  for (const { role, parts } of messages) {
    if (role !== "tool" && role !== "user") continue;
    for (const part of parts) {
      if (part.type !== "text" || !isStoredState(part.opaque)) continue;
      for (const [key, value] of Object.entries(part.opaque.data as StateChanges)) {
        if ((key === ENVIRONMENT_KEY) !== (role === "user")) continue;
        // Only a user can grant permissions; grants in stored conversations are ignored.
        if (value === null || key.startsWith(GRANT_PREFIX)) state.delete(key);
        else state.set(key, value);
      }
    }
  }
  return state;
}

/** Finds the version of an instruction file in the newest message with that file; undefined if no message has it. */
export function findInstructionVersion(messages: readonly Message[], from: string): unknown {
  for (const { role, parts } of messages.toReversed()) {
    const [firstPart] = parts;
    if (role !== "tool" || firstPart?.type !== "text" || !isStoredState(firstPart.opaque)) continue;
    const version = (firstPart.opaque.data as StateChanges)[INSTRUCTION_PREFIX + from];
    if (version !== undefined) return version;
  }
  return undefined;
}

function isStoredState(opaque: OpaqueData | undefined): opaque is OpaqueData {
  return opaque?.provider === OWNER.provider && opaque.model === OWNER.model && isPlainJson(opaque.data);
}

/** Maximum nesting depth of stored values. */
const MAX_DEPTH = 20;

/** Whether a value survives storage as JSON unchanged. `depth`: nesting depth of the value. */
export function isPlainJson(value: unknown, depth = 0): boolean {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true;
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || depth > MAX_DEPTH) return false;
  if (Array.isArray(value)) return value.every((item) => isPlainJson(item, depth + 1));
  const prototype: unknown = Object.getPrototypeOf(value);
  return (
    (prototype === Object.prototype || prototype === null) &&
    Object.values(value).every((field) => isPlainJson(field, depth + 1))
  );
}
