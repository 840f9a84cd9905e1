import assert from "node:assert/strict";
import { it } from "node:test";
import { MemoryDriver } from "gantry";
import { callTools } from "gantry/testing";
import { startAcpHttp, SocketPeer } from "../../helpers/acp-http.js";
import { CheckedPage } from "../../helpers/http-watcher.js";
import { readSessionEvents } from "../../helpers/event-page.js";
import { createGate, createWaitTool } from "../../helpers/gate.js";
import { parseSseEvents } from "../../helpers/raw-http.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { withOutages } from "../../helpers/outages.mjs";
import { tempDir } from "../../helpers/temp-dir.js";
import { startApi } from "../../helpers/http-api.js";

const UNAVAILABLE_MESSAGE = "session store unavailable";

it("a store outage fails the run, and a watcher resumes when the store is back", async (t) => {
  let isStoreDown = false;
  let rejectedCallCount = 0;
  const countCallAndGetFault = () => {
    if (isStoreDown) rejectedCallCount += 1;
    return isStoreDown ? "fail" : "";
  };
  const toolGate = createGate();
  const api = await startApi(t, {
    steps: [callTools(["wait", {}]), "Here again."],
    agent: { driver: withOutages(new MemoryDriver(), countCallAndGetFault), tools: [createWaitTool(toolGate)] },
  });
  const { id } = await api.agent.sessions.create();
  const watchController = new AbortController();
  t.after(() => watchController.abort());
  const page = new CheckedPage();
  let hasEnded = false;
  const watchPromise = (async () => {
    for await (const event of readSessionEvents(`${api.url}/api/sessions/${id}/events`, {}, watchController.signal))
      page.apply(event);
    hasEnded = true;
  })();
  watchPromise.catch(() => undefined);
  await waitUntil(() => page.events > 0);

  const streamedResponse = api.postRun({ message: "hi", session_id: id, stream: true });
  await toolGate.firstWait;
  isStoreDown = true;
  toolGate.open();
  assert.deepEqual(parseSseEvents((await streamedResponse).text).at(-1), {
    event: "error",
    data: { error: UNAVAILABLE_MESSAGE, code: "store_unavailable" },
  });
  const plainResponse = await api.postRun({ message: "hi", session_id: id });
  assert.deepEqual(
    [plainResponse.status, plainResponse.json()],
    [503, { error: UNAVAILABLE_MESSAGE, code: "store_unavailable" }],
  );
  // The watcher polls the store without a notification.
  const previousCallCount = rejectedCallCount;
  await waitUntil(() => rejectedCallCount > previousCallCount + 4);
  assert.equal(hasEnded, false);
  assert.deepEqual((await api.send(`/api/sessions/${id}/events`)).status, 503, "a new watcher is rejected at once");

  isStoreDown = false;
  const laterResponse = await api.postRun({ message: "again", session_id: id });
  assert.deepEqual([laterResponse.status, (laterResponse.json() as { output: string }).output], [200, "Here again."]);
  const storedMessages = (await api.send(`/api/sessions/${id}/messages`)).json() as { messages: object[] };
  await waitUntil(() => page.messages.length === storedMessages.messages.length && page.state.run.state === "finished");
  assert.deepEqual(page.messages, storedMessages.messages);
  assert.deepEqual(page.faults, []);
  assert.equal(hasEnded, false);
  assert.ok(
    !api.logLines.some((line) => line.startsWith("error") && line.includes("promise")),
    api.logLines.join("\n"),
  );
});

it("an ACP request during a store outage fails with -32603 without details, and later prompts succeed", async (t) => {
  let isStoreDown = false;
  const project = await tempDir(t);
  const api = await startApi(t, {
    steps: ["One.", "Two."],
    agent: { driver: withOutages(new MemoryDriver(), () => (isStoreDown ? "fail" : "")), projectDir: project.path },
  });
  const { url } = await startAcpHttp(t, api.agent);
  const peer = new SocketPeer(`${url}/acp`);
  await peer.waitUntilOpen();
  await peer.initialize();
  const session = await peer.newSession(project.path);
  assert.deepEqual(await peer.prompt(session, "hi"), { stopReason: "end_turn" });
  isStoreDown = true;
  const failures = await Promise.all(
    [
      peer.request("session/list", {}),
      peer.request("session/new", { cwd: project.path, mcpServers: [] }),
      peer.request("session/load", { sessionId: session, cwd: project.path, mcpServers: [] }),
      peer.prompt(session, "hi"),
    ].map((request) =>
      request.then(
        () => "answered",
        (error: Error) => error,
      ),
    ),
  );
  for (const failure of failures) assert.match(String(failure), /-32603.*session store unavailable/);
  assert.doesNotMatch(JSON.stringify(peer.receivedMessages), /ECONNREFUSED|postgres|secret/);
  isStoreDown = false;
  assert.deepEqual(await peer.prompt(session, "again"), { stopReason: "end_turn" });
  peer.assertNoValidationErrors();
});
