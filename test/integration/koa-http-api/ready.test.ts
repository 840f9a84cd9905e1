import assert from "node:assert/strict";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { it, type TestContext } from "node:test";
import { Agent, MemoryDriver } from "gantry";
import { LowdbJsonDriver } from "gantry/adapters/lowdb-json-driver";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { callTools, ScriptedProvider } from "gantry/testing";
import { createGate, createWaitTool } from "../../helpers/gate.js";
import { startModelServer, createServerConfig, startStreamedRun, waitUntil } from "../../helpers/server-runs.js";
import { openConnection } from "../../helpers/raw-http.js";
import { withOutages } from "../../helpers/outages.mjs";
import { startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";
import { startApi, type TestApi } from "../../helpers/http-api.js";

const OUTAGES_MODULE = fileURLToPath(new URL("../../helpers/outages.mjs", import.meta.url));
const STORE_UNREACHABLE = { code: "store_unreachable", message: "the session store cannot be reached" };
const MODELS_SYNCING = { code: "models_syncing", message: "the lists of models are being fetched for the first time" };
const DRAINING = { code: "draining", message: "the server is about to stop" };
const createNotReadyBody = (...reasons: object[]) => ({
  error: "not ready",
  code: "not_ready",
  status: "not_ready",
  reasons,
});

/** Stops the clock of this process, which `src/base/clock.ts` reads. Returns a function that advances the clock. */
function stopClock(t: TestContext): (ms: number) => void {
  let uptimeSeconds = process.uptime();
  t.mock.method(process, "uptime", () => uptimeSeconds);
  return (ms) => void (uptimeSeconds += ms / 1000);
}

/** Exceeds the cache time of a check result, which is one second. */
const CACHE_EXPIRY_MS = 1_001;

/** Fetches the response of `/api/ready`. */
async function fetchReadiness(api: Pick<TestApi, "send">): Promise<[status: number, body: unknown]> {
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
  const headResponse = await api.send("/api/ready", { method: "HEAD" });
  assert.deepEqual([headResponse.status, headResponse.text], [200, ""]);
  const { status: postStatus, headers: postHeaders } = await api.send("/api/ready", { method: "POST", body: "{}" });
  assert.deepEqual([postStatus, postHeaders["allow"]], [405, "GET, HEAD, OPTIONS"]);
});

it("the first /api/ready opens the store and lists models; /api/health does neither", async (t) => {
  let openCount = 0;
  let listCount = 0;
  class CountingDriver extends MemoryDriver {
    override open(): Promise<void> {
      openCount += 1;
      return super.open();
    }
  }
  const list = () => {
    listCount += 1;
    return Promise.resolve([]);
  };
  const api = await startApi(t, { agent: { driver: new CountingDriver() }, providerOptions: { models: [], list } });
  assert.equal((await api.send("/api/health")).status, 200);
  assert.deepEqual([openCount, listCount], [0, 0]);
  assert.equal((await api.send("/api/ready")).status, 200);
  assert.deepEqual([openCount, listCount], [1, 1]);
});

it("/api/ready returns 503 models_syncing during the first model listing, and 200 after its failure", async (t) => {
  const advanceClock = stopClock(t);
  let failListing: (error: Error) => void = () => undefined;
  const list = () => new Promise<never>((_resolve, reject) => (failListing = reject));
  const api = await startApi(t, { providerOptions: { models: [], list } });
  const { status, headers, json } = await api.send("/api/ready");
  assert.deepEqual([status, json()], [503, createNotReadyBody(MODELS_SYNCING)]);
  assert.equal(headers["retry-after"], "1");
  assert.equal((await api.send("/api/health")).status, 200);
  failListing(new Error("no list here"));
  advanceClock(CACHE_EXPIRY_MS);
  assert.deepEqual(await fetchReadiness(api), [200, { status: "ready", version: api.agent.version }]);
});

