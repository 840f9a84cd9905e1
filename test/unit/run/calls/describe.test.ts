import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, builtinTools, defineTool, type Ask, type AskRequest } from "gantry";
import type { ToolCallPreview } from "gantry/plugin";
import { callTools, ScriptedProvider } from "gantry/testing";
import { tempDir, type Hooks } from "../../../helpers/temp.js";

const described = [{ path: "/p/a", oldText: null, newText: "described" }];
const seen = [{ path: "/p/a", oldText: "old", newText: "new" }];

/** The requests that the run's own client and the other clients receive for one call of a tool with this preview. */
async function requestsOf(t: Hooks, preview: (signal: AbortSignal) => Promise<ToolCallPreview>) {
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
  const [ownRequests, openedAsks] = [[] as AskRequest[], [] as Ask[]];
  agent.on("ask.opened", ({ ask }) => openedAsks.push(ask));
  const run = await agent.run({ message: "x", ask: async (request) => (ownRequests.push(request), "allow") });
  await run.result;
  assert.deepEqual([ownRequests.length, openedAsks.length], [1, 1]);
  assert.deepEqual(
    [ownRequests[0]!.diff ?? [], ownRequests[0]!.reason ?? ""],
    [openedAsks[0]!.diff, openedAsks[0]!.reason],
  );
  return openedAsks[0]!;
}

describe("what a person who is asked is shown of a call", () => {
  it("is what its tool shows by what is there now", async (t) => {
    assert.deepEqual((await requestsOf(t, async () => ({ diff: seen }))).diff, seen);
    const { diff, reason } = await requestsOf(t, async () => ({ note: "It is large." }));
    assert.deepEqual([diff, reason], [described, "It is large."]);
    assert.deepEqual((await requestsOf(t, async () => ({ diff: [] }))).diff, []);
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
    const asks = await Promise.all(odd.map((preview) => requestsOf(t, preview as () => Promise<ToolCallPreview>)));
    for (const { diff, reason } of asks) assert.deepEqual([diff, reason], [described, ""]);
    assert.ok(ended);
    assert.deepEqual(
      (await requestsOf(t, (async () => ({ diff: [{}, 1] })) as unknown as () => Promise<object>)).diff,
      [],
    );
  });

  it("is for a file that write replaces what is in it, at each door", async (t) => {
    const folder = await tempDir(t, { "a.txt": "one\ntwo\n" });
    const provider = new ScriptedProvider([callTools(["write", { path: "a.txt", content: "1\n" }]), "end"]);
    const agent = new Agent({ providers: [provider], tools: builtinTools(), projectDir: folder.path });
    t.after(() => agent.close());
    let ownRequest: AskRequest | undefined;
    let stored: Ask | undefined;
    const run = await agent.run({
      message: "x",
      mode: "ask",
      ask: async (request) => {
        ownRequest = request;
        while (!stored) [stored] = await agent.asks.list({ open: true });
        return "reject";
      },
    });
    await run.result;
    const path = folder.at("a.txt");
    assert.deepEqual(stored?.diff, [{ path, oldText: "one\ntwo\n", newText: "1\n" }]);
    assert.deepEqual(ownRequest?.diff, stored.diff);
    assert.equal(await folder.read("a.txt"), "one\ntwo\n");
  });
});
