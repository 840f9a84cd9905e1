import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { GantryClient } from "gantry/client";
import { findProcessOrigin } from "../../../src/http/socket-process.js";
import { findBubblewrap } from "../../../src/tools/shell/sandbox/bubblewrap.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { tempDir, type Hooks } from "../../helpers/temp.js";
import { waitFor } from "../../helpers/wait.js";

const ACTOR = fileURLToPath(new URL("../../helpers/actor.mjs", import.meta.url));
const works = findBubblewrap({ env: { PATH: process.env["PATH"] ?? "" }, network: true });
const linux = { skip: process.platform === "linux" ? false : "only Linux has /proc" };

/** A model that makes the call in its prompt, `name {"arguments"}`. */
const CALLER = `
const usage = { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 };
export default {
  gantry: 1, kind: "model-provider", name: "caller", parse: (raw) => raw,
  create: () => ({
    name: "caller", idleTimeoutMs: 1000, maxRetries: 0, maxWaitMs: 60000, configuredModels: [{ id: "m", name: "M", ownedBy: "us" }],
    models: async () => [{ id: "m", name: "M", ownedBy: "us" }],
    async *stream({ messages, tools }) {
      const last = messages.at(-1);
      const [, name, args] = last.role === "user" ? /^(\\S+) (\\{.*)$/.exec(last.parts[0].text) ?? [] : [];
      if (tools.some((tool) => tool.name === name)) {
        yield { type: "tool_call", block: "0", id: "c" + Date.now(), name, arguments: args };
        yield { type: "finish", reason: "tool_calls", usage };
      } else {
        yield { type: "text", block: "0", text: "done" };
        yield { type: "finish", reason: "stop", usage };
      }
    },
    close: async () => undefined,
  }),
};`;

type Answer = [action: string, status: number, code: string];

interface Scene {
  server: GantryServer;
  client: GantryClient;
  session: string;
  run: string;
  ask: string;
  /** File for the answers of the actor script. */
  file: string;
  /** Arguments of the actor script. */
  args: string[];
}

/** A server with a session in mode ask, whose run waits for an answer. */
async function scene(t: Hooks, sandbox: "required" | "off"): Promise<Scene> {
  const home = await tempDir(t, { "caller.mjs": CALLER });
  const server = await startServer(t, {
    home: home.path,
    files: { "actor.mjs": readFileSync(ACTOR, "utf8") },
    config: {
      providers: [{ driver: "./caller.mjs" }],
      server: { transports: ["koa-http-api", "acp-http-sse-ws", "web-console"] },
      permissions: { unattended: "wait" },
      tools: { bash: { sandbox, network: true } },
      mcp_servers: { actor: { command: process.execPath, args: [ACTOR, "mcp"] } },
    },
  });
  const personHeaders = () => server.personHeaders;
  const client = new GantryClient({ url: server.url, personHeaders });
  const { session_id: session, run_id: run } = await client.start({
    message: 'bash {"command":"touch asked"}',
    mode: "ask",
  });
  const [ask] = await waitFor("a question", async () => {
    const asks = await client.asks.list({ sessionId: session });
    return asks.length > 0 ? asks : undefined;
  });
  const file = `${server.projectDir}/answers.json`;
  const args = [server.url, session, run, ask?.id ?? "", file];
  return { server, client, session, run, ask: ask?.id ?? "", file, args };
}

const answersIn = (file: string): Promise<Answer[]> =>
  waitFor("the answers of the actor", () =>
    Promise.resolve(existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Answer[]) : undefined),
  );

const call = (name: string, args: object) => `${name} ${JSON.stringify(args)}`;
const quoted = (args: readonly string[]) => args.map((arg) => `'${arg}'`).join(" ");
const node = `'${process.execPath}'`;

/** The ways in which a model can start a program. */
const WAYS: Readonly<
  Record<string, { sandbox: "required" | "off"; message: (args: string[], file: string) => string }>
> = {
  "a sandboxed command": {
    sandbox: "required",
    message: (args) => call("bash", { command: `${node} actor.mjs ${quoted(args)}` }),
  },
  "a sandboxed child that forked twice and cleared its environment": {
    sandbox: "required",
    message: (args, file) =>
      call("bash", {
        command: `(env -i setsid ${node} actor.mjs ${quoted(args)} &) ; until [ -e '${file}' ]; do sleep 0.1; done`,
      }),
  },
  "a command without sandbox": {
    sandbox: "off",
    message: (args) => call("bash", { command: `${node} actor.mjs ${quoted(args)}` }),
  },
  "a command without sandbox that cleared its environment": {
    sandbox: "off",
    message: (args) => call("bash", { command: `exec env -i ${node} actor.mjs ${quoted(args)}` }),
  },
  "a background command": {
    sandbox: "required",
    message: (args) => call("bash", { command: `${node} actor.mjs ${quoted(args)}`, background: true }),
  },
  "an MCP server": { sandbox: "off", message: (args) => call("actor__act", { args }) },
  "a child without sandbox that forked twice": {
    sandbox: "off",
    message: (args, file) =>
      call("bash", {
        command: `(setsid ${node} actor.mjs ${quoted(args)} &) ; until [ -e '${file}' ]; do sleep 0.1; done`,
      }),
  },
};

