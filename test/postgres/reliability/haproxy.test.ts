import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { HttpPeer, SocketPeer } from "../../helpers/acp-http.js";
import type { Json } from "../../helpers/acp-peer.js";
import { startHaproxy, NO_HAPROXY, type HaproxyBalancer } from "../../helpers/haproxy.js";
import { createServerConfig, startModelServer, waitUntil } from "../../helpers/server-runs.js";
import { NO_POSTGRES, createPostgresSchema } from "../../helpers/postgres.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

// Tests the files of docs/scaling without changes. The services of its compose file run as processes: PostgreSQL, three
// replicas and HAProxy.

const configPath = fileURLToPath(new URL("../../../docs/scaling/config.json", import.meta.url));
const config = JSON.parse(readFileSync(configPath, "utf8")) as Record<string, Record<string, unknown>>;
const AUTH_HEADERS = { authorization: "Bearer secret" };

interface Deployment {
  replicas: GantryServer[];
  balancer: HaproxyBalancer;
  projectDir: string;
  /** Runs a prompt through the balancer. An idempotency key permits HAProxy to retry the request. */
  prompt(message: string, sessionId?: string): Promise<{ status: number; sessionId: string; output: string }>;
}

/**
 * Starts three replicas and HAProxy. `serverOverrides` replaces settings in section `server` of the documented config.
 */
async function startDeployment(t: TestContext, serverOverrides: Record<string, unknown> = {}): Promise<Deployment> {
  // Cleans up in reverse order, so that no process uses the schema when it is dropped.
  const cleanups: (() => Promise<void> | void)[] = [];
  const hooks = { after: (cleanup: () => Promise<void> | void) => void cleanups.unshift(cleanup) };
  t.after(async () => {
    for (const cleanup of cleanups) await cleanup();
  });
  const models = await startModelServer(hooks);
  const { url, schema } = await createPostgresSchema(hooks);
  const projectDir = (await tempDir(hooks)).path;
  const replicaConfig = createServerConfig(models, {
    ...config,
    server: { ...config.server, ...serverOverrides },
    session: { ...config.session, schema },
  });
  const startReplica = () =>
    startServer(hooks, {
      config: replicaConfig,
      projectDir,
      env: { GANTRY_TOKEN: "secret", GANTRY_PROJECTS: projectDir, DATABASE_URL: url },
      args: ["serve", "--host", "127.0.0.1", "--port", "0"],
    });
  const replicas = await Promise.all([startReplica(), startReplica(), startReplica()]);
  const [hostA = "", hostB = "", hostC = ""] = replicas.map((replica) => new URL(replica.url).host);
  const balancer = await startHaproxy(hooks, [hostA, hostB, hostC]);
  await balancer.waitForServers(3);
  return {
    replicas,
    balancer,
    projectDir,
    async prompt(message, sessionId) {
      const response = await fetch(`${balancer.url}/api/run`, {
        method: "POST",
        headers: { ...AUTH_HEADERS, "idempotency-key": randomUUID() },
        body: JSON.stringify({ message, session_id: sessionId }),
      });
      const { output = "" } = (await response.json()) as { output?: string };
      return { status: response.status, sessionId: response.headers.get("x-session-id") ?? "", output };
    },
  };
}

/** Reads the roles of the stored messages through the balancer. */
async function readStoredRoles({ balancer }: Deployment, sessionId: string): Promise<string[]> {
  const response = await fetch(`${balancer.url}/api/sessions/${sessionId}/messages`, { headers: AUTH_HEADERS });
  const { messages } = (await response.json()) as { messages: { role: string; content: string }[] };
  return messages.map(({ role }) => role);
}

async function connectPeer(url: string): Promise<HttpPeer> {
  const peer = new HttpPeer(url);
  peer.headers = { ...AUTH_HEADERS };
  assert.equal((await peer.open()).status, 200);
  return peer;
}

/** Creates a session on a connection and opens its stream. */
async function createSession(peer: HttpPeer, cwd: string): Promise<string> {
  await peer.openStream();
  const { result } = await peer.call("session/new", { cwd, mcpServers: [] });
  const { sessionId } = result as { sessionId: string };
  await peer.openStream(sessionId);
  return sessionId;
}

const createPromptParams = (text: string, sessionId: string): Json => ({ sessionId, prompt: [{ type: "text", text }] });

