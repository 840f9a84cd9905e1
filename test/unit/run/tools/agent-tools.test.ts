import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, builtinTools, type Tool } from "gantry";
import { callTools, say, ScriptedProvider } from "gantry/testing";
import { TOOL_NAMES } from "../../../../src/tools/names.js";
import { noop } from "../../../helpers/noop-tool.js";

const look: Tool = { ...noop, name: "look" };

describe("tools that a function makes", () => {
  it("are made before the first run, once, and are there from then on", async (t) => {
    let made = 0;
    const provider = new ScriptedProvider([callTools(["look", {}]), say("a"), say("b")]);
    const make = () => {
      made += 1;
      return Promise.resolve([look]);
    };
    const agent = new Agent({ providers: [provider], tools: make });
    t.after(() => agent.close());
    await agent.sessions.create({});
    assert.deepEqual([made, agent.tools], [0, []], "no start needs them");
    const { result, sessionId } = await agent.run({ message: "x" });
    assert.equal((await result).output, "a");
    await (
      await agent.run({ message: "y", sessionId })
    ).result;
    assert.deepEqual([made, agent.tools.map(({ name }) => name)], [1, ["look"]]);
    assert.deepEqual(
      provider.requests[0]?.tools.map(({ name }) => name),
      ["look"],
    );
  });

  it("are there when the agent is prepared", async (t) => {
    const agent = new Agent({ providers: [], tools: () => Promise.resolve([look]) });
    t.after(() => agent.close());
    await agent.prepare();
    assert.equal(agent.describeCall("look", "{}", "/").title, look.describe({}, "/").title);
    assert.equal(agent.tools.length, 1);
  });

  it("that cannot be made fail the run, and are made anew for the next", async (t) => {
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

  it("that are built in have the names that are known without them", () => {
    assert.deepEqual(
      builtinTools().map(({ name }) => name),
      [...TOOL_NAMES],
    );
  });
});
