import assert from "node:assert/strict";
import { it } from "node:test";
import { ProviderError, type Session } from "gantry";
import { callTools, say } from "gantry/testing";
import { gate } from "../../helpers/gate.js";
import { exchange, send } from "../../helpers/http.js";
import { tempDir } from "../../helpers/temp.js";
import { startApi, type Api } from "../../helpers/http-api.js";
import { echoTool } from "../../helpers/http-api-tools.js";

const USAGE = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15, cost: 0 };
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

it("GET /api/health returns ok and the version while no model is listed", async (t) => {
  const never = new Promise<never>(() => undefined);
  const { agent, send: ask } = await startApi(t, { scripted: { models: [], list: () => never } });
  const { status, headers, json } = await ask("/api/health");
  assert.equal(status, 200);
  assert.deepEqual(json(), { status: "ok", version: agent.version });
  assert.equal(headers["content-type"], "application/json");
});

it("GET /api/models lists provider, id, name and owner", async (t) => {
  const { send: ask } = await startApi(t);
  const { status, json } = await ask("/api/models");
  assert.equal(status, 200);
  assert.deepEqual(json(), {
    models: [{ provider: "scripted", model: { id: "scripted-1", name: "Scripted 1", owned_by: "scripted" } }],
  });
});

it("GET /api/models waits for the first model listing, and omits a provider that fails", async (t) => {
  const model = { id: "late", name: "Late", ownedBy: "x" };
  const listing = gate();
  const waited = await startApi(t, {
    scripted: { models: [], list: async () => (await listing.wait(), [model]) },
  });
  const answer = waited.send("/api/models");
  await listing.reached;
  listing.open();
  assert.deepEqual((await answer).json(), {
    models: [{ provider: "scripted", model: { id: "late", name: "Late", owned_by: "x" } }],
  });
  const failing = await startApi(t, { scripted: { models: [], list: () => Promise.reject(new Error("down")) } });
  assert.deepEqual((await failing.send("/api/models")).json(), { models: [] });
});

it("POST /api/run returns exactly output, usage, iterations and finish_reason", async (t) => {
  const { run, send: ask } = await startApi(t, { steps: ["Hello."] });
  const { status, headers, json } = await run({ message: "hi" });
  assert.equal(status, 200);
  assert.deepEqual(json(), { output: "Hello.", usage: USAGE, iterations: 1, finish_reason: "stop" });
  assert.equal(headers["content-type"], "application/json");
  assert.equal(headers["x-model"], "scripted/scripted-1");
  const id = String(headers["x-session-id"]);
  assert.equal((await ask(`/api/sessions/${id}`)).status, 200);
});

it("POST /api/run sums usage over all model calls and counts the calls", async (t) => {
  const { run } = await startApi(t, {
    steps: [callTools(["echo", { text: "a" }]), callTools(["echo", { text: "b" }]), say("done")],
    agent: { tools: [echoTool] },
  });
  const { usage, iterations } = (await run({ message: "work" })).json() as { usage: typeof USAGE; iterations: number };
  assert.deepEqual(usage, { prompt_tokens: 30, completion_tokens: 15, total_tokens: 45, cost: 0 });
  assert.equal(iterations, 3);
});

it("POST /api/run returns finish_reason length at the iteration limit", async (t) => {
  const { run } = await startApi(t, {
    scripted: { fallback: callTools(["echo", { text: "again" }]) },
    agent: { tools: [echoTool], maxIterations: 2 },
  });
  const body = (await run({ message: "loop" })).json() as Record<string, unknown>;
  assert.deepEqual([body["finish_reason"], body["iterations"]], ["length", 2]);
});

