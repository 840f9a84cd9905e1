import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { it } from "node:test";
import { Agent, builtinTools, MemoryDriver } from "gantry";
import { ListenError } from "gantry/plugin";
import { openHttpHost, type HttpHost } from "gantry/http";
import { KoaHttpTransport } from "gantry/adapters/koa-http-api";
import { callTools, say, ScriptedProvider } from "gantry/testing";
import type { Tool } from "gantry";
import { send, sseEvents, wire, type Wire } from "../../helpers/http.js";
import { gate } from "../../helpers/gate.js";
import { until } from "../../helpers/lab.js";
import { tempDir } from "../../helpers/temp.js";
import { startApi, type Api } from "../../helpers/http-api.js";

function post(body: unknown): string {
  const text = JSON.stringify(body);
  return `POST /api/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
}

const SLOW = { chunks: [{ type: "text" as const, block: "0", text: "begun" }], hang: true };

/** Starts a run on a raw connection. Resolves when the run is active. */
async function begin(api: Api, body: Record<string, unknown>): Promise<{ client: Wire; sessionId: string }> {
  const started = new Promise<string>((resolve) => {
    const off = api.agent.on("run.started", ({ sessionId }) => {
      off();
      resolve(sessionId);
    });
  });
  const client = (await wire(api.url)).write(post(body));
  return { client, sessionId: await started };
}

for (const stream of [false, true]) {
  const responseKind = stream ? "streamed" : "plain";

  it(`a client that disconnects cancels its ${responseKind} run, and the partial answer is stored`, async (t) => {
    const api = await startApi(t, { steps: [SLOW] });
    const failed = new Promise<Error>((resolve) => api.agent.on("run.failed", ({ error }) => resolve(error)));
    const { client, sessionId } = await begin(api, { message: "hi", stream });
    if (stream) await client.until(/begun/);
    else await until(async () => (await api.agent.sessions.messages(sessionId)).length === 2);
    client.destroy();
    assert.equal(((await failed) as { code?: string }).code, "run_cancelled");
    assert.equal(api.provider.active, 0);
    const messages = await api.agent.sessions.messages(sessionId);
    assert.deepEqual(
      messages.map(({ role }) => role),
      ["user", "assistant"],
    );
    assert.deepEqual(messages[1]?.parts, [{ type: "text", text: "begun" }]);
    assert.equal((await api.run({ message: "again", session_id: sessionId })).status, 200, "it is free again");
    assert.ok(!api.log.some((line) => line.startsWith("error")), api.log.join("\n"));
  });

  it(`with on_disconnect continue, a ${responseKind} run finishes after its client disconnects`, async (t) => {
    let release: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => (release = resolve));
    const api = await startApi(t, {
      steps: [
        async () => {
          await gate;
          return say("the whole answer");
        },
      ],
      http: { onDisconnect: "continue" },
    });
    const finished = new Promise<void>((resolve) => api.agent.on("run.finished", () => resolve()));
    const { client, sessionId } = await begin(api, { message: "hi", stream });
    client.destroy();
    await client.closed;
    // When the server answers another request, it has seen the disconnect.
    await api.send("/api/health");
    release();
    await finished;
    const { messages } = (await api.send(`/api/sessions/${sessionId}/messages`)).json() as {
      messages: { content: string }[];
    };
    assert.equal(messages.at(-1)?.content, "the whole answer");
  });
}

it("a client that disconnects aborts the running tool of its run with run_cancelled", async (t) => {
  let signalStarted: () => void = () => undefined;
  const running = new Promise<void>((resolve) => (signalStarted = resolve));
  let ended: (reason: unknown) => void = () => undefined;
  const aborted = new Promise<unknown>((resolve) => (ended = resolve));
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
        signalStarted();
        signal.addEventListener("abort", () => {
          ended(signal.reason);
          reject(signal.reason as Error);
        });
      }),
  };
  const api = await startApi(t, { steps: [callTools(["wait", {}])], agent: { tools: [tool] } });
  const { client } = await begin(api, { message: "hi", stream: true });
  await running;
  client.destroy();
  assert.equal(((await aborted) as { code?: string }).code, "run_cancelled");
});

it("stop lets active runs finish, returns 503 to new requests, and closes all connections", async (t) => {
  let release: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => (release = resolve));
  const api = await startApi(t, {
    scripted: {
      fallback: async () => {
        await gate;
        return say("finished");
      },
    },
  });
  const plain = await begin(api, { message: "hi" });
  const streamed = await begin(api, { message: "hi", stream: true });
  const keepAliveConnection = (await wire(api.url)).write("GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await keepAliveConnection.until(/"ok"/);
  const stopped = api.listening.stop(new AbortController().signal);
  const refused = await api.run({ message: "late" });
  assert.deepEqual([refused.status, refused.json()], [503, { error: "server shutting down", code: "shutting_down" }]);
  assert.equal(refused.headers["access-control-allow-origin"], "*");
  assert.equal(refused.headers["retry-after"], "1");
  keepAliveConnection.write("GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await keepAliveConnection.until(/503 [\s\S]*server shutting down/);
  release();
  await plain.client.until(/200 OK[\s\S]*"finished"/);
  await streamed.client.until(/event: done/);
  await stopped;
  await api.listening.ended;
  await api.host.close(new AbortController().signal);
  await Promise.all([plain.client.closed, streamed.client.closed, keepAliveConnection.closed]);
});

it("an aborted stop cancels active runs: streams end with an error event, plain requests with 503", async (t) => {
  const api = await startApi(t, { scripted: { fallback: SLOW } });
  const plain = await begin(api, { message: "hi" });
  const streamed = await begin(api, { message: "hi", stream: true });
  await streamed.client.until(/begun/);
  const patience = new AbortController();
  const first = api.listening.stop(patience.signal);
  patience.abort();
  await Promise.all([first, api.listening.stop(AbortSignal.abort())]);
  await plain.client.until(
    /503 [\s\S]*Retry-After: 1\r\n[\s\S]*\{"error":"server shutting down","code":"shutting_down"\}/,
  );
  await streamed.client.until(/event: error\ndata: \{"error":"server shutting down","code":"shutting_down"\}\n\n/);
  assert.doesNotMatch(streamed.client.received, /event: done/);
  await api.host.close(AbortSignal.abort());
  await Promise.all([plain.client.closed, streamed.client.closed]);
  const messages = await api.agent.sessions.messages(streamed.sessionId);
  assert.deepEqual(messages[1]?.parts, [{ type: "text", text: "begun" }]);
});

it("closing the agent ends streams with an error event and plain requests with 503", async (t) => {
  const api = await startApi(t, { scripted: { fallback: SLOW } });
  const plain = await begin(api, { message: "hi" });
  const streamed = await begin(api, { message: "hi", stream: true });
  await api.agent.close();
  await plain.client.until(
    /503 [\s\S]*Retry-After: 1\r\n[\s\S]*\{"error":"server shutting down","code":"shutting_down"\}/,
  );
  await streamed.client.until(/event: error\ndata: \{"error":"server shutting down","code":"shutting_down"\}\n\n/);
  assert.deepEqual((await api.run({ message: "late" })).json(), {
    error: "server shutting down",
    code: "shutting_down",
  });
  plain.client.destroy();
  streamed.client.destroy();
});

it("stop ends 100 open streams, ten of them with readers that do not read", async (t) => {
  const api = await startApi(t, {
    scripted: { fallback: { chunks: [{ type: "text", block: "0", text: "x".repeat(400_000) }], hang: true } },
  });
  const clients = await Promise.all(
    Array.from({ length: 100 }, async (_, i) => {
      const client = await wire(api.url);
      if (i % 10 === 0) client.socket.pause();
      client.write(post({ message: "hi", stream: true }));
      return client;
    }),
  );
  await Promise.all(clients.filter((_, i) => i % 10 !== 0).map((client) => client.until(/xxx/)));
  await api.listening.stop(AbortSignal.abort());
  await api.host.close(AbortSignal.abort());
  await api.agent.close();
  for (const [i, client] of clients.entries()) {
    if (i % 10 !== 0)
      await client.until(/event: error\ndata: \{"error":"server shutting down","code":"shutting_down"\}/);
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
  const answer = await fetch(`${listening.address}/api/run`, {
    method: "POST",
    body: '{"message":"hi","stream":true}',
  });
  assert.deepEqual(
    sseEvents(await answer.text()).map(({ event }) => event),
    ["agent", "agent", "done"],
  );
  await listening.stop(new AbortController().signal);
  await listening.ended;
  await assert.rejects(send(listening.address, "/api/health"), { code: "ECONNREFUSED" });
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
    const failed = new Promise<void>((resolve) => api.agent.on("run.failed", () => resolve()));
    const { client } = await begin(api, { message: "hi", stream: true });
    let pids: number[] = [];
    await until(async () => {
      // Only complete lines count.
      const lines = (await project.read("pids").catch(() => "")).split("\n").slice(0, -1);
      pids = lines.map(Number);
      return pids.length === 3;
    });
    for (const pid of pids) assert.equal(await isAlive(pid), true);
    client.destroy();
    await failed;
    // Processes that ignore TERM receive KILL a moment later.
    for (const pid of pids) await until(async () => !(await isAlive(pid)));
  },
);

it("stop does not wait for requests whose client disconnected before they were handled", async (t) => {
  const agent = new Agent({ providers: [new ScriptedProvider(["never"])], driver: new MemoryDriver() });
  const host = openHttpHost({ port: 0 });
  t.after(async () => {
    await host.close(AbortSignal.abort());
    await agent.close();
  });
  let [reached, handled] = [gate(), gate()];
  // A host that identifies the user of a connection late.
  const late: HttpHost = {
    loopback: true,
    provingHeaders: () => [],
    isOfPerson: (request) => host.isOfPerson(request),
    tokenFor: (request) => host.tokenFor(request),
    takeStream: () => host.takeStream(),
    refuseNew: () => host.refuseNew(),
    close: (signal) => host.close(signal),
    mount: (mount) =>
      host.mount({
        ...mount,
        handler: (request, response) => {
          reached.open();
          const pass = () => {
            mount.handler(request, response);
            handled.open();
          };
          response.once("close", () => setImmediate(pass));
        },
      }),
  };
  const listening = await new KoaHttpTransport({}, late).start(agent);
  const run = await agent.run({ message: "hi" });
  await run.result;
  for (const path of [`/api/sessions/${run.sessionId}/events`, "/api/sessions"]) {
    [reached, handled] = [gate(), gate()];
    const client = (await wire(listening.address)).write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    await reached.wait();
    client.destroy();
    await handled.wait();
  }
  await listening.stop(new AbortController().signal);
});
