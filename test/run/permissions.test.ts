import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import {
  Agent,
  defineTool,
  type AskRequest,
  type PermissionPolicy,
  type PermissionRequest,
  type RunInput,
} from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";

/** What a call of each tool brought under a policy, and which of them ran. */
async function outcome(
  t: TestContext,
  judge: PermissionPolicy["judge"] | undefined,
  input: Partial<RunInput> = {},
): Promise<{ ran: string[]; told: string[] }> {
  const ran: string[] = [];
  const tool = (name: string, kind: "read" | "execute") =>
    defineTool({
      name,
      description: name,
      kind,
      schema: { type: "object", properties: { n: { type: "integer" } } },
      run: () => (ran.push(name), "done"),
    });
  const provider = new ScriptedProvider([callTools(["look", { n: "1" }, "a"], ["act", { n: "2" }, "b"]), "end"]);
  const tools = [tool("look", "read"), tool("act", "execute")];
  const agent = new Agent({
    providers: [provider],
    tools,
    ...(judge && { permissions: { name: "mine", judge } }),
  });
  t.after(() => agent.close());
  const told: string[] = [];
  for await (const event of await agent.run({ message: "x", ...input }))
    if (event.type === "tool_result") told.push(event.output);
  return { ran, told };
}

describe("a permission policy", () => {
  it("left out, tools that need permission ask where somebody can be asked, and run where nobody can", async (t) => {
    assert.deepEqual((await outcome(t, undefined)).ran, ["look", "act"]);
    const asked: string[] = [];
    const ask = (request: AskRequest) => (asked.push(request.tool), Promise.resolve("reject" as const));
    assert.deepEqual((await outcome(t, undefined, { ask })).ran, ["look"]);
    assert.deepEqual(asked, ["act"]);
  });

  it("judges every call, by what it would do, and its reason is told to the model", async (t) => {
    const judged: PermissionRequest[] = [];
    const { ran, told } = await outcome(t, async (request) => {
      judged.push(request);
      await Promise.resolve();
      return request.tool.name === "look" ? { action: "deny", reason: "not on Sundays." } : { action: "allow" };
    });
    assert.deepEqual(ran, ["act"]);
    assert.deepEqual(told, ["This call is not allowed: not on Sundays.", "done"]);
    const [{ tool, input, callId, title, canAsk }] = judged as [PermissionRequest];
    assert.deepEqual([tool.name, input, callId, title, canAsk], ["look", { n: "1" }, "a", 'look {"n":1}', false]);
  });

  it("may have a person asked, with the reason, who may allow it for good", async (t) => {
    const asked: string[] = [];
    const ask = (request: AskRequest) => {
      asked.push(`${request.tool}: ${request.reason}`);
      return Promise.resolve(request.tool === "look" ? ("allow" as const) : ("reject" as const));
    };
    const { ran, told } = await outcome(t, () => ({ action: "ask", reason: "it costs" }), { ask });
    assert.deepEqual(ran, ["look"]);
    assert.deepEqual(asked, ["look: it costs", "act: it costs"]);
    assert.match(told[1]!, /^The user refused this call/);
  });

  it("keeps closed what nobody can be asked about, what it fails at, and what it does not answer", async (t) => {
    const nobody = await outcome(t, () => ({ action: "ask" }));
    assert.deepEqual(nobody.ran, []);
    assert.match(nobody.told[0]!, /nobody could be asked/);
    const answers: PermissionPolicy["judge"][] = [
      () => {
        throw new Error("secret");
      },
      () => Promise.reject(new Error("secret")),
      () => undefined as never,
      () => ({ action: "yes" }) as never,
    ];
    for (const judge of answers) {
      const { ran, told } = await outcome(t, judge);
      assert.deepEqual(ran, []);
      for (const text of told)
        assert.equal(text, "Whether this call may run could not be found out, so it did not run. Go on without it.");
    }
  });

  it("does not hold a run that is cancelled", async (t) => {
    const abort = new AbortController();
    let signalled = false;
    const work = outcome(
      t,
      (_request, signal) => {
        signal.addEventListener("abort", () => (signalled = true));
        abort.abort();
        return new Promise(() => undefined);
      },
      { signal: abort.signal },
    );
    assert.deepEqual((await work).ran, []);
    assert.ok(signalled);
  });

  it("is refused where it cannot judge", () => {
    const permissions = { name: "mine" } as PermissionPolicy;
    assert.throws(() => new Agent({ providers: [new ScriptedProvider([])], permissions }), {
      code: "invalid_input",
      message: /^permissions: expected a permission policy, with judge/,
    });
  });
});
