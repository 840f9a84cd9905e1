import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, defineTool, type Message } from "gantry";
import type { CompactionStrategy, SessionDriver, ToolDisplay } from "gantry/plugin";
import { callTools, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { startApi } from "../../../helpers/http-api.js";
import { STORES } from "../../../helpers/stores.js";
import { tempDir } from "../../../helpers/temp-dir.js";

const EXPECTED_DISPLAY: ToolDisplay = {
  diff: [
    { path: "/p/a.ts", oldText: "one SECRET-OLD\n", newText: "two\n" },
    { path: "/p/b.ts", oldText: null, newText: "new" },
  ],
  locations: [{ path: "/p/a.ts", line: 1 }, { path: "/p/b.ts" }],
};

/** A tool whose results have the display data that `getDisplay` returns. */
function createToolWithDisplay(getDisplay: () => unknown) {
  return defineTool({
    name: "change",
    description: "Changes.",
    run: () => ({ text: "changed", ...(getDisplay() as object) }),
  });
}

async function runOnce(agent: Agent, message: string, sessionId?: string) {
  const run = await agent.run({ message, ...(sessionId && { sessionId }) });
  const displays: unknown[] = [];
  for await (const event of run)
    if (event.type === "tool_result") displays.push({ diff: event.diff, locations: event.locations });
  await run.result;
  const messages = await agent.sessions.messages(run.sessionId);
  return {
    sessionId: run.sessionId,
    displays,
    messages,
    lastResult: messages.findLast(({ role }) => role === "tool") as Message,
  };
}

/** Keeps everything except the long first message. */
const removeFirstMessage: CompactionStrategy["compact"] = ({ messages }) => Promise.resolve(messages.slice(1));

const CALL_STEP = callTools(["change", {}]);

for (const [name, makeStore] of STORES)
  describe(`the display data of a tool result (${name})`, () => {
    it("is stored with the result, copied to a fork, sent to watchers, and never sent to the model", async (t) => {
      const openDriver = await makeStore(t);
      const provider = new ScriptedProvider([CALL_STEP, "done", "more"]);
      const projectDir = (await tempDir(t)).path;
      const createAgent = (compaction = {}) =>
        new Agent({
          providers: [provider],
          driver: openDriver(),
          tools: [createToolWithDisplay(() => EXPECTED_DISPLAY)],
          projectDir,
          compaction,
        });
      const agents = [
        createAgent(),
        createAgent(),
        createAgent({ strategy: { name: "last", compact: removeFirstMessage }, threshold: 0.02 }),
      ] as const;
      t.after(() => Promise.all(agents.map((agent) => agent.close())));
      const { sessionId, displays, lastResult, messages } = await runOnce(agents[0], `go${" on".repeat(5000)}`);
      assert.deepEqual(displays, [EXPECTED_DISPLAY]);
      assert.deepEqual(lastResult.shown, EXPECTED_DISPLAY);
      assert.equal(messages.filter((message) => "shown" in message).length, 1);

      // Another process continues, with the stored session.
      await runOnce(agents[1], "and on", sessionId);
      assert.doesNotMatch(JSON.stringify(provider.requests), /SECRET-OLD/);
      const fork = await agents[1].sessions.fork(sessionId, messages.at(-1)!.id);
      assert.deepEqual(
        (await agents[1].sessions.messages(fork.id)).find(({ role }) => role === "tool")?.shown,
        EXPECTED_DISPLAY,
      );
      const watchedDisplays: unknown[] = [];
      for await (const event of agents[1].sessions.watch(sessionId, { follow: false }))
        if (event.type === "message" && event.message.shown) watchedDisplays.push(event.message.shown);
      assert.deepEqual(watchedDisplays, [EXPECTED_DISPLAY]);

      // The view of a follow-up is for the model only. The original messages stay unchanged.
      await runOnce(agents[2], "compacted", sessionId);
      const chain = await dumpChain(openDriver, sessionId);
      assert.ok(chain.sessions.length > 1);
      assert.doesNotMatch(JSON.stringify(chain.sessions.map(({ view }) => view)), /SECRET-OLD/);
      const storedMessages = await agents[1].sessions.messages(sessionId);
      assert.deepEqual(storedMessages.find(({ role }) => role === "tool")?.shown, EXPECTED_DISPLAY);
    });
  });

async function dumpChain(openDriver: () => SessionDriver, id: string) {
  const driver = openDriver();
  await driver.open();
  const chain = await driver.dump(id);
  await driver.close();
  return chain!;
}

describe("the display data of a tool result", () => {
  it("is stored only if it is valid and fits into toolOutputBytes", async (t) => {
    let display: unknown;
    const steps: ScriptedStep[] = [];
    const provider = new ScriptedProvider(steps);
    const projectDir = (await tempDir(t)).path;
    const agent = new Agent({
      providers: [provider],
      tools: [createToolWithDisplay(() => display)],
      projectDir,
      toolOutputBytes: 1000,
    });
    t.after(() => agent.close());
    const circularDiff: Record<string, unknown> = { path: "/a", newText: "x", oldText: null };
    circularDiff["self"] = circularDiff;
    const diff = { path: "/a", oldText: "x", newText: "é".repeat(498) };
    const locations = [{ path: "/a" }];
    for (const [toolDisplay, expected] of [
      [
        { diff: [diff], locations },
        { diff: [diff], locations },
      ],
      [
        { diff: [{ ...diff, oldText: "more" }], locations },
        { diff: [], locations },
      ],
      [{ diff: [{ ...diff, oldText: "more" }] }, undefined],
      [{ locations: Array.from({ length: 200 }, () => ({ path: "/abc", line: 1 })) }, undefined],
      [{ diff: [], locations: [] }, undefined],
      [{}, undefined],
      [{ diff: [circularDiff] }, { diff: [{ path: "/a", oldText: null, newText: "x" }], locations: [] }],
      [{ diff: ["x", { path: 1 }, { path: "/a", newText: "x" }, null], locations: [{ line: 1 }, 5] }, undefined],
      [
        {
          locations: [
            { path: "/a", line: 1.5 },
            { path: "/a", line: 10n },
            { path: "/a", line: 0 },
          ],
        },
        { diff: [], locations: [{ path: "/a" }, { path: "/a" }, { path: "/a", line: 0 }] },
      ],
    ] as const) {
      display = toolDisplay;
      provider.push(CALL_STEP, "done");
      const { lastResult } = await runOnce(agent, "go");
      assert.deepEqual(lastResult.shown, expected);
      assert.equal("shown" in lastResult, expected !== undefined);
    }
  });

  it("adds only diff and locations to the messages that the HTTP API returns", async (t) => {
    const responseTexts: string[] = [];
    for (const display of [EXPECTED_DISPLAY, {}]) {
      const api = await startApi(t, {
        steps: [CALL_STEP, "done"],
        agent: { tools: [createToolWithDisplay(() => display)] },
      });
      const { headers } = await api.postRun({ message: "go" });
      const { text } = await api.send(`/api/sessions/${String(headers["x-session-id"])}/messages`);
      responseTexts.push(text.replace(/"(id|session_id|created_at|tool_call_id)":"[^"]*"/g, '"$1":""'));
    }
    const [withDisplay, withoutDisplay] = responseTexts as [string, string];
    assert.match(withoutDisplay, /"changed"/);
    assert.doesNotMatch(withoutDisplay, /"(diff|locations)"/, "a tool without display data adds no fields");
    assert.match(withDisplay, /"diff":\[\{"path":/);
    assert.equal(withDisplay.replace(/,"diff":\[.*?\],"locations":\[.*?\]/, ""), withoutDisplay);
  });
});
