import assert from "node:assert/strict";
import { readFile, rm, symlink } from "node:fs/promises";
import { describe, it, type TestContext } from "node:test";
import {
  Agent,
  builtinTools,
  defineTool,
  type AskRequest,
  type PermissionPolicy,
  type PermissionRequest,
  type RunInput,
  type ToolContext,
} from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import { tempDir } from "../../../helpers/temp.js";

/** The results of a call of each tool under a policy, and the tools that ran. */
async function outcome(
  t: TestContext,
  judge: PermissionPolicy["judge"] | undefined | readonly PermissionPolicy[],
  input: Partial<RunInput> = {},
): Promise<{ ran: string[]; outputs: string[] }> {
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
    ...(judge && { permissions: typeof judge === "function" ? { name: "mine", judge } : judge }),
  });
  t.after(() => agent.close());
  const outputs: string[] = [];
  for await (const event of await agent.run({ message: "x", ...input }))
    if (event.type === "tool_result") outputs.push(event.output);
  return { ran, outputs };
}

describe("a permission policy", () => {
  it("is optional: without one, a tool that needs permission asks the client, or runs if there is no client", async (t) => {
    assert.deepEqual((await outcome(t, undefined)).ran, ["look", "act"]);
    const requestedTools: string[] = [];
    const ask = (request: AskRequest) => (requestedTools.push(request.tool), Promise.resolve("reject" as const));
    assert.deepEqual((await outcome(t, undefined, { ask })).ran, ["look"]);
    assert.deepEqual(requestedTools, ["act"]);
  });

  it("receives tool, input, call id and title of every call, and its reason becomes the tool result", async (t) => {
    const judged: PermissionRequest[] = [];
    const { ran, outputs } = await outcome(t, async (request) => {
      judged.push(request);
      await Promise.resolve();
      return request.tool.name === "look" ? { action: "deny", reason: "not on Sundays." } : { action: "allow" };
    });
    assert.deepEqual(ran, ["act"]);
    assert.deepEqual(outputs, ["This call is not allowed: not on Sundays.", "done"]);
    const [{ tool, input, callId, title, canAsk }] = judged as [PermissionRequest];
    assert.deepEqual([tool.name, input, callId, title, canAsk], ["look", { n: "1" }, "a", 'look {"n":1}', false]);
  });

  it("can ask the client with a reason, and the call runs only if the client allows it", async (t) => {
    const requestedTools: string[] = [];
    const ask = (request: AskRequest) => {
      requestedTools.push(`${request.tool}: ${request.reason}`);
      return Promise.resolve(request.tool === "look" ? ("allow" as const) : ("reject" as const));
    };
    const { ran, outputs } = await outcome(t, () => ({ action: "ask", reason: "it costs" }), { ask });
    assert.deepEqual(ran, ["look"]);
    assert.deepEqual(requestedTools, ["look: it costs", "act: it costs"]);
    assert.match(outputs[1]!, /^The user rejected this call/);
  });

  it("denies a call if no client can answer, if it throws, or if it returns no valid decision", async (t) => {
    const nobody = await outcome(t, () => ({ action: "ask" }));
    assert.deepEqual(nobody.ran, []);
    assert.match(nobody.outputs[0]!, /no client could answer/);
    const answers: PermissionPolicy["judge"][] = [
      () => {
        throw new Error("secret");
      },
      () => Promise.reject(new Error("secret")),
      () => undefined as never,
      () => ({ action: "yes" }) as never,
      () => ({ action: ["allow"] }) as never,
      () => "allow" as never,
      () => true as never,
      () => ({
        get action(): never {
          throw new Error("secret");
        },
      }),
      // Returns a different value at each access.
      () => {
        const actions = ["yes", "allow", "allow"];
        return {
          get action() {
            return actions.shift() as never;
          },
        };
      },
    ];
    for (const judge of answers) {
      const { ran, outputs } = await outcome(t, judge);
      assert.deepEqual(ran, []);
      for (const text of outputs)
        assert.equal(
          text,
          "The permission of this call could not be determined, so it did not run. Continue without it.",
        );
    }
  });

  it("decides if it is the first that does not pass, and the permission rules decide if all pass", async (t) => {
    const requestedTools: string[] = [];
    const policy = (name: string, look: "pass" | "allow" | "deny"): PermissionPolicy => ({
      name,
      judge: ({ tool }) => (
        requestedTools.push(`${name}: ${tool.name}`),
        { action: tool.name === "look" ? look : "pass", reason: `${name} says so` }
      ),
    });
    const first = await outcome(t, [policy("a", "pass"), policy("b", "deny"), policy("c", "allow")]);
    assert.deepEqual(first.ran, ["act"]);
    assert.deepEqual(requestedTools, ["a: look", "b: look", "a: act", "b: act", "c: act"]);
    assert.equal(first.outputs[0], "This call is not allowed: b says so");
    const all: PermissionPolicy[] = [policy("a", "allow")];
    const agent = new Agent({
      providers: [new ScriptedProvider([callTools(["look", {}, "a"], ["act", {}, "b"]), "end"])],
      tools: ["look", "act"].map((name) => defineTool({ name, description: name, kind: "read", run: () => "done" })),
      permissions: all,
      rules: [{ tool: "*", action: "deny" }],
    });
    t.after(() => agent.close());
    const outputs: string[] = [];
    for await (const event of await agent.run({ message: "x" }))
      if (event.type === "tool_result") outputs.push(event.output);
    assert.deepEqual(outputs, ["done", "This call is not allowed: a rule denies it. Continue without it."]);
  });

  it("denies a call if it fails, even if a later policy allows the call, but not if an earlier one has allowed it", async (t) => {
    const fails: PermissionPolicy = { name: "fails", judge: () => Promise.reject(new Error("down")) };
    const allows: PermissionPolicy = { name: "allows", judge: () => ({ action: "allow" }) };
    assert.deepEqual((await outcome(t, [fails, allows])).ran, []);
    assert.deepEqual((await outcome(t, [allows, fails])).ran, ["look", "act"]);
  });

  it("does not block the cancel of a run, and its signal is aborted", async (t) => {
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

  it("is rejected without a judge function", () => {
    const permissions = { name: "mine" } as PermissionPolicy;
    assert.throws(() => new Agent({ providers: [new ScriptedProvider([])], permissions }), {
      code: "invalid_input",
      message: /^permissions: expected a permission policy, with judge/,
    });
    assert.throws(() => new Agent({ providers: [new ScriptedProvider([])], permissions: [permissions] }), {
      code: "invalid_input",
      field: "permissions[0]",
    });
  });
});

describe("a tool that requests permission", () => {
  /** A tool that asks as `asks` does. Returns its outputs. `answer` is the user's answer. */
  async function runAskingTool(
    t: TestContext,
    asks: (context: ToolContext) => Promise<unknown>,
    answer: (request: AskRequest) => unknown,
    kind: "read" | "edit" | "execute" = "read",
  ) {
    const tool = defineTool({
      name: "asks",
      description: "x",
      kind,
      schema: { type: "object", properties: { n: { type: "integer" } } },
      describe: () => ({ title: "Asks", locations: [{ path: "/p/a" }] }),
      run: async (_, context) => String(await asks(context).catch((error: Error) => `threw ${error.message}`)),
    });
    const script = [callTools(["asks", { n: 1 }, "a"]), callTools(["asks", { n: 1 }, "b"]), "end"];
    const agent = new Agent({ providers: [new ScriptedProvider(script)], tools: [tool] });
    t.after(() => agent.close());
    const requests: AskRequest[] = [];
    const ask: RunInput["ask"] = (request) => (requests.push(request), Promise.resolve(answer(request) as never));
    const run = await agent.run({ message: "x", ask });
    const outputs: string[] = [];
    for await (const event of run) if (event.type === "tool_result") outputs.push(event.output);
    const storedAsks = (await agent.asks.list({ sessionId: run.sessionId })).reverse();
    const grants = (await agent.sessions.get(run.sessionId))?.permissionGrants ?? [];
    return { outputs, requests, storedAsks, grants, agent, run };
  }

  const request = { title: "Delete it?", input: { a: 1 }, locations: [] };

  it("cannot disguise its permission request as a question", async (t) => {
    const disguisedRequest = {
      ...request,
      question: { choices: [{ id: "allow", label: "Nice weather?" }], freeText: false },
    };
    const { requests, storedAsks } = await runAskingTool(
      t,
      ({ ask }) => ask(disguisedRequest),
      ({ question }) => (question ? "allow" : "reject"),
    );
    assert.equal(requests[0]?.question, undefined);
    assert.equal(storedAsks[0]?.kind, "permission");
    assert.deepEqual(
      storedAsks[0]?.choices.map(({ id }) => id),
      ["allow", "allow_always", "reject"],
    );
  });

  it("sends every client the same request, which later changes of its fields do not affect", async (t) => {
    let titleReads = 0;
    const input = { a: 1 };
    const changing = {
      ...request,
      input,
      get title() {
        return `look ${(titleReads += 1)}`;
      },
    };
    const { requests, storedAsks } = await runAskingTool(
      t,
      async ({ ask }) => {
        const answer = ask(changing);
        input.a = 2;
        return answer;
      },
      () => "reject",
    );
    assert.deepEqual([requests[0]?.title, storedAsks[0]?.title], ["look 1", "look 1"]);
    assert.deepEqual([requests[0]?.input, storedAsks[0]?.input], [{ a: 1 }, { a: 1 }]);
  });

  it("gets a lasting grant only for the same title and input, and not for its own calls", async (t) => {
    const always = (askRequest: AskRequest) => (askRequest.title === "Delete it?" ? "allow_always" : "allow");
    const { requests, outputs, grants } = await runAskingTool(t, ({ ask }) => ask(request), always, "edit");
    // The second call needs permission again. The request of the tool itself does not.
    assert.deepEqual(
      requests.map(({ title }) => title),
      ["Asks", "Delete it?", "Asks"],
    );
    assert.deepEqual(outputs, ["allow_always", "allow"]);
    assert.equal(grants.length, 1);
    let index = 0;
    const variants = [request, { ...request, title: "Delete all?" }, { ...request, input: { a: 2 } }];
    const variantOutcome = await runAskingTool(t, ({ ask }) => ask(variants[(index += 1) % 3]!), always, "read");
    assert.equal(variantOutcome.requests.length, 2);
  });

  it("sends a request each time, and an answer to a question grants no permission", async (t) => {
    const answers = ["reject", "allow", { choice: "1", text: "" }, "reject"];
    const { outputs, storedAsks } = await runAskingTool(
      t,
      async ({ ask, askUser: question }) => {
        const reply = await question({ title: "Allow?", choices: ["allow"] }).catch(() => "x");
        return [await ask(request), await ask(request), reply].join();
      },
      ({ question }) => (question ? { choice: "1", text: "" } : answers.shift()),
    );
    assert.deepEqual(outputs[0], "reject,allow,allow");
    assert.deepEqual(
      storedAsks.slice(0, 3).map(({ kind }) => kind),
      ["question", "permission", "permission"],
    );
  });

  it("gets an error for an invalid request, which is not stored, and the run finishes", async (t) => {
    for (const invalidRequest of [
      { ...request, locations: undefined },
      { ...request, input: 5n },
      { ...request, diff: 5 },
      undefined,
    ]) {
      const { outputs, storedAsks, agent, run } = await runAskingTool(
        t,
        ({ ask }) => ask(invalidRequest as never),
        () => "allow",
      );
      assert.match(outputs[0]!, /^threw /);
      assert.deepEqual(storedAsks, []);
      assert.equal((await agent.runs.get(run.id))?.state, "finished");
    }
  });
});

describe("an allow_always grant", () => {
  it("can be removed during a run with effect on the next call, but not added by sessions.update", async (t) => {
    const requestedTools: string[] = [];
    let session = "";
    const act = defineTool({ name: "act", description: "x", kind: "execute", run: () => "done" });
    const call = (id: string) => callTools(["act", {}, id]);
    const agent = new Agent({
      providers: [
        new ScriptedProvider([
          call("a"),
          call("b"),
          async () => {
            const { permissionGrants: grants } = (await agent.sessions.get(session))!;
            const otherGrant = { ...grants[0]!, scope: "other" };
            await assert.rejects(agent.sessions.update(session, { permissionGrants: [...grants, otherGrant] }), {
              field: "permissionGrants",
            });
            await assert.rejects(agent.sessions.update(session, { permissionGrants: 5 as never }), {
              field: "permissionGrants",
            });
            await assert.rejects(agent.sessions.update(session, { mode: "free" as never }), { field: "mode" });
            await agent.sessions.update(session, { permissionGrants: [] });
            return call("c");
          },
          "end",
        ]),
      ],
      tools: [act],
    });
    t.after(() => agent.close());
    const run = await agent.run({
      message: "x",
      ask: ({ callId }) => (requestedTools.push(callId), Promise.resolve("allow_always")),
    });
    session = run.sessionId;
    await run.result;
    assert.deepEqual(requestedTools, ["a", "c"]);
    assert.equal((await agent.sessions.get(session))?.permissionGrants.length, 1);
  });

  it("for a file applies to all its path variants, but not to the target of a symlink in its place", async (t) => {
    const folder = await tempDir(t, { "a.txt": "a", "b.txt": "b" });
    const requestedTools: string[] = [];
    const write = (id: string, path: string) => callTools(["write", { path, content: id }, id]);
    const agent = new Agent({
      providers: [
        new ScriptedProvider([
          write("1", "a.txt"),
          write("2", "./a.txt"),
          async () => {
            await rm(folder.at("a.txt"));
            await symlink("b.txt", folder.at("a.txt"));
            return write("3", "a.txt");
          },
          write("4", "a.txt"),
          "end",
        ]),
      ],
      tools: builtinTools(),
      projectDir: folder.path,
    });
    t.after(() => agent.close());
    const answers = ["allow_always", "reject", "allow_always"];
    const run = await agent.run({
      message: "x",
      ask: ({ callId }) => (
        requestedTools.push(callId),
        Promise.resolve(answers[requestedTools.length - 1]! as "reject")
      ),
    });
    await run.result;
    assert.deepEqual(requestedTools, ["1", "3", "4"]);
    assert.equal(await readFile(folder.at("b.txt"), "utf8"), "4");
  });
});
