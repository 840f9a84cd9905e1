import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { it } from "node:test";
import { HttpPeer, SocketPeer } from "../../helpers/acp-http.js";
import type { AcpPeer, Json } from "../../helpers/acp-peer.js";
import { spawnAcp } from "../../helpers/acp-process.js";
import { call, say, startFakeModelServer } from "../../helpers/fake-model-server.js";
import { startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp.js";

const EDITOR = { clientInfo: { name: "zed", version: "1" } };
const ended = ({ params }: Json) => params?.update?.sessionUpdate === "usage_update";
const isQuestion = ({ method }: Json) => method === "session/request_permission";
const statusOf = (status: string) => (message: Json) =>
  message.params?.update?.sessionUpdate === "tool_call_update" && message.params.update.status === status;

/** The updates of a replay, without the session id. */
async function replay(peer: AcpPeer, sessionId: string, cwd: string): Promise<Json[]> {
  const from = peer.received.length;
  const answer = await peer.call("session/load", { sessionId, cwd, mcpServers: [] });
  return peer.received.slice(from, peer.received.indexOf(answer)).map(({ params }) => params.update);
}

it("clients of two processes on one store share permission requests, cancels and replays, and survive a SIGKILL", async (t) => {
  const model = await startFakeModelServer({ aside: say("A title") });
  t.after(() => model.close());
  const [{ path: home }, { path: projectDir }] = [await tempDir(t), await tempDir(t)];
  const models = [{ id: "m1", name: "M 1", context_window: 8000, max_output: 4000 }];
  const config = {
    providers: [{ name: "lab", driver: "openai", base_url: model.baseUrl, api_key: "x", models }],
    acp: { request_permission: true },
    tools: { bash: { sandbox: "off" } },
  };
  const official = { home, projectDir, profile: "official" as const };
  const { gantry, peer: stdio } = await spawnAcp(t, { ...official, config });
  const server = await startServer(t, { home, projectDir, args: ["serve", "--acp", "--port", "0"] });
  const { url } = server.addresses[0]!;
  const http = new HttpPeer(url, "official");
  await http.open(EDITOR);
  await http.stream();
  const socket = new SocketPeer(url, { profile: "official" });
  await socket.opened();
  await Promise.all([stdio.initialize(EDITOR), socket.initialize(EDITOR)]);
  const otherPeers = [http, socket];
  const all = [stdio, ...otherPeers];
  const sessionId = await stdio.newSession(projectDir);
  for (const peer of otherPeers) await replay(peer, sessionId, projectDir);
  // A client does not answer a permission request, except where the test sets a handler.
  for (const peer of all) peer.onRequest = () => undefined;

  // The HTTP client allows the call.
  http.onRequest = () => ({ outcome: { outcome: "selected", optionId: "allow_once" } });
  model.enqueue(call("write", { path: "a.txt", content: "written\n" }), say("Done."));
  const first = stdio.prompt(sessionId, "write it");
  assert.deepEqual(await first, { stopReason: "end_turn" });
  for (const peer of otherPeers) await peer.seen(ended);
  for (const peer of all) {
    const { params } = peer.received.find(isQuestion);
    assert.deepEqual(params.toolCall.content, [
      { type: "diff", path: `${projectDir}/a.txt`, oldText: null, newText: "written\n" },
    ]);
    assert.equal(peer.text(sessionId), "Done.");
  }
  for (const peer of [stdio, socket]) await peer.seen(({ method }) => method === "$/cancel_request");
  assert.ok(existsSync(`${projectDir}/a.txt`));

  // The WebSocket client allows the call, and the HTTP client cancels the run.
  http.onRequest = () => undefined;
  socket.onRequest = () => ({ outcome: { outcome: "selected", optionId: "allow_once" } });
  model.enqueue(call("bash", { command: "echo printed; sleep 1000", timeout: 600 }));
  const second = stdio.prompt(sessionId, "sleep");
  const isPrinted = ({ params }: Json) =>
    params?.update?.status === "in_progress" && params.update.content?.[0]?.content.text.includes("printed");
  await stdio.seen(isPrinted);
  await http.seen(statusOf("in_progress"));
  const counts = otherPeers.map((peer) => peer.received.filter(ended).length);
  http.notify("session/cancel", { sessionId });
  assert.deepEqual(await second, { stopReason: "cancelled" });
  for (const [i, peer] of otherPeers.entries()) await peer.seen(() => peer.received.filter(ended).length > counts[i]!);
  const replays = await Promise.all(all.map((peer) => replay(peer, sessionId, projectDir)));
  assert.deepEqual(replays[1], replays[0]);
  assert.deepEqual(replays[2], replays[0]);
  assert.ok(replays[0]!.every(({ status }) => status !== "in_progress"));

  // The process of the run dies. Its command survives as long as the folder exists.
  model.enqueue(call("bash", { command: `while [ -d '${projectDir}' ]; do sleep 0.2; done`, timeout: 600 }));
  const marks = otherPeers.map((peer) => peer.received.length);
  stdio.prompt(sessionId, "sleep again").catch(() => undefined);
  await http.seen((message) => http.received.indexOf(message) > marks[0]! && statusOf("in_progress")(message));
  gantry.child.kill("SIGKILL");
  for (const [i, peer] of otherPeers.entries())
    await peer.seen((message) => peer.received.indexOf(message) > marks[i]! && statusOf("failed")(message));
  // The other clients continue the session.
  model.enqueue(say("Here."));
  assert.deepEqual(await http.prompt(sessionId, "anybody?"), { stopReason: "end_turn" });
  await socket.seen(({ params }) => params?.update?.content?.text === "Here.");
  const promptUpdates = socket.updates().filter(({ content }) => content?.text === "anybody?");
  assert.equal(promptUpdates.length, 1);
  for (const peer of otherPeers) peer.assertClean();
  assert.deepEqual(model.violations, []);
});