describe("three replicas behind HAProxy", { skip: NO_HAPROXY || NO_POSTGRES }, () => {
  it("share HTTP requests without an error while one replica is killed and another drains", async (t) => {
    const deployment = await startDeployment(t, { drain_delay: 3 });
    const { sessionId } = await deployment.prompt("one");
    let turnCount = 1;
    const sendPrompts = async (count: number): Promise<void> => {
      for (let n = 0; n < count; n++)
        assert.equal((await deployment.prompt(`turn ${++turnCount}`, sessionId)).status, 200);
    };
    // HAProxy may skip a replica that answers a health check late.
    await waitUntil(async () => {
      await sendPrompts(3);
      return Object.values(await deployment.balancer.readRequestCounts("api")).every((count) => count >= 2);
    });
    const [killedReplica, drainingReplica] = deployment.replicas;
    await killedReplica?.stop("SIGKILL");
    await sendPrompts(6);
    const exit = drainingReplica?.stop("SIGTERM");
    await sendPrompts(6);
    assert.equal((await exit)?.code, 0);
    await deployment.balancer.waitForServers(1);
    assert.deepEqual(
      await readStoredRoles(deployment, sessionId),
      Array.from({ length: turnCount }, () => ["user", "assistant"]).flat(),
    );
  });

  it("receive all requests of an ACP connection over HTTP on one replica, by the connection id or the cookie", async (t) => {
    const { balancer, projectDir } = await startDeployment(t);
    const peers: HttpPeer[] = [];
    for (let n = 0; n < 3; n++) {
      const peer = await connectPeer(`${balancer.url}/acp`);
      peers.push(peer);
      const id = await createSession(peer, projectDir);
      for (let turn = 0; turn < 3; turn++) {
        const { result } = await peer.call("session/prompt", createPromptParams("hi", id));
        assert.equal((result as Json).stopReason, "end_turn");
      }
    }
    const requestCounts = Object.values(await balancer.readRequestCounts("acp"));
    assert.ok(
      requestCounts.every((count) => count >= 5),
      `a replica served fewer than 5 requests: ${requestCounts.join(", ")}`,
    );

    // After the table is cleared, only the cookie identifies the replica.
    const cookiePeer = new HttpPeer(`${balancer.url}/acp`);
    cookiePeer.headers = { ...AUTH_HEADERS };
    const cookie = String((await cookiePeer.open()).headers["set-cookie"]).split(";")[0] ?? "";
    assert.match(cookie, /^GANTRY_REPLICA=/);
    await balancer.sendCommand("clear table acp");
    const listRequest = '{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}}';
    for (let n = 0; n < 3; n++) assert.equal((await cookiePeer.post(listRequest, { cookie })).status, 202);
    const statusesWithoutCookie = [];
    for (let n = 0; n < 3; n++) statusesWithoutCookie.push((await cookiePeer.post(listRequest)).status);
    assert.ok(
      statusesWithoutCookie.includes(404),
      "every request without the cookie reached the replica of the connection",
    );
    for (const peer of peers) await peer.closeConnection();
  });

  it("still serve the existing ACP connections of a draining replica", async (t) => {
    // The drain delay is longer than the test.
    const { balancer, replicas, projectDir } = await startDeployment(t, { drain_delay: 600 });
    const peer = await connectPeer(`${balancer.url}/acp`);
    const id = await createSession(peer, projectDir);
    const [name = ""] = Object.entries(await balancer.readRequestCounts("acp")).find(([, count]) => count > 0) ?? [];
    replicas["abc".indexOf(name)]?.child.kill("SIGTERM");
    await balancer.waitForServers(2);
    for (let turn = 0; turn < 3; turn++) {
      const { result } = await peer.call("session/prompt", createPromptParams("hi", id));
      assert.equal((result as Json).stopReason, "end_turn");
    }
  });

  it("let a WebSocket client of a killed replica reconnect, load the session and prompt again", async (t) => {
    const { balancer, replicas, projectDir } = await startDeployment(t);
    const openPeer = async (): Promise<SocketPeer> => {
      const peer = new SocketPeer(`${balancer.url}/acp`, { headers: AUTH_HEADERS });
      await peer.waitUntilOpen();
      await peer.call("initialize", { protocolVersion: 1, clientCapabilities: {} });
      return peer;
    };
    const firstPeer = await openPeer();
    const { sessionId } = (await firstPeer.call("session/new", { cwd: projectDir, mcpServers: [] })).result as Json;
    assert.equal(
      ((await firstPeer.call("session/prompt", createPromptParams("one", sessionId))).result as Json).stopReason,
      "end_turn",
    );
    const requestCounts = await balancer.readRequestCounts("acp");
    const [name = ""] = Object.entries(requestCounts).find(([, count]) => count > 0) ?? [];
    await replicas["abc".indexOf(name)]?.stop("SIGKILL");
    await firstPeer.closed;
    const secondPeer = await openPeer();
    await secondPeer.call("session/load", { sessionId, cwd: projectDir, mcpServers: [] });
    assert.equal(
      ((await secondPeer.call("session/prompt", createPromptParams("two", sessionId))).result as Json).stopReason,
      "end_turn",
    );
    const replayedPrompts = secondPeer.receivedMessages.filter(
      ({ params }) => params?.update?.sessionUpdate === "user_message_chunk",
    );
    assert.equal(replayedPrompts[0]?.params.update.content.text, "one");
    secondPeer.socket.close();
    await secondPeer.closed;
  });
});
