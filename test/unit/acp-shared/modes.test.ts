import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, MemoryDriver, silentLogger } from "gantry";
import { MemoryDocuments } from "gantry/plugin";
import { callTools, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { MemoryAcp, testTool } from "../../helpers/acp-agent.js";
import type { AcpPeer, Json } from "../../helpers/acp-peer.js";
import { tempDir, type Hooks } from "../../helpers/temp.js";

const EDITOR = { clientInfo: { name: "zed", version: "1" } };
const IDS = ["auto", "ask", "plan"];

function processOn(t: Hooks, store: MemoryDocuments, steps: readonly ScriptedStep[] = []) {
  const ran: unknown[] = [];
  const risky = testTool("risky", (args) => (ran.push(args), { text: "ran" }), {
    needsPermission: true,
    kind: "execute",
  });
  const agent = new Agent({
    providers: [new ScriptedProvider(steps)],
    driver: new MemoryDriver(store),
    tools: [risky],
    logger: silentLogger,
  });
  t.after(() => agent.close());
  return { agent, ran };
}

async function connectPeer(t: Hooks, agent: Agent, params: Json = EDITOR): Promise<AcpPeer> {
  const peer = new MemoryAcp(t, agent).connect();
  await peer.initialize(params);
  if (params === EDITOR) peer.profile = "official";
  return peer;
}

/** All mode changes that a client has received since `from`, in any form. */
function receivedModes(peer: AcpPeer, from = 0): string[] {
  return peer.received.slice(from).flatMap(({ params }) => {
    const { sessionUpdate, currentModeId, configOptions } = params?.update ?? {};
    if (sessionUpdate === "current_mode_update") return [currentModeId as string];
    const option = configOptions?.find(({ category }: Json) => category === "mode");
    return sessionUpdate === "config_option_update" && option ? [`option ${option.currentValue}`] : [];
  });
}

describe("session modes over ACP", () => {
  it("are returned with the session, set by ACP clients, and sent again when any client changes them", async (t) => {
    const { path: cwd } = await tempDir(t);
    const store = new MemoryDocuments();
    const { agent } = processOn(t, store);
    const peer = await connectPeer(t, agent);
    const { sessionId, modes, configOptions } = await peer.request("session/new", { cwd, mcpServers: [] });
    assert.equal(modes.currentModeId, "auto");
    assert.deepEqual(
      modes.availableModes.map(({ id }: Json) => id),
      IDS,
    );
    const option = configOptions.find(({ id }: Json) => id === "mode");
    assert.deepEqual([option.category, option.currentValue], ["mode", "auto"]);
    assert.deepEqual(await peer.request("session/set_mode", { sessionId, modeId: "plan" }), {});
    assert.equal((await agent.sessions.get(sessionId))?.mode, "plan");
    await peer.seen(() => receivedModes(peer).length > 0);
    assert.deepEqual(receivedModes(peer), ["option plan"], "whoever set it knows the mode");
    // Another client, in another process.
    const otherAgent = processOn(t, store).agent;
    const secondPeer = await connectPeer(t, otherAgent);
    const loadResult = await secondPeer.request("session/load", { sessionId, cwd });
    assert.equal(loadResult.modes.currentModeId, "plan");
    await secondPeer.seen(({ params }) => params?.update?.sessionUpdate === "config_option_update");
    const mark = secondPeer.received.length;
    const set = { sessionId, configId: "mode", value: "ask" };
    const answer = await secondPeer.request("session/set_config_option", set);
    assert.equal(answer.configOptions.find(({ id }: Json) => id === "mode").currentValue, "ask");
    assert.deepEqual(receivedModes(secondPeer, mark), ["ask"]);
    await peer.seen(() => receivedModes(peer).includes("option ask"));
    assert.deepEqual(receivedModes(peer), ["option plan", "ask", "option ask"]);
    // A change by another transport is sent to both clients.
    await otherAgent.sessions.update(sessionId, { mode: "auto" });
    for (const client of [peer, secondPeer]) await client.seen(() => receivedModes(client).at(-1) === "option auto");
    assert.deepEqual(receivedModes(peer), ["option plan", "ask", "option ask", "auto", "option auto"]);
    for (const client of [peer, secondPeer]) client.assertClean();
  });

  it("are rejected with -32602 unless the mode and the session exist", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = processOn(t, new MemoryDocuments());
    const peer = await connectPeer(t, agent);
    const sessionId = await peer.newSession(cwd);
    for (const modeId of ["Plan", "", 1, null, undefined, "yolo", "__proto__"]) {
      const { error } = await peer.call("session/set_mode", { sessionId, modeId });
      assert.deepEqual([error?.code, error?.data?.field], [-32602, "modeId"], JSON.stringify(modeId));
    }
    const { error } = await peer.call("session/set_config_option", { sessionId, configId: "mode", value: "yolo" });
    assert.deepEqual([error?.code, error?.data?.field], [-32602, "value"]);
    const unknownSessionAnswer = await peer.call("session/set_mode", { sessionId: "nobody", modeId: "ask" });
    assert.deepEqual(
      [unknownSessionAnswer.error?.code, unknownSessionAnswer.error?.data?.sessionId],
      [-32602, "nobody"],
    );
    assert.equal((await agent.sessions.get(sessionId))?.mode, "auto");
    peer.assertClean();
  });

  it("are hidden from a client of the interface document, which can still set them", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = processOn(t, new MemoryDocuments());
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
    assert.deepEqual(receivedModes(peer), []);
    peer.assertClean();
  });

  it("apply to the next prompt and to later calls of a running prompt", async (t) => {
    const { path: cwd } = await tempDir(t);
    const call = callTools(["risky", {}]);
    const { agent, ran } = processOn(t, new MemoryDocuments(), [call, "a", call, "b", call, call, call, "c"]);
    const peer = await connectPeer(t, agent);
    const requests: Json[] = [];
    const sessionId = await peer.newSession(cwd);
    const answers = ["reject_once", "allow_once"];
    peer.onRequest = (_method, params) => {
      requests.push(params);
      return { outcome: { outcome: "selected", optionId: answers.shift() } };
    };
    await peer.prompt(sessionId, "in auto");
    assert.deepEqual([requests.length, ran.length], [0, 1]);
    await peer.request("session/set_mode", { sessionId, modeId: "ask" });
    await peer.prompt(sessionId, "in ask");
    assert.deepEqual([requests.length, ran.length], [1, 1]);
    // The user switches the mode while a request is open: the next calls run without one.
    const { onRequest } = peer;
    peer.onRequest = async (method, params) => {
      await peer.request("session/set_mode", { sessionId, modeId: "auto" });
      return onRequest(method, params);
    };
    await peer.prompt(sessionId, "and then in auto");
    assert.deepEqual([requests.length, ran.length], [2, 4]);
    await peer.request("session/set_mode", { sessionId, modeId: "plan" });
    peer.assertClean();
  });
});
