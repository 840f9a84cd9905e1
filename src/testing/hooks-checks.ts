import assert from "node:assert/strict";
import { Agent } from "../agent/agent.js";
import { BUS_EVENTS } from "../agent/options.js";
import { combineHooks, findHookSetFault, addListeners } from "../plugin/hook-set.js";
import type { BusEvents } from "../ports/bus-events.js";
import type { Hooks, HookSet } from "../ports/hooks.js";
import { defineTool } from "../tools/define-tool.js";
import {
  DEFAULT_TIMEOUT_MS,
  expectNothingOpened,
  countOpenResources,
  withTimeout,
  type Check,
  type CheckRules,
} from "./check.js";
import { callTools, ScriptedProvider } from "./scripted-provider.js";

/** Gives the checks access to hooks. */
export interface HooksFixture {
  /** Called once at the start of every check. */
  create(): Promise<HookSet>;
  /** Removes what `create` left. Called at the end of every check, after `close` of the hooks. */
  clean?: (() => Promise<void>) | undefined;
  /** Time limit of the checks for expected events, in ms. Default 10,000. Only failing checks take that long. */
  readonly timeoutMs?: number | undefined;
}

/** Returns one check for each rule of the `HookSet` contract. All are required. */
export function hooksChecks(fixture: HooksFixture): Check[] {
  const { timeoutMs = DEFAULT_TIMEOUT_MS } = fixture;
  return Object.entries(RULES).map(([name, body]) => ({
    name,
    run: async () => {
      const resourcesBefore = countOpenResources();
      const set = await fixture.create();
      const closeSet = async () => {
        await withTimeout((async () => set.close?.())(), "close", timeoutMs).finally(() => fixture.clean?.());
        await expectNothingOpened(resourcesBefore, timeoutMs);
      };
      const outcomes = await Promise.allSettled([body(set, timeoutMs)]);
      outcomes.push(...(await Promise.allSettled([closeSet()])));
      for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
    },
  }));
}

const RULES: CheckRules<[set: HookSet, timeoutMs: number]> = {
  "members: functions, and listeners of known events": async (set) => assert.equal(findHookSetFault(set), undefined),

  "run: a run with a tool call ends with the hooks in place": async (set, timeoutMs) => {
    await withTimeout(runAgentWith([set], set), "the end of the run", timeoutMs);
  },
  "afterToolCall: returns nothing, or an output with text": async (set, timeoutMs) => {
    const outputs: unknown[] = [];
    const afterToolCall: Hooks["afterToolCall"] = async (...args) => {
      outputs.push(await set.afterToolCall?.(...args));
    };
    await withTimeout(runAgentWith([{ afterToolCall }]), "the end of the run", timeoutMs);
    for (const output of outputs as ({ text: unknown } | undefined)[])
      assert.ok(output === undefined || typeof output?.text === "string", "afterToolCall returned no { text }");
  },
  "signal: each hook settles when its signal has aborted": async (set, timeoutMs) => {
    const hookResults: Promise<unknown>[] = [];
    const expectSettled = (name: string, hook: unknown) =>
      void hookResults.push(withTimeout(Promise.allSettled([hook]), `${name} settles`, timeoutMs));
    const abortedSignal = AbortSignal.abort(new Error("stop"));
    await runAgentWith([
      {
        beforeToolCall: (call) => expectSettled("beforeToolCall", set.beforeToolCall?.(call, abortedSignal)),
        afterToolCall: (call, output) =>
          expectSettled("afterToolCall", set.afterToolCall?.(call, output, abortedSignal)),
        beforeModelCall: (call) => expectSettled("beforeModelCall", set.beforeModelCall?.(call, abortedSignal)),
      },
    ]);
    await Promise.all(hookResults);
  },
  "listeners: none throws": async ({ listeners = {} }, timeoutMs) => {
    const faults: string[] = [];
    const recordFaults = (event: keyof BusEvents) => async (payload: never) => {
      try {
        await (listeners[event] as ((payload: never) => unknown) | undefined)?.call(listeners, payload);
      } catch (error) {
        faults.push(`${event}: ${String(error)}`);
      }
    };
    const recordingListeners = Object.fromEntries(BUS_EVENTS.map((event) => [event, recordFaults(event)]));
    await withTimeout(runAgentWith([], { listeners: recordingListeners }), "the end of the run", timeoutMs);
    assert.deepEqual(faults, []);
  },
};

/** Runs an agent with these hooks and listeners. The agent calls a tool and answers. */
async function runAgentWith(hooks: readonly Hooks[], set: HookSet = {}): Promise<void> {
  const tool = defineTool({ name: "note", description: "Take a note.", kind: "think", run: () => "noted" });
  const provider = new ScriptedProvider([callTools(["note", {}]), "Done."]);
  await using agent = new Agent({ providers: [provider], tools: [tool], hooks: combineHooks(hooks) });
  addListeners(agent, set);
  const run = await agent.run({ message: "Take a note." });
  // A hook may make the run fail.
  await run.result.catch(() => undefined);
}
