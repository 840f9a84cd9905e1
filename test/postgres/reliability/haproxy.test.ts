import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { HttpPeer, SocketPeer } from "../../helpers/acp-http.js";
import type { Json } from "../../helpers/acp-peer.js";
import { startHaproxy, NO_HAPROXY, type HaproxyBalancer } from "../../helpers/haproxy.js";
import { lab, labConfig } from "../../helpers/lab.js";
import { NO_POSTGRES, postgresSchema } from "../../helpers/postgres.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp.js";

// The unchanged files of docs/scaling. The services of the compose file run as processes: PostgreSQL, three replicas,
// HAProxy.

const file = fileURLToPath(new URL("../../../docs/scaling/config.json", import.meta.url));
const config = JSON.parse(readFileSync(file, "utf8")) as Record<string, Record<string, unknown>>;
const HEADERS = { authorization: "Bearer secret" };

interface Team {
  replicas: GantryServer[];
  balancer: HaproxyBalancer;
  projectDir: string;
  /** Runs a prompt through the balancer. An idempotency key makes it safe to retry. */
  prompt(message: string, sessionId?: string): Promise<{ status: number; sessionId: string; output: string }>;
}

/** `server` overrides the settings of the documented config. */
async function team(t: TestContext, server: Record<string, unknown> = {}): Promise<Team> {
  // Cleans up in reverse order: the schema is dropped when no process uses it any more.
  const undo: (() => Promise<void> | void)[] = [];
  const hooks = { after: (work: () => Promise<void> | void) => void undo.unshift(work) };
  t.after(async () => {
    for (const work of undo) await work();
  });
  const models = await lab(hooks);
  const { url, schema } = await postgresSchema(hooks);
  const projectDir = (await tempDir(hooks)).path;
  const replicaConfig = labConfig(models, {
    ...config,
    server: { ...config.server, ...server },
    session: { ...config.session, schema },
  });
  const start = () =>
    startServer(hooks, {
      config: replicaConfig,
      projectDir,
      env: { GANTRY_TOKEN: "secret", GANTRY_PROJECTS: projectDir, DATABASE_URL: url },
      args: ["serve", "--host", "127.0.0.1", "--port", "0"],
    });
  const replicas = await Promise.all([start(), start(), start()]);
  const [a = "", b = "", c = ""] = replicas.map((replica) => new URL(replica.url).host);
  const balancer = await startHaproxy(hooks, [a, b, c]);
  await balancer.up(3);
  return {
    replicas,
    balancer,
    projectDir,
    async prompt(message, sessionId) {
      const response = await fetch(`${balancer.url}/api/run`, {
        method: "POST",
        headers: { ...HEADERS, "idempotency-key": randomUUID() },
        body: JSON.stringify({ message, session_id: sessionId }),
      });
      const { output = "" } = (await response.json()) as { output?: string };
      return { status: response.status, sessionId: response.headers.get("x-session-id") ?? "", output };
    },
  };
}

/** The roles of the stored messages, as any replica returns them. */
async function storedRoles({ balancer }: Team, sessionId: string): Promise<string[]> {
  const response = await fetch(`${balancer.url}/api/sessions/${sessionId}/messages`, { headers: HEADERS });
  const { messages } = (await response.json()) as { messages: { role: string; content: string }[] };
  return messages.map(({ role }) => role);
}

async function connected(url: string): Promise<HttpPeer> {
  const peer = new HttpPeer(url);
  peer.headers = { ...HEADERS };
  assert.equal((await peer.open()).status, 200);
  return peer;
}

/** Creates a session on a connection and opens its stream. */
async function session(peer: HttpPeer, cwd: string): Promise<string> {
  await peer.stream();
  const { result } = await peer.call("session/new", { cwd, mcpServers: [] });
  const { sessionId } = result as { sessionId: string };
  await peer.stream(sessionId);
  return sessionId;
}

const prompt = (text: string, sessionId: string): Json => ({ sessionId, prompt: [{ type: "text", text }] });

