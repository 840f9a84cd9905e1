import assert from "node:assert/strict";
import { it } from "node:test";
import { ProviderError, type Session } from "gantry";
import { callTools, say } from "gantry/testing";
import { createGate } from "../../helpers/gate.js";
import { exchangeText, sendRawRequest } from "../../helpers/raw-http.js";
import { tempDir } from "../../helpers/temp-dir.js";
import { startApi, type TestApi } from "../../helpers/http-api.js";
import { echoTextTool } from "../../helpers/http-api-tools.js";

const USAGE = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15, cost: 0 };
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

it("GET /api/health returns ok and the version while the model listing is pending", async (t) => {
  const pendingListing = new Promise<never>(() => undefined);
  const { agent, send: sendRequest } = await startApi(t, {
    providerOptions: { models: [], list: () => pendingListing },
  });
  const { status, headers, json } = await sendRequest("/api/health");
  assert.equal(status, 200);
  assert.deepEqual(json(), { status: "ok", version: agent.version });
  assert.equal(headers["content-type"], "application/json");
});

it("GET /api/models lists provider, id, name and owner", async (t) => {
  const { send: sendRequest } = await startApi(t);
  const { status, json } = await sendRequest("/api/models");
  assert.equal(status, 200);
  assert.deepEqual(json(), {
    models: [{ provider: "scripted", model: { id: "scripted-1", name: "Scripted 1", owned_by: "scripted" } }],
  });
});

it("GET /api/models waits for the first model listing, and omits a provider that fails", async (t) => {
  const model = { id: "late", name: "Late", ownedBy: "x" };
  const listingGate = createGate();
  const waitingApi = await startApi(t, {
    providerOptions: { models: [], list: async () => (await listingGate.wait(), [model]) },
  });
  const response = waitingApi.send("/api/models");
  await listingGate.firstWait;
  listingGate.open();
  assert.deepEqual((await response).json(), {
    models: [{ provider: "scripted", model: { id: "late", name: "Late", owned_by: "x" } }],
  });
  const failingApi = await startApi(t, {
    providerOptions: { models: [], list: () => Promise.reject(new Error("down")) },
  });
  assert.deepEqual((await failingApi.send("/api/models")).json(), { models: [] });
});

it("POST /api/run returns exactly output, usage, iterations and finish_reason", async (t) => {
  const { postRun, send: sendRequest } = await startApi(t, { steps: ["Hello."] });
  const { status, headers, json } = await postRun({ message: "hi" });
  assert.equal(status, 200);
  assert.deepEqual(json(), { output: "Hello.", usage: USAGE, iterations: 1, finish_reason: "stop" });
  assert.equal(headers["content-type"], "application/json");
  assert.equal(headers["x-model"], "scripted/scripted-1");
  const id = String(headers["x-session-id"]);
  assert.equal((await sendRequest(`/api/sessions/${id}`)).status, 200);
});

it("POST /api/run sums usage over all model calls and counts the calls", async (t) => {
  const { postRun } = await startApi(t, {
    steps: [callTools(["echo", { text: "a" }]), callTools(["echo", { text: "b" }]), say("done")],
    agent: { tools: [echoTextTool] },
  });
  const { usage, iterations } = (await postRun({ message: "work" })).json() as {
    usage: typeof USAGE;
    iterations: number;
  };
  assert.deepEqual(usage, { prompt_tokens: 30, completion_tokens: 15, total_tokens: 45, cost: 0 });
  assert.equal(iterations, 3);
});

it("POST /api/run returns finish_reason length at the iteration limit", async (t) => {
  const { postRun } = await startApi(t, {
    providerOptions: { fallback: callTools(["echo", { text: "again" }]) },
    agent: { tools: [echoTextTool], maxIterations: 2 },
  });
  const body = (await postRun({ message: "loop" })).json() as Record<string, unknown>;
  assert.deepEqual([body["finish_reason"], body["iterations"]], ["length", 2]);
});

