// Mutated frames and requests to the sockets and pipes of real servers. FRAMES extends the test.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { it } from "node:test";
import { HttpPeer, SocketPeer } from "../../helpers/acp-http.js";
import { textStep } from "../../helpers/fake-model-server.js";
import { openConnection } from "../../helpers/raw-http.js";
import { runPrompt, startModelServer, createServerConfig, waitUntil } from "../../helpers/server-runs.js";
import { createRandom, readSeed } from "../../helpers/random.js";
import { spawnGantry, startServer, type GantryProcess } from "../../helpers/server.js";

/** Number of frames per wire. */
const FRAME_COUNT = Number(process.env["FRAMES"] ?? 250);
/**
 * Maximum memory, far more than a server needs. In the longer form of the test, a leak of rejected requests would
 * exceed this limit.
 */
const MAX_MEMORY_BYTES = 500 * 1024 * 1024;

const FRAGMENTS = [
  '"',
  "{",
  "}",
  "[",
  "]",
  ",",
  ":",
  "0",
  "-1",
  "1e999",
  "null",
  "true",
  "\\",
  "\\ud800",
  "\u0000",
  "é",
  "\u{1f600}",
  "__proto__",
  "\r",
  " ",
  "[".repeat(200),
  "9".repeat(40),
];

const REPLACEMENT_VALUES: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  1e308,
  "",
  "x",
  "../..",
  "\ud800",
  [],
  [null],
  {},
  { __proto__: null },
  [[[[{}]]]],
];

/** Replaces a value at a random position, or removes a member. */
function replaceRandomValue(random: () => number, value: unknown): unknown {
  if (typeof value !== "object" || value === null || random() < 0.15)
    return REPLACEMENT_VALUES[Math.floor(random() * REPLACEMENT_VALUES.length)];
  const keys = Object.keys(value);
  const key = keys[Math.floor(random() * keys.length)];
  if (key === undefined) return REPLACEMENT_VALUES[Math.floor(random() * REPLACEMENT_VALUES.length)];
  const copy = structuredClone(value) as Record<string, unknown>;
  if (random() < 0.1) delete copy[key];
  else copy[key] = replaceRandomValue(random, copy[key]);
  return copy;
}

/** Returns a mutated message. Half of the results are JSON of a wrong shape, most other results are not JSON. */
function mutateMessage(random: () => number, text: string): Buffer {
  const randomBelow = (limit: number) => Math.floor(random() * limit);
  if (random() < 0.5) return Buffer.from(JSON.stringify(replaceRandomValue(random, JSON.parse(text))));
  let result = text;
  for (let n = randomBelow(4) + 1; n > 0; n--) {
    const offset = randomBelow(result.length);
    const piece =
      random() < 0.2 ? result.slice(randomBelow(offset + 1), offset) : (FRAGMENTS[randomBelow(FRAGMENTS.length)] ?? "");
    result =
      random() < 0.05
        ? result.slice(0, offset)
        : result.slice(0, offset) + piece + result.slice(offset + randomBelow(6));
  }
  const bytes = Buffer.from(result.replaceAll("\n", " "), "utf8");
  if (random() < 0.1 && bytes.length > 0)
    bytes[randomBelow(bytes.length)] = [0x80, 0xff, 0xc0, 0x00][randomBelow(4)] ?? 0;
  // A byte 0x0a would end a stdio line. The bytes above are never 0x0a.
  return bytes;
}

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

async function readMemoryBytes({ pid }: GantryProcess): Promise<number> {
  const text = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
  return Number(/VmRSS:\s+(\d+)/.exec(text)?.[1] ?? 0) * 1024;
}

async function assertHealthy(process: GantryProcess): Promise<void> {
  assert.ok(!process.hasEnded, process.stderr);
  assert.doesNotMatch(process.stderr, / error /);
  assert.ok((await readMemoryBytes(process)) < MAX_MEMORY_BYTES, "memory stays below the limit");
}

const serverConfig = { limits: { connections: 4096 }, log: { level: "info" } };

