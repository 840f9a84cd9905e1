import type { Message, ModelMessage, Opaque } from "../ports/message.js";

/** Whose the state is that goes with a tool's result; no model, so that none is ever sent it. */
const OWNER = { provider: "gantry", model: "tool state" } as const;

/** Begins the keys that say for which tools a person gave leave for good. */
export const LEAVE = "leave:";

/** What a session was told of the place that it works in: it goes with a prompt, and with nothing else. */
export const SURROUNDINGS = "surroundings";

/** Begins the keys that say which files of instructions a result told of, and which version of each. */
export const TOLD = "told:";

/** What a call changed of its session's state; null: it was taken away. */
export type StateChanges = Record<string, unknown>;

/** A tool's result with what its call changed, or a prompt with what its session was told. */
export function withState(result: ModelMessage, changes: StateChanges): ModelMessage {
  const [first, ...rest] = result.parts;
  if (Object.keys(changes).length === 0 || first?.type !== "text") return result;
  return { ...result, parts: [{ ...first, opaque: { ...OWNER, data: changes } }, ...rest] };
}

/** The state that a conversation left behind. */
export function stateOf(messages: readonly Message[]): Map<string, unknown> {
  const state = new Map<string, unknown>();
  for (const { role, parts } of messages) {
    if (role !== "tool" && role !== "user") continue;
    for (const part of parts) {
      if (part.type !== "text" || !isOurs(part.opaque)) continue;
      for (const [key, value] of Object.entries(part.opaque.data as StateChanges)) {
        if ((key === SURROUNDINGS) !== (role === "user")) continue;
        // Leave is a person's to give, not a stored conversation's.
        if (value === null || key.startsWith(LEAVE)) state.delete(key);
        else state.set(key, value);
      }
    }
  }
  return state;
}

/** Which version of a file of instructions these messages tell, where one of them does. */
export function toldOf(messages: readonly Message[], from: string): unknown {
  for (const { role, parts } of messages.toReversed()) {
    const [first] = parts;
    if (role !== "tool" || first?.type !== "text" || !isOurs(first.opaque)) continue;
    const version = (first.opaque.data as StateChanges)[TOLD + from];
    if (version !== undefined) return version;
  }
  return undefined;
}

function isOurs(opaque: Opaque | undefined): opaque is Opaque {
  return opaque?.provider === OWNER.provider && opaque.model === OWNER.model && isPlainJson(opaque.data);
}

/** Whether a copy from a store would be the same. */
export function isPlainJson(value: unknown, depth = 0): boolean {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true;
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || depth > 20) return false;
  if (Array.isArray(value)) return value.every((one) => isPlainJson(one, depth + 1));
  const proto: unknown = Object.getPrototypeOf(value);
  return (
    (proto === Object.prototype || proto === null) && Object.values(value).every((one) => isPlainJson(one, depth + 1))
  );
}