it("POST /api/run ignores the content type, and accepts chunked bodies and Expect: 100-continue", async (t) => {
  const { url, postRun } = await startApi(t);
  for (const contentType of [
    "application/x-www-form-urlencoded",
    "text/plain",
    "application/octet-stream",
    "nonsense",
    "multipart/form-data",
  ])
    assert.equal((await postRun({ message: "hi" }, { "content-type": contentType })).status, 200, contentType);
  assert.equal((await postRun({ message: "hi" })).status, 200, "none");
  const chunkedResponse = await exchangeText(
    url,
    'POST /api/run HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{"message":"hi"}\r\n0\r\n\r\n',
  );
  assert.match(chunkedResponse, /^HTTP\/1\.1 200 /);
  assert.equal((await postRun({ message: "hi" }, { expect: "100-continue" })).status, 200);
});

it("POST /api/run ignores unknown fields and treats empty strings as absent", async (t) => {
  const { postRun } = await startApi(t);
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
  assert.equal((await postRun(body)).status, 200);
  assert.equal(
    (await postRun('{"message":"hi","prototype":{"stream":true},"constructor":1}')).headers["content-type"],
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

it("POST /api/run rejects each invalid body with its error, plain and streamed, and starts no run", async (t) => {
  const { postRun, provider, send: sendRequest } = await startApi(t);
  for (const [body, status, error] of BAD_BODIES) {
    // The second text adds `stream: true` to bodies that are objects.
    for (const text of [body, body.replace(/^\{(?=")/, '{"stream":true,')]) {
      if (text !== body && /"stream"/.test(body)) continue;
      const response = await postRun(text);
      assert.equal(response.status, status, text.slice(0, 80));
      const reportedError = (response.json() as { error: string }).error;
      assert.ok(
        error.endsWith(": ") ? reportedError.startsWith(error) : reportedError === error,
        `${text.slice(0, 80)}: ${reportedError}`,
      );
      assert.equal(response.headers["content-type"], "application/json");
    }
  }
  assert.equal(provider.requests.length, 0);
  assert.equal(((await sendRequest("/api/sessions")).json() as { total: number }).total, 0);
});

it("POST /api/run accepts JSON at the nesting limit", async (t) => {
  const { postRun } = await startApi(t);
  // With the outer object, the 63 arrays reach the limit of 64 levels.
  assert.equal((await postRun(`{"message":"hi","x":${"[".repeat(63)}${"]".repeat(63)}}`)).status, 200);
});

it("POST /api/run rejects invalid UTF-8 and preserves valid UTF-8", async (t) => {
  const { url, postRun, provider } = await startApi(t);
  const invalidUtf8Body = Buffer.concat([Buffer.from('{"message":"'), Buffer.from([0xc3, 0x28]), Buffer.from('"}')]);
  const response = await sendRawRequest(url, "/api/run", { body: invalidUtf8Body });
  assert.deepEqual([response.status, response.json()], [400, { error: "invalid request body", code: "invalid_body" }]);
  assert.equal((await postRun({ message: "grüße 🎉 𝕏" })).status, 200);
  assert.deepEqual(provider.requests[0]?.messages.at(-1)?.parts, [{ type: "text", text: "grüße 🎉 𝕏" }]);
});

it("POST /api/run returns 413 for a body over the limit, with or without Content-Length", async (t) => {
  const { postRun, url } = await startApi(t, { http: { maxBodyBytes: 1000 } });
  const oversizedBody = JSON.stringify({ message: "x".repeat(2000) });
  const response = await postRun(oversizedBody);
  assert.deepEqual(
    [response.status, response.json()],
    [413, { error: "request body too large", code: "body_too_large" }],
  );
  const chunkedResponse = await exchangeText(
    url,
    `POST /api/run HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n${oversizedBody.length.toString(16)}\r\n${oversizedBody}\r\n0\r\n\r\n`,
  );
  assert.match(chunkedResponse, /^HTTP\/1\.1 413 [\s\S]*request body too large/);
  const bodyOverhead = JSON.stringify({ message: "" }).length;
  assert.equal((await postRun({ message: "x".repeat(1000 - bodyOverhead) })).status, 200, "exactly the limit");
  assert.equal((await postRun({ message: "x".repeat(1001 - bodyOverhead) })).status, 413);
});

it("POST /api/run returns 415 for a body with Content-Encoding gzip", async (t) => {
  const { postRun } = await startApi(t);
  assert.equal((await postRun({ message: "hi" }, { "content-encoding": "gzip" })).status, 415);
  assert.equal((await postRun({ message: "hi" }, { "content-encoding": "identity" })).status, 200);
});

it("POST /api/run returns 500 with the provider's message for a failed run, and keeps its session", async (t) => {
  const { postRun, send: sendRequest } = await startApi(t, {
    steps: [new ProviderError("scripted", "server", "it burns", { status: 502 })],
  });
  const { status, headers, json } = await postRun({ message: "hi" });
  assert.deepEqual([status, json()], [500, { error: "scripted: 502: it burns", code: "provider" }]);
  const { messages } = (await sendRequest(`/api/sessions/${String(headers["x-session-id"])}/messages`)).json() as {
    messages: { role: string }[];
  };
  assert.equal(messages[0]?.role, "user");
});

it("an unexpected failure returns 500 without details and is logged", async (t) => {
  const api = await startApi(t);
  api.driver.list = () => Promise.reject(new Error("secret detail"));
  const { status, json } = await api.send("/api/sessions");
  assert.deepEqual([status, json()], [500, { error: "internal error", code: "internal" }]);
  assert.ok(api.logLines.some((line) => line.startsWith("error") && line.includes("secret detail")));
  const failingApi = await startApi(t, { steps: [new TypeError("secret bug")] });
  const response = await failingApi.postRun({ message: "hi" });
  assert.equal(response.status, 500);
  assert.doesNotMatch(response.text, /TypeError|\.ts:/);
});

it("POST /api/run returns 409 with Retry-After for a busy session", async (t) => {
  const { postRun, agent } = await startApi(t, { steps: [{ hang: true }] });
  const runAbort = new AbortController();
  const activeRun = await agent.run({ message: "hi", signal: runAbort.signal });
  for (const stream of [true, false]) {
    const { status, headers, json } = await postRun({ message: "me too", session_id: activeRun.sessionId, stream });
    assert.deepEqual([status, json()], [409, { error: "session is busy", code: "session_busy" }]);
    assert.match(String(headers["retry-after"]), /^[1-9]\d*$/);
  }
  runAbort.abort();
  await activeRun.result.catch(() => undefined);
});

it("POST /api/run returns 503 with Retry-After over the limit of concurrent runs", async (t) => {
  const { postRun, agent } = await startApi(t, { steps: [{ hang: true }], agent: { concurrentRuns: 1 } });
  const runAbort = new AbortController();
  const activeRun = await agent.run({ message: "hi", signal: runAbort.signal });
  const { status, headers, json } = await postRun({ message: "me too" });
  assert.deepEqual([status, json()], [503, { error: "too many concurrent runs", code: "too_many_runs" }]);
  assert.match(String(headers["retry-after"]), /^[1-9]\d*$/);
  runAbort.abort();
  await activeRun.result.catch(() => undefined);
});

it("POST /api/run returns 504 if no model is available within the time limit", async (t) => {
  const { postRun } = await startApi(t, {
    providerOptions: { models: [], list: () => new Promise<never>(() => undefined) },
    agent: { modelTimeoutMs: 30 },
  });
  const { status, json } = await postRun({ message: "hi" });
  const { detail, ...otherFields } = json() as Record<string, unknown>;
  assert.deepEqual([status, otherFields], [504, { error: "timed out selecting model", code: "model_timeout" }]);
  assert.match(String(detail), /^scripted: /);
});

it("POST /api/run returns 400 if the project folder does not exist", async (t) => {
  const { postRun } = await startApi(t, { agent: { projectDir: "/no/such/folder" } });
  const { status, json } = await postRun({ message: "hi" });
  assert.deepEqual([status, json()], [400, { error: "project folder not found", code: "project_folder" }]);
});

it("POST /api/run with session_id continues the conversation of that session", async (t) => {
  const { postRun, provider } = await startApi(t, { steps: ["first answer", "second answer"] });
  const firstResponse = await postRun({ message: "one" });
  const id = String(firstResponse.headers["x-session-id"]);
  const secondResponse = await postRun({ message: "two", session_id: id });
  assert.equal(secondResponse.headers["x-session-id"], id);
  const texts = provider.requests[1]?.messages.map(({ parts }) => (parts[0] as { text: string }).text);
  assert.deepEqual(texts, ["one", "first answer", "two"]);
});

it("POST /api/run uses the requested provider and model, and rejects an unknown model", async (t) => {
  const models = ["m1", "m2"].map((id) => ({ id, name: id, ownedBy: "x" }));
  const { postRun } = await startApi(t, { providerOptions: { models } });
  assert.equal((await postRun({ message: "hi", provider: "scripted", model: "m2" })).headers["x-model"], "scripted/m2");
  assert.equal((await postRun({ message: "hi", model: "m2" })).headers["x-model"], "scripted/m2");
  const response = await postRun({ message: "hi", provider: "scripted", model: "m3" });
  assert.equal(response.status, 400);
  assert.match((response.json() as { error: string }).error, /^model selection failed: /);
});

it("X-Model encodes a model id that is not a valid header value", async (t) => {
  const { postRun } = await startApi(t, {
    providerOptions: { models: [{ id: "mödel\r\nX: 1 ü", name: "x", ownedBy: "x" }] },
  });
  const { status, headers } = await postRun({ message: "hi" });
  assert.equal(status, 200);
  assert.equal(headers["x"], undefined);
  assert.match(String(headers["x-model"]), /^scripted\/m%C3%B6del/);
});

it("unknown paths return 404; known paths with another method return 405 with Allow", async (t) => {
  const { send: sendRequest } = await startApi(t);
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
      const { status, json } = await sendRequest(path, { method });
      assert.deepEqual([status, json()], [404, { error: "not found", code: "not_found" }], `${method} ${path}`);
    }
  }
  const cases: [path: string, allowedMethods: string[]][] = [
    ["/api/health", ["GET", "HEAD", "OPTIONS"]],
    ["/api/models", ["GET", "HEAD", "OPTIONS"]],
    ["/api/run", ["OPTIONS", "POST"]],
    ["/api/sessions", ["GET", "HEAD", "OPTIONS"]],
    ["/api/sessions/x", ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH"]],
    ["/api/sessions/x/messages", ["GET", "HEAD", "OPTIONS"]],
    ["/api/sessions/x/events", ["GET", "HEAD", "OPTIONS"]],
    ["/api/sessions/x/cancel", ["OPTIONS", "POST"]],
    ["/api/sessions/x/steer", ["OPTIONS", "POST"]],
    ["/api/sessions/x/background", ["OPTIONS", "POST"]],
    ["/api/runs", ["GET", "HEAD", "OPTIONS"]],
    ["/api/runs/x", ["GET", "HEAD", "OPTIONS"]],
    ["/api/runs/x/cancel", ["OPTIONS", "POST"]],
    ["/api/asks", ["GET", "HEAD", "OPTIONS"]],
    ["/api/asks/x", ["GET", "HEAD", "OPTIONS", "POST"]],
  ];
  for (const [path, allowedMethods] of cases) {
    for (const method of ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "TRACE"].filter(
      (method) => !allowedMethods.includes(method),
    )) {
      const { status, headers, text } = await sendRequest(path, { method });
      assert.equal(status, 405, `${method} ${path}`);
      assert.deepEqual(String(headers["allow"]).split(", ").sort(), allowedMethods);
      if (method !== "HEAD")
        assert.deepEqual(JSON.parse(text), { error: "method not allowed", code: "method_not_allowed" });
    }
  }
});

it("HEAD returns the headers of GET without a body", async (t) => {
  const { send: sendRequest } = await startApi(t);
  const getResponse = await sendRequest("/api/models");
  const headResponse = await sendRequest("/api/models", { method: "HEAD" });
  assert.deepEqual([headResponse.status, headResponse.text], [200, ""]);
  assert.equal(headResponse.headers["content-length"], getResponse.headers["content-length"]);
  assert.equal(headResponse.headers["content-type"], "application/json");
  assert.equal((await sendRequest("/api/nope", { method: "HEAD" })).status, 404);
});

it("every JSON response has exactly the content type application/json", async (t) => {
  const { send: sendRequest, postRun } = await startApi(t);
  const responses = [
    await sendRequest("/api/health"),
    await sendRequest("/api/models"),
    await sendRequest("/api/sessions"),
    await sendRequest("/api/sessions/x"),
    await sendRequest("/api/nope"),
    await sendRequest("/api/run"),
    await postRun("{"),
    await postRun({ message: "hi" }),
    await sendRequest("/api/sessions?page=0"),
    await sendRequest("/api/health", { headers: { host: "evil.example" } }),
  ];
  for (const { headers } of responses) assert.equal(headers["content-type"], "application/json");
});

it("malformed session ids return 404, and the server stays usable", async (t) => {
  const { send: sendRequest } = await startApi(t);
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
      const { status, json } = await sendRequest(path, { method });
      assert.deepEqual(
        [status, json()],
        [404, { error: "session not found", code: "session_not_found" }],
        `${method} ${path.slice(0, 60)}`,
      );
    }
  }
  // The request line exceeds the 16 KiB that Node.js accepts for the request head.
  assert.equal((await sendRequest(`/api/sessions/${"x".repeat(20_000)}`)).status, 431);
  assert.equal((await sendRequest("/api/health")).status, 200);
});

it("GET /api/sessions/{id} returns every field of an empty session", async (t) => {
  const { agent, send: sendRequest } = await startApi(t);
  const emptySession = await agent.sessions.create();
  const wireSession = (await sendRequest(`/api/sessions/${emptySession.id}`)).json() as Record<string, unknown>;
  assert.deepEqual(wireSession, {
    id: emptySession.id,
    title: emptySession.title,
    provider: "",
    model: "",
    reasoning_effort: "",
    project_dir: agent.projectDir,
    parent_id: "",
    created_at: emptySession.createdAt,
    updated_at: emptySession.updatedAt,
    usage: { ...USAGE, prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
    mode: "auto",
  });
  assert.match(String(wireSession["created_at"]), TIMESTAMP);
  assert.match(emptySession.title, /^New Session /);
});

it("GET /api/sessions/{id}/messages returns every field for each role", async (t) => {
  const { postRun, send: sendRequest } = await startApi(t, {
    steps: [
      [
        { type: "reasoning", block: "r", text: "Let me see." },
        { type: "text", block: "t", text: "I echo." },
        ...callTools(["echo", '{"text":"a"}', "call_x"]),
      ],
      "Done.",
    ],
    agent: { tools: [echoTextTool] },
  });
  const id = String((await postRun({ message: "echo a" })).headers["x-session-id"]);
  const { messages } = (await sendRequest(`/api/sessions/${id}/messages`)).json() as {
    messages: Record<string, unknown>[];
  };
  const otherFields = messages.map(({ id: messageId, created_at, ...fields }) => {
    assert.equal(typeof messageId, "string");
    assert.match(String(created_at), TIMESTAMP);
    return fields;
  });
  const commonFields = { session_id: id, reasoning: null, name: "", tool_call_id: "", tool_calls: [] };
  assert.deepEqual(otherFields, [
    { ...commonFields, seq: 1, role: "user", content: "echo a" },
    {
      ...commonFields,
      seq: 2,
      role: "assistant",
      content: "I echo.",
      reasoning: "Let me see.",
      tool_calls: [{ id: "call_x", type: "function", function: { name: "echo", arguments: '{"text":"a"}' } }],
    },
    { ...commonFields, seq: 3, role: "tool", content: "echo: a", name: "echo", tool_call_id: "call_x" },
    { ...commonFields, seq: 4, role: "assistant", content: "Done." },
  ]);
});

it("GET /api/sessions/{id}/messages pages by seq, supports view=model, and rejects invalid parameters", async (t) => {
  const { postRun, send: sendRequest } = await startApi(t);
  const id = String((await postRun({ message: "1" })).headers["x-session-id"]);
  await postRun({ message: "3", session_id: id });
  const readSeqs = async (query: string) => {
    const { status, json } = await sendRequest(`/api/sessions/${id}/messages${query}`);
    assert.equal(status, 200, query);
    return (json() as { messages: { seq: number }[] }).messages.map(({ seq }) => seq);
  };
  assert.deepEqual(await readSeqs(""), [1, 2, 3, 4]);
  assert.deepEqual(await readSeqs("?after=2"), [3, 4]);
  assert.deepEqual(await readSeqs("?after=1&limit=2"), [2, 3]);
  assert.deepEqual(await readSeqs("?limit=1"), [1]);
  assert.deepEqual(await readSeqs("?before=4&limit=2"), [2, 3]);
  assert.deepEqual(await readSeqs("?after=99999999999999999999999"), []);
  assert.deepEqual(await readSeqs("?limit=99999999999999999999999"), [1, 2, 3, 4]);
  assert.deepEqual(await readSeqs("?view=model"), [1, 2, 3, 4]);
  assert.deepEqual(await readSeqs("?view=model&after=3"), [4]);
  for (const [query, name] of [
    ["?after=x", "after"],
    ["?after=-1", "after"],
    ["?limit=0", "limit"],
    ["?limit=1.5", "limit"],
    ["?view=none", "view"],
    ["?limit=1&limit=2", "limit"],
  ]) {
    const { status, json } = await sendRequest(`/api/sessions/${id}/messages${query}`);
    assert.deepEqual([status, json()], [400, { error: `invalid query parameter: ${name}`, code: "invalid_query" }]);
  }
});

it("DELETE /api/sessions/{id} removes the session and ends its active run with session_deleted", async (t) => {
  const { agent, postRun, send: sendRequest } = await startApi(t, { steps: ["done", { hang: true }] });
  const id = String((await postRun({ message: "hi" })).headers["x-session-id"]);
  const deletedResponse = await sendRequest(`/api/sessions/${id}`, { method: "DELETE" });
  assert.deepEqual([deletedResponse.status, deletedResponse.json()], [200, { status: "deleted" }]);
  assert.equal((await sendRequest(`/api/sessions/${id}`)).status, 404);
  assert.equal((await sendRequest(`/api/sessions/${id}`, { method: "DELETE" })).status, 404);
  const runStarted = new Promise<string>((resolve) => agent.on("run.started", ({ sessionId }) => resolve(sessionId)));
  const activeRun = postRun({ message: "hang" });
  const hangingSessionId = await runStarted;
  assert.equal((await sendRequest(`/api/sessions/${hangingSessionId}`, { method: "DELETE" })).status, 200);
  const { status, json } = await activeRun;
  assert.deepEqual([status, json()], [500, { error: "session deleted", code: "session_deleted" }]);
});

async function createSessions(api: TestApi, count: number): Promise<Session[]> {
  const createdSessions: Session[] = [];
  for (let i = 0; i < count; i++) createdSessions.push(await api.agent.sessions.create({ title: `Title ${i}` }));
  return createdSessions;
}

it("GET /api/sessions pages newest first, without overlap", async (t) => {
  const api = await startApi(t);
  const createdSessions = await createSessions(api, 45);
  const listSessions = async (query: string) =>
    (await api.send(`/api/sessions${query}`)).json() as {
      sessions: { id: string }[];
      total: number;
      page: number;
      size: number;
    };
  const firstResponse = await listSessions("");
  assert.deepEqual(
    [firstResponse.total, firstResponse.page, firstResponse.size, firstResponse.sessions.length],
    [45, 1, 20, 20],
  );
  const ids = [firstResponse, await listSessions("?page=2"), await listSessions("?page=3")].flatMap(({ sessions }) =>
    sessions.map(({ id }) => id),
  );
  assert.deepEqual(ids, createdSessions.map(({ id }) => id).reverse());
  assert.equal((await listSessions("?size=1000")).size, 100);
  assert.equal((await listSessions("?size=1000")).sessions.length, 45);
  assert.deepEqual((await listSessions("?page=99")).sessions, []);
  assert.deepEqual((await listSessions("?page=99999999999999999999&size=100")).sessions, []);
  assert.equal((await listSessions("?page=2&size=44")).sessions.length, 1);
});

it("GET /api/sessions filters by folder and title", async (t) => {
  const api = await startApi(t);
  await api.agent.sessions.create({ title: "Fix the parser" });
  await api.agent.sessions.create({ title: "Other", projectDir: "/" });
  const readTitles = async (query: string) =>
    ((await api.send(`/api/sessions${query}`)).json() as { sessions: { title: string }[] }).sessions.map(
      ({ title }) => title,
    );
  assert.deepEqual(await readTitles("?search=PARSER"), ["Fix the parser"]);
  assert.deepEqual(await readTitles("?search=%25"), []);
  assert.deepEqual(await readTitles("?project_dir=/"), ["Other"]);
  assert.deepEqual(await readTitles(`?project_dir=${encodeURIComponent(`${api.agent.projectDir}/`)}`), [
    "Fix the parser",
  ]);
  assert.deepEqual(await readTitles("?project_dir=/nowhere"), []);
  assert.deepEqual((await readTitles("?project_dir=&search=")).length, 2);
});

it("GET /api/sessions rejects a page or size that is not a positive integer", async (t) => {
  const { send: sendRequest } = await startApi(t);
  for (const value of ["0", "-1", "1.5", "x", "", "1e3", "0x10", "%201", "NaN", "+1", "1&page=2", "9".repeat(500)]) {
    const { status, json } = await sendRequest(`/api/sessions?page=${value}`);
    assert.deepEqual([status, json()], [400, { error: "invalid query parameter: page", code: "invalid_query" }], value);
  }
  assert.deepEqual((await sendRequest("/api/sessions?size=0")).json(), {
    error: "invalid query parameter: size",
    code: "invalid_query",
  });
});

it("POST /api/run lists unknown fields, encoded and shortened, in X-Ignored-Fields", async (t) => {
  const { postRun } = await startApi(t);
  assert.equal((await postRun({ message: "hi", stream: false })).headers["x-ignored-fields"], undefined);
  const response = await postRun({ message: "hi", sessionId: "x", "a\r\nb: c": 1 });
  assert.equal(response.status, 200);
  assert.equal(response.headers["x-ignored-fields"], "sessionId, a%0D%0Ab:%20c");
  const manyFieldsResponse = await postRun({
    message: "hi",
    ...Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`${i}${"x".repeat(99)}`, i])),
  });
  assert.ok(String(manyFieldsResponse.headers["x-ignored-fields"]).length < 1000);
});

it("POST /api/run loads files only with a free run slot, and limits the attachment bytes of all runs together", async (t) => {
  const { path, at } = await tempDir(t, { "a.bin": Buffer.alloc(600, 255) });
  const { postRun, agent } = await startApi(t, {
    steps: [{ hang: true }, { hang: true }],
    agent: { projectDir: path, concurrentRuns: 2, attachmentBytes: 1000 },
  });
  const body = { message: "hi", files: ["a.bin"] };
  const runsAbort = new AbortController();
  const firstRun = await agent.run({
    message: "hold",
    attach: async (reserve) => (reserve(600), []),
    signal: runsAbort.signal,
  });
  const { status, headers, json } = await postRun(body);
  assert.deepEqual([status, json()], [503, { error: "too many attachments at once", code: "too_many_runs" }]);
  assert.equal(headers["retry-after"], "1");
  const secondRun = await agent.run({ message: "hold", signal: runsAbort.signal });
  // Without a free slot the run fails before the missing file is read.
  const noSlotResponse = await postRun({ message: "hi", files: [at("none")] });
  assert.deepEqual(
    [noSlotResponse.status, noSlotResponse.json()],
    [503, { error: "too many concurrent runs", code: "too_many_runs" }],
  );
  runsAbort.abort();
  await Promise.allSettled([firstRun.result, secondRun.result]);
  assert.equal((await postRun(body)).status, 200, "the bytes of ended runs are available again");
});

it("usage costs are summed without floating-point drift", async (t) => {
  const costStep = say("ok", { cost: 0.0002825, costReported: true });
  const { postRun, send: sendRequest } = await startApi(t, { steps: Array.from({ length: 10 }, () => costStep) });
  let id: string | undefined;
  for (let runNumber = 0; runNumber < 10; runNumber += 1) {
    const response = await postRun({ message: "hi", ...(id === undefined ? {} : { session_id: id }) });
    assert.equal((response.json() as { usage: { cost: number } }).usage.cost, 0.0002825);
    id = String(response.headers["x-session-id"]);
  }
  const session = (await sendRequest(`/api/sessions/${id}`)).json() as { usage: { cost: number } };
  assert.equal(session.usage.cost, 0.002825);
});

it("GET /api/sessions/{id} of a follow-up returns the root session's id in X-Session-Id", async (t) => {
  const { driver, postRun, send: sendRequest } = await startApi(t);
  const rootId = String((await postRun({ message: "hi" })).headers["x-session-id"]);
  const rootSession = await driver.get(rootId);
  assert.ok(rootSession);
  await driver.create({
    session: {
      ...rootSession,
      id: "follow-up",
      alias: "",
      lastSeq: rootSession.lastSeq,
      chain: { root: rootId, index: 1 },
    },
  });
  assert.equal((await sendRequest("/api/sessions/follow-up")).headers["x-session-id"], rootId);
  assert.equal((await sendRequest(`/api/sessions/${rootId}`)).headers["x-session-id"], rootId);
});
