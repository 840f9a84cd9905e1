import assert from "node:assert/strict";
import { it } from "node:test";
import { builtinTools } from "gantry";
import { callTools } from "gantry/testing";
import { MemoryAcp, scriptedAgent, testTool } from "../../helpers/acp-agent.js";
import { tempDir } from "../../helpers/temp.js";

it("session/update shows a subagent's tool call at the parent's task call, and session/list omits its session", async (t) => {
  const { path: cwd } = await tempDir(t);
  let end: () => void = () => undefined;
  const ended = new Promise<void>((resolve) => (end = resolve));
  const slow = testTool("slow", () => ended.then(() => ({ text: "done" })));
  const task = builtinTools().filter(({ name }) => name === "task");
  const steps = [
    callTools(["task", { description: "Do it", prompt: "Do it slowly." }, "t1"]),
    callTools(["slow", {}, "s1"]),
    "helped",
    "done",
  ];
  const { agent } = scriptedAgent(t, steps, { tools: [slow, ...task] });
  const peer = new MemoryAcp(t, agent, {}).connect();
  await peer.initialize({ clientInfo: { name: "zed", version: "1" } });
  const session = await peer.newSession(cwd);
  const result = peer.prompt(session, "x");
  await peer.seen(({ params }) => params?.update?.content?.[0]?.content?.text?.includes("slow") === true);
  end();
  await result;
  const calls = peer.updates(session).flatMap(({ toolCallId }) => (toolCallId === undefined ? [] : [toolCallId]));
  assert.deepEqual([...new Set(calls)].length, 1, "its calls are its own");
  const listed = await peer.request("session/list", {});
  assert.equal(listed.sessions.length, 1);
});
