import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Agent, defineTool, type Hooks, type ModelCall, type RunInput } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";

/** A run in which the model calls `secret` and then ends. Returns the tools that ran and their outputs. */
async function runWithHooks(t: TestContext, hooks: Hooks, input: Partial<RunInput> = {}) {
  const calledNumbers: unknown[] = [];
  const secretTool = defineTool({
    name: "secret",
    description: "Tells a secret.",
    schema: { type: "object", properties: { n: { type: "integer" } } },
    run: ({ n }) => {
      calledNumbers.push(n);
      if (n === 2) throw new Error("no second one");
      return "the key is k3y";
    },
  });
  const provider = new ScriptedProvider([callTools(["secret", { n: 1 }, "a"], ["secret", { n: 2 }, "b"]), "end"]);
  const agent = new Agent({ providers: [provider], tools: [secretTool], hooks });
  t.after(() => agent.close());
  const run = await agent.run({ message: "x", ...input });
  const outputs: string[] = [];
  for await (const event of run) if (event.type === "tool_result") outputs.push(event.output);
  return { calledNumbers, outputs, run, agent, provider };
}

describe("agent hooks", () => {
  it("beforeToolCall is called for each tool call with its call id, tool and title", async (t) => {
    const callTexts: string[] = [];
    const { outputs } = await runWithHooks(t, {
      beforeToolCall: async ({ tool, callId, title, runId, sessionId }) => {
        await new Promise((resolve) => setImmediate(resolve));
        assert.ok(runId !== "" && sessionId !== "");
        callTexts.push(`${callId} ${tool.name} ${title}`);
      },
    });
    assert.deepEqual(callTexts, ['a secret secret {"n":1}', 'b secret secret {"n":2}']);
    assert.deepEqual(outputs, ["the key is k3y", "secret: no second one"]);
  });

  it("a beforeToolCall that throws denies the call with its message, and afterToolCall is not called for it", async (t) => {
    const { calledNumbers, outputs } = await runWithHooks(t, {
      beforeToolCall: ({ input }) => {
        if ((input as { n: number }).n === 1) throw new Error("one is too few");
      },
      afterToolCall: ({ callId }) => assert.equal(callId, "b", "afterToolCall is called only for the call that ran"),
    });
    assert.deepEqual(calledNumbers, [2]);
    assert.deepEqual(outputs, ["This call was refused: one is too few", "secret: no second one"]);
  });

  it("afterToolCall can replace an output, also that of a failed call", async (t) => {
    const { outputs, run, agent } = await runWithHooks(t, {
      afterToolCall: (_call, output) =>
        output.failed ? { ...output, text: "it failed" } : { text: output.text.replace("k3y", "[hidden]") },
    });
    assert.deepEqual(outputs, ["the key is [hidden]", "it failed"]);
    const storedText = JSON.stringify(await agent.sessions.messages(run.sessionId));
    assert.ok(!storedText.includes("k3y") && storedText.includes("[hidden]"));
  });

  it("an afterToolCall that returns undefined keeps the output, and one that fails withholds it", async (t) => {
    assert.deepEqual((await runWithHooks(t, { afterToolCall: () => undefined })).outputs[0], "the key is k3y");
    const failingHooks: NonNullable<Hooks["afterToolCall"]>[] = [
      (_call, { text }) => {
        throw new Error(text);
      },
      () => Promise.reject(new Error("k3y")),
      () => ({ output: "k3y" }) as never,
    ];
    for (const afterToolCall of failingHooks) {
      const { outputs, run, agent } = await runWithHooks(t, { afterToolCall });
      assert.equal(outputs[0], "secret ran, but its output is withheld. Continue without it.");
      assert.ok(!JSON.stringify(await agent.sessions.messages(run.sessionId)).includes("k3y"));
    }
  });

  it("beforeModelCall is called for every model call, and a throw ends the run with that error", async (t) => {
    const calls: ModelCall[] = [];
    const { agent } = await runWithHooks(t, { beforeModelCall: (call) => void calls.push(call) });
    await agent.close();
    assert.deepEqual(calls.map(({ purpose }) => purpose).sort(), ["answer", "answer", "title"]);
    assert.deepEqual(
      calls[0]?.request.messages.map(({ role }) => role),
      ["user"],
    );
    assert.deepEqual([calls[0]?.provider, calls[0]?.model], ["scripted", "scripted-1"]);

    const hookError = new Error("the budget is spent");
    let callCount = 0;
    const { run, provider, calledNumbers } = await runWithHooks(t, {
      beforeModelCall: ({ purpose }) => {
        if (purpose === "answer" && ++callCount === 2) throw hookError;
      },
    });
    await assert.rejects(run.result, hookError);
    assert.deepEqual(calledNumbers, [1, 2]);
    assert.equal(provider.requests.filter(({ tools }) => tools.length > 0).length, 1);
  });

  for (const name of ["beforeToolCall", "afterToolCall", "beforeModelCall"] as const)
    it(`${name} does not block the cancel of a run if it never resolves, and the output stays hidden`, async (t) => {
      const cancelController = new AbortController();
      const hangForever = () => {
        cancelController.abort();
        return new Promise<never>(() => undefined);
      };
      const { run, outputs } = await runWithHooks(t, { [name]: hangForever }, { signal: cancelController.signal });
      await assert.rejects(run.result, { code: "run_cancelled" });
      for (const text of outputs) assert.ok(!text.includes("k3y"));
    });

  it("hooks with an unknown name or an invalid type are rejected", () => {
    const assertRejected = (hooks: unknown, message: RegExp) =>
      assert.throws(() => new Agent({ providers: [new ScriptedProvider([])], hooks: hooks as Hooks }), {
        code: "invalid_input",
        message,
      });
    assertRejected({ beforeToolcall: () => undefined }, /^hooks: expected one of "beforeToolCall"/);
    assertRejected({ beforeToolCall: "x" }, /^hooks\.beforeToolCall: expected a function/);
    assertRejected([], /^hooks: expected an object/);
  });
});