it("/api/ready returns 503 while the store fails or hangs, logs the failure once, and recovers", async (t) => {
  const advanceClock = stopClock(t);
  let outage: "" | "fail" | "hang" = "fail";
  const api = await startApi(t, { agent: { driver: withOutages(new MemoryDriver(), () => outage) } });
  /** Sets the outage of the store and lets the cached result expire. */
  const setOutage = (nextOutage: typeof outage): void => {
    outage = nextOutage;
    advanceClock(CACHE_EXPIRY_MS);
  };
  for (let attempt = 0; attempt < 3; attempt++) {
    assert.deepEqual(await fetchReadiness(api), [503, createNotReadyBody(STORE_UNREACHABLE)]);
    setOutage("fail");
  }
  const getWarnings = () => api.logLines.filter((line) => line.includes("session store cannot be reached"));
  assert.equal(getWarnings().length, 1, api.logLines.join("\n"));
  assert.match(getWarnings()[0] ?? "", /^warn the session store cannot be reached; reporting not ready.*ECONNREFUSED/);
  setOutage("");
  assert.equal((await fetchReadiness(api))[0], 200);
  assert.equal(api.logLines.filter((line) => line.includes("the session store accepts changes again")).length, 1);
  setOutage("hang");
  assert.deepEqual(await fetchReadiness(api), [503, createNotReadyBody(STORE_UNREACHABLE)]);
  assert.equal((await api.send("/api/health")).status, 200);
  setOutage("");
  assert.equal((await fetchReadiness(api))[0], 200);
});

it("50 concurrent requests to /api/ready query the store once, and the result is cached for one second", async (t) => {
  const advanceClock = stopClock(t);
  let probeCount = 0;
  class CountingDriver extends MemoryDriver {
    override readonly probe = async (): Promise<void> => {
      probeCount += 1;
      return super.probe();
    };
  }
  const api = await startApi(t, { agent: { driver: new CountingDriver() } });
  const responses = await Promise.all(Array.from({ length: 50 }, () => api.send("/api/ready")));
  assert.ok(responses.every(({ status }) => status === 200));
  assert.equal(probeCount, 1);
  advanceClock(CACHE_EXPIRY_MS - 2);
  assert.equal((await api.send("/api/ready")).status, 200);
  assert.equal(probeCount, 1, "the result is cached for a second");
  advanceClock(2);
  assert.equal((await api.send("/api/ready")).status, 200);
  assert.equal(probeCount, 2, "the result has expired");
});

for (const [name, createDriver] of [
  ["sqlite", (path: string) => new SqliteDriver({ path, durability: "normal" })],
  ["json", (path: string) => new LowdbJsonDriver({ path, durability: "normal" })],
] as const)
  it(`readiness() reports store_unreachable for an invalid path of ${name}, and recovers when the path is valid`, async (t) => {
    const advanceClock = stopClock(t);
    const folder = await tempDir(t);
    // A file in place of a folder makes the path invalid even for root.
    await writeFile(folder.at("blocked"), "");
    const driver = createDriver(folder.at("blocked/sessions"));
    const agent = new Agent({ providers: [new ScriptedProvider([])], driver });
    t.after(() => agent.close());
    assert.deepEqual(await agent.readiness(), { ready: false, reasons: [STORE_UNREACHABLE] });
    await rm(folder.at("blocked"));
    await mkdir(folder.at("blocked"));
    advanceClock(CACHE_EXPIRY_MS);
    assert.deepEqual(await agent.readiness(), { ready: true, reasons: [] });
    assert.equal((await agent.sessions.list()).total, 0);
  });

it("a draining agent still runs prompts, and /api/ready returns 503 draining", async (t) => {
  const api = await startApi(t, { steps: ["Hello."] });
  assert.equal((await api.send("/api/ready")).status, 200);
  api.agent.drain();
  const { status, json } = await api.send("/api/ready");
  assert.deepEqual([status, json()], [503, createNotReadyBody(DRAINING)]);
  assert.equal((await api.postRun({ message: "hi" })).status, 200);
});

