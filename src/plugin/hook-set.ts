import type { Agent } from "../agent/agent.js";
import { BUS_EVENTS, HOOK_NAMES } from "../agent/options.js";
import { isRecord } from "../base/json.js";
import type { BusEvents } from "../ports/bus-events.js";
import type { Hooks, HookSet } from "../ports/hooks.js";
import { describeType } from "./read-options.js";

const HOOK_KEYS = Object.keys(HOOK_NAMES) as readonly (keyof Hooks)[];

/** Combines hooks. Each hook is called in the order of `sets`; an error skips the remaining sets. */
export function combineHooks(sets: readonly Hooks[]): Hooks {
  const hooks: Required<Hooks> = {
    async beforeToolCall(call, signal) {
      for (const set of sets) {
        signal.throwIfAborted();
        await set.beforeToolCall?.(call, signal);
      }
    },
    async afterToolCall(call, output, signal) {
      let latestOutput = output;
      for (const set of sets) {
        signal.throwIfAborted();
        const replacement = (await set.afterToolCall?.(call, latestOutput, signal)) ?? latestOutput;
        if (typeof replacement.text !== "string") throw new Error("afterToolCall returned no { text }");
        latestOutput = replacement;
      }
      return latestOutput;
    },
    async beforeModelCall(call, signal) {
      for (const set of sets) {
        signal.throwIfAborted();
        await set.beforeModelCall?.(call, signal);
      }
    },
  };
  // A hook that no set defines must be absent: a defined `afterToolCall` disables the progress of tools.
  return Object.fromEntries(
    HOOK_KEYS.filter((name) => sets.some((set) => set[name])).map((name) => [name, hooks[name]]),
  );
}

/** Adds the listeners of a hook set to the agent. The listeners stay until the agent closes. */
export function addListeners(agent: Agent, { listeners = {} }: HookSet): void {
  for (const event of BUS_EVENTS) addListener(agent, event, listeners);
}

function addListener<E extends keyof BusEvents>(
  agent: Agent,
  event: E,
  listeners: NonNullable<HookSet["listeners"]>,
): void {
  const listener = listeners[event];
  if (listener) agent.on(event, listener.bind(listeners));
}

/**
 * Returns why a hook set is invalid, or undefined if it is valid. A set without a hook and without listeners is
 * invalid, because a misspelt hook would never be called.
 */
export function findHookSetFault(set: HookSet): string | undefined {
  const { listeners } = set;
  if (listeners === undefined && HOOK_KEYS.every((name) => set[name] === undefined))
    return `expected one of ${[...HOOK_KEYS, "listeners"].join(", ")}`;
  for (const name of [...HOOK_KEYS, "close"] as const)
    if (set[name] !== undefined && typeof set[name] !== "function")
      return `${name}: expected a function, got ${describeType(set[name])}`;
  if (listeners !== undefined && !isRecord(listeners))
    return `listeners: expected an object, got ${describeType(listeners)}`;
  for (const [event, listener] of Object.entries(listeners ?? {})) {
    if (!BUS_EVENTS.includes(event as keyof BusEvents))
      return `listeners: expected events of ${BUS_EVENTS.join(", ")}, got ${event}`;
    if (typeof listener !== "function") return `listeners.${event}: expected a function, got ${describeType(listener)}`;
  }
  return undefined;
}
