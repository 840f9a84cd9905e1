// Many runs over all transports at the same time. No resource may grow. RUNS extends the test.
import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { it } from "node:test";
import Sqlite from "better-sqlite3";
import { HttpPeer, SocketPeer } from "../../helpers/acp-http.js";
import type { AcpPeer } from "../../helpers/acp-peer.js";
import { spawnAcpServer } from "../../helpers/acp-process.js";
import { callStep, textStep, type FakeRequest, type FakeStep } from "../../helpers/fake-model-server.js";
import { connectMcpClient } from "../../helpers/mcp-client.js";
import { createFaultyStdioServer } from "../../helpers/mcp-servers.js";
import { INSPECTOR_ENV, measureProcess, type ProcessUsage } from "../../helpers/process-usage.js";
import { createServerConfig, runPrompt, startModelServer, startStreamedRun } from "../../helpers/server-runs.js";
import { runGantry, spawnGantry, startServer, type GantryServer } from "../../helpers/server.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

const BATCH_RUNS = 50;
const BATCH_COUNT = Math.max(4, Math.round(Number(process.env["RUNS"] ?? 200) / BATCH_RUNS));
/**
 * Batches before the first counted sample. For five minutes, processes keep the last conversations in memory: in the
 * longer form, the first counted sample is after this time.
 */
const WARM_UP_BATCHES = Math.floor(BATCH_COUNT / 2);
/** Maximum growth between the first and the last counted sample, according to the least-squares line. */
const MAX_GROWTH: ProcessUsage = { heapMb: 12, rssMb: 64, descriptors: 20, children: 0.5 };
/** Tables whose rows are internal to SQLite's full-text search. */
const SEARCH_TABLES = /_(data|idx|docsize|config|content)$|^sqlite_/;

const MESSAGES = ["hello", "hello again", "[read] a file", "one more", "[mcp] call", "and", "[bash] call"];
const STEPS: readonly [RegExp, FakeStep][] = [
  [/\[read\]/, callStep("read", { path: "a.txt" })],
  [/\[mcp\]/, callStep("hostile__echo", { text: "from the server" })],
  [/\[bash\]/, callStep("bash", { command: "echo from the shell" })],
  [/\[stall\]/, { say: [{ text: "Wait." }, { stall: true }] }],
];

function selectStep({ body }: FakeRequest): FakeStep {
  const message = (body as { messages: { role: string; content: unknown }[] }).messages.at(-1);
  const text = message?.role === "user" ? JSON.stringify(message.content) : "";
  return STEPS.find(([pattern]) => pattern.test(text))?.[1] ?? textStep("An answer of some words.");
}

/** Sends `count` prompts one after the other. `prompt` resolves with true if the run has ended normally. */
async function sendPrompts(count: number, prompt: (message: string) => Promise<boolean>): Promise<void> {
  for (let n = 0; n < count; n++) {
    const message = MESSAGES[n % MESSAGES.length] ?? "";
    assert.ok(await prompt(message), message);
  }
}

async function sendAcpPrompts(count: number, peer: AcpPeer, cwd: string, onSession?: (id: string) => Promise<unknown>) {
  const session = await peer.newSession(cwd);
  await onSession?.(session);
  await sendPrompts(
    count,
    async (text) => ((await peer.prompt(session, text)) as { stopReason: string }).stopReason === "end_turn",
  );
  return session;
}

/** Streams of which every second one is cancelled by a request, and the other ones by a disconnection. */
async function interruptStreams(count: number, server: GantryServer): Promise<void> {
  for (let n = 0; n < count; n++) {
    const disconnection = new AbortController();
    const stream = await startStreamedRun(server, { message: "[stall]" }, disconnection.signal);
    await stream.waitForCharacters(1);
    if (n % 2 === 0) disconnection.abort();
    else await server.fetch(`/api/sessions/${stream.sessionId}/cancel`, { method: "POST", body: "{}" });
    await stream.ended;
  }
}

/** Starts the processes, which share one store. */
async function startProcesses(t: Hooks) {
  const modelServer = await startModelServer(t, { fallback: selectStep });
  const [home, project] = [await tempDir(t), await tempDir(t)];
  await project.write({ "a.txt": "A short file.\n" });
  const { name, command, args } = createFaultyStdioServer("kind");
  const config = createServerConfig(modelServer, {
    server: { transports: ["koa-http-api", "acp-http-sse-ws"] },
    mcp_servers: { [name]: { command, args } },
    permissions: { rules: ["read", "bash", `mcp:${name}/*`].map((tool) => ({ tool, action: "allow" })) },
  });
  const options = { config, home: home.path, projectDir: project.path };
  const measuredOptions = { ...options, env: INSPECTOR_ENV };
  const server = await startServer(t, measuredOptions);
  const { gantry: editor, peer } = await spawnAcpServer(t, measuredOptions);
  await peer.initialize();
  const mcp = await spawnGantry(t, { ...measuredOptions, args: ["mcp", "serve"] });
  const client = await connectMcpClient(mcp);
  return { modelServer, options, server, editor, peer, mcp, client };
}

type Processes = Awaited<ReturnType<typeof startProcesses>>;

