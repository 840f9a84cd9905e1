import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, builtinTools, type Tool } from "gantry";
import { callTools, say, ScriptedProvider } from "gantry/testing";
import { TOOL_NAMES } from "../../../../src/tools/names.js";
import { noopTool } from "../../../helpers/noop-tool.js";

const lookTool: Tool = { ...noopTool, name: "look" };

describe("tools from a function", () => {
  it("are created once, before the first run, and kept", async (t) => {
    let makeCount = 0;
    const provider = new ScriptedProvider([callTools(["look", {}]), say("a"), say("b")]);
    const createTools = () => {
      makeCount += 1;
      return Promise.resolve([lookTool]);
    };
    const agent = new Agent({ providers: [provider], tools: createTools });
    t.after(() => agent.close());
    await agent.sessions.create({});
    assert.deepEqual([makeCount, agent.tools], [0, []], "a session is created without the tools");
    const { result, sessionId } = await agent.run({ message: "x" });
    assert.equal((await result).output, "a");
    await (
      await agent.run({ message: "y", sessionId })
    ).result;
    assert.deepEqual([makeCount, agent.tools.map(({ name }) => name)], [1, ["look"]]);
    assert.deepEqual(
      provider.requests[0]?.tools.map(({ name }) => name),
      ["look"],
    );
  });

  it("are available after agent.prepare()", async (t) => {
    const agent = new Agent({ providers: [], tools: () => Promise.resolve([lookTool]) });
    t.after(() => agent.close());
    await agent.prepare();
    assert.equal(agent.describeCall("look", "{}", "/").title, lookTool.describe({}, "/").title);
    assert.equal(agent.tools.length, 1);
  });

  it("that cannot be created fail the run, and are created again for the next run", async (t) => {
    const toolLists: (() => readonly Tool[])[] = [
      () => {
        throw new Error("not now");
      },
      () => [lookTool, lookTool],
      () => [lookTool],
    ];
    const agent = new Agent({
      providers: [new ScriptedProvider([say("done")])],
      tools: () => Promise.resolve(toolLists.shift()!()),
    });
    t.after(() => agent.close());
    await agent.prepare();
    await assert.rejects(agent.run({ message: "x" }), {
      code: "invalid_input",
      message: /tools: expected distinct names/,
    });
    assert.equal((await (await agent.run({ message: "x" })).result).output, "done");
    assert.equal((await agent.sessions.list()).total, 1, "the failed run stored no session");
  });

  it("the built-in tools have exactly the names of TOOL_NAMES", () => {
    assert.deepEqual(
      builtinTools({ webSearch: { provider: "brave", apiKey: "k" } }).map(({ name }) => name),
      [...TOOL_NAMES],
    );
    const namesByDefault = TOOL_NAMES.filter((name) => name !== "websearch");
    assert.deepEqual(
      builtinTools().map(({ name }) => name),
      namesByDefault,
      "no search service is configured",
    );
  });
});
