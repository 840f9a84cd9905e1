import assert from "node:assert/strict";
import { createServer } from "node:net";
import { describe, it } from "node:test";
import type { HookSet } from "gantry/plugin";
import { hooksChecks } from "gantry/testing";

const neverPromise = new Promise<never>(() => undefined);
let leakedServer: ReturnType<typeof createServer> | undefined;

const faults: readonly [fault: string, hookSet: HookSet, checkNamePrefix: string][] = [
  ["has no members", {}, "members: functions, and listeners of known events"],
  ["listens to an unknown event", { listeners: { "run.done": () => undefined } as object }, "members"],
  ["never settles", { beforeToolCall: () => neverPromise }, "signal: each hook settles when its signal has aborted"],
  ["returns a string from afterToolCall", { afterToolCall: () => "text" as never }, "afterToolCall: returns nothing"],
  [
    "has a listener that rejects",
    { listeners: { "run.finished": (() => Promise.reject(new Error("no luck"))) as () => void } },
    "listeners: none throws",
  ],
  ["never closes", { beforeModelCall: () => undefined, close: () => neverPromise }, "members"],
  ["leaves a port open", { beforeModelCall: () => void (leakedServer ??= createServer().listen(0)) }, "run: a run"],
];

describe("the hooks checks", () => {
  it("passes valid hooks", async () => {
    const hookSet: HookSet = { beforeToolCall: () => Promise.reject(new Error("refused")), close: () => undefined };
    for (const { run } of hooksChecks({ create: () => Promise.resolve(hookSet) })) await run();
  });

  for (const [fault, hookSet, checkNamePrefix] of faults)
    it(`catches a hook set that ${fault}`, async () => {
      const checks = hooksChecks({
        create: () => Promise.resolve(hookSet),
        clean: () => Promise.resolve(),
        timeoutMs: 50,
      });
      const check = checks.find((candidate) => candidate.name.startsWith(checkNamePrefix));
      try {
        await assert.rejects(async () => check?.run());
      } finally {
        leakedServer?.close();
        leakedServer = undefined;
      }
    });
});
