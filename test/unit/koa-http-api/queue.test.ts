import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { callTools, type ScriptedStep } from "gantry/testing";
import { gate, waitTool } from "../../helpers/gate.js";
import { until } from "../../helpers/lab.js";
import { sseEvents, wire } from "../../helpers/http.js";
import type { Hooks } from "../../helpers/temp.js";
import { startApi, type Api } from "../../helpers/http-api.js";

/** An API with a session whose run waits for the gate. */
async function startBusyApi(t: Hooks) {
  const open = gate();
  const steps = [callTools(["wait", {}]), ...Array<ScriptedStep>(8).fill("done")];
  const api = await startApi(t, { steps, agent: { tools: [waitTool(open)] } });
  t.after(() => open.open());
  const first = api.run({ message: "first" });
  await open.reached;
  const [activeRun] = await api.agent.runs.list();
  const { sessionId } = activeRun!;
  const ask = (message: string, fields: object = {}, headers?: Record<string, string>) =>
    api.run({ message, session_id: sessionId, queue: true, ...fields }, headers);
  /** Waits until `count` runs are queued. */
  const waiting = async (count: number) => {
    let ids: string[] = [];
    await until(async () => {
      const { runs } = (await api.send("/api/runs?state=queued")).json() as { runs: { id: string }[] };
      ids = runs.map(({ id }) => id);
      return ids.length === count;
    });
    return ids;
  };
  const prompts = async () =>
    (await api.agent.sessions.messages(sessionId)).flatMap(({ role, parts: [part] }) =>
      role === "user" && part && "text" in part ? [part.text] : [],
    );
  return { api, open, first, sessionId, ask, waiting, prompts };
}

const stateOf = async ({ send }: Api, id: string) =>
  ((await send(`/api/runs/${id}`)).json() as { state: string }).state;

