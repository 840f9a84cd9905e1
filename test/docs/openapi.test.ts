import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import { defineTool, MemoryDriver } from "gantry";
import type { McpLoginErrorCode, McpServerManager } from "gantry/plugin";
import { callTools, type ScriptedStep } from "gantry/testing";
import { createTokenValue, hashToken, writeTokenFile } from "../../src/http/token-file.js";
import { checkEvent, checkExchange, listDocumentedOperations, observedOperations } from "../helpers/api-contract.js";
import { EventPage, readSessionEvents, type WireEvent } from "../helpers/event-page.js";
import { createGate, createWaitTool } from "../helpers/gate.js";
import { waitUntil } from "../helpers/server-runs.js";
import { tempDir, type Hooks } from "../helpers/temp-dir.js";
import { startApi, type TestApi } from "../helpers/http-api.js";
import { editTool, failTool } from "../helpers/http-api-tools.js";
import { REWIND_BODIES, useRewinds } from "../helpers/rewind-requests.js";
import { useWorktrees, WORKTREE_BODIES } from "../helpers/worktree-project.js";

const readJson = async (file: string) =>
  JSON.parse(await readFile(new URL(`../../${file}`, import.meta.url), "utf8")) as Record<string, unknown>;

describe("GET /api/openapi.json", () => {
  it("returns docs/openapi.json, and a third-party validator accepts it", async (t) => {
    const api = await startApi(t);
    const { status, headers, json } = await api.send("/api/openapi.json");
    assert.deepEqual([status, headers["content-type"]], [200, "application/json"]);
    const document = json() as { info: object };
    const { info, ...withoutInfo } = await readJson("docs/openapi.json");
    assert.deepEqual(document, { ...withoutInfo, info: { ...(info as object), version: api.agent.version } });
    const { valid, errors } = await new Validator().validate(document);
    assert.deepEqual([valid, errors], [true, undefined]);
  });

  it("returns 401 without a required header", async (t) => {
    const api = await startApi(t, { http: { requiredHeaders: { "X-Key": "k" } } });
    assert.equal((await api.send("/api/openapi.json")).status, 401);
    assert.equal((await api.send("/api/openapi.json", { headers: { "x-key": "k" } })).status, 200);
  });
});

describe("the Budget schema of docs/openapi.json", () => {
  it("has the limits that POST /api/run enforces", async (t) => {
    const { components } = (await readJson("docs/openapi.json")) as {
      components: { schemas: Record<string, { properties: Record<string, { type: string; maximum: number }> }> };
    };
    const { properties } = components.schemas["Budget"]!;
    assert.deepEqual(Object.keys(properties), ["usd", "tokens", "seconds"]);
    const { postRun } = await startApi(t);
    const requestBudget = async (key: string, amount: number) => {
      const { status, text } = await postRun({ message: "hi", stream: false, budget: { [key]: amount } });
      return status === 200 ? 200 : text;
    };
    for (const [key, { type, maximum }] of Object.entries(properties)) {
      const invalidField = `{"error":"invalid field: budget.${key}","code":"invalid_field"}`;
      // The model in this test has no known price, so a run with a budget in USD is rejected.
      if (key !== "usd") assert.equal(await requestBudget(key, maximum), 200, key);
      assert.equal(await requestBudget(key, maximum + 1), invalidField);
      assert.equal(await requestBudget(key, 0), invalidField);
      assert.equal((await requestBudget(key, 999.5)) === invalidField, type === "integer", key);
    }
  });
});

