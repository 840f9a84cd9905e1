import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { GantryClient } from "gantry/client";
import { findProcessOrigin } from "../../../src/http/client-lookup.js";
import { findBubblewrap } from "../../../src/tools/shell/sandbox/bubblewrap.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";
import { waitFor } from "../../helpers/wait.js";

const ACTOR_FILE = fileURLToPath(new URL("../../helpers/user-actions.mjs", import.meta.url));
const bubblewrap = findBubblewrap({ env: { PATH: process.env["PATH"] ?? "" }, network: true });
const LINUX_ONLY = { skip: process.platform === "linux" ? false : "only Linux has /proc" };

/** Module of a model that calls the tool in the prompt, `name {"arguments"}`. */
const CALLER_MODULE = `
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

type ActorResponse = [action: string, status: number, code: string];

interface WaitingRun {
  server: GantryServer;
  client: GantryClient;
  sessionId: string;
  runId: string;
  askId: string;
  /** File to which the actor script writes the responses to its requests. */
  responseFile: string;
  /** Arguments of the actor script. */
  args: string[];
}

/** Starts a server with a session in mode ask, whose run waits for an answer. */
async function startWaitingRun(t: Hooks, sandbox: "required" | "off"): Promise<WaitingRun> {
  const home = await tempDir(t, { "caller.mjs": CALLER_MODULE });
  const server = await startServer(t, {
    home: home.path,
    files: { "user-actions.mjs": readFileSync(ACTOR_FILE, "utf8") },
    config: {
      providers: [{ driver: "./caller.mjs" }],
      server: { transports: ["koa-http-api", "acp-http-sse-ws", "web-console"] },
      permissions: { unattended: "wait" },
      tools: { bash: { sandbox, network: true } },
      mcp_servers: { actor: { command: process.execPath, args: [ACTOR_FILE, "mcp"] } },
    },
  });
  const personHeaders = () => server.personHeaders;
  const client = new GantryClient({ url: server.url, personHeaders });
  const { session_id: sessionId, run_id: runId } = await client.start({
    message: 'bash {"command":"touch asked"}',
    mode: "ask",
  });
  const [pendingAsk] = await waitFor("a permission request", async () => {
    const asks = await client.asks.list({ sessionId });
    return asks.length > 0 ? asks : undefined;
  });
  const responseFile = `${server.projectDir}/answers.json`;
  const args = [server.url, sessionId, runId, pendingAsk?.id ?? "", responseFile];
  return { server, client, sessionId, runId, askId: pendingAsk?.id ?? "", responseFile, args };
}

const readResponses = (responseFile: string): Promise<ActorResponse[]> =>
  waitFor("the responses in the actor's file", () =>
    Promise.resolve(
      existsSync(responseFile) ? (JSON.parse(readFileSync(responseFile, "utf8")) as ActorResponse[]) : undefined,
    ),
  );

const createCallPrompt = (name: string, args: object) => `${name} ${JSON.stringify(args)}`;
const quoteArguments = (args: readonly string[]) => args.map((arg) => `'${arg}'`).join(" ");
const NODE_COMMAND = `'${process.execPath}'`;

/** The processes that a model can start. `message` is the prompt that starts the actor script. */
const CALLERS: Readonly<
  Record<string, { sandbox: "required" | "off"; message: (args: string[], responseFile: string) => string }>
> = {
  "a sandboxed command": {
    sandbox: "required",
    message: (args) =>
      createCallPrompt("bash", { command: `${NODE_COMMAND} user-actions.mjs ${quoteArguments(args)}` }),
  },
  "a sandboxed child that forked twice and cleared its environment": {
    sandbox: "required",
    message: (args, responseFile) =>
      createCallPrompt("bash", {
        command: `(env -i setsid ${NODE_COMMAND} user-actions.mjs ${quoteArguments(args)} &) ; until [ -e '${responseFile}' ]; do sleep 0.1; done`,
      }),
  },
  "a command without sandbox": {
    sandbox: "off",
    message: (args) =>
      createCallPrompt("bash", { command: `${NODE_COMMAND} user-actions.mjs ${quoteArguments(args)}` }),
  },
  "a command without sandbox that cleared its environment": {
    sandbox: "off",
    message: (args) =>
      createCallPrompt("bash", { command: `exec env -i ${NODE_COMMAND} user-actions.mjs ${quoteArguments(args)}` }),
  },
  "a background command": {
    sandbox: "required",
    message: (args) =>
      createCallPrompt("bash", {
        command: `${NODE_COMMAND} user-actions.mjs ${quoteArguments(args)}`,
        background: true,
      }),
  },
  "an MCP server": { sandbox: "off", message: (args) => createCallPrompt("actor__act", { args }) },
  "a child without sandbox that forked twice": {
    sandbox: "off",
    message: (args, responseFile) =>
      createCallPrompt("bash", {
        command: `(setsid ${NODE_COMMAND} user-actions.mjs ${quoteArguments(args)} &) ; until [ -e '${responseFile}' ]; do sleep 0.1; done`,
      }),
  },
};

describe("a command of the agent as an API client", { concurrency: true }, () => {
  for (const [callerName, { sandbox, message }] of Object.entries(CALLERS))
    it(`receives 403 command_refused for every request: ${callerName}`, LINUX_ONLY, async (t) => {
      if (sandbox === "required" && !(await bubblewrap)) return t.skip("no working bubblewrap");
      const { server, client, sessionId, askId, responseFile, args } = await startWaitingRun(t, sandbox);
      await client.run({ message: message(args, responseFile) });
      const responses = await readResponses(responseFile);
      // Number of requests of the actor script.
      assert.equal(responses.length, 21);
      assert.deepEqual(
        responses.filter(([, status, code]) => status !== 403 || code !== "command_refused"),
        [],
      );
      // No request had an effect.
      assert.equal((await client.sessions.get(sessionId)).mode, "ask");
      assert.equal((await client.asks.get(askId)).state, "open");
      assert.equal(existsSync(`${server.projectDir}/asked`), false);
      assert.match(server.stderr, /refused a request of a command/);
    });

  it(
    "receives 403 person_required for decisions after a double fork without sandbox, environment and token",
    LINUX_ONLY,
    async (t) => {
      const { client, sessionId, responseFile, args } = await startWaitingRun(t, "off");
      const command = `(env -i setsid ${NODE_COMMAND} user-actions.mjs ${quoteArguments(args)} &) ; until [ -e '${responseFile}' ]; do sleep 0.1; done`;
      const { output } = await client.run({ message: createCallPrompt("bash", { command }) });
      assert.equal(output, "done");
      const responsesByAction = new Map(
        (await readResponses(responseFile)).map(([action, ...statusAndCode]) => [action, statusAndCode]),
      );
      for (const action of ["answer a question", "grant a permission", "change the mode"])
        assert.deepEqual(responsesByAction.get(action), [403, "person_required"], action);
      // Every process of the user may send all other requests: the actor has deleted the session.
      await assert.rejects(client.sessions.get(sessionId), { code: "session_not_found" });
    },
  );
});

/**
 * Script that sends requests through sockets that no process holds during the check. The sockets are in transit in
 * another socket pair.
 */
const IN_TRANSIT_SCRIPT = `
import json, re, socket, sys, urllib.error, urllib.request
_, url, file = sys.argv
sender, receiver = socket.socketpair()
for i in range(20):
    client = socket.create_connection(("127.0.0.1", int(url.split(":")[2])))
    socket.send_fds(sender, [b"x"], [client.fileno()])
    client.close()
