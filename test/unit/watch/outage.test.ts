import assert from "node:assert/strict";
import { it } from "node:test";
import { MemoryDriver } from "gantry";
import { callTools } from "gantry/testing";
import { serveHttp, SocketPeer } from "../../helpers/acp-http.js";
import { CountedPage } from "../../helpers/http-watcher.js";
import { eventsOf } from "../../helpers/event-page.js";
import { gate, waitTool } from "../../helpers/gate.js";
import { sseEvents } from "../../helpers/http.js";
import { until } from "../../helpers/lab.js";
import { withOutages } from "../../helpers/outages.mjs";
import { tempDir } from "../../helpers/temp.js";
import { startApi } from "../../helpers/http-api.js";

const UNAVAILABLE_MESSAGE = "session store unavailable";

it("a store outage fails the run, and a watcher resumes when the store is back", async (t) => {
  let away = false;
  let refused = 0;
  const state = () => {
    if (away) refused += 1;
    return away ? "fail" : "";
  };
  const opened = gate();
  const api = await startApi(t, {
    steps: [callTools(["wait", {}]), "Here again."],
    agent: { driver: withOutages(new MemoryDriver(), state), tools: [waitTool(opened)] },
  });
  const { id } = await api.agent.sessions.create();
  const over = new AbortController();
  t.after(() => over.abort());
  const page = new CountedPage();
  let ended = false;
  const watching = (async () => {
    for await (const event of eventsOf(`${api.url}/api/sessions/${id}/events`, {}, over.signal)) page.apply(event);
    ended = true;
  })();
  watching.catch(() => undefined);
  await until(() => page.events > 0);

  const streamed = api.run({ message: "hi", session_id: id, stream: true });
  await opened.reached;
  away = true;
  opened.open();
  assert.deepEqual(sseEvents((await streamed).text).at(-1), {
    event: "error",
    data: { error: UNAVAILABLE_MESSAGE, code: "store_unavailable" },
  });
  const plain = await api.run({ message: "hi", session_id: id });
  assert.deepEqual([plain.status, plain.json()], [503, { error: UNAVAILABLE_MESSAGE, code: "store_unavailable" }]);
  // The watcher retries without a notification.
  const before = refused;
  await until(() => refused > before + 4);
  assert.equal(ended, false);
  assert.deepEqual((await api.send(`/api/sessions/${id}/events`)).status, 503, "who comes now is told at once");

  away = false;
  const again = await api.run({ message: "again", session_id: id });
  assert.deepEqual([again.status, (again.json() as { output: string }).output], [200, "Here again."]);
  const stored = (await api.send(`/api/sessions/${id}/messages`)).json() as { messages: object[] };
  await until(() => page.messages.length === stored.messages.length && page.state.run.state === "finished");
  assert.deepEqual(page.messages, stored.messages);
  assert.deepEqual(page.faults, []);
  assert.equal(ended, false);
  assert.ok(!api.log.some((line) => line.startsWith("error") && line.includes("promise")), api.log.join("\n"));
});

it("over ACP a request during a store outage fails with -32603 and without details; later prompts work", async (t) => {
  let away = false;
  const project = await tempDir(t);
  const api = await startApi(t, {
    steps: ["One.", "Two."],
    agent: { driver: withOutages(new MemoryDriver(), () => (away ? "fail" : "")), projectDir: project.path },
  });
  const { url } = await serveHttp(t, api.agent);
  const peer = new SocketPeer(`${url}/acp`);
  await peer.opened();
  await peer.initialize();
  const session = await peer.newSession(project.path);
  assert.deepEqual(await peer.prompt(session, "hi"), { stopReason: "end_turn" });
  away = true;
  const failures = await Promise.all(
    [
      peer.request("session/list", {}),
      peer.request("session/new", { cwd: project.path, mcpServers: [] }),
      peer.request("session/load", { sessionId: session, cwd: project.path, mcpServers: [] }),
    ].map((outcome) =>
      outcome.then(
        () => "answered",
        (error: Error) => error,
      ),
    ),
  );
  const prompted: unknown = await peer.prompt(session, "hi").catch((error: Error) => error);
  t.diagnostic(
    JSON.stringify([...failures, prompted].map((failure) => (failure instanceof Error ? failure.message : failure))),
  );
  for (const failure of failures) assert.match(String(failure), /-32603.*session store unavailable/);
  assert.doesNotMatch(JSON.stringify(peer.received), /ECONNREFUSED|postgres|secret/);
  away = false;
  assert.deepEqual(await peer.prompt(session, "again"), { stopReason: "end_turn" });
  peer.assertClean();
});