describe("the check of API exchanges against docs/openapi.json", () => {
  it("rejects a request, response or event that the document does not contain", () => {
    const jsonHeaders = { "content-type": "application/json" };
    const healthExchange = { method: "GET", path: "/api/health", status: 200, headers: jsonHeaders };
    const text = '{"status":"ok","version":"1"}';
    checkExchange({ ...healthExchange, text });
    for (const fault of [
      { text: '{"status":"ok","version":"1","more":1}' },
      { text: '{"status":"fine","version":"1"}' },
      { text: '{"status":"ok"}' },
      { text: '{"error":"x","code":"x"}' },
      { status: 204 },
      { status: 400, text: '{"error":"x","code":"invalid_query"}' },
      { path: "/api/health?size=1" },
      { path: "/api/sessions?size=x" },
      { path: "/api/none" },
      { method: "POST" },
      { headers: { ...jsonHeaders, "x-run-id": "x" } },
      { headers: { "content-type": "text/html" } },
      { method: "HEAD" },
      { method: "POST", path: "/api/asks/x", body: '{"choice":1}' },
    ])
      assert.throws(
        () => checkExchange({ ...healthExchange, text, ...fault }),
        assert.AssertionError,
        JSON.stringify(fault),
      );
    const path = "/api/sessions/x/events";
    checkEvent("GET", path, 'event: rewind\nid: x\ndata: {"after":1}');
    for (const fault of [
      'event: rewind\ndata: {"after":-1}',
      'event: rewinds\ndata: {"after":1}',
      "event: deleted\ndata: 1",
    ])
      assert.throws(() => checkEvent("GET", path, fault), assert.AssertionError, fault);
    assert.throws(() => checkEvent("GET", "/api/sessions", 'event: rewind\ndata: {"after":1}'), assert.AssertionError);
  });

  it("sees each path, status and event of the document, except GET /api/models 500", async (t) => {
    for (const makeRequests of [
      runRequests,
      useRewinds,
      useWorktrees,
      watchSession,
      answerAsk,
      useMcpServers,
      sendRejectedRequests,
      useFailingStore,
      useSessionWork,
      useSlowModels,
      useStoppingServer,
    ])
      await makeRequests(t);
    assert.deepEqual(
      listDocumentedOperations().filter((entry) => !observedOperations.has(entry)),
      // The list of models never fails, whatever the providers or the store return.
      ["GET /api/models 500"],
    );
  });
});

/** A body that each operation with a body accepts. */
const OPERATION_BODIES: Readonly<Record<string, object>> = {
  "POST /api/run": { message: "x" },
  "POST /api/sessions/{id}/steer": { message: "x" },
  "POST /api/sessions/{id}/background": {},
  "POST /api/mcp-servers/{id}/login": {},
  "POST /api/asks/{id}": {},
  "PATCH /api/sessions/{id}": {},
  ...REWIND_BODIES,
  ...WORKTREE_BODIES,
};

type OperationRequest = { method: string; path: string; body?: string };
const OPERATIONS: OperationRequest[] = [
  ...new Set(listDocumentedOperations().map((entry) => entry.split(" ").slice(0, 2).join(" "))),
].map((operation) => {
  const [method = "", path = ""] = operation.split(" ");
  const body = OPERATION_BODIES[`${method} ${path}`];
  return { method, path, ...(body !== undefined && { body: JSON.stringify(body) }) };
});

/** Sends a request for each operation with this id. */
async function sendEachOperation(api: TestApi, id: string, headers: Record<string, string> = {}): Promise<void> {
  for (const { method, path, body } of OPERATIONS)
    // An accepted request of this path is answered with a stream that does not end.
    await api.send(path.replace("{id}", id).replace(/^\/api\/events$/, "$&?can_answer=x"), {
      method,
      headers,
      ...(body !== undefined && { body }),
    });
}

const createJsonBody = (body: unknown) => ({ body: JSON.stringify(body) });

