import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, builtinTools, type Tool } from "gantry";
import { callTools, say, ScriptedProvider } from "gantry/testing";
import { TOOL_NAMES } from "../../../../src/tools/names.js";
import { noop } from "../../../helpers/noop-tool.js";

const look: Tool = { ...noop, name: "look" };

describe("tools from a function", () => {
  it("are created once, before the first run, and kept", async (t) => {
    let makeCount = 0;
    const provider = new ScriptedProvider([callTools(["look", {}]), say("a"), say("b")]);
    const make = () => {
      makeCount += 1;
      return Promise.resolve([look]);
    };
    const agent = new Agent({ providers: [provider], tools: make });
    t.after(() => agent.close());
    await agent.sessions.create({});
    assert.deepEqual([makeCount, agent.tools], [0, []], "no start needs them");
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
    const agent = new Agent({ providers: [], tools: () => Promise.resolve([look]) });
    t.after(() => agent.close());
    await agent.prepare();
    assert.equal(agent.describeCall("look", "{}", "/").title, look.describe({}, "/").title);
    assert.equal(agent.tools.length, 1);
  });

  it("that cannot be created fail the run, and are created again for the next run", async (t) => {
    const answers: (() => readonly Tool[])[] = [
      () => {
        throw new Error("not now");
      },
      () => [look, look],
      () => [look],
    ];
    const agent = new Agent({
      providers: [new ScriptedProvider([say("done")])],
      tools: () => Promise.resolve(answers.shift()!()),
    });
    t.after(() => agent.close());
    await agent.prepare();
    await assert.rejects(agent.run({ message: "x" }), {
      code: "invalid_input",
      message: /tools: expected distinct names/,
    });
    assert.equal((await (await agent.run({ message: "x" })).result).output, "done");
    assert.equal((await agent.sessions.list()).total, 1, "nothing was stored before");
  });

  it("the built-in tools have exactly the names of TOOL_NAMES", () => {
    assert.deepEqual(
      builtinTools().map(({ name }) => name),
      [...TOOL_NAMES],
    );
  });
});
