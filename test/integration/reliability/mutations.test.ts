// Mutated frames and requests to the sockets and pipes of real servers. FRAMES extends the test.
import assert from "node:assert/strict";
import { it, type TestContext } from "node:test";
import { WebSocket } from "ws";
import { HttpPeer, SocketPeer } from "../../helpers/acp-http.js";
import { spawnAcpServer } from "../../helpers/acp-process.js";
import { readSessionEvents } from "../../helpers/event-page.js";
import { textStep } from "../../helpers/fake-model-server.js";
import { mutateMessage, mutateText } from "../../helpers/mutations.js";
import { INSPECTOR_ENV, measureProcess } from "../../helpers/process-usage.js";
import { openConnection } from "../../helpers/raw-http.js";
import { runPrompt, startModelServer, createServerConfig } from "../../helpers/server-runs.js";
import { createRandom, readSeed } from "../../helpers/random.js";
import { startServer, type GantryProcess, type GantryServer } from "../../helpers/server.js";

/** Number of frames per wire. */
const FRAME_COUNT = Number(process.env["FRAMES"] ?? 250);
/**
 * Maximum growth of the heap between a fifth of the frames and the end. In the longer form, a server that keeps 2 kB of
 * each frame exceeds this limit.
 */
const MAX_GROWTH_MB = 16;

/** Creates one client message for each method. `session`: id of a session of this client. */
function createMessages(session: string, cwd: string): string[] {
  const prompt = [
    { type: "text", text: "hi" },
    { type: "image", data: "AAAA", mimeType: "image/png" },
  ];
  return [
    { id: 900, method: "session/prompt", params: { sessionId: session, prompt } },
    { id: 901, method: "session/load", params: { sessionId: session, cwd, mcpServers: [] } },
    { id: 902, method: "session/list", params: { cwd, cursor: "" } },
    { id: 903, method: "initialize", params: { protocolVersion: 1, clientInfo: { name: "x", version: "1" } } },
    {
      id: 904,
      method: "session/set_config_option",
      params: { sessionId: session, configId: "model", value: "lab/m1" },
    },
    { id: 905, method: "session/new", params: { cwd, mcpServers: [{ name: "a", command: "b", args: [], env: [] }] } },
    { method: "session/cancel", params: { sessionId: session } },
    { method: "$/cancel_request", params: { requestId: 900 } },
    { id: "gantry-1", result: { outcome: { outcome: "cancelled" } } },
  ].map((message) => JSON.stringify({ jsonrpc: "2.0", ...message }));
}

async function assertHealthy(process: GantryProcess): Promise<void> {
  assert.ok(!process.hasEnded, process.stderr);
  assert.deepEqual(
    process.stderr.split("\n").filter((line) => / error /.test(line)),
    [],
  );
}

/** Starts the models and returns the options of a server, with the random numbers of the seed. */
async function prepare(t: TestContext, overrides: Record<string, unknown> = {}) {
  const seed = readSeed();
  t.diagnostic(`SEED=${seed} FRAMES=${FRAME_COUNT}`);
  const modelServer = await startModelServer(t, { fallback: textStep("Yes.") });
  const config = createServerConfig(modelServer, {
    limits: { connections: 4096 },
    log: { level: "info" },
    ...overrides,
  });
  return { random: createRandom(seed), options: { config, env: INSPECTOR_ENV } };
}

/** Sends all frames. `sendFrame` resolves when the server has processed most of the earlier frames. */
async function sendFrames(t: TestContext, process: GantryProcess, sendFrame: (n: number) => Promise<void>) {
  const measureHeap = async () => (await measureProcess(process)).heapMb;
  const firstCount = FRAME_COUNT / 5;
  for (let n = 0; n < firstCount; n++) await sendFrame(n);
  const firstMb = await measureHeap();
  for (let n = firstCount; n < FRAME_COUNT; n++) await sendFrame(n);
  const lastMb = await measureHeap();
  t.diagnostic(`heap after ${firstCount} frames: ${firstMb.toFixed(1)} MB, after all frames: ${lastMb.toFixed(1)} MB`);
  assert.ok(lastMb - firstMb < MAX_GROWTH_MB, `the heap grows from ${firstMb} to ${lastMb} MB`);
}

