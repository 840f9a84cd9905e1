import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  Agent,
  MemoryDriver,
  ProviderError,
  StoreError,
  type AgentOptions,
  type Message,
  type RunRecord,
} from "gantry";
import type { ModelProvider, RunQuery, SessionDriver } from "gantry/plugin";
import { callTools, say, ScriptedProvider } from "gantry/testing";
import { noopTool } from "../../../helpers/noop-tool.js";
import { STORES, memoryStore } from "../../../helpers/stores.js";
import type { Hooks } from "../../../helpers/temp-dir.js";

const HANGING_STEP = { chunks: [{ type: "text" as const, block: "0", text: "Well" }], hang: true };

function createAgent(t: Hooks, driver: SessionDriver, steps: ConstructorParameters<typeof ScriptedProvider>[0]): Agent {
  const agent = new Agent({ providers: [new ScriptedProvider(steps)], driver, tools: [noopTool] });
  t.after(() => agent.close());
  return agent;
}

/** Returns the record without its id, times and usage; undefined for undefined. */
function pickComparableFields(run: RunRecord | undefined): unknown {
  if (!run) return undefined;
  const { startedAt, endedAt, usage, id: _, ...otherFields } = run;
  return { ...otherFields, hasEnded: endedAt !== "" && endedAt >= startedAt, totalTokens: usage.totalTokens };
}

