// Users of a server: no user sees or changes anything of another, over any transport, and a revoked token ends
// what it has opened.
import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { HttpPeer, SocketPeer } from "../../helpers/acp-http.js";
import type { Json } from "../../helpers/acp-peer.js";
import { callStep, textStep, type FakeModelServer } from "../../helpers/fake-model-server.js";
import { createServerConfig, startModelServer, waitUntil } from "../../helpers/server-runs.js";
import { runGantry, startServer, type GantryServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

interface UserClient {
  readonly token: string;
  readonly headers: Record<string, string>;
  /** Sends a request as the user. Returns the status and the parsed body. `session`: the id in the headers. */
  send(method: string, path: string, body?: unknown): Promise<{ status: number; body: Json; session: string }>;
}

interface UserServer {
  readonly server: GantryServer;
  readonly models: FakeModelServer;
  readonly home: string;
  addUser(name: string, ...flags: string[]): Promise<UserClient>;
}

async function startUserServer(
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
    session: { driver },
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

async function startSession({ send }: UserClient, message = "hi"): Promise<string> {
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

for (const driver of ["sqlite", "json"])
  describe(`a user and the sessions of another (${driver})`, () => {
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

describe("users of a server", () => {
  it("need a token, and a token that is not theirs to give is refused", async (t) => {
    const { server, addUser } = await startUserServer(t);
    const statusOf = async (headers: Record<string, string>, path = "/api/sessions") =>
      (await server.fetch(path, { headers })).status;
    assert.equal(await statusOf({}), 401);
    assert.equal(await statusOf({ Authorization: "Bearer gantry_wrong" }), 401);
    assert.equal(await statusOf({ Authorization: "Basic YTpi" }), 401);
    const ada = await addUser("ada");
    assert.equal(await statusOf(ada.headers), 200);
    // The token in gantry's home is that of a user who may do everything.
    const sessionId = await startSession(ada);
    assert.equal(await statusOf(server.personHeaders, `/api/sessions/${sessionId}`), 200);
    assert.equal((await fetch(`${server.url}/acp`, { method: "POST" })).status, 401);
    assert.equal((await fetch(`${server.url}/console`)).status, 200);
  });

  it("keep their tokens when several commands change the file at once, and a revoked one stays revoked", async (t) => {
    const home = await tempDir(t);
    const runToken = (...args: string[]) => runGantry(t, ["token", ...args], { home: home.path });
    assert.equal((await runToken("add", "old")).code, 0);
    const names = Array.from({ length: 6 }, (_, n) => `user-${n}`);
    const exits = await Promise.all([...names.map((name) => runToken("add", name)), runToken("revoke", "old")]);
    for (const { code, stderr } of exits) assert.equal(code, 0, stderr);
    const users = JSON.parse((await runToken("list", "--json")).stdout) as { name: string }[];
    assert.deepEqual(users.map(({ name }) => name).sort(), names);
  });

  it("may do what their scopes allow", async (t) => {
    const { addUser, models } = await startUserServer(t, { permissions: { mode: "ask" } });
    const ada = await addUser("ada");
    const reader = await addUser("reader", "--scope", "read");
    const runner = await addUser("runner", "--scope", "read", "--scope", "run");
    const admin = await addUser("root", "--scope", "admin");
    assert.equal((await reader.send("GET", "/api/sessions")).status, 200);
    assert.deepEqual(
      [
        (await reader.send("POST", "/api/run", { message: "hi" })).status,
        (await reader.send("GET", "/api/runs")).status,
      ],
      [403, 200],
    );
    const sessionId = await startSession(runner);
    for (const [path, body] of [
      [`/api/sessions/${sessionId}`, { mode: "auto" }],
      [`/api/sessions/${sessionId}/shell`, { command: "true" }],
    ] as const)
      assert.equal((await runner.send(path.endsWith("shell") ? "POST" : "PATCH", path, body)).status, 403, path);
    assert.equal((await runner.send("POST", "/api/run", { message: "hi", mode: "auto" })).status, 403);
    models.enqueue(callStep("bash", { command: "true", description: "Do nothing" }));
    await admin.send("GET", "/api/asks?can_answer=true");
    const pendingRun = runner.send("POST", "/api/run", { message: "run it", session_id: sessionId });
    let ask: Json;
    await waitUntil(async () => (ask = (await admin.send("GET", "/api/asks?can_answer=true")).body.asks[0]));
    assert.equal((await runner.send("POST", `/api/asks/${ask.id}`, { choice: "allow" })).status, 403);
    const answer = await admin.send("POST", `/api/asks/${ask.id}`, { choice: "allow" });
    assert.deepEqual([answer.status, answer.body.answered_by], [200, "root"]);
    assert.equal((await pendingRun).status, 200);
    assert.equal((await admin.send("GET", `/api/sessions/${sessionId}`)).body.owner, "runner");
    assert.equal((await ada.send("GET", `/api/sessions/${sessionId}`)).status, 404);
  });

  it("share a session, which others then continue but cannot delete", async (t) => {
    const { addUser } = await startUserServer(t);
    const [ada, bob] = [await addUser("ada"), await addUser("bob")];
    const sessionId = await startSession(ada);
    assert.equal((await ada.send("PATCH", `/api/sessions/${sessionId}`, { shared: true })).body.shared, true);
    assert.equal((await bob.send("GET", "/api/sessions")).body.total, 1);
    const { status, body } = await bob.send("POST", "/api/run", { message: "more", session_id: sessionId });
    assert.equal(status, 200, JSON.stringify(body));
    const users = (await ada.send("GET", `/api/runs?session_id=${sessionId}`)).body.runs.map(({ user }: Json) => user);
    assert.deepEqual(users, ["bob", "ada"]);
    assert.equal((await bob.send("DELETE", `/api/sessions/${sessionId}`)).status, 403);
    assert.equal((await bob.send("PATCH", `/api/sessions/${sessionId}`, { shared: false })).status, 403);
    const [message] = (await bob.send("GET", `/api/sessions/${sessionId}/messages`)).body.messages as Json[];
    const fork = await bob.send("POST", `/api/sessions/${sessionId}/fork`, { message_id: message.id });
    assert.equal(fork.body.owner, "bob", JSON.stringify(fork));
    assert.equal((await ada.send("GET", `/api/sessions/${fork.body.id}`)).status, 404);
    await ada.send("PATCH", `/api/sessions/${sessionId}`, { shared: false });
    assert.equal((await bob.send("GET", `/api/sessions/${sessionId}`)).status, 404);
  });

  it("use the same idempotency key without seeing the run of another", async (t) => {
    const { addUser, server } = await startUserServer(t);
    const users = [await addUser("ada"), await addUser("bob")];
    const runIds = await Promise.all(
      users.flatMap(({ headers }) =>
        [1, 2].map(async () => {
          const response = await server.fetch("/api/run", {
            method: "POST",
            headers: { ...headers, "Content-Type": "application/json", "Idempotency-Key": "key" },
            body: JSON.stringify({ message: "hi" }),
          });
          await response.text();
          return response.headers.get("X-Run-Id");
        }),
      ),
    );
    assert.equal(runIds[0], runIds[1]);
    assert.equal(runIds[2], runIds[3]);
    assert.notEqual(runIds[0], runIds[2]);
  });

  it("work only in their folders, within their daily budget and rate", async (t) => {
    const folder = await tempDir(t, { "inside/b.txt": "b", "outside/c.txt": "c" });
    const { addUser, models } = await startUserServer(t);
    const inside = folder.at("inside");
    const ada = await addUser("ada", "--project-root", inside);
    models.enqueue(textStep("Here."));
    const sessionId = await startSession(ada);
    assert.equal((await ada.send("GET", `/api/sessions/${sessionId}`)).body.project_dir, inside);
    for (const path of [folder.at("outside"), join(inside, "..", "outside"), "/"]) {
      assert.equal((await ada.send("POST", "/api/run", { message: "hi", project_dir: path })).status, 400, path);
      assert.equal((await ada.send("GET", `/api/files?project_dir=${encodeURIComponent(path)}`)).status, 400, path);
    }
    const poor = await addUser("poor", "--daily-budget", "0");
    const refused = await poor.send("POST", "/api/run", { message: "hi" });
    assert.deepEqual([refused.status, refused.body.code], [429, "budget"]);
    const slow = await addUser("slow", "--rate", "5");
    const statuses: number[] = [];
    for (let n = 0; n < 8; n += 1) statuses.push((await slow.send("GET", "/api/models")).status);
    assert.ok(statuses.includes(429), String(statuses));
  });

  it("lose their streams, sockets and runs when their token is revoked", async (t) => {
    const { addUser, server, home } = await startUserServer(t);
    const [ada, bob] = [await addUser("ada"), await addUser("bob")];
    const sessionId = await startSession(ada);
    const streams = await Promise.all(
      [`/api/sessions/${sessionId}/events`, "/api/events"].map((path) =>
        fetch(`${server.url}${path}`, { headers: ada.headers }),
      ),
    );
    const bobsStream = await fetch(`${server.url}/api/events`, { headers: bob.headers });
    const socket = new SocketPeer(`${server.url}/acp`, { headers: ada.headers });
    await socket.waitUntilOpen();
    const ends = [...streams.map(async (stream) => stream.text().catch(() => "")), socket.closed];
    const revokedAt = performance.now();
    const { code, stderr } = await runGantry(t, ["token", "revoke", "ada"], { home });
    assert.equal(code, 0, stderr);
    await Promise.all(ends);
    t.diagnostic(`ended ${Math.round(performance.now() - revokedAt)} ms after the start of the command`);
    assert.equal((await ada.send("GET", "/api/sessions")).status, 401);
    assert.equal((await bob.send("GET", "/api/sessions")).status, 200);
    await bobsStream.body?.cancel();
  });

  it("are named by a trusted proxy only", async (t) => {
    const { server } = await startUserServer(t, {
      server: { trusted_user_header: "X-User", trusted_proxies: ["127.0.0.1"] },
    });
    const send = (headers: Record<string, string>, path = "/api/sessions", init: RequestInit = {}) =>
      fetch(`${server.url}${path}`, { ...init, headers });
    assert.equal((await send({ "X-User": "ada" })).status, 200);
    assert.equal((await send({ "X-User": "../ada" })).status, 401);
    // Browsers add the cookies of the proxy to the requests of any page.
    assert.equal((await send({ "X-User": "ada", Origin: "https://evil.example" })).status, 403);
    const body = JSON.stringify({ message: "hi" });
    const init = { method: "POST", body };
    const response = await send({ "X-User": "ada", "Content-Type": "application/json" }, "/api/run", init);
    await response.text();
    const sessionId = response.headers.get("X-Session-Id");
    assert.equal((await send({ "X-User": "ada" }, `/api/sessions/${sessionId}`)).status, 200);
    assert.equal((await send({ "X-User": "bob" }, `/api/sessions/${sessionId}`)).status, 404);
    const { server: otherServer } = await startUserServer(t, {
      server: { trusted_user_header: "X-User", trusted_proxies: ["10.0.0.0/8"] },
    });
    assert.equal((await fetch(`${otherServer.url}/api/sessions`, { headers: { "X-User": "ada" } })).status, 401);
  });
});
