import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, MemoryDriver, silentLogger } from "gantry";
import { MemoryDocuments } from "gantry/plugin";
import { callTools, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { InProcessAcp, createTestTool } from "../../helpers/acp-agent.js";
import type { AcpPeer, Json } from "../../helpers/acp-peer.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

const EDITOR = { clientInfo: { name: "zed", version: "1" } };
const MODE_IDS = ["auto", "ask", "plan"];

function createAgent(t: Hooks, store: MemoryDocuments, steps: readonly ScriptedStep[] = []) {
  const executedCalls: unknown[] = [];
  const riskyTool = createTestTool("risky", (args) => (executedCalls.push(args), { text: "ran" }), {
    needsPermission: true,
    kind: "execute",
  });
  const agent = new Agent({
    providers: [new ScriptedProvider(steps)],
    driver: new MemoryDriver(store),
    tools: [riskyTool],
    logger: silentLogger,
  });
  t.after(() => agent.close());
  return { agent, executedCalls };
}

async function connectPeer(t: Hooks, agent: Agent, params: Json = EDITOR): Promise<AcpPeer> {
  const peer = new InProcessAcp(t, agent).connect();
  await peer.initialize(params);
  if (params === EDITOR) peer.profile = "official";
  return peer;
}

/**
 * Returns the modes that a client received from message index `start` on. A mode of a `config_option_update` has the
 * prefix `option`.
 */
function getReceivedModes(peer: AcpPeer, start = 0): string[] {
  return peer.receivedMessages.slice(start).flatMap(({ params }) => {
    const { sessionUpdate, currentModeId, configOptions } = params?.update ?? {};
    if (sessionUpdate === "current_mode_update") return [currentModeId as string];
    const option = configOptions?.find(({ category }: Json) => category === "mode");
    return sessionUpdate === "config_option_update" && option ? [`option ${option.currentValue}`] : [];
  });
}

describe("session modes over ACP", () => {
  it("are returned with the session, set by ACP clients, and sent when any client changes them", async (t) => {
    const { path: cwd } = await tempDir(t);
    const store = new MemoryDocuments();
    const { agent } = createAgent(t, store);
    const peer = await connectPeer(t, agent);
    const { sessionId, modes, configOptions } = await peer.request("session/new", { cwd, mcpServers: [] });
    assert.equal(modes.currentModeId, "auto");
    assert.deepEqual(
      modes.availableModes.map(({ id }: Json) => id),
      MODE_IDS,
    );
    const option = configOptions.find(({ id }: Json) => id === "mode");
    assert.deepEqual([option.category, option.currentValue], ["mode", "auto"]);
    assert.deepEqual(await peer.request("session/set_mode", { sessionId, modeId: "plan" }), {});
    assert.equal((await agent.sessions.get(sessionId))?.mode, "plan");
    await peer.waitForMessage(() => getReceivedModes(peer).length > 0);
    assert.deepEqual(
      getReceivedModes(peer),
      ["option plan"],
      "the client that set the mode receives only the config option",
    );
    // The second client connects to another process.
    const otherAgent = createAgent(t, store).agent;
    const secondPeer = await connectPeer(t, otherAgent);
    const loadResult = await secondPeer.request("session/load", { sessionId, cwd });
    assert.equal(loadResult.modes.currentModeId, "plan");
    await secondPeer.waitForMessage(({ params }) => params?.update?.sessionUpdate === "config_option_update");
    const messageCount = secondPeer.receivedMessages.length;
    const optionChange = { sessionId, configId: "mode", value: "ask" };
    const result = await secondPeer.request("session/set_config_option", optionChange);
    assert.equal(result.configOptions.find(({ id }: Json) => id === "mode").currentValue, "ask");
    assert.deepEqual(getReceivedModes(secondPeer, messageCount), ["ask"]);
    await peer.waitForMessage(() => getReceivedModes(peer).includes("option ask"));
    assert.deepEqual(getReceivedModes(peer), ["option plan", "ask", "option ask"]);
    // A change by another transport is sent to both clients.
    await otherAgent.sessions.update(sessionId, { mode: "auto" });
    for (const client of [peer, secondPeer])
      await client.waitForMessage(() => getReceivedModes(client).at(-1) === "option auto");
    assert.deepEqual(getReceivedModes(peer), ["option plan", "ask", "option ask", "auto", "option auto"]);
    for (const client of [peer, secondPeer]) client.assertNoValidationErrors();
  });

  it("are rejected with -32602 unless the mode and the session exist", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createAgent(t, new MemoryDocuments());
    const peer = await connectPeer(t, agent);
    const sessionId = await peer.newSession(cwd);
    for (const modeId of ["Plan", "", 1, null, undefined, "yolo", "__proto__"]) {
      const { error } = await peer.call("session/set_mode", { sessionId, modeId });
      assert.deepEqual([error?.code, error?.data?.field], [-32602, "modeId"], JSON.stringify(modeId));
    }
    const { error } = await peer.call("session/set_config_option", { sessionId, configId: "mode", value: "yolo" });
    assert.deepEqual([error?.code, error?.data?.field], [-32602, "value"]);
    const unknownSessionResponse = await peer.call("session/set_mode", { sessionId: "nobody", modeId: "ask" });
    assert.deepEqual(
      [unknownSessionResponse.error?.code, unknownSessionResponse.error?.data?.sessionId],
      [-32602, "nobody"],
    );
    assert.equal((await agent.sessions.get(sessionId))?.mode, "auto");
    peer.assertNoValidationErrors();
  });

  it("are hidden from a client of profile spec, which can still set them", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createAgent(t, new MemoryDocuments());
    const peer = await connectPeer(t, agent, {});
    const createdSession = await peer.request("session/new", { cwd });
    assert.deepEqual(Object.keys(createdSession), ["sessionId", "configOptions"]);
    assert.ok(!createdSession.configOptions.some(({ id }: Json) => id === "mode"));
    const { sessionId } = createdSession;
    assert.deepEqual(await peer.request("session/set_mode", { sessionId, modeId: "plan" }), {});
    assert.equal((await agent.sessions.get(sessionId))?.mode, "plan");
    assert.equal(await peer.request("session/load", { sessionId, cwd }), null);
    await agent.sessions.update(sessionId, { mode: "auto" });
    await peer.request("session/list", {});
    assert.deepEqual(getReceivedModes(peer), []);
    peer.assertNoValidationErrors();
  });

  it("apply to the next prompt and to later calls of a running prompt", async (t) => {
    const { path: cwd } = await tempDir(t);
    const call = callTools(["risky", {}]);
    const { agent, executedCalls } = createAgent(t, new MemoryDocuments(), [
      call,
      "a",
      call,
      "b",
      call,
      call,
      call,
      "c",
    ]);
    const peer = await connectPeer(t, agent);
    const requests: Json[] = [];
    const sessionId = await peer.newSession(cwd);
    const selectedOptionIds = ["reject_once", "allow_once"];
    peer.onRequest = (_method, params) => {
      requests.push(params);
      return { outcome: { outcome: "selected", optionId: selectedOptionIds.shift() } };
    };
    await peer.prompt(sessionId, "in auto");
    assert.deepEqual([requests.length, executedCalls.length], [0, 1]);
    await peer.request("session/set_mode", { sessionId, modeId: "ask" });
    await peer.prompt(sessionId, "in ask");
    assert.deepEqual([requests.length, executedCalls.length], [1, 1]);
    // The user changes the mode while a request is open. The next calls run without a request.
    const { onRequest } = peer;
    peer.onRequest = async (method, params) => {
      await peer.request("session/set_mode", { sessionId, modeId: "auto" });
      return onRequest(method, params);
    };
    await peer.prompt(sessionId, "and then in auto");
    assert.deepEqual([requests.length, executedCalls.length], [2, 4]);
    await peer.request("session/set_mode", { sessionId, modeId: "plan" });
    peer.assertNoValidationErrors();
  });
});
