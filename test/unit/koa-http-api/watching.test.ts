import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { callTools, type ScriptedStep } from "gantry/testing";
import { eventsOf } from "../../helpers/event-page.js";
import { gate, waitTool } from "../../helpers/gate.js";
import { sseEvents, wire } from "../../helpers/http.js";
import type { Hooks } from "../../helpers/temp.js";
import { startApi } from "../../helpers/http-api.js";

/** Opens `count` watchers of a session and waits for the first event of each. */
async function watchers(t: Hooks, url: string, count: number) {
  const abort = new AbortController();
  t.after(() => abort.abort());
  return Promise.all(
    Array.from({ length: count }, async () => {
      const events = eventsOf(url, {}, abort.signal);
      await events.next();
      const ended = (async () => {
        for await (const _ of events);
      })();
      ended.catch(() => undefined);
      return { ended };
    }),
  );
}

describe("watchers over HTTP", () => {
  it("end when a stop begins, which waits only for the active run", async (t) => {
    const open = gate();
    const api = await startApi(t, { steps: [callTools(["wait", {}]), "done"], agent: { tools: [waitTool(open)] } });
    const streamed = api.run({ message: "hi", stream: true });
    await open.reached;
    const [run] = await api.agent.runs.list();
    const watching = await watchers(t, `${api.url}/api/sessions/${run!.sessionId}/events`, 3);
    const patience = new AbortController();
    const stopped = api.listening.stop(patience.signal);
    // The stop signal has not fired and the run still waits: the watchers end anyway.
    await Promise.all(watching.map(({ ended }) => ended));
    open.open();
    assert.equal(sseEvents((await streamed).text).at(-1)?.event, "done");
    await stopped;
    // With only watchers, a stop does not wait.
    const idle = await startApi(t);
    const { id } = await idle.agent.sessions.create();
    const last = await watchers(t, `${idle.url}/api/sessions/${id}/events`, 3);
    await idle.listening.stop(patience.signal);
    await Promise.all(last.map(({ ended }) => ended));
  });

  it("leave the last stream slot to runs: a further watcher gets 503", async (t) => {
    const api = await startApi(t, { steps: ["one", "two"], http: { streams: 4 } });
    const { id } = await api.agent.sessions.create();
    const path = `/api/sessions/${id}/events`;
    await watchers(t, `${api.url}${path}`, 3);
    const refused = await api.send(path);
    assert.deepEqual(
      [refused.status, refused.headers["retry-after"], refused.json()],
      [503, "1", { error: "too many streams", code: "too_many_streams" }],
    );
    assert.equal((await api.run({ message: "hi", stream: true })).status, 200);
    // Streams that have ended do not count.
    assert.equal((await api.run({ message: "hi", stream: true })).status, 200);
  });

  it("15 watchers and 30 runs cause no process warning", async (t) => {
    const warnings: string[] = [];
    const warned = (warning: Error) => warnings.push(warning.name);
    process.on("warning", warned);
    t.after(() => process.off("warning", warned));
    const api = await startApi(t, { steps: Array<ScriptedStep>(40).fill("done") });
    const { id } = await api.agent.sessions.create();
    await watchers(t, `${api.url}/api/sessions/${id}/events`, 15);
    await Promise.all(Array.from({ length: 15 }, (_, i) => api.run({ message: `m${i}`, stream: i % 2 === 0 })));
    const queued = { session_id: id, queue: true };
    await Promise.all(Array.from({ length: 15 }, (_, i) => api.run({ message: `q${i}`, ...queued })));
    await new Promise(setImmediate);
    assert.deepEqual(warnings, []);
  });

  it("a HEAD request returns the headers only", async (t) => {
    const api = await startApi(t);
    const { id } = await api.agent.sessions.create();
    const { status, headers, text } = await api.send(`/api/sessions/${id}/events`, { method: "HEAD" });
    assert.deepEqual([status, headers["content-type"], text], [200, "text/event-stream", ""]);
  });
});

