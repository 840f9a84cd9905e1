import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  Agent,
  defineTool,
  type AgentOptions,
  type Ask,
  type AskRequest,
  type RunInput,
  type SessionMode,
} from "gantry";
import type { SessionDriver } from "gantry/plugin";
import { callTools, ScriptedProvider } from "gantry/testing";
import { until } from "../../../helpers/lab.js";
import { STORES } from "../../../helpers/stores.js";
import { tempDir, type Hooks } from "../../../helpers/temp.js";

/** Two agents on one store, with a tool that needs permission and a tool that asks a question. */
async function two(t: Hooks, driver: () => SessionDriver, options: Partial<AgentOptions> = {}) {
  const folder = await tempDir(t);
  const ran: unknown[] = [];
  const act = defineTool({
    name: "act",
    description: "Acts.",
    kind: "execute",
    schema: { type: "object", properties: { n: { type: "integer" } } },
    run: ({ n }) => (ran.push(n), "done"),
  });
  const inquire = defineTool({
    name: "inquire",
    description: "Asks.",
    needsPermission: false,
    run: async (_, { askUser: question }) => {
      const reply = await question({ title: "Which?", choices: ["red", "blue"], freeText: true });
      return reply === undefined ? "nobody" : `they said ${reply}`;
    },
  });
  const script = Array.from({ length: 20 }, (_, n) =>
    n % 2 ? "end" : callTools(["act", { n }, `act-${n}`], ["inquire", {}, `q-${n}`]),
  );
  const [localAgent, remoteAgent] = [driver(), driver()].map(
    (agentDriver) =>
      new Agent({
        driver: agentDriver,
        providers: [new ScriptedProvider(script)],
        tools: [act, inquire],
        projectDir: folder.path,
        clientGraceSeconds: 0,
        ...options,
      }),
  ) as [Agent, Agent];
  t.after(async () => {
    await localAgent.close();
    await remoteAgent.close();
  });
  return { local: localAgent, remote: remoteAgent, ran };
}

/** The tool results of a run. */
async function outputsOf(
  agent: Agent,
  input: Partial<RunInput>,
): Promise<{ id: string; sessionId: string; outputs: string[] }> {
  const run = await agent.run({ message: "x", ...input });
  const outputs: string[] = [];
  for await (const event of run) if (event.type === "tool_result") outputs.push(event.output);
  await run.result;
  return { id: run.id, sessionId: run.sessionId, outputs: outputs };
}

async function session(agent: Agent, mode: SessionMode): Promise<string> {
  const { id } = await agent.sessions.create();
  await agent.sessions.update(id, { mode });
  return id;
}

/** Answers the asks of a session like a watcher, until the signal aborts. */
async function answering(
  agent: Agent,
  sessionId: string,
  signal: AbortSignal,
  reply: (ask: Ask) => string,
): Promise<Ask[]> {
  const answeredAsks: Ask[] = [];
  for await (const event of agent.sessions.watch(sessionId, { canAnswer: true, signal }))
    if (event.type === "state")
      for (const ask of event.state.asks)
        if (!answeredAsks.some(({ id }) => id === ask.id)) {
          answeredAsks.push(ask);
          assert.equal(event.state.run?.state, "waiting");
          await agent.asks.answer(ask.id, { choice: reply(ask) }, "test");
        }
  return answeredAsks;
}

const ask =
  (answers: unknown[], requests: AskRequest[] = []) =>
  (request: AskRequest) => {
    requests.push(request);
    return Promise.resolve(answers.shift() as never);
  };

