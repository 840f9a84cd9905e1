import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, builtinTools, defineTool, type Ask, type AskRequest } from "gantry";
import type { ToolCallPreview } from "gantry/plugin";
import { callTools, ScriptedProvider } from "gantry/testing";
import { tempDir, type Hooks } from "../../../helpers/temp-dir.js";

const DESCRIBED_DIFF = [{ path: "/p/a", oldText: null, newText: "described" }];
const PREVIEW_DIFF = [{ path: "/p/a", oldText: "old", newText: "new" }];

/** The requests that the run's own client and the other clients receive for one call of a tool with this preview. */
async function readAsk(t: Hooks, preview: (signal: AbortSignal) => Promise<ToolCallPreview>) {
  const tool = defineTool({
    name: "act",
    description: "Acts.",
    describe: () => ({ title: "Act", diff: DESCRIBED_DIFF }),
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

describe("the preview of a tool call in a permission request", () => {
  it("has the diff and note of the tool's preview function, or the described diff if that returns no diff", async (t) => {
    assert.deepEqual((await readAsk(t, async () => ({ diff: PREVIEW_DIFF }))).diff, PREVIEW_DIFF);
    const { diff, reason } = await readAsk(t, async () => ({ note: "It is large." }));
    assert.deepEqual([diff, reason], [DESCRIBED_DIFF, "It is large."]);
    assert.deepEqual((await readAsk(t, async () => ({ diff: [] }))).diff, []);
  });

  it("has the described diff if the preview function throws, returns none or times out, and drops invalid entries", async (t) => {
    let wasAborted = false;
    const invalidPreviews: ((signal: AbortSignal) => unknown)[] = [
      () => Promise.reject(new Error("disk on fire")),
      () => {
        throw new Error("at once");
      },
      async () => undefined,
      async () => null,
      async () => ({ diff: undefined, note: 1 }),
      (signal) => new Promise(() => signal.addEventListener("abort", () => (wasAborted = true))),
    ];
    const asks = await Promise.all(
      invalidPreviews.map((preview) => readAsk(t, preview as () => Promise<ToolCallPreview>)),
    );
    for (const { diff, reason } of asks) assert.deepEqual([diff, reason], [DESCRIBED_DIFF, ""]);
    assert.ok(wasAborted);
    assert.deepEqual(
      (await readAsk(t, (async () => ({ diff: [{}, 1] })) as unknown as () => Promise<object>)).diff,
      [],
    );
  });

  it("shows the old and new content of a file for write, to the run's client and in the stored ask", async (t) => {
    const folder = await tempDir(t, { "a.txt": "one\ntwo\n" });
    const provider = new ScriptedProvider([callTools(["write", { path: "a.txt", content: "1\n" }]), "end"]);
    const agent = new Agent({ providers: [provider], tools: builtinTools(), projectDir: folder.path });
    t.after(() => agent.close());
    let ownRequest: AskRequest | undefined;
    let storedAsk: Ask | undefined;
    const run = await agent.run({
      message: "x",
      mode: "ask",
      ask: async (request) => {
        ownRequest = request;
        while (!storedAsk) [storedAsk] = await agent.asks.list({ open: true });
        return "reject";
      },
    });
    await run.result;
    const path = folder.at("a.txt");
    assert.deepEqual(storedAsk?.diff, [{ path, oldText: "one\ntwo\n", newText: "1\n" }]);
    assert.deepEqual(ownRequest?.diff, storedAsk.diff);
    assert.equal(await folder.read("a.txt"), "one\ntwo\n");
  });
});

it("a tool that describes its calls without the required fields runs, and its run ends", async (t) => {
  const tool = defineTool({ name: "act", description: "Acts.", run: () => "done" });
  const incompleteTool = { ...tool, describe: () => ({}) as never };
  const provider = new ScriptedProvider([callTools(["act", {}]), "end"]);
  const agent = new Agent({ providers: [provider], tools: [incompleteTool] });
  t.after(() => agent.close());
  const { result } = await agent.run({ message: "x" });
  assert.equal((await result).output, "end");
  assert.deepEqual(agent.describeCall("act", "{}", "/").locations, []);
});
