import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Agent, defineTool, type Tool } from "gantry";
import { callTools, say, ScriptedProvider } from "gantry/testing";
import { createNoopMcpTools } from "../../../helpers/mcp-servers.js";
import { deferTools } from "../../../../src/run/tools/deferred-tools.js";
import { callTool, createToolContext } from "../../../helpers/tool-context.js";

const ownTool = defineTool({ name: "own", description: "Is own.", run: () => "own" });

async function listOffered(t: TestContext, tools: readonly Tool[]): Promise<string[]> {
  const provider = new ScriptedProvider([say("ok")]);
  const agent = new Agent({ providers: [provider], tools: [...tools] });
  t.after(() => agent.close());
  await (
    await agent.run({ message: "hi" })
  ).result;
  return provider.requests.find((request) => request.tools.length > 0)!.tools.map(({ name }) => name);
}

describe("MCP tools", () => {
  it("are sent with each request up to 40, and searched from 41 on", async (t) => {
    const few = createNoopMcpTools(Array.from({ length: 40 }, (_, i) => `s__tool_${i}`));
    assert.equal((await listOffered(t, [ownTool, ...few])).length, 41);
    const many = createNoopMcpTools(Array.from({ length: 41 }, (_, i) => `s__tool_${i}`));
    assert.deepEqual(await listOffered(t, [ownTool, ...many]), ["own", "tool_search"]);
    const otherSearch = defineTool({ name: "tool_search", description: "Is another.", run: () => "other" });
    assert.equal((await listOffered(t, [otherSearch, ...many])).length, 42);
  });
});

describe("tool_search", () => {
  const isDeferred = (tool: Tool) => tool.origin !== undefined;

  async function search(tools: readonly Tool[], args: object): Promise<string[]> {
    const { callable } = deferTools(tools, isDeferred, new Map())!;
    const { text } = await callTool(
      callable.find(({ name }) => name === "tool_search")!,
      args,
      createToolContext("/"),
    );
    return [...text.matchAll(/^- (\S+):/gm)].map(([, name = ""]) => name);
  }

  it("finds tools by words of their names and descriptions, the best first", async () => {
    const tools = createNoopMcpTools([
      ["github__create_issue", "Opens a new ticket in a repository."],
      ["github__listIssues", "Lists tickets of a repository."],
      ["slack__send_message", "Posts a text to a channel."],
      ["mail__send", "Sends a message to an address."],
      ["mail__delete", "Removes a message."],
    ]);
    assert.deepEqual(await search(tools, { query: "issues" }), ["github__create_issue", "github__listIssues"]);
    assert.deepEqual(await search(tools, { query: "create issue" }), ["github__create_issue", "github__listIssues"]);
    assert.deepEqual((await search(tools, { query: "send a slack message" }))[0], "slack__send_message");
    assert.deepEqual(await search(tools, { query: "+mail message" }), ["mail__delete", "mail__send"]);
    assert.deepEqual(await search(tools, { query: "ticket", max_results: 1 }), ["github__create_issue"]);
    assert.deepEqual(await search(tools, { query: "mail__delete slack__send_message" }), [
      "mail__delete",
      "slack__send_message",
    ]);
  });

  it("lists names by server, within a limit that all servers share", () => {
    const names = ["a", "b"].flatMap((server) =>
      Array.from({ length: 1_000 }, (_, i) => `${server}__a_long_name_${i}`),
    );
    const { section } = deferTools(createNoopMcpTools(names), isDeferred, new Map())!;
    assert.ok(section.length < 17_000, `${section.length} characters`);
    assert.match(section, /^- a__\{a_long_name_0, .*\}, and \d+ more, found by keywords\n- b__\{a_long_name_0, /m);
  });
});

describe("a tool of a class", () => {
  it("keeps its methods and private fields when it is deferred", async (t) => {
    class Counter {
      readonly name = "s__count";
      readonly description = "Counts.";
      readonly inputSchema = { type: "object" };
      readonly kind = "other";
      readonly parallel = false;
      readonly needsPermission = false;
      readonly origin = "mcp:s/count";
      #count = 0;
      parse(input: unknown): unknown {
        return input;
      }
      describe() {
        return { title: `Count ${this.#count}`, locations: [] };
      }
      run() {
        this.#count += 1;
        return Promise.resolve({ text: `count ${this.#count}` });
      }
    }
    const provider = new ScriptedProvider([callTools(["s__count", {}]), say("ok")]);
    const noopTools = createNoopMcpTools(Array.from({ length: 41 }, (_, i) => `s__tool_${i}`));
    const agent = new Agent({ providers: [provider], tools: [Object.freeze(new Counter()), ...noopTools] });
    t.after(() => agent.close());
    await (
      await agent.run({ message: "hi" })
    ).result;
    assert.match(JSON.stringify(provider.requests), /count 1/);
  });
});
