import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { defineTool } from "gantry";
import { callTools } from "gantry/testing";
import { EventPage, readSessionEvents } from "../../helpers/event-page.js";
import type { toWireAsk } from "../../../adapters/koa-http-api/wire-live.js";
import { createGate, createWaitTool } from "../../helpers/gate.js";
import { startApi, type TestApi } from "../../helpers/http-api.js";

const postJson = (api: TestApi, path: string, body: unknown) =>
  api.send(path, { body: typeof body === "string" ? body : JSON.stringify(body) });

/** An API whose tool `act` needs permission in this session. */
async function startAskingApi(t: TestContext) {
  const toolCalls: number[] = [];
  const actTool = defineTool({
    name: "act",
    description: "Acts.",
    kind: "execute",
    run: () => (toolCalls.push(1), "done"),
    describe: () => ({
      title: "Act",
      locations: [{ path: "/p/a", line: 3 }],
      diff: [{ path: "/p/a", oldText: null, newText: "x" }],
    }),
  });
  const permissions = { name: "strict", judge: () => ({ action: "ask", reason: "it costs" }) as const };
  const steps = [callTools(["act", {}]), "end", callTools(["act", {}]), "end"];
  const api = await startApi(t, { steps, agent: { tools: [actTool], permissions, unattended: "wait" } });
  const { id } = await api.agent.sessions.create();
  /** Starts a run. Returns the ask and the run's state as a watcher receives them. */
  const startRunUntilAsk = async () => {
    const runResponse = api.postRun({ message: "hi", session_id: id });
    const page = new EventPage();
    for await (const event of readSessionEvents(`${api.url}/api/sessions/${id}/events`)) {
      page.apply(event);
      if (page.state.asks.length > 0) break;
    }
    return { runResponse, ask: page.state.asks[0], state: page.state.run.state };
  };
  return { api, id, toolCalls, startRunUntilAsk };
}

describe("asks over HTTP", () => {
  it("are sent with all fields, accept only the first answer, and reject a second answer with 409", async (t) => {
    const { api, id, toolCalls, startRunUntilAsk } = await startAskingApi(t);
    const { runResponse, ask, state } = await startRunUntilAsk();
    assert.equal(state, "waiting");
    assert.deepEqual([ask.kind, ask.tool, ask.title, ask.reason], ["permission", "act", "Act", "it costs"]);
    assert.deepEqual(ask.diff, [{ path: "/p/a", old_text: null, new_text: "x" }]);
    assert.deepEqual(ask.locations, [{ path: "/p/a", line: 3 }]);
    assert.deepEqual((await api.send(`/api/asks?session_id=${id}`)).json(), { asks: [ask] });
    assert.deepEqual((await api.send(`/api/asks/${ask.id}`)).json(), ask);
    const [firstResponse, secondResponse] = await Promise.all([
      postJson(api, `/api/asks/${ask.id}`, { choice: "allow" }),
      postJson(api, `/api/asks/${ask.id}`, { choice: "reject" }),
    ]);
    assert.deepEqual([firstResponse.status, secondResponse.status].sort(), [200, 409]);
    type WireAsk = ReturnType<typeof toWireAsk>;
    const acceptedAnswer = (firstResponse.status === 200 ? firstResponse : secondResponse).json() as WireAsk;
    const conflict = (firstResponse.status === 200 ? secondResponse : firstResponse).json() as {
      code: string;
      ask: WireAsk;
    };
    assert.equal(acceptedAnswer.answered_by, "http");
    assert.deepEqual([conflict.code, conflict.ask], ["ask_closed", acceptedAnswer]);
    assert.equal((await runResponse).status, 200);
    assert.equal(toolCalls.length, acceptedAnswer.reply?.choice === "allow" ? 1 : 0);
    assert.deepEqual((await api.send("/api/asks")).json(), { asks: [] });
    assert.equal(((await api.send("/api/asks?state=all")).json() as { asks: unknown[] }).asks.length, 1);
  });

  it("reject invalid answers with 400 and stay open; an unknown ask id returns 404", async (t) => {
    const { api, startRunUntilAsk } = await startAskingApi(t);
    const { runResponse, ask } = await startRunUntilAsk();
    for (const [askId, body, status, error] of [
      [ask.id, { choice: "yes" }, 400, "invalid field: choice"],
      [ask.id, {}, 400, "invalid field: choice"],
      [ask.id, { choice: 1 }, 400, "invalid field: choice"],
      [ask.id, "no json", 400, "invalid request body"],
      ["none", { choice: "allow" }, 404, "ask not found"],
    ] as const) {
      const response = await postJson(api, `/api/asks/${askId}`, body);
      assert.deepEqual([response.status, (response.json() as { error: string }).error], [status, error]);
    }
    assert.equal((await api.send("/api/asks?before=none")).status, 400);
    assert.equal((await postJson(api, `/api/asks/${ask.id}`, { choice: "reject" })).status, 200);
    assert.equal((await runResponse).status, 200);
  });
});

