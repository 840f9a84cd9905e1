import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { describe, it, type TestContext } from "node:test";
import { HttpPeer, SocketPeer } from "./acp-http.js";
import type { Json } from "./acp-peer.js";
import { callStep, textStep, type FakeModelServer } from "./fake-model-server.js";
import { createServerConfig, startModelServer, waitUntil } from "./server-runs.js";
import { createSessionConfig } from "./server-stores.js";
import { runGantry, startServer, type GantryServer } from "./server.js";
import { tempDir } from "./temp-dir.js";

export interface UserClient {
  readonly token: string;
  readonly headers: Record<string, string>;
  /** Sends a request as the user. Returns the status and the parsed body. `session`: the id in the headers. */
  send(method: string, path: string, body?: unknown): Promise<{ status: number; body: Json; session: string }>;
}

export interface UserServer {
  readonly server: GantryServer;
  readonly models: FakeModelServer;
  readonly home: string;
  addUser(name: string, ...flags: string[]): Promise<UserClient>;
}

/** Starts a server with users. */
export async function startUserServer(
  t: TestContext,
  { driver = "sqlite", ...config }: { driver?: string; server?: object; permissions?: object } = {},
): Promise<UserServer> {
  const models = await startModelServer(t, { fallback: textStep("Noted.") });
  const folder = await tempDir(t);
  const home = folder.at("home");
  await mkdir(home);
  const serverConfig = createServerConfig(models, {
    ...config,
    server: { tokens: "tokens.json", transports: ["koa-http-api", "web-console", "acp-http-sse-ws"], ...config.server },
    session: await createSessionConfig(driver),
  });
  const server = await startServer(t, { config: serverConfig, home, files: { "a.txt": "text" } });
  const addUser = async (name: string, ...flags: string[]): Promise<UserClient> => {
    const { code, stdout, stderr } = await runGantry(t, ["token", "add", name, ...flags], { home });
    assert.equal(code, 0, stderr);
    const token = stdout.trim();
    const client = createClient(server, token);
    await waitUntil(async () => (await client.send("GET", "/api/models")).status !== 401);
    return client;
  };
  return { server, models, home, addUser };
}

