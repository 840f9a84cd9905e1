import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { Agent, type Ask } from "gantry";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { ScriptedProvider } from "gantry/testing";
import type { FakeStep } from "../../helpers/fake-model-server.js";
import {
  runPrompt,
  startModelServer,
  createServerConfig,
  fetchMessages,
  waitUntil,
} from "../../helpers/server-runs.js";
import { runGantry, spawnGantry, startServer, type GantryServer } from "../../helpers/server.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

const createCalls = (...toolCalls: [name: string, args: unknown][]): FakeStep[] =>
  toolCalls.map(([name, args]) => ({ say: [{ call: { name, arguments: args } }] }));

/** Runs the calls in one run on a server with these permissions and returns their results. */
async function runCalls(
  t: Hooks,
  permissions: object,
  attemptedCalls: [string, unknown][],
  files: Record<string, string> = {},
) {
  const modelServer = await startModelServer(t);
  const home = await tempDir(t, files);
  const project = await tempDir(t, { "a.txt": "a", "infra/b.tf": "b" });
  const config = createServerConfig(modelServer, { permissions, tools: { bash: { sandbox: "off" } } });
  const server = await startServer(t, { config, home: home.path, projectDir: project.path });
  modelServer.enqueue(...createCalls(...attemptedCalls), { say: [{ text: "done" }] });
  const { sessionId } = await runPrompt(server, { message: "x" });
  const results = (await fetchMessages(server, sessionId))
    .filter(({ role }) => role === "tool")
    .map(({ content }) => content);
  return { results, server, project, home };
}

/** Waits until an ask is open, and returns the first open ask. */
async function waitForOpenAsk(server: GantryServer): Promise<Ask> {
  let openAsk: Ask | undefined;
  await waitUntil(async () => {
    const body = (await (await server.fetch("/api/asks?state=open")).json()) as { asks: Ask[] };
    return (openAsk = body.asks[0]);
  });
  return openAsk!;
}

