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
import { tempDir } from "../../../helpers/temp-dir.js";

/** The results of a call of each tool under a policy, and the tools that ran. */
async function runTools(
  t: TestContext,
  permissionPolicy: PermissionPolicy["judge"] | undefined | readonly PermissionPolicy[],
  input: Partial<RunInput> = {},
): Promise<{ toolsRun: string[]; outputs: string[] }> {
  const toolsRun: string[] = [];
  const createTool = (name: string, kind: "read" | "execute") =>
    defineTool({
      name,
      description: name,
      kind,
      schema: { type: "object", properties: { n: { type: "integer" } } },
      run: () => (toolsRun.push(name), "done"),
    });
  const provider = new ScriptedProvider([callTools(["look", { n: "1" }, "a"], ["act", { n: "2" }, "b"]), "end"]);
  const tools = [createTool("look", "read"), createTool("act", "execute")];
  const agent = new Agent({
    providers: [provider],
    tools,
    ...(permissionPolicy && {
      permissions:
        typeof permissionPolicy === "function" ? { name: "mine", judge: permissionPolicy } : permissionPolicy,
    }),
  });
  t.after(() => agent.close());
  const outputs: string[] = [];
  for await (const event of await agent.run({ message: "x", ...input }))
    if (event.type === "tool_result") outputs.push(event.output);
  return { toolsRun, outputs };
}