function createClient(server: GantryServer, token: string): UserClient {
  const headers = { Authorization: `Bearer ${token}` };
  const send = async (method: string, path: string, body?: unknown) => {
    const response = await server.fetch(path, {
      method,
      headers: { ...headers, ...(body !== undefined && { "Content-Type": "application/json" }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const session = response.headers.get("X-Session-Id") ?? "";
    return { status: response.status, body: (text === "" ? undefined : JSON.parse(text)) as Json, session };
  };
  return { token, headers, send };
}

/** Runs a prompt in a new session. Returns the id of the session. */
export async function startSession({ send }: UserClient, message = "hi"): Promise<string> {
  const { status, body, session } = await send("POST", "/api/run", { message });
  assert.equal(status, 200, JSON.stringify(body));
  return session;
}

/** Reads a stream up to a text, and cancels it. */
async function readUntil({ body }: Response, text: string): Promise<string> {
  let received = "";
  for await (const chunk of body!.pipeThrough(new TextDecoderStream())) {
    received += chunk;
    if (received.includes(text)) return received;
  }
  throw new Error(`the stream ended without ${text}: ${received}`);
}

const UNKNOWN_ID = "01890000-0000-7000-8000-000000000000";

/** Tests that a user gets no session of another user over any transport, on a store of a kind. */
export function testSeparation(driver: string, skip: string | false = false): void {
  describe(`a user and the sessions of another (${driver})`, { skip }, () => {
    it("are refused over the HTTP API as if they did not exist", async (t) => {
      const { addUser, models, server } = await startUserServer(t, { driver, permissions: { mode: "ask" } });
      const [ada, bob] = [await addUser("ada"), await addUser("bob")];
      const bobsEvents = await server.fetch("/api/events", { headers: bob.headers });
      const sessionId = await startSession(ada, "a secret prompt");
      // A run of Ada that waits for her permission.
      models.enqueue(callStep("bash", { command: "true", description: "Do nothing" }));
      // A client that answers must be connected before the question.
      await ada.send("GET", "/api/asks?can_answer=true");
      const pendingRun = ada.send("POST", "/api/run", { message: "run it", session_id: sessionId });
      let ask: Json;
      await waitUntil(async () => (ask = (await ada.send("GET", "/api/asks?can_answer=true")).body.asks[0]));
      const runId = String(ask.run_id);
      const [, firstMessage] = (await ada.send("GET", `/api/sessions/${sessionId}/messages`)).body.messages as Json[];

      const requests = (id: string, run: string, askId: string): [string, string, unknown?][] => [
        ["GET", `/api/sessions/${id}`],
        ["PATCH", `/api/sessions/${id}`, { title: "mine" }],
        ["PATCH", `/api/sessions/${id}`, { shared: true }],
        ["PATCH", `/api/sessions/${id}`, { mode: "plan" }],
        ["PATCH", `/api/sessions/${id}`, { archived: true }],
        ["DELETE", `/api/sessions/${id}`],
        ["GET", `/api/sessions/${id}/messages`],
        ["GET", `/api/sessions/${id}/messages?view=model`],
        ["GET", `/api/sessions/${id}/events`],
        ["GET", `/api/sessions/${id}/context`],
        ["GET", `/api/sessions/${id}/changes`],
        ["GET", `/api/sessions/${id}/worktree`],
        ["POST", `/api/sessions/${id}/worktree/apply`, {}],
        ["POST", `/api/sessions/${id}/fork`, { message_id: firstMessage.id }],
        ["POST", `/api/sessions/${id}/revert`, { message_id: firstMessage.id }],
        ["POST", `/api/sessions/${id}/undo`, {}],
        ["POST", `/api/sessions/${id}/redo`, {}],
        ["POST", `/api/sessions/${id}/cancel`],
        ["POST", `/api/sessions/${id}/steer`, { message: "stop" }],
        ["POST", `/api/sessions/${id}/background`, {}],
        ["POST", `/api/sessions/${id}/shell`, { command: "true" }],
        ["POST", "/api/run", { message: "continue", session_id: id }],
        ["POST", "/api/run", { message: "continue", session_id: id, stream: true }],
        ["POST", "/api/run", { message: "continue", session_id: id, queue: true }],
        ["GET", `/api/runs/${run}`],
        ["POST", `/api/runs/${run}/cancel`],
        ["GET", `/api/runs?session_id=${id}`],
        ["GET", `/api/asks/${askId}`],
        ["POST", `/api/asks/${askId}`, { choice: "allow" }],
        ["GET", `/api/asks?session_id=${id}`],
        ["GET", `/api/commands?session_id=${id}`],
        ["GET", `/api/files?session_id=${id}`],
        ["GET", `/api/files/content?session_id=${id}&path=a.txt`],
        ["GET", `/api/sessions?spawned_by=${id}`],
      ];
      const ownRequests = requests(sessionId, runId, String(ask.id));
      const unknownRequests = requests(UNKNOWN_ID, UNKNOWN_ID, UNKNOWN_ID);
      for (const [i, [method, path, body]] of ownRequests.entries()) {
        const answer = await bob.send(method, path, body);
        const [, unknownPath = "", unknownBody] = unknownRequests[i] ?? [];
        const unknownAnswer = await bob.send(method, unknownPath, unknownBody);
        // The answer for a session that does not exist: nothing shows that the session of Ada exists.
        const withoutIds = (value: unknown) => JSON.stringify(value)?.replaceAll(/[0-9a-f-]{36}/g, "<id>");
        assert.equal(withoutIds(answer), withoutIds(unknownAnswer), `${method} ${path}`);
        if (path.includes("spawned_by")) assert.deepEqual(answer.body.sessions, []);
        else assert.ok([400, 403, 404].includes(answer.status), `${method} ${path}: ${JSON.stringify(answer)}`);
      }

      // Lists contain only the user's own.
      const bobsSession = await startSession(bob, "of bob");
      assert.deepEqual(
        (await bob.send("GET", "/api/sessions")).body.sessions.map(({ id }: Json) => id),
        [bobsSession],
      );
      const events = await readUntil(bobsEvents, bobsSession);
      assert.ok(!events.includes(sessionId) && !events.includes("secret"), events);
      assert.equal((await bob.send("GET", "/api/sessions")).body.total, 1);
      assert.equal((await bob.send("GET", "/api/runs")).body.runs.length, 1);
      assert.deepEqual((await bob.send("GET", "/api/asks")).body.asks, []);
      assert.deepEqual((await bob.send("GET", "/api/search?query=secret")).body.matches, []);
      assert.equal((await ada.send("GET", "/api/search?query=secret")).body.matches.length, 1);

      // Nothing has happened to Ada's session.
      assert.equal((await ada.send("GET", `/api/runs/${runId}`)).body.state, "waiting");
      assert.equal((await ada.send("POST", `/api/asks/${ask.id}`, { choice: "allow" })).status, 200);
      const { status, body } = await pendingRun;
      assert.deepEqual([status, body.output], [200, "Noted."]);
      const run = (await ada.send("GET", `/api/runs/${runId}`)).body;
      assert.equal(run.user, "ada");
      assert.equal((await ada.send("GET", `/api/sessions/${sessionId}`)).body.owner, "ada");
      assert.match(server.stderr, /user=ada|"user":"ada"/);
      assert.ok(!server.stderr.includes(ada.token) && !server.stderr.includes(bob.token));
    });

    it("are refused over ACP with HTTP and WebSocket", async (t) => {
      const { addUser, server } = await startUserServer(t, { driver });
      const [ada, bob] = [await addUser("ada"), await addUser("bob")];
      const sessionId = await startSession(ada);
      const url = `${server.url}/acp`;
      const adasPeer = new HttpPeer(url);
      adasPeer.headers = ada.headers;
      assert.equal((await adasPeer.open()).status, 200);

      const bobsPeer = new HttpPeer(url);
      bobsPeer.headers = bob.headers;
      assert.equal((await bobsPeer.open()).status, 200);
      await bobsPeer.openStream();
      const bobsSocket = new SocketPeer(url, { headers: bob.headers });
      t.after(() => bobsSocket.socket.terminate());
      await bobsSocket.waitUntilOpen();
      await bobsSocket.request("initialize", { protocolVersion: 1 });
      for (const peer of [bobsPeer, bobsSocket]) {
        const session = { sessionId, cwd: server.projectDir, mcpServers: [] };
        for (const [method, params] of [
          ["session/load", session],
          ["session/resume", session],
          ["session/prompt", { sessionId, prompt: [{ type: "text", text: "hi" }] }],
          ["session/set_mode", { sessionId, modeId: "plan" }],
          ["session/fork", session],
          ["session/delete", { sessionId }],
          ["session/close", { sessionId }],
        ] as const) {
          const work = peer.request(method, params);
          // Closing a session that the connection has not opened changes nothing.
          if (method === "session/close") await work.catch(() => undefined);
          else await assert.rejects(work, /not found|Resource/i, method);
        }
        const { sessions } = (await peer.request("session/list", {})) as Json;
        assert.deepEqual(sessions, []);
      }

      // The connection of another user does not exist either.
      const foreignPost = await bobsPeer.post("{}", { "acp-connection-id": adasPeer.connectionId });
      assert.equal(foreignPost.status, 404, foreignPost.text);
      bobsPeer.connectionId = adasPeer.connectionId;
      await assert.rejects(bobsPeer.openStream(), /404/);
      assert.equal((await bobsPeer.closeConnection()).status, 404);
      assert.equal((await ada.send("GET", `/api/sessions/${sessionId}`)).status, 200);
    });
  });
}