it("POST /api/run ignores the content type, and accepts chunked bodies and Expect: 100-continue", async (t) => {
  const { url, run } = await startApi(t);
  for (const type of [
    "application/x-www-form-urlencoded",
    "text/plain",
    "application/octet-stream",
    "nonsense",
    "multipart/form-data",
  ])
    assert.equal((await run({ message: "hi" }, { "content-type": type })).status, 200, type);
  assert.equal((await run({ message: "hi" })).status, 200, "none");
  const chunked = await exchange(
    url,
    'POST /api/run HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{"message":"hi"}\r\n0\r\n\r\n',
  );
  assert.match(chunked, /^HTTP\/1\.1 200 /);
  assert.equal((await run({ message: "hi" }, { expect: "100-continue" })).status, 200);
});

it("POST /api/run ignores unknown fields and treats empty strings as absent", async (t) => {
  const { run } = await startApi(t);
  const body = {
    message: "hi",
    provider: "",
    model: "",
    session_id: "",
    files: [],
    stream: false,
    extra: { a: [1] },
    __proto__x: 1,
  };
  assert.equal((await run(body)).status, 200);
  assert.equal(
    (await run('{"message":"hi","prototype":{"stream":true},"constructor":1}')).headers["content-type"],
    "application/json",
  );
});

const BAD_BODIES: [body: string, status: number, error: string][] = [
  ["", 400, "invalid request body"],
  ["{", 400, "invalid request body"],
  ["[]", 400, "invalid request body"],
  ["null", 400, "invalid request body"],
  ["7", 400, "invalid request body"],
  ['"message"', 400, "invalid request body"],
  // Parsing this body would block the event loop for a second.
  [`{"message":"x",${Array.from({ length: 400_000 }, (_, i) => `"k${i}":1`).join()}}`, 400, "invalid request body"],
  ["message=hi", 400, "invalid request body"],
  ['{"message":"hi"} trailing', 400, "invalid request body"],
  [`{"message":"hi","x":${"[".repeat(64)}${"]".repeat(64)}}`, 400, "invalid request body"],
  ["[".repeat(200_000), 400, "invalid request body"],
  ["{}", 400, "message is required"],
  ['{"message":""}', 400, "message is required"],
  ['{"message":"  \\n"}', 400, "message is required"],
  ['{"message":null}', 400, "message is required"],
  ['{"message":7}', 400, "message is required"],
  ['{"message":["hi"]}', 400, "message is required"],
  ['{"__proto__":{"message":"hi"}}', 400, "invalid request body"],
  ['{"message":"hi","__proto__":{"stream":true}}', 400, "invalid request body"],
  ['{"message":"hi","provider":7}', 400, "invalid field: provider"],
  ['{"message":"hi","model":{}}', 400, "invalid field: model"],
  ['{"message":"hi","session_id":false}', 400, "invalid field: session_id"],
  ['{"message":"hi","session_id":null}', 400, "invalid field: session_id"],
  ['{"message":"hi","files":"a.txt"}', 400, "invalid field: files"],
  ['{"message":"hi","files":[1]}', 400, "invalid field: files"],
  ['{"message":"hi","files":[["a"]]}', 400, "invalid field: files"],
  ['{"message":"hi","files":{"length":1}}', 400, "invalid field: files"],
  ['{"message":"hi","stream":"true"}', 400, "invalid field: stream"],
  ['{"message":"hi","stream":1}', 400, "invalid field: stream"],
  ['{"message":"hi","session_id":"nope"}', 404, "session not found"],
  ['{"message":"hi","session_id":"../../etc/passwd"}', 404, "session not found"],
  ['{"message":"hi","provider":"nope","model":"nope"}', 400, "model selection failed: "],
];