async function runRequests(t: Hooks): Promise<void> {
  const gate = createGate();
  const steps: ScriptedStep[] = [
    callTools(["edit", {}], ["fail", {}]),
    "one",
    "two",
    new Error("broken"),
    new Error("broken"),
    callTools(["wait", {}]),
    "waited",
    "queued",
  ];
  const api = await startApi(t, { steps, agent: { tools: [editTool, failTool, createWaitTool(gate)] } });
  const { headers } = await api.postRun({ message: "hi", made_up: 1 });
  const session_id = String(headers["x-session-id"]);
  await api.postRun({ message: "hi", session_id, stream: true }, { "idempotency-key": "k" });
  await api.postRun({ message: "other" }, { "idempotency-key": "k" });
  await api.postRun({ message: "fail", session_id, stream: true });
  await api.postRun({ message: "fail", session_id });
  const waitingRun = api.postRun({ message: "wait", session_id });
  await gate.firstWait;
  await api.postRun({ message: "busy", session_id });
  await api.postRun({ message: "line", session_id, queue: true, background: true });
  await api.send(`/api/sessions/${session_id}/steer`, createJsonBody({ message: "more" }));
  await api.send(`/api/sessions/${session_id}/background`, createJsonBody({ tool_call_id: "none" }));
  await api.send(`/api/sessions/${session_id}/cancel`, { method: "POST" });
  await waitingRun;
  await api.send(`/api/sessions/${session_id}/cancel`, { method: "POST" });
  const [run] = await api.agent.runs.list({ limit: 1 });
  await api.send(`/api/runs/${run!.id}/cancel`, { method: "POST" });
  await api.send(`/api/sessions/${session_id}/steer`, createJsonBody({ message: "late" }));
  await api.send(`/api/sessions/${session_id}/background`, createJsonBody({}));
  for (const path of ["health", "ready", "models", "openapi.json", "runs", `runs/${run!.id}`, "asks", "sessions"])
    await api.send(`/api/${path}`);
  for (const path of ["", "/messages"]) await api.send(`/api/sessions/${session_id}${path}`);
  await api.send("/api/search?query=hi");
  await api.send(`/api/sessions/${session_id}`, { method: "PATCH", ...createJsonBody({ title: "Mine" }) });
  await api.send(`/api/sessions/${session_id}`, { method: "DELETE" });
}

async function watchSession(t: Hooks): Promise<void> {
  const progressGate = createGate();
  const progressTool = defineTool({
    name: "chatty",
    description: "Prints, and waits.",
    run: async (_, { progress }) => {
      progress("printed\n");
      await progressGate.wait();
      return "done";
    },
  });
  // The second chunk waits until a message contains the first chunk. The end waits until a delta has the second chunk.
  const gates = [createGate(), createGate()] as const;
  const [firstChunk, secondChunk] = ["a", "b"].map((text) => ({ type: "text", block: "0", text: `${text} ` }) as const);
  const gatedChunks = [firstChunk!, gates[0].wait(), secondChunk!, gates[1].wait()];
  const api = await startApi(t, { steps: [callTools(["chatty", {}]), gatedChunks], agent: { tools: [progressTool] } });
  const { id } = await api.agent.sessions.create();
  // Each stream has the page of a client, and the names of its events.
  const createClient = () => ({ page: new EventPage(), eventTypes: new Set<string>() });
  const [single, shared] = [createClient(), createClient()];
  const clients = [single, shared];
  const apply = ({ page, eventTypes }: typeof single, event: WireEvent): void => {
    page.apply(event);
    eventTypes.add(event.type);
    if (clients.every((client) => client.eventTypes.has("tool_progress"))) progressGate.open();
    if (clients.every((client) => client.page.messages.at(-1)?.["content"] === "a ")) gates[0].open();
    if (clients.every((client) => client.eventTypes.has("delta"))) gates[1].open();
  };
  const watcher = (async () => {
    for await (const event of readSessionEvents(`${api.url}/api/sessions/${id}/events`)) apply(single, event);
  })();
  const sharedWatcher = (async () => {
    for await (const event of readSessionEvents(`${api.url}/api/events?watch=${id}&watch=none`)) {
      if (event.data.watch === 0) apply(shared, event);
      else shared.eventTypes.add(event.type);
      if (["deleted", "session_removed"].every((type) => shared.eventTypes.has(type))) break;
    }
  })();
  await api.postRun({ message: "hi", session_id: id });
  await waitUntil(() => clients.every(({ eventTypes }) => eventTypes.has("message_end")));
  const firstMessage = (await api.agent.sessions.messages(id))[0]!;
  await api.agent.sessions.revert(id, firstMessage.id);
  await waitUntil(() => clients.every(({ eventTypes }) => eventTypes.has("rewind")));
  await api.send(`/api/sessions/${id}/events?follow=false`);
  await api.send("/api/events", { method: "HEAD" });
  await api.agent.sessions.delete(id);
  await Promise.all([watcher, sharedWatcher]);
}

async function answerAsk(t: Hooks): Promise<void> {
  const permissions = { name: "strict", judge: () => ({ action: "ask", reason: "" }) as const };
  const steps = [callTools(["edit", {}]), "end"];
  const api = await startApi(t, { steps, agent: { tools: [editTool], permissions, unattended: "wait" } });
  const askingRun = api.postRun({ message: "hi" });
  let id: string | undefined;
  while (id === undefined) id = ((await api.send("/api/asks")).json() as { asks: { id: string }[] }).asks[0]?.id;
  await api.send(`/api/asks/${id}`);
  for (let n = 0; n < 2; n += 1) await api.send(`/api/asks/${id}`, createJsonBody({ choice: "allow" }));
  await askingRun;
}