for (const [name, makeStore] of STORES) {
  describe(`the record of a run (${name})`, () => {
    it("exists when the model is called, counts each answer, and is finished with the last answer", async (t) => {
      const openDriver = await makeStore(t);
      const secondAgent = createAgent(t, openDriver(), []);
      const records: unknown[] = [];
      let sessionId = "";
      const addRecord = async () => {
        const [run] = await secondAgent.runs.list({ sessionId });
        records.push(pickComparableFields(run));
      };
      let resolveRunStart = (): void => undefined;
      const runStart = new Promise<void>((resolve) => (resolveRunStart = resolve));
      const agent = createAgent(t, openDriver(), [
        async () => {
          await runStart;
          await addRecord();
          return callTools(["noop", {}]);
        },
        async () => {
          await addRecord();
          return say("done");
        },
      ]);
      const run = await agent.run({ message: "x" });
      ({ sessionId } = run);
      resolveRunStart();
      const { usage } = await run.result;
      await addRecord();
      const commonFields = {
        sessionId,
        idempotencyKey: "",
        fingerprint: "",
        after: 0,
        provider: "scripted",
        model: "scripted-1",
        error: null,
        queueLease: null,
        retry: null,
        answer: null,
      };
      assert.deepEqual(records, [
        { ...commonFields, state: "running", iterations: 0, endedBy: "", hasEnded: false, totalTokens: 0 },
        { ...commonFields, state: "running", iterations: 1, endedBy: "", hasEnded: false, totalTokens: 15 },
        { ...commonFields, state: "finished", iterations: 2, endedBy: "model", hasEnded: true, totalTokens: 30 },
      ]);
      const storedRun = await secondAgent.runs.get(run.id);
      assert.deepEqual(storedRun?.usage, usage);
    });

    it("after and lastSeq of a run delimit its messages, without gap or overlap", async (t) => {
      const openDriver = await makeStore(t);
      const agent = createAgent(t, openDriver(), [
        callTools(["noop", {}]),
        "done",
        callTools(["noop", {}]),
        HANGING_STEP,
        "again",
      ]);
      const firstRun = await agent.run({ message: "x" });
      const { sessionId } = firstRun;
      await firstRun.result;
      const cancelController = new AbortController();
      const secondRun = await agent.run({ message: "y", sessionId, signal: cancelController.signal });
      for await (const event of secondRun) if (event.type === "token") cancelController.abort();
      await secondRun.result.catch(() => undefined);
      const thirdRun = await agent.run({ message: "z", sessionId });
      await thirdRun.result;
      const seqs = (await agent.sessions.messages(sessionId)).map(({ seq }) => seq);
      const runSeqs = [firstRun, secondRun, thirdRun].flatMap(({ after, lastSeq }) =>
        seqs.filter((seq) => seq > after && seq <= lastSeq),
      );
      assert.deepEqual(runSeqs, seqs, "each message belongs to exactly one run");
      assert.deepEqual([firstRun.after, secondRun.after, thirdRun.after], [0, firstRun.lastSeq, secondRun.lastSeq]);
    });

    it("has the state and error of a run that failed, was cancelled or was ended by a shutdown", async (t) => {
      const openDriver = await makeStore(t);
      const fault = new ProviderError("scripted", "authentication", "the key is wrong");
      const agent = createAgent(t, openDriver(), [{ fault }, callTools(["noop", {}]), HANGING_STEP, HANGING_STEP]);
      const failedRun = await agent.run({ message: "x" });
      await assert.rejects(failedRun.result, { code: "provider" });
      const cancelController = new AbortController();
      const sessionId = failedRun.sessionId;
      const cancelledRun = await agent.run({ message: "x", sessionId, signal: cancelController.signal });
      for await (const event of cancelledRun) if (event.type === "token") cancelController.abort();
      await assert.rejects(cancelledRun.result, { code: "run_cancelled" });
      const shutdownRun = await agent.run({ message: "x", sessionId });
      await agent.close();
      await assert.rejects(shutdownRun.result, { code: "shutting_down" });
      const secondAgent = createAgent(t, openDriver(), []);
      const runs = await secondAgent.runs.list();
      assert.deepEqual(
        runs.map(({ id, state, error, iterations, endedBy }) => ({ id, state, error, iterations, endedBy })),
        [
          {
            id: shutdownRun.id,
            state: "cancelled",
            error: { code: "shutting_down", message: "server shutting down" },
            iterations: 0,
            endedBy: "",
          },
          {
            id: cancelledRun.id,
            state: "cancelled",
            error: { code: "run_cancelled", message: "run cancelled" },
            iterations: 1,
            endedBy: "",
          },
          {
            id: failedRun.id,
            state: "failed",
            error: { code: "provider", message: "scripted: authentication: the key is wrong" },
            iterations: 0,
            endedBy: "",
          },
        ],
      );
      for (const { startedAt, endedAt } of runs) assert.ok(endedAt >= startedAt);
    });

    it('has endedBy "max_iterations" after a run that reached its limit', async (t) => {
      const openDriver = await makeStore(t);
      const driver = openDriver();
      const provider: ModelProvider = new ScriptedProvider([callTools(["noop", {}])]);
      const options: AgentOptions = { providers: [provider], driver, tools: [noopTool], maxIterations: 1 };
      const agent = new Agent(options);
      t.after(() => agent.close());
      const run = await agent.run({ message: "x" });
      await run.result;
      const { state, endedBy, endedAt = "" } = (await agent.runs.get(run.id)) ?? {};
      assert.deepEqual([state, endedBy, endedAt !== ""], ["finished", "max_iterations", true]);
    });

    it("includes the usage of an invalid answer, like the result of the run", async (t) => {
      const openDriver = await makeStore(t);
      // The first answer is empty, so the model is called again.
      const agent = createAgent(t, openDriver(), [say(""), say("now")]);
      const run = await agent.run({ message: "x" });
      const { usage, iterations } = await run.result;
      const storedRun = await agent.runs.get(run.id);
      assert.deepEqual([storedRun?.usage, storedRun?.iterations], [usage, iterations]);
      assert.equal(usage.totalTokens, 30);
    });

    it("shows another process whether a session runs, without a lease", async (t) => {
      const openDriver = await makeStore(t);
      const agent = createAgent(t, openDriver(), [HANGING_STEP]);
      const driver = openDriver();
      driver.lease = () => Promise.reject(new Error("a lease was taken"));
      const secondAgent = createAgent(t, driver, []);
      const cancelController = new AbortController();
      const run = await agent.run({ message: "x", signal: cancelController.signal });
      assert.equal(await secondAgent.sessions.isRunning(run.sessionId), true);
      cancelController.abort();
      await assert.rejects(run.result, { code: "run_cancelled" });
      assert.equal(await secondAgent.sessions.isRunning(run.sessionId), false);
      await assert.rejects(secondAgent.sessions.isRunning("nobody"), { code: "session_not_found" });
    });

    it("is deleted with its session", async (t) => {
      const openDriver = await makeStore(t);
      const agent = createAgent(t, openDriver(), ["a", "b"]);
      const remainingRun = await agent.run({ message: "x" });
      await remainingRun.result;
      const deletedRun = await agent.run({ message: "x" });
      await deletedRun.result;
      await agent.sessions.delete(deletedRun.sessionId);
      assert.equal(await agent.runs.get(deletedRun.id), undefined);
      assert.deepEqual(
        (await agent.runs.list()).map(({ id }) => id),
        [remainingRun.id],
      );
    });
  });

  describe(`the list of runs (${name})`, () => {
    it("is sorted by newest first, filtered by session and state, and paged", async (t) => {
      const openDriver = await makeStore(t);
      const fault = new ProviderError("scripted", "authentication", "no");
      const steps = ["a", { fault }, "b"];
      const agent = createAgent(t, openDriver(), steps);
      const session = await agent.sessions.create({ alias: "other-name" });
      const ids: string[] = [];
      for (const sessionId of [session.id, session.id, undefined]) {
        const run = await agent.run({ message: "x", ...(sessionId ? { sessionId } : {}) });
        await run.result.catch(() => undefined);
        ids.unshift(run.id);
      }
      const [lastId, failedId, firstId] = ids;
      const listIds = async (query?: Partial<RunQuery>) => (await agent.runs.list(query)).map(({ id }) => id);
      assert.deepEqual(await listIds(), ids);
      assert.deepEqual(await listIds({ sessionId: session.id }), [failedId, firstId]);
      assert.deepEqual(await listIds({ sessionId: "other-name", states: ["finished"] }), [firstId]);
      assert.deepEqual(await listIds({ states: ["failed"] }), [failedId]);
      assert.deepEqual(await listIds({ states: [] }), []);
      const [newestRun] = await agent.runs.list({ limit: 1 });
      assert.equal(newestRun?.id, lastId);
      assert.deepEqual(await listIds({ limit: 1, ...(newestRun ? { before: newestRun } : {}) }), [failedId]);
      assert.deepEqual(await listIds({ limit: 0 }), []);
    });
  });
}