describe("permissions in the config", () => {
  it("apply allow, ask and deny rules; config files that the model writes do not change them", async (t) => {
    const { results, server, project } = await runCalls(
      t,
      {
        rules: [
          { tool: "bash", match: "git push*", action: "deny", reason: "somebody else pushes." },
          { tool: "bash", match: "echo *", action: "allow" },
          { tool: "bash", action: "ask", reason: "a command" },
          { tool: "write", path: "infra/**", action: "deny" },
        ],
      },
      [
        ["write", { path: ".gantry/config.json", content: '{"permissions":{"rules":[]}}' }],
        ["write", { path: "config.json", content: '{"permissions":{"rules":[]}}' }],
        ["bash", { command: "echo hello; git push" }],
        ["bash", { command: "echo hello" }],
        ["bash", { command: "echo hello > b.txt" }],
        ["bash", { command: "case x in x) echo hello;; esac" }],
        ["write", { path: "infra/b.tf", content: "x" }],
        ["write", { path: "c.txt", content: "x" }],
      ],
    );
    assert.equal(results[2], "This call is not allowed: somebody else pushes.");
    assert.match(results[3]!, /^hello/);
    for (const text of [results[4], results[5]])
      assert.match(text!, /^This call needs permission and no client could answer, so it did not run/);
    assert.equal(results[6], "This call is not allowed: a rule denies it. Continue without it.");
    assert.equal(await project.read("c.txt"), "x");
    await assert.rejects(project.read("b.txt"));
    // No tool can access the home folder, which contains the config.
    const { results: homeResults } = await runCalls(t, {}, [
      ["write", { path: `${server.home}/config.json`, content: "{}" }],
    ]);
    assert.match(homeResults[0]!, /outside|denied/);
  });

  it("log a warning for a rule with an unknown tool, or with a match or path that the tool does not use", async (t) => {
    const { server } = await runCalls(
      t,
      {
        rules: [
          { tool: "bsh", action: "deny" },
          { tool: "bash", match: "git*", action: "allow" },
          { tool: "write", match: "git*", action: "deny" },
          { tool: "bash", path: "infra/**", action: "deny" },
          { tool: "mcp_*", action: "deny" },
        ],
      },
      [],
    );
    for (const expectedPattern of [
      /permissions\.rules\[0\]\.tool: there is no tool bsh/,
      /permissions\.rules\[2\]\.match: write runs no commands/,
      /permissions\.rules\[3\]\.path: bash names no paths/,
      /permissions\.rules\[4\]\.tool: there is no tool mcp_\*/,
    ])
      assert.match(server.stderr, expectedPattern);
    assert.doesNotMatch(server.stderr, /rules\[1\]/);
  });

  it("end the start with an error that has the position and key of an invalid rule", async (t) => {
    for (const [rule, expectedPattern] of [
      [
        { tool: "write", path: "src/[a", action: "deny" },
        /permissions\.rules\[2\]\.path: expected a glob .*, got "src\/\[a"/,
      ],
      [{ tool: "write", path: "{a,b", action: "deny" }, /permissions\.rules\[2\]\.path: expected a glob/],
      [
        { tool: "bash", match: "a && b", action: "deny" },
        /permissions\.rules\[2\]\.match: expected words of one command/,
      ],
      [
        { tool: "bash", action: "forbid" },
        /permissions\.rules\[2\]\.action: expected one of "allow", "ask", "deny", got "forbid"/,
      ],
      [
        { tool: "bash", command: "x", action: "deny" },
        /permissions\.rules\[2\]\.command: unknown key; expected one of tool/,
      ],
      [{ action: "deny" }, /permissions\.rules\[2\]\.tool: expected/],
    ] as const) {
      const validRule = { tool: "bash", action: "allow" };
      const config = { permissions: { rules: [validRule, validRule, rule] } };
      const { code, stderr } = await runGantry(t, ["serve", "--port", "0"], { config });
      assert.equal(code, 1);
      assert.match(stderr, expectedPattern);
    }
  });

  it("apply a policy plugin before the rules, protect its file from tools, and reject invalid policies", async (t) => {
    const policy = `export default {
      gantry: 1, kind: "permission-policy", name: "evening",
      parse: (raw, { location }) => {
        if (typeof raw.tool !== "string") throw new Error(location + ".tool: expected a string");
        return raw;
      },
      create: (options) => ({
        name: "evening",
        judge: ({ tool }) => tool.name === options.tool ? { action: "deny", reason: "not in the evening." } : { action: "pass" },
      }),
    };`;
    const project = await tempDir(t, { "policy.mjs": policy });
    const { results, home } = await runCalls(
      t,
      {
        policies: [{ policy: project.at("policy.mjs"), tool: "bash" }],
        rules: [
          { tool: "bash", action: "allow" },
          { tool: "list", action: "deny" },
        ],
      },
      [
        ["bash", { command: "true" }],
        ["list", {}],
        ["read", { path: "a.txt" }],
      ],
    );
    assert.deepEqual(results.slice(0, 2), [
      "This call is not allowed: not in the evening.",
      "This call is not allowed: a rule denies it. Continue without it.",
    ]);
    assert.match(results[2]!, /a/);
    const modelServer = await startModelServer(t);
    const config = createServerConfig(modelServer, {
      permissions: { policies: [{ policy: "./policy.mjs", tool: "bash" }] },
    });
    const serverOrError = await startServer(t, {
      config,
      home: (await tempDir(t)).path,
      projectDir: project.path,
    }).catch((error: Error) => error.message);
    // The path starts at the config's folder, which has no such file.
    assert.match(String(serverOrError), /permissions\.policies\[0\]: file not found/);
    const configFile = project.at("config.json");
    await writeFile(configFile, JSON.stringify(config));
    const startedServer = await spawnGantry(t, {
      args: ["serve", "--port", "0", "--config", configFile],
      home: home.path,
      projectDir: project.path,
    });
    await startedServer.waitForOutput(/listening on/);
    modelServer.enqueue(...createCalls(["write", { path: "policy.mjs", content: "x" }]), { say: [{ text: "done" }] });
    const { sessionId } = await runPrompt(startedServer, { message: "x" });
    const [result] = (await fetchMessages(startedServer, sessionId)).filter(({ role }) => role === "tool");
    assert.match(result!.content, /gantry loads it at its next start/);
    for (const [policyEntry, expectedPattern] of [
      [{ policy: "./policy.mjs" }, /permissions\.policies\[0\]\.tool: expected a string/],
      ["no-such-package", /permissions\.policies\[0\]: unknown permission-policy no-such-package: expected a package/],
    ] as const) {
      await writeFile(configFile, JSON.stringify({ permissions: { policies: [policyEntry] } }));
      const { code, stderr } = await runGantry(t, ["serve", "--port", "0", "--config", configFile], {
        projectDir: project.path,
      });
      assert.equal(code, 1);
      assert.match(stderr, expectedPattern);
    }
  });

  it("load the example policy of docs/permissions.md", async (t) => {
    const docsPage = await readFile(new URL("../../../docs/permissions.md", import.meta.url), "utf8");
    const [, code = ""] = /```js\n(.*?)```/s.exec(docsPage) ?? [];
    const { results } = await runCalls(
      t,
      { policies: [{ policy: "./office-hours.mjs", until: 0 }] },
      [
        ["bash", { command: "true" }],
        ["list", {}],
      ],
      { "office-hours.mjs": code },
    );
    assert.equal(results[0], "This call is not allowed: no commands at night.");
    assert.match(results[1]!, /a\.txt/);
  });

  it("run a call if unattended is allow, and wait for an answer over HTTP or the timeout if unattended is wait", async (t) => {
    const rules = [{ tool: "read", action: "ask", reason: "who reads?" }];
    const readCalls: [string, unknown][] = [["read", { path: "a.txt" }]];
    assert.match((await runCalls(t, { rules, unattended: "allow" }, readCalls)).results[0]!, /a/);
    const [lateResult] = (await runCalls(t, { rules, unattended: "wait", timeout: 0.2 }, readCalls)).results;
    assert.match(
      lateResult!,
      /^This call needs permission and no client answered within 0\.2 s, so it did not run\. It was not rejected/,
    );
    const modelServer = await startModelServer(t);
    const server = await startServer(t, {
      config: createServerConfig(modelServer, { permissions: { rules, unattended: "wait" } }),
    });
    for (const [choice, expectedPattern] of [
      ["allow", /not found/],
      ["reject", /^The user rejected this call\. Ask what to do instead\./],
    ] as const) {
      modelServer.enqueue(...createCalls(...readCalls), { say: [{ text: "done" }] });
      const pendingRun = runPrompt(server, { message: "x" });
      const { id, reason } = await waitForOpenAsk(server);
      assert.equal(reason, "who reads?");
      const body = JSON.stringify({ choice });
      assert.equal(
        (await server.fetch(`/api/asks/${id}`, { method: "POST", body, headers: server.personHeaders })).status,
        200,
      );
      const { sessionId } = await pendingRun;
      const [result] = (await fetchMessages(server, sessionId)).filter(({ role }) => role === "tool");
      assert.match(result!.content, expectedPattern);
    }
  });

  it("an open ask is withdrawn and its run interrupted when the waiting server is killed", async (t) => {
    const modelServer = await startModelServer(t);
    const home = await tempDir(t);
    const permissions = { mode: "ask", unattended: "wait" };
    const server = await startServer(t, { config: createServerConfig(modelServer, { permissions }), home: home.path });
    modelServer.enqueue(...createCalls(["write", { path: "a.txt", content: "x" }]));
    const pendingRun = runPrompt(server, { message: "x" }).catch(() => undefined);
    const { id } = await waitForOpenAsk(server);
    const driver = new SqliteDriver({ path: home.at("sessions.db"), durability: "full" });
    const directAgent = new Agent({ driver, providers: [new ScriptedProvider([])] });
    t.after(() => directAgent.close());
    const storedAsk = await directAgent.asks.get(id);
    assert.equal(storedAsk?.state, "open");
    assert.equal((await directAgent.runs.get(storedAsk.runId))?.state, "waiting");
    await server.stop("SIGKILL");
    await pendingRun;
    await waitUntil(async () => (await directAgent.asks.get(id))?.state !== "open");
    assert.equal((await directAgent.asks.get(id))?.state, "withdrawn");
    assert.deepEqual(await directAgent.asks.list({ open: true }), []);
    assert.equal((await directAgent.runs.get(storedAsk.runId))?.state, "interrupted");
    await assert.rejects(directAgent.asks.answer(id, { choice: "allow" }), { code: "ask_closed" });
  });
});
