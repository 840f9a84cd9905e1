import assert from "node:assert/strict";
import { it } from "node:test";
import { builtinTools } from "gantry";
import { callTools } from "gantry/testing";
import { InProcessAcp, createScriptedAgent, createTestTool } from "../../helpers/acp-agent.js";
import { tempDir } from "../../helpers/temp-dir.js";

it("session/update shows a subagent's tool call in the parent's task call; session/list omits the subagent", async (t) => {
  const { path: cwd } = await tempDir(t);
  let finishTool: () => void = () => undefined;
  const toolFinished = new Promise<void>((resolve) => (finishTool = resolve));
  const slowTool = createTestTool("slow", () => toolFinished.then(() => ({ text: "done" })));
  const taskTools = builtinTools().filter(({ name }) => name === "task");
  const steps = [
    callTools(["task", { description: "Do it", prompt: "Do it slowly." }, "t1"]),
    callTools(["slow", {}, "s1"]),
    "helped",
    "done",
  ];
  const { agent } = createScriptedAgent(t, steps, { tools: [slowTool, ...taskTools] });
  const peer = new InProcessAcp(t, agent, {}).connect();
  await peer.initialize({ clientInfo: { name: "zed", version: "1" } });
  const session = await peer.newSession(cwd);
  const result = peer.prompt(session, "x");
  await peer.waitForMessage(({ params }) => params?.update?.content?.[0]?.content?.text?.includes("slow") === true);
  finishTool();
  await result;
  const callIds = peer.getUpdates(session).flatMap(({ toolCallId }) => (toolCallId === undefined ? [] : [toolCallId]));
  assert.deepEqual([...new Set(callIds)].length, 1, "the subagent's calls are not sent as tool calls");
  const listResult = await peer.request("session/list", {});
  assert.equal(listResult.sessions.length, 1);
});
