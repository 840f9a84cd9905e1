import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { it } from "node:test";
import { HttpPeer, SocketPeer } from "../../helpers/acp-http.js";
import type { AcpPeer, Json } from "../../helpers/acp-peer.js";
import { spawnAcpServer } from "../../helpers/acp-process.js";
import { callStep, textStep, startFakeModelServer } from "../../helpers/fake-model-server.js";
import { startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

const EDITOR_PARAMS = { clientInfo: { name: "zed", version: "1" } };
const isUsageUpdate = ({ params }: Json) => params?.update?.sessionUpdate === "usage_update";
const isPermissionRequest = ({ method }: Json) => method === "session/request_permission";
const hasStatus = (status: string) => (message: Json) =>
  message.params?.update?.sessionUpdate === "tool_call_update" && message.params.update.status === status;

/** Loads a session. Returns the updates of the replay without the session id. */
async function loadUpdates(peer: AcpPeer, sessionId: string, cwd: string): Promise<Json[]> {
  const startIndex = peer.receivedMessages.length;
  const response = await peer.call("session/load", { sessionId, cwd, mcpServers: [] });
  return peer.receivedMessages
    .slice(startIndex, peer.receivedMessages.indexOf(response))
    .map(({ params }) => params.update);
}

it("clients of two processes on one store share permission requests, cancels and replays, and survive a SIGKILL of one process", async (t) => {
  const model = await startFakeModelServer({ toolFreeAnswer: textStep("A title") });
  t.after(() => model.close());
  const [{ path: home }, { path: projectDir }] = [await tempDir(t), await tempDir(t)];
  const models = [{ id: "m1", name: "M 1", context_window: 8000, max_output: 4000 }];
  const config = {
    providers: [{ name: "lab", driver: "openai", base_url: model.baseUrl, api_key: "x", models }],
    acp: { request_permission: true },
    tools: { bash: { sandbox: "off" } },
  };
  const serverOptions = { home, projectDir, profile: "official" as const };
  const { gantry, peer: stdioPeer } = await spawnAcpServer(t, { ...serverOptions, config });
  const server = await startServer(t, { home, projectDir, args: ["serve", "--acp", "--port", "0"] });
  const { url } = server.addresses[0]!;
  const httpPeer = new HttpPeer(url, "official");
  await httpPeer.open(EDITOR_PARAMS);
  await httpPeer.openStream();
  const socketPeer = new SocketPeer(url, { profile: "official" });
  await socketPeer.waitUntilOpen();
  await Promise.all([stdioPeer.initialize(EDITOR_PARAMS), socketPeer.initialize(EDITOR_PARAMS)]);
  const otherPeers = [httpPeer, socketPeer];
  const peers = [stdioPeer, ...otherPeers];
  const sessionId = await stdioPeer.newSession(projectDir);
  for (const peer of otherPeers) await loadUpdates(peer, sessionId, projectDir);
  // The clients do not answer permission requests until the test sets a handler.
  for (const peer of peers) peer.onRequest = () => undefined;

  // The HTTP client allows the call.
  httpPeer.onRequest = () => ({ outcome: { outcome: "selected", optionId: "allow_once" } });
  model.enqueue(callStep("write", { path: "a.txt", content: "written\n" }), textStep("Done."));
  const firstPromptResult = stdioPeer.prompt(sessionId, "write it");
  assert.deepEqual(await firstPromptResult, { stopReason: "end_turn" });
  for (const peer of otherPeers) await peer.waitForMessage(isUsageUpdate);
  for (const peer of peers) {
    const { params } = peer.receivedMessages.find(isPermissionRequest);
    assert.deepEqual(params.toolCall.content, [
      { type: "diff", path: `${projectDir}/a.txt`, oldText: null, newText: "written\n" },
    ]);
    assert.equal(peer.getText(sessionId), "Done.");
  }
  for (const peer of [stdioPeer, socketPeer]) await peer.waitForMessage(({ method }) => method === "$/cancel_request");
  assert.ok(existsSync(`${projectDir}/a.txt`));

  // The WebSocket client allows the call, and the HTTP client cancels the run.
  httpPeer.onRequest = () => undefined;
  socketPeer.onRequest = () => ({ outcome: { outcome: "selected", optionId: "allow_once" } });
  model.enqueue(callStep("bash", { command: "echo printed; sleep 1000", timeout: 600 }));
  const secondPromptResult = stdioPeer.prompt(sessionId, "sleep");
  const hasPrintedOutput = ({ params }: Json) =>
    params?.update?.status === "in_progress" && params.update.content?.[0]?.content.text.includes("printed");
  await stdioPeer.waitForMessage(hasPrintedOutput);
  await httpPeer.waitForMessage(hasStatus("in_progress"));
  const usageCounts = otherPeers.map((peer) => peer.receivedMessages.filter(isUsageUpdate).length);
  httpPeer.notify("session/cancel", { sessionId });
  assert.deepEqual(await secondPromptResult, { stopReason: "cancelled" });
  for (const [i, peer] of otherPeers.entries())
    await peer.waitForMessage(() => peer.receivedMessages.filter(isUsageUpdate).length > usageCounts[i]!);
  const replays = await Promise.all(peers.map((peer) => loadUpdates(peer, sessionId, projectDir)));
  assert.deepEqual(replays[1], replays[0]);
  assert.deepEqual(replays[2], replays[0]);
  assert.ok(replays[0]!.every(({ status }) => status !== "in_progress"));

  // The process of the run is killed. Its command survives as long as the folder exists.
  model.enqueue(callStep("bash", { command: `while [ -d '${projectDir}' ]; do sleep 0.2; done`, timeout: 600 }));
  const messageCounts = otherPeers.map((peer) => peer.receivedMessages.length);
  stdioPeer.prompt(sessionId, "sleep again").catch(() => undefined);
  await httpPeer.waitForMessage(
    (message) => httpPeer.receivedMessages.indexOf(message) > messageCounts[0]! && hasStatus("in_progress")(message),
  );
  gantry.child.kill("SIGKILL");
  for (const [i, peer] of otherPeers.entries())
    await peer.waitForMessage(
      (message) => peer.receivedMessages.indexOf(message) > messageCounts[i]! && hasStatus("failed")(message),
    );
  // The other clients continue the session.
  model.enqueue(textStep("Here."));
  assert.deepEqual(await httpPeer.prompt(sessionId, "anybody?"), { stopReason: "end_turn" });
  await socketPeer.waitForMessage(({ params }) => params?.update?.content?.text === "Here.");
  const promptUpdates = socketPeer.getUpdates().filter(({ content }) => content?.text === "anybody?");
  assert.equal(promptUpdates.length, 1);
  for (const peer of otherPeers) peer.assertNoValidationErrors();
  assert.deepEqual(model.violations, []);
});