it("a stopping transport reports draining while its agent is ready; agent.stopAccepting() makes the agent draining", async (t) => {
  const toolGate = createGate();
  const api = await startApi(t, { steps: [callTools(["wait", {}])], agent: { tools: [createWaitTool(toolGate)] } });
  const runResponse = api.postRun({ message: "hi" });
  await toolGate.firstWait;
  const stopPromise = api.listening.stop(new AbortController().signal);
  const { status, json } = await api.send("/api/ready");
  assert.deepEqual([status, json()], [503, createNotReadyBody(DRAINING)]);
  assert.equal((await api.agent.readiness()).ready, true);
  api.agent.stopAccepting();
  assert.deepEqual(await api.agent.readiness(), { ready: false, reasons: [DRAINING] });
  // `gantry serve` also stops the host. Then all other requests are rejected.
  api.host.stopAccepting();
  const rejection = await api.send("/api/sessions");
  assert.deepEqual(
    [rejection.status, rejection.json()],
    [503, { error: "server shutting down", code: "shutting_down" }],
  );
  assert.equal((await api.send("/api/health")).status, 503);
  toolGate.open();
  await Promise.all([runResponse, stopPromise]);
});

it("readiness() with an aborted signal rejects with its reason while the store hangs", async (t) => {
  let outage: "" | "hang" = "";
  const agent = new Agent({
    providers: [new ScriptedProvider([])],
    driver: withOutages(new MemoryDriver(), () => outage),
  });
  t.after(() => agent.close());
  await agent.open();
  outage = "hang";
  await assert.rejects(agent.readiness(AbortSignal.abort(new Error("no patience"))), /no patience/);
});

it("open_probes exempts GET and HEAD of the probes from required headers, but not from Host and Origin checks", async (t) => {
  const requiredHeaders = { Authorization: "Bearer key" };
  const protectedApi = await startApi(t, { http: { requiredHeaders } });
  for (const path of ["/api/health", "/api/ready"]) {
    const { status, json } = await protectedApi.send(path);
    assert.deepEqual(
      [status, json()],
      [401, { error: "missing required header: Authorization", code: "unauthorized" }],
    );
    assert.equal((await protectedApi.send(path, { headers: { authorization: "Bearer key" } })).status, 200);
  }
  const openProbesApi = await startApi(t, { http: { requiredHeaders, openProbes: true } });
  for (const path of ["/api/health", "/api/ready"])
    for (const [method, status] of [
      ["GET", 200],
      ["HEAD", 200],
      ["POST", 401],
      ["DELETE", 401],
    ] as const)
      assert.equal((await openProbesApi.send(path, { method })).status, status, `${method} ${path}`);
  for (const path of ["/api/sessions", "/api/ready/", "/api/ready/x", "/api/models", "/api/READY"])
    assert.equal((await openProbesApi.send(path)).status, 401, path);
  assert.equal((await openProbesApi.send("/api/ready?x=1")).status, 200);

  // Without authentication, a foreign Host or page is also rejected.
  const unprotectedApi = await startApi(t, { http: { openProbes: true } });
  const foreignHeaders: Record<string, string>[] = [{ host: "evil.example" }, { origin: "https://evil.example" }];
  for (const headers of foreignHeaders)
    assert.equal((await unprotectedApi.send("/api/ready", { headers })).status, 403, JSON.stringify(headers));
});

it("a stopping server returns 503 draining for /api/ready on an open connection", async (t) => {
  const modelServer = await startModelServer(t, { fallback: { say: [{ text: "Hm" }, { stall: true }] } });
  const server = await startServer(t, { config: createServerConfig(modelServer) });
  const connection = await openConnection(server.url);
  const readResponse = async (path: string) => {
    connection.receivedText = "";
    connection.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    return (await connection.waitForText(/^HTTP\/1\.1 (\d+)[^]*?\r\n\r\n(.*)$/)).slice(1);
  };
  // The server returns 503 until it has fetched its model lists.
  await waitUntil(async () => (await readResponse("/api/ready"))[0] === "200");
  const streamedRun = await startStreamedRun(server, { message: "talk" });
  await streamedRun.waitForCharacters(1);
  server.child.kill("SIGTERM");
  // The active run delays the exit of the server by 2 s.
  let readyResponse: string[] = [];
  await waitUntil(async () => (readyResponse = await readResponse("/api/ready"))[0] === "503");
  assert.deepEqual(JSON.parse(readyResponse[1] ?? ""), createNotReadyBody(DRAINING));
  assert.deepEqual(await server.exited, { code: 0, signal: null });
});

