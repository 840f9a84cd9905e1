import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Agent } from "gantry";
import { callTools } from "gantry/testing";
import { createScriptedAgent, createTestTool } from "../../helpers/acp-agent.js";
import { HttpPeer, startAcpHttp, SocketPeer } from "../../helpers/acp-http.js";
import type { Json } from "../../helpers/acp-peer.js";
import { noopTool } from "../../helpers/noop-tool.js";
import { tempDir } from "../../helpers/temp-dir.js";

/** Number of tool calls. Exceeds the number of calls that a connection buffers for a client that does not read. */
const CALL_COUNT = 600;
const PARALLEL_CALL_COUNT = 120;

/** Runs a prompt of another client until its end. */
async function runOtherClientPrompt(agent: Agent, sessionId: string): Promise<void> {
  await (
    await agent.run({ message: "theirs", sessionId })
  ).result;
}

const createManyCallSteps = () => [
  ...Array.from({ length: CALL_COUNT / PARALLEL_CALL_COUNT }, (_, n) =>
    callTools(
      ...Array.from(
        { length: PARALLEL_CALL_COUNT },
        (__, callIndex) => ["noop", { n: n * PARALLEL_CALL_COUNT + callIndex }] as const,
      ),
    ),
  ),
  "done",
];
const getCompletedUpdates = (updates: Json[]) => updates.filter(({ status }) => status === "completed");
const isUsageUpdate = ({ params }: Json) => params?.update?.sessionUpdate === "usage_update";

describe("updates of other clients' runs for an ACP client without a stream", () => {
  it("wait for the next stream and arrive once, including 600 tool results", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t, createManyCallSteps(), { tools: [noopTool] });
    const { url } = await startAcpHttp(t, agent);
    const peer = new HttpPeer(url);
    await peer.open();
    const stream = await peer.openStream();
    const session = await peer.newSession(cwd);
    await peer.request("session/load", { sessionId: session, cwd });
    await peer.waitForMessage(({ params }) => params?.update?.sessionUpdate === "config_option_update");
    stream.close();
    await stream.ended;
    await runOtherClientPrompt(agent, session);
    await peer.openStream(session);
    await peer.waitForMessage(isUsageUpdate);
    assert.equal(getCompletedUpdates(peer.getUpdates(session)).length, CALL_COUNT);
    assert.equal(peer.getText(session), "done");
    peer.assertNoValidationErrors();
  });

  it("do not include permission requests: the tool call is denied without waiting", async (t) => {
    const { path: cwd } = await tempDir(t);
    const riskyTool = createTestTool("risky", () => ({ text: "ran" }), { needsPermission: true });
    const call = callTools(["risky", {}]);
    const { agent } = createScriptedAgent(t, [call, "one", call, "two"], { tools: [riskyTool] });
    const { url } = await startAcpHttp(t, agent, { requestPermission: true });
    const peer = new HttpPeer(url);
    await peer.open();
    peer.onRequest = () => ({ outcome: { outcome: "selected", optionId: "allow_once" } });
    const stream = await peer.openStream();
    const session = await peer.newSession(cwd);
    await peer.request("session/load", { sessionId: session, cwd });
    await peer.waitForMessage(({ params }) => params?.update?.sessionUpdate === "config_option_update");
    await agent.sessions.update(session, { mode: "ask" });
    await runOtherClientPrompt(agent, session);
    await peer.waitForMessage(isUsageUpdate);
    assert.deepEqual(
      getCompletedUpdates(peer.getUpdates(session)).map(({ rawOutput }) => rawOutput),
      ["ran"],
    );
    stream.close();
    await stream.ended;
    await runOtherClientPrompt(agent, session);
    const lastToolMessage = (await agent.sessions.messages(session)).filter(({ role }) => role === "tool").at(-1);
    assert.match(JSON.stringify(lastToolMessage?.parts), /no client could answer/);
  });

  it("leave a permission request of a session that no client has open waiting only for a client with a stream", async (t) => {
    const { path: cwd } = await tempDir(t);
    const riskyTool = createTestTool("risky", () => ({ text: "ran" }), { needsPermission: true });
    const call = callTools(["risky", {}]);
    const { agent } = createScriptedAgent(t, [call, "one", call, "two", call, "three"], { tools: [riskyTool] });
    const { url } = await startAcpHttp(t, agent, { requestPermission: true });
    const peer = new HttpPeer(url);
    await peer.open();
    peer.onRequest = () => ({ outcome: { outcome: "selected", optionId: "allow_once" } });
    const { id } = await agent.sessions.create({ projectDir: cwd });
    await agent.sessions.update(id, { mode: "ask" });
    const readLastOutput = async () => {
      const lastToolMessage = (await agent.sessions.messages(id)).filter(({ role }) => role === "tool").at(-1);
      return JSON.stringify(lastToolMessage?.parts);
    };
    // The initialized client is unreachable without a stream.
    await runOtherClientPrompt(agent, id);
    assert.match(await readLastOutput(), /no client could answer/);
    const stream = await peer.openStream();
    const askOpened = new Promise<void>((resolve) => agent.on("ask.opened", () => resolve()));
    const run = await agent.run({ message: "theirs", sessionId: id });
    await askOpened;
    await peer.request("session/load", { sessionId: id, cwd });
    await run.result;
    assert.match(await readLastOutput(), /ran/);
    await peer.request("session/close", { sessionId: id });
    stream.close();
    await stream.ended;
    await runOtherClientPrompt(agent, id);
    assert.match(await readLastOutput(), /no client could answer/);
    peer.assertNoValidationErrors();
  });

  it("wait for an SSE stream if the client's WebSocket receives no updates (websocketUpdates: false)", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t, ["one", "two"]);
    const { url } = await startAcpHttp(t, agent, { websocketUpdates: false });
    const socketPeer = new SocketPeer(url);
    await socketPeer.waitUntilOpen();
    await socketPeer.initialize();
    const session = await socketPeer.newSession(cwd);
    await socketPeer.request("session/load", { sessionId: session, cwd });
    await runOtherClientPrompt(agent, session);
    const ssePeer = new HttpPeer(url);
    ssePeer.connectionId = socketPeer.connectionId;
    await ssePeer.openStream(session);
    await ssePeer.waitForMessage(isUsageUpdate);
    assert.equal(ssePeer.getText(session), "one");
    assert.equal(ssePeer.getText(session, "user_message_chunk"), "theirs");
    assert.deepEqual(socketPeer.getUpdates(), []);
  });
});
