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
        clientGrace: 0,
        ...options,
      }),
  ) as [Agent, Agent];
  t.after(async () => {
    await localAgent.close();
    await remoteAgent.close();
  });
  return { here: localAgent, there: remoteAgent, ran };
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
  const seen: Ask[] = [];
  for await (const event of agent.sessions.watch(sessionId, { canAnswer: true, signal }))
    if (event.type === "state")
      for (const ask of event.state.asks)
        if (!seen.some(({ id }) => id === ask.id)) {
          seen.push(ask);
          assert.equal(event.state.run?.state, "waiting");
          await agent.asks.answer(ask.id, { choice: reply(ask) }, "test");
        }
  return seen;
}

const ask =
  (answers: unknown[], requests: AskRequest[] = []) =>
  (request: AskRequest) => {
    requests.push(request);
    return Promise.resolve(answers.shift() as never);
  };

for (const [name, make] of STORES)
  describe(`what a run asks (${name})`, { concurrency: 4 }, () => {
    for (const door of ["here", "there"] as const)
      it(`is answered by who watches ${door}, stored with who did`, async (t) => {
        const agents = await two(t, await make(t), { unattended: "wait" });
        const id = await session(agents.here, "auto");
        const over = new AbortController();
        const watching = answering(agents[door], id, over.signal, ({ kind }) =>
          kind === "permission" ? "allow" : "2",
        );
        // The run's own client is asked too, but does not answer.
        let gone = 0;
        const never: RunInput["ask"] = (_, signal) =>
          new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error(`${(gone += 1)}`))));
        const run = await outputsOf(agents.here, { sessionId: id, ask: never });
        over.abort();
        const seen = await watching;
        assert.deepEqual(run.outputs, ["done", "they said blue"]);
        assert.equal(gone, 2);
        assert.deepEqual(agents.ran, [0]);
        assert.deepEqual(
          seen.map(({ kind, tool, title, freeText }) => [kind, tool, title, freeText]),
          [
            ["permission", "act", 'act {"n":0}', false],
            ["question", "inquire", "Which?", true],
          ],
        );
        const [question, permission] = await agents.there.asks.list({ sessionId: id });
        assert.deepEqual(
          [permission?.state, permission?.answeredBy, permission?.reply?.choice],
          ["answered", "test", "allow"],
        );
        assert.equal(question?.runId, run.id);
        assert.deepEqual(await agents.here.asks.list({ open: true }), []);
        await assert.rejects(agents.here.asks.answer(permission!.id, { choice: "reject" }), {
          code: "ask_closed",
          ask: permission,
        });
      });

    it("keeps leave that was given for good with the session, for any process and no other call", async (t) => {
      const agents = await two(t, await make(t));
      const requests: AskRequest[] = [];
      const first = await outputsOf(agents.here, {
        ask: ask(["allow_always", { choice: "", text: "green" }], requests),
        clientName: "desk",
      });
      assert.deepEqual(first.outputs, ["done", "they said green"]);
      assert.equal(requests[1]?.question?.freeText, true);
      const [leave, secondGrant] = (await agents.there.sessions.get(first.sessionId))?.permissionGrants ?? [];
      assert.deepEqual(
        [leave?.tool, leave?.grantedBy, leave?.title, secondGrant],
        ["act", "desk", 'act {"n":0}', undefined],
      );
      const secondRequests: AskRequest[] = [];
      const again = ask(["reject", "reject"], secondRequests);
      const second = await outputsOf(agents.there, { sessionId: first.sessionId, ask: again });
      // The script of the other agent starts with the same call, which needs no permission request any more.
      assert.deepEqual(
        secondRequests.map(({ tool }) => tool),
        ["inquire"],
      );
      assert.deepEqual(second.outputs, ["done", "nobody"]);
    });

    it("refuses where nobody is there, allows or waits where the options say so, and tells the model the truth", async (t) => {
      const driver = await make(t);
      const waited = { unattended: "wait", askTimeout: 0.05 } as const;
      for (const [options, expected] of [
        [{}, /nobody could be asked/],
        [{ unattended: "allow" }, /^done$/],
        [waited, /nobody answered within 0.05 s/],
      ] as const) {
        const { here: localAgent } = await two(t, driver, {
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

    it("waits for nobody who watched and went, or says that they answer no more", async (t) => {
      const agents = await two(t, await make(t));
      const id = await session(agents.here, "ask");
      for (const goes of [true, false]) {
        const over = new AbortController();
        const requestOpened = new AbortController();
        let answers = true;
        const watching = (async () => {
          const options = { canAnswer: () => answers, signal: over.signal };
          for await (const event of agents.here.sessions.watch(id, options)) {
            requestOpened.abort();
            if (event.type !== "state" || event.state.asks.length === 0) continue;
            if (goes) return;
            answers = false;
          }
        })();
        await new Promise((resolve) => requestOpened.signal.addEventListener("abort", resolve));
        const { outputs } = await outputsOf(agents.here, { sessionId: id });
        assert.match(outputs[0]!, /nobody could be asked/);
        over.abort();
        await watching;
      }
      assert.deepEqual(agents.ran, []);
    });

    it("is withdrawn with its run, and answered by nobody then", async (t) => {
      const agents = await two(t, await make(t), { unattended: "wait" });
      const cancel = new AbortController();
      const hangs = () => new Promise<never>(() => undefined);
      const run = await agents.here.run({ message: "x", ask: hangs, signal: cancel.signal });
      let open: Ask | undefined;
      for await (const event of agents.there.sessions.watch(run.sessionId))
        if (event.type === "state" && (open = event.state.asks[0])) break;
      cancel.abort();
      await assert.rejects(run.result, { code: "run_cancelled" });
      assert.equal((await agents.there.asks.get(open!.id))?.state, "withdrawn");
      assert.equal((await agents.there.runs.get(run.id))?.state, "cancelled");
      await assert.rejects(agents.there.asks.answer(open!.id, { choice: "allow" }), { code: "ask_closed" });
      assert.deepEqual(agents.ran, []);
    });

    it("is two at once where calls run beside each other, each answered for itself", async (t) => {
      const make_ = await make(t);
      const ran: string[] = [];
      const beside = ["one", "two"].map((name) =>
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
        (provider) => new Agent({ driver: make_(), providers: [provider], tools: beside, unattended: "wait" }),
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
      const of = (name: string) => asks.find(({ tool }) => tool === name)!.id;
      await remoteAgent.asks.answer(of("two"), { choice: "allow" }, "there");
      await until(() => ran.length > 0);
      // One request is still open.
      assert.equal((await remoteAgent.runs.get(run.id))?.state, "waiting");
      await remoteAgent.asks.answer(of("one"), { choice: "reject" }, "there");
      await run.result;
      assert.deepEqual(ran, ["two"]);
      assert.equal((await remoteAgent.runs.get(run.id))?.state, "finished");
    });

    it("counts once, however many answer at the same moment", async (t) => {
      const agents = await two(t, await make(t), { unattended: "wait" });
      const id = await session(agents.here, "ask");
      const run = await agents.here.run({ message: "x", sessionId: id });
      const question = async () => (await agents.there.asks.list({ sessionId: id, open: true }))[0];
      await until(question);
      const ask = (await question())!;
      const answers = await Promise.allSettled(
        Array.from({ length: 12 }, (_, i) =>
          (i % 2 ? agents.here : agents.there).asks.answer(ask.id, { choice: i % 3 ? "reject" : "allow" }, `door-${i}`),
        ),
      );
      const counted = answers.filter(({ status }) => status === "fulfilled");
      assert.equal(counted.length, 1);
      const stored = await agents.there.asks.get(ask.id);
      assert.deepEqual((counted[0] as PromiseFulfilledResult<Ask>).value, stored);
      await until(question);
      assert.deepEqual(agents.ran, stored?.reply?.choice === "allow" ? [0] : []);
      await agents.here.runs.cancel(run.id);
      await assert.rejects(run.result, { code: "run_cancelled" });
    });

    it("lets always do for a file whatever edits it there next, from whichever door", async (t) => {
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
        const input = { ...(sessionId === undefined ? {} : { sessionId }), clientName: `door-${i}` };
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

    it("takes no answer that is none of the choices, and none to what never was", async (t) => {
      const agents = await two(t, await make(t), { unattended: "wait" });
      const run = await agents.here.run({ message: "x", ask: () => new Promise(() => undefined) });
      for await (const event of agents.here.sessions.watch(run.sessionId))
        if (event.type === "state" && event.state.asks[0]) {
          const { id } = event.state.asks[0];
          await assert.rejects(agents.here.asks.answer(id, { choice: "yes" }), {
            code: "invalid_input",
            field: "choice",
          });
          await assert.rejects(agents.here.asks.answer(id, { text: "allow" }), {
            code: "invalid_input",
            field: "choice",
          });
          await assert.rejects(agents.here.asks.answer(id, { choice: true as never }), { code: "invalid_input" });
          break;
        }
      await assert.rejects(agents.here.asks.answer("none", { choice: "allow" }), { code: "ask_not_found" });
      await agents.here.runs.cancel(run.id);
      await assert.rejects(run.result);
    });

    it("lets nothing run on an answer that is not exactly a yes", async (t) => {
      for (const answer of [false, undefined, "yes", "ALLOW", { allow: true }, { choice: "yes" }, true, 1, null]) {
        const agents = await two(t, await make(t));
        const { outputs } = await outputsOf(agents.here, { ask: ask([answer, "reject"]) });
        assert.match(outputs[0]!, /refused/, JSON.stringify(answer));
        assert.deepEqual(agents.ran, []);
      }
    });
  });
