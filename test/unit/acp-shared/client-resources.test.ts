import assert from "node:assert/strict";
import { symlink } from "node:fs/promises";
import { describe, it, type TestContext } from "node:test";
import { builtinTools, defineTool, InputError, type AgentOptions } from "gantry";
import type { McpServer, McpServerFactory, ToolSession } from "gantry/plugin";
import { callTools, type ScriptedStep } from "gantry/testing";
import type { AcpOptions } from "../../../adapters/acp-shared/index.js";
import { InProcessAcp, createScriptedAgent, createTestTool } from "../../helpers/acp-agent.js";
import type { Json } from "../../helpers/acp-peer.js";
import { tempDir } from "../../helpers/temp-dir.js";

/** Records the opened servers and their sessions, without real connections. Each server has one tool. */
class RecordingServerFactory implements McpServerFactory {
  readonly openedServers: { server: McpServer; session: ToolSession }[] = [];

  source(server: McpServer) {
    if ("url" in server && !server.url.startsWith("http")) throw new InputError("url", "an address of HTTP");
    const { name } = server;
    const tool = defineTool({ name: `${name}__say`, description: name, run: () => `${name} speaks` });
    return {
      name,
      open: (session: ToolSession) => {
        this.openedServers.push({ server, session });
        return Promise.resolve({ tools: [tool], close: () => Promise.resolve() });
      },
    };
  }
}

const bashTool = createTestTool("bash", () => ({ text: "" }), { kind: "execute" });
const stdioServer = { name: "files", command: "files-server", args: ["--all"], env: [{ name: "LEVEL", value: "1" }] };
const httpServer = {
  type: "http",
  name: "web",
  url: "http://127.0.0.1:1/mcp",
  headers: [{ name: "X-Key", value: "k" }],
};
const sseServer = { type: "sse", name: "old", url: "http://127.0.0.1:1/sse", headers: [] };

async function connectClient(
  t: TestContext,
  steps: readonly ScriptedStep[] = [],
  options: Partial<AgentOptions> = {},
  acpOptions: Partial<AcpOptions> = {},
  initializeParams: Json = {},
) {
  const { path: cwd } = await tempDir(t);
  const servers = new RecordingServerFactory();
  const { agent, provider } = createScriptedAgent(t, steps, {
    tools: [bashTool],
    mcpServerFactory: servers,
    ...options,
  });
  const peer = new InProcessAcp(t, agent, acpOptions).connect();
  await peer.initialize(initializeParams);
  const getOfferedToolNames = () =>
    provider.requests.filter(({ tools }) => tools.length > 0).map(({ tools }) => tools.map(({ name }) => name));
  return { agent, cwd, servers, peer, getOfferedToolNames, provider };
}

const EDITOR = { clientInfo: { name: "zed", version: "1" } };

/** Returns the error message of a request that must fail with -32602. */
async function getRejectionMessage(response: Promise<Json>): Promise<string> {
  const { error } = await response;
  assert.equal(error?.code, -32602);
  return error.message as string;
}

