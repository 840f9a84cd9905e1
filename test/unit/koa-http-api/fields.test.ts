import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { GantryClient } from "gantry/client";
import { callTools } from "gantry/testing";
import { createGate, createWaitTool } from "../../helpers/gate.js";
import { readSessionEvents } from "../../helpers/event-page.js";
import { startApi, type TestApi } from "../../helpers/http-api.js";

const createInvalidFieldError = (field: string) => ({ error: `invalid field: ${field}`, code: "invalid_field" });
const patchSession = (api: TestApi, id: string, body: unknown) =>
  api.send(`/api/sessions/${id}`, { method: "PATCH", body: typeof body === "string" ? body : JSON.stringify(body) });

describe("POST /api/run with invalid fields", () => {
  it("returns 400 and names the field, including a field within budget", async (t) => {
    const api = await startApi(t);
    const cases: [field: string, body: Record<string, unknown> | string][] = [
      ["queue", { queue: "yes" }],
      ["queue", { queue: null }],
      ["budget", { budget: 5 }],
      ["budget", { budget: [] }],
      ["budget", { budget: null }],
      ["budget.usd", { budget: { usd: 0 } }],
      ["budget.usd", { budget: { usd: -1 } }],
      ["budget.usd", { budget: { usd: "1" } }],
      ["budget.tokens", { budget: { usd: 1, tokens: null } }],
      ["budget.seconds", '{"message":"hi","budget":{"seconds":1e999}}'],
      ["budget.euros", { budget: { euros: 1 } }],
      ["output_schema", { output_schema: "object" }],
      ["output_schema", { output_schema: [] }],
      ["output_schema", { output_schema: null }],
    ];
    for (const [field, body] of cases) {
      const { status, json } = await api.postRun(typeof body === "string" ? body : { message: "hi", ...body });
      assert.deepEqual([status, json()], [400, createInvalidFieldError(field)]);
    }
    assert.equal((await api.agent.sessions.list()).total, 0);
    for (const budget of [{}, { tokens: 1e9, seconds: 1e6 }])
      assert.equal((await api.postRun({ message: "hi", budget })).status, 200);
    // The body exceeds the nesting limit.
    const nestedBody = `{"message":"hi","output_schema":${'{"a":'.repeat(80)}1${"}".repeat(80)}}`;
    assert.deepEqual((await api.postRun(nestedBody)).json(), { error: "invalid request body", code: "invalid_body" });
  });
});

describe("PATCH /api/sessions/{id}", () => {
  it("updates the session fields that its next runs use, and watchers receive the new state", async (t) => {
    const api = await startApi(t);
    const { id } = await api.agent.sessions.create();
    const watchAbort = new AbortController();
    t.after(() => watchAbort.abort());
    const events = readSessionEvents(`${api.url}/api/sessions/${id}/events`, {}, watchAbort.signal);
    await events.next();
    const changes = {
      title: "  Mine ",
      provider: "scripted",
      model: "scripted-1",
      reasoning_effort: "low",
      mode: "plan",
    };
    const { status, headers, json } = await patchSession(api, id, changes);
    assert.deepEqual([status, headers["x-session-id"]], [200, id]);
    const session = json() as Record<string, unknown>;
    const expectedFields = { ...changes, title: "Mine" };
    assert.deepEqual(Object.fromEntries(Object.keys(changes).map((name) => [name, session[name]])), expectedFields);
    assert.deepEqual((await api.send(`/api/sessions/${id}`)).json(), session);
    for await (const { type, data } of events)
      if (type === "state" && data.session.mode === "plan") {
        assert.equal(data.session.title, "Mine");
        break;
      }
    // Omitted fields stay unchanged. `""` restores the model's own effort. A title set by a user is final.
    assert.deepEqual((await patchSession(api, id, {})).json(), session);
    const restoredSession = (await patchSession(api, id, { reasoning_effort: "" })).json() as Record<string, unknown>;
    assert.deepEqual([restoredSession["reasoning_effort"], restoredSession["mode"]], ["", "plan"]);
    assert.equal((await api.agent.sessions.get(id))?.hasFinalTitle, true);
  });

  it("rejects an invalid field by name and changes nothing", async (t) => {
    const api = await startApi(t);
    const { id, title } = await api.agent.sessions.create();
    for (const [field, body] of [
      ["title", { title: "" }],
      ["title", { title: " " }],
      ["title", { title: null }],
      ["title", { title: 5 }],
      ["title", { title: "x".repeat(51) }],
      ["title", { title: "two\nlines" }],
      ["reasoning_effort", { reasoning_effort: "most" }],
      ["reasoning_effort", { reasoning_effort: null }],
      ["mode", { title: "ok", mode: "yolo" }],
      ["mode", { mode: null }],
      ["provider", { model: "scripted-1" }],
      ["model", { provider: "scripted" }],
      ["model", { provider: "scripted", model: 1 }],
    ] as const)
      assert.deepEqual(
        (await patchSession(api, id, body)).json(),
        createInvalidFieldError(field),
        JSON.stringify(body),
      );
    for (const [body, status, code] of [
      [{ provider: "scripted", model: "none" }, 400, "model_selection"],
      [{ provider: "none", model: "none" }, 400, "model_selection"],
      ["[]", 400, "invalid_body"],
      ["", 400, "invalid_body"],
      ["x".repeat(20), 400, "invalid_body"],
    ] as const) {
      const response = await patchSession(api, id, body);
      assert.deepEqual([response.status, (response.json() as { code: string }).code], [status, code]);
    }
    assert.equal((await patchSession(api, "none", { title: "x" })).status, 404);
    assert.equal((await api.agent.sessions.get(id))?.title, title);
  });
});