describe("a command of the agent as an API client", { concurrency: true }, () => {
  for (const [way, { sandbox, message }] of Object.entries(WAYS))
    it(`gets 403 command_refused for every request: ${way}`, linux, async (t) => {
      if (sandbox === "required" && !(await works)) return t.skip("no working bubblewrap");
      const { server, client, session, ask, file, args } = await scene(t, sandbox);
      await client.run({ message: message(args, file) });
      const answers = await answersIn(file);
      assert.equal(answers.length, 21);
      assert.deepEqual(
        answers.filter(([, status, code]) => status !== 403 || code !== "command_refused"),
        [],
      );
      // None of the requests had an effect.
      assert.equal((await client.sessions.get(session)).mode, "ask");
      assert.equal((await client.asks.get(ask)).state, "open");
      assert.equal(existsSync(`${server.projectDir}/asked`), false);
      assert.match(server.stderr, /refused a request of a command/);
    });

  it(
    "gets 403 person_required for decisions after a double fork without sandbox, environment and token",
    linux,
    async (t) => {
      const { client, session, file, args } = await scene(t, "off");
      const command = `(env -i setsid ${node} actor.mjs ${quoted(args)} &) ; until [ -e '${file}' ]; do sleep 0.1; done`;
      const { output } = await client.run({ message: call("bash", { command }) });
      assert.equal(output, "done");
      const answers = new Map((await answersIn(file)).map(([action, ...answer]) => [action, answer]));
      for (const action of ["answer a question", "grant a permission", "change the mode"])
        assert.deepEqual(answers.get(action), [403, "person_required"], action);
      // The specification allows everything else to every process of the user.
      await assert.rejects(client.sessions.get(session), { code: "session_not_found" });
    },
  );
});

/**
 * Sends requests through sockets that no process holds during the check: they are in transit in another socket pair.
 */
const IN_FLIGHT = `
import json, re, socket, sys, urllib.error, urllib.request
_, url, file = sys.argv
here, there = socket.socketpair()
for i in range(20):
    client = socket.create_connection(("127.0.0.1", int(url.split(":")[2])))
    socket.send_fds(here, [b"x"], [client.fileno()])
    client.close()
# The server looks for clients in the order in which they connect. When it has answered these, it has looked for the hidden
# ones. A client that it found before its socket was hidden is a command, which is accepted below.
for i in range(5):
    try:
        urllib.request.urlopen(url + "/api/sessions").read()
    except urllib.error.HTTPError as error:
        assert error.code == 403
answers = []
for i in range(20):
    client = socket.socket(fileno=socket.recv_fds(there, 1, 1)[1][0])
    client.send(b"GET /api/sessions HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n")
    text = client.makefile().read()
    answers.append([i, int(text.split(" ")[1]), "".join(re.findall('"code":"(.*?)"', text))])
json.dump(answers, open(file, "w"))
`;

describe("a client whose process cannot be identified", () => {
  it("gets 403 without the token if its socket is in transit between processes", linux, async (t) => {
    if (!(await works)) return t.skip("no working bubblewrap");
    if (spawnSync("python3", ["-c", "import socket; socket.send_fds"]).status !== 0) return t.skip("no python3");
    const { server, client, file } = await scene(t, "required");
    writeFileSync(`${server.projectDir}/flight.py`, IN_FLIGHT);
    await client.run({ message: call("bash", { command: `python3 flight.py ${server.url} '${file}'` }) });
    const answers = await answersIn(file);
    assert.equal(answers.length, 20);
    // A socket that was not hidden in time was identified as a command's socket.
    for (const [i, status, code] of answers)
      assert.ok(status === 403 && /^(command|unseen)_refused$/.test(code), `${i}: ${status} ${code}`);
  });

  it("has the origin unseen, for example for the inode 0", linux, async () => {
    assert.equal(await findProcessOrigin("0"), "unseen");
  });
});