for (const [name, make] of STORES)
  describe(`an ask of a run (${name})`, { concurrency: 4 }, () => {
    for (const side of ["local", "remote"] as const)
      it(`is answered by a watcher in the ${side} process, and stores who answered`, async (t) => {
        const agents = await two(t, await make(t), { unattended: "wait" });
        const id = await session(agents.local, "auto");
        const stopWatching = new AbortController();
        const watching = answering(agents[side], id, stopWatching.signal, ({ kind }) =>
          kind === "permission" ? "allow" : "2",
        );
        // The run's own client is asked too, but does not answer.
        let abortedAsks = 0;
        const never: RunInput["ask"] = (_, signal) =>
          new Promise((_, reject) =>
            signal.addEventListener("abort", () => reject(new Error(`${(abortedAsks += 1)}`))),
          );
        const run = await outputsOf(agents.local, { sessionId: id, ask: never });
        stopWatching.abort();
        const answeredAsks = await watching;
        assert.deepEqual(run.outputs, ["done", "they said blue"]);
        assert.equal(abortedAsks, 2);
        assert.deepEqual(agents.ran, [0]);
        assert.deepEqual(
          answeredAsks.map(({ kind, tool, title, freeText }) => [kind, tool, title, freeText]),
          [
            ["permission", "act", 'act {"n":0}', false],
            ["question", "inquire", "Which?", true],
          ],
        );
        const [question, permission] = await agents.remote.asks.list({ sessionId: id });
        assert.deepEqual(
          [permission?.state, permission?.answeredBy, permission?.reply?.choice],
          ["answered", "test", "allow"],
        );
        assert.equal(question?.runId, run.id);
        assert.deepEqual(await agents.local.asks.list({ open: true }), []);
        await assert.rejects(agents.local.asks.answer(permission!.id, { choice: "reject" }), {
          code: "ask_closed",
          ask: permission,
        });
      });

    it("stores an allow_always answer as a grant of the session, which applies in another process", async (t) => {
      const agents = await two(t, await make(t));
      const requests: AskRequest[] = [];
      const first = await outputsOf(agents.local, {
        ask: ask(["allow_always", { choice: "", text: "green" }], requests),
        clientName: "desk",
      });
      assert.deepEqual(first.outputs, ["done", "they said green"]);
      assert.equal(requests[1]?.question?.freeText, true);
      const [grant, secondGrant] = (await agents.remote.sessions.get(first.sessionId))?.permissionGrants ?? [];
      assert.deepEqual(
        [grant?.tool, grant?.grantedBy, grant?.title, secondGrant],
        ["act", "desk", 'act {"n":0}', undefined],
      );
      const secondRequests: AskRequest[] = [];
      const again = ask(["reject", "reject"], secondRequests);
      const second = await outputsOf(agents.remote, { sessionId: first.sessionId, ask: again });
      // The script of the other agent starts with the same call, which needs no permission request any more.
      assert.deepEqual(
        secondRequests.map(({ tool }) => tool),
        ["inquire"],
      );
      assert.deepEqual(second.outputs, ["done", "nobody"]);
    });

    it('is rejected without a client, or follows `unattended`: "allow", or "wait" with a timeout', async (t) => {
      const driver = await make(t);
      const waited = { unattended: "wait", askTimeoutSeconds: 0.05 } as const;
      for (const [options, expected] of [
        [{}, /no client could answer/],
        [{ unattended: "allow" }, /^done$/],
        [waited, /no client answered within 0.05 s/],
      ] as const) {
        const { local: localAgent } = await two(t, driver, {
          permissions: { name: "strict", judge: () => ({ action: "ask" }) },
          ...options,
        });
        const { outputs, sessionId } = await outputsOf(localAgent, {});
        assert.match(outputs[0]!, expected);
        const asks = await localAgent.asks.list({ sessionId });
        const isWaited = options === waited;
        assert.deepEqual(
          asks.map(({ state }) => state),
          isWaited ? ["withdrawn", "withdrawn"] : [],
        );
        if (isWaited) assert.ok(asks[0]!.deadline > asks[0]!.createdAt);
      }
    });

    it("is rejected if its watcher has left or can no longer answer", async (t) => {
      const agents = await two(t, await make(t));
      const id = await session(agents.local, "ask");
      for (const hasLeft of [true, false]) {
        const stopWatching = new AbortController();
        const requestOpened = new AbortController();
        let answers = true;
        const watching = (async () => {
          const options = { canAnswer: () => answers, signal: stopWatching.signal };
          for await (const event of agents.local.sessions.watch(id, options)) {
            requestOpened.abort();
            if (event.type !== "state" || event.state.asks.length === 0) continue;
            if (hasLeft) return;
            answers = false;
          }
        })();
        await new Promise((resolve) => requestOpened.signal.addEventListener("abort", resolve));
        const { outputs } = await outputsOf(agents.local, { sessionId: id });
        assert.match(outputs[0]!, /no client could answer/);
        stopWatching.abort();
        await watching;
      }
      assert.deepEqual(agents.ran, []);
    });

    it("is withdrawn when its run is cancelled, and an answer then fails with ask_closed", async (t) => {
      const agents = await two(t, await make(t), { unattended: "wait" });
      const cancel = new AbortController();
      const hangs = () => new Promise<never>(() => undefined);
      const run = await agents.local.run({ message: "x", ask: hangs, signal: cancel.signal });
      let open: Ask | undefined;
      for await (const event of agents.remote.sessions.watch(run.sessionId))
        if (event.type === "state" && (open = event.state.asks[0])) break;
      cancel.abort();
      await assert.rejects(run.result, { code: "run_cancelled" });
      assert.equal((await agents.remote.asks.get(open!.id))?.state, "withdrawn");
      assert.equal((await agents.remote.runs.get(run.id))?.state, "cancelled");
      await assert.rejects(agents.remote.asks.answer(open!.id, { choice: "allow" }), { code: "ask_closed" });
      assert.deepEqual(agents.ran, []);
    });

    it("is open at the same time as that of a parallel call, and each is answered separately", async (t) => {
      const openDriver = await make(t);
      const ran: string[] = [];
      const parallelTools = ["one", "two"].map((name) =>
        defineTool({
          name,
          description: name,
          kind: "fetch",
          parallel: true,
          run: () => (ran.push(name), "done"),
        }),
      );
      const script = [callTools(["one", {}, "a"], ["two", {}, "b"]), "end"];
      const agents = [new ScriptedProvider(script), new ScriptedProvider([])].map(
        (provider) =>
          new Agent({ driver: openDriver(), providers: [provider], tools: parallelTools, unattended: "wait" }),
      );
      const [localAgent, remoteAgent] = agents as [Agent, Agent];
      t.after(async () => void (await Promise.all(agents.map((agent) => agent.close()))));
      const id = await session(localAgent, "ask");
      const run = await localAgent.run({ message: "x", sessionId: id });
      const open = async () =>
        (await remoteAgent.asks.list({ sessionId: id, open: true })).map(({ tool }) => tool).sort();
      await until(async () => (await open()).length >= 2);
      assert.deepEqual(await open(), ["one", "two"]);
      const asks = await remoteAgent.asks.list({ sessionId: id, open: true });
      const askIdOf = (name: string) => asks.find(({ tool }) => tool === name)!.id;
      await remoteAgent.asks.answer(askIdOf("two"), { choice: "allow" }, "remote");
      await until(() => ran.length > 0);
      // One request is still open.
      assert.equal((await remoteAgent.runs.get(run.id))?.state, "waiting");
      await remoteAgent.asks.answer(askIdOf("one"), { choice: "reject" }, "remote");
      await run.result;
      assert.deepEqual(ran, ["two"]);
      assert.equal((await remoteAgent.runs.get(run.id))?.state, "finished");
    });

    it("accepts exactly one of 12 concurrent answers", async (t) => {
      const agents = await two(t, await make(t), { unattended: "wait" });
      const id = await session(agents.local, "ask");
      const run = await agents.local.run({ message: "x", sessionId: id });
      const question = async () => (await agents.remote.asks.list({ sessionId: id, open: true }))[0];
      await until(question);
      const ask = (await question())!;
      const answers = await Promise.allSettled(
        Array.from({ length: 12 }, (_, i) =>
          (i % 2 ? agents.local : agents.remote).asks.answer(
            ask.id,
            { choice: i % 3 ? "reject" : "allow" },
            `client-${i}`,
          ),
        ),
      );
      const counted = answers.filter(({ status }) => status === "fulfilled");
      assert.equal(counted.length, 1);
      const stored = await agents.remote.asks.get(ask.id);
      assert.deepEqual((counted[0] as PromiseFulfilledResult<Ask>).value, stored);
      await until(question);
      assert.deepEqual(agents.ran, stored?.reply?.choice === "allow" ? [0] : []);
      await agents.local.runs.cancel(run.id);
      await assert.rejects(run.result, { code: "run_cancelled" });
    });

    it("grants later edits of the same file by any client, and of no other file, if answered with allow_always", async (t) => {
      const driver = await make(t);
      const folder = await tempDir(t, { "a.txt": "1" });
      const requestedTools: string[] = [];
      const put = defineTool({
        name: "put",
        description: "x",
        kind: "edit",
        schema: { type: "object", properties: { path: { type: "string" }, n: { type: "integer" } } },
        describe: ({ path, n }) => ({ title: `put ${n}`, locations: [{ path: folder.at(path ?? "") }] }),
        run: () => "done",
      });
      const calls = (...names: string[]) => names.map((path, n) => callTools(["put", { path, n }, `${path}-${n}`]));
      const agents = [calls("a.txt", "a.txt", "b.txt"), calls("a.txt", "b.txt")].map(
        (script) =>
          new Agent({
            driver: driver(),
            providers: [new ScriptedProvider([...script, "end"])],
            tools: [put],
            projectDir: folder.path,
          }),
      );
      t.after(async () => void (await Promise.all(agents.map((agent) => agent.close()))));
      let sessionId: string | undefined;
      for (const [i, agent] of agents.entries()) {
        const input = { ...(sessionId === undefined ? {} : { sessionId }), clientName: `client-${i}` };
        const run = await agent.run({
          message: "x",
          ...input,
          ask: ({ callId }) => (
            requestedTools.push(callId),
            Promise.resolve(callId === "a.txt-0" ? "allow_always" : "allow")
          ),
        });
        await run.result;
        ({ sessionId } = run);
      }
      assert.deepEqual(requestedTools, ["a.txt-0", "b.txt-2", "b.txt-1"]);
    });

    it("rejects an answer that is not one of its choices, and an unknown id is rejected", async (t) => {
      const agents = await two(t, await make(t), { unattended: "wait" });
      const run = await agents.local.run({ message: "x", ask: () => new Promise(() => undefined) });
      for await (const event of agents.local.sessions.watch(run.sessionId))
        if (event.type === "state" && event.state.asks[0]) {
          const { id } = event.state.asks[0];
          await assert.rejects(agents.local.asks.answer(id, { choice: "yes" }), {
            code: "invalid_input",
            field: "choice",
          });
          await assert.rejects(agents.local.asks.answer(id, { text: "allow" }), {
            code: "invalid_input",
            field: "choice",
          });
          await assert.rejects(agents.local.asks.answer(id, { choice: true as never }), { code: "invalid_input" });
          break;
        }
      await assert.rejects(agents.local.asks.answer("none", { choice: "allow" }), { code: "ask_not_found" });
      await agents.local.runs.cancel(run.id);
      await assert.rejects(run.result);
    });

    it("denies the call for every answer that is not exactly an allowing choice", async (t) => {
      for (const answer of [false, undefined, "yes", "ALLOW", { allow: true }, { choice: "yes" }, true, 1, null]) {
        const agents = await two(t, await make(t));
        const { outputs } = await outputsOf(agents.local, { ask: ask([answer, "reject"]) });
        assert.match(outputs[0]!, /rejected/, JSON.stringify(answer));
        assert.deepEqual(agents.ran, []);
      }
    });
  });
