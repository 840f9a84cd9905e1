import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { callTools, type ScriptedStep } from "gantry/testing";
import { readSessionEvents } from "../../helpers/event-page.js";
import { createGate, createWaitTool } from "../../helpers/gate.js";
import { parseSseEvents, openConnection } from "../../helpers/raw-http.js";
import type { Hooks } from "../../helpers/temp-dir.js";
import { startApi } from "../../helpers/http-api.js";

/** Opens `count` watchers of a session and waits for the first event of each. */
async function openWatchers(t: Hooks, url: string, count: number) {
  const watchersAbort = new AbortController();
  t.after(() => watchersAbort.abort());
  return Promise.all(
    Array.from({ length: count }, async () => {
      const events = readSessionEvents(url, {}, watchersAbort.signal);
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
  it("end when the server stops, and the stop waits only for the active run", async (t) => {
    const toolGate = createGate();
    const api = await startApi(t, {
      steps: [callTools(["wait", {}]), "done"],
      agent: { tools: [createWaitTool(toolGate)] },
    });
    const runResponse = api.postRun({ message: "hi", stream: true });
    await toolGate.firstWait;
    const [run] = await api.agent.runs.list();
    const watchers = await openWatchers(t, `${api.url}/api/sessions/${run!.sessionId}/events`, 3);
    const stopAbort = new AbortController();
    const stopPromise = api.listening.stop(stopAbort.signal);
    // The watchers end although the stop signal has not fired and the run is still active.
    await Promise.all(watchers.map(({ ended }) => ended));
    toolGate.open();
    assert.equal(parseSseEvents((await runResponse).text).at(-1)?.event, "done");
    await stopPromise;
    // A stop does not wait for watchers.
    const idleApi = await startApi(t);
    const { id } = await idleApi.agent.sessions.create();
    const idleWatchers = await openWatchers(t, `${idleApi.url}/api/sessions/${id}/events`, 3);
    await idleApi.listening.stop(stopAbort.signal);
    await Promise.all(idleWatchers.map(({ ended }) => ended));
  });

  it("leave the last stream slot to runs, and an additional watcher receives 503", async (t) => {
    const api = await startApi(t, { steps: ["one", "two"], http: { streams: 4 } });
    const { id } = await api.agent.sessions.create();
    const path = `/api/sessions/${id}/events`;
    await openWatchers(t, `${api.url}${path}`, 3);
    const response = await api.send(path);
    assert.deepEqual(
      [response.status, response.headers["retry-after"], response.json()],
      [503, "1", { error: "too many streams", code: "too_many_streams" }],
    );
    assert.equal((await api.postRun({ message: "hi", stream: true })).status, 200);
    // Ended streams use no slot.
    assert.equal((await api.postRun({ message: "hi", stream: true })).status, 200);
  });

  it("cause no process warning with 15 watchers and 30 runs", async (t) => {
    const warnings: string[] = [];
    const recordWarning = (warning: Error) => warnings.push(warning.name);
    process.on("warning", recordWarning);
    t.after(() => process.off("warning", recordWarning));
    const api = await startApi(t, { steps: Array<ScriptedStep>(40).fill("done") });
    const { id } = await api.agent.sessions.create();
    await openWatchers(t, `${api.url}/api/sessions/${id}/events`, 15);
    await Promise.all(Array.from({ length: 15 }, (_, i) => api.postRun({ message: `m${i}`, stream: i % 2 === 0 })));
    const queueFields = { session_id: id, queue: true };
    await Promise.all(Array.from({ length: 15 }, (_, i) => api.postRun({ message: `q${i}`, ...queueFields })));
    await new Promise(setImmediate);
    assert.deepEqual(warnings, []);
  });

  it("receive only the headers for a HEAD request", async (t) => {
    const api = await startApi(t);
    const { id } = await api.agent.sessions.create();
    const { status, headers, text } = await api.send(`/api/sessions/${id}/events`, { method: "HEAD" });
    assert.deepEqual([status, headers["content-type"], text], [200, "text/event-stream", ""]);
  });
});

describe("invalid requests for asks, runs and keys", () => {
  it("are rejected with their status and error, and leave the ask open", async (t) => {
    const toolGate = createGate();
    const tool = { ...createWaitTool(toolGate), needsPermission: true };
    const steps = [callTools(["wait", {}]), "done", "more"];
    const permissions = { name: "strict", judge: () => ({ action: "ask" }) as const };
    const api = await startApi(t, { steps, agent: { tools: [tool], permissions, unattended: "wait" } });
    const runResponse = api.postRun({ message: "hi" });
    let ask: { id: string; session_id: string; run_id: string } | undefined;
    while (!ask) [ask] = ((await api.send("/api/asks")).json() as { asks: (typeof ask)[] }).asks;
    const idleSession = await api.agent.sessions.create();
    const createInvalidFieldError = (name: string) => [400, `invalid field: ${name}`];
    const steerPath = `/api/sessions/${ask.session_id}/steer`;
    const backgroundPath = `/api/sessions/${ask.session_id}/background`;
    const askPath = `/api/asks/${ask.id}`;
    const cases: [path: string, body: string, expected: unknown[]][] = [];
    for (const path of [askPath, steerPath, backgroundPath])
      for (const body of ["", "[]", "5", "null", '"allow"', "{", "\xff"])
        cases.push([path, body, [400, "invalid request body"]]);
    cases.push(
      [askPath, "{}", createInvalidFieldError("choice")],
      [askPath, '{"choice":"ALLOW"}', createInvalidFieldError("choice")],
      [askPath, '{"choice":"allow "}', createInvalidFieldError("choice")],
      [askPath, '{"choice":["allow"]}', createInvalidFieldError("choice")],
      [askPath, '{"choice":true}', createInvalidFieldError("choice")],
      [askPath, '{"choice":"allow","text":"and more"}', createInvalidFieldError("text")],
      [askPath, '{"text":"yes"}', createInvalidFieldError("choice")],
      [askPath, '{"text":5}', createInvalidFieldError("text")],
      ["/api/asks/none", '{"choice":"allow"}', [404, "ask not found"]],
      [`/api/asks/${"x".repeat(300)}`, '{"choice":"allow"}', [404, "ask not found"]],
      ["/api/asks/%00", '{"choice":"allow"}', [404, "ask not found"]],
      [steerPath, "{}", [400, "message is required"]],
      [steerPath, '{"message":5}', createInvalidFieldError("message")],
      [steerPath, '{"message":" "}', [400, "message is required"]],
      // A session without an active run cannot be steered. Its next prompt starts a run.
      [`/api/sessions/${idleSession.id}/steer`, '{"message":"hi"}', [409, "no run to steer"]],
      [backgroundPath, '{"tool_call_id":5}', createInvalidFieldError("tool_call_id")],
      [`/api/sessions/${idleSession.id}/background`, "{}", [409, "no run whose calls could move to the background"]],
      ["/api/sessions/none/background", "{}", [404, "session not found"]],
      ["/api/sessions/none/steer", '{"message":"hi"}', [404, "session not found"]],
      ["/api/runs/none/cancel", "", [404, "run not found"]],
      [`/api/runs/${ask.id}/cancel`, "", [404, "run not found"]],
    );
    for (const [path, body, expectedResult] of cases) {
      const response = await api.send(path, { method: "POST", body: Buffer.from(body, "latin1") });
      assert.deepEqual(
        [response.status, (response.json() as { error: string }).error],
        expectedResult,
        `${path} ${body}`,
      );
    }
    for (const query of ["state=closed", "size=0", "size=x", "before=none", "state=open&state=all"])
      assert.equal((await api.send(`/api/asks?${query}`)).status, 400, query);
    for (const query of ["state=done", "size=-1", "before=none", "before=a&before=b"])
      assert.equal((await api.send(`/api/runs?${query}`)).status, 400, query);
    assert.equal((await api.send("/api/asks?session_id=none")).status, 404);
    // None of these requests answered the ask.
    assert.equal(((await api.send(askPath)).json() as { state: string }).state, "open");
    toolGate.open();
    assert.equal((await api.send(askPath, { body: '{"choice":"allow"}' })).status, 200);
    assert.equal((await runResponse).status, 200);
  });

  it("a late answer to a withdrawn ask returns 409 with the state of the ask", async (t) => {
    const tool = { ...createWaitTool(createGate()), needsPermission: true };
    const permissions = { name: "strict", judge: () => ({ action: "ask" }) as const };
    const agent = { tools: [tool], permissions, unattended: "wait" } as const;
    const api = await startApi(t, { steps: [callTools(["wait", {}])], agent });
    const runResponse = api.postRun({ message: "hi" });
    let ask: { id: string; run_id: string } | undefined;
    while (!ask) [ask] = ((await api.send("/api/asks")).json() as { asks: (typeof ask)[] }).asks;
    await api.send(`/api/runs/${ask.run_id}/cancel`, { method: "POST" });
    await runResponse;
    const lateResponse = await api.send(`/api/asks/${ask.id}`, { body: '{"choice":"allow"}' });
    const { code, ask: closedAsk } = lateResponse.json() as { code: string; ask: { state: string; reply: unknown } };
    assert.deepEqual(
      [lateResponse.status, code, closedAsk.state, closedAsk.reply],
      [409, "ask_closed", "withdrawn", null],
    );
    assert.deepEqual((await api.send("/api/asks")).json(), { asks: [] });
  });

  it("an invalid Idempotency-Key returns 400 and starts no run", async (t) => {
    const api = await startApi(t);
    const body = '{"message":"hi"}';
    const sendWithKeyHeader = async (keyHeaderLines: string) => {
      const client = await openConnection(api.url);
      client.write(
        `POST /api/run HTTP/1.1\r\nHost: localhost\r\n${keyHeaderLines}Content-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
      );
      await client.closed;
      return client.receivedText;
    };
    for (const key of ["", " ", "a b", "x".repeat(257), "x".repeat(10_000), "ä", "a,b c", "\t"])
      assert.match(
        await sendWithKeyHeader(`Idempotency-Key: ${key}\r\n`),
        /^HTTP\/1\.1 400 [\s\S]*\{"error":"invalid header: Idempotency-Key","code":"invalid_header"\}/,
        key.slice(0, 20),
      );
    // A repeated header is joined to one value, which is not a valid key.
    assert.match(await sendWithKeyHeader("Idempotency-Key: a\r\nIdempotency-Key: b\r\n"), /^HTTP\/1\.1 400 /);
    assert.equal((await api.agent.sessions.list()).total, 0);
    assert.match(await sendWithKeyHeader(`Idempotency-Key: ${"x".repeat(256)}\r\n`), /^HTTP\/1\.1 200 /);
  });
});
