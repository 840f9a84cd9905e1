import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { callTools, type ScriptedStep } from "gantry/testing";
import { createGate, createWaitTool } from "../../helpers/gate.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { parseSseEvents, openConnection } from "../../helpers/raw-http.js";
import type { Hooks } from "../../helpers/temp-dir.js";
import { startApi, type TestApi } from "../../helpers/http-api.js";

/** Starts an API with a session whose active run waits for `toolGate`. */
async function startBusyApi(t: Hooks) {
  const toolGate = createGate();
  const steps = [callTools(["wait", {}]), ...Array<ScriptedStep>(8).fill("done")];
  const api = await startApi(t, { steps, agent: { tools: [createWaitTool(toolGate)] } });
  t.after(() => toolGate.open());
  const firstResponse = api.postRun({ message: "first" });
  await toolGate.firstWait;
  const [activeRun] = await api.agent.runs.list();
  const { sessionId } = activeRun!;
  const queueRun = (message: string, fields: object = {}, headers?: Record<string, string>) =>
    api.postRun({ message, session_id: sessionId, queue: true, ...fields }, headers);
  /** Waits until `count` runs are queued. */
  const waitForQueued = async (count: number) => {
    let ids: string[] = [];
    await waitUntil(async () => {
      const { runs } = (await api.send("/api/runs?state=queued")).json() as { runs: { id: string }[] };
      ids = runs.map(({ id }) => id);
      return ids.length === count;
    });
    return ids;
  };
  const readPrompts = async () =>
    (await api.agent.sessions.messages(sessionId)).flatMap(({ role, parts: [part] }) =>
      role === "user" && part && "text" in part ? [part.text] : [],
    );
  return { api, toolGate, firstResponse, sessionId, queueRun, waitForQueued, readPrompts };
}

const readRunState = async ({ send }: TestApi, id: string) =>
  ((await send(`/api/runs/${id}`)).json() as { state: string }).state;