describe("archived sessions over HTTP", () => {
  it("are listed on request only, with totals; a prompt brings a session back", async (t) => {
    const api = await startApi(t, { steps: ["one", "two"] });
    const { id } = await api.agent.sessions.create();
    const archivedId = String((await api.postRun({ message: "hi" })).headers["x-session-id"]);
    const listIds = async (query = ""): Promise<[string[], number]> => {
      const { sessions, total } = (await api.send(`/api/sessions${query}`)).json() as {
        sessions: { id: string }[];
        total: number;
      };
      return [sessions.map((session) => session.id), total];
    };
    const archivedSession = (await patchSession(api, archivedId, { archived: true })).json() as object;
    assert.deepEqual(Object.entries(archivedSession).at(-1), ["archived", true]);
    assert.deepEqual(await listIds(), [[id], 1]);
    assert.deepEqual(await listIds("?archived=exclude"), [[id], 1]);
    assert.deepEqual(await listIds("?archived=only"), [[archivedId], 1]);
    assert.deepEqual(await listIds("?archived=include&size=1"), [[archivedId], 2]);
    assert.equal((await api.send("/api/sessions?archived=yes")).status, 400);
    for (const archived of ["true", null, 1])
      assert.deepEqual((await patchSession(api, id, { archived })).json(), createInvalidFieldError("archived"));
    const client = new GantryClient({ url: api.url });
    assert.deepEqual((await client.sessions.list({ archived: "only" })).sessions, [archivedSession]);
    await api.postRun({ message: "again", session_id: archivedId });
    assert.deepEqual(await listIds(), [[archivedId, id], 2]);
    assert.equal((await client.sessions.update(archivedId, { archived: true })).archived, true);
    assert.ok(!("archived" in (await client.sessions.update(archivedId, { archived: false }))));
  });

  it("PATCH archived: true cancels the session's runs, queued ones first", async (t) => {
    const toolGate = createGate();
    const api = await startApi(t, {
      steps: [callTools(["wait", {}]), "done"],
      agent: { tools: [createWaitTool(toolGate)] },
    });
    const response = api.postRun({ message: "hi" });
    await toolGate.firstWait;
    const [run] = await api.agent.runs.list();
    const queuedResponse = await api.postRun({
      ...{ message: "next", session_id: run!.sessionId, queue: true, background: true },
    });
    assert.equal(queuedResponse.status, 202);
    assert.equal((await patchSession(api, run!.sessionId, { archived: true })).status, 200);
    assert.deepEqual(
      (await api.agent.runs.list()).map(({ state }) => state),
      ["cancelled", "cancelled"],
    );
    assert.equal((await api.agent.sessions.get(run!.sessionId))?.archived, true);
    toolGate.open();
    await response;
  });
});

describe("session objects over HTTP", () => {
  it("include the mode, and the run while it is active", async (t) => {
    const toolGate = createGate();
    const api = await startApi(t, {
      steps: [callTools(["wait", {}]), "done"],
      agent: { tools: [createWaitTool(toolGate)] },
    });
    const response = api.postRun({ message: "hi" });
    await toolGate.firstWait;
    const [run] = await api.agent.runs.list();
    const path = `/api/sessions/${run!.sessionId}`;
    type SessionState = { mode: string; run?: unknown };
    const readSession = async () => {
      const sessionState = (await api.send(path)).json() as SessionState;
      const { sessions } = (await api.send("/api/sessions")).json() as { sessions: SessionState[] };
      assert.deepEqual(sessions, [sessionState]);
      return sessionState;
    };
    const sessionState = await readSession();
    assert.deepEqual([sessionState.mode, sessionState.run], ["auto", { id: run!.id, state: "running" }]);
    assert.deepEqual(
      ((await patchSession(api, run!.sessionId, { mode: "ask" })).json() as SessionState).run,
      sessionState.run,
    );
    toolGate.open();
    await response;
    const finishedSession = await readSession();
    assert.deepEqual([finishedSession.mode, "run" in finishedSession], ["ask", false]);
  });
});
