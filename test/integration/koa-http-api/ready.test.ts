import assert from "node:assert/strict";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { it, type TestContext } from "node:test";
import { Agent, MemoryDriver } from "gantry";
import { LowdbJsonDriver } from "gantry/adapters/lowdb-json-driver";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { callTools, ScriptedProvider } from "gantry/testing";
import { gate, waitTool } from "../../helpers/gate.js";
import { lab, labConfig, stream, until } from "../../helpers/lab.js";
import { wire } from "../../helpers/http.js";
import { withOutages } from "../../helpers/outages.mjs";
import { startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp.js";
import { startApi, type Api } from "../../helpers/http-api.js";

const OUTAGES = fileURLToPath(new URL("../../helpers/outages.mjs", import.meta.url));
const UNREACHABLE = { code: "store_unreachable", message: "the session store cannot be reached" };
const SYNCING = { code: "models_syncing", message: "the lists of models are being fetched for the first time" };
const DRAINING = { code: "draining", message: "the server is about to stop" };
const notReady = (...reasons: object[]) => ({ error: "not ready", code: "not_ready", status: "not_ready", reasons });

/** Stops the clock of this process, which `src/base/clock.ts` reads. Returns a function that advances it. */
function stopClock(t: TestContext): (ms: number) => void {
  let seconds = process.uptime();
  t.mock.method(process, "uptime", () => seconds);
  return (ms) => void (seconds += ms / 1000);
}

/** The result of a check is cached for one second. After this time the next request checks again. */
const EXPIRED_MS = 1_001;

/** The response of `/api/ready`. */
async function readiness(api: Pick<Api, "send">): Promise<[status: number, body: unknown]> {
  const { status, json } = await api.send("/api/ready");
  return [status, json()];
}

it("GET and HEAD /api/ready return 200 if the store and the model lists are available; POST returns 405", async (t) => {
  const api = await startApi(t);
  const { status, headers, json } = await api.send("/api/ready");
  assert.equal(status, 200);
  assert.deepEqual(json(), { status: "ready", version: api.agent.version });
  assert.equal(headers["content-type"], "application/json");
  assert.equal(headers["cache-control"], "no-store");
  const head = await api.send("/api/ready", { method: "HEAD" });
  assert.deepEqual([head.status, head.text], [200, ""]);
  const { status: postStatus, headers: postHeaders } = await api.send("/api/ready", { method: "POST", body: "{}" });
  assert.deepEqual([postStatus, postHeaders["allow"]], [405, "GET, HEAD, OPTIONS"]);
});

it("the first /api/ready opens the store and lists models; /api/health does neither", async (t) => {
  let opened = 0;
  let listed = 0;
  class Counted extends MemoryDriver {
    override open(): Promise<void> {
      opened += 1;
      return super.open();
    }
  }
  const list = () => {
    listed += 1;
    return Promise.resolve([]);
  };
  const api = await startApi(t, { agent: { driver: new Counted() }, scripted: { models: [], list } });
  assert.equal((await api.send("/api/health")).status, 200);
  assert.deepEqual([opened, listed], [0, 0]);
  assert.equal((await api.send("/api/ready")).status, 200);
  assert.deepEqual([opened, listed], [1, 1]);
});

it("/api/ready returns 503 models_syncing during the first model listing, and 200 after that listing failed", async (t) => {
  const advance = stopClock(t);
  let fail: (why: Error) => void = () => undefined;
  const list = () => new Promise<never>((_resolve, reject) => (fail = reject));
  const api = await startApi(t, { scripted: { models: [], list } });
  const { status, headers, json } = await api.send("/api/ready");
  assert.deepEqual([status, json()], [503, notReady(SYNCING)]);
  assert.equal(headers["retry-after"], "1");
  assert.equal((await api.send("/api/health")).status, 200);
  fail(new Error("no list here"));
  advance(EXPIRED_MS);
  assert.deepEqual(await readiness(api), [200, { status: "ready", version: api.agent.version }]);
});

it("/api/ready returns 503 while the store fails or hangs, logs the failure once, and recovers", async (t) => {
  const advance = stopClock(t);
  let state: "" | "fail" | "hang" = "fail";
  const api = await startApi(t, { agent: { driver: withOutages(new MemoryDriver(), () => state) } });
  /** Changes the state of the store and lets the cached result expire. */
  const change = (next: typeof state): void => {
    state = next;
    advance(EXPIRED_MS);
  };
  for (let n = 0; n < 3; n++) {
    assert.deepEqual(await readiness(api), [503, notReady(UNREACHABLE)]);
    change("fail");
  }
  const warnings = () => api.log.filter((line) => line.includes("session store is unreachable"));
  assert.equal(warnings().length, 1, api.log.join("\n"));
  assert.match(warnings()[0] ?? "", /^warn session store is unreachable; reporting not ready.*ECONNREFUSED/);
  change("");
  assert.equal((await readiness(api))[0], 200);
  assert.equal(api.log.filter((line) => line.includes("session store is reachable again")).length, 1);
  change("hang");
  assert.deepEqual(await readiness(api), [503, notReady(UNREACHABLE)]);
  assert.equal((await api.send("/api/health")).status, 200);
  change("");
  assert.equal((await readiness(api))[0], 200);
});

it("50 concurrent requests to /api/ready query the store once, and the result is cached for one second", async (t) => {
  const advance = stopClock(t);
  let gets = 0;
  class Counted extends MemoryDriver {
    override readonly get: MemoryDriver["get"] = async (id) => {
      gets += 1;
      return super.get(id);
    };
  }
  const api = await startApi(t, { agent: { driver: new Counted() } });
  const answers = await Promise.all(Array.from({ length: 50 }, () => api.send("/api/ready")));
  assert.ok(answers.every(({ status }) => status === 200));
  assert.equal(gets, 1);
  advance(EXPIRED_MS - 2);
  assert.equal((await api.send("/api/ready")).status, 200);
  assert.equal(gets, 1, "the result is cached for a second");
  advance(2);
  assert.equal((await api.send("/api/ready")).status, 200);
  assert.equal(gets, 2, "the result has expired");
});

for (const [name, make] of [
  ["sqlite", (path: string) => new SqliteDriver({ path, durability: "normal" })],
  ["json", (path: string) => new LowdbJsonDriver({ path, durability: "normal" })],
] as const)
  it(`readiness() reports store_unreachable for an invalid path of ${name}, and recovers when the path is valid`, async (t) => {
    const advance = stopClock(t);
    const folder = await tempDir(t);
    // A file in place of a folder also stops root.
    await writeFile(folder.at("blocked"), "");
    const driver = make(folder.at("blocked/sessions"));
    const agent = new Agent({ providers: [new ScriptedProvider([])], driver });
    t.after(() => agent.close());
    assert.deepEqual(await agent.readiness(), { ready: false, reasons: [UNREACHABLE] });
    await rm(folder.at("blocked"));
    await mkdir(folder.at("blocked"));
    advance(EXPIRED_MS);
    assert.deepEqual(await agent.readiness(), { ready: true, reasons: [] });
    assert.equal((await agent.sessions.list()).total, 0);
  });

it("a draining agent still runs prompts, and /api/ready returns 503 draining", async (t) => {
  const api = await startApi(t, { steps: ["Hello."] });
  assert.equal((await api.send("/api/ready")).status, 200);
  api.agent.drain();
  const { status, json } = await api.send("/api/ready");
  assert.deepEqual([status, json()], [503, notReady(DRAINING)]);
  assert.equal((await api.run({ message: "hi" })).status, 200);
});

it("a stopping transport reports draining while its agent is ready; agent.refuseNew() makes the agent draining", async (t) => {
  const open = gate();
  const api = await startApi(t, { steps: [callTools(["wait", {}])], agent: { tools: [waitTool(open)] } });
  const run = api.run({ message: "hi" });
  await open.reached;
  const stopped = api.listening.stop(new AbortController().signal);
  const { status, json } = await api.send("/api/ready");
  assert.deepEqual([status, json()], [503, notReady(DRAINING)]);
  assert.equal((await api.agent.readiness()).ready, true);
  api.agent.refuseNew();
  assert.deepEqual(await api.agent.readiness(), { ready: false, reasons: [DRAINING] });
  // `gantry serve` does the same with the port. From then on all other requests are rejected.
  api.host.refuseNew();
  const refused = await api.send("/api/sessions");
  assert.deepEqual([refused.status, refused.json()], [503, { error: "server shutting down", code: "shutting_down" }]);
  assert.equal((await api.send("/api/health")).status, 503);
  open.open();
  await Promise.all([run, stopped]);
});

it("readiness() with an aborted signal rejects with its reason while the store hangs", async (t) => {
  let state: "" | "hang" = "";
  const agent = new Agent({
    providers: [new ScriptedProvider([])],
    driver: withOutages(new MemoryDriver(), () => state),
  });
  t.after(() => agent.close());
  await agent.open();
  state = "hang";
  await assert.rejects(agent.readiness(AbortSignal.abort(new Error("no patience"))), /no patience/);
});

it("open_probes exempts GET and HEAD of the probes from required headers, but not from Host and Origin checks", async (t) => {
  const requiredHeaders = { Authorization: "Bearer key" };
  const closed = await startApi(t, { http: { requiredHeaders } });
  for (const path of ["/api/health", "/api/ready"]) {
    const { status, json } = await closed.send(path);
    assert.deepEqual(
      [status, json()],
      [401, { error: "missing required header: Authorization", code: "unauthorized" }],
    );
    assert.equal((await closed.send(path, { headers: { authorization: "Bearer key" } })).status, 200);
  }
  const open = await startApi(t, { http: { requiredHeaders, openProbes: true } });
  for (const path of ["/api/health", "/api/ready"])
    for (const [method, status] of [
      ["GET", 200],
      ["HEAD", 200],
      ["POST", 401],
      ["DELETE", 401],
    ] as const)
      assert.equal((await open.send(path, { method })).status, status, `${method} ${path}`);
  for (const path of ["/api/sessions", "/api/ready/", "/api/ready/x", "/api/models", "/api/READY"])
    assert.equal((await open.send(path)).status, 401, path);
  assert.equal((await open.send("/api/ready?x=1")).status, 200);

  // Without authentication, a foreign Host or page is rejected as before.
  const unlocked = await startApi(t, { http: { openProbes: true } });
  const foreign: Record<string, string>[] = [{ host: "evil.example" }, { origin: "https://evil.example" }];
  for (const headers of foreign)
    assert.equal((await unlocked.send("/api/ready", { headers })).status, 403, JSON.stringify(headers));
});

it("a stopping server returns 503 draining for /api/ready on an open connection", async (t) => {
  const models = await lab(t, { fallback: { say: [{ text: "Hm" }, { stall: true }] } });
  const server = await startServer(t, { config: labConfig(models) });
  const probe = await wire(server.url);
  const ask = async (path: string) => {
    probe.received = "";
    probe.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    return (await probe.until(/^HTTP\/1\.1 (\d+)[^]*?\r\n\r\n(.*)$/)).slice(1);
  };
  // The server answers 503 until it has fetched its lists of models.
  await until(async () => (await ask("/api/ready"))[0] === "200");
  const run = await stream(server, { message: "talk" });
  await run.text(1);
  server.child.kill("SIGTERM");
  // The run keeps the server running for 2 s.
  let answer: string[] = [];
  await until(async () => (answer = await ask("/api/ready"))[0] === "503");
  assert.deepEqual(JSON.parse(answer[1] ?? ""), notReady(DRAINING));
  assert.deepEqual(await server.exited, { code: 0, signal: null });
});

it("drain_delay: SIGTERM keeps serving with 503 on /api/ready until the delay or a second signal; SIGINT exits", async (t) => {
  const models = await lab(t);
  const start = (delay: number) =>
    startServer(t, { config: labConfig(models, { server: { drain_delay: delay, open_probes: true } }) });
  // The delay of the first server ends only with a second signal, the delay of the second server after a moment.
  const server = await start(3_600);
  await until(async () => (await server.fetch("/api/ready")).status === 200);
  server.child.kill("SIGTERM");
  await until(async () => (await server.fetch("/api/ready")).status === 503);
  const response = await server.fetch("/api/ready");
  assert.deepEqual([response.status, await response.json()], [503, notReady(DRAINING)]);
  assert.equal((await server.fetch("/api/health")).status, 200);
  const run = await server.fetch("/api/run", { method: "POST", body: JSON.stringify({ message: "still" }) });
  assert.equal(run.status, 200, "it keeps serving");
  server.child.kill("SIGTERM");
  assert.deepEqual(await server.exited, { code: 1, signal: null });

  const brief = await start(0.1);
  assert.deepEqual(await brief.stop("SIGTERM"), { code: 0, signal: null });
  assert.match(brief.stderr, /draining for 0\.1 s/);

  // A user who stops the server by hand does not want to wait.
  const byHand = await start(3_600);
  assert.deepEqual(await byHand.stop("SIGINT"), { code: 0, signal: null });
});

it("a server without its store returns 503 on every route, logs the cause fewer than 10 times, and recovers", async (t) => {
  const models = await lab(t);
  const server = await startServer(t, { config: labConfig(models, { session: { driver: OUTAGES } }) });
  const away = join(server.home, "away");
  const first = await server.fetch("/api/run", { method: "POST", body: JSON.stringify({ message: "hi" }) });
  assert.equal(first.status, 200, server.stderr);
  const id = first.headers.get("x-session-id") ?? "";
  await writeFile(away, "fail");
  await until(async () => (await server.fetch("/api/ready")).status === 503);
  const routes: [method: string, path: string, body?: object][] = [
    ["POST", "/api/run", { message: "hi" }],
    ["POST", "/api/run", { message: "hi", stream: true }],
    ["POST", "/api/run", { message: "hi", session_id: id, queue: true }],
    ["POST", "/api/run", { message: "hi", background: true }],
    ["GET", "/api/sessions"],
    ["GET", `/api/sessions/${id}`],
    ["PATCH", `/api/sessions/${id}`, { title: "t" }],
    ["GET", `/api/sessions/${id}/messages`],
    ["GET", `/api/sessions/${id}/events`],
    ["POST", `/api/sessions/${id}/cancel`],
    ["POST", `/api/sessions/${id}/steer`, { message: "hi" }],
    ["DELETE", `/api/sessions/${id}`],
    ["GET", "/api/runs"],
    ["GET", "/api/runs/x"],
    ["POST", "/api/runs/x/cancel"],
    ["GET", "/api/asks"],
    ["GET", "/api/asks/x"],
    ["POST", "/api/asks/x", { choice: "yes" }],
  ];
  for (let round = 0; round < 3; round++)
    for (const [method, path, body] of routes) {
      const response = await server.fetch(path, { method, ...(body && { body: JSON.stringify(body) }) });
      const what = `${method} ${path}`;
      assert.deepEqual(
        [response.status, await response.json()],
        [503, { error: "session store unavailable", code: "store_unavailable" }],
        what,
      );
      assert.equal(response.headers.get("retry-after"), "1", what);
    }
  const lines = server.stderr.split("\n").filter((line) => line.includes("ECONNREFUSED"));
  assert.ok(lines.length > 0 && lines.length < 10, server.stderr);
  await rm(away);
  const again = await server.fetch("/api/run", {
    method: "POST",
    body: JSON.stringify({ message: "hi", session_id: id }),
  });
  assert.equal(again.status, 200, await again.text());
});
