import assert from "node:assert/strict";
import { it } from "node:test";
import { builtinTools } from "gantry";
import { McpServers } from "gantry/adapters/mcp-tools";
import { callTools } from "gantry/testing";
import { InProcessAcp, createScriptedAgent } from "../../helpers/acp-agent.js";
import { startFaultyHttpServer, createFaultyStdioServer, isAlive, PATH_ENV } from "../../helpers/mcp-servers.js";
import { tempDir } from "../../helpers/temp-dir.js";

it("the agent calls tools of MCP servers from an ACP client, and the server process ends with the agent", async (t) => {
  const { path: cwd } = await tempDir(t);
  const { provider, agent } = createScriptedAgent(
    t,
    [callTools(["files__pid", {}], ["web__echo", { text: "over HTTP" }]), "done", "again"],
    { tools: builtinTools({ env: PATH_ENV }), mcpServerFactory: new McpServers({ env: PATH_ENV }) },
  );
  const peer = new InProcessAcp(t, agent).connect();
  await peer.initialize();
  const { command, args } = createFaultyStdioServer("kind");
  const { url } = (await startFaultyHttpServer(t, "kind")).server;
  const { sessionId } = await peer.request("session/new", {
    cwd,
    mcpServers: [
      { name: "files", command, args, env: [] },
      { type: "http", name: "web", url, headers: [] },
    ],
  });
  await peer.prompt(sessionId, "speak");
  const results = provider.requests.flatMap(({ messages }) => messages.filter(({ role }) => role === "tool"));
  const texts = results.map(({ parts }) => (parts[0]?.type === "text" ? parts[0].text : ""));
  const [pid = ""] = texts;
  assert.match(pid, /^\d+$/);
  assert.equal(texts[1], "over HTTP");
  const { tools } = provider.requests.find((request) => request.tools.length > 0)!;
  assert.ok(["files__echo", "web__echo", "bash"].every((name) => tools.some((tool) => tool.name === name)));
  assert.ok(process.platform !== "linux" || isAlive(Number(pid)));
  await agent.close();
  assert.equal(isAlive(Number(pid)), false);
});
