// Users of a server: no user sees or changes anything of another, over any transport, and a revoked token ends
// what it has opened.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { SocketPeer } from "../../helpers/acp-http.js";
import type { Json } from "../../helpers/acp-peer.js";
import { callStep, textStep } from "../../helpers/fake-model-server.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { runGantry } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";
import { startSession, startUserServer, testSeparation } from "../../helpers/user-server.js";

const LINUX_ONLY = { skip: process.platform === "linux" ? false : "only Linux has /proc" };

for (const driver of ["sqlite", "json"]) testSeparation(driver);

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

  it("lose the socket of a stream that they never read when their token is revoked", LINUX_ONLY, async (t) => {
    const { addUser, server, models, home } = await startUserServer(t);
    const ada = await addUser("ada");
    // The most that an answer may have: the client leaves a part of it unread.
    models.enqueue(textStep("x".repeat(3_900_000)));
    const sessionId = await startSession(ada);
    const { hostname, port } = new URL(server.url);
    const socket = connect(Number(port), hostname);
    t.after(() => socket.destroy());
    await once(socket, "connect");
    const path = `/api/sessions/${sessionId}/events`;
    socket.write(`GET ${path} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAuthorization: Bearer ${ada.token}\r\n\r\n`);
    const toHex = (n: number | undefined = 0) => n.toString(16).toUpperCase().padStart(4, "0");
    // The end of the server: established, with its unsent bytes.
    const pattern = new RegExp(`:${toHex(Number(port))} \\w+:${toHex(socket.localPort)} 01 (\\w+):`);
    const readUnsentBytes = async () => {
      const [, bytes] = pattern.exec(await readFile("/proc/net/tcp", "utf8")) ?? [];
      return bytes === undefined ? undefined : Number.parseInt(bytes, 16);
    };
    await waitUntil(async () => ((await readUnsentBytes()) ?? 0) > 0);
    assert.equal((await runGantry(t, ["token", "revoke", "ada"], { home })).code, 0);
    await waitUntil(async () => (await readUnsentBytes()) === undefined);
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