describe("invalid requests for asks, runs and keys", () => {
  it("are rejected with their status and error, and leave the ask open", async (t) => {
    const open = gate();
    const tool = { ...waitTool(open), needsPermission: true };
    const steps = [callTools(["wait", {}]), "done", "more"];
    const permissions = { name: "strict", judge: () => ({ action: "ask" }) as const };
    const api = await startApi(t, { steps, agent: { tools: [tool], permissions, unattended: "wait" } });
    const answer = api.run({ message: "hi" });
    let ask: { id: string; session_id: string; run_id: string } | undefined;
    while (!ask) [ask] = ((await api.send("/api/asks")).json() as { asks: (typeof ask)[] }).asks;
    const idleSession = await api.agent.sessions.create();
    const field = (name: string) => [400, `invalid field: ${name}`];
    const steer = `/api/sessions/${ask.session_id}/steer`;
    const askPath = `/api/asks/${ask.id}`;
    const cases: [path: string, body: string, wanted: unknown[]][] = [];
    for (const path of [askPath, steer])
      for (const body of ["", "[]", "5", "null", '"allow"', "{", "\xff"])
        cases.push([path, body, [400, "invalid request body"]]);
    cases.push(
      [askPath, "{}", field("choice")],
      [askPath, '{"choice":"ALLOW"}', field("choice")],
      [askPath, '{"choice":"allow "}', field("choice")],
      [askPath, '{"choice":["allow"]}', field("choice")],
      [askPath, '{"choice":true}', field("choice")],
      [askPath, '{"choice":"allow","text":"and more"}', field("text")],
      [askPath, '{"text":"yes"}', field("choice")],
      [askPath, '{"text":5}', field("text")],
      ["/api/asks/none", '{"choice":"allow"}', [404, "ask not found"]],
      [`/api/asks/${"x".repeat(300)}`, '{"choice":"allow"}', [404, "ask not found"]],
      ["/api/asks/%00", '{"choice":"allow"}', [404, "ask not found"]],
      [steer, "{}", [400, "message is required"]],
      [steer, '{"message":5}', field("message")],
      [steer, '{"message":" "}', [400, "message is required"]],
      // A session without an active run cannot be steered. Its next prompt starts a run.
      [`/api/sessions/${idleSession.id}/steer`, '{"message":"hi"}', [409, "no run to steer"]],
      ["/api/sessions/none/steer", '{"message":"hi"}', [404, "session not found"]],
      ["/api/runs/none/cancel", "", [404, "run not found"]],
      [`/api/runs/${ask.id}/cancel`, "", [404, "run not found"]],
    );
    for (const [path, body, expected] of cases) {
      const refused = await api.send(path, { method: "POST", body: Buffer.from(body, "latin1") });
      assert.deepEqual([refused.status, (refused.json() as { error: string }).error], expected, `${path} ${body}`);
    }
    for (const query of ["state=closed", "size=0", "size=x", "before=none", "state=open&state=all"])
      assert.equal((await api.send(`/api/asks?${query}`)).status, 400, query);
    for (const query of ["state=done", "size=-1", "before=none", "before=a&before=b"])
      assert.equal((await api.send(`/api/runs?${query}`)).status, 400, query);
    assert.equal((await api.send("/api/asks?session_id=none")).status, 404);
    // None of these requests answered the ask.
    assert.equal(((await api.send(askPath)).json() as { state: string }).state, "open");
    open.open();
    assert.equal((await api.send(askPath, { body: '{"choice":"allow"}' })).status, 200);
    assert.equal((await answer).status, 200);
  });

  it("a late answer to a withdrawn ask returns 409 with the state of the ask", async (t) => {
    const tool = { ...waitTool(gate()), needsPermission: true };
    const permissions = { name: "strict", judge: () => ({ action: "ask" }) as const };
    const agent = { tools: [tool], permissions, unattended: "wait" } as const;
    const api = await startApi(t, { steps: [callTools(["wait", {}])], agent });
    const answer = api.run({ message: "hi" });
    let ask: { id: string; run_id: string } | undefined;
    while (!ask) [ask] = ((await api.send("/api/asks")).json() as { asks: (typeof ask)[] }).asks;
    await api.send(`/api/runs/${ask.run_id}/cancel`, { method: "POST" });
    await answer;
    const late = await api.send(`/api/asks/${ask.id}`, { body: '{"choice":"allow"}' });
    const { code, ask: closedAsk } = late.json() as { code: string; ask: { state: string; reply: unknown } };
    assert.deepEqual([late.status, code, closedAsk.state, closedAsk.reply], [409, "ask_closed", "withdrawn", null]);
    assert.deepEqual((await api.send("/api/asks")).json(), { asks: [] });
  });

  it("an invalid Idempotency-Key returns 400 and starts no run", async (t) => {
    const api = await startApi(t);
    const body = '{"message":"hi"}';
    const post = async (key: string) => {
      const client = await wire(api.url);
      client.write(
        `POST /api/run HTTP/1.1\r\nHost: localhost\r\n${key}Content-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
      );
      await client.closed;
      return client.received;
    };
    for (const key of ["", " ", "a b", "x".repeat(257), "x".repeat(10_000), "ä", "a,b c", "\t"])
      assert.match(
        await post(`Idempotency-Key: ${key}\r\n`),
        /^HTTP\/1\.1 400 [\s\S]*\{"error":"invalid header: Idempotency-Key","code":"invalid_header"\}/,
        key.slice(0, 20),
      );
    // A repeated header is joined to one value, which is not a valid key.
    assert.match(await post("Idempotency-Key: a\r\nIdempotency-Key: b\r\n"), /^HTTP\/1\.1 400 /);
    assert.equal((await api.agent.sessions.list()).total, 0);
    assert.match(await post(`Idempotency-Key: ${"x".repeat(256)}\r\n`), /^HTTP\/1\.1 200 /);
  });
});