/** Collects promises, and waits for them when there are ten. */
function createBatcher(): (promise: Promise<void>) => Promise<unknown> {
  const pending: Promise<void>[] = [];
  return (promise) => (pending.push(promise) === 10 ? Promise.all(pending.splice(0)) : Promise.resolve());
}

/**
 * Sends a request on its own connection, and counts the status. `end` matches the text after which the rest of the
 * response is not needed.
 */
async function sendRequest(
  server: GantryServer,
  statuses: Record<string, number>,
  head: string,
  body: Uint8Array = Buffer.alloc(0),
  end = /(?!)/,
): Promise<void> {
  const connection = await openConnection(server.url);
  connection.write(`${head}Host: localhost\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n`).write(body);
  await Promise.race([connection.waitForText(end).catch(() => undefined), connection.closed]);
  connection.destroy();
  const [, status = ""] = /^HTTP\/1\.1 (\d{3}) /.exec(connection.receivedText) ?? [];
  assert.match(status, /^[1-4]/, JSON.stringify([head, Buffer.from(body).toString("latin1"), connection.receivedText]));
  statuses[status] = (statuses[status] ?? 0) + 1;
}

const ACP_SERVER = { server: { transports: ["koa-http-api", "acp-http-sse-ws"] } };

it("a server that receives mutated WebSocket messages stays healthy and answers later requests", async (t) => {
  const { random, options } = await prepare(t, ACP_SERVER);
  const server = await startServer(t, options);
  let socket: SocketPeer | undefined;
  let seedMessages: string[] = [];
  let connectionCount = 0;
  // Invalid UTF-8 closes the connection, as the WebSocket protocol requires.
  const connect = async (): Promise<SocketPeer> => {
    if (socket?.socket.readyState === WebSocket.OPEN) return socket;
    connectionCount++;
    socket = new SocketPeer(`${server.url}/acp`);
    await socket.waitUntilOpen();
    await socket.initialize();
    seedMessages = createMessages(await socket.newSession(server.projectDir), server.projectDir);
    return socket;
  };
  await sendFrames(t, server, async (n) => {
    const { socket: webSocket, closed } = await connect();
    const frame = mutateMessage(random, seedMessages[n % seedMessages.length] ?? "");
    webSocket.send(frame, { binary: random() < 0.05 });
    // The pong proves that the server has read all frames. Otherwise a frame has closed the connection.
    if (n % 50 !== 49) return;
    webSocket.ping();
    await Promise.race([new Promise((resolve) => webSocket.once("pong", resolve)), closed]);
  });
  t.diagnostic(`${connectionCount} WebSocket connections`);
  // The close of the connection can still be in transit.
  for (let sessionCount = 0; sessionCount === 0;) {
    const peer = await connect();
    const listing = peer.request("session/list", {}) as Promise<{ sessions: unknown[] }>;
    listing.catch(() => undefined);
    const result = await Promise.race([listing, peer.closed]);
    if (typeof result === "object") assert.ok((sessionCount = result.sessions.length) > 0);
  }
  socket?.assertNoValidationErrors();
  await assertHealthy(server);
});