describe("MCP servers of an ACP client", () => {
  it("are opened by the first prompt in the session's folder, for stdio, HTTP and SSE", async (t) => {
    const steps = [callTools(["files__say", {}]), "done"];
    const { cwd, servers, peer, getOfferedToolNames } = await connectClient(t, steps, {}, {}, EDITOR);
    const { sessionId } = await peer.request("session/new", { cwd, mcpServers: [stdioServer, httpServer, sseServer] });
    assert.equal(servers.openedServers.length, 0, "no server opens before the first prompt");
    await peer.prompt(sessionId, "speak");
    assert.deepEqual(
      servers.openedServers.map(({ server }) => server),
      [
        { name: "files", command: "files-server", args: ["--all"], env: { LEVEL: "1" } },
        { name: "web", url: "http://127.0.0.1:1/mcp", headers: { "X-Key": "k" }, type: "http" },
        { name: "old", url: "http://127.0.0.1:1/sse", headers: {}, type: "sse" },
      ],
    );
    for (const { session } of servers.openedServers) assert.equal(session.projectDir, cwd);
    assert.deepEqual(getOfferedToolNames()[0], ["bash", "files__say", "old__say", "web__say"]);
    const callUpdate = await peer.waitForMessage(
      ({ params }) => params?.update?.sessionUpdate === "tool_call_update" && params.update.status !== "in_progress",
    );
    assert.equal(callUpdate.params.update.status, "completed");
    peer.assertNoValidationErrors();
  });

  it("with SSE are taken if mcpCapabilities.sse is true, otherwise rejected", async (t) => {
    for (const [params, acpOptions, isTaken] of [
      [EDITOR, {}, true],
      [{ clientCapabilities: { terminal: true } }, {}, true],
      [{}, { profile: "official" }, true],
      [{}, {}, false],
      [EDITOR, { profile: "spec", mcp: true }, false],
    ] as const) {
      const { cwd, peer } = await connectClient(t, [], {}, acpOptions);
      const { agentCapabilities } = await peer.initialize(params);
      assert.equal(agentCapabilities.mcpCapabilities.sse, isTaken, JSON.stringify(params));
      const response = peer.call("session/new", { cwd, mcpServers: [sseServer] });
      if (isTaken) assert.equal(typeof (await response).result.sessionId, "string");
      else
        assert.match(
          await getRejectionMessage(response),
          /mcpServers\[0\]\.type: expected http or no type for a program: mcpCapabilities\.sse is false/,
        );
    }
  });

  for (const method of ["session/load", "session/resume"])
    it(`are replaced by the servers in ${method}, or removed if that request has none`, async (t) => {
      const { agent, cwd, peer, getOfferedToolNames } = await connectClient(t, ["one", "two", "three"]);
      const { sessionId } = await peer.request("session/new", { cwd, mcpServers: [stdioServer] });
      await peer.prompt(sessionId, "a");
      const { id } = (await agent.sessions.get(sessionId))!;
      await peer.request(method, { sessionId: id, cwd, mcpServers: [httpServer] });
      await peer.prompt(id, "b");
      await peer.request(method, { sessionId: id, cwd });
      await peer.prompt(id, "c");
      assert.deepEqual(getOfferedToolNames(), [["bash", "files__say"], ["bash", "web__say"], ["bash"]]);
    });

  it("are not available to runs that another client starts in the session", async (t) => {
    const { agent, cwd, peer, getOfferedToolNames } = await connectClient(t, ["one", "two"]);
    const { sessionId } = await peer.request("session/new", { cwd, mcpServers: [stdioServer] });
    await peer.prompt(sessionId, "a");
    await (
      await agent.run({ message: "b", sessionId })
    ).result;
    assert.deepEqual(getOfferedToolNames(), [["bash", "files__say"], ["bash"]]);
  });

  it("are ignored if the agent has a tool source of the same name", async (t) => {
    const agentSource = {
      name: "files",
      open: () => Promise.resolve({ tools: [bashTool], close: () => Promise.resolve() }),
    };
    const { cwd, servers, peer, getOfferedToolNames } = await connectClient(t, ["one"], {
      tools: [agentSource, createTestTool("bash2", () => ({ text: "" }))],
    });
    const { sessionId } = await peer.request("session/new", { cwd, mcpServers: [{ ...httpServer, name: "files" }] });
    await peer.prompt(sessionId, "a");
    assert.deepEqual(getOfferedToolNames(), [["bash", "bash2"]]);
    assert.equal(servers.openedServers.length, 0);
  });

  it("are rejected with -32602 and the field if invalid, and the connection stays usable", async (t) => {
    const { cwd, peer } = await connectClient(t);
    const invalidCases: [mcpServers: unknown, message: RegExp][] = [
      [{}, /mcpServers: expected an array/],
      [["x"], /mcpServers\[0\]: expected an object/],
      [[{ command: "x" }], /mcpServers\[0\]\.name: expected a string that is not empty/],
      [[{ name: "x" }], /mcpServers\[0\]\.command: expected a string/],
      [[stdioServer, { ...stdioServer, args: "x" }], /mcpServers\[1\]\.args: expected an array of strings/],
      [[{ ...stdioServer, env: { A: "1" } }], /mcpServers\[0\]\.env: expected an array of \{ name, value \}/],
      [[{ ...stdioServer, type: "acp" }], /mcpServers\[0\]\.type: expected http, sse, or no type for a program/],
      [[{ ...httpServer, url: 1 }], /mcpServers\[0\]\.url: expected a string/],
      [[{ ...httpServer, url: "ftp://x" }], /mcpServers\[0\]\.url: expected an address of HTTP/],
      [[{ ...httpServer, headers: [{ name: "a" }] }], /mcpServers\[0\]\.headers: expected an array of/],
      [[httpServer, { ...sseServer, name: "web" }], /mcpServers\[1\]\.name: expected a name that no other server has/],
      [Array.from({ length: 65 }, (_, i) => ({ ...httpServer, name: `n${i}` })), /mcpServers: expected at most 64/],
    ];
    for (const [mcpServers, message] of invalidCases)
      assert.match(await getRejectionMessage(peer.call("session/new", { cwd, mcpServers })), message);
    await peer.newSession(cwd);
  });

  it("are limited to URLs if the agent has no bash tool: a command is rejected", async (t) => {
    const { cwd, peer, servers } = await connectClient(t, ["one"], { tools: [] });
    assert.match(
      await getRejectionMessage(peer.call("session/new", { cwd, mcpServers: [httpServer, stdioServer] })),
      /mcpServers\[1\]: expected an HTTP server: this agent has no bash tool and starts no programs/,
    );
    const { sessionId } = await peer.request("session/new", { cwd, mcpServers: [httpServer] });
    assert.match(
      await getRejectionMessage(peer.call("session/load", { sessionId, cwd, mcpServers: [stdioServer] })),
      /this agent has no bash tool and starts no programs/,
    );
    await peer.prompt(sessionId, "a");
    assert.deepEqual(
      servers.openedServers.map(({ server }) => server.name),
      ["web"],
    );
  });

  for (const [condition, options, acpOptions] of [
    ["acp.mcp is false", {}, { mcp: false }],
    ["the profile is spec", {}, { profile: "spec" }],
    // Without a factory, `mcpServers` must still be an array.
    ["the agent has no MCP server factory", { mcpServerFactory: undefined }, {}],
  ] as const)
    it(`are accepted and ignored, even if invalid, when ${condition}`, async (t) => {
      const { cwd, peer, servers, getOfferedToolNames } = await connectClient(t, ["one"], options, acpOptions);
      const params = { cwd, mcpServers: [stdioServer, "x", {}] };
      const { sessionId } = await peer.request("session/new", params);
      const tooManyServers = Array.from({ length: 65 }, () => stdioServer);
      for (const mcpServers of "mcpServerFactory" in options
        ? [null, tooManyServers.slice(1)]
        : [{}, "x", 1, null, tooManyServers])
        await peer.request("session/load", { sessionId, cwd, mcpServers });
      await peer.prompt(sessionId, "a");
      assert.deepEqual(getOfferedToolNames(), [["bash"]]);
      assert.equal(servers.openedServers.length, 0);
    });

  it("are opened in profile spec if acp.mcp is true", async (t) => {
    const { cwd, peer, servers } = await connectClient(t, ["one"], {}, { profile: "spec", mcp: true });
    assert.match(await getRejectionMessage(peer.call("session/new", { cwd, mcpServers: ["x"] })), /mcpServers\[0\]/);
    const { sessionId } = await peer.request("session/new", { cwd, mcpServers: [stdioServer] });
    await peer.prompt(sessionId, "a");
    assert.equal(servers.openedServers.length, 1);
  });
});