/** Uses MCP servers whose login succeeds, fails, or is not possible. */
async function useMcpServers(t: Hooks): Promise<void> {
  const createError = (code: McpLoginErrorCode) => Object.assign(new Error(code), { code });
  const findServer = async (name: string) => {
    if (name === "program") throw createError("login_not_possible");
    if (name === "broken") throw createError("login_failed");
  };
  const manager: McpServerManager = {
    list: async () => [
      { name: "office", transport: "http", state: "idle", reason: "", toolCount: undefined, login: "possible" },
    ],
    beginLogin: async (name) => findServer(name).then(() => "https://login.example/"),
    finishLogin: () => Promise.reject(createError("login_expired")),
    logOut: async (name) => findServer(name === "broken" ? "" : name).then(() => true),
  };
  const mcpServerFactory = { source: () => assert.fail("no run uses a server"), manager: async () => manager };
  const api = await startApi(t, { agent: { mcpServerFactory }, http: { maxBodyBytes: 1000 } });
  await api.send("/api/mcp-servers");
  for (const name of ["office", "broken", "program"])
    for (const action of ["login", "logout"]) await api.send(`/api/mcp-servers/${name}/${action}`, createJsonBody({}));
  for (const body of ["x", `"${"x".repeat(2000)}"`]) await api.send("/api/mcp-servers/office/login", { body });
}

async function sendRejectedRequests(t: Hooks): Promise<void> {
  const api = await startApi(t, { http: { maxBodyBytes: 1000 } });
  await sendEachOperation(api, "none");
  await sendEachOperation(api, "none", { host: "evil.example" });
  await sendEachOperation(api, "none", { "content-encoding": "gzip" });
  await sendEachOperation(api, "none", { origin: api.url, "content-type": "text/plain" });
  for (const list of ["runs", "asks"])
    for (const query of ["session_id=none", "size=x"]) await api.send(`/api/${list}?${query}`);
  await api.send("/api/sessions?page=x");
  for (const path of ["commands", "git"])
    for (const query of ["session_id=none", "project_dir=none"]) await api.send(`/api/${path}?${query}`);
  const { headers } = await api.postRun({ message: "hi" });
  const id = String(headers["x-session-id"]);
  await api.postRun({ message: "hi", session_id: "none" });
  for (const path of ["messages?limit=x", "events?follow=x", "changes?size=x"])
    await api.send(`/api/sessions/${id}/${path}`);
  const [run] = await api.agent.runs.list();
  assert.ok(run);
  const openAsk = await createOpenAsk(t);
  for (const [server, method, path] of [
    [api, "POST", "/api/run"],
    [api, "PATCH", `/api/sessions/${id}`],
    [api, "POST", `/api/sessions/${id}/steer`],
    [api, "POST", `/api/sessions/${id}/background`],
    ...Object.keys({ ...REWIND_BODIES, ...WORKTREE_BODIES }).map(
      (name) => [api, "POST", name.slice(5).replace("{id}", id)] as const,
    ),
    [openAsk.api, "POST", `/api/asks/${openAsk.id}`],
  ] as const)
    for (const body of ["x", `"${"x".repeat(2000)}"`])
      for (const headers of [{}, { "content-encoding": "gzip" }] as Record<string, string>[])
        await server.send(path, { method, body, headers });
  const lockedApi = await startApi(t, { http: { requiredHeaders: { "X-Key": "k" } } });
  await sendEachOperation(lockedApi, "none");
  await sendTooManyRequests(t);
}

/** Sends each operation as a user who has made the only request of the minute. */
async function sendTooManyRequests(t: Hooks): Promise<void> {
  const tokenFile = (await tempDir(t)).at("tokens.json");
  const token = createTokenValue();
  const createdAt = new Date().toISOString();
  const user = { name: "ada", hash: hashToken(token), scopes: ["admin"], requestsPerMinute: 1, createdAt } as const;
  await writeTokenFile(tokenFile, [user]);
  const api = await startApi(t, { host: { tokenFile } });
  const send: TestApi["send"] = (path, request = {}) =>
    api.send(path, { ...request, headers: { ...request.headers, authorization: `Bearer ${token}` } });
  await send("/api/models");
  await sendEachOperation({ ...api, send }, "none");
}