/** The runs of a batch. Each transport has one new session. */
async function runBatch(t: Hooks, { server, peer, client, options }: Processes): Promise<void> {
  const { projectDir } = options;
  const runOverHttp = async (count: number) => {
    let sessionId: string | undefined;
    await sendPrompts(count, async (message) => {
      const run = await runPrompt(server, { message, ...(sessionId !== undefined && { session_id: sessionId }) });
      sessionId = run.sessionId;
      return run.status === 200;
    });
  };
  const runOverSse = async (count: number) => {
    let sessionId: string | undefined;
    await sendPrompts(count, async (message) => {
      const body = { message, ...(sessionId !== undefined && { session_id: sessionId }) };
      const stream = await startStreamedRun(server, body);
      ({ sessionId } = stream);
      await stream.ended;
      return stream.latestEvent?.event === "done";
    });
  };
  const runOverWebSocket = async (count: number) => {
    const socket = new SocketPeer(`${server.url}/acp`);
    await socket.waitUntilOpen();
    await socket.initialize();
    await sendAcpPrompts(count, socket, projectDir);
    socket.socket.close();
    await socket.closed;
  };
  const runOverAcpHttp = async (count: number) => {
    const httpPeer = new HttpPeer(`${server.url}/acp`);
    await httpPeer.open();
    const streams = [await httpPeer.openStream()];
    await sendAcpPrompts(count, httpPeer, projectDir, async (id) => streams.push(await httpPeer.openStream(id)));
    await httpPeer.closeConnection();
    await Promise.all(streams.map(({ ended }) => ended));
  };
  const runOverStdio = async (count: number) => {
    const sessionId = await sendAcpPrompts(count, peer, projectDir);
    await peer.request("session/close", { sessionId });
  };
  const runOverMcp = async (count: number) => {
    let session: string | undefined;
    await sendPrompts(count, async (prompt) => {
      const result = await client.callTool({
        name: "run",
        arguments: { prompt, ...(session !== undefined && { session }) },
      });
      ({ session } = result.structuredContent as { session: string });
      return result.isError !== true;
    });
  };
  const runCommand = async () => {
    const { code, stderr } = await runGantry(t, ["run", "hello"], options);
    assert.equal(code, 0, stderr);
  };
  await Promise.all([
    runOverHttp(14),
    runOverSse(9),
    runOverWebSocket(8),
    runOverAcpHttp(5),
    runOverStdio(5),
    runOverMcp(4),
    interruptStreams(4, server),
    runCommand(),
  ]);
}

/** The slope of the least-squares line through the values, for one step of the index. */
function computeSlope(values: readonly number[]): number {
  const meanIndex = (values.length - 1) / 2;
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const covariance = values.reduce((sum, value, index) => sum + (index - meanIndex) * (value - mean), 0);
  return covariance / values.reduce((sum, _value, index) => sum + (index - meanIndex) ** 2, 0);
}

/** Number of rows of each table, and of the files in the home folder. */
async function countStored(home: string): Promise<Record<string, number>> {
  const database = new Sqlite(`${home}/sessions.db`, { readonly: true });
  const tables = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").pluck().all() as string[];
  const counts = tables
    .filter((name) => !SEARCH_TABLES.test(name))
    .map((name) => [name, database.prepare(`SELECT count(*) FROM "${name}"`).pluck().get() as number]);
  database.close();
  return { ...Object.fromEntries(counts), files: (await readdir(home, { recursive: true })).length };
}

it("runs over all transports leave no memory, descriptor, process or file, and the same rows in each batch", async (t) => {
  const processes = await startProcesses(t);
  const usage: Record<string, number[]> = {};
  const stored: Record<string, number>[] = [];
  const startMs = performance.now();
  for (let batch = 0; batch < BATCH_COUNT; batch++) {
    await runBatch(t, processes);
    // The requests of all runs would fill the memory of the test.
    (processes.modelServer.requests as FakeRequest[]).length = 0;
    const counts = await countStored(processes.options.home);
    if (batch > 0) stored.push(counts);
    for (const name of ["server", "editor", "mcp"] as const)
      for (const [resource, value] of Object.entries(await measureProcess(processes[name])))
        (usage[`${name} ${resource}`] ??= []).push(value);
  }
  t.diagnostic(`${BATCH_COUNT * BATCH_RUNS} runs in ${((performance.now() - startMs) / 1000).toFixed(0)} s`);
  for (const [name, samples] of Object.entries(usage)) {
    const countedSamples = samples.slice(WARM_UP_BATCHES);
    const slope = computeSlope(countedSamples);
    const [first = 0, last = 0] = [samples[0], samples.at(-1)];
    t.diagnostic(
      `${name}: ${((slope * 1_000) / BATCH_RUNS).toFixed(2)} per 1,000 runs, from ${first.toFixed(1)} to ${last.toFixed(1)}`,
    );
    const limit = MAX_GROWTH[name.split(" ")[1] as keyof ProcessUsage];
    assert.ok(slope * (countedSamples.length - 1) < limit, `${name} grows: ${samples.join(" ")}`);
  }
  // The first run creates files, such as compiled code.
  const [first = {}, second = {}] = stored.splice(0, 2);
  for (const [name, count] of Object.entries(second)) {
    const countPerBatch = count - (first[name] ?? 0);
    t.diagnostic(`${name}: ${countPerBatch / BATCH_RUNS} per run, at last ${stored.at(-1)?.[name]}`);
    if (name === "files") assert.equal(countPerBatch, 0, "the number of files grows");
    // The runs of each batch are the same.
    for (const [n, counts] of stored.entries()) assert.equal(counts[name], count + (n + 1) * countPerBatch, name);
  }
});