describe("POST /api/run with queue", () => {
  it("waits for the busy session instead of returning 409, and then returns the usual response", async (t) => {
    const { api, toolGate, firstResponse, sessionId, queueRun, waitForQueued, readPrompts } = await startBusyApi(t);
    const response = await api.postRun({ message: "no", session_id: sessionId });
    assert.deepEqual([response.status, response.headers["retry-after"]], [409, "1"]);
    const secondResponse = queueRun("second");
    await waitForQueued(1);
    const thirdResponse = queueRun("third");
    const [thirdRunId, secondRunId] = await waitForQueued(2);
    toolGate.open();
    for (const pendingResponse of [firstResponse, secondResponse, thirdResponse])
      assert.equal((await pendingResponse).status, 200);
    const { headers, json } = await secondResponse;
    assert.deepEqual(Object.keys(json() as object), ["output", "usage", "iterations", "finish_reason"]);
    assert.deepEqual([headers["x-run-id"], headers["x-session-id"]], [secondRunId, sessionId]);
    assert.equal(headers["x-model"], "scripted/scripted-1");
    assert.equal((await thirdResponse).headers["x-run-id"], thirdRunId);
    assert.deepEqual(await readPrompts(), ["first", "second", "third"]);
  });

  it("reports the number of runs ahead in a stream, before the run's own events", async (t) => {
    const { toolGate, queueRun, waitForQueued, sessionId } = await startBusyApi(t);
    const secondResponse = queueRun("second");
    await waitForQueued(1);
    const thirdResponse = queueRun("third", { stream: true });
    const [id] = await waitForQueued(2);
    toolGate.open();
    const { status, headers, text } = await thirdResponse;
    assert.equal(status, 200);
    assert.deepEqual([headers["x-run-id"], headers["x-session-id"]], [id, sessionId]);
    // The model is chosen when the queued run starts.
    assert.equal(headers["x-model"], undefined);
    const events = parseSseEvents(text);
    const queuedEvents = events.filter(({ data }) => data.type === "queued");
    assert.deepEqual(events.slice(0, queuedEvents.length), queuedEvents);
    assert.deepEqual(queuedEvents[0], { event: "agent", data: { type: "queued", runs_ahead: 2 } });
    // The numbers decrease and do not repeat.
    const runsAhead = queuedEvents.map(({ data }) => data["runs_ahead"] as number);
    assert.deepEqual(
      runsAhead,
      [...new Set(runsAhead)].sort((a, b) => b - a),
    );
    assert.deepEqual(
      events.slice(-2).map(({ event }) => event),
      ["agent", "done"],
    );
    assert.equal((await secondResponse).status, 200);
  });

  it("returns 202 at once with background, and the queued run can be read and cancelled", async (t) => {
    const { api, toolGate, queueRun, sessionId, readPrompts } = await startBusyApi(t);
    const { status, headers, json } = await queueRun("later", { background: true });
    const { run_id: id, session_id: responseSessionId } = json() as { run_id: string; session_id: string };
    assert.deepEqual([status, responseSessionId], [202, sessionId]);
    assert.deepEqual([headers["x-run-id"], headers["x-session-id"]], [id, sessionId]);
    assert.equal(await readRunState(api, id), "queued");
    const cancelledId = ((await queueRun("never", { background: true })).json() as { run_id: string }).run_id;
    const cancelResponse = await api.send(`/api/runs/${cancelledId}/cancel`, { method: "POST" });
    assert.equal((cancelResponse.json() as { state: string }).state, "cancelled");
    toolGate.open();
    assert.equal((await api.agent.runs.ended(id)).state, "finished");
    assert.equal(await readRunState(api, cancelledId), "cancelled");
    assert.deepEqual(await readPrompts(), ["first", "later"]);
  });

  it("cancels a queued run whose client disconnects, except with on_disconnect continue", async (t) => {
    const { api, toolGate, waitForQueued, sessionId, readPrompts } = await startBusyApi(t);
    const sendRequest = async (message: string, fields: object) => {
      const body = JSON.stringify({ message, session_id: sessionId, queue: true, ...fields });
      return (await openConnection(api.url)).write(
        `POST /api/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
      );
    };
    const plainRequest = await sendRequest("plain", {});
    const [plainRunId] = await waitForQueued(1);
    const streamedRequest = await sendRequest("streamed", { stream: true });
    await streamedRequest.waitForText(/"runs_ahead":2/);
    const continuedRequest = await sendRequest("stays", { on_disconnect: "continue" });
    const [continuedRunId, streamedRunId] = await waitForQueued(3);
    for (const client of [plainRequest, streamedRequest, continuedRequest]) client.destroy();
    assert.deepEqual(await waitForQueued(1), [continuedRunId]);
    for (const id of [plainRunId, streamedRunId]) assert.equal(await readRunState(api, id!), "cancelled");
    toolGate.open();
    assert.equal((await api.agent.runs.ended(continuedRunId!)).state, "finished");
    assert.deepEqual(await readPrompts(), ["first", "stays"]);
  });

  it("returns 404, or an error event in a stream, if the session of a queued run is deleted", async (t) => {
    const { api, queueRun, waitForQueued, sessionId } = await startBusyApi(t);
    const [plainRequest, streamedRequest] = [queueRun("plain"), queueRun("streamed", { stream: true })];
    await waitForQueued(2);
    await api.send(`/api/sessions/${sessionId}`, { method: "DELETE" });
    assert.deepEqual(
      [(await plainRequest).status, (await plainRequest).json()],
      [404, { error: "session not found", code: "session_not_found" }],
    );
    const lastEvent = parseSseEvents((await streamedRequest).text).at(-1);
    assert.deepEqual(lastEvent, { event: "error", data: { error: "session deleted", code: "session_deleted" } });
  });

  it("returns 503, or an error event in a stream, to queued requests at once on shutdown; the active run finishes", async (t) => {
    const { api, toolGate, firstResponse, queueRun, waitForQueued } = await startBusyApi(t);
    const [plainRequest, streamedRequest] = [queueRun("plain"), queueRun("streamed", { stream: true })];
    await waitForQueued(2);
    api.agent.stopAccepting();
    assert.deepEqual(
      [(await plainRequest).status, (await plainRequest).json()],
      [503, { error: "server shutting down", code: "shutting_down" }],
    );
    assert.match(
      (await streamedRequest).text,
      /event: error\ndata: \{"error":"server shutting down","code":"shutting_down"\}/,
    );
    toolGate.open();
    assert.equal((await firstResponse).status, 200);
  });

  it("starts one run for an idempotency key, also if the request is repeated while the run is queued", async (t) => {
    const { toolGate, queueRun, waitForQueued } = await startBusyApi(t);
    const key = { "idempotency-key": "k" };
    const originalRequest = queueRun("second", { stream: true }, key);
    await waitForQueued(1);
    const repeatRequest = queueRun("second", { stream: true }, key);
    assert.equal((await queueRun("other", {}, key)).status, 422);
    await waitForQueued(1);
    toolGate.open();
    const [originalResponse, repeatResponse] = await Promise.all([originalRequest, repeatRequest]);
    assert.equal(originalResponse.headers["x-run-id"], repeatResponse.headers["x-run-id"]);
    const readFinalEvents = ({ text }: typeof originalResponse) =>
      parseSseEvents(text).filter(({ data }) => data.type !== "queued" && data.type !== "token");
    assert.deepEqual(readFinalEvents(originalResponse), readFinalEvents(repeatResponse));
    const readTokenText = ({ text }: typeof originalResponse) =>
      parseSseEvents(text)
        .map(({ data }) => data["content"] ?? "")
        .join("");
    assert.deepEqual([readTokenText(originalResponse), readTokenText(repeatResponse)], ["done", "done"]);
    // The replay of the earlier run omits the messages of later runs.
    assert.equal((await queueRun("third")).status, 200);
    assert.deepEqual(readTokenText(await queueRun("second", { stream: true }, key)), "done");
  });
});
