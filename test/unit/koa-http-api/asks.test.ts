import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { defineTool } from "gantry";
import { callTools } from "gantry/testing";
import { EventPage, eventsOf } from "../../helpers/event-page.js";
import type { toWireAsk } from "../../../adapters/koa-http-api/wire-live.js";
import { gate, waitTool } from "../../helpers/gate.js";
import { startApi, type Api } from "../../helpers/http-api.js";

const post = (api: Api, path: string, body: unknown) =>
  api.send(path, { body: typeof body === "string" ? body : JSON.stringify(body) });

/** An API whose tool `act` needs permission in this session. */
async function startAskingApi(t: { after(run: () => Promise<void> | void): void }) {
  const ran: number[] = [];
  const act = defineTool({
    name: "act",
    description: "Acts.",
    kind: "execute",
    run: () => (ran.push(1), "done"),
    describe: () => ({
      title: "Act",
      locations: [{ path: "/p/a", line: 3 }],
      diff: [{ path: "/p/a", oldText: null, newText: "x" }],
    }),
  });
  const permissions = { name: "strict", judge: () => ({ action: "ask", reason: "it costs" }) as const };
  const steps = [callTools(["act", {}]), "end", callTools(["act", {}]), "end"];
  const api = await startApi(t, { steps, agent: { tools: [act], permissions, unattended: "wait" } });
  const { id } = await api.agent.sessions.create();
  /** Starts a run and returns its ask, as a watcher sees it. */
  const run = async () => {
    const answer = api.run({ message: "hi", session_id: id });
    const page = new EventPage();
    for await (const event of eventsOf(`${api.url}/api/sessions/${id}/events`)) {
      page.apply(event);
      if (page.state.asks.length > 0) break;
    }
    return { answer, ask: page.state.asks[0], state: page.state.run.state };
  };
  return { api, id, ran, run };
}

describe("asks over HTTP", () => {
  it("are shown completely, accept the first answer only, and return 409 with it to a second answer", async (t) => {
    const { api, id, ran, run } = await startAskingApi(t);
    const { answer, ask, state } = await run();
    assert.equal(state, "waiting");
    assert.deepEqual([ask.kind, ask.tool, ask.title, ask.reason], ["permission", "act", "Act", "it costs"]);
    assert.deepEqual(ask.diff, [{ path: "/p/a", old_text: null, new_text: "x" }]);
    assert.deepEqual(ask.locations, [{ path: "/p/a", line: 3 }]);
    assert.deepEqual((await api.send(`/api/asks?session_id=${id}`)).json(), { asks: [ask] });
    assert.deepEqual((await api.send(`/api/asks/${ask.id}`)).json(), ask);
    const [first, second] = await Promise.all([
      post(api, `/api/asks/${ask.id}`, { choice: "allow" }),
      post(api, `/api/asks/${ask.id}`, { choice: "reject" }),
    ]);
    assert.deepEqual([first.status, second.status].sort(), [200, 409]);
    type WireAsk = ReturnType<typeof toWireAsk>;
    const acceptedAnswer = (first.status === 200 ? first : second).json() as WireAsk;
    const conflict = (first.status === 200 ? second : first).json() as { code: string; ask: WireAsk };
    assert.equal(acceptedAnswer.answered_by, "http");
    assert.deepEqual([conflict.code, conflict.ask], ["ask_closed", acceptedAnswer]);
    assert.equal((await answer).status, 200);
    assert.equal(ran.length, acceptedAnswer.reply?.choice === "allow" ? 1 : 0);
    assert.deepEqual((await api.send("/api/asks")).json(), { asks: [] });
    assert.equal(((await api.send("/api/asks?state=all")).json() as { asks: unknown[] }).asks.length, 1);
  });

  it("reject invalid answers with 400 and stay open", async (t) => {
    const { api, run } = await startAskingApi(t);
    const { answer, ask } = await run();
    for (const [path, body, status, error] of [
      [ask.id, { choice: "yes" }, 400, "invalid field: choice"],
      [ask.id, {}, 400, "invalid field: choice"],
      [ask.id, { choice: 1 }, 400, "invalid field: choice"],
      [ask.id, "no json", 400, "invalid request body"],
      ["none", { choice: "allow" }, 404, "ask not found"],
    ] as const) {
      const refused = await post(api, `/api/asks/${path}`, body);
      assert.deepEqual([refused.status, (refused.json() as { error: string }).error], [status, error]);
    }
    assert.equal((await api.send("/api/asks?before=none")).status, 400);
    assert.equal((await post(api, `/api/asks/${ask.id}`, { choice: "reject" })).status, 200);
    assert.equal((await answer).status, 200);
  });
});

describe("POST /api/sessions/{id}/steer", () => {
  it("sends a steered event to the stream of the active run, and returns 409 no_run after the run", async (t) => {
    const open = gate();
    const api = await startApi(t, { steps: [callTools(["wait", {}]), "done"], agent: { tools: [waitTool(open)] } });
    const answer = api.run({ message: "hi", stream: true });
    await open.reached;
    const [run] = await api.agent.runs.list();
    const path = `/api/sessions/${run!.sessionId}/steer`;
    assert.deepEqual((await post(api, path, { message: "left" })).json(), { run_id: run!.id });
    assert.equal((await post(api, path, { message: " " })).status, 400);
    open.open();
    const { text } = await answer;
    assert.match(text, /data: \{"type":"steered","content":"left"\}/);
    const conflict = await post(api, path, { message: "too late" });
    assert.deepEqual([conflict.status, (conflict.json() as { code: string }).code], [409, "no_run"]);
    assert.equal((await post(api, "/api/sessions/none/steer", { message: "x" })).status, 404);
  });
});

it("a background run, or one with on_disconnect continue, waits for an answer only with can_answer", async (t) => {
  for (const options of [{ background: true }, { stream: true, on_disconnect: "continue" }]) {
    assert.equal(await outcomeOf(t, { message: "hi", ...options }), "refused");
    assert.equal(await outcomeOf(t, { message: "hi", ...options, can_answer: true }), "asked");
  }
});

/** The outcome of a run that needs permission while no client watches. */
async function outcomeOf(t: TestContext, body: object): Promise<"refused" | "asked"> {
  let ran = 0;
  const act = defineTool({ name: "act", description: "Acts.", kind: "execute", run: () => ((ran += 1), "done") });
  const permissions = { name: "strict", judge: () => ({ action: "ask", reason: "it costs" }) as const };
  const steps = [callTools(["act", {}]), "end"];
  const { run, send } = await startApi(t, { steps, agent: { tools: [act], permissions, unattended: "reject" } });
  const answer = run(body);
  const settled = async (...states: string[]): Promise<string> => {
    for (;;) {
      const [state] = ((await send("/api/runs")).json() as { runs: { state: string }[] }).runs.map(
        (entry) => entry.state,
      );
      if (state !== undefined && states.includes(state)) return state;
    }
  };
  const isAsked = (await settled("waiting", "finished")) === "waiting";
  const { asks } = (await send("/api/asks")).json() as { asks: { id: string }[] };
  for (const { id } of asks) await send(`/api/asks/${id}`, { body: JSON.stringify({ choice: "allow" }) });
  await settled("finished");
  await answer;
  assert.deepEqual([ran, asks.length], isAsked ? [1, 1] : [0, 0]);
  return isAsked ? "asked" : "refused";
}
