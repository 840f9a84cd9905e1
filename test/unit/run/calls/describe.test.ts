import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, builtinTools, defineTool, type Ask, type AskRequest } from "gantry";
import type { ToolCallPreview } from "gantry/plugin";
import { callTools, ScriptedProvider } from "gantry/testing";
import { tempDir, type Hooks } from "../../../helpers/temp.js";

const described = [{ path: "/p/a", oldText: null, newText: "described" }];
const seen = [{ path: "/p/a", oldText: "old", newText: "new" }];

/** What the person at the run's own door, and those at others, are asked of one call of a tool that shows this. */
async function asked(t: Hooks, preview: (signal: AbortSignal) => Promise<ToolCallPreview>) {
  const tool = defineTool({
    name: "act",
    description: "Acts.",
    describe: () => ({ title: "Act", diff: described }),
    preview: (_, { signal }) => preview(signal),
    run: () => "done",
  });
  const provider = new ScriptedProvider([callTools(["act", {}]), "end"]);
  const agent = new Agent({ providers: [provider], tools: [tool] });
  t.after(() => agent.close());
  const [own, others] = [[] as AskRequest[], [] as Ask[]];
  agent.on("ask.opened", ({ ask }) => others.push(ask));
  const run = await agent.run({ message: "x", ask: async (request) => (own.push(request), "allow") });
  await run.result;
  assert.deepEqual([own.length, others.length], [1, 1]);
  assert.deepEqual([own[0]!.diff ?? [], own[0]!.reason ?? ""], [others[0]!.diff, others[0]!.reason]);
  return others[0]!;
}

describe("what a person who is asked is shown of a call", () => {
  it("is what its tool shows by what is there now", async (t) => {
    assert.deepEqual((await asked(t, async () => ({ diff: seen }))).diff, seen);
    const { diff, reason } = await asked(t, async () => ({ note: "It is large." }));
    assert.deepEqual([diff, reason], [described, "It is large."]);
    assert.deepEqual((await asked(t, async () => ({ diff: [] }))).diff, []);
  });

  it("is what the arguments say where the tool fails, brings what is none, or never comes to an end", async (t) => {
    let ended = false;
    const odd: ((signal: AbortSignal) => unknown)[] = [
      () => Promise.reject(new Error("disk on fire")),
      () => {
        throw new Error("at once");
      },
      async () => undefined,
      async () => null,
      async () => ({ diff: undefined, note: 1 }),
      (signal) => new Promise(() => signal.addEventListener("abort", () => (ended = true))),
    ];
    const asks = await Promise.all(odd.map((preview) => asked(t, preview as () => Promise<ToolCallPreview>)));
    for (const { diff, reason } of asks) assert.deepEqual([diff, reason], [described, ""]);
    assert.ok(ended);
    assert.deepEqual((await asked(t, (async () => ({ diff: [{}, 1] })) as unknown as () => Promise<object>)).diff, []);
  });

  it("is for a file that write replaces what is in it, at each door", async (t) => {
    const folder = await tempDir(t, { "a.txt": "one\ntwo\n" });
    const provider = new ScriptedProvider([callTools(["write", { path: "a.txt", content: "1\n" }]), "end"]);
    const agent = new Agent({ providers: [provider], tools: builtinTools(), projectDir: folder.path });
    t.after(() => agent.close());
    let own: AskRequest | undefined;
    let stored: Ask | undefined;
    const run = await agent.run({
      message: "x",
      mode: "ask",
      ask: async (request) => {
        own = request;
        while (!stored) [stored] = await agent.asks.list({ open: true });
        return "reject";
      },
    });
    await run.result;
    const path = folder.at("a.txt");
    assert.deepEqual(stored?.diff, [{ path, oldText: "one\ntwo\n", newText: "1\n" }]);
    assert.deepEqual(own?.diff, stored.diff);
    assert.equal(await folder.read("a.txt"), "one\ntwo\n");
  });
});