describe("additional directories of an ACP client", () => {
  const fileTools = builtinTools().filter(({ name }) => ["read", "write", "grep", "glob", "list"].includes(name));

  it("are accessible to file tools and in the system prompt until a resume without them", async (t) => {
    const extraFolder = await tempDir(t);
    const closedFolder = await tempDir(t);
    await extraFolder.write({ "note.txt": "needle" });
    await closedFolder.write({ "secret.txt": "needle" });
    await symlink(closedFolder.path, extraFolder.at("way"));
    const calls = callTools(
      ["read", { path: extraFolder.at("note.txt") }],
      ["write", { path: extraFolder.at("made.txt"), content: "made" }],
      ["grep", { pattern: "needle", path: extraFolder.path }],
      ["list", { path: extraFolder.path }],
      ["glob", { pattern: "*.txt", path: extraFolder.path }],
      ["read", { path: closedFolder.at("secret.txt") }],
      ["read", { path: extraFolder.at("way", "secret.txt") }],
    );
    const { agent, cwd, peer, provider } = await connectClient(t, [calls, "done", calls, "done"], {
      tools: [...fileTools, bashTool],
    });
    const params = { cwd, mcpServers: [], additionalDirectories: [`${extraFolder.path}/`] };
    const { sessionId } = await peer.request("session/new", params);
    await peer.prompt(sessionId, "look");
    const readFailures = async (skippedCount: number) =>
      (await agent.sessions.messages(sessionId))
        .filter(({ role }) => role === "tool")
        .slice(skippedCount)
        // Results of parallel calls are stored in the order in which the calls finish.
        .sort((a, b) => (a.toolCallId < b.toolCallId ? -1 : 1))
        .map((message) => message.failed);
    assert.deepEqual(await readFailures(0), [false, false, false, false, false, true, true]);
    assert.equal(await extraFolder.read("made.txt"), "made");
    assert.ok(
      provider.requests[0]?.system.includes(`You may use these folders too, by absolute paths:\n${extraFolder.path}`),
    );
    // After a resume without extra folders, the same calls are rejected.
    await peer.request("session/resume", { sessionId, cwd, mcpServers: [] });
    await peer.prompt(sessionId, "look again");
    assert.deepEqual(await readFailures(7), Array(7).fill(true));
    assert.ok(!provider.requests.at(-1)?.system.includes("You may use these folders too"));
  });

  it("are rejected with -32602 unless they are absolute paths of existing folders", async (t) => {
    const { cwd, peer } = await connectClient(t);
    const folder = await tempDir(t);
    await folder.write({ file: "" });
    for (const [additionalDirectories, message] of [
      ["x", /additionalDirectories: expected an array/],
      [[1], /additionalDirectories\[0\]: expected an absolute path/],
      [[cwd, "src"], /additionalDirectories\[1\]: expected an absolute path/],
      [[folder.at("none")], /additionalDirectories\[0\]: expected the absolute path of an existing folder/],
      [[folder.at("file")], /additionalDirectories\[0\]: expected the absolute path of an existing folder/],
    ] as const)
      assert.match(await getRejectionMessage(peer.call("session/new", { cwd, additionalDirectories })), message);
  });

  for (const acpOptions of [{ mcp: false }, { profile: "spec" }] as const)
    it(`are ignored, even if invalid, with ${JSON.stringify(acpOptions)}`, async (t) => {
      const { cwd, peer, provider } = await connectClient(t, ["one"], {}, acpOptions);
      const { sessionId } = await peer.request("session/new", { cwd, additionalDirectories: [cwd, "nowhere"] });
      await peer.request("session/load", { sessionId, cwd, additionalDirectories: { a: 1 } });
      await peer.prompt(sessionId, "a");
      assert.ok(!provider.requests[0]?.system.includes("these folders too"));
    });
});