/** Starts a run and waits for its ask, which stays open. */
async function createOpenAsk(t: Hooks): Promise<{ api: TestApi; id: string }> {
  const permissions = { name: "strict", judge: () => ({ action: "ask", reason: "" }) as const };
  const agent = { tools: [editTool], permissions, unattended: "wait" } as const;
  const api = await startApi(t, { steps: [callTools(["edit", {}]), "end"], agent, http: { maxBodyBytes: 1000 } });
  await api.postRun({ message: "hi", background: true });
  await waitUntil(async () => (await api.agent.asks.list()).length > 0);
  return { api, id: (await api.agent.asks.list())[0]!.id };
}

/** Sends each operation to a server whose store rejects all calls. */
async function useFailingStore(t: Hooks): Promise<void> {
  const failure = { isEnabled: false };
  const driver = new Proxy(new MemoryDriver(), {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      return (...callArguments: unknown[]) => {
        if (failure.isEnabled) return Promise.reject(new Error("the disk is gone"));
        return Reflect.apply(value, target, callArguments) as unknown;
      };
    },
  });
  const api = await startApi(t, { agent: { driver } });
  const { id } = await api.agent.sessions.create();
  failure.isEnabled = true;
  await sendEachOperation(api, id);
  for (const path of ["commands?", "git?", "files?", "files/content?path=x&"])
    await api.send(`/api/${path}session_id=${id}`);
  await api.send("/api/search?query=hi");
  failure.isEnabled = false;
}

/** Measures a context, runs commands of a person and previews files. The tool `bash` prints its command, or fails. */
async function useSessionWork(t: Hooks): Promise<void> {
  const bash = defineTool({
    name: "bash",
    description: "Print the command",
    schema: { type: "object", properties: { command: { type: "string" } }, required: ["command"] },
    run: ({ command }, { progress }) => {
      progress(command);
      return command === "fail" ? Promise.reject(new Error("failed")) : Promise.resolve(command);
    },
  });
  const gate = createGate();
  const api = await startApi(t, { steps: [[gate.wait()]], http: { maxBodyBytes: 1000 }, agent: { tools: [bash] } });
  const { id } = await api.agent.sessions.create();
  await api.send(`/api/sessions/${id}/context`);
  for (const path of ["package.json", "none"]) await api.send(`/api/files/content?path=${path}`);
  for (const query of ["limit=x", "session_id=none"]) await api.send(`/api/files?${query}`);
  const sendCommand = (body: object) => api.send(`/api/sessions/${id}/shell`, createJsonBody(body));
  for (const body of [
    { command: "x" },
    { command: "x", stream: true },
    { command: "fail", stream: true },
    { command: "" },
    { command: "x".repeat(2_000) },
  ])
    await sendCommand(body);
  const run = await api.agent.run({ message: "hi", sessionId: id });
  await sendCommand({ command: "x" });
  gate.open();
  await run.result;
}

/** Sends requests to a server for which no model becomes available in time. */
async function useSlowModels(t: Hooks): Promise<void> {
  const providerOptions = { models: [], list: () => new Promise<never>(() => undefined) };
  const api = await startApi(t, { providerOptions, agent: { modelTimeoutMs: 30 } });
  const { id } = await api.agent.sessions.create();
  await api.postRun({ message: "hi" });
  await api.send(`/api/sessions/${id}`, {
    method: "PATCH",
    ...createJsonBody({ provider: "scripted", model: "none" }),
  });
}

async function useStoppingServer(t: Hooks): Promise<void> {
  const stopGate = createGate();
  const api = await startApi(t, {
    steps: [callTools(["wait", {}]), "done"],
    agent: { tools: [createWaitTool(stopGate)] },
  });
  const lastRun = api.postRun({ message: "hi" });
  await stopGate.firstWait;
  const stopPromise = api.listening.stop(new AbortController().signal);
  await sendEachOperation(api, "none");
  stopGate.open();
  await Promise.all([lastRun, stopPromise]);
}
