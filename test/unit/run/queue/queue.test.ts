import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, MemoryDriver, type Message, type RunInput, type RunRecord } from "gantry";
import { currentHolder, type SessionDriver } from "gantry/plugin";
import { callTools, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { sendInstruction, findRun } from "../../../../src/testing/session-driver/rule.js";
import { cancelled } from "../../../helpers/cancel-run.js";
import { gate, waitTool } from "../../../helpers/gate.js";
import { until } from "../../../helpers/lab.js";
import { observed } from "../../../helpers/observed-driver.js";
import { STORES } from "../../../helpers/stores.js";
import { tempDir, type Hooks } from "../../../helpers/temp.js";

const waits: ScriptedStep = callTools(["wait", {}]);

/** Two agents on one store, like two processes, and a session in which a run of the first agent waits for the gate. */
async function busy(t: Hooks, driver: () => SessionDriver, { concurrentRuns = 512 } = {}) {
  const folder = await tempDir(t);
  const open = gate();
  const provider = new ScriptedProvider([waits, ...Array<ScriptedStep>(20).fill("done")]);
  const { driver: first, answered } = observed(driver());
  const second = driver();
  const agents = [first, second].map(
    (agentDriver) =>
      new Agent({
        driver: agentDriver,
        providers: [provider],
        tools: [waitTool(open)],
        projectDir: folder.path,
        concurrentRuns,
      }),
  );
  t.after(async () => {
    open.open();
    for (const agent of agents) await agent.close();
  });
  const [localAgent, remoteAgent] = agents as [Agent, Agent];
  const activeRun = await localAgent.run({ message: "first" });
  await open.reached;
  const { sessionId } = activeRun;
  /** Queues a run. Returns its `queued` notifications and its outcome. */
  const queued = async (agent: Agent, message: string, input: Partial<RunInput> = {}) => {
    const aheadCounts: number[] = [];
    let outcome!: Promise<unknown>;
    const record = await new Promise<RunRecord>((resolve, reject) => {
      const onQueued = (ahead: number, run: RunRecord) => {
        aheadCounts.push(ahead);
        resolve(run);
      };
      outcome = agent.run({ message, sessionId, queue: true, onQueued, ...input }).then((run) => run.result);
      outcome.then(() => reject(new Error("it did not wait")), reject);
    });
    return { aheadCounts, id: record.id, outcome, record };
  };
  const userTexts = async () =>
    (await remoteAgent.sessions.messages(sessionId))
      .filter(({ role }: Message) => role === "user")
      .map(({ parts }) => parts.map((part) => ("text" in part ? part.text : part.type)).join(""));
  const stateOf = async (id: string) => (await remoteAgent.runs.get(id))?.state;
  return {
    localAgent,
    remoteAgent,
    second,
    open,
    activeRun,
    sessionId,
    queued,
    userTexts,
    stateOf,
    answered,
  };
}

for (const [name, make] of STORES)
  describe(`queued runs (${name})`, () => {
    it("start in the order of their requests, from any process, and report how many runs are ahead", async (t) => {
      const { localAgent, remoteAgent, open, activeRun, sessionId, queued, userTexts, stateOf } = await busy(
        t,
        await make(t),
      );
      const queuedRuns = [];
      for (const [n, agent] of [localAgent, remoteAgent, remoteAgent, localAgent, remoteAgent].entries())
        queuedRuns.push(await queued(agent, `m${n}`));
      assert.deepEqual(
        queuedRuns.map(({ aheadCounts }) => aheadCounts[0]),
        [1, 2, 3, 4, 5],
      );
      const listed = await remoteAgent.runs.list({ sessionId, states: ["queued"] });
      assert.deepEqual(
        listed.map(({ id }) => id),
        queuedRuns.map(({ id }) => id).reverse(),
      );
      // A watcher sees the active run.
      for await (const event of remoteAgent.sessions.watch(sessionId, { follow: false }))
        if (event.type === "state") assert.equal(event.state.run?.id, activeRun.id);
      // A run without `queue` is rejected as before.
      await assert.rejects(remoteAgent.run({ message: "no", sessionId }), { code: "session_busy" });
      open.open();
      await Promise.all(queuedRuns.map(({ outcome }) => outcome));
      assert.deepEqual(await userTexts(), ["first", "m0", "m1", "m2", "m3", "m4"]);
      for (const { aheadCounts, id, record } of queuedRuns) {
        assert.deepEqual(
          aheadCounts,
          [...aheadCounts].sort((a, b) => b - a),
        );
        const run = await localAgent.runs.get(id);
        assert.equal(run?.state, "finished");
        assert.equal(run.queueLease, null);
        assert.ok(run.startedAt >= record.startedAt);
      }
      assert.deepEqual(await localAgent.runs.list({ states: ["queued", "interrupted"] }), []);
      assert.equal(await stateOf(activeRun.id), "finished");
    });

    it("are rejected beyond 100 of one session in a process, while another process can queue one", async (t) => {
      const { localAgent, remoteAgent, open, sessionId, queued } = await busy(t, await make(t));
      const abort = new AbortController();
      const queuedRuns = await Promise.all(
        Array.from({ length: 100 }, () => queued(localAgent, "m", { signal: abort.signal })),
      );
      await assert.rejects(localAgent.run({ message: "m", sessionId, queue: true }), {
        code: "too_many_runs",
        message: "too many runs wait for this session",
      });
      const foreignRun = await queued(remoteAgent, "of another process", { signal: abort.signal });
      open.open();
      abort.abort();
      await Promise.allSettled([...queuedRuns, foreignRun].map(({ outcome }) => outcome));
      assert.equal((await (await localAgent.run({ message: "m", sessionId, queue: true })).result).output, "done");
    });

    it("wait for earlier runs, also for those of a process that polls later", async (t) => {
      const { localAgent, remoteAgent, second, open, activeRun, queued, userTexts, answered } = await busy(
        t,
        await make(t),
      );
      const first = await queued(remoteAgent, "m0");
      const pollGate = gate();
      const { runs } = second;
      second.runs = async (query) => {
        await pollGate.wait();
        return runs.call(second, query);
      };
      const next = await queued(localAgent, "m1");
      const polled = answered("runs", (all) => all.every(({ run }) => run.state === "queued"));
      open.open();
      await activeRun.result;
      await polled;
      await answered("runs");
      assert.equal((await localAgent.runs.get(next.id))?.state, "queued");
      pollGate.open();
      await Promise.all([first.outcome, next.outcome]);
      assert.deepEqual(await userTexts(), ["first", "m0", "m1"]);
    });

    it("leave the queue when cancelled by signal or from any process, and later runs move up", async (t) => {
      const { localAgent, remoteAgent, open, sessionId, queued, userTexts, stateOf } = await busy(t, await make(t));
      const abort = new AbortController();
      const a = await queued(localAgent, "a", { signal: abort.signal });
      const b = await queued(localAgent, "b");
      const c = await queued(localAgent, "c");
      const d = await queued(localAgent, "d");
      abort.abort();
      await assert.rejects(a.outcome, { code: "run_cancelled" });
      assert.equal((await cancelled(localAgent, b.id)).state, "cancelled");
      assert.equal((await cancelled(remoteAgent, c.id)).state, "cancelled");
      for (const { outcome } of [b, c]) await assert.rejects(outcome, { code: "run_cancelled" });
      for (const { id } of [a, b, c]) assert.equal(await stateOf(id), "cancelled");
      // A watcher sees only runs that have started.
      for await (const event of remoteAgent.sessions.watch(sessionId, { follow: false }))
        if (event.type === "state") assert.equal(event.state.run?.state, "running");
      open.open();
      await d.outcome;
      assert.deepEqual(await userTexts(), ["first", "d"]);
      assert.deepEqual([d.aheadCounts[0], d.aheadCounts.at(-1)! <= 1], [4, true]);
    });

    it("end with their session, whichever process deletes it", async (t) => {
      for (const side of ["localAgent", "remoteAgent"] as const) {
        const setup = await busy(t, await make(t));
        const a = await setup.queued(setup.localAgent, "a");
        await setup[side].sessions.delete(setup.sessionId);
        await assert.rejects(a.outcome, { code: "session_not_found" });
        setup.open.open();
        await assert.rejects(setup.activeRun.result);
        assert.equal(await setup.localAgent.runs.get(a.id), undefined);
      }
    });

    it("are cancelled when their agent shuts down, and those of another agent continue", async (t) => {
      const { localAgent, remoteAgent, open, sessionId, queued, stateOf, userTexts } = await busy(t, await make(t));
      const a = await queued(remoteAgent, "a");
      const b = await queued(localAgent, "b");
      remoteAgent.refuseNew();
      await assert.rejects(a.outcome, { code: "shutting_down" });
      await assert.rejects(remoteAgent.run({ message: "x", sessionId, queue: true }), { code: "shutting_down" });
      assert.equal(await stateOf(a.id), "cancelled");
      open.open();
      await b.outcome;
      assert.deepEqual(await userTexts(), ["first", "b"]);
    });

    it("are interrupted if their process died or their lease expired, and do not block others", async (t) => {
      const driver = await make(t);
      const { localAgent, remoteAgent, open, sessionId, queued, activeRun, stateOf, userTexts } = await busy(t, driver);
      const store = driver();
      await store.open();
      t.after(() => store.close());
      const record = (await localAgent.runs.get(activeRun.id))!;
      const holder = currentHolder();
      const later = new Date(Date.now() + 60_000).toISOString();
      const lines = {
        dead: { holder: { ...holder, pid: 2 ** 30 }, expiresAt: later },
        stale: { holder: { ...holder, host: "elsewhere" }, expiresAt: new Date(Date.now() - 1).toISOString() },
      };
      for (const [id, line] of Object.entries(lines)) {
        const run = {
          ...record,
          id,
          idempotencyKey: `k-${id}`,
          state: "queued",
          startedAt: new Date().toISOString(),
          line,
        } as const;
        await store.write(sessionId, { fence: null, sync: false, runs: [run] });
        assert.equal(await stateOf(id), "interrupted");
      }
      const a = await queued(remoteAgent, "a");
      assert.equal(a.aheadCounts[0], 1);
      open.open();
      await a.outcome;
      assert.deepEqual(await userTexts(), ["first", "a"]);
      for (const id of ["dead", "stale"]) assert.equal((await findRun(store, id))?.run.state, "interrupted");
    });

    it("have priority over a new run if the session has no active run", async (t) => {
      const driver = await make(t);
      const { localAgent, remoteAgent, open, activeRun, sessionId, stateOf } = await busy(t, driver);
      const store = driver();
      await store.open();
      t.after(() => store.close());
      open.open();
      await activeRun.result;
      const record = (await localAgent.runs.get(activeRun.id))!;
      const line = { holder: currentHolder(), expiresAt: new Date(Date.now() + 60_000).toISOString() };
      const foreignRecord = {
        ...record,
        id: "other",
        state: "queued",
        startedAt: new Date().toISOString(),
        line,
      } as const;
      await store.write(sessionId, { fence: null, sync: false, runs: [foreignRecord] });
      await assert.rejects(remoteAgent.run({ message: "no", sessionId }), { code: "session_busy" });
      let aheadCounts: number[] = [];
      const localRun = localAgent.run({
        message: "mine",
        sessionId,
        queue: true,
        onQueued: (ahead) => (aheadCounts = [...aheadCounts, ahead]),
      });
      await until(() => aheadCounts.length > 0);
      assert.equal(aheadCounts[0], 1);
      assert.equal(await stateOf("other"), "queued");
      await store.write(sessionId, { fence: null, sync: false, runs: [{ ...foreignRecord, state: "cancelled" }] });
      await (
        await localRun
      ).result;
    });

    it("take no slot of an active run, but are limited to the same number", async (t) => {
      const { localAgent, open, sessionId, queued, userTexts } = await busy(t, await make(t), { concurrentRuns: 1 });
      const a = await queued(localAgent, "a");
      await assert.rejects(localAgent.run({ message: "b", sessionId, queue: true }), { code: "too_many_runs" });
      open.open();
      await a.outcome;
      assert.deepEqual(await userTexts(), ["first", "a"]);
    });

    it("wait for a slot if other sessions' runs have taken all", async (t) => {
      const { localAgent, open, activeRun, answered } = await busy(t, await make(t), { concurrentRuns: 1 });
      const { id } = await localAgent.sessions.create();
      const aheadCounts: number[] = [];
      const onQueued = (ahead: number) => void aheadCounts.push(ahead);
      const waits = localAgent.run({ message: "a", sessionId: id, queue: true, onQueued });
      await until(() => aheadCounts.length > 0);
      // After two more polls it still waits.
      for (let poll = 0; poll < 2; poll += 1) await answered("runs");
      assert.equal(await localAgent.sessions.isRunning(id), false);
      open.open();
      await activeRun.result;
      await (
        await waits
      ).result;
      assert.deepEqual(aheadCounts, [0]);
    });

    it("keep waiting after they were marked as interrupted, and fail if another run took their key", async (t) => {
      const driver = await make(t);
      const { localAgent, open, sessionId, queued, userTexts, stateOf } = await busy(t, driver);
      const store = driver();
      await store.open();
      t.after(() => store.close());
      const a = await queued(localAgent, "a", { idempotencyKey: "ka" });
      const b = await queued(localAgent, "b", { idempotencyKey: "kb" });
      const write = (...runs: RunRecord[]) => store.write(sessionId, { fence: null, sync: false, runs });
      await write({ ...a.record, state: "interrupted" });
      await until(async () => (await stateOf(a.id)) === "queued");
      const foreignRecord = { ...b.record, id: "other", state: "finished", line: null } as const;
      await write({ ...b.record, state: "interrupted", idempotencyKey: "" }, foreignRecord);
      await assert.rejects(b.outcome, { code: "run_key_taken" });
      assert.equal(await stateOf(b.id), "failed");
      open.open();
      await a.outcome;
      assert.deepEqual(await userTexts(), ["first", "a"]);
    });

    it("store the error that prevented their start, and keep their key", async (t) => {
      const { localAgent, remoteAgent, open, queued, sessionId } = await busy(t, await make(t));
      const attach = () => Promise.reject(new Error("the detail"));
      const a = await queued(localAgent, "a", { attach, idempotencyKey: "k", fingerprint: "f" });
      await assert.rejects(remoteAgent.run({ message: "a", idempotencyKey: "k", sessionId, queue: true }), {
        code: "run_key_taken",
      });
      const ended = remoteAgent.runs.ended(a.id);
      open.open();
      await assert.rejects(a.outcome, { message: "the detail" });
      const run = await ended;
      assert.deepEqual([run.state, run.error?.code, run.idempotencyKey], ["failed", "internal", "k"]);
      const next = await localAgent.run({ message: "next", sessionId, queue: true });
      await next.result;
    });
  });

describe("a steering message that arrives too late", () => {
  it("becomes a run of its own at the end of the queue, without the idempotency key", async (t) => {
    const driver = new MemoryDriver();
    const setup = await busy(t, () => driver);
    const { localAgent, open, activeRun, sessionId, queued, userTexts } = setup;
    const keyed = await queued(localAgent, "keyed", { idempotencyKey: "k", fingerprint: "f" });
    const last = await queued(localAgent, "last");
    // The message arrives after the last poll of the keyed run and before its end is stored.
    const { write } = driver;
    driver.write = async (id, change) => {
      const ended = change.runs?.find((run) => run.id === keyed.id && run.endedAt !== "");
      if (ended) {
        const lateInstruction = { id: "late", sessionId: id, runId: ended.id, kind: "steer", text: "late" } as const;
        await sendInstruction(driver, { ...lateInstruction, createdAt: ended.endedAt });
      }
      return write.call(driver, id, change);
    };
    open.open();
    await Promise.all([activeRun.result, keyed.outcome, last.outcome]);
    await until(async () => (await userTexts()).length >= 4);
    assert.deepEqual(await userTexts(), ["first", "keyed", "last", "late"]);
    await until(async () => !(await localAgent.sessions.isRunning(sessionId)));
    const [run] = await localAgent.runs.list({ idempotencyKey: "k" });
    assert.equal(run?.id, keyed.id);
  });
});

describe("RunInput.queue", () => {
  it("is checked, and has no effect for a new session", async (t) => {
    const folder = await tempDir(t);
    const agent = new Agent({ providers: [new ScriptedProvider(["one"])], projectDir: folder.path });
    t.after(() => agent.close());
    for (const wrong of [{ queue: "yes" }, { onQueued: 1 }])
      await assert.rejects(agent.run({ message: "x", ...(wrong as object) }), { code: "invalid_input" });
    const onQueued = () => assert.fail("nobody is in the way");
    assert.equal((await (await agent.run({ message: "x", queue: true, onQueued })).result).output, "one");
  });
});
