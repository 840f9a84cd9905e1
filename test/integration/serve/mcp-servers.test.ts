import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "gantry";
import { silentLogger } from "../../../src/base/log.js";
import { loadConfigWithFlags } from "../../../src/cli/command.js";
import { matchesTool, isToolGlob } from "../../../src/run/permissions/rule-schema.js";
import { compose } from "../../../src/serve/compose.js";
import { ConfigMcpServerFactory, getConfiguredServers, listProgramFiles } from "../../../src/serve/mcp-servers.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { createFaultyStdioServer, isAlive } from "../../helpers/mcp-servers.js";
import { runGantry, startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

const linuxOnly = { skip: process.platform === "linux" ? false : "needs /proc" };

/** Module of a model that calls the tool in the prompt, `name {"arguments"}`, and then sends the result as text. */
const providerModule = `
const usage = { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 };
export default {
  gantry: 1, kind: "model-provider", name: "caller", parse: (raw) => raw,
  create: () => ({
    name: "caller", idleTimeoutMs: 1000, maxRetries: 0, maxWaitMs: 60000, configuredModels: [{ id: "m", name: "M", ownedBy: "us" }],
    models: async () => [{ id: "m", name: "M", ownedBy: "us" }],
    async *stream({ messages, tools }) {
      const last = messages.at(-1);
      if (tools.length > 0 && last.role === "user") {
        const [, name, args = "{}"] = /^(\\S+) ?(.*)$/.exec(last.parts[0].text);
        yield { type: "tool_call", block: "0", id: "1" + Date.now(), name, arguments: args || "{}" };
        yield { type: "finish", reason: "tool_calls", usage };
      } else {
        yield { type: "text", block: "0", text: last.parts[0].text };
        yield { type: "finish", reason: "stop", usage };
      }
    },
    close: async () => undefined,
  }),
};`;

const { command, args } = createFaultyStdioServer("kind");

async function runPrompt(server: { fetch(path: string, init?: RequestInit): Promise<Response> }, message: string) {
  const response = await server.fetch("/api/run", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ message, stream: false }),
  });
  const { output } = (await response.json()) as { output: string };
  return output;
}