it("the record of a run is written in the same change as its messages", async (t) => {
  const driver = new MemoryDriver();
  const changes: string[] = [];
  const recordChange = (messages: readonly Message[] | undefined, runs: readonly RunRecord[] | undefined) => {
    const roles = (messages ?? []).map(({ role }) => role).join(" ");
    for (const { state, iterations } of runs ?? []) changes.push(`${roles}: ${state} ${iterations}`);
  };
  const { create, write } = driver;
  driver.create = (creation) => {
    recordChange(creation.messages, creation.run && [creation.run]);
    return create.call(driver, creation);
  };
  driver.write = (id, change) => {
    recordChange([...(change.add ?? []), ...(change.finish ?? [])], change.runs);
    return write.call(driver, id, change);
  };
  const agent = createAgent(t, driver, [callTools(["noop", {}]), "done", "again"]);
  const { sessionId, result } = await agent.run({ message: "x" });
  await result;
  await (
    await agent.run({ message: "y", sessionId })
  ).result;
  assert.deepEqual(changes, [
    "user: running 0",
    "assistant: running 1",
    "assistant: finished 2",
    "user: running 0",
    "assistant: finished 1",
  ]);
});

it("a run whose end cannot be stored rejects with the store error, and is listed as interrupted", async (t) => {
  const driver = new MemoryDriver();
  const { write } = driver;
  const agent = createAgent(t, driver, ["never stored"]);
  driver.write = () => Promise.reject(new StoreError("the disk at /home/me is full"));
  const run = await agent.run({ message: "x" });
  await assert.rejects(run.result, { code: "store" });
  driver.write = write;
  const storedRun = await agent.runs.get(run.id);
  assert.deepEqual([storedRun?.state, storedRun?.endedAt, storedRun?.error], ["interrupted", "", null]);
});

describe("agent.runs", () => {
  it("rejects an invalid query and an unknown session, and returns undefined for an unknown run", async (t) => {
    const agent = createAgent(t, (await memoryStore[1](t))(), []);
    const invalidQueries: [query: unknown, field: string, message: RegExp][] = [
      [
        { state: "running" },
        "state",
        /one of id, sessionId, states, idempotencyKey, startedBy, visibleTo, limit, before/,
      ],
      [{ states: ["runs"] }, "states", /"interrupted"/],
      [{ states: "running" }, "states", /a list of states/],
      [{ limit: -1 }, "limit", /a whole number, at least 0/],
      [{ limit: 1.5 }, "limit", /a whole number/],
      [{ id: 1 }, "id", /a string/],
      [{ sessionId: 1 }, "sessionId", /a string/],
      [{ before: "x" }, "before", /startedAt and id/],
    ];
    for (const [query, field, message] of invalidQueries)
      await assert.rejects(agent.runs.list(query as Partial<RunQuery>), { code: "invalid_input", field, message });
    await assert.rejects(agent.runs.list({ sessionId: "nobody" }), { code: "session_not_found" });
    assert.equal(await agent.runs.get("nobody"), undefined);
  });

  it("stores an internal error without its details", async (t) => {
    const agent = createAgent(t, new MemoryDriver(), []);
    // An internal error, caused by a tool that cannot be serialized.
    const brokenTool = {
      ...noopTool,
      inputSchema: {
        toJSON: () => {
          throw new Error("/home/me/secret");
        },
      },
    };
    const run = await agent.run({ message: "x", tools: [brokenTool] });
    await assert.rejects(run.result);
    assert.deepEqual((await agent.runs.get(run.id))?.error, { code: "internal", message: "internal error" });
  });

  it("stores a provider error without the API key in its message", async (t) => {
    const key = "sk-proj-9fQ2xLw7Zr4TbVn8MdHs6JpYc1Ge";
    const fault = new ProviderError("scripted", "authentication", `wrong key: ${key}`);
    const agent = createAgent(t, new MemoryDriver(), [{ fault }]);
    const run = await agent.run({ message: "x" });
    await assert.rejects(run.result, { code: "provider" });
    const { error } = (await agent.runs.get(run.id)) ?? {};
    assert.match(error?.message ?? "", /^scripted: authentication: wrong key: (?!.*9fQ2xLw7)/);
  });
});
