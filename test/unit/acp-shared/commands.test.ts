import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import type { AgentOptions, SlashCommand } from "gantry";
import type { ScriptedStep } from "gantry/testing";
import { MemoryAcp, scriptedAgent, testTool } from "../../helpers/acp-agent.js";
import type { Json } from "../../helpers/acp-peer.js";
import { tempDir } from "../../helpers/temp.js";

const FILES = { ".agents/commands/review.md": "---\ndescription: Look\nargument-hint: FILE\n---\nReview $1." };
const isList = (message: Json): boolean => message.params?.update?.sessionUpdate === "available_commands_update";
const names = (message: Json): string[] => message.params.update.availableCommands.map(({ name }: Json) => name);

async function editor(t: TestContext, steps: readonly ScriptedStep[], options: Partial<AgentOptions> = {}) {
  const folder = await tempDir(t);
  await folder.write(FILES);
  const { agent, provider } = scriptedAgent(t, steps, { projectDir: folder.path, ...options });
  const acp = new MemoryAcp(t, agent, { profile: "official" });
  const peer = acp.connect();
  await peer.initialize();
  return { folder, agent, provider, acp, peer };
}

describe("slash commands of an ACP client", () => {
  it("are sent after session/new, load and resume, and again when they change", async (t) => {
    const { folder, agent, peer } = await editor(t, ["one", "two"]);
    const sessionId = await peer.newSession(folder.path);
    const first = await peer.seen(isList);
    assert.deepEqual(first.params.update.availableCommands.slice(1), [
      { name: "review", description: "Look", input: { hint: "FILE" } },
    ]);
    await peer.prompt(sessionId, "hello");
    const next = peer.next(isList);
    await folder.write({ ".agents/commands/more.md": "More." });
    await peer.prompt(sessionId, "hello again");
    assert.deepEqual(names(await next), ["compact", "more", "review"]);
    assert.equal(peer.received.filter(isList).length, 2, "told once each");
    const { id } = (await agent.sessions.get(sessionId))!;
    for (const method of ["session/load", "session/resume"]) {
      const nextList = peer.next(isList);
      await peer.request(method, { sessionId: id, cwd: folder.path, mcpServers: [] });
      assert.deepEqual(names(await nextList), ["compact", "more", "review"]);
    }
    peer.assertClean();
  });

  it("of an MCP server are sent once a run has opened the server, and expand in that run's prompt", async (t) => {
    const look: SlashCommand = {
      ...{ name: "web:look", description: "Look", hint: "", origin: "mcp:web" },
      prompt: (words) => Promise.resolve({ text: `Look at ${words}` }),
    };
    const opened = { tools: [], prompts: [look], close: () => Promise.resolve() };
    const { folder, peer, provider } = await editor(t, ["one"], {
      tools: [{ name: "web", open: () => Promise.resolve(opened) }],
    });
    const sessionId = await peer.newSession(folder.path);
    await peer.seen(isList);
    const next = peer.next(isList);
    await peer.prompt(sessionId, "/web:look this");
    assert.deepEqual(names(await next), ["compact", "web:look", "review"]);
    assert.deepEqual(provider.requests[0]?.messages[0]?.parts[0], {
      type: "text",
      text: "Look at this",
      originalText: "/web:look this",
    });
  });

  it("of one client's MCP server are neither listed nor expanded for another client of the session", async (t) => {
    const look: SlashCommand = {
      ...{ name: "web:look", description: "Look", hint: "", origin: "mcp:web" },
      prompt: (words) => Promise.resolve({ text: `Look at ${words}` }),
    };
    const source = {
      name: "mcp:web",
      open: () => Promise.resolve({ tools: [], prompts: [look], close: () => Promise.resolve() }),
    };
    const { folder, agent, acp, peer, provider } = await editor(t, ["one", "two", "three"], {
      tools: [testTool("bash", () => ({ text: "" }), { kind: "execute" })],
      mcpServerFactory: { source: () => source },
    });
    const cwd = folder.path;
    const mcpServers = [{ name: "web", command: "web-server", args: [], env: [] }];
    const { sessionId } = await peer.request("session/new", { cwd, mcpServers });
    await peer.prompt(sessionId, "/web:look this");
    assert.deepEqual(names(await peer.seen((message) => isList(message) && names(message).length === 3)), [
      ...["compact", "web:look", "review"],
    ]);
    const secondPeer = acp.connect();
    await secondPeer.initialize();
    await secondPeer.request("session/load", { sessionId, cwd, mcpServers: [] });
    assert.deepEqual(names(await secondPeer.seen(isList)), ["compact", "review"]);
    await secondPeer.prompt(sessionId, "/web:look that");
    await peer.prompt(sessionId, "/web:look again");
    const promptParts = provider.requests.map(
      ({ messages }) => messages.findLast(({ role }) => role === "user")?.parts[0],
    );
    assert.deepEqual(
      promptParts.map((part) => part?.type === "text" && part.text),
      ["Look at this", "/web:look that", "Look at again"],
    );
    assert.deepEqual(
      (await agent.commands({ sessionId })).map(({ name }) => name),
      ["compact", "review"],
    );
  });

  it("are expanded for the model and replayed as typed", async (t) => {
    const { folder, peer, provider } = await editor(t, ["one"]);
    const sessionId = await peer.newSession(folder.path);
    await peer.prompt(sessionId, "/review a.ts");
    assert.match(JSON.stringify(provider.requests[0]?.messages), /Review a\.ts\./);
    await peer.request("session/load", { sessionId, cwd: folder.path, mcpServers: [] });
    assert.equal(peer.text(sessionId, "user_message_chunk"), "/review a.ts");
  });

  it("/compact ends its turn with a message if there is too little to compact", async (t) => {
    const { folder, peer } = await editor(t, ["one"]);
    const sessionId = await peer.newSession(folder.path);
    await peer.prompt(sessionId, "hello");
    assert.equal((await peer.prompt(sessionId, "/compact")).stopReason, "end_turn");
    assert.match(peer.text(sessionId), /too little to compact/);
  });

  it("are not sent in profile spec, and a prompt that names one stays text", async (t) => {
    const folder = await tempDir(t);
    await folder.write(FILES);
    const { agent, provider } = scriptedAgent(t, ["one"]);
    const peer = new MemoryAcp(t, agent, { profile: "spec" }).connect();
    await peer.initialize();
    const sessionId = await peer.newSession(folder.path);
    await peer.prompt(sessionId, "/review a.ts");
    assert.deepEqual(provider.requests[0]?.messages[0]?.parts, [{ type: "text", text: "/review a.ts" }]);
    assert.equal(peer.received.filter(isList).length, 0);
  });
});