describe("a permission policy", () => {
  it("is optional: without one, a tool that needs permission asks the client, or runs if there is no client", async (t) => {
    assert.deepEqual((await runTools(t, undefined)).toolsRun, ["look", "act"]);
    const requestedTools: string[] = [];
    const ask = (request: AskRequest) => (requestedTools.push(request.tool), Promise.resolve("reject" as const));
    assert.deepEqual((await runTools(t, undefined, { ask })).toolsRun, ["look"]);
    assert.deepEqual(requestedTools, ["act"]);
  });

  it("receives tool, input, call id and title of every call, and its reason becomes the tool result", async (t) => {
    const permissionRequests: PermissionRequest[] = [];
    const { toolsRun, outputs } = await runTools(t, async (request) => {
      permissionRequests.push(request);
      await Promise.resolve();
      return request.tool.name === "look" ? { action: "deny", reason: "not on Sundays." } : { action: "allow" };
    });
    assert.deepEqual(toolsRun, ["act"]);
    assert.deepEqual(outputs, ["This call is not allowed: not on Sundays.", "done"]);
    const [{ tool, input, callId, title, canAsk }] = permissionRequests as [PermissionRequest];
    assert.deepEqual([tool.name, input, callId, title, canAsk], ["look", { n: "1" }, "a", 'look {"n":1}', false]);
  });

  it("can ask the client with a reason, and the call runs only if the client allows it", async (t) => {
    const requestedTools: string[] = [];
    const ask = (request: AskRequest) => {
      requestedTools.push(`${request.tool}: ${request.reason}`);
      return Promise.resolve(request.tool === "look" ? ("allow" as const) : ("reject" as const));
    };
    const { toolsRun, outputs } = await runTools(t, () => ({ action: "ask", reason: "it costs" }), { ask });
    assert.deepEqual(toolsRun, ["look"]);
    assert.deepEqual(requestedTools, ["look: it costs", "act: it costs"]);
    assert.match(outputs[1]!, /^The user rejected this call/);
  });

  it("denies a call if no client can answer, if it throws, or if it returns no valid decision", async (t) => {
    const unansweredOutcome = await runTools(t, () => ({ action: "ask" }));
    assert.deepEqual(unansweredOutcome.toolsRun, []);
    assert.match(unansweredOutcome.outputs[0]!, /no client could answer/);
    const invalidJudges: PermissionPolicy["judge"][] = [
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
    for (const invalidJudge of invalidJudges) {
      const { toolsRun, outputs } = await runTools(t, invalidJudge);
      assert.deepEqual(toolsRun, []);
      for (const text of outputs)
        assert.equal(
          text,
          "The permission of this call could not be determined, so it did not run. Continue without it.",
        );
    }
  });

  it("decides if it is the first that does not pass, and the permission rules decide if all pass", async (t) => {
    const requestedTools: string[] = [];
    const createPolicy = (name: string, lookAction: "pass" | "allow" | "deny"): PermissionPolicy => ({
      name,
      judge: ({ tool }) => (
        requestedTools.push(`${name}: ${tool.name}`),
        { action: tool.name === "look" ? lookAction : "pass", reason: `${name} says so` }
      ),
    });
    const firstOutcome = await runTools(t, [
      createPolicy("a", "pass"),
      createPolicy("b", "deny"),
      createPolicy("c", "allow"),
    ]);
    assert.deepEqual(firstOutcome.toolsRun, ["act"]);
    assert.deepEqual(requestedTools, ["a: look", "b: look", "a: act", "b: act", "c: act"]);
    assert.equal(firstOutcome.outputs[0], "This call is not allowed: b says so");
    const allPolicies: PermissionPolicy[] = [createPolicy("a", "allow")];
    const agent = new Agent({
      providers: [new ScriptedProvider([callTools(["look", {}, "a"], ["act", {}, "b"]), "end"])],
      tools: ["look", "act"].map((name) => defineTool({ name, description: name, kind: "read", run: () => "done" })),
      permissions: allPolicies,
      rules: [{ tool: "*", action: "deny" }],
    });
    t.after(() => agent.close());
    const outputs: string[] = [];
    for await (const event of await agent.run({ message: "x" }))
      if (event.type === "tool_result") outputs.push(event.output);
    assert.deepEqual(outputs, ["done", "This call is not allowed: a rule denies it. Continue without it."]);
  });

  it("denies a call if it fails, even if a later policy allows the call, but not if an earlier one has allowed it", async (t) => {
    const failingPolicy: PermissionPolicy = { name: "fails", judge: () => Promise.reject(new Error("down")) };
    const allowingPolicy: PermissionPolicy = { name: "allows", judge: () => ({ action: "allow" }) };
    assert.deepEqual((await runTools(t, [failingPolicy, allowingPolicy])).toolsRun, []);
    assert.deepEqual((await runTools(t, [allowingPolicy, failingPolicy])).toolsRun, ["look", "act"]);
  });

  it("does not block the cancel of a run, and its signal is aborted", async (t) => {
    const cancelController = new AbortController();
    let wasAborted = false;
    const pendingOutcome = runTools(
      t,
      (_request, signal) => {
        signal.addEventListener("abort", () => (wasAborted = true));
        cancelController.abort();
        return new Promise(() => undefined);
      },
      { signal: cancelController.signal },
    );
    assert.deepEqual((await pendingOutcome).toolsRun, []);
    assert.ok(wasAborted);
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
  /** Runs a tool that calls `sendRequest` twice, with the user's `answer`. Returns its outputs and the requests. */
  async function runAskingTool(
    t: TestContext,
    sendRequest: (context: ToolContext) => Promise<unknown>,
    answer: (request: AskRequest) => unknown,
    kind: "read" | "edit" | "execute" = "read",
  ) {
    const tool = defineTool({
      name: "asks",
      description: "x",
      kind,
      schema: { type: "object", properties: { n: { type: "integer" } } },
      describe: () => ({ title: "Asks", locations: [{ path: "/p/a" }] }),
      run: async (_, context) => String(await sendRequest(context).catch((error: Error) => `threw ${error.message}`)),
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
    const changingRequest = {
      ...request,
      input,
      get title() {
        return `look ${(titleReads += 1)}`;
      },
    };
    const { requests, storedAsks } = await runAskingTool(
      t,
      async ({ ask }) => {
        const answer = ask(changingRequest);
        input.a = 2;
        return answer;
      },
      () => "reject",
    );
    assert.deepEqual([requests[0]?.title, storedAsks[0]?.title], ["look 1", "look 1"]);
    assert.deepEqual([requests[0]?.input, storedAsks[0]?.input], [{ a: 1 }, { a: 1 }]);
  });

  it("gets a lasting grant only for the same title and input, and not for its own calls", async (t) => {
    const answerAlways = (askRequest: AskRequest) => (askRequest.title === "Delete it?" ? "allow_always" : "allow");
    const { requests, outputs, grants } = await runAskingTool(t, ({ ask }) => ask(request), answerAlways, "edit");
    // The second call needs permission again. The request of the tool itself does not.
    assert.deepEqual(
      requests.map(({ title }) => title),
      ["Asks", "Delete it?", "Asks"],
    );
    assert.deepEqual(outputs, ["allow_always", "allow"]);
    assert.equal(grants.length, 1);
    let index = 0;
    const variants = [request, { ...request, title: "Delete all?" }, { ...request, input: { a: 2 } }];
    const variantOutcome = await runAskingTool(t, ({ ask }) => ask(variants[(index += 1) % 3]!), answerAlways, "read");
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
    let sessionId = "";
    const act = defineTool({ name: "act", description: "x", kind: "execute", run: () => "done" });
    const createCall = (id: string) => callTools(["act", {}, id]);
    const agent = new Agent({
      providers: [
        new ScriptedProvider([
          createCall("a"),
          createCall("b"),
          async () => {
            const { permissionGrants: grants } = (await agent.sessions.get(sessionId))!;
            const otherGrant = { ...grants[0]!, scope: "other" };
            await assert.rejects(agent.sessions.update(sessionId, { permissionGrants: [...grants, otherGrant] }), {
              field: "permissionGrants",
            });
            await assert.rejects(agent.sessions.update(sessionId, { permissionGrants: 5 as never }), {
              field: "permissionGrants",
            });
            await assert.rejects(agent.sessions.update(sessionId, { mode: "free" as never }), { field: "mode" });
            await agent.sessions.update(sessionId, { permissionGrants: [] });
            return createCall("c");
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
    sessionId = run.sessionId;
    await run.result;
    assert.deepEqual(requestedTools, ["a", "c"]);
    assert.equal((await agent.sessions.get(sessionId))?.permissionGrants.length, 1);
  });

  it("for a file applies to all its path variants, but not to the target of a symlink in its place", async (t) => {
    const folder = await tempDir(t, { "a.txt": "a", "b.txt": "b" });
    const requestedTools: string[] = [];
    const createWrite = (id: string, path: string) => callTools(["write", { path, content: id }, id]);
    const agent = new Agent({
      providers: [
        new ScriptedProvider([
          createWrite("1", "a.txt"),
          createWrite("2", "./a.txt"),
          async () => {
            await rm(folder.at("a.txt"));
            await symlink("b.txt", folder.at("a.txt"));
            return createWrite("3", "a.txt");
          },
          createWrite("4", "a.txt"),
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
