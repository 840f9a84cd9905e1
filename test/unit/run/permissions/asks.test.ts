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
import { waitUntil } from "../../../helpers/server-runs.js";
import { STORES } from "../../../helpers/stores.js";
import { tempDir, type Hooks } from "../../../helpers/temp-dir.js";

/** Two agents on one store, with a tool that needs permission and a tool that asks a question. */
async function createAgents(t: Hooks, openDriver: () => SessionDriver, options: Partial<AgentOptions> = {}) {
  const folder = await tempDir(t);
  const actNumbers: unknown[] = [];
  const act = defineTool({
    name: "act",
    description: "Acts.",
    kind: "execute",
    schema: { type: "object", properties: { n: { type: "integer" } } },
    run: ({ n }) => (actNumbers.push(n), "done"),
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
  const [localAgent, remoteAgent] = [openDriver(), openDriver()].map(
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
  return { localAgent, remoteAgent, actNumbers };
}

/** The tool results of a run. */
async function readOutputs(
  agent: Agent,
  input: Partial<RunInput>,
): Promise<{ id: string; sessionId: string; outputs: string[] }> {
  const run = await agent.run({ message: "x", ...input });
  const outputs: string[] = [];
  for await (const event of run) if (event.type === "tool_result") outputs.push(event.output);
  await run.result;
  return { id: run.id, sessionId: run.sessionId, outputs: outputs };
}

async function createSession(agent: Agent, mode: SessionMode): Promise<string> {
  const { id } = await agent.sessions.create();
  await agent.sessions.update(id, { mode });
  return id;
}

/** Answers the asks of a session like a watcher, until the signal aborts. */
async function answerAsks(
  agent: Agent,
  sessionId: string,
  signal: AbortSignal,
  chooseAnswer: (ask: Ask) => string,
): Promise<Ask[]> {
  const answeredAsks: Ask[] = [];
  for await (const event of agent.sessions.watch(sessionId, { canAnswer: true, signal }))
    if (event.type === "state")
      for (const ask of event.state.asks)
        if (!answeredAsks.some(({ id }) => id === ask.id)) {
          answeredAsks.push(ask);
          assert.equal(event.state.run?.state, "waiting");
          await agent.asks.answer(ask.id, { choice: chooseAnswer(ask) }, "test");
        }
  return answeredAsks;
}

const createAskFunction =
  (answers: unknown[], requests: AskRequest[] = []) =>
  (request: AskRequest) => {
    requests.push(request);
    return Promise.resolve(answers.shift() as never);
  };

for (const [name, makeStore] of STORES)
  describe(`an ask of a run (${name})`, { concurrency: 4 }, () => {
    for (const side of ["localAgent", "remoteAgent"] as const)
      it(`is answered by a watcher in the ${side.replace("Agent", "")} process, and stores who answered`, async (t) => {
        const agents = await createAgents(t, await makeStore(t), { unattended: "wait" });
        const id = await createSession(agents.localAgent, "auto");
        const watchController = new AbortController();
        const pendingAsks = answerAsks(agents[side], id, watchController.signal, ({ kind }) =>
          kind === "permission" ? "allow" : "2",
        );
        // The run's own client is asked too, but does not answer.
        let abortedAskCount = 0;
        const neverAnswer: RunInput["ask"] = (_, signal) =>
          new Promise((_, reject) =>
            signal.addEventListener("abort", () => reject(new Error(`${(abortedAskCount += 1)}`))),
          );
        const run = await readOutputs(agents.localAgent, { sessionId: id, ask: neverAnswer });
        watchController.abort();
        const answeredAsks = await pendingAsks;
        assert.deepEqual(run.outputs, ["done", "they said blue"]);
        assert.equal(abortedAskCount, 2);
        assert.deepEqual(agents.actNumbers, [0]);
        assert.deepEqual(
          answeredAsks.map(({ kind, tool, title, freeText }) => [kind, tool, title, freeText]),
          [
            ["permission", "act", 'act {"n":0}', false],
            ["question", "inquire", "Which?", true],
          ],
        );
        const [question, permission] = await agents.remoteAgent.asks.list({ sessionId: id });
        assert.deepEqual(
          [permission?.state, permission?.answeredBy, permission?.reply?.choice],
          ["answered", "test", "allow"],
        );
        assert.equal(question?.runId, run.id);
        assert.deepEqual(await agents.localAgent.asks.list({ open: true }), []);
        await assert.rejects(agents.localAgent.asks.answer(permission!.id, { choice: "reject" }), {
          code: "ask_closed",
          ask: permission,
        });
      });

    it("stores an allow_always answer as a grant of the session, which applies in another process", async (t) => {
      const agents = await createAgents(t, await makeStore(t));
      const requests: AskRequest[] = [];
      const firstRun = await readOutputs(agents.localAgent, {
        ask: createAskFunction(["allow_always", { choice: "", text: "green" }], requests),
        clientName: "desk",
      });
      assert.deepEqual(firstRun.outputs, ["done", "they said green"]);
      assert.equal(requests[1]?.question?.freeText, true);
      const [grant, secondGrant] = (await agents.remoteAgent.sessions.get(firstRun.sessionId))?.permissionGrants ?? [];
      assert.deepEqual(
        [grant?.tool, grant?.grantedBy, grant?.title, secondGrant],
        ["act", "desk", 'act {"n":0}', undefined],
      );
      const secondRequests: AskRequest[] = [];
      const secondAsk = createAskFunction(["reject", "reject"], secondRequests);
      const secondRun = await readOutputs(agents.remoteAgent, { sessionId: firstRun.sessionId, ask: secondAsk });
      // The script of the other agent starts with the same call, which needs no permission request any more.
      assert.deepEqual(
        secondRequests.map(({ tool }) => tool),
        ["inquire"],
      );
      assert.deepEqual(secondRun.outputs, ["done", "nobody"]);
    });

    it('is rejected without a client, or follows `unattended`: "allow", or "wait" with a timeout', async (t) => {
      const openDriver = await makeStore(t);
      const waitOptions = { unattended: "wait", askTimeoutSeconds: 0.05 } as const;
      for (const [options, outputPattern] of [
        [{}, /no client could answer/],
        [{ unattended: "allow" }, /^done$/],
        [waitOptions, /no client answered within 0.05 s/],
      ] as const) {
        const { localAgent } = await createAgents(t, openDriver, {
          permissions: { name: "strict", judge: () => ({ action: "ask" }) },
          ...options,
        });
        const { outputs, sessionId } = await readOutputs(localAgent, {});
        assert.match(outputs[0]!, outputPattern);
        const asks = await localAgent.asks.list({ sessionId });
        const isWaited = options === waitOptions;
        assert.deepEqual(
          asks.map(({ state }) => state),
          isWaited ? ["withdrawn", "withdrawn"] : [],
        );
        if (isWaited) assert.ok(asks[0]!.deadline > asks[0]!.createdAt);
      }
    });

    it("is rejected if its watcher has left or can no longer answer", async (t) => {
      const agents = await createAgents(t, await makeStore(t));
      const id = await createSession(agents.localAgent, "ask");
      for (const hasLeft of [true, false]) {
        const watchController = new AbortController();
        const requestOpened = new AbortController();
        let canAnswer = true;
        const watchPromise = (async () => {
          const options = { canAnswer: () => canAnswer, signal: watchController.signal };
          for await (const event of agents.localAgent.sessions.watch(id, options)) {
            requestOpened.abort();
            if (event.type !== "state" || event.state.asks.length === 0) continue;
            if (hasLeft) return;
            canAnswer = false;
          }
        })();
        await new Promise((resolve) => requestOpened.signal.addEventListener("abort", resolve));
        const { outputs } = await readOutputs(agents.localAgent, { sessionId: id });
        assert.match(outputs[0]!, /no client could answer/);
        watchController.abort();
        await watchPromise;
      }
      assert.deepEqual(agents.actNumbers, []);
    });

    it("is withdrawn when its run is cancelled, and an answer then fails with ask_closed", async (t) => {
      const agents = await createAgents(t, await makeStore(t), { unattended: "wait" });
      const cancelController = new AbortController();
      const hangForever = () => new Promise<never>(() => undefined);
      const run = await agents.localAgent.run({ message: "x", ask: hangForever, signal: cancelController.signal });
      let openAsk: Ask | undefined;
      for await (const event of agents.remoteAgent.sessions.watch(run.sessionId))
        if (event.type === "state" && (openAsk = event.state.asks[0])) break;
      cancelController.abort();
      await assert.rejects(run.result, { code: "run_cancelled" });
      assert.equal((await agents.remoteAgent.asks.get(openAsk!.id))?.state, "withdrawn");
      assert.equal((await agents.remoteAgent.runs.get(run.id))?.state, "cancelled");
      await assert.rejects(agents.remoteAgent.asks.answer(openAsk!.id, { choice: "allow" }), { code: "ask_closed" });
      assert.deepEqual(agents.actNumbers, []);
    });

    it("is open at the same time as that of a parallel call, and each is answered separately", async (t) => {
      const openDriver = await makeStore(t);
      const toolsRun: string[] = [];
      const parallelTools = ["one", "two"].map((name) =>
        defineTool({
          name,
          description: name,
          kind: "fetch",
          parallel: true,
          run: () => (toolsRun.push(name), "done"),
        }),
      );
      const script = [callTools(["one", {}, "a"], ["two", {}, "b"]), "end"];
      const agents = [new ScriptedProvider(script), new ScriptedProvider([])].map(
        (provider) =>
          new Agent({ driver: openDriver(), providers: [provider], tools: parallelTools, unattended: "wait" }),
      );
      const [localAgent, remoteAgent] = agents as [Agent, Agent];
      t.after(async () => void (await Promise.all(agents.map((agent) => agent.close()))));
      const id = await createSession(localAgent, "ask");
      const run = await localAgent.run({ message: "x", sessionId: id });
      const listOpenTools = async () =>
        (await remoteAgent.asks.list({ sessionId: id, open: true })).map(({ tool }) => tool).sort();
      await waitUntil(async () => (await listOpenTools()).length >= 2);
      assert.deepEqual(await listOpenTools(), ["one", "two"]);
      const asks = await remoteAgent.asks.list({ sessionId: id, open: true });
      const findAskId = (name: string) => asks.find(({ tool }) => tool === name)!.id;
      await remoteAgent.asks.answer(findAskId("two"), { choice: "allow" }, "remote");
      await waitUntil(() => toolsRun.length > 0);
      // One request is still open.
      assert.equal((await remoteAgent.runs.get(run.id))?.state, "waiting");
      await remoteAgent.asks.answer(findAskId("one"), { choice: "reject" }, "remote");
      await run.result;
      assert.deepEqual(toolsRun, ["two"]);
      assert.equal((await remoteAgent.runs.get(run.id))?.state, "finished");
    });

    it("accepts exactly one of 12 concurrent answers", async (t) => {
      const agents = await createAgents(t, await makeStore(t), { unattended: "wait" });
      const id = await createSession(agents.localAgent, "ask");
      const run = await agents.localAgent.run({ message: "x", sessionId: id });
      const readOpenAsk = async () => (await agents.remoteAgent.asks.list({ sessionId: id, open: true }))[0];
      await waitUntil(readOpenAsk);
      const openAsk = (await readOpenAsk())!;
      const results = await Promise.allSettled(
        Array.from({ length: 12 }, (_, i) =>
          (i % 2 ? agents.localAgent : agents.remoteAgent).asks.answer(
            openAsk.id,
            { choice: i % 3 ? "reject" : "allow" },
            `client-${i}`,
          ),
        ),
      );
      const acceptedResults = results.filter(({ status }) => status === "fulfilled");
      assert.equal(acceptedResults.length, 1);
      const storedAsk = await agents.remoteAgent.asks.get(openAsk.id);
      assert.deepEqual((acceptedResults[0] as PromiseFulfilledResult<Ask>).value, storedAsk);
      await waitUntil(readOpenAsk);
      assert.deepEqual(agents.actNumbers, storedAsk?.reply?.choice === "allow" ? [0] : []);
      await agents.localAgent.runs.cancel(run.id);
      await assert.rejects(run.result, { code: "run_cancelled" });
    });

    it("grants later edits of the same file by any client, and of no other file, if answered with allow_always", async (t) => {
      const openDriver = await makeStore(t);
      const folder = await tempDir(t, { "a.txt": "1" });
      const requestedTools: string[] = [];
      const putTool = defineTool({
        name: "put",
        description: "x",
        kind: "edit",
        schema: { type: "object", properties: { path: { type: "string" }, n: { type: "integer" } } },
        describe: ({ path, n }) => ({ title: `put ${n}`, locations: [{ path: folder.at(path ?? "") }] }),
        run: () => "done",
      });
      const createCalls = (...names: string[]) =>
        names.map((path, n) => callTools(["put", { path, n }, `${path}-${n}`]));
      const agents = [createCalls("a.txt", "a.txt", "b.txt"), createCalls("a.txt", "b.txt")].map(
        (script) =>
          new Agent({
            driver: openDriver(),
            providers: [new ScriptedProvider([...script, "end"])],
            tools: [putTool],
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

    it("rejects an answer that is not one of its choices, and an answer to an unknown ask is rejected", async (t) => {
      const agents = await createAgents(t, await makeStore(t), { unattended: "wait" });
      const run = await agents.localAgent.run({ message: "x", ask: () => new Promise(() => undefined) });
      for await (const event of agents.localAgent.sessions.watch(run.sessionId))
        if (event.type === "state" && event.state.asks[0]) {
          const { id } = event.state.asks[0];
          await assert.rejects(agents.localAgent.asks.answer(id, { choice: "yes" }), {
            code: "invalid_input",
            field: "choice",
          });
          await assert.rejects(agents.localAgent.asks.answer(id, { text: "allow" }), {
            code: "invalid_input",
            field: "choice",
          });
          await assert.rejects(agents.localAgent.asks.answer(id, { choice: true as never }), { code: "invalid_input" });
          break;
        }
      await assert.rejects(agents.localAgent.asks.answer("none", { choice: "allow" }), { code: "ask_not_found" });
      await agents.localAgent.runs.cancel(run.id);
      await assert.rejects(run.result);
    });

    it("denies the call for every answer that is not exactly an allowing choice", async (t) => {
      for (const answer of [false, undefined, "yes", "ALLOW", { allow: true }, { choice: "yes" }, true, 1, null]) {
        const agents = await createAgents(t, await makeStore(t));
        const { outputs } = await readOutputs(agents.localAgent, { ask: createAskFunction([answer, "reject"]) });
        assert.match(outputs[0]!, /rejected/, JSON.stringify(answer));
        assert.deepEqual(agents.actNumbers, []);
      }
    });
  });
