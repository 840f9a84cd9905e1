import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Agent } from "gantry";
import { callTools } from "gantry/testing";
import { scriptedAgent, testTool } from "../../helpers/acp-agent.js";
import { HttpPeer, serveHttp, SocketPeer } from "../../helpers/acp-http.js";
import type { Json } from "../../helpers/acp-peer.js";
import { noop } from "../../helpers/noop-tool.js";
import { tempDir } from "../../helpers/temp.js";

/** More calls than a connection buffers for a client that reads nothing. */
const CALLS = 600;
const PARALLEL_CALLS = 120;

/** A run of another client that produces many updates. */
async function runInBackground(agent: Agent, sessionId: string): Promise<void> {
  await (
    await agent.run({ message: "theirs", sessionId })
  ).result;
}

const many = () => [
  ...Array.from({ length: CALLS / PARALLEL_CALLS }, (_, n) =>
    callTools(...Array.from({ length: PARALLEL_CALLS }, (__, at) => ["noop", { n: n * PARALLEL_CALLS + at }] as const)),
  ),
  "done",
];
const results = (updates: Json[]) => updates.filter(({ status }) => status === "completed");
const ended = ({ params }: Json) => params?.update?.sessionUpdate === "usage_update";

describe("updates of other clients' runs for an ACP client without a stream", () => {
  it("wait for the next stream and arrive once, including 600 tool results", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = scriptedAgent(t, many(), { tools: [noop] });
    const { url } = await serveHttp(t, agent);
    const peer = new HttpPeer(url);
    await peer.open();
    const stream = await peer.stream();
    const session = await peer.newSession(cwd);
    await peer.request("session/load", { sessionId: session, cwd });
    await peer.seen(({ params }) => params?.update?.sessionUpdate === "config_option_update");
    stream.close();
    await stream.ended;
    await runInBackground(agent, session);
    await peer.stream(session);
    await peer.seen(ended);
    assert.equal(results(peer.updates(session)).length, CALLS);
    assert.equal(peer.text(session), "done");
    peer.assertClean();
  });

  it("a permission request does not wait for a client without a stream; the tool call is denied", async (t) => {
    const { path: cwd } = await tempDir(t);
    const risky = testTool("risky", () => ({ text: "ran" }), { needsPermission: true });
    const call = callTools(["risky", {}]);
    const { agent } = scriptedAgent(t, [call, "one", call, "two"], { tools: [risky] });
    const { url } = await serveHttp(t, agent, { requestPermission: true });
    const peer = new HttpPeer(url);
    await peer.open();
    peer.onRequest = () => ({ outcome: { outcome: "selected", optionId: "allow_once" } });
    const stream = await peer.stream();
    const session = await peer.newSession(cwd);
    await peer.request("session/load", { sessionId: session, cwd });
    await peer.seen(({ params }) => params?.update?.sessionUpdate === "config_option_update");
    await agent.sessions.update(session, { mode: "ask" });
    await runInBackground(agent, session);
    await peer.seen(ended);
    assert.deepEqual(
      results(peer.updates(session)).map(({ rawOutput }) => rawOutput),
      ["ran"],
    );
    stream.close();
    await stream.ended;
    await runInBackground(agent, session);
    const last = (await agent.sessions.messages(session)).filter(({ role }) => role === "tool").at(-1);
    assert.match(JSON.stringify(last?.parts), /no client could answer/);
  });

  it("a permission request in a session that no client shows waits for a client with a stream to load the session", async (t) => {
    const { path: cwd } = await tempDir(t);
    const risky = testTool("risky", () => ({ text: "ran" }), { needsPermission: true });
    const call = callTools(["risky", {}]);
    const { agent } = scriptedAgent(t, [call, "one", call, "two", call, "three"], { tools: [risky] });
    const { url } = await serveHttp(t, agent, { requestPermission: true });
    const peer = new HttpPeer(url);
    await peer.open();
    peer.onRequest = () => ({ outcome: { outcome: "selected", optionId: "allow_once" } });
    const { id } = await agent.sessions.create({ projectDir: cwd });
    await agent.sessions.update(id, { mode: "ask" });
    const output = async () => {
      const last = (await agent.sessions.messages(id)).filter(({ role }) => role === "tool").at(-1);
      return JSON.stringify(last?.parts);
    };
    // The client has initialized, and then becomes unreachable.
    await runInBackground(agent, id);
    assert.match(await output(), /no client could answer/);
    const stream = await peer.stream();
    const askOpened = new Promise<void>((resolve) => agent.on("ask.opened", () => resolve()));
    const run = await agent.run({ message: "theirs", sessionId: id });
    await askOpened;
    await peer.request("session/load", { sessionId: id, cwd });
    await run.result;
    assert.match(await output(), /ran/);
    await peer.request("session/close", { sessionId: id });
    stream.close();
    await stream.ended;
    await runInBackground(agent, id);
    assert.match(await output(), /no client could answer/);
    peer.assertClean();
  });

  it("wait for an SSE stream if the client's WebSocket receives no updates (websocketUpdates: false)", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = scriptedAgent(t, ["one", "two"]);
    const { url } = await serveHttp(t, agent, { websocketUpdates: false });
    const socket = new SocketPeer(url);
    await socket.opened();
    await socket.initialize();
    const session = await socket.newSession(cwd);
    await socket.request("session/load", { sessionId: session, cwd });
    await runInBackground(agent, session);
    const stream = new HttpPeer(url);
    stream.id = socket.id;
    await stream.stream(session);
    await stream.seen(ended);
    assert.equal(stream.text(session), "one");
    assert.equal(stream.text(session, "user_message_chunk"), "theirs");
    assert.deepEqual(socket.updates(), []);
  });
});
