import assert from "node:assert/strict";
import { it } from "node:test";
import { spawnAcpServer } from "../../helpers/acp-process.js";
import { sendRawRequest } from "../../helpers/raw-http.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { createServerConfig, startModelServer } from "../../helpers/server-runs.js";

type Entry = Record<string, unknown>;

/** Complete lines of a server's log, each a JSON object. */
function readEntries({ stderr }: GantryServer): Entry[] {
  return stderr
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Entry);
}

const ID_PATTERN = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]+$/;

it("lines of a run carry its run, session, request and client, as JSON; refusals are one line each", async (t) => {
  const modelServer = await startModelServer(t);
  const server = await startServer(t, {
    config: { ...createServerConfig(modelServer), log: { format: "json" }, server: { max_body_bytes: 2_000 } },
  });
  const failure = { status: 400, error: "no such thing" };
  modelServer.enqueue(failure, failure);
  const sendRun = (headers: Record<string, string>) =>
    server.fetch("/api/run", { method: "POST", body: '{"message":"hi"}', headers });
  const first = await sendRun({ "X-Request-Id": "order-17", "User-Agent": "acme/1.2 (secret-agent)" });
  const second = await sendRun({ "X-Request-Id": "not valid", "User-Agent": "<script>" });
  assert.equal(first.headers.get("x-request-id"), "order-17");
  assert.match(second.headers.get("x-request-id") ?? "", ID_PATTERN);
  await server.waitForOutput(/run failed[^]*run failed/, "stderr");
  const failures = readEntries(server).filter(({ message }) => message === "run failed");
  assert.deepEqual(
    failures.map(({ time: _time, error: _error, ...fields }) => fields),
    [first, second].map(({ headers }, i) => ({
      level: "warn",
      message: "run failed",
      run: headers.get("x-run-id"),
      session: headers.get("x-session-id"),
      client: i === 0 ? "http:acme/1.2@127.0.0.1" : "http@127.0.0.1",
      request: headers.get("x-request-id"),
      provider: "lab",
      model: "m1",
    })),
  );

  const sendRaw = (path: string, headers: Record<string, string>, body?: string) =>
    sendRawRequest(server.url, path, { headers, ...(body !== undefined && { body }) });
  const refusals = [
    await sendRaw("/api/sessions?token=canary-query", { host: "evil.example", "x-key": "canary-header" }),
    await sendRaw("/api/sessions", { "sec-fetch-site": "cross-site", "x-request-id": "r.2" }),
    await sendRaw("/api/run", { "content-type": "application/json" }, `{"message":"${"x".repeat(3_000)}"}`),
  ];
  // Equal reasons within ten seconds are one line.
  for (let i = 0; i < 50; i++) await sendRaw("/api/models", { host: "evil.example" });
  assert.deepEqual(
    refusals.map(({ status }) => status),
    [403, 403, 413],
  );
  await server.waitForOutput(/request refused[^]*request refused[^]*request refused/, "stderr");
  await server.stop();
  const lines = readEntries(server).filter(({ message }) => String(message).includes("request refused: "));
  const [host, site, body] = refusals.map(({ headers }) => headers["x-request-id"]);
  const common = { level: "info", client: "http@127.0.0.1" };
  assert.deepEqual(
    lines.map(({ time: _time, ...fields }) => fields),
    [
      {
        ...{ ...common, message: "http: request refused: host not allowed", status: 403, code: "host_not_allowed" },
        ...{ method: "GET", path: "/api/sessions", request: host },
      },
      {
        ...{ ...common, message: "http: request refused: cross-site request refused", status: 403, code: "cross_site" },
        ...{ method: "GET", path: "/api/sessions", request: site },
      },
      {
        ...{
          ...common,
          message: "koa-http-api: request refused: request body too large",
          status: 413,
          code: "body_too_large",
        },
        ...{ method: "POST", path: "/api/run", request: body },
      },
    ],
  );
  assert.equal(site, "r.2");
  assert.doesNotMatch(server.stderr, /canary|evil\.example|secret-agent/);
});

it("a missing header, a refused WebSocket and ACP's own refusals are logged with their reasons", async (t) => {
  const modelServer = await startModelServer(t);
  const server = await startServer(t, {
    args: ["serve", "--acp", "--port", "0"],
    config: {
      ...createServerConfig(modelServer),
      log: { format: "json" },
      acp: { required_headers: { "X-Key": "k-canary" } },
    },
  });
  const upgrade = {
    connection: "Upgrade",
    upgrade: "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
  };
  const refused = [
    await sendRawRequest(server.url, "/acp", { headers: { "x-key": "guess-canary" } }),
    await sendRawRequest(server.url, "/acp", { headers: upgrade }),
    await sendRawRequest(server.url, "/acp", { headers: { ...upgrade, "x-key": "k-canary", "sec-websocket-key": "" } }),
  ];
  assert.deepEqual(
    refused.map(({ status }) => status),
    [401, 401, 400],
  );
  await server.waitForOutput(/Sec-WebSocket-Key/, "stderr");
  await server.stop();
  assert.deepEqual(
    readEntries(server).flatMap(({ message, code }) =>
      String(message).includes("request refused") ? [`${String(message)} (${String(code)})`] : [],
    ),
    [
      "http: request refused: invalid header: X-Key (unauthorized)",
      "http: request refused: missing required header: X-Key (unauthorized)",
      "acp-http-sse-ws: request refused: Missing or invalid Sec-WebSocket-Key header (bad_handshake)",
    ],
  );
  assert.doesNotMatch(server.stderr, /canary/);
});

it("lines of an ACP prompt carry the id of the request and the name of the client", async (t) => {
  const modelServer = await startModelServer(t);
  const { gantry, peer } = await spawnAcpServer(t, {
    config: { ...createServerConfig(modelServer), log: { format: "json" } },
  });
  const early = await peer.call("session/list", {}, "early");
  assert.equal(early.error?.code, -32600);
  await peer.request("initialize", { protocolVersion: 1, clientInfo: { name: "Edi\u001btor", version: "1" } });
  const { sessionId } = (await peer.request("session/new", { cwd: gantry.projectDir, mcpServers: [] })) as {
    sessionId: string;
  };
  modelServer.enqueue({ status: 400, error: "no such thing" });
  const prompt = { sessionId, prompt: [{ type: "text", text: "hi" }] };
  await peer.call("session/prompt", prompt, "prompt-7");
  await gantry.waitForOutput(/run failed/, "stderr");
  await gantry.stop();
  const entries = readEntries(gantry);
  const refusal = entries.find(({ message }) => String(message).includes("request refused"));
  const { time: _time, ...fields } = refusal!;
  assert.deepEqual(fields, {
    ...{ level: "info", message: "acp-stdio: request refused: initialize first", client: "acp", code: -32600 },
    ...{ method: "session/list", request: "early" },
  });
  const failure = entries.find(({ message }) => message === "run failed");
  assert.deepEqual([failure?.["request"], failure?.["client"]], ["prompt-7", "acp:Edi\\etor"]);
  // The id of `session/new` is an alias.
  assert.match(String(failure?.["session"]), ID_PATTERN);
  assert.match(String(failure?.["run"]), ID_PATTERN);
});