describe("a user as an API client", { concurrency: true }, () => {
  it("runs, reads and restricts without the token, but needs it to answer questions and to loosen the mode", async (t) => {
    const { server, client, session, ask } = await scene(t, "off");
    const post = (path: string, body: object, headers: Record<string, string> = {}, method = "POST") =>
      server.fetch(path, {
        method,
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify(body),
      });
    assert.equal((await post("/api/run", { message: "hello" })).status, 200);
    assert.equal((await server.fetch(`/api/sessions/${session}`)).status, 200);
    assert.equal((await post(`/api/sessions/${session}`, { title: "mine" }, {}, "PATCH")).status, 200);
    // A stricter mode needs no user token.
    assert.equal((await post(`/api/sessions/${session}`, { mode: "plan" }, {}, "PATCH")).status, 200);
    for (const wrong of [{}, { authorization: "Bearer x" }, { authorization: "Basic x" }] as Record<string, string>[]) {
      const answers = [
        await post(`/api/asks/${ask}`, { choice: "allow" }, wrong),
        await post(`/api/sessions/${session}`, { mode: "ask" }, wrong, "PATCH"),
        await post("/api/run", { message: "hello", session_id: session, mode: "auto" }, wrong),
      ];
      for (const answer of answers) {
        assert.equal(answer.status, 403);
        const { code, error } = (await answer.json()) as { code: string; error: string };
        assert.equal(code, "person_required");
        assert.match(error, /in the file token of gantry's home folder/);
      }
    }
    assert.equal((await client.asks.get(ask)).state, "open");
    // The typed client finds the token and sends it only to servers on this machine.
    process.env["GANTRY_HOME"] = server.home;
    t.after(() => delete process.env["GANTRY_HOME"]);
    const typed = new GantryClient({ url: server.url });
    assert.equal((await typed.sessions.update(session, { mode: "auto" })).mode, "auto");
    await typed.asks.answer(ask, { choice: "allow" });
    await waitFor("the command", () => Promise.resolve(existsSync(`${server.projectDir}/asked`) || undefined));
  });

  it("has one token in a file of mode 0600 for all servers of a home folder, also concurrent and later ones", async (t) => {
    const home = await tempDir(t);
    const servers = await Promise.all([1, 2, 3].map(() => startServer(t, { home: home.path })));
    assert.equal(statSync(home.at("token")).mode & 0o777, 0o600);
    for (const server of servers) {
      const client = new GantryClient({ url: server.url, personHeaders: () => server.personHeaders });
      const { sessionId } = await client.run({ message: "hello", mode: "plan" });
      assert.equal((await client.sessions.update(sessionId, { mode: "auto" })).mode, "auto");
    }
    const token = readFileSync(home.at("token"), "utf8");
    await Promise.all(servers.map((server) => server.stop("SIGTERM")));
    await startServer(t, { home: home.path });
    assert.equal(readFileSync(home.at("token"), "utf8"), token);
    assert.deepEqual(
      readdirSync(home.path).filter((name) => name.startsWith("token")),
      ["token"],
    );
  });

  it("has a token that the output of bash redacts", async (t) => {
    const { server, client } = await scene(t, "off");
    const file = `${server.home}/token`;
    const { sessionId } = await client.run({ message: call("bash", { command: `cat '${file}'` }) });
    const messages = await client.sessions.messages(sessionId);
    const shown = messages.find(({ role }) => role === "tool")?.content;
    assert.match(String(shown), /^\[redacted\]/);
  });

  it("needs no token if headers are required, and no token file is written", async (t) => {
    const home = await tempDir(t);
    const key = { "X-Key": "secret-of-the-test-1" };
    const server = await startServer(t, { home: home.path, config: { server: { required_headers: key } } });
    assert.equal(existsSync(home.at("token")), false);
    const client = new GantryClient({ url: server.url, headers: key });
    const { sessionId } = await client.run({ message: "hello", mode: "plan" });
    assert.equal((await client.sessions.update(sessionId, { mode: "auto" })).mode, "auto");
  });

  it("gets 403 namespace_refused from another PID namespace without the token", linux, async (t) => {
    const { server } = await scene(t, "off");
    const script = `fetch(process.argv[1] + "/api/sessions", { headers: JSON.parse(process.argv[2]) })
      .then(async (response) => console.log(response.status, (await response.json()).code))`;
    const run = promisify(execFile);
    const through = ["-Urpf", "--", process.execPath, "-e", script, server.url];
    const unshared = await run("unshare", [...through.slice(0, 2), "true"]).catch((error: unknown) => error);
    if (unshared instanceof Error) return t.skip("this machine makes no PID namespaces");
    assert.equal((await run("unshare", [...through, "{}"])).stdout.trim(), "403 namespace_refused");
    assert.equal(
      (await run("unshare", [...through, JSON.stringify(server.personHeaders)])).stdout.trim(),
      "200 undefined",
    );
  });

  it("gets the token by a console login from the server's origin, but not from other origins", async (t) => {
    const { server, client, ask } = await scene(t, "off");
    const login = async (headers: Record<string, string> = {}) => {
      const response = await server.fetch("/console/login", {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: "{}",
      });
      return response.ok ? ((await response.json()) as { headers: Record<string, string> }).headers : {};
    };
    // A page of a development server that a command has started. The browser belongs to the user.
    for (const origin of ["http://localhost:3000", "https://evil.example"])
      assert.deepEqual(await login({ origin, "sec-fetch-site": "same-site" }), {});
    const headers = await login({ origin: server.url, "sec-fetch-site": "same-origin" });
    assert.deepEqual(headers, server.personHeaders);
    const page = new GantryClient({ url: server.url, personHeaders: () => headers });
    await page.asks.answer(ask, { choice: "reject" });
    assert.equal((await client.asks.get(ask)).state, "answered");
  });
});