it("a server that receives mutated HTTP requests stays healthy and answers later requests", async (t) => {
  const { random, options } = await prepare(t, ACP_SERVER);
  const server = await startServer(t, options);
  const peer = new HttpPeer(`${server.url}/acp`);
  await peer.open();
  await peer.openStream();
  const seedMessages = createMessages(await peer.newSession(server.projectDir), server.projectDir);
  const runBody = JSON.stringify({
    message: "hi",
    provider: "lab",
    model: "m1",
    session_id: "",
    files: [],
    stream: false,
  });
  const acpHead = `POST /acp HTTP/1.1\r\nContent-Type: application/json\r\nAcp-Connection-Id: ${peer.connectionId}\r\n`;
  const statuses: Record<string, number> = {};
  const addToBatch = createBatcher();
  await sendFrames(t, server, async (n) => {
    const [head, text = ""] =
      n % 5 === 0 ? ["POST /api/run HTTP/1.1\r\n", runBody] : [acpHead, seedMessages[n % seedMessages.length]];
    await addToBatch(sendRequest(server, statuses, head, mutateMessage(random, text)));
  });
  t.diagnostic(JSON.stringify(statuses));
  assert.ok(((await peer.request("session/list", {})) as { sessions: unknown[] }).sessions.length > 0);
  peer.assertNoValidationErrors();
  assert.equal((await runPrompt(server, { message: "still there?" })).output, "Yes.");
  await assertHealthy(server);
  assert.deepEqual(await server.stop(), { code: 0, signal: null });
});

it("a server that receives mutated positions of watchers stays healthy and sends the events of a valid position", async (t) => {
  const { random, options } = await prepare(t);
  const server = await startServer(t, options);
  const { sessionId } = await runPrompt(server, { message: "hi" });
  await runPrompt(server, { message: "more", session_id: sessionId });
  const path = `/api/sessions/${sessionId}/events`;
  const readCursors = async (query: string) => {
    const cursors: string[] = [];
    for await (const { id } of readSessionEvents(`${server.url}${path}?follow=false${query}`)) if (id) cursors.push(id);
    return cursors;
  };
  const cursors = await readCursors("");
  const cursor = cursors[1] ?? "";
  const remainingCursors = await readCursors(`&after=${cursor}`);
  const queries = [
    [path, `after=${cursor}&follow=true&can_answer=true`],
    [path, "after_seq=2&follow=false&can_answer=false"],
    ["/api/events", `watch=${sessionId}@${cursor}&watch=${sessionId}@2&watch=${sessionId}&can_answer=true`],
  ];
  const statuses: Record<string, number> = {};
  const addToBatch = createBatcher();
  await sendFrames(t, server, async (n) => {
    const [target, text = ""] = queries[n % queries.length] ?? [];
    const mutate = (value: string) => (random() < 0.3 ? value : mutateText(random, value).toString("latin1"));

    const query = mutate(text).replace(/[\0-\x20\x7f-\xff]/g, (char) => encodeURIComponent(char));
    // eslint-disable-next-line no-control-regex
    const header = random() < 0.5 ? `Last-Event-ID: ${mutate(cursor).replace(/[\0-\x1f\x7f]/g, " ")}\r\n` : "";
    const head = `GET ${target}?${query} HTTP/1.1\r\n${header}`;
    await addToBatch(sendRequest(server, statuses, head, undefined, /^event: /m));
  });
  t.diagnostic(JSON.stringify(statuses));
  assert.ok((statuses["200"] ?? 0) > 0 && (statuses["400"] ?? 0) > 0);
  assert.deepEqual(await readCursors(`&after=${cursor}`), remainingCursors);
  await assertHealthy(server);
  assert.deepEqual(await server.stop(), { code: 0, signal: null });
});

it("gantry serve --acp --stdio prints only JSON-RPC lines for mutated input and answers the last request", async (t) => {
  const { random, options } = await prepare(t);
  const { gantry, peer } = await spawnAcpServer(t, options);
  await peer.initialize();
  const stdioMessages = createMessages(await peer.newSession(gantry.projectDir), gantry.projectDir);
  await sendFrames(t, gantry, async (n) => {
    const line = mutateMessage(random, stdioMessages[n % stdioMessages.length] ?? "");
    gantry.child.stdin.write(Buffer.concat([line, Buffer.from("\n")]));
    if (n % 50 === 49) await peer.request("session/list", {}, `after ${n}`);
  });
  peer.assertNoValidationErrors();
  await assertHealthy(gantry);
  gantry.child.stdin.end();
  assert.deepEqual(await gantry.exited, { code: 0, signal: null });
});
