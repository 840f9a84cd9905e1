// Compares the ACP features of agents: what `initialize` advertises, and how the methods answer. Prints a Markdown table.
//
// `node test/bench/acp-features.mjs NAME="COMMAND" ...`, for example
// `gantry="node dist/src/cli.js serve --acp --stdio" opencode="opencode acp"`. Commands run in a shell. No agent needs a
// key for `initialize`; without one, `session/new` of some agents fails, and their session methods are not called.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";

const REQUEST_TIMEOUT_MS = 30_000;
const METHOD_NOT_FOUND = -32601;
/** Everything that a client can declare, under the name of an editor that declares it. */
const INITIALIZE = {
  protocolVersion: 1,
  clientInfo: { name: "zed", version: "1" },
  clientCapabilities: {
    fs: { readTextFile: true, writeTextFile: true },
    terminal: true,
    session: { compaction: {}, notices: {}, configOptions: { boolean: {} } },
    auth: { terminal: true },
    elicitation: { form: {}, url: {} },
    _meta: { terminal_output: true, "terminal-auth": true },
  },
};
const SSE_SERVER = { type: "sse", name: "sse", url: "http://127.0.0.1:1/sse", headers: [] };
const CAPABILITIES = [
  "loadSession",
  ...["image", "audio", "embeddedContext"].map((name) => `promptCapabilities.${name}`),
  ...["http", "sse"].map((name) => `mcpCapabilities.${name}`),
  ...["list", "resume", "close", "delete", "additionalDirectories", "fork", "title", "archive", "systemPrompt"].map(
    (name) => `sessionCapabilities.${name}`,
  ),
  "auth.logout",
];

class Connection {
  #child;
  #pendingById = new Map();
  #lastId = 0;

  constructor(command, cwd) {
    this.#child = spawn(command, { shell: true, cwd, stdio: ["pipe", "pipe", "ignore"], detached: true });
    this.#child.stdin.on("error", () => undefined);
    this.#child.on("exit", () => this.#pendingById.forEach((resolve) => resolve({ error: { code: "ended" } })));
    createInterface({ input: this.#child.stdout }).on("line", (line) => {
      const message = parseJson(line);
      if (message?.method !== undefined && message.id !== undefined)
        this.#send({ id: message.id, error: { code: METHOD_NOT_FOUND, message: "method not found" } });
      else if (message?.method === undefined) this.#pendingById.get(message?.id)?.(message);
    });
  }

  /** Resolves with the response; after a timeout with the error code `timeout`. */
  async call(method, params) {
    const id = (this.#lastId += 1);
    const response = new Promise((resolve) => this.#pendingById.set(id, resolve));
    this.#send({ id, method, params });
    let timer;
    const timeout = new Promise((resolve) => {
      timer = setTimeout(() => resolve({ error: { code: "timeout" } }), REQUEST_TIMEOUT_MS);
    });
    return Promise.race([response, timeout]).finally(() => clearTimeout(timer));
  }

  close() {
    try {
      process.kill(-this.#child.pid, "SIGKILL");
    } catch {
      // The agent has ended.
    }
  }

  #send(message) {
    this.#child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }
}

function parseJson(line) {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

/** `yes`: a result. `no`: the method does not exist. Otherwise the error code. */
function describeResponse({ error }) {
  if (!error) return "yes";
  return error.code === METHOD_NOT_FOUND ? "no" : `error ${error.code}`;
}

/** `no`: the method does not exist. `yes`: it rejects wrong params or accepts them. */
const describeExistence = (response) => (describeResponse(response) === "no" ? "no" : "yes");

/** Returns the rows of one agent: a text by feature. */
async function probe(command, cwd) {
  const rows = {};
  const connection = new Connection(command, cwd);
  try {
    const { result, error } = await connection.call("initialize", INITIALIZE);
    if (!result) return { version: `initialize failed: ${error.code}` };
    rows.version = result.agentInfo?.version ?? "-";
    const capabilities = result.agentCapabilities ?? {};
    for (const capability of CAPABILITIES) {
      const value = capability.split(".").reduce((group, key) => group?.[key], capabilities);
      rows[`\`${capability}\``] = value === undefined || value === null || value === false ? "no" : "yes";
    }
    const methods = result.authMethods ?? [];
    rows["`authMethods`"] = methods.map(({ id, type }) => (type ? `${id} (${type})` : id)).join(", ") || "none";
    await probeSessions(connection, cwd, rows);
    rows["call `authenticate`"] = describeExistence(await connection.call("authenticate", { methodId: "no-such-id" }));
    rows["call `logout`"] = describeResponse(await connection.call("logout", {}));
    return rows;
  } finally {
    connection.close();
  }
}

async function probeSessions(connection, cwd, rows) {
  const setup = { cwd, mcpServers: [] };
  const created = await connection.call("session/new", setup);
  rows["call `session/new`"] = describeResponse(created);
  const sessionId = created.result?.sessionId;
  const call = async (method, params, name = method) => {
    const response = await connection.call(method, { ...setup, sessionId, ...params });
    rows[`call \`${name}\``] = describeResponse(response);
    return response;
  };
  if (sessionId === undefined) return;
  rows["`modes`, `configOptions`"] =
    ["modes", "configOptions"].filter((key) => created.result[key]).join(", ") || "none";
  await call("session/list", { sessionId: undefined, cwd });
  await call("session/set_title", { title: "A title" });
  await call("session/archive", {});
  await call("session/resume", {});
  await call("session/load", {});
  await call("session/fork", {});
  const sse = await connection.call("session/new", { cwd, mcpServers: [SSE_SERVER] });
  rows["an SSE server is"] = sse.error ? `rejected (${sse.error.code})` : "taken";
  const prompt = await connection.call("session/new", {
    ...setup,
    systemPrompt: { mode: "no-such-mode", content: [{ type: "text", text: "x" }] },
  });
  rows["`systemPrompt` with an unknown mode is"] = prompt.error ? "rejected" : "ignored";
  await call("session/close", {});
  await call("session/delete", {});
}

const agents = process.argv.slice(2).map((argument) => {
  const separatorAt = argument.indexOf("=");
  return { name: argument.slice(0, separatorAt), command: argument.slice(separatorAt + 1) };
});
if (agents.length === 0 || agents.some(({ name, command }) => name === "" || command === "")) {
  process.stderr.write('usage: node test/bench/acp-features.mjs NAME="COMMAND" ...\n');
  process.exit(2);
}
const columns = [];
for (const { name, command } of agents) {
  const cwd = mkdtempSync(path.join(tmpdir(), "acp-features-"));
  try {
    columns.push({ name, rows: await probe(command, cwd) });
  } finally {
    rmSync(cwd, { recursive: true, force: true });
  }
}
const features = [...new Set(columns.flatMap(({ rows }) => Object.keys(rows)))];
const lines = [
  ["", ...columns.map(({ name }) => name)],
  ["---", ...columns.map(() => "---")],
  ...features.map((feature) => [feature, ...columns.map(({ rows }) => rows[feature] ?? "-")]),
];
process.stdout.write(lines.map((cells) => `| ${cells.join(" | ")} |\n`).join(""));
process.exit(0);