it("a server that receives mutated HTTP and WebSocket messages stays healthy and answers later requests", async (t) => {
  const seed = readSeed();
  t.diagnostic(`SEED=${seed} FRAMES=${FRAME_COUNT}`);
  const random = createRandom(seed);
  const modelServer = await startModelServer(t, { fallback: textStep("Yes.") });
  const server = await startServer(t, {
    config: createServerConfig(modelServer, {
      ...serverConfig,
      server: { transports: ["koa-http-api", "acp-http-sse-ws"] },
    }),
  });
  const url = `${server.url}/acp`;

  let socket = new SocketPeer(url);
  let seedMessages: string[] = [];
  const connect = async (): Promise<void> => {
    socket = new SocketPeer(url);
    await socket.waitUntilOpen();
    await socket.initialize();
    seedMessages = createMessages(await socket.newSession(server.projectDir), server.projectDir);
  };
  await connect();
  let closedSocketCount = 0;
  for (let n = 0; n < FRAME_COUNT; n++) {
    // Invalid UTF-8 closes the connection, as the WebSocket protocol requires.
    if (socket.socket.readyState !== socket.socket.OPEN) {
      closedSocketCount++;
      await connect();
    }
    const frame = mutateMessage(random, seedMessages[n % seedMessages.length] ?? "");
    socket.socket.send(frame, { binary: random() < 0.05 });
    // The pong proves that the server has read all frames. Otherwise a frame has closed the connection.
    if (n % 50 === 49) {
      const { socket: webSocket, closed } = socket;
      webSocket.ping();
      await Promise.race([new Promise((resolve) => webSocket.once("pong", resolve)), closed]);
    }
  }
  // The close of the connection can still be in transit.
  for (let sessionCount = 0; sessionCount === 0;) {
    if (socket.socket.readyState !== socket.socket.OPEN) await connect();
    const closeEvent = new Promise<undefined>((resolve) => socket.socket.once("close", () => resolve(undefined)));
    const listingRequest = socket.request("session/list", {});
    listingRequest.catch(() => undefined);
    const listingResult = await Promise.race([listingRequest, closeEvent]);
    if (listingResult) assert.ok((sessionCount = listingResult.sessions.length) > 0);
  }
  socket.assertNoValidationErrors();
  t.diagnostic(`${closedSocketCount} WebSockets were closed`);

  const peer = new HttpPeer(url);
  await peer.open();
  await peer.openStream();
  seedMessages = createMessages(await peer.newSession(server.projectDir), server.projectDir);
  const statuses = new Map<string, number>();
  const post = async (path: string, body: Buffer, headers: string): Promise<void> => {
    const connection = await openConnection(server.url);
    connection.write(
      `POST ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${headers}Content-Length: ${body.length}\r\n\r\n`,
    );
    connection.write(body);
    await connection.closed;
    const [, status = ""] = /^HTTP\/1\.1 (\d{3}) /.exec(connection.receivedText) ?? [];
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    assert.match(status, /^[1-4]/, JSON.stringify(body.toString("latin1")));
  };
  const acpHeaders = `Content-Type: application/json\r\nAcp-Connection-Id: ${peer.connectionId}\r\n`;
  const runBody = JSON.stringify({
    message: "hi",
    provider: "lab",
    model: "m1",
    session_id: "",
    files: [],
    stream: false,
  });
  for (let n = 0; n < FRAME_COUNT; n += 10) {
    await Promise.all(
      Array.from({ length: 10 }, (_, i) =>
        i % 5 === 0
          ? post("/api/run", mutateMessage(random, runBody), "")
          : post("/acp", mutateMessage(random, seedMessages[(n + i) % seedMessages.length] ?? ""), acpHeaders),
      ),
    );
  }
  t.diagnostic(JSON.stringify(Object.fromEntries(statuses)));
  assert.ok((await peer.request("session/list", {})).sessions.length > 0);
  peer.assertNoValidationErrors();
  assert.equal((await runPrompt(server, { message: "still there?" })).output, "Yes.");
  await assertHealthy(server);
  assert.deepEqual(await server.stop(), { code: 0, signal: null });
});

it("gantry serve --acp --stdio prints only JSON-RPC lines for mutated input and answers the last request", async (t) => {
  const seed = readSeed();
  t.diagnostic(`SEED=${seed} FRAMES=${FRAME_COUNT}`);
  const random = createRandom(seed);
  const modelServer = await startModelServer(t, { fallback: textStep("Yes.") });
  const gantry = await spawnGantry(t, {
    config: createServerConfig(modelServer, serverConfig),
    args: ["serve", "--acp", "--stdio"],
  });
  const readLines = () => gantry.stdout.split("\n").slice(0, -1);
  // Only the last lines are read, because mutated ids can be equal.
  const request = async (id: string, method: string, params: object): Promise<{ result: { sessionId: string } }> => {
    gantry.child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    const findResponseLine = () =>
      readLines().findLast((line) => line.includes(`"id":"${id}"`) && !line.includes('"method"'));
    await waitUntil(() => gantry.hasEnded || findResponseLine() !== undefined);
    return JSON.parse(findResponseLine() ?? "null") as { result: { sessionId: string } };
  };
  await request("first", "initialize", { protocolVersion: 1 });
  const { result } = await request("second", "session/new", { cwd: gantry.projectDir, mcpServers: [] });
  const stdioMessages = createMessages(result.sessionId, gantry.projectDir);
  for (let n = 0; n < FRAME_COUNT; n++) {
    gantry.child.stdin.write(
      Buffer.concat([mutateMessage(random, stdioMessages[n % stdioMessages.length] ?? ""), Buffer.from("\n")]),
    );
  }
  assert.ok("result" in (await request("last", "session/list", {})));
  for (const line of readLines()) assert.equal((JSON.parse(line) as { jsonrpc?: unknown }).jsonrpc, "2.0", line);
  await assertHealthy(gantry);
  gantry.child.stdin.end();
  assert.deepEqual(await gantry.exited, { code: 0, signal: null });
});
