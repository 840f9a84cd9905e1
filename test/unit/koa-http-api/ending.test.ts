import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { it } from "node:test";
import { Agent, builtinTools, MemoryDriver } from "gantry";
import { ListenError } from "gantry/plugin";
import { openHttpHost, type HttpHost } from "gantry/http";
import { KoaHttpTransport } from "gantry/adapters/koa-http-api";
import { callTools, say, ScriptedProvider } from "gantry/testing";
import type { Tool } from "gantry";
import { sendRawRequest, parseSseEvents, openConnection, type RawConnection } from "../../helpers/raw-http.js";
import { createGate } from "../../helpers/gate.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { tempDir } from "../../helpers/temp-dir.js";
import { startApi, type TestApi } from "../../helpers/http-api.js";

function createRunRequest(body: unknown): string {
  const text = JSON.stringify(body);
  return `POST /api/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
}

const HANGING_STEP = { chunks: [{ type: "text" as const, block: "0", text: "begun" }], hang: true };

/** Starts a run on a raw connection. Resolves when the run is active. */
async function startRun(
  api: TestApi,
  body: Record<string, unknown>,
): Promise<{ client: RawConnection; sessionId: string }> {
  const runStarted = new Promise<string>((resolve) => {
    const unsubscribe = api.agent.on("run.started", ({ sessionId }) => {
      unsubscribe();
      resolve(sessionId);
    });
  });
  const client = (await openConnection(api.url)).write(createRunRequest(body));
  return { client, sessionId: await runStarted };
}

for (const stream of [false, true]) {
  const responseKind = stream ? "streamed" : "plain";

  it(`a client that disconnects cancels its ${responseKind} run, and the partial answer is stored`, async (t) => {
    const api = await startApi(t, { steps: [HANGING_STEP] });
    const runFailure = new Promise<Error>((resolve) => api.agent.on("run.failed", ({ error }) => resolve(error)));
    const { client, sessionId } = await startRun(api, { message: "hi", stream });
    if (stream) await client.waitForText(/begun/);
    else await waitUntil(async () => (await api.agent.sessions.messages(sessionId)).length === 2);
    client.destroy();
    assert.equal(((await runFailure) as { code?: string }).code, "run_cancelled");
    assert.equal(api.provider.active, 0);
    const messages = await api.agent.sessions.messages(sessionId);
    assert.deepEqual(
      messages.map(({ role }) => role),
      ["user", "assistant"],
    );
    assert.deepEqual(messages[1]?.parts, [{ type: "text", text: "begun" }]);
    assert.equal(
      (await api.postRun({ message: "again", session_id: sessionId })).status,
      200,
      "the session accepts a new run",
    );
    assert.ok(!api.logLines.some((line) => line.startsWith("error")), api.logLines.join("\n"));
  });

  it(`with on_disconnect continue, a ${responseKind} run finishes after its client disconnects`, async (t) => {
    let releaseProvider: () => void = () => undefined;
    const providerGate = new Promise<void>((resolve) => (releaseProvider = resolve));
    const api = await startApi(t, {
      steps: [
        async () => {
          await providerGate;
          return say("the whole answer");
        },
      ],
      http: { onDisconnect: "continue" },
    });
    const runFinished = new Promise<void>((resolve) => api.agent.on("run.finished", () => resolve()));
    const { client, sessionId } = await startRun(api, { message: "hi", stream });
    client.destroy();
    await client.closed;
    // After the response to another request, the server has processed the disconnect.
    await api.send("/api/health");
    releaseProvider();
    await runFinished;
    const { messages } = (await api.send(`/api/sessions/${sessionId}/messages`)).json() as {
      messages: { content: string }[];
    };
    assert.equal(messages.at(-1)?.content, "the whole answer");
  });
}

it("a client that disconnects aborts the running tool of its run with run_cancelled", async (t) => {
  let signalToolStart: () => void = () => undefined;
  const toolStarted = new Promise<void>((resolve) => (signalToolStart = resolve));
  let resolveAbortReason: (reason: unknown) => void = () => undefined;
  const abortReason = new Promise<unknown>((resolve) => (resolveAbortReason = resolve));
  const tool: Tool = {
    name: "wait",
    description: "Waits.",
    inputSchema: { type: "object" },
    kind: "other",
    parallel: false,
    needsPermission: false,
    parse: () => ({}),
    describe: () => ({ title: "Wait", locations: [] }),
    run: (_args, { signal }) =>
      new Promise((_resolve, reject) => {
        signalToolStart();
        signal.addEventListener("abort", () => {
          resolveAbortReason(signal.reason);
          reject(signal.reason as Error);
        });
      }),
  };
  const api = await startApi(t, { steps: [callTools(["wait", {}])], agent: { tools: [tool] } });
  const { client } = await startRun(api, { message: "hi", stream: true });
  await toolStarted;
  client.destroy();
  assert.equal(((await abortReason) as { code?: string }).code, "run_cancelled");
});

it("stop lets active runs finish, returns 503 to new requests, and closes all connections", async (t) => {
  let releaseProvider: () => void = () => undefined;
  const providerGate = new Promise<void>((resolve) => (releaseProvider = resolve));
  const api = await startApi(t, {
    providerOptions: {
      fallback: async () => {
        await providerGate;
        return say("finished");
      },
    },
  });
  const plainRun = await startRun(api, { message: "hi" });
  const streamedRun = await startRun(api, { message: "hi", stream: true });
  const keepAliveConnection = (await openConnection(api.url)).write(
    "GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
  );
  await keepAliveConnection.waitForText(/"ok"/);
  const stopPromise = api.listening.stop(new AbortController().signal);
  const rejection = await api.postRun({ message: "late" });
  assert.deepEqual(
    [rejection.status, rejection.json()],
    [503, { error: "server shutting down", code: "shutting_down" }],
  );
  assert.equal(rejection.headers["access-control-allow-origin"], "*");
  assert.equal(rejection.headers["retry-after"], "1");
  keepAliveConnection.write("GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await keepAliveConnection.waitForText(/503 [\s\S]*server shutting down/);
  releaseProvider();
  await plainRun.client.waitForText(/200 OK[\s\S]*"finished"/);
  await streamedRun.client.waitForText(/event: done/);
  await stopPromise;
  await api.listening.ended;
  await api.host.close(new AbortController().signal);
  await Promise.all([plainRun.client.closed, streamedRun.client.closed, keepAliveConnection.closed]);
});

it("an aborted stop cancels active runs: streams end with an error event, plain requests with 503", async (t) => {
  const api = await startApi(t, { providerOptions: { fallback: HANGING_STEP } });
  const plainRun = await startRun(api, { message: "hi" });
  const streamedRun = await startRun(api, { message: "hi", stream: true });
  await streamedRun.client.waitForText(/begun/);
  const stopAbort = new AbortController();
  const firstStop = api.listening.stop(stopAbort.signal);
  stopAbort.abort();
  await Promise.all([firstStop, api.listening.stop(AbortSignal.abort())]);
  await plainRun.client.waitForText(
    /503 [\s\S]*Retry-After: 1\r\n[\s\S]*\{"error":"server shutting down","code":"shutting_down"\}/,
  );
  await streamedRun.client.waitForText(
    /event: error\ndata: \{"error":"server shutting down","code":"shutting_down"\}\n\n/,
  );
  assert.doesNotMatch(streamedRun.client.receivedText, /event: done/);
  await api.host.close(AbortSignal.abort());
  await Promise.all([plainRun.client.closed, streamedRun.client.closed]);
  const messages = await api.agent.sessions.messages(streamedRun.sessionId);
  assert.deepEqual(messages[1]?.parts, [{ type: "text", text: "begun" }]);
});

it("closing the agent ends streams with an error event and plain requests with 503", async (t) => {
  const api = await startApi(t, { providerOptions: { fallback: HANGING_STEP } });
  const plainRun = await startRun(api, { message: "hi" });
  const streamedRun = await startRun(api, { message: "hi", stream: true });
  await api.agent.close();
  await plainRun.client.waitForText(
    /503 [\s\S]*Retry-After: 1\r\n[\s\S]*\{"error":"server shutting down","code":"shutting_down"\}/,
  );
  await streamedRun.client.waitForText(
    /event: error\ndata: \{"error":"server shutting down","code":"shutting_down"\}\n\n/,
  );
  assert.deepEqual((await api.postRun({ message: "late" })).json(), {
    error: "server shutting down",
    code: "shutting_down",
  });
  plainRun.client.destroy();
  streamedRun.client.destroy();
});

it("stop ends 100 open streams, including ten whose clients do not read", async (t) => {
  // The text is larger than the socket buffers of a client that does not read.
  const api = await startApi(t, {
    providerOptions: { fallback: { chunks: [{ type: "text", block: "0", text: "x".repeat(400_000) }], hang: true } },
  });
  const clients = await Promise.all(
    Array.from({ length: 100 }, async (_, i) => {
      const client = await openConnection(api.url);
      if (i % 10 === 0) client.socket.pause();
      client.write(createRunRequest({ message: "hi", stream: true }));
      return client;
    }),
  );
  await Promise.all(clients.filter((_, i) => i % 10 !== 0).map((client) => client.waitForText(/xxx/)));
  await api.listening.stop(AbortSignal.abort());
  await api.host.close(AbortSignal.abort());
  await api.agent.close();
  for (const [i, client] of clients.entries()) {
    if (i % 10 !== 0)
      await client.waitForText(/event: error\ndata: \{"error":"server shutting down","code":"shutting_down"\}/);
    client.destroy();
    await client.closed;
  }
  assert.equal(api.provider.active, 0);
});

it("KoaHttpTransport without an HTTP host opens its own port, and stop closes the port", async () => {
  const agent = new Agent({ providers: [new ScriptedProvider(["hello"])] });
  const transport = new KoaHttpTransport({ port: 0 });
  const listening = await transport.start(agent);
  assert.equal(transport.name, "koa-http-api");
  assert.match(listening.address, /^http:\/\/127\.0\.0\.1:\d+$/);
  const response = await fetch(`${listening.address}/api/run`, {
    method: "POST",
    body: '{"message":"hi","stream":true}',
  });
  assert.deepEqual(
    parseSseEvents(await response.text()).map(({ event }) => event),
    ["agent", "agent", "done"],
  );
  await listening.stop(new AbortController().signal);
  await listening.ended;
  await assert.rejects(sendRawRequest(listening.address, "/api/health"), { code: "ECONNREFUSED" });
  await agent.close();
});

it("start rejects host 0.0.0.0 without required headers with a ListenError", async () => {
  const agent = new Agent({ providers: [new ScriptedProvider()] });
  await assert.rejects(new KoaHttpTransport({ host: "0.0.0.0", port: 0 }).start(agent), ListenError);
  await agent.close();
});

/** Whether the process exists and is not a zombie. */
async function isAlive(pid: number): Promise<boolean> {
  const text = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  return text !== "" && !/^\d+ \(.*\) [ZX]/.test(text);
}

it(
  "a client that disconnects ends the whole process tree of its run's commands",
  { skip: process.platform !== "linux" && "needs /proc" },
  async (t) => {
    const project = await tempDir(t);
    const command =
      "trap '' TERM HUP; (trap '' TERM HUP; echo $BASHPID >> pids; sleep 600) & sleep 600 & echo $! >> pids; echo $$ >> pids; wait";
    const api = await startApi(t, {
      steps: [callTools(["bash", { command }])],
      agent: {
        projectDir: project.path,
        tools: builtinTools({ env: { PATH: process.env["PATH"] ?? "" }, bash: { sandbox: "off" } }).filter(
          ({ name }) => name === "bash",
        ),
      },
    });
    const runFailure = new Promise<void>((resolve) => api.agent.on("run.failed", () => resolve()));
    const { client } = await startRun(api, { message: "hi", stream: true });
    let pids: number[] = [];
    await waitUntil(async () => {
      // The last line may be incomplete.
      const lines = (await project.read("pids").catch(() => "")).split("\n").slice(0, -1);
      pids = lines.map(Number);
      return pids.length === 3;
    });
    for (const pid of pids) assert.equal(await isAlive(pid), true);
    client.destroy();
    await runFailure;
    // Processes that ignore TERM receive KILL after the grace period.
    for (const pid of pids) await waitUntil(async () => !(await isAlive(pid)));
  },
);

it("stop does not wait for requests whose client disconnected before they were handled", async (t) => {
  const agent = new Agent({ providers: [new ScriptedProvider(["never"])], driver: new MemoryDriver() });
  const host = openHttpHost({ port: 0 });
  t.after(async () => {
    await host.close(AbortSignal.abort());
    await agent.close();
  });
  let [requestReceived, requestHandled] = [createGate(), createGate()];
  // This host passes a request on only after its connection has closed.
  const delayedHost: HttpHost = {
    isLoopback: true,
    authHeaderNames: () => [],
    isFromPerson: (request) => host.isFromPerson(request),
    tokenFor: (request) => host.tokenFor(request),
    reserveStreamSlot: () => host.reserveStreamSlot(),
    stopAccepting: () => host.stopAccepting(),
    close: (signal) => host.close(signal),
    mount: (mount) =>
      host.mount({
        ...mount,
        handler: (request, response) => {
          requestReceived.open();
          const handleRequest = () => {
            mount.handler(request, response);
            requestHandled.open();
          };
          response.once("close", () => setImmediate(handleRequest));
        },
      }),
  };
  const listening = await new KoaHttpTransport({}, delayedHost).start(agent);
  const run = await agent.run({ message: "hi" });
  await run.result;
  for (const path of [`/api/sessions/${run.sessionId}/events`, "/api/sessions"]) {
    [requestReceived, requestHandled] = [createGate(), createGate()];
    const client = (await openConnection(listening.address)).write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    await requestReceived.wait();
    client.destroy();
    await requestHandled.wait();
  }
  await listening.stop(new AbortController().signal);
});