describe("MCP servers in the config", () => {
  it(
    "provide tools under rules and without secrets, and end with gantry on SIGTERM and SIGKILL",
    linuxOnly,
    async (t) => {
      const home = await tempDir(t, { "caller.mjs": providerModule });
      const key = "k3y-9fQ2xLw7Zr4TbVn8MdHs6JpYc1Ge";
      for (const signal of ["SIGTERM", "SIGKILL"] as const) {
        const server = await startServer(t, {
          home: home.path,
          env: { LAB_KEY: key },
          config: {
            providers: [{ driver: "./caller.mjs" }],
            mcp_servers: {
              lab: { command, args: [...args], env: { LAB_TOKEN: "${LAB_KEY}" } },
              gone: { command: "no-such-program" },
              off: { command: "no-such-program", enabled: false },
            },
            permissions: { rules: [{ tool: "mcp:lab/e*o", action: "deny", reason: "no echo." }] },
          },
        });
        assert.equal(await runPrompt(server, 'lab__echo {"text":"x"}'), "This call is not allowed: no echo.");
        const environment = await runPrompt(server, "lab__env");
        assert.match(environment, /"LAB_TOKEN":"\[redacted\]"/);
        assert.doesNotMatch(environment, /LAB_KEY|k3y-/);
        const pid = Number(await runPrompt(server, "lab__pid"));
        assert.ok(isAlive(pid));
        await server.stop(signal);
        await waitUntil(() => !isAlive(pid));
        assert.match(
          server.stderr,
          /tools of a source unavailable; the run continues without them.*"mcp:gone".*command no-such-program or the/,
        );
        assert.doesNotMatch(server.stderr, /mcp:off|k3y-/);
      }
    },
  );

  it("are listed by gantry mcp list with state, tools, rules and errors", async (t) => {
    const config = {
      mcp_servers: {
        lab: { command, args: [...args], tools: ["echo", "pid"] },
        gone: { command: "no-such-program" },
        off: { command: "x", enabled: false },
      },
    };
    const listRun = await runGantry(t, ["mcp", "list"], { config });
    assert.equal(listRun.code, 1);
    assert.deepEqual(
      listRun.stdout.split("\n").map((line) => line.split(/ +/).join(" ")),
      ["SERVER STATE TOOLS PROMPTS NAMES", "gone failed", "lab ready 2 2 lab__echo lab__pid", "off off", ""],
    );
    assert.match(listRun.stderr, /^gone: command no-such-program or the working directory of gone was not found/m);
    const { gone: _gone, ...validServers } = config.mcp_servers;
    const jsonListRun = await runGantry(t, ["mcp", "list", "--json"], { config: { mcp_servers: validServers } });
    assert.equal(jsonListRun.code, 0);
    const [lab, off] = JSON.parse(jsonListRun.stdout) as Record<string, unknown>[];
    assert.deepEqual(lab?.["tools"], [
      { name: "lab__echo", rule: "mcp:lab/echo", description: "Is echo." },
      { name: "lab__pid", rule: "mcp:lab/pid", description: "Is pid." },
    ]);
    assert.deepEqual(off, { name: "off", state: "off", tools: [], prompts: [] });
    const emptyListRun = await runGantry(t, ["mcp", "list"], { config: {} });
    assert.deepEqual([emptyListRun.code, emptyListRun.stdout], [0, ""]);
    assert.match(emptyListRun.stderr, /no mcp_servers configured/);
  });

  it("are listed without control characters, each tool with a rule that matches it", async (t) => {
    const toolName = "a\u001b[31m\u009b2J\u202eb\nc";
    const folder = await tempDir(t, {
      "server.mjs": `
        import { createInterface } from "node:readline";
        const tools = [{ name: ${JSON.stringify(toolName)}, description: "\u009b2J", inputSchema: { type: "object" } }];
        const RESULTS = {
          initialize: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "e", version: "1" } },
          "tools/list": { tools },
        };
        createInterface({ input: process.stdin }).on("line", (line) => {
          const { id, method } = JSON.parse(line);
          if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, result: RESULTS[method] ?? {} }));
        });`,
    });
    const config = { mcp_servers: { e: { command: process.execPath, args: [folder.at("server.mjs")] } } };
    const { stdout } = await runGantry(t, ["mcp", "list", "--json"], { config });
    assert.doesNotMatch(stdout, /[^\P{C}\n]/u);
    const [listedServer] = JSON.parse(stdout) as { tools: { rule: string }[] }[];
    const [{ rule } = { rule: "" }] = listedServer?.tools ?? [];
    assert.equal(rule, "mcp:e/a?[31m?2J?b?c");
    assert.ok(isToolGlob(rule) && matchesTool({ tool: rule }, { name: "x", origin: `mcp:e/${toolName}` }));
  });

  it("resolve paths against the config's folder, and listProgramFiles returns the existing files that they run", async (t) => {
    const folder = await tempDir(t, { "bin/server.js": "", "project/tool.js": "", "project/lib/x": "" });
    const file = folder.at("config.json");
    await folder.write({
      "config.json": JSON.stringify({
        mcp_servers: {
          own: { command: "./bin/server.js", args: ["tool.js", "lib", "nothing"], cwd: "project" },
          web: { url: "https://mcp.example/mcp", headers: { "X-Key": "abc" }, type: "http" },
          plain: { command: "node" },
          off: { command: "x", enabled: false },
        },
      }),
    });
    const { loadedConfig } = await loadConfigWithFlags({ config: file });
    const servers = getConfiguredServers(loadedConfig, folder.at("home"));
    const usageOptions = { tools: ["*"], timeout: 120, trusted: false, sampling: false };
    assert.deepEqual(servers, [
      {
        server: {
          name: "own",
          command: folder.at("bin/server.js"),
          args: ["tool.js", "lib", "nothing"],
          env: {},
          cwd: folder.at("project"),
        },
        usageOptions,
      },
      {
        server: { name: "web", url: "https://mcp.example/mcp", headers: { "X-Key": "abc" }, type: "http" },
        usageOptions: { ...usageOptions, loginFile: folder.at("home/mcp-logins/web.json") },
      },
      { server: { name: "plain", command: "node", args: [], env: {}, cwd: folder.at("home/mcp") }, usageOptions },
    ]);
    assert.deepEqual(listProgramFiles(servers, folder.path), [
      folder.at("bin/server.js"),
      folder.at("project/tool.js"),
    ]);
  });

  it("can have arguments that are too long for a file name", async (t) => {
    const key = `Authorization: Bearer ${"k3y".repeat(200)}`;
    const config = { mcp_servers: { lab: { command, args: [...args, "stdio", "--header", key, "a/".repeat(5_000)] } } };
    const { code } = await runGantry(t, ["run", "hello"], { config });
    assert.equal(code, 0);
  });

  it("servers from clients are validated, compared by value, and limited to URLs if programs are rejected", async (t) => {
    const folder = await tempDir(t, { "config.json": "{}" });
    const { loadedConfig } = await loadConfigWithFlags({ config: folder.at("config.json") });
    const createFactory = (programRejection: string | undefined) =>
      new ConfigMcpServerFactory([], { loadedConfig, logger: silentLogger, env: {}, programRejection });
    const factory = createFactory(undefined);
    const program = { name: "a", command: "x", args: [], env: {} };
    assert.equal(factory.source(program), factory.source({ ...program }));
    assert.notEqual(factory.source(program), factory.source({ ...program, args: ["y"] }));
    assert.equal(factory.source(program).name, "mcp:a");
    const invalidServers: [unknown, string][] = [
      [5, "server: expected an object with name and command, or name and url"],
      [{ ...program, name: "" }, "name: expected a name in a line"],
      [{ ...program, name: "a\nb" }, "name: expected a name in a line"],
      [{ ...program, command: "" }, "command: expected a program"],
      [{ ...program, args: "x" }, "args: expected a list of strings"],
      [{ ...program, env: { A: 1 } }, "env: expected an object of names and values"],
      [{ ...program, cwd: "here" }, "cwd: expected an absolute path"],
      [{ ...program, url: "https://a" }, "url: expected one of name, command, args, env, cwd"],
      [{ name: "a", url: "ftp://a", headers: {} }, "url: expected an address with http or https"],
      [{ name: "a", url: "https://a", headers: [] }, "headers: expected an object of header names and values"],
      [{ name: "a", url: "https://a", headers: {}, type: "ws" }, 'type: expected one of "http", "sse"'],
    ];
    for (const [server, message] of invalidServers)
      assert.throws(
        () => factory.source(server as never),
        (error) => hasCode(error, "invalid_input") && error.message === message,
        message,
      );
    assert.throws(() => createFactory("there are none").source(program), {
      message: "command: expected a server with a url, because there are none",
    });
    assert.equal(createFactory("there are none").source({ name: "a", url: "https://a", headers: {} }).name, "mcp:a");
  });

  for (const [setting, config, isRejected] of [
    ["bash enabled", {}, false],
    ["bash disabled", { tools: { bash: { enabled: false } } }, true],
    ["bash not among the agent's tools", { agent: { tools: ["read"] } }, true],
    ["a rule that denies bash", { permissions: { rules: [{ tool: "b*h", action: "deny" }] } }, true],
    [
      "a rule that denies every command that no rule allows",
      {
        permissions: {
          rules: [
            { tool: "bash", match: "git *", action: "allow" },
            { tool: "*", action: "deny" },
          ],
        },
      },
      true,
    ],
    [
      "a rule that denies one command",
      { permissions: { rules: [{ tool: "bash", match: "rm *", action: "deny" }] } },
      false,
    ],
    [
      "a rule that denies all commands by a glob",
      { permissions: { rules: [{ tool: "bash", match: "*", action: "deny" }] } },
      true,
    ],
    ["a required sandbox", { tools: { bash: { sandbox: "required" } } }, true],
  ] as const)
    it(`a program from a client is ${isRejected ? "rejected" : "accepted"} with ${setting}`, async (t) => {
      const home = await tempDir(t, { "config.json": JSON.stringify(config) });
      const { loadedConfig } = await loadConfigWithFlags({ config: home.at("config.json") });
      const composeOptions = {
        loadedConfig,
        home: home.path,
        projectDir: home.path,
        logger: silentLogger,
        isProcessLocal: true,
      };
      const { agent, stop } = await compose(composeOptions);
      t.after(stop);
      const createSource = () => agent.mcpServerFactory?.source({ name: "a", command: "x", args: [], env: {} });
      if (isRejected)
        assert.throws(
          createSource,
          /^InputError: command: expected a server with a url, because (a rule denies )?commands\b/,
        );
      else assert.equal(createSource()?.name, "mcp:a");
    });
});
