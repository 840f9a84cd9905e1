import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { callTools } from "gantry/testing";
import {
  AskConflictError,
  BusyError,
  DisconnectedError,
  GantryClient,
  ApiError,
  NotFoundError,
  UnauthorizedError,
  UnavailableError,
} from "gantry/client";
import { createGate, createWaitTool } from "../../../helpers/gate.js";
import { startApi } from "../../../helpers/http-api.js";
import { startScriptedProxy } from "../../../helpers/scripted-proxy.js";

/** Returns a check that compares the class, the code and the status of an error, but not its message. */
const matchError = (ErrorClass: typeof ApiError, code: string, status: number) => (error: unknown) => {
  assert.ok(error instanceof ErrorClass && error instanceof ApiError, String(error));
  assert.deepEqual([error.name, error.code, error.status], [ErrorClass.name, code, status]);
  return true;
};

describe("GantryClient", () => {
  it("rejects an invalid url or silence option with a TypeError", () => {
    for (const url of ["127.0.0.1:8080", "localhost", "ftp://a", "http://", "http://u:p@host", "https://u@host/x"])
      assert.throws(() => new GantryClient({ url }), { name: "TypeError", message: /^url: expected http/ }, url);
    for (const silenceMs of [0, -1, NaN])
      assert.throws(() => new GantryClient({ silenceMs }), {
        name: "TypeError",
        message: /^silenceMs: expected/,
      });
    for (const url of ["", "/", "/below", "http://a", "https://a:1/", "http://[::1]:8080/x@y", undefined])
      new GantryClient({ url, silenceMs: Infinity });
  });

  it("returns the API's health, models, runs, sessions and messages", async (t) => {
    const api = await startApi(t, { steps: ["One, two.", "Three."] });
    const client = new GantryClient({ url: api.url });
    assert.equal((await client.health()).status, "ok");
    assert.equal((await client.ready()).status, "ready");
    assert.deepEqual(await client.models(), [
      { provider: "scripted", model: { id: "scripted-1", name: "Scripted 1", owned_by: "scripted" } },
    ]);

    const firstRun = await client.run({ message: "Count" });
    assert.deepEqual([firstRun.output, firstRun.model, firstRun.iterations], ["One, two.", "scripted/scripted-1", 1]);
    const startedRun = await client.start({ message: "On", session_id: firstRun.sessionId });
    assert.equal(startedRun.session_id, firstRun.sessionId);
    for await (const event of client.sessions.watch(firstRun.sessionId, { afterSeq: 2 }))
      if (event.type === "state" && event.run?.id === startedRun.run_id && event.run.state === "finished") break;

    const secondRun = await client.run({ message: "Another" });
    const { sessions, total } = await client.sessions.list({ size: 1 });
    assert.deepEqual([sessions.map(({ id }) => id), total], [[secondRun.sessionId], 2]);
    const secondPage = await client.sessions.list({ page: 2, size: 1, search: "TITLE" });
    assert.deepEqual(secondPage.sessions[0], await client.sessions.get(firstRun.sessionId));
    assert.equal((await client.sessions.list({ projectDir: "/elsewhere" })).total, 0);

    const messages = await client.sessions.messages(firstRun.sessionId);
    assert.deepEqual(messages.map(({ content }) => content), ["Count", "One, two.", "On", "Three."]); // prettier-ignore
    const readSeqs = async (query: object) =>
      (await client.sessions.messages(firstRun.sessionId, query)).map(({ seq }) => seq);
    assert.deepEqual(await readSeqs({ after: 1, limit: 2 }), [2, 3]);
    assert.deepEqual(await readSeqs({ before: Number.MAX_SAFE_INTEGER, limit: 2 }), [3, 4]);
    assert.deepEqual(await readSeqs({ view: "model" }), [1, 2, 3, 4]);

    const runs = await client.runs.list({ sessionId: firstRun.sessionId });
    assert.deepEqual(runs.map(({ id }) => id), [startedRun.run_id, firstRun.runId]); // prettier-ignore
    assert.deepEqual(await client.runs.list({ state: "finished", before: startedRun.run_id }), [runs[1]]);
    assert.deepEqual(await client.runs.get(firstRun.runId), runs[1]);
    assert.equal((await client.runs.cancel(firstRun.runId)).state, "finished");
    assert.equal(await client.sessions.cancel(firstRun.sessionId), null);
    await assert.rejects(client.sessions.steer(firstRun.sessionId, "now"), matchError(ApiError, "no_run", 409));
    await assert.rejects(client.sessions.moveToBackground(firstRun.sessionId), matchError(ApiError, "no_run", 409));

    const title = "Größe & 100 %";
    assert.equal((await client.sessions.update(firstRun.sessionId, { title, mode: "plan" })).mode, "plan");
    assert.equal((await client.sessions.list({ search: title })).total, 1);
    await client.sessions.delete(firstRun.sessionId);
    await assert.rejects(client.sessions.get(firstRun.sessionId), matchError(NotFoundError, "session_not_found", 404));
  });

  it("answers an ask once; a second answer fails with an AskConflictError that contains the first answer", async (t) => {
    const toolGate = createGate();
    const tool = { ...createWaitTool(toolGate), needsPermission: true };
    const api = await startApi(t, { steps: ["Hello.", callTools(["wait", {}]), "done"], agent: { tools: [tool] } });
    const client = new GantryClient({ url: api.url });
    const { sessionId } = await client.run({ message: "Hello" });
    // The run asks, because a watcher of the session can answer.
    const sessionEvents = client.sessions.watch(sessionId, { canAnswer: true });
    await sessionEvents.next();
    const stream = await client.stream({ message: "Do it", mode: "ask", session_id: sessionId });
    for await (const event of sessionEvents) if (event.type === "state" && event.asks.length > 0) break;
    const [ask] = await client.asks.list({ sessionId: stream.sessionId });
    assert.equal(ask?.title, "wait");
    const id = ask?.id ?? "";
    assert.deepEqual(await client.asks.get(id), ask);
    await assert.rejects(client.asks.answer(id, { choice: "perhaps" }), matchError(ApiError, "invalid_field", 400));
    assert.equal((await client.asks.answer(id, { choice: "allow" })).state, "answered");
    await assert.rejects(client.asks.answer(id, { choice: "reject" }), (error) => {
      assert.ok(error instanceof AskConflictError);
      return error.ask.id === id && error.ask.reply?.choice === "allow" && error.code === "ask_closed";
    });
    assert.deepEqual(await client.asks.list(), []);
    assert.deepEqual((await client.asks.list({ state: "all", size: 5 })).map((listedAsk) => listedAsk.id), [id]); // prettier-ignore
    await toolGate.firstWait;
    const busyError = await client
      .run({ message: "Me too", session_id: stream.sessionId })
      .catch((error: unknown) => error);
    matchError(BusyError, "session_busy", 409)(busyError);
    assert.ok(((busyError as BusyError).retryAfter ?? 0) >= 1);
    assert.equal((await client.sessions.steer(stream.sessionId, "Hurry")).run_id, stream.runId);
    toolGate.open();
    await stream.result;
  });

  it("throws an error of the matching class with the server's code and status", async (t) => {
    const api = await startApi(t);
    const client = new GantryClient({ url: api.url });
    await assert.rejects(client.run({ message: "" }), matchError(ApiError, "message_required", 400));
    await assert.rejects(
      client.run({ message: "x", provider: "no", model: "no" }),
      matchError(ApiError, "model_selection", 400),
    );
    await assert.rejects(client.runs.get("none"), matchError(NotFoundError, "run_not_found", 404));
    await assert.rejects(client.asks.get("none"), matchError(NotFoundError, "ask_not_found", 404));
    // An id with path characters must not reach another route.
    for (const id of ["", ".", "..", "../runs", "a/../../health", "?", "#", "%2e%2e"])
      await assert.rejects(client.sessions.get(id), { status: 404 }, id);
    await assert.rejects(client.sessions.list({ page: 0 }), matchError(ApiError, "invalid_query", 400));
    // A key that no header can hold is a TypeError, not a disconnected server.
    await assert.rejects(client.run({ message: "x" }, { key: "a\nb" }), TypeError);
    await client.run({ message: "x" }, { key: "k" });
    await assert.rejects(client.run({ message: "y" }, { key: "k" }), matchError(ApiError, "key_reused", 422));
    const unreachableClient = new GantryClient({ url: "http://127.0.0.1:9" });
    await assert.rejects(unreachableClient.health(), matchError(DisconnectedError, "disconnected", 0));
    await assert.rejects(unreachableClient.stream({ message: "x" }), matchError(DisconnectedError, "disconnected", 0));
  });

  it("sends no request for an id that is empty, a dot segment or invalid Unicode", async (t) => {
    const { url, requests } = await startScriptedProxy(t, "http://127.0.0.1:9");
    const { sessions, runs, asks } = new GantryClient({ url });
    for (const id of ["", ".", "..", "\ud83d"]) {
      const invalidCalls: [string, () => Promise<unknown>][] = [
        ["session_not_found", () => sessions.get(id)],
        ["session_not_found", () => sessions.update(id, { title: "x" })],
        ["session_not_found", () => sessions.delete(id)],
        ["session_not_found", () => sessions.messages(id)],
        ["session_not_found", () => sessions.cancel(id)],
        ["session_not_found", () => sessions.steer(id, "x")],
        ["session_not_found", () => sessions.moveToBackground(id)],
        ["session_not_found", () => sessions.watch(id).next()],
        ["session_not_found", () => sessions.watch(id, { last: 5 }).next()],
        ["run_not_found", () => runs.get(id)],
        ["run_not_found", () => runs.cancel(id)],
        ["ask_not_found", () => asks.get(id)],
        ["ask_not_found", () => asks.answer(id, { text: "x" })],
      ];
      for (const [code, invalidCall] of invalidCalls)
        await assert.rejects(invalidCall(), { name: "NotFoundError", status: 404, code });
    }
    assert.deepEqual(requests, []);
  });

  it("sends the configured headers, and calls a headers function for each request", async (t) => {
    const api = await startApi(t, { host: { requiredHeaders: { Authorization: "Bearer right" } } });
    const readHealth = (headers?: Record<string, string>) => new GantryClient({ url: `${api.url}/`, headers }).health();
    await assert.rejects(readHealth(), matchError(UnauthorizedError, "unauthorized", 401));
    await assert.rejects(
      readHealth({ authorization: "Bearer wrong" }),
      matchError(UnauthorizedError, "unauthorized", 401),
    );
    assert.equal((await readHealth({ authorization: "Bearer right" })).status, "ok");
    let token = "wrong";
    const client = new GantryClient({ url: api.url, headers: () => ({ Authorization: `Bearer ${token}` }) });
    await assert.rejects(client.run({ message: "x" }), UnauthorizedError);
    await assert.rejects(async () => {
      for await (const _ of client.sessions.watch("any"));
    }, UnauthorizedError);
    token = "right";
    assert.equal((await client.run({ message: "x" })).output, "ok");
  });

  it("reports a response that the API did not send by its status, without its body", async (t) => {
    const api = await startApi(t);
    const { url, respondNext } = await startScriptedProxy(t, api.url);
    const client = new GantryClient({ url });
    const htmlHeaders = { "content-type": "text/html" };
    respondNext({ status: 503, headers: { ...htmlHeaders, "retry-after": "7" }, body: "<h1>secret of a proxy</h1>" });
    await assert.rejects(client.health(), (error) => {
      matchError(UnavailableError, "invalid_answer", 503)(error);
      return (error as ApiError).retryAfter === 7 && !String(error).includes("secret");
    });
    respondNext({ status: 503, headers: { "retry-after": new Date(Date.now() + 60_000).toUTCString() }, body: "null" });
    const retryError = (await client.ready().catch((error: unknown) => error)) as ApiError;
    assert.ok(retryError.retryAfter !== undefined && retryError.retryAfter > 50 && retryError.retryAfter <= 60);
    respondNext({ status: 503, headers: { "retry-after": "soon" }, body: "[1]" });
    assert.equal(((await client.health().catch((error: unknown) => error)) as ApiError).retryAfter, undefined);
    respondNext({ status: 200, headers: htmlHeaders, body: "<h1>Log in</h1>" });
    await assert.rejects(client.health(), matchError(ApiError, "invalid_answer", 200));
    respondNext({ status: 401, headers: htmlHeaders, body: "" });
    await assert.rejects(client.health(), matchError(UnauthorizedError, "invalid_answer", 401));
    respondNext({ status: 200, body: '{"status":', breaksConnection: true });
    await assert.rejects(client.health(), matchError(DisconnectedError, "disconnected", 0));
    assert.equal((await client.health()).status, "ok");
    const notReady = { error: "not ready", code: "not_ready", status: "not_ready", reasons: [] };
    respondNext({ status: 503, body: JSON.stringify(notReady) });
    assert.deepEqual(await client.ready(), notReady);
  });

  it("rejects a response that lacks required fields with invalid_answer", async (t) => {
    const api = await startApi(t);
    const { url, respondNext } = await startScriptedProxy(t, api.url);
    const client = new GantryClient({ url });
    const calls: [() => Promise<unknown>, ...bodies: string[]][] = [
      [
        () => client.start({ message: "x" }),
        '{"run_id":"r"}',
        '{"session_id":"s","run_id":""}',
        '{"run_id":1,"session_id":2}',
      ],
      [() => client.models(), '{"models":{}}', '{"models":null}'],
      [() => client.sessions.list(), '{"sessions":"none"}'],
      [() => client.sessions.messages("x"), '{"messages":{"length":1}}'],
      [() => client.sessions.get("x"), '{"id":""}'],
      [() => client.sessions.update("x", { title: "y" })],
      [() => client.runs.list(), '{"runs":0}'],
      [() => client.runs.get("x"), '{"run":{"id":"x"}}'],
      [() => client.runs.cancel("x")],
      [() => client.asks.list(), '{"ask":[]}'],
      [() => client.asks.get("x")],
      [() => client.asks.answer("x", { choice: "allow" })],
      [() => client.health()],
      [() => client.run({ message: "x" })],
    ];
    for (const [call, ...bodies] of calls) {
      // health() and run() accept any JSON object.
      const emptyBodies =
        call.toString().includes("health") || call.toString().includes("client.run(") ? [] : ["{}", "[]"];
      for (const body of ["null", "5", '"ok"', ...emptyBodies, ...bodies]) {
        respondNext({ status: 200, body });
        await assert.rejects(call(), matchError(ApiError, "invalid_answer", 200), `${call.toString()} ${body}`);
      }
    }
    assert.deepEqual(await client.asks.list(), []);
  });

  it("rejects with the signal's reason when aborted, and the server cancels the run", async (t) => {
    const toolGate = createGate();
    const api = await startApi(t, { steps: [callTools(["wait", {}])], agent: { tools: [createWaitTool(toolGate)] } });
    const client = new GantryClient({ url: api.url });
    const reason = new Error("changed my mind");
    await assert.rejects(client.health({ signal: AbortSignal.abort(reason) }), reason);
    const runAbort = new AbortController();
    const runResult = client.run({ message: "Wait" }, { signal: runAbort.signal });
    await toolGate.firstWait;
    const [runningRun] = await client.runs.list({ state: "running" });
    runAbort.abort(reason);
    await assert.rejects(runResult, reason);
    // The run ends when its client disconnects.
    for await (const event of client.sessions.watch(runningRun?.session_id ?? ""))
      if (event.type === "state" && event.run?.state === "cancelled") break;
  });
});
