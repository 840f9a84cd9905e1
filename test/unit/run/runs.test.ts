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
import { noop } from "../../helpers/noop-tool.js";
import { STORES, memoryStore } from "../../helpers/stores.js";
import type { Hooks } from "../../helpers/temp.js";

const hangs = { chunks: [{ type: "text" as const, block: "0", text: "Well" }], hang: true };

function make(t: Hooks, driver: SessionDriver, steps: ConstructorParameters<typeof ScriptedProvider>[0]): Agent {
  const agent = new Agent({ providers: [new ScriptedProvider(steps)], driver, tools: [noop] });
  t.after(() => agent.close());
  return agent;
}

/** The fields that are the same in each test run. */
function comparableFields(run: RunRecord | undefined): unknown {
  if (!run) return undefined;
  const { startedAt, endedAt, usage, id: _, ...otherFields } = run;
  return { ...otherFields, ended: endedAt !== "" && endedAt >= startedAt, tokens: usage.totalTokens };
}

for (const [name, makeStore] of STORES) {
  describe(`the record of a run (${name})`, () => {
    it("exists when the model is called, counts each answer, and is finished with the last one", async (t) => {
      const open = await makeStore(t);
      const secondAgent = make(t, open(), []);
      const states: unknown[] = [];
      let sessionId = "";
      const recordState = async () => {
        const [run] = await secondAgent.runs.list({ sessionId });
        states.push(comparableFields(run));
      };
      let began = (): void => undefined;
      const first = new Promise<void>((resolve) => (began = resolve));
      const agent = make(t, open(), [
        async () => {
          await first;
          await recordState();
          return callTools(["noop", {}]);
        },
        async () => {
          await recordState();
          return say("done");
        },
      ]);
      const run = await agent.run({ message: "x" });
      ({ sessionId } = run);
      began();
      const { usage } = await run.result;
      await recordState();
      const common = {
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
      assert.deepEqual(states, [
        { ...common, state: "running", iterations: 0, endedBy: "", ended: false, tokens: 0 },
        { ...common, state: "running", iterations: 1, endedBy: "", ended: false, tokens: 15 },
        { ...common, state: "finished", iterations: 2, endedBy: "model", ended: true, tokens: 30 },
      ]);
      const stored = await secondAgent.runs.get(run.id);
      assert.deepEqual(stored?.usage, usage);
    });

    it("after and lastSeq of a run delimit its messages, without gap or overlap", async (t) => {
      const open = await makeStore(t);
      const agent = make(t, open(), [callTools(["noop", {}]), "done", callTools(["noop", {}]), hangs, "again"]);
      const first = await agent.run({ message: "x" });
      const { sessionId } = first;
      await first.result;
      const cancel = new AbortController();
      const second = await agent.run({ message: "y", sessionId, signal: cancel.signal });
      for await (const event of second) if (event.type === "token") cancel.abort();
      await second.result.catch(() => undefined);
      const third = await agent.run({ message: "z", sessionId });
      await third.result;
      const seqs = (await agent.sessions.messages(sessionId)).map(({ seq }) => seq);
      const runSeqs = [first, second, third].flatMap(({ after, lastSeq }) =>
        seqs.filter((seq) => seq > after && seq <= lastSeq),
      );
      assert.deepEqual(runSeqs, seqs, "each message is one run's");
      assert.deepEqual([first.after, second.after, third.after], [0, first.lastSeq, second.lastSeq]);
    });

    it("has the state and error of a run that failed, was cancelled or was ended by a shutdown", async (t) => {
      const open = await makeStore(t);
      const fault = new ProviderError("scripted", "authentication", "the key is wrong");
      const agent = make(t, open(), [{ fault }, callTools(["noop", {}]), hangs, hangs]);
      const failed = await agent.run({ message: "x" });
      await assert.rejects(failed.result, { code: "provider" });
      const cancel = new AbortController();
      const sessionId = failed.sessionId;
      const cancelled = await agent.run({ message: "x", sessionId, signal: cancel.signal });
      for await (const event of cancelled) if (event.type === "token") cancel.abort();
      await assert.rejects(cancelled.result, { code: "run_cancelled" });
      const shutdownRun = await agent.run({ message: "x", sessionId });
      await agent.close();
      await assert.rejects(shutdownRun.result, { code: "shutting_down" });
      const secondAgent = make(t, open(), []);
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
            id: cancelled.id,
            state: "cancelled",
            error: { code: "run_cancelled", message: "run cancelled" },
            iterations: 1,
            endedBy: "",
          },
          {
            id: failed.id,
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
      const open = await makeStore(t);
      const driver = open();
      const provider: ModelProvider = new ScriptedProvider([callTools(["noop", {}])]);
      const options: AgentOptions = { providers: [provider], driver, tools: [noop], maxIterations: 1 };
      const agent = new Agent(options);
      t.after(() => agent.close());
      const run = await agent.run({ message: "x" });
      await run.result;
      const { state, endedBy, endedAt = "" } = (await agent.runs.get(run.id)) ?? {};
      assert.deepEqual([state, endedBy, endedAt !== ""], ["finished", "max_iterations", true]);
    });

    it("includes the usage of an invalid answer, like the result of the run", async (t) => {
      const open = await makeStore(t);
      // The first answer is empty, so the model is called again.
      const agent = make(t, open(), [say(""), say("now")]);
      const run = await agent.run({ message: "x" });
      const { usage, iterations } = await run.result;
      const stored = await agent.runs.get(run.id);
      assert.deepEqual([stored?.usage, stored?.iterations], [usage, iterations]);
      assert.equal(usage.totalTokens, 30);
    });

    it("shows another process whether a session runs, without a lease", async (t) => {
      const open = await makeStore(t);
      const agent = make(t, open(), [hangs]);
      const driver = open();
      driver.lease = () => Promise.reject(new Error("a lease was taken"));
      const secondAgent = make(t, driver, []);
      const cancel = new AbortController();
      const run = await agent.run({ message: "x", signal: cancel.signal });
      assert.equal(await secondAgent.sessions.isRunning(run.sessionId), true);
      cancel.abort();
      await assert.rejects(run.result, { code: "run_cancelled" });
      assert.equal(await secondAgent.sessions.isRunning(run.sessionId), false);
      await assert.rejects(secondAgent.sessions.isRunning("nobody"), { code: "session_not_found" });
    });

    it("is deleted with its session", async (t) => {
      const open = await makeStore(t);
      const agent = make(t, open(), ["a", "b"]);
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
      const open = await makeStore(t);
      const fault = new ProviderError("scripted", "authentication", "no");
      const steps = ["a", { fault }, "b"];
      const agent = make(t, open(), steps);
      const session = await agent.sessions.create({ alias: "other-name" });
      const ids: string[] = [];
      for (const sessionId of [session.id, session.id, undefined]) {
        const run = await agent.run({ message: "x", ...(sessionId ? { sessionId } : {}) });
        await run.result.catch(() => undefined);
        ids.unshift(run.id);
      }
      const [last, failed, first] = ids;
      const list = async (query?: Partial<RunQuery>) => (await agent.runs.list(query)).map(({ id }) => id);
      assert.deepEqual(await list(), ids);
      assert.deepEqual(await list({ sessionId: session.id }), [failed, first]);
      assert.deepEqual(await list({ sessionId: "other-name", states: ["finished"] }), [first]);
      assert.deepEqual(await list({ states: ["failed"] }), [failed]);
      assert.deepEqual(await list({ states: [] }), []);
      const [newestRun] = await agent.runs.list({ limit: 1 });
      assert.equal(newestRun?.id, last);
      assert.deepEqual(await list({ limit: 1, ...(newestRun ? { before: newestRun } : {}) }), [failed]);
      assert.deepEqual(await list({ limit: 0 }), []);
    });
  });
}

it("the record of a run is written in the same change as its messages", async (t) => {
  const driver = new MemoryDriver();
  const changes: string[] = [];
  const note = (messages: readonly Message[] | undefined, runs: readonly RunRecord[] | undefined) => {
    const roles = (messages ?? []).map(({ role }) => role).join(" ");
    for (const { state, iterations } of runs ?? []) changes.push(`${roles}: ${state} ${iterations}`);
  };
  const { create, write } = driver;
  driver.create = (start) => {
    note(start.messages, start.run && [start.run]);
    return create.call(driver, start);
  };
  driver.write = (id, change) => {
    note([...(change.add ?? []), ...(change.finish ?? [])], change.runs);
    return write.call(driver, id, change);
  };
  const agent = make(t, driver, [callTools(["noop", {}]), "done", "again"]);
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
  const agent = make(t, driver, ["never stored"]);
  driver.write = () => Promise.reject(new StoreError("the disk at /home/me is full"));
  const run = await agent.run({ message: "x" });
  await assert.rejects(run.result, { code: "store" });
  driver.write = write;
  const stored = await agent.runs.get(run.id);
  assert.deepEqual([stored?.state, stored?.endedAt, stored?.error], ["interrupted", "", null]);
});

describe("agent.runs", () => {
  it("rejects an invalid query and an unknown session, and returns undefined for an unknown run", async (t) => {
    const agent = make(t, (await memoryStore[1](t))(), []);
    const wrong: [unknown, string, RegExp][] = [
      [{ state: "running" }, "state", /one of id, sessionId, states, idempotencyKey, limit, before/],
      [{ states: ["runs"] }, "states", /"interrupted"/],
      [{ states: "running" }, "states", /a list of states/],
      [{ limit: -1 }, "limit", /a whole number, at least 0/],
      [{ limit: 1.5 }, "limit", /a whole number/],
      [{ id: 1 }, "id", /a string/],
      [{ sessionId: 1 }, "sessionId", /a string/],
      [{ before: "x" }, "before", /startedAt and id/],
    ];
    for (const [query, field, message] of wrong)
      await assert.rejects(agent.runs.list(query as Partial<RunQuery>), { code: "invalid_input", field, message });
    await assert.rejects(agent.runs.list({ sessionId: "nobody" }), { code: "session_not_found" });
    assert.equal(await agent.runs.get("nobody"), undefined);
  });

  it("stores an internal error without its details", async (t) => {
    const agent = make(t, new MemoryDriver(), []);
    // An internal error, caused by a tool that cannot be serialized.
    const broken = {
      ...noop,
      inputSchema: {
        toJSON: () => {
          throw new Error("/home/me/secret");
        },
      },
    };
    const run = await agent.run({ message: "x", tools: [broken] });
    await assert.rejects(run.result);
    assert.deepEqual((await agent.runs.get(run.id))?.error, { code: "internal", message: "internal error" });
  });

  it("stores a provider error without the API key in its message", async (t) => {
    const key = "sk-proj-9fQ2xLw7Zr4TbVn8MdHs6JpYc1Ge";
    const fault = new ProviderError("scripted", "authentication", `wrong key: ${key}`);
    const agent = make(t, new MemoryDriver(), [{ fault }]);
    const run = await agent.run({ message: "x" });
    await assert.rejects(run.result, { code: "provider" });
    const { error } = (await agent.runs.get(run.id)) ?? {};
    assert.match(error?.message ?? "", /^scripted: authentication: wrong key: (?!.*9fQ2xLw7)/);
  });
});
