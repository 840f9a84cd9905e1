import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import type { AgentOptions, SlashCommand } from "gantry";
import type { ScriptedStep } from "gantry/testing";
import { InProcessAcp, createScriptedAgent, createTestTool } from "../../helpers/acp-agent.js";
import type { Json } from "../../helpers/acp-peer.js";
import { tempDir } from "../../helpers/temp-dir.js";

const COMMAND_FILES = { ".agents/commands/review.md": "---\ndescription: Look\nargument-hint: FILE\n---\nReview $1." };
const isCommandList = (message: Json): boolean => message.params?.update?.sessionUpdate === "available_commands_update";
const getCommandNames = (message: Json): string[] =>
  message.params.update.availableCommands.map(({ name }: Json) => name);

async function connectEditor(t: TestContext, steps: readonly ScriptedStep[], options: Partial<AgentOptions> = {}) {
  const folder = await tempDir(t);
  await folder.write(COMMAND_FILES);
  const { agent, provider } = createScriptedAgent(t, steps, { projectDir: folder.path, ...options });
  const acp = new InProcessAcp(t, agent, { profile: "official" });
  const peer = acp.connect();
  await peer.initialize();
  return { folder, agent, provider, acp, peer };
}

describe("slash commands of an ACP client", () => {
  it("are sent after session/new, session/load and session/resume, and when they change", async (t) => {
    const { folder, agent, peer } = await connectEditor(t, ["one", "two"]);
    const sessionId = await peer.newSession(folder.path);
    const firstList = await peer.waitForMessage(isCommandList);
    assert.deepEqual(firstList.params.update.availableCommands.slice(1), [
      { name: "review", description: "Look", input: { hint: "FILE" } },
    ]);
    await peer.prompt(sessionId, "hello");
    const changedList = peer.waitForNext(isCommandList);
    await folder.write({ ".agents/commands/more.md": "More." });
    await peer.prompt(sessionId, "hello again");
    assert.deepEqual(getCommandNames(await changedList), ["compact", "more", "review"]);
    assert.equal(peer.receivedMessages.filter(isCommandList).length, 2, "each list is sent once");
    const { id } = (await agent.sessions.get(sessionId))!;
    for (const method of ["session/load", "session/resume"]) {
      const nextList = peer.waitForNext(isCommandList);
      await peer.request(method, { sessionId: id, cwd: folder.path, mcpServers: [] });
      assert.deepEqual(getCommandNames(await nextList), ["compact", "more", "review"]);
    }
    peer.assertNoValidationErrors();
  });

  it("from an MCP server are sent when a run has opened the server, and expand in the prompt of that run", async (t) => {
    const lookCommand: SlashCommand = {
      ...{ name: "web:look", description: "Look", hint: "", origin: "mcp:web" },
      prompt: (commandArguments) => Promise.resolve({ text: `Look at ${commandArguments}` }),
    };
    const openedSource = { tools: [], prompts: [lookCommand], close: () => Promise.resolve() };
    const { folder, peer, provider } = await connectEditor(t, ["one"], {
      tools: [{ name: "web", open: () => Promise.resolve(openedSource) }],
    });
    const sessionId = await peer.newSession(folder.path);
    await peer.waitForMessage(isCommandList);
    const changedList = peer.waitForNext(isCommandList);
    await peer.prompt(sessionId, "/web:look this");
    assert.deepEqual(getCommandNames(await changedList), ["compact", "web:look", "review"]);
    assert.deepEqual(provider.requests[0]?.messages[0]?.parts[0], {
      type: "text",
      text: "Look at this",
      originalText: "/web:look this",
    });
  });

  it("from one client's MCP server are neither listed nor expanded for another client of the session", async (t) => {
    const lookCommand: SlashCommand = {
      ...{ name: "web:look", description: "Look", hint: "", origin: "mcp:web" },
      prompt: (commandArguments) => Promise.resolve({ text: `Look at ${commandArguments}` }),
    };
    const source = {
      name: "mcp:web",
      open: () => Promise.resolve({ tools: [], prompts: [lookCommand], close: () => Promise.resolve() }),
    };
    const { folder, agent, acp, peer, provider } = await connectEditor(t, ["one", "two", "three"], {
      tools: [createTestTool("bash", () => ({ text: "" }), { kind: "execute" })],
      mcpServerFactory: { source: () => source },
    });
    const cwd = folder.path;
    const mcpServers = [{ name: "web", command: "web-server", args: [], env: [] }];
    const { sessionId } = await peer.request("session/new", { cwd, mcpServers });
    await peer.prompt(sessionId, "/web:look this");
    assert.deepEqual(
      getCommandNames(
        await peer.waitForMessage((message) => isCommandList(message) && getCommandNames(message).length === 3),
      ),
      ["compact", "web:look", "review"],
    );
    const secondPeer = acp.connect();
    await secondPeer.initialize();
    await secondPeer.request("session/load", { sessionId, cwd, mcpServers: [] });
    assert.deepEqual(getCommandNames(await secondPeer.waitForMessage(isCommandList)), ["compact", "review"]);
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
    const { folder, peer, provider } = await connectEditor(t, ["one"]);
    const sessionId = await peer.newSession(folder.path);
    await peer.prompt(sessionId, "/review a.ts");
    assert.match(JSON.stringify(provider.requests[0]?.messages), /Review a\.ts\./);
    await peer.request("session/load", { sessionId, cwd: folder.path, mcpServers: [] });
    assert.equal(peer.getText(sessionId, "user_message_chunk"), "/review a.ts");
  });

  it("/compact ends its turn with a message if the session is too short to compact", async (t) => {
    const { folder, peer } = await connectEditor(t, ["one"]);
    const sessionId = await peer.newSession(folder.path);
    await peer.prompt(sessionId, "hello");
    assert.equal((await peer.prompt(sessionId, "/compact")).stopReason, "end_turn");
    assert.match(peer.getText(sessionId), /too little to compact/);
  });

  it("/compact is a command also in profile spec, whose other prompts are text", async (t) => {
    const folder = await tempDir(t);
    const { agent, provider } = createScriptedAgent(t, ["one"]);
    const peer = new InProcessAcp(t, agent, { profile: "spec" }).connect();
    await peer.initialize();
    const sessionId = await peer.newSession(folder.path);
    await peer.prompt(sessionId, "/compacting is what?");
    assert.equal(provider.requests.length, 1);
    assert.equal((await peer.prompt(sessionId, "/compact the river")).stopReason, "end_turn");
    assert.match(peer.getText(sessionId), /too little to compact/);
    assert.equal(provider.requests.length, 1);
  });

  it("are not sent in profile spec, and a prompt with a command stays text", async (t) => {
    const folder = await tempDir(t);
    await folder.write(COMMAND_FILES);
    const { agent, provider } = createScriptedAgent(t, ["one"]);
    const peer = new InProcessAcp(t, agent, { profile: "spec" }).connect();
    await peer.initialize();
    const sessionId = await peer.newSession(folder.path);
    await peer.prompt(sessionId, "/review a.ts");
    assert.deepEqual(provider.requests[0]?.messages[0]?.parts, [{ type: "text", text: "/review a.ts" }]);
    assert.equal(peer.receivedMessages.filter(isCommandList).length, 0);
  });
});