it("drain_delay: SIGTERM keeps serving with 503 on /api/ready until the delay or a second signal; SIGINT exits", async (t) => {
  const modelServer = await startModelServer(t);
  const startDrainingServer = (delaySeconds: number) =>
    startServer(t, {
      config: createServerConfig(modelServer, { server: { drain_delay: delaySeconds, open_probes: true } }),
    });
  // Only a second signal ends the delay of the first server. The delay of the second server is short.
  const server = await startDrainingServer(3_600);
  await waitUntil(async () => (await server.fetch("/api/ready")).status === 200);
  server.child.kill("SIGTERM");
  await waitUntil(async () => (await server.fetch("/api/ready")).status === 503);
  const response = await server.fetch("/api/ready");
  assert.deepEqual([response.status, await response.json()], [503, createNotReadyBody(DRAINING)]);
  assert.equal((await server.fetch("/api/health")).status, 200);
  const runResponse = await server.fetch("/api/run", { method: "POST", body: JSON.stringify({ message: "still" }) });
  assert.equal(runResponse.status, 200, "the draining server accepts requests");
  server.child.kill("SIGTERM");
  assert.deepEqual(await server.exited, { code: 1, signal: null });

  const shortDelayServer = await startDrainingServer(0.1);
  assert.deepEqual(await shortDelayServer.stop("SIGTERM"), { code: 0, signal: null });
  assert.match(shortDelayServer.stderr, /draining for 0\.1 s/);

  // SIGINT stops the server without the delay, because a user waits for the exit.
  const interruptedServer = await startDrainingServer(3_600);
  assert.deepEqual(await interruptedServer.stop("SIGINT"), { code: 0, signal: null });
});

it("a server without its store returns 503 on every route, logs the cause fewer than 10 times, and recovers", async (t) => {
  const modelServer = await startModelServer(t);
  const server = await startServer(t, {
    config: createServerConfig(modelServer, { session: { driver: OUTAGES_MODULE } }),
  });
  const outageFile = join(server.home, "away");
  const firstResponse = await server.fetch("/api/run", { method: "POST", body: JSON.stringify({ message: "hi" }) });
  assert.equal(firstResponse.status, 200, server.stderr);
  const sessionId = firstResponse.headers.get("x-session-id") ?? "";
  await writeFile(outageFile, "fail");
  await waitUntil(async () => (await server.fetch("/api/ready")).status === 503);
  const routes: [method: string, path: string, body?: object][] = [
    ["POST", "/api/run", { message: "hi" }],
    ["POST", "/api/run", { message: "hi", stream: true }],
    ["POST", "/api/run", { message: "hi", session_id: sessionId, queue: true }],
    ["POST", "/api/run", { message: "hi", background: true }],
    ["GET", "/api/sessions"],
    ["GET", `/api/sessions/${sessionId}`],
    ["PATCH", `/api/sessions/${sessionId}`, { title: "t" }],
    ["GET", `/api/sessions/${sessionId}/messages`],
    ["GET", `/api/sessions/${sessionId}/events`],
    ["POST", `/api/sessions/${sessionId}/cancel`],
    ["POST", `/api/sessions/${sessionId}/steer`, { message: "hi" }],
    ["DELETE", `/api/sessions/${sessionId}`],
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
      const route = `${method} ${path}`;
      assert.deepEqual(
        [response.status, await response.json()],
        [503, { error: "session store unavailable", code: "store_unavailable" }],
        route,
      );
      assert.equal(response.headers.get("retry-after"), "1", route);
    }
  const outageLines = server.stderr.split("\n").filter((line) => line.includes("ECONNREFUSED"));
  assert.ok(outageLines.length > 0 && outageLines.length < 10, server.stderr);
  await rm(outageFile);
  const finalResponse = await server.fetch("/api/run", {
    method: "POST",
    body: JSON.stringify({ message: "hi", session_id: sessionId }),
  });
  assert.equal(finalResponse.status, 200, await finalResponse.text());
});