describe("three replicas behind HAProxy", { skip: NO_HAPROXY || NO_POSTGRES }, () => {
  it("share HTTP requests without an error while one replica is killed and another drains", async (t) => {
    const all = await team(t, { drain_delay: 3 });
    const { sessionId } = await all.prompt("one");
    for (let n = 2; n <= 6; n++) assert.equal((await all.prompt(`turn ${n}`, sessionId)).status, 200);
    for (const [name, count] of Object.entries(await all.balancer.served("api")))
      assert.ok(count >= 2, `${name} had ${count}`);
    const [a, b] = all.replicas;
    await a?.stop("SIGKILL");
    for (let n = 7; n <= 12; n++) assert.equal((await all.prompt(`turn ${n}`, sessionId)).status, 200);
    const ended = b?.stop("SIGTERM");
    for (let n = 13; n <= 18; n++) assert.equal((await all.prompt(`turn ${n}`, sessionId)).status, 200);
    assert.equal((await ended)?.code, 0);
    await all.balancer.up(1);
    assert.deepEqual(await storedRoles(all, sessionId), Array.from({ length: 18 }, () => ["user", "assistant"]).flat());
  });

  it("receive requests of an ACP connection over HTTP by its connection id or its cookie", async (t) => {
    const { balancer, projectDir } = await team(t);
    const peers: HttpPeer[] = [];
    for (let n = 0; n < 3; n++) {
      const peer = await connected(`${balancer.url}/acp`);
      peers.push(peer);
      const id = await session(peer, projectDir);
      for (let turn = 0; turn < 3; turn++) {
        const { result } = await peer.call("session/prompt", prompt("hi", id));
        assert.equal((result as Json).stopReason, "end_turn");
      }
    }
    const served = Object.values(await balancer.served("acp"));
    assert.ok(
      served.every((count) => count >= 5),
      `each replica had one connection: ${served.join(", ")}`,
    );

    // Without the entries of the table, only the cookie identifies the replica.
    const keeper = new HttpPeer(`${balancer.url}/acp`);
    keeper.headers = { ...HEADERS };
    const cookie = String((await keeper.open()).headers["set-cookie"]).split(";")[0] ?? "";
    assert.match(cookie, /^GANTRY_REPLICA=/);
    await balancer.command("clear table acp");
    const listRequest = '{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}}';
    for (let n = 0; n < 3; n++) assert.equal((await keeper.post(listRequest, { cookie })).status, 202);
    const without = [];
    for (let n = 0; n < 3; n++) without.push((await keeper.post(listRequest)).status);
    assert.ok(without.includes(404), "affinity is what held them together");
    for (const peer of peers) await peer.remove();
  });

  it("still serve existing ACP connections while they drain", async (t) => {
    // Longer than the test takes.
    const { balancer, replicas, projectDir } = await team(t, { drain_delay: 600 });
    const peer = await connected(`${balancer.url}/acp`);
    const id = await session(peer, projectDir);
    const [name = ""] = Object.entries(await balancer.served("acp")).find(([, count]) => count > 0) ?? [];
    replicas["abc".indexOf(name)]?.child.kill("SIGTERM");
    await balancer.up(2);
    for (let turn = 0; turn < 3; turn++) {
      const { result } = await peer.call("session/prompt", prompt("hi", id));
      assert.equal((result as Json).stopReason, "end_turn");
    }
  });

  it("let a WebSocket client of a killed replica reconnect, load its session and prompt again", async (t) => {
    const { balancer, replicas, projectDir } = await team(t);
    const open = async (): Promise<SocketPeer> => {
      const peer = new SocketPeer(`${balancer.url}/acp`, { headers: HEADERS });
      await peer.opened();
      await peer.call("initialize", { protocolVersion: 1, clientCapabilities: {} });
      return peer;
    };
    const first = await open();
    const { sessionId } = (await first.call("session/new", { cwd: projectDir, mcpServers: [] })).result as Json;
    assert.equal(
      ((await first.call("session/prompt", prompt("one", sessionId))).result as Json).stopReason,
      "end_turn",
    );
    const had = await balancer.served("acp");
    const [name = ""] = Object.entries(had).find(([, count]) => count > 0) ?? [];
    await replicas["abc".indexOf(name)]?.stop("SIGKILL");
    await first.closed;
    const second = await open();
    await second.call("session/load", { sessionId, cwd: projectDir, mcpServers: [] });
    assert.equal(
      ((await second.call("session/prompt", prompt("two", sessionId))).result as Json).stopReason,
      "end_turn",
    );
    const replayedPrompts = second.received.filter(
      ({ params }) => params?.update?.sessionUpdate === "user_message_chunk",
    );
    assert.equal(replayedPrompts[0]?.params.update.content.text, "one");
    second.socket.close();
    await second.closed;
  });
});
