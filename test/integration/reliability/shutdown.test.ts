import assert from "node:assert/strict";
import { it } from "node:test";
import { HttpPeer, SocketPeer, type SseStream } from "../../helpers/acp-http.js";
import { callStep, type FakeRequest } from "../../helpers/fake-model-server.js";
import { createFaultyStdioServer } from "../../helpers/mcp-servers.js";
import {
  runPrompt,
  startModelServer,
  createServerConfig,
  countProcesses,
  startStreamedRun,
  pickUniqueSeconds,
  waitUntil,
} from "../../helpers/server-runs.js";
import { startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

const STREAM_COUNT = 100;
const SOCKET_COUNT = 50;
const WATCHER_COUNT = 20;

function isProcessAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

it("SIGTERM stops a server with 100 streams, 50 WebSockets, 20 watchers, 5 runs, an MCP server and a stubborn child with exit code 0 and no process left", async (t) => {
  const sleepSeconds = pickUniqueSeconds();
  const stubbornCommand = `trap '' TERM HUP; echo on > running; (trap '' TERM HUP; exec sleep ${sleepSeconds}) & while true; do sleep 0.1; done`;
  const isToolRequest = ({ body }: FakeRequest) => JSON.stringify(body).includes("run-the-tool");
  const modelServer = await startModelServer(t, {
    fallback: (request) =>
      isToolRequest(request)
        ? callStep("bash", { command: stubbornCommand, timeout: 600 })
        : { say: [{ text: "Hm" }, { stall: true }] },
  });
  const project = await tempDir(t);
  // The MCP server and its child ignore TERM. Every run starts its own.
  const mcpServer = createFaultyStdioServer("stubborn");
  const mcpArguments = [...mcpServer.args, "stdio", `of-test-${sleepSeconds}`];
  const mcpEnvironment = { PIDS: project.at("mcp-pids") };
  const server = await startServer(t, {
    config: createServerConfig(modelServer, {
      server: { transports: ["koa-http-api", "acp-http-sse-ws"] },
      mcp_servers: { stubborn: { command: mcpServer.command, args: mcpArguments, env: mcpEnvironment } },
    }),
    projectDir: project.path,
  });
  const acpUrl = `${server.url}/acp`;

  const peers = await Promise.all(
    Array.from({ length: 10 }, async () => {
      const peer = new HttpPeer(acpUrl);
      await peer.open();
      return peer;
    }),
  );
  const sseStreams: SseStream[] = (
    await Promise.all(
      peers.map(async (peer) => {
        const peerStreams: SseStream[] = [];
        for (let n = 0; n < STREAM_COUNT / peers.length; n++)
          peerStreams.push(await peer.openStream(n === 0 ? undefined : `other-${n}`));
        return peerStreams;
      }),
    )
  ).flat();
  const sockets = await Promise.all(
    Array.from({ length: SOCKET_COUNT }, async () => {
      const peer = new SocketPeer(acpUrl);
      await peer.waitUntilOpen();
      await peer.initialize();
      return peer;
    }),
  );

  const toolStream = await startStreamedRun(server, { message: "run-the-tool" });
  const talkStream = await startStreamedRun(server, { message: "talk" });
  const pendingRun = runPrompt(server, { message: "talk" });
  const [socket, peer] = [sockets[0]!, peers[0]!];
  const pendingResults = [
    socket.prompt(await socket.newSession(project.path), "talk"),
    peer.prompt(await peer.newSession(project.path), "talk"),
  ];
  await talkStream.waitForCharacters(1);
  await waitUntil(async () => (await project.read("running").catch(() => "")) !== "");
  await waitUntil(() => modelServer.requests.filter(({ tools }) => tools.length > 0).length >= 5);

  const watchResponses = await Promise.all(
    Array.from({ length: WATCHER_COUNT }, () => server.fetch(`/api/sessions/${talkStream.sessionId}/events`)),
  );
  assert.ok((await countProcesses(`of-test-${sleepSeconds}`)) > 0, server.stderr);

  const startedAtMs = performance.now();
  assert.deepEqual(await server.stop("SIGTERM"), { code: 0, signal: null });
  t.diagnostic(`the server ended after ${Math.round(performance.now() - startedAtMs)} ms`);
  await Promise.all(watchResponses.map((response) => response.text().catch(() => "")));

  await Promise.all([toolStream.ended, talkStream.ended]);
  for (const { latestEvent } of [toolStream, talkStream]) {
    assert.deepEqual(latestEvent, { event: "error", data: { error: "server shutting down", code: "shutting_down" } });
  }
  const { status, error } = await pendingRun;
  assert.deepEqual([status, error], [503, "server shutting down"]);
  for (const result of await Promise.all(pendingResults)) assert.deepEqual(result, { stopReason: "cancelled" });
  assert.deepEqual(new Set(await Promise.all(sockets.map(({ closed }) => closed))), new Set([1001]));
  await Promise.all(sseStreams.map(({ ended }) => ended));
  for (const client of [...peers, ...sockets]) client.assertNoValidationErrors();
  // A part of the server can exceed its time limit on a busy machine. The checks above prove that every part has ended.
  const errorLines = server.stderr.split("\n").filter((line) => line.includes(" error "));
  assert.deepEqual(
    errorLines.filter((line) => !line.includes("did not stop in time")),
    [],
  );
  const mcpProcessIds = (await project.read("mcp-pids")).split(" ").map(Number);
  await waitUntil(() => mcpProcessIds.every((pid) => !isProcessAlive(pid)));
  for (const text of [`sleep ${sleepSeconds}`, `of-test-${sleepSeconds}`])
    await waitUntil(async () => (await countProcesses(text)) === 0);
});