describe("POST /api/sessions/{id}/steer", () => {
  it("sends a steered event to the stream of the active run, and returns 409 no_run after the run", async (t) => {
    const toolGate = createGate();
    const api = await startApi(t, {
      steps: [callTools(["wait", {}]), "done"],
      agent: { tools: [createWaitTool(toolGate)] },
    });
    const runResponse = api.postRun({ message: "hi", stream: true });
    await toolGate.firstWait;
    const [activeRun] = await api.agent.runs.list();
    const path = `/api/sessions/${activeRun!.sessionId}/steer`;
    assert.deepEqual((await postJson(api, path, { message: "left" })).json(), { run_id: activeRun!.id });
    assert.equal((await postJson(api, path, { message: " " })).status, 400);
    toolGate.open();
    const { text } = await runResponse;
    assert.match(text, /data: \{"type":"steered","content":"left"\}/);
    const conflictResponse = await postJson(api, path, { message: "too late" });
    assert.deepEqual([conflictResponse.status, (conflictResponse.json() as { code: string }).code], [409, "no_run"]);
    assert.equal((await postJson(api, "/api/sessions/none/steer", { message: "x" })).status, 404);
  });
});

it("a background run or a run with on_disconnect continue waits for an answer only with can_answer", async (t) => {
  for (const options of [{ background: true }, { stream: true, on_disconnect: "continue" }]) {
    assert.equal(await getPermissionOutcome(t, { message: "hi", ...options }), "rejected");
    assert.equal(await getPermissionOutcome(t, { message: "hi", ...options, can_answer: true }), "waited");
  }
});

/** Starts a run that needs permission while no client watches. Returns whether the run waited for an answer. */
async function getPermissionOutcome(t: TestContext, body: object): Promise<"rejected" | "waited"> {
  let toolCalls = 0;
  const actTool = defineTool({
    name: "act",
    description: "Acts.",
    kind: "execute",
    run: () => ((toolCalls += 1), "done"),
  });
  const permissions = { name: "strict", judge: () => ({ action: "ask", reason: "it costs" }) as const };
  const steps = [callTools(["act", {}]), "end"];
  const { postRun, send } = await startApi(t, {
    steps,
    agent: { tools: [actTool], permissions, unattended: "reject" },
  });
  const runResponse = postRun(body);
  const waitForState = async (...states: string[]): Promise<string> => {
    for (;;) {
      const [state] = ((await send("/api/runs")).json() as { runs: { state: string }[] }).runs.map(
        (entry) => entry.state,
      );
      if (state !== undefined && states.includes(state)) return state;
    }
  };
  const isAsked = (await waitForState("waiting", "finished")) === "waiting";
  const { asks } = (await send("/api/asks")).json() as { asks: { id: string }[] };
  for (const { id } of asks) await send(`/api/asks/${id}`, { body: JSON.stringify({ choice: "allow" }) });
  await waitForState("finished");
  await runResponse;
  assert.deepEqual([toolCalls, asks.length], isAsked ? [1, 1] : [0, 0]);
  return isAsked ? "waited" : "rejected";
}
