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
import { gate, waitTool } from "../../../helpers/gate.js";
import { startApi } from "../../../helpers/http-api.js";
import { startScriptedProxy } from "../../../helpers/scripted-proxy.js";

/** Compares everything in an error except its text. */
const like = (Kind: typeof ApiError, code: string, status: number) => (error: unknown) => {
  assert.ok(error instanceof Kind && error instanceof ApiError, String(error));
  assert.deepEqual([error.name, error.code, error.status], [Kind.name, code, status]);
  return true;
};

describe("GantryClient", () => {
  it("rejects an invalid url or silence option with a TypeError", () => {
    for (const url of ["127.0.0.1:8080", "localhost", "ftp://a", "http://", "http://u:p@host", "https://u@host/x"])
      assert.throws(() => new GantryClient({ url }), { name: "TypeError", message: /^url: expected http/ }, url);
    for (const silence of [0, -1, NaN])
      assert.throws(() => new GantryClient({ silenceMs: silence }), {
        name: "TypeError",
        message: /^silenceMs: expected/,
      });
    for (const url of ["", "/", "/below", "http://a", "https://a:1/", "http://[::1]:8080/x@y", undefined])
      new GantryClient({ url, silenceMs: Infinity });
  });

  it("returns what the API answers for health, models, runs, sessions and messages", async (t) => {
    const api = await startApi(t, { steps: ["One, two.", "Three."] });
    const client = new GantryClient({ url: api.url });
    assert.equal((await client.health()).status, "ok");
    assert.equal((await client.ready()).status, "ready");
    assert.deepEqual(await client.models(), [
      { provider: "scripted", model: { id: "scripted-1", name: "Scripted 1", owned_by: "scripted" } },
    ]);

    const first = await client.run({ message: "Count" });
    assert.deepEqual([first.output, first.model, first.iterations], ["One, two.", "scripted/scripted-1", 1]);
    const begun = await client.start({ message: "On", session_id: first.sessionId });
    assert.equal(begun.session_id, first.sessionId);
    for await (const event of client.sessions.watch(first.sessionId, { afterSeq: 2 }))
      if (event.type === "state" && event.run?.id === begun.run_id && event.run.state === "finished") break;

    const secondRun = await client.run({ message: "Another" });
    const { sessions, total } = await client.sessions.list({ size: 1 });
    assert.deepEqual([sessions.map(({ id }) => id), total], [[secondRun.sessionId], 2]);
    const second = await client.sessions.list({ page: 2, size: 1, search: "TITLE" });
    assert.deepEqual(second.sessions[0], await client.sessions.get(first.sessionId));
    assert.equal((await client.sessions.list({ projectDir: "/elsewhere" })).total, 0);

    const messages = await client.sessions.messages(first.sessionId);
    assert.deepEqual(messages.map(({ content }) => content), ["Count", "One, two.", "On", "Three."]); // prettier-ignore
    const seqs = async (query: object) =>
      (await client.sessions.messages(first.sessionId, query)).map(({ seq }) => seq);
    assert.deepEqual(await seqs({ after: 1, limit: 2 }), [2, 3]);
    assert.deepEqual(await seqs({ before: Number.MAX_SAFE_INTEGER, limit: 2 }), [3, 4]);
    assert.deepEqual(await seqs({ view: "model" }), [1, 2, 3, 4]);

    const runs = await client.runs.list({ sessionId: first.sessionId });
    assert.deepEqual(runs.map(({ id }) => id), [begun.run_id, first.runId]); // prettier-ignore
    assert.deepEqual(await client.runs.list({ state: "finished", before: begun.run_id }), [runs[1]]);
    assert.deepEqual(await client.runs.get(first.runId), runs[1]);
    assert.equal((await client.runs.cancel(first.runId)).state, "finished");
    assert.equal(await client.sessions.cancel(first.sessionId), null);
    await assert.rejects(client.sessions.steer(first.sessionId, "now"), like(ApiError, "no_run", 409));

    const title = "Größe & 100 %";
    assert.equal((await client.sessions.update(first.sessionId, { title, mode: "plan" })).mode, "plan");
    assert.equal((await client.sessions.list({ search: title })).total, 1);
    await client.sessions.delete(first.sessionId);
    await assert.rejects(client.sessions.get(first.sessionId), like(NotFoundError, "session_not_found", 404));
  });

  it("answers an ask once; a second answer fails with an AskConflictError that holds the first", async (t) => {
    const open = gate();
    const tool = { ...waitTool(open), needsPermission: true };
    const api = await startApi(t, { steps: ["Hello.", callTools(["wait", {}]), "done"], agent: { tools: [tool] } });
    const client = new GantryClient({ url: api.url });
    const { sessionId } = await client.run({ message: "Hello" });
    // The run asks, because a watcher of the session can answer.
    const states = client.sessions.watch(sessionId, { canAnswer: true });
    await states.next();
    const stream = await client.stream({ message: "Do it", mode: "ask", session_id: sessionId });
    for await (const event of states) if (event.type === "state" && event.asks.length > 0) break;
    const [ask] = await client.asks.list({ sessionId: stream.sessionId });
    assert.equal(ask?.title, "wait");
    const id = ask?.id ?? "";
    assert.deepEqual(await client.asks.get(id), ask);
    await assert.rejects(client.asks.answer(id, { choice: "perhaps" }), like(ApiError, "invalid_field", 400));
    assert.equal((await client.asks.answer(id, { choice: "allow" })).state, "answered");
    await assert.rejects(client.asks.answer(id, { choice: "reject" }), (error) => {
      assert.ok(error instanceof AskConflictError);
      return error.ask.id === id && error.ask.reply?.choice === "allow" && error.code === "ask_closed";
    });
    assert.deepEqual(await client.asks.list(), []);
    assert.deepEqual((await client.asks.list({ state: "all", size: 5 })).map((listedAsk) => listedAsk.id), [id]); // prettier-ignore
    await open.reached;
    const busy = await client.run({ message: "Me too", session_id: stream.sessionId }).catch((error: unknown) => error);
    like(BusyError, "session_busy", 409)(busy);
    assert.ok(((busy as BusyError).retryAfter ?? 0) >= 1);
    assert.equal((await client.sessions.steer(stream.sessionId, "Hurry")).run_id, stream.runId);
    open.open();
    await stream.result;
  });

  it("throws an error of the matching class with the server's code and status", async (t) => {
    const api = await startApi(t);
    const client = new GantryClient({ url: api.url });
    await assert.rejects(client.run({ message: "" }), like(ApiError, "message_required", 400));
    await assert.rejects(
      client.run({ message: "x", provider: "no", model: "no" }),
      like(ApiError, "model_selection", 400),
    );
    await assert.rejects(client.runs.get("none"), like(NotFoundError, "run_not_found", 404));
    await assert.rejects(client.asks.get("none"), like(NotFoundError, "ask_not_found", 404));
    // An id with path characters must not reach another route.
    for (const id of ["", ".", "..", "../runs", "a/../../health", "?", "#", "%2e%2e"])
      await assert.rejects(client.sessions.get(id), { status: 404 }, id);
    await assert.rejects(client.sessions.list({ page: 0 }), like(ApiError, "invalid_query", 400));
    // A key that no header can hold is a TypeError, not a disconnected server.
    await assert.rejects(client.run({ message: "x" }, { key: "a\nb" }), TypeError);
    await client.run({ message: "x" }, { key: "k" });
    await assert.rejects(client.run({ message: "y" }, { key: "k" }), like(ApiError, "key_reused", 422));
    const unreachableClient = new GantryClient({ url: "http://127.0.0.1:9" });
    await assert.rejects(unreachableClient.health(), like(DisconnectedError, "disconnected", 0));
    await assert.rejects(unreachableClient.stream({ message: "x" }), like(DisconnectedError, "disconnected", 0));
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
        ["session_not_found", () => sessions.watch(id).next()],
        ["session_not_found", () => sessions.watch(id, { last: 5 }).next()],
        ["run_not_found", () => runs.get(id)],
        ["run_not_found", () => runs.cancel(id)],
        ["ask_not_found", () => asks.get(id)],
        ["ask_not_found", () => asks.answer(id, { text: "x" })],
      ];
      for (const [code, ask] of invalidCalls) await assert.rejects(ask(), { name: "NotFoundError", status: 404, code });
    }
    assert.deepEqual(requests, []);
  });

  it("sends the configured headers, and calls a headers function for each request", async (t) => {
    const api = await startApi(t, { host: { requiredHeaders: { Authorization: "Bearer right" } } });
    const ask = (headers?: Record<string, string>) => new GantryClient({ url: `${api.url}/`, headers }).health();
    await assert.rejects(ask(), like(UnauthorizedError, "unauthorized", 401));
    await assert.rejects(ask({ authorization: "Bearer wrong" }), like(UnauthorizedError, "unauthorized", 401));
    assert.equal((await ask({ authorization: "Bearer right" })).status, "ok");
    let key = "wrong";
    const client = new GantryClient({ url: api.url, headers: () => ({ Authorization: `Bearer ${key}` }) });
    await assert.rejects(client.run({ message: "x" }), UnauthorizedError);
    await assert.rejects(async () => {
      for await (const _ of client.sessions.watch("any"));
    }, UnauthorizedError);
    key = "right";
    assert.equal((await client.run({ message: "x" })).output, "ok");
  });

  it("reports an answer that is not gantry's by its status, without its text", async (t) => {
    const api = await startApi(t);
    const { url, next } = await startScriptedProxy(t, api.url);
    const client = new GantryClient({ url });
    const html = { "content-type": "text/html" };
    next({ status: 503, headers: { ...html, "retry-after": "7" }, body: "<h1>secret of a proxy</h1>" });
    await assert.rejects(client.health(), (error) => {
      like(UnavailableError, "invalid_answer", 503)(error);
      return (error as ApiError).retryAfter === 7 && !String(error).includes("secret");
    });
    next({ status: 503, headers: { "retry-after": new Date(Date.now() + 60_000).toUTCString() }, body: "null" });
    const later = (await client.ready().catch((error: unknown) => error)) as ApiError;
    assert.ok(later.retryAfter !== undefined && later.retryAfter > 50 && later.retryAfter <= 60);
    next({ status: 503, headers: { "retry-after": "soon" }, body: "[1]" });
    assert.equal(((await client.health().catch((error: unknown) => error)) as ApiError).retryAfter, undefined);
    next({ status: 200, headers: html, body: "<h1>Log in</h1>" });
    await assert.rejects(client.health(), like(ApiError, "invalid_answer", 200));
    next({ status: 401, headers: html, body: "" });
    await assert.rejects(client.health(), like(UnauthorizedError, "invalid_answer", 401));
    next({ status: 200, body: '{"status":', breaks: true });
    await assert.rejects(client.health(), like(DisconnectedError, "disconnected", 0));
    assert.equal((await client.health()).status, "ok");
    const notReady = { error: "not ready", code: "not_ready", status: "not_ready", reasons: [] };
    next({ status: 503, body: JSON.stringify(notReady) });
    assert.deepEqual(await client.ready(), notReady);
  });

  it("rejects an answer that lacks required fields as invalid_answer", async (t) => {
    const api = await startApi(t);
    const { url, next } = await startScriptedProxy(t, api.url);
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
      const nothing = call.toString().includes("health") || call.toString().includes("client.run(") ? [] : ["{}", "[]"];
      for (const body of ["null", "5", '"ok"', ...nothing, ...bodies]) {
        next({ status: 200, body });
        await assert.rejects(call(), like(ApiError, "invalid_answer", 200), `${call.toString()} ${body}`);
      }
    }
    assert.deepEqual(await client.asks.list(), []);
  });

  it("rejects with the signal's reason when aborted, and the server cancels the run", async (t) => {
    const open = gate();
    const api = await startApi(t, { steps: [callTools(["wait", {}])], agent: { tools: [waitTool(open)] } });
    const client = new GantryClient({ url: api.url });
    const reason = new Error("changed my mind");
    await assert.rejects(client.health({ signal: AbortSignal.abort(reason) }), reason);
    const stop = new AbortController();
    const run = client.run({ message: "Wait" }, { signal: stop.signal });
    await open.reached;
    const [runningRun] = await client.runs.list({ state: "running" });
    stop.abort(reason);
    await assert.rejects(run, reason);
    // The run ends when its client disconnects.
    for await (const event of client.sessions.watch(runningRun?.session_id ?? ""))
      if (event.type === "state" && event.run?.state === "cancelled") break;
  });
});
