import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it, type TestContext } from "node:test";
import { SocketPeer } from "../../helpers/acp-http.js";
import { callStep, textStep, type FakeRequest } from "../../helpers/fake-model-server.js";
import {
  createServerConfig,
  pause,
  runPrompt,
  startModelServer,
  startStreamedRun,
  waitUntil,
} from "../../helpers/server-runs.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

/** Blocks the event loop for `blockMs` at a time until its run is cancelled, or once. */
const COMPUTE_ADAPTER = `import { setImmediate } from "node:timers/promises";
const run = async ({ blockMs, once }, { signal }) => {
  do {
    for (const end = performance.now() + blockMs; performance.now() < end; );
    await setImmediate();
  } while (!once && !signal.aborted);
  return { text: "computed" };
};
const inputSchema = { type: "object", properties: { blockMs: { type: "number" }, once: { type: "boolean" } } };
const flags = { kind: "other", parallel: true, needsPermission: false };
const describe = () => ({ title: "compute", locations: [] });
const create = () => ({ name: "compute", description: "Computes.", inputSchema, ...flags, parse: (input) => input, describe, run });
export default { gantry: 1, kind: "tool", name: "compute", parse: (raw) => raw, create };
`;

const OVERLOADED_PROBLEM = { code: "overloaded", message: "the server is overloaded" };
const OVERLOADED_FAILURE = { error: "server overloaded", code: "overloaded" };

/** Starts a server whose model calls the tool if the prompt is `compute <arguments>`. */
async function startComputingServer(t: TestContext, maxDelayMs: number | undefined): Promise<GantryServer> {
  const home = await tempDir(t);
  await writeFile(join(home.path, "compute.mjs"), COMPUTE_ADAPTER);
  const toolArguments = ({ body }: FakeRequest): object | undefined => {
    const text = /"compute (\{.*?\})"/.exec(JSON.stringify(body))?.[1];
    return text === undefined ? undefined : (JSON.parse(JSON.parse(`"${text}"`) as string) as object);
  };
  const modelServer = await startModelServer(t, {
    fallback: (request) => {
      const callArguments = JSON.stringify(request.body).includes("computed") ? undefined : toolArguments(request);
      return callArguments ? callStep("compute", callArguments) : textStep("OK.");
    },
  });
  const server = {
    transports: ["koa-http-api", "acp-http-sse-ws"],
    ...(maxDelayMs === undefined ? {} : { max_event_loop_delay: maxDelayMs }),
  };
  const agent = { tools: ["./compute.mjs"] };
  return startServer(t, { home: home.path, config: createServerConfig(modelServer, { server, agent }) });
}

async function fetchProblems(server: GantryServer): Promise<unknown[]> {
  const response = await server.fetch("/api/ready");
  const { reasons = [] } = (await response.json()) as { reasons?: { code: string }[] };
  assert.equal(response.status, reasons.length === 0 ? 200 : 503);
  return reasons.filter(({ code }) => code !== "models_syncing");
}

async function postJson(server: GantryServer, path: string, body: object = {}) {
  const response = await server.fetch(path, {
    method: "POST",
    headers: server.personHeaders,
    body: JSON.stringify(body),
  });
  return { status: response.status, retryAfter: response.headers.get("retry-after"), json: await response.json() };
}

it("a server whose event loop is late refuses work with 503, still ends runs, and recovers", async (t) => {
  const server = await startComputingServer(t, 100);
  const idleSession = (await runPrompt(server, { message: "hi" })).sessionId;
  const peer = new SocketPeer(`${server.url}/acp`);
  await peer.waitUntilOpen();
  await peer.initialize();
  const acpSession = await peer.newSession(server.projectDir);
  const stream = await startStreamedRun(server, { message: `compute ${JSON.stringify({ blockMs: 300 })}` });

  await waitUntil(async () => (await fetchProblems(server)).length > 0);
  assert.deepEqual(await fetchProblems(server), [OVERLOADED_PROBLEM]);
  for (const [path, body] of [
    ["/api/run", { message: "hi" }],
    [`/api/sessions/${idleSession}/fork`, {}],
    [`/api/sessions/${idleSession}/shell`, { command: "true" }],
  ] as const)
    assert.deepEqual(await postJson(server, path, body), { status: 503, retryAfter: "2", json: OVERLOADED_FAILURE });
  for (const [method, params] of [
    ["session/new", { cwd: server.projectDir, mcpServers: [] }],
    ["session/prompt", { sessionId: acpSession, prompt: [{ type: "text", text: "hi" }] }],
  ] as const) {
    const { error } = await peer.call(method, params);
    assert.deepEqual(error, { code: -32603, message: "server overloaded" });
  }
  // A person can see the server and its runs, and end them.
  assert.equal((await server.fetch("/api/health")).status, 200);
  assert.equal((await server.fetch(`/api/sessions/${stream.sessionId}/messages`)).status, 200);
  assert.equal((await postJson(server, `/api/sessions/${stream.sessionId}/steer`, { message: "stop" })).status, 200);
  assert.equal((await postJson(server, `/api/sessions/${stream.sessionId}/cancel`)).status, 200);
  await stream.ended;

  await waitUntil(async () => (await fetchProblems(server)).length === 0);
  assert.equal((await runPrompt(server, { message: "hi" })).status, 200);
  assert.deepEqual(await peer.prompt(acpSession, "hi"), { stopReason: "end_turn" });
  assert.match(server.stderr, /event loop is overloaded; requests that start work are refused/);
  assert.match(server.stderr, /event loop is no longer overloaded/);
  assert.match(server.stderr, /server overloaded.*503/);
});

it("a server refuses nothing during delays under the limit, after one long delay, and after a stop of its process", async (t) => {
  const server = await startComputingServer(t, 2_000);
  // One delay far over the limit: a long garbage collection looks the same.
  const longBlock = { message: `compute ${JSON.stringify({ blockMs: 5_000, once: true })}` };
  assert.equal((await runPrompt(server, longBlock)).status, 200);
  assert.equal((await runPrompt(server, { message: "hi" })).status, 200);
  // One stop: with the block above, the delay is measured as late at most twice in a row.
  server.child.kill("SIGSTOP");
  // Time: the process is stopped for longer than the limit.
  await pause(2_500);
  server.child.kill("SIGCONT");
  assert.equal((await runPrompt(server, { message: "hi" })).status, 200);
  const stream = await startStreamedRun(server, { message: `compute ${JSON.stringify({ blockMs: 50 })}` });
  // Time: more than three samples of the delay.
  for (const end = performance.now() + 3_000; performance.now() < end;) {
    assert.equal((await runPrompt(server, { message: "hi" })).status, 200);
    assert.deepEqual(await fetchProblems(server), []);
  }
  assert.equal((await postJson(server, `/api/sessions/${stream.sessionId}/cancel`)).status, 200);
  assert.doesNotMatch(server.stderr, /overloaded/);
});

it("with server.max_event_loop_delay 0 nothing is refused", async (t) => {
  const server = await startComputingServer(t, 0);
  const stream = await startStreamedRun(server, { message: `compute ${JSON.stringify({ blockMs: 300 })}` });
  // Time: more than three late samples.
  for (const end = performance.now() + 4_000; performance.now() < end;)
    assert.deepEqual(await fetchProblems(server), []);
  assert.equal((await postJson(server, `/api/sessions/${stream.sessionId}/cancel`)).status, 200);
});