describe("POST /api/run with queue", () => {
  it("waits in the queue where a request without it returns 409, and then answers as usual", async (t) => {
    const { api, open, first, sessionId, ask, waiting, prompts } = await startBusyApi(t);
    const refused = await api.run({ message: "no", session_id: sessionId });
    assert.deepEqual([refused.status, refused.headers["retry-after"]], [409, "1"]);
    const second = ask("second");
    await waiting(1);
    const third = ask("third");
    const [late, early] = await waiting(2);
    open.open();
    for (const answer of [first, second, third]) assert.equal((await answer).status, 200);
    const { headers, json } = await second;
    assert.deepEqual(Object.keys(json() as object), ["output", "usage", "iterations", "finish_reason"]);
    assert.deepEqual([headers["x-run-id"], headers["x-session-id"]], [early, sessionId]);
    assert.equal(headers["x-model"], "scripted/scripted-1");
    assert.equal((await third).headers["x-run-id"], late);
    assert.deepEqual(await prompts(), ["first", "second", "third"]);
  });

  it("reports the number of runs ahead in a stream, before the run's own events", async (t) => {
    const { open, ask, waiting, sessionId } = await startBusyApi(t);
    const second = ask("second");
    await waiting(1);
    const third = ask("third", { stream: true });
    const [id] = await waiting(2);
    open.open();
    const { status, headers, text } = await third;
    assert.equal(status, 200);
    assert.deepEqual([headers["x-run-id"], headers["x-session-id"]], [id, sessionId]);
    // The model is chosen when the queued run starts.
    assert.equal(headers["x-model"], undefined);
    const events = sseEvents(text);
    const queuedEvents = events.filter(({ data }) => data.type === "queued");
    assert.deepEqual(events.slice(0, queuedEvents.length), queuedEvents);
    assert.deepEqual(queuedEvents[0], { event: "agent", data: { type: "queued", runs_ahead: 2 } });
    const ahead = queuedEvents.map(({ data }) => data["runs_ahead"] as number);
    assert.deepEqual(
      ahead,
      [...new Set(ahead)].sort((a, b) => b - a),
    );
    assert.deepEqual(
      events.slice(-2).map(({ event }) => event),
      ["agent", "done"],
    );
    assert.equal((await second).status, 200);
  });

  it("with background returns 202 at once, and the queued run can be read and cancelled", async (t) => {
    const { api, open, ask, sessionId, prompts } = await startBusyApi(t);
    const { status, headers, json } = await ask("later", { background: true });
    const { run_id: id, session_id: session } = json() as { run_id: string; session_id: string };
    assert.deepEqual([status, session], [202, sessionId]);
    assert.deepEqual([headers["x-run-id"], headers["x-session-id"]], [id, sessionId]);
    assert.equal(await stateOf(api, id), "queued");
    const cancelledId = ((await ask("never", { background: true })).json() as { run_id: string }).run_id;
    const cancelled = await api.send(`/api/runs/${cancelledId}/cancel`, { method: "POST" });
    assert.equal((cancelled.json() as { state: string }).state, "cancelled");
    open.open();
    assert.equal((await api.agent.runs.ended(id)).state, "finished");
    assert.equal(await stateOf(api, cancelledId), "cancelled");
    assert.deepEqual(await prompts(), ["first", "later"]);
  });

  it("leaves the queue when its client disconnects, except with on_disconnect continue", async (t) => {
    const { api, open, waiting, sessionId, prompts } = await startBusyApi(t);
    const sendRequest = async (message: string, fields: object) => {
      const body = JSON.stringify({ message, session_id: sessionId, queue: true, ...fields });
      return (await wire(api.url)).write(
        `POST /api/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
      );
    };
    const plain = await sendRequest("plain", {});
    const [a] = await waiting(1);
    const streamed = await sendRequest("streamed", { stream: true });
    await streamed.until(/"runs_ahead":2/);
    const stays = await sendRequest("stays", { on_disconnect: "continue" });
    const [c, b] = await waiting(3);
    for (const client of [plain, streamed, stays]) client.destroy();
    assert.deepEqual(await waiting(1), [c]);
    for (const id of [a, b]) assert.equal(await stateOf(api, id!), "cancelled");
    open.open();
    assert.equal((await api.agent.runs.ended(c!)).state, "finished");
    assert.deepEqual(await prompts(), ["first", "stays"]);
  });

  it("reports the deletion of its session: 404 in a plain answer, an error event in a stream", async (t) => {
    const { api, ask, waiting, sessionId } = await startBusyApi(t);
    const [plain, streamed] = [ask("plain"), ask("streamed", { stream: true })];
    await waiting(2);
    await api.send(`/api/sessions/${sessionId}`, { method: "DELETE" });
    assert.deepEqual(
      [(await plain).status, (await plain).json()],
      [404, { error: "session not found", code: "session_not_found" }],
    );
    const last = sseEvents((await streamed).text).at(-1);
    assert.deepEqual(last, { event: "error", data: { error: "session deleted", code: "session_deleted" } });
  });

  it("returns 503 at once on shutdown, while the active run may still finish", async (t) => {
    const { api, open, first, ask, waiting } = await startBusyApi(t);
    const [plain, streamed] = [ask("plain"), ask("streamed", { stream: true })];
    await waiting(2);
    api.agent.refuseNew();
    assert.deepEqual(
      [(await plain).status, (await plain).json()],
      [503, { error: "server shutting down", code: "shutting_down" }],
    );
    assert.match(
      (await streamed).text,
      /event: error\ndata: \{"error":"server shutting down","code":"shutting_down"\}/,
    );
    open.open();
    assert.equal((await first).status, 200);
  });

  it("starts one run for an idempotency key, also for a repeat while it waits", async (t) => {
    const { open, ask, waiting } = await startBusyApi(t);
    const key = { "idempotency-key": "k" };
    const firstAnswer = ask("second", { stream: true }, key);
    await waiting(1);
    const again = ask("second", { stream: true }, key);
    assert.equal((await ask("other", {}, key)).status, 422);
    await waiting(1);
    open.open();
    const [a, b] = await Promise.all([firstAnswer, again]);
    assert.equal(a.headers["x-run-id"], b.headers["x-run-id"]);
    const finalEvents = ({ text }: typeof a) =>
      sseEvents(text).filter(({ data }) => data.type !== "queued" && data.type !== "token");
    assert.deepEqual(finalEvents(a), finalEvents(b));
    const words = ({ text }: typeof a) =>
      sseEvents(text)
        .map(({ data }) => data["content"] ?? "")
        .join("");
    assert.deepEqual([words(a), words(b)], ["done", "done"]);
    // An earlier run is replayed without the messages that followed it.
    assert.equal((await ask("third")).status, 200);
    assert.deepEqual(words(await ask("second", { stream: true }, key)), "done");
  });
});