# The server identifies clients in the order of their connections. After its answers to these requests, the server has
# searched for the hidden clients. A client that was identified before its socket was hidden is a command.
for i in range(5):
    try:
        urllib.request.urlopen(url + "/api/sessions").read()
    except urllib.error.HTTPError as error:
        assert error.code == 403
responses = []
for i in range(20):
    client = socket.socket(fileno=socket.recv_fds(receiver, 1, 1)[1][0])
    client.send(b"GET /api/sessions HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n")
    text = client.makefile().read()
    responses.append([i, int(text.split(" ")[1]), "".join(re.findall('"code":"(.*?)"', text))])
json.dump(responses, open(file, "w"))
`;

describe("a client whose process cannot be identified", () => {
  it("receives 403 without the token if its socket is in transit between processes", LINUX_ONLY, async (t) => {
    if (!(await bubblewrap)) return t.skip("no working bubblewrap");
    if (spawnSync("python3", ["-c", "import socket; socket.send_fds"]).status !== 0) return t.skip("no python3");
    const { server, client, responseFile } = await startWaitingRun(t, "required");
    writeFileSync(`${server.projectDir}/flight.py`, IN_TRANSIT_SCRIPT);
    await client.run({
      message: createCallPrompt("bash", { command: `python3 flight.py ${server.url} '${responseFile}'` }),
    });
    const responses = await readResponses(responseFile);
    assert.equal(responses.length, 20);
    // A socket that is not yet in transit during the check is identified as a command's socket.
    for (const [i, status, code] of responses)
      assert.ok(status === 403 && /^(command|unseen)_refused$/.test(code), `${i}: ${status} ${code}`);
  });

  it("has the origin `unseen`, for example for the socket inode 0", LINUX_ONLY, async () => {
    assert.equal(await findProcessOrigin("0"), "unseen");
  });
});

describe("a user as an API client", { concurrency: true }, () => {
  it("needs the token only to answer asks and to choose a less strict mode, not to run, read or choose a stricter mode", async (t) => {
    const { server, client, sessionId, askId } = await startWaitingRun(t, "off");
    const sendJson = (path: string, body: object, headers: Record<string, string> = {}, method = "POST") =>
      server.fetch(path, {
        method,
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify(body),
      });
    assert.equal((await sendJson("/api/run", { message: "hello" })).status, 200);
    assert.equal((await server.fetch(`/api/sessions/${sessionId}`)).status, 200);
    assert.equal((await sendJson(`/api/sessions/${sessionId}`, { title: "mine" }, {}, "PATCH")).status, 200);
    // A stricter mode needs no user token.
    assert.equal((await sendJson(`/api/sessions/${sessionId}`, { mode: "plan" }, {}, "PATCH")).status, 200);
    for (const invalidHeaders of [{}, { authorization: "Bearer x" }, { authorization: "Basic x" }] as Record<
      string,
      string
    >[]) {
      const responses = [
        await sendJson(`/api/asks/${askId}`, { choice: "allow" }, invalidHeaders),
        await sendJson(`/api/sessions/${sessionId}`, { mode: "ask" }, invalidHeaders, "PATCH"),
        await sendJson("/api/run", { message: "hello", session_id: sessionId, mode: "auto" }, invalidHeaders),
      ];
      for (const response of responses) {
        assert.equal(response.status, 403);
        const { code, error } = (await response.json()) as { code: string; error: string };
        assert.equal(code, "person_required");
        assert.match(error, /of the file `token` in gantry's home folder/);
      }
    }
    assert.equal((await client.asks.get(askId)).state, "open");
    // The typed client reads the token and sends it only to servers on this machine.
    process.env["GANTRY_HOME"] = server.home;
    t.after(() => delete process.env["GANTRY_HOME"]);
    const typedClient = new GantryClient({ url: server.url });
    assert.equal((await typedClient.sessions.update(sessionId, { mode: "auto" })).mode, "auto");
    await typedClient.asks.answer(askId, { choice: "allow" });
    await waitFor("the command", () => Promise.resolve(existsSync(`${server.projectDir}/asked`) || undefined));
  });

  it("has one token in a file of mode 0600 for all concurrent and later servers of a home folder", async (t) => {
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
    const { server, client } = await startWaitingRun(t, "off");
    const tokenFile = `${server.home}/token`;
    const { sessionId } = await client.run({ message: createCallPrompt("bash", { command: `cat '${tokenFile}'` }) });
    const messages = await client.sessions.messages(sessionId);
    const toolOutput = messages.find(({ role }) => role === "tool")?.content;
    assert.match(String(toolOutput), /^\[redacted\]/);
  });

  it("needs no token and has no token file if headers are required", async (t) => {
    const home = await tempDir(t);
    const keyHeaders = { "X-Key": "secret-of-the-test-1" };
    const server = await startServer(t, { home: home.path, config: { server: { required_headers: keyHeaders } } });
    assert.equal(existsSync(home.at("token")), false);
    const client = new GantryClient({ url: server.url, headers: keyHeaders });
    const { sessionId } = await client.run({ message: "hello", mode: "plan" });
    assert.equal((await client.sessions.update(sessionId, { mode: "auto" })).mode, "auto");
  });

  it("receives 403 namespace_refused from another PID namespace without the token", LINUX_ONLY, async (t) => {
    const { server } = await startWaitingRun(t, "off");
    const script = `fetch(process.argv[1] + "/api/sessions", { headers: JSON.parse(process.argv[2]) })
      .then(async (response) => console.log(response.status, (await response.json()).code))`;
    const execFileAsync = promisify(execFile);
    const unshareArgs = ["-Urpf", "--", process.execPath, "-e", script, server.url];
    const trialRun = await execFileAsync("unshare", [...unshareArgs.slice(0, 2), "true"]).catch(
      (error: unknown) => error,
    );
    if (trialRun instanceof Error) return t.skip("this machine cannot create PID namespaces");
    assert.equal((await execFileAsync("unshare", [...unshareArgs, "{}"])).stdout.trim(), "403 namespace_refused");
    assert.equal(
      (await execFileAsync("unshare", [...unshareArgs, JSON.stringify(server.personHeaders)])).stdout.trim(),
      "200 undefined",
    );
  });

  it("receives the token from a console login with the server's origin, but not with other origins", async (t) => {
    const { server, client, askId } = await startWaitingRun(t, "off");
    const fetchLoginHeaders = async (headers: Record<string, string> = {}) => {
      const response = await server.fetch("/console/login", {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: "{}",
      });
      return response.ok ? ((await response.json()) as { headers: Record<string, string> }).headers : {};
    };
    // A command can start a development server whose page runs in the user's browser.
    for (const origin of ["http://localhost:3000", "https://evil.example"])
      assert.deepEqual(await fetchLoginHeaders({ origin, "sec-fetch-site": "same-site" }), {});
    const headers = await fetchLoginHeaders({ origin: server.url, "sec-fetch-site": "same-origin" });
    assert.deepEqual(headers, server.personHeaders);
    const pageClient = new GantryClient({ url: server.url, personHeaders: () => headers });
    await pageClient.asks.answer(askId, { choice: "reject" });
    assert.equal((await client.asks.get(askId)).state, "answered");
  });
});