it("POST /api/run rejects each invalid body with its own error, plain and streamed, and starts no run", async (t) => {
  const { run, provider, send: ask } = await startApi(t);
  for (const [body, status, error] of BAD_BODIES) {
    for (const text of [body, body.replace(/^\{(?=")/, '{"stream":true,')]) {
      if (text !== body && /"stream"/.test(body)) continue;
      const answer = await run(text);
      assert.equal(answer.status, status, text.slice(0, 80));
      const reportedError = (answer.json() as { error: string }).error;
      assert.ok(
        error.endsWith(": ") ? reportedError.startsWith(error) : reportedError === error,
        `${text.slice(0, 80)}: ${reportedError}`,
      );
      assert.equal(answer.headers["content-type"], "application/json");
    }
  }
  assert.equal(provider.requests.length, 0);
  assert.equal(((await ask("/api/sessions")).json() as { total: number }).total, 0);
});

it("POST /api/run accepts JSON at the nesting limit", async (t) => {
  const { run } = await startApi(t);
  assert.equal((await run(`{"message":"hi","x":${"[".repeat(63)}${"]".repeat(63)}}`)).status, 200);
});

it("POST /api/run rejects invalid UTF-8 and preserves valid UTF-8", async (t) => {
  const { url, run, provider } = await startApi(t);
  const broken = Buffer.concat([Buffer.from('{"message":"'), Buffer.from([0xc3, 0x28]), Buffer.from('"}')]);
  const answer = await send(url, "/api/run", { body: broken });
  assert.deepEqual([answer.status, answer.json()], [400, { error: "invalid request body", code: "invalid_body" }]);
  assert.equal((await run({ message: "grüße 🎉 𝕏" })).status, 200);
  assert.deepEqual(provider.requests[0]?.messages.at(-1)?.parts, [{ type: "text", text: "grüße 🎉 𝕏" }]);
});

it("POST /api/run returns 413 for a body over the limit, with or without Content-Length", async (t) => {
  const { run, url } = await startApi(t, { http: { maxBodyBytes: 1000 } });
  const large = JSON.stringify({ message: "x".repeat(2000) });
  const answer = await run(large);
  assert.deepEqual([answer.status, answer.json()], [413, { error: "request body too large", code: "body_too_large" }]);
  const chunked = await exchange(
    url,
    `POST /api/run HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n${large.length.toString(16)}\r\n${large}\r\n0\r\n\r\n`,
  );
  assert.match(chunked, /^HTTP\/1\.1 413 [\s\S]*request body too large/);
  const { length } = JSON.stringify({ message: "" });
  assert.equal((await run({ message: "x".repeat(1000 - length) })).status, 200, "exactly the limit");
  assert.equal((await run({ message: "x".repeat(1001 - length) })).status, 413);
});

it("POST /api/run returns 415 for a body with Content-Encoding gzip", async (t) => {
  const { run } = await startApi(t);
  assert.equal((await run({ message: "hi" }, { "content-encoding": "gzip" })).status, 415);
  assert.equal((await run({ message: "hi" }, { "content-encoding": "identity" })).status, 200);
});

it("POST /api/run returns 500 with the provider's message for a failed run, and keeps its session", async (t) => {
  const { run, send: ask } = await startApi(t, {
    steps: [new ProviderError("scripted", "server", "it burns", { status: 502 })],
  });
  const { status, headers, json } = await run({ message: "hi" });
  assert.deepEqual([status, json()], [500, { error: "scripted: 502: it burns", code: "provider" }]);
  const { messages } = (await ask(`/api/sessions/${String(headers["x-session-id"])}/messages`)).json() as {
    messages: { role: string }[];
  };
  assert.equal(messages[0]?.role, "user");
});

it("an unexpected failure returns 500 without details and is logged", async (t) => {
  const api = await startApi(t);
  api.driver.list = () => Promise.reject(new Error("secret detail"));
  const { status, json } = await api.send("/api/sessions");
  assert.deepEqual([status, json()], [500, { error: "internal error", code: "internal" }]);
  assert.ok(api.log.some((line) => line.startsWith("error") && line.includes("secret detail")));
  const failing = await startApi(t, { steps: [new TypeError("secret bug")] });
  const answer = await failing.run({ message: "hi" });
  assert.equal(answer.status, 500);
  assert.doesNotMatch(answer.text, /TypeError|\.ts:/);
});

it("POST /api/run returns 409 with Retry-After for a busy session", async (t) => {
  const { run, agent } = await startApi(t, { steps: [{ hang: true }] });
  const cancel = new AbortController();
  const running = await agent.run({ message: "hi", signal: cancel.signal });
  for (const stream of [true, false]) {
    const { status, headers, json } = await run({ message: "me too", session_id: running.sessionId, stream });
    assert.deepEqual([status, json()], [409, { error: "session is busy", code: "session_busy" }]);
    assert.match(String(headers["retry-after"]), /^[1-9]\d*$/);
  }
  cancel.abort();
  await running.result.catch(() => undefined);
});

it("POST /api/run returns 503 with Retry-After over the limit of concurrent runs", async (t) => {
  const { run, agent } = await startApi(t, { steps: [{ hang: true }], agent: { concurrentRuns: 1 } });
  const cancel = new AbortController();
  const running = await agent.run({ message: "hi", signal: cancel.signal });
  const { status, headers, json } = await run({ message: "me too" });
  assert.deepEqual([status, json()], [503, { error: "too many concurrent runs", code: "too_many_runs" }]);
  assert.match(String(headers["retry-after"]), /^[1-9]\d*$/);
  cancel.abort();
  await running.result.catch(() => undefined);
});

it("POST /api/run returns 504 if no model is available within the time limit", async (t) => {
  const { run } = await startApi(t, {
    scripted: { models: [], list: () => new Promise<never>(() => undefined) },
    agent: { modelTimeoutMs: 30 },
  });
  const { status, json } = await run({ message: "hi" });
  const { detail, ...otherFields } = json() as Record<string, unknown>;
  assert.deepEqual([status, otherFields], [504, { error: "timed out selecting model", code: "model_timeout" }]);
  assert.match(String(detail), /^scripted: /);
});

it("POST /api/run returns 400 if the project folder does not exist", async (t) => {
  const { run } = await startApi(t, { agent: { projectDir: "/no/such/folder" } });
  const { status, json } = await run({ message: "hi" });
  assert.deepEqual([status, json()], [400, { error: "project folder not found", code: "project_folder" }]);
});

it("POST /api/run with session_id continues the conversation of that session", async (t) => {
  const { run, provider } = await startApi(t, { steps: ["first answer", "second answer"] });
  const first = await run({ message: "one" });
  const id = String(first.headers["x-session-id"]);
  const second = await run({ message: "two", session_id: id });
  assert.equal(second.headers["x-session-id"], id);
  const texts = provider.requests[1]?.messages.map(({ parts }) => (parts[0] as { text: string }).text);
  assert.deepEqual(texts, ["one", "first answer", "two"]);
});

it("POST /api/run uses the requested provider and model, and rejects an unknown model", async (t) => {
  const models = ["m1", "m2"].map((id) => ({ id, name: id, ownedBy: "x" }));
  const { run } = await startApi(t, { scripted: { models } });
  assert.equal((await run({ message: "hi", provider: "scripted", model: "m2" })).headers["x-model"], "scripted/m2");
  assert.equal((await run({ message: "hi", model: "m2" })).headers["x-model"], "scripted/m2");
  const unknown = await run({ message: "hi", provider: "scripted", model: "m3" });
  assert.equal(unknown.status, 400);
  assert.match((unknown.json() as { error: string }).error, /^model selection failed: /);
});

it("X-Model encodes a model id that is not a valid header value", async (t) => {
  const { run } = await startApi(t, { scripted: { models: [{ id: "mödel\r\nX: 1 ü", name: "x", ownedBy: "x" }] } });
  const { status, headers } = await run({ message: "hi" });
  assert.equal(status, 200);
  assert.equal(headers["x"], undefined);
  assert.match(String(headers["x-model"]), /^scripted\/m%C3%B6del/);
});

it("unknown paths return 404; known paths with another method return 405 with Allow", async (t) => {
  const { send: ask } = await startApi(t);
  for (const path of [
    "/",
    "/api",
    "/api/",
    "/api/nope",
    "/api/health/",
    "/api/Health",
    "/api/sessions/a/b",
    "/api/sessions/a/messages/b",
    "//api/health",
    "/api/run/x",
    "/apihealth",
    "/%61pi/health",
  ]) {
    for (const method of ["GET", "POST", "DELETE", "PATCH"]) {
      const { status, json } = await ask(path, { method });
      assert.deepEqual([status, json()], [404, { error: "not found", code: "not_found" }], `${method} ${path}`);
    }
  }
  const allowed: [path: string, allow: string[]][] = [
    ["/api/health", ["GET", "HEAD", "OPTIONS"]],
    ["/api/models", ["GET", "HEAD", "OPTIONS"]],
    ["/api/run", ["OPTIONS", "POST"]],
    ["/api/sessions", ["GET", "HEAD", "OPTIONS"]],
    ["/api/sessions/x", ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH"]],
    ["/api/sessions/x/messages", ["GET", "HEAD", "OPTIONS"]],
    ["/api/sessions/x/events", ["GET", "HEAD", "OPTIONS"]],
    ["/api/sessions/x/cancel", ["OPTIONS", "POST"]],
    ["/api/sessions/x/steer", ["OPTIONS", "POST"]],
    ["/api/runs", ["GET", "HEAD", "OPTIONS"]],
    ["/api/runs/x", ["GET", "HEAD", "OPTIONS"]],
    ["/api/runs/x/cancel", ["OPTIONS", "POST"]],
    ["/api/asks", ["GET", "HEAD", "OPTIONS"]],
    ["/api/asks/x", ["GET", "HEAD", "OPTIONS", "POST"]],
  ];
  for (const [path, allow] of allowed) {
    for (const method of ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "TRACE"].filter(
      (method) => !allow.includes(method),
    )) {
      const { status, headers, text } = await ask(path, { method });
      assert.equal(status, 405, `${method} ${path}`);
      assert.deepEqual(String(headers["allow"]).split(", ").sort(), allow);
      if (method !== "HEAD")
        assert.deepEqual(JSON.parse(text), { error: "method not allowed", code: "method_not_allowed" });
    }
  }
});

it("HEAD returns the headers of GET without a body", async (t) => {
  const { send: ask } = await startApi(t);
  const get = await ask("/api/models");
  const head = await ask("/api/models", { method: "HEAD" });
  assert.deepEqual([head.status, head.text], [200, ""]);
  assert.equal(head.headers["content-length"], get.headers["content-length"]);
  assert.equal(head.headers["content-type"], "application/json");
  assert.equal((await ask("/api/nope", { method: "HEAD" })).status, 404);
});

it("every JSON response has exactly the content type application/json", async (t) => {
  const { send: ask, run } = await startApi(t);
  const answers = [
    await ask("/api/health"),
    await ask("/api/models"),
    await ask("/api/sessions"),
    await ask("/api/sessions/x"),
    await ask("/api/nope"),
    await ask("/api/run"),
    await run("{"),
    await run({ message: "hi" }),
    await ask("/api/sessions?page=0"),
    await ask("/api/health", { headers: { host: "evil.example" } }),
  ];
  for (const { headers } of answers) assert.equal(headers["content-type"], "application/json");
});

it("malformed session ids return 404, and the server stays usable", async (t) => {
  const { send: ask } = await startApi(t);
  const ids = [
    "..",
    ".",
    "a%2fb",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "%",
    "%zz",
    "%c3%28",
    "%00",
    "a%00b",
    "%0d%0aX:1",
    "*",
    "'%20or%201=1--",
    "x".repeat(10_000),
    "%F0%9F%8E%89",
    "__proto__",
    "constructor",
    "a;b",
    ":id",
    "%25",
  ];
  for (const id of ids) {
    for (const [path, method] of [
      [`/api/sessions/${id}`, "GET"],
      [`/api/sessions/${id}`, "DELETE"],
      [`/api/sessions/${id}/messages`, "GET"],
    ] as const) {
      const { status, json } = await ask(path, { method });
      assert.deepEqual(
        [status, json()],
        [404, { error: "session not found", code: "session_not_found" }],
        `${method} ${path.slice(0, 60)}`,
      );
    }
  }
  assert.equal((await ask(`/api/sessions/${"x".repeat(20_000)}`)).status, 431);
  assert.equal((await ask("/api/health")).status, 200);
});

it("GET /api/sessions/{id} returns every field of an empty session", async (t) => {
  const { agent, send: ask } = await startApi(t);
  const empty = await agent.sessions.create();
  const wire = (await ask(`/api/sessions/${empty.id}`)).json() as Record<string, unknown>;
  assert.deepEqual(wire, {
    id: empty.id,
    title: empty.title,
    provider: "",
    model: "",
    reasoning_effort: "",
    project_dir: agent.projectDir,
    parent_id: "",
    created_at: empty.createdAt,
    updated_at: empty.updatedAt,
    usage: { ...USAGE, prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
    mode: "auto",
  });
  assert.match(String(wire["created_at"]), TIMESTAMP);
  assert.match(empty.title, /^New Session /);
});

it("GET /api/sessions/{id}/messages returns every field for each role", async (t) => {
  const { run, send: ask } = await startApi(t, {
    steps: [
      [
        { type: "reasoning", block: "r", text: "Let me see." },
        { type: "text", block: "t", text: "I echo." },
        ...callTools(["echo", '{"text":"a"}', "call_x"]),
      ],
      "Done.",
    ],
    agent: { tools: [echoTool] },
  });
  const id = String((await run({ message: "echo a" })).headers["x-session-id"]);
  const { messages } = (await ask(`/api/sessions/${id}/messages`)).json() as { messages: Record<string, unknown>[] };
  const otherFields = messages.map(({ id: messageId, created_at, ...fields }) => {
    assert.equal(typeof messageId, "string");
    assert.match(String(created_at), TIMESTAMP);
    return fields;
  });
  const none = { session_id: id, reasoning: null, name: "", tool_call_id: "", tool_calls: [] };
  assert.deepEqual(otherFields, [
    { ...none, seq: 1, role: "user", content: "echo a" },
    {
      ...none,
      seq: 2,
      role: "assistant",
      content: "I echo.",
      reasoning: "Let me see.",
      tool_calls: [{ id: "call_x", type: "function", function: { name: "echo", arguments: '{"text":"a"}' } }],
    },
    { ...none, seq: 3, role: "tool", content: "echo: a", name: "echo", tool_call_id: "call_x" },
    { ...none, seq: 4, role: "assistant", content: "Done." },
  ]);
});

it("GET /api/sessions/{id}/messages pages by seq, supports view=model, and rejects invalid parameters", async (t) => {
  const { run, send: ask } = await startApi(t);
  const id = String((await run({ message: "1" })).headers["x-session-id"]);
  await run({ message: "3", session_id: id });
  const seqs = async (query: string) => {
    const { status, json } = await ask(`/api/sessions/${id}/messages${query}`);
    assert.equal(status, 200, query);
    return (json() as { messages: { seq: number }[] }).messages.map(({ seq }) => seq);
  };
  assert.deepEqual(await seqs(""), [1, 2, 3, 4]);
  assert.deepEqual(await seqs("?after=2"), [3, 4]);
  assert.deepEqual(await seqs("?after=1&limit=2"), [2, 3]);
  assert.deepEqual(await seqs("?limit=1"), [1]);
  assert.deepEqual(await seqs("?before=4&limit=2"), [2, 3]);
  assert.deepEqual(await seqs("?after=99999999999999999999999"), []);
  assert.deepEqual(await seqs("?limit=99999999999999999999999"), [1, 2, 3, 4]);
  assert.deepEqual(await seqs("?view=model"), [1, 2, 3, 4]);
  assert.deepEqual(await seqs("?view=model&after=3"), [4]);
  for (const [query, name] of [
    ["?after=x", "after"],
    ["?after=-1", "after"],
    ["?limit=0", "limit"],
    ["?limit=1.5", "limit"],
    ["?view=none", "view"],
    ["?limit=1&limit=2", "limit"],
  ]) {
    const { status, json } = await ask(`/api/sessions/${id}/messages${query}`);
    assert.deepEqual([status, json()], [400, { error: `invalid query parameter: ${name}`, code: "invalid_query" }]);
  }
});

it("DELETE /api/sessions/{id} removes the session and ends its active run with session_deleted", async (t) => {
  const { agent, run, send: ask } = await startApi(t, { steps: ["done", { hang: true }] });
  const id = String((await run({ message: "hi" })).headers["x-session-id"]);
  const deleted = await ask(`/api/sessions/${id}`, { method: "DELETE" });
  assert.deepEqual([deleted.status, deleted.json()], [200, { status: "deleted" }]);
  assert.equal((await ask(`/api/sessions/${id}`)).status, 404);
  assert.equal((await ask(`/api/sessions/${id}`, { method: "DELETE" })).status, 404);
  const started = new Promise<string>((resolve) => agent.on("run.started", ({ sessionId }) => resolve(sessionId)));
  const running = run({ message: "hang" });
  const hanging = await started;
  assert.equal((await ask(`/api/sessions/${hanging}`, { method: "DELETE" })).status, 200);
  const { status, json } = await running;
  assert.deepEqual([status, json()], [500, { error: "session deleted", code: "session_deleted" }]);
});

async function fill(api: Api, count: number): Promise<Session[]> {
  const createdSessions: Session[] = [];
  for (let i = 0; i < count; i++) createdSessions.push(await api.agent.sessions.create({ title: `Title ${i}` }));
  return createdSessions;
}

it("GET /api/sessions pages newest first, without overlap", async (t) => {
  const api = await startApi(t);
  const createdSessions = await fill(api, 45);
  const list = async (query: string) =>
    (await api.send(`/api/sessions${query}`)).json() as {
      sessions: { id: string }[];
      total: number;
      page: number;
      size: number;
    };
  const first = await list("");
  assert.deepEqual([first.total, first.page, first.size, first.sessions.length], [45, 1, 20, 20]);
  const ids = [first, await list("?page=2"), await list("?page=3")].flatMap(({ sessions }) =>
    sessions.map(({ id }) => id),
  );
  assert.deepEqual(ids, createdSessions.map(({ id }) => id).reverse());
  assert.equal((await list("?size=1000")).size, 100);
  assert.equal((await list("?size=1000")).sessions.length, 45);
  assert.deepEqual((await list("?page=99")).sessions, []);
  assert.deepEqual((await list("?page=99999999999999999999&size=100")).sessions, []);
  assert.equal((await list("?page=2&size=44")).sessions.length, 1);
});

it("GET /api/sessions filters by folder and title", async (t) => {
  const api = await startApi(t);
  await api.agent.sessions.create({ title: "Fix the parser" });
  await api.agent.sessions.create({ title: "Other", projectDir: "/" });
  const titles = async (query: string) =>
    ((await api.send(`/api/sessions${query}`)).json() as { sessions: { title: string }[] }).sessions.map(
      ({ title }) => title,
    );
  assert.deepEqual(await titles("?search=PARSER"), ["Fix the parser"]);
  assert.deepEqual(await titles("?search=%25"), []);
  assert.deepEqual(await titles("?project_dir=/"), ["Other"]);
  assert.deepEqual(await titles(`?project_dir=${encodeURIComponent(`${api.agent.projectDir}/`)}`), ["Fix the parser"]);
  assert.deepEqual(await titles("?project_dir=/nowhere"), []);
  assert.deepEqual((await titles("?project_dir=&search=")).length, 2);
});

it("GET /api/sessions rejects a page or size that is not a positive integer", async (t) => {
  const { send: ask } = await startApi(t);
  for (const value of ["0", "-1", "1.5", "x", "", "1e3", "0x10", "%201", "NaN", "+1", "1&page=2", "9".repeat(500)]) {
    const { status, json } = await ask(`/api/sessions?page=${value}`);
    assert.deepEqual([status, json()], [400, { error: "invalid query parameter: page", code: "invalid_query" }], value);
  }
  assert.deepEqual((await ask("/api/sessions?size=0")).json(), {
    error: "invalid query parameter: size",
    code: "invalid_query",
  });
});

it("POST /api/run lists unknown fields, encoded and shortened, in X-Ignored-Fields", async (t) => {
  const { run } = await startApi(t);
  assert.equal((await run({ message: "hi", stream: false })).headers["x-ignored-fields"], undefined);
  const misspelt = await run({ message: "hi", sessionId: "x", "a\r\nb: c": 1 });
  assert.equal(misspelt.status, 200);
  assert.equal(misspelt.headers["x-ignored-fields"], "sessionId, a%0D%0Ab:%20c");
  const many = await run({
    message: "hi",
    ...Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`${i}${"x".repeat(99)}`, i])),
  });
  assert.ok(String(many.headers["x-ignored-fields"]).length < 1000);
});

it("POST /api/run loads files only with a free run slot, and limits the attachment bytes of all runs together", async (t) => {
  const { path, at } = await tempDir(t, { "a.bin": Buffer.alloc(600, 255) });
  const { run, agent } = await startApi(t, {
    steps: [{ hang: true }, { hang: true }],
    agent: { projectDir: path, concurrentRuns: 2, attachmentBytes: 1000 },
  });
  const body = { message: "hi", files: ["a.bin"] };
  const leave = new AbortController();
  const first = await agent.run({
    message: "hold",
    attach: async (reserve) => (reserve(600), []),
    signal: leave.signal,
  });
  const { status, headers, json } = await run(body);
  assert.deepEqual([status, json()], [503, { error: "too many attachments at once", code: "too_many_runs" }]);
  assert.equal(headers["retry-after"], "1");
  const second = await agent.run({ message: "hold", signal: leave.signal });
  // No slot is free, so the missing file is not even looked up.
  const full = await run({ message: "hi", files: [at("none")] });
  assert.deepEqual([full.status, full.json()], [503, { error: "too many concurrent runs", code: "too_many_runs" }]);
  leave.abort();
  await Promise.allSettled([first.result, second.result]);
  assert.equal((await run(body)).status, 200, "room again");
});

it("usage costs are summed without floating-point drift", async (t) => {
  const once = say("ok", { cost: 0.0002825, costReported: true });
  const { run, send: ask } = await startApi(t, { steps: Array.from({ length: 10 }, () => once) });
  let id: string | undefined;
  for (let n = 0; n < 10; n += 1) {
    const answer = await run({ message: "hi", ...(id === undefined ? {} : { session_id: id }) });
    assert.equal((answer.json() as { usage: { cost: number } }).usage.cost, 0.0002825);
    id = String(answer.headers["x-session-id"]);
  }
  const session = (await ask(`/api/sessions/${id}`)).json() as { usage: { cost: number } };
  assert.equal(session.usage.cost, 0.002825);
});

it("GET /api/sessions/{id} of a follow-up returns the root session's id in X-Session-Id", async (t) => {
  const { driver, run, send: ask } = await startApi(t);
  const root = String((await run({ message: "hi" })).headers["x-session-id"]);
  const original = await driver.get(root);
  assert.ok(original);
  await driver.create({
    session: {
      ...original,
      id: "follow-up",
      alias: "",
      lastSeq: original.lastSeq,
      chain: { root, index: 1 },
    },
  });
  assert.equal((await ask("/api/sessions/follow-up")).headers["x-session-id"], root);
  assert.equal((await ask(`/api/sessions/${root}`)).headers["x-session-id"], root);
});
