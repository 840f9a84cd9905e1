import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, MemoryDriver, type Message, type RunInput, type RunRecord } from "gantry";
import { currentHolder, type SessionDriver } from "gantry/plugin";
import { ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { findRun, sendInstruction } from "../../../../src/testing/session-driver/driver-calls.js";
import { cancelAndWait } from "../../../helpers/cancel-run.js";
import { createGate } from "../../../helpers/gate.js";
import { waitUntil } from "../../../helpers/server-runs.js";
import { createAgents, WAIT_STEP } from "../../../helpers/steered-agents.js";
import { STORES } from "../../../helpers/stores.js";
import { tempDir, type Hooks } from "../../../helpers/temp-dir.js";

/** Two agents on one store, like two processes, and a session in which a run of the first agent waits for the gate. */
async function startBusySession(t: Hooks, openDriver: () => SessionDriver, { concurrentRuns = 512 } = {}) {
  const script = [WAIT_STEP, ...Array<ScriptedStep>(20).fill("done")];
  const agents = await createAgents(t, openDriver, script, { concurrentRuns });
  const { localAgent, remoteAgent, toolGate } = agents;
  const activeRun = await localAgent.run({ message: "first" });
  await toolGate.firstWait;
  const { sessionId } = activeRun;
  /** Queues a run. Returns its `queued` notifications and its result. */
  const queueRun = async (agent: Agent, message: string, input: Partial<RunInput> = {}) => {
    const aheadCounts: number[] = [];
    let result!: Promise<unknown>;
    const record = await new Promise<RunRecord>((resolve, reject) => {
      const onQueued = (ahead: number, run: RunRecord) => {
        aheadCounts.push(ahead);
        resolve(run);
      };
      result = agent.run({ message, sessionId, queue: true, onQueued, ...input }).then((run) => run.result);
      result.then(() => reject(new Error("the run was not queued")), reject);
    });
    return { aheadCounts, id: record.id, result, record };
  };
  const readUserTexts = async () =>
    (await remoteAgent.sessions.messages(sessionId))
      .filter(({ role }: Message) => role === "user")
      .map(({ parts }) => parts.map((part) => ("text" in part ? part.text : part.type)).join(""));
  const readState = async (id: string) => (await remoteAgent.runs.get(id))?.state;
  return { ...agents, activeRun, sessionId, queueRun, readUserTexts, readState };
}

for (const [name, makeStore] of STORES)
  describe(`queued runs (${name})`, () => {
    it("start in the order of their requests, from any process, and report how many runs are ahead", async (t) => {
      const { localAgent, remoteAgent, toolGate, activeRun, sessionId, queueRun, readUserTexts, readState } =
        await startBusySession(t, await makeStore(t));
      const queuedRuns = [];
      for (const [n, agent] of [localAgent, remoteAgent, remoteAgent, localAgent, remoteAgent].entries())
        queuedRuns.push(await queueRun(agent, `m${n}`));
      assert.deepEqual(
        queuedRuns.map(({ aheadCounts }) => aheadCounts[0]),
        [1, 2, 3, 4, 5],
      );
      const queuedRecords = await remoteAgent.runs.list({ sessionId, states: ["queued"] });
      assert.deepEqual(
        queuedRecords.map(({ id }) => id),
        queuedRuns.map(({ id }) => id).reverse(),
      );
      // A watcher sees the active run.
      for await (const event of remoteAgent.sessions.watch(sessionId, { follow: false }))
        if (event.type === "state") assert.equal(event.state.run?.id, activeRun.id);
      // A run without `queue` is rejected as before.
      await assert.rejects(remoteAgent.run({ message: "no", sessionId }), { code: "session_busy" });
      toolGate.open();
      await Promise.all(queuedRuns.map(({ result }) => result));
      assert.deepEqual(await readUserTexts(), ["first", "m0", "m1", "m2", "m3", "m4"]);
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
      assert.equal(await readState(activeRun.id), "finished");
    });

    it("are rejected beyond 100 of one session in a process, while another process can queue one", async (t) => {
      const { localAgent, remoteAgent, toolGate, sessionId, queueRun } = await startBusySession(t, await makeStore(t));
      const cancelController = new AbortController();
      const queuedRuns = await Promise.all(
        Array.from({ length: 100 }, () => queueRun(localAgent, "m", { signal: cancelController.signal })),
      );
      await assert.rejects(localAgent.run({ message: "m", sessionId, queue: true }), {
        code: "too_many_runs",
        message: "too many runs wait for this session",
      });
      const foreignRun = await queueRun(remoteAgent, "of another process", { signal: cancelController.signal });
      toolGate.open();
      cancelController.abort();
      await Promise.allSettled([...queuedRuns, foreignRun].map(({ result }) => result));
      assert.equal((await (await localAgent.run({ message: "m", sessionId, queue: true })).result).output, "done");
    });

    it("wait for earlier runs, also for those of a process that polls later", async (t) => {
      const { localAgent, remoteAgent, remoteDriver, toolGate, activeRun, queueRun, readUserTexts, waitForResult } =
        await startBusySession(t, await makeStore(t));
      const firstRun = await queueRun(remoteAgent, "m0");
      const pollGate = createGate();
      const { runs } = remoteDriver;
      remoteDriver.runs = async (query) => {
        await pollGate.wait();
        return runs.call(remoteDriver, query);
      };
      const nextRun = await queueRun(localAgent, "m1");
      const localPoll = waitForResult("runs", (listedRuns) => listedRuns.every(({ run }) => run.state === "queued"));
      toolGate.open();
      await activeRun.result;
      await localPoll;
      await waitForResult("runs");
      assert.equal((await localAgent.runs.get(nextRun.id))?.state, "queued");
      pollGate.open();
      await Promise.all([firstRun.result, nextRun.result]);
      assert.deepEqual(await readUserTexts(), ["first", "m0", "m1"]);
    });

    it("leave the queue when cancelled by signal or from any process, and later runs move up", async (t) => {
      const { localAgent, remoteAgent, toolGate, sessionId, queueRun, readUserTexts, readState } =
        await startBusySession(t, await makeStore(t));
      const cancelController = new AbortController();
      const runA = await queueRun(localAgent, "a", { signal: cancelController.signal });
      const runB = await queueRun(localAgent, "b");
      const runC = await queueRun(localAgent, "c");
      const runD = await queueRun(localAgent, "d");
      cancelController.abort();
      await assert.rejects(runA.result, { code: "run_cancelled" });
      assert.equal((await cancelAndWait(localAgent, runB.id)).state, "cancelled");
      assert.equal((await cancelAndWait(remoteAgent, runC.id)).state, "cancelled");
      for (const { result } of [runB, runC]) await assert.rejects(result, { code: "run_cancelled" });
      for (const { id } of [runA, runB, runC]) assert.equal(await readState(id), "cancelled");
      // A watcher sees only runs that have started.
      for await (const event of remoteAgent.sessions.watch(sessionId, { follow: false }))
        if (event.type === "state") assert.equal(event.state.run?.state, "running");
      toolGate.open();
      await runD.result;
      assert.deepEqual(await readUserTexts(), ["first", "d"]);
      assert.deepEqual([runD.aheadCounts[0], runD.aheadCounts.at(-1)! <= 1], [4, true]);
    });

    it("end with their session, whichever process deletes it", async (t) => {
      for (const side of ["localAgent", "remoteAgent"] as const) {
        const setup = await startBusySession(t, await makeStore(t));
        const runA = await setup.queueRun(setup.localAgent, "a");
        await setup[side].sessions.delete(setup.sessionId);
        await assert.rejects(runA.result, { code: "session_not_found" });
        setup.toolGate.open();
        await assert.rejects(setup.activeRun.result);
        assert.equal(await setup.localAgent.runs.get(runA.id), undefined);
      }
    });

    it("are cancelled when their agent shuts down, and those of another agent continue", async (t) => {
      const { localAgent, remoteAgent, toolGate, sessionId, queueRun, readState, readUserTexts } =
        await startBusySession(t, await makeStore(t));
      const runA = await queueRun(remoteAgent, "a");
      const runB = await queueRun(localAgent, "b");
      remoteAgent.stopAccepting();
      await assert.rejects(runA.result, { code: "shutting_down" });
      await assert.rejects(remoteAgent.run({ message: "x", sessionId, queue: true }), { code: "shutting_down" });
      assert.equal(await readState(runA.id), "cancelled");
      toolGate.open();
      await runB.result;
      assert.deepEqual(await readUserTexts(), ["first", "b"]);
    });

    it("are interrupted if their process died or their lease expired, and do not block others", async (t) => {
      const openDriver = await makeStore(t);
      const { localAgent, remoteAgent, toolGate, sessionId, queueRun, activeRun, readState, readUserTexts } =
        await startBusySession(t, openDriver);
      const store = openDriver();
      await store.open();
      t.after(() => store.close());
      const record = (await localAgent.runs.get(activeRun.id))!;
      const holder = currentHolder();
      const later = new Date(Date.now() + 60_000).toISOString();
      const queueLeases = {
        dead: { holder: { ...holder, pid: 2 ** 30 }, expiresAt: later },
        stale: { holder: { ...holder, host: "elsewhere" }, expiresAt: new Date(Date.now() - 1).toISOString() },
      };
      for (const [id, queueLease] of Object.entries(queueLeases)) {
        const run = {
          ...record,
          id,
          idempotencyKey: `k-${id}`,
          state: "queued",
          startedAt: new Date().toISOString(),
          queueLease,
        } as const;
        await store.write(sessionId, { fence: null, sync: false, runs: [run] });
        assert.equal(await readState(id), "interrupted");
      }
      const runA = await queueRun(remoteAgent, "a");
      assert.equal(runA.aheadCounts[0], 1);
      toolGate.open();
      await runA.result;
      assert.deepEqual(await readUserTexts(), ["first", "a"]);
      for (const id of ["dead", "stale"]) assert.equal((await findRun(store, id))?.run.state, "interrupted");
    });

    it("have priority over a new run if the session has no active run", async (t) => {
      const openDriver = await makeStore(t);
      const { localAgent, remoteAgent, toolGate, activeRun, sessionId, readState } = await startBusySession(
        t,
        openDriver,
      );
      const store = openDriver();
      await store.open();
      t.after(() => store.close());
      toolGate.open();
      await activeRun.result;
      const record = (await localAgent.runs.get(activeRun.id))!;
      const queueLease = { holder: currentHolder(), expiresAt: new Date(Date.now() + 60_000).toISOString() };
      const foreignRecord = {
        ...record,
        id: "other",
        state: "queued",
        startedAt: new Date().toISOString(),
        queueLease,
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
      await waitUntil(() => aheadCounts.length > 0);
      assert.equal(aheadCounts[0], 1);
      assert.equal(await readState("other"), "queued");
      await store.write(sessionId, { fence: null, sync: false, runs: [{ ...foreignRecord, state: "cancelled" }] });
      await (
        await localRun
      ).result;
    });

    it("take no slot of an active run, but are limited to the same number", async (t) => {
      const { localAgent, toolGate, sessionId, queueRun, readUserTexts } = await startBusySession(
        t,
        await makeStore(t),
        { concurrentRuns: 1 },
      );
      const runA = await queueRun(localAgent, "a");
      await assert.rejects(localAgent.run({ message: "b", sessionId, queue: true }), { code: "too_many_runs" });
      toolGate.open();
      await runA.result;
      assert.deepEqual(await readUserTexts(), ["first", "a"]);
    });

    it("wait for a slot if other sessions' runs have taken all", async (t) => {
      const { localAgent, toolGate, activeRun, waitForResult } = await startBusySession(t, await makeStore(t), {
        concurrentRuns: 1,
      });
      const { id } = await localAgent.sessions.create();
      const aheadCounts: number[] = [];
      const onQueued = (ahead: number) => void aheadCounts.push(ahead);
      const pendingRun = localAgent.run({ message: "a", sessionId: id, queue: true, onQueued });
      await waitUntil(() => aheadCounts.length > 0);
      // After two more polls it still waits.
      for (let i = 0; i < 2; i += 1) await waitForResult("runs");
      assert.equal(await localAgent.sessions.isRunning(id), false);
      toolGate.open();
      await activeRun.result;
      await (
        await pendingRun
      ).result;
      assert.deepEqual(aheadCounts, [0]);
    });

    it("keep waiting after they were marked as interrupted, and fail if another run took their key", async (t) => {
      const openDriver = await makeStore(t);
      const { localAgent, toolGate, sessionId, queueRun, readUserTexts, readState } = await startBusySession(
        t,
        openDriver,
      );
      const store = openDriver();
      await store.open();
      t.after(() => store.close());
      const runA = await queueRun(localAgent, "a", { idempotencyKey: "ka" });
      const runB = await queueRun(localAgent, "b", { idempotencyKey: "kb" });
      const writeRuns = (...runs: RunRecord[]) => store.write(sessionId, { fence: null, sync: false, runs });
      await writeRuns({ ...runA.record, state: "interrupted" });
      await waitUntil(async () => (await readState(runA.id)) === "queued");
      const foreignRecord = { ...runB.record, id: "other", state: "finished", queueLease: null } as const;
      await writeRuns({ ...runB.record, state: "interrupted", idempotencyKey: "" }, foreignRecord);
      await assert.rejects(runB.result, { code: "run_key_taken" });
      assert.equal(await readState(runB.id), "failed");
      toolGate.open();
      await runA.result;
      assert.deepEqual(await readUserTexts(), ["first", "a"]);
    });

    it("store the error that prevented their start, and keep their key", async (t) => {
      const { localAgent, remoteAgent, toolGate, queueRun, sessionId } = await startBusySession(t, await makeStore(t));
      const failToAttach = () => Promise.reject(new Error("the detail"));
      const runA = await queueRun(localAgent, "a", { attach: failToAttach, idempotencyKey: "k", fingerprint: "f" });
      await assert.rejects(remoteAgent.run({ message: "a", idempotencyKey: "k", sessionId, queue: true }), {
        code: "run_key_taken",
      });
      const endedRecord = remoteAgent.runs.ended(runA.id);
      toolGate.open();
      await assert.rejects(runA.result, { message: "the detail" });
      const run = await endedRecord;
      assert.deepEqual([run.state, run.error?.code, run.idempotencyKey], ["failed", "internal", "k"]);
      const nextRun = await localAgent.run({ message: "next", sessionId, queue: true });
      await nextRun.result;
    });
  });

describe("a steering message that arrives too late", () => {
  it("becomes a run of its own at the end of the queue, without the idempotency key", async (t) => {
    const driver = new MemoryDriver();
    const setup = await startBusySession(t, () => driver);
    const { localAgent, toolGate, activeRun, sessionId, queueRun, readUserTexts } = setup;
    const keyedRun = await queueRun(localAgent, "keyed", { idempotencyKey: "k", fingerprint: "f" });
    const lastRun = await queueRun(localAgent, "last");
    // The message arrives after the last poll of the keyed run and before its end is stored.
    const { write } = driver;
    driver.write = async (id, change) => {
      const endedRun = change.runs?.find((run) => run.id === keyedRun.id && run.endedAt !== "");
      if (endedRun) {
        const lateInstruction = { id: "late", sessionId: id, runId: endedRun.id, kind: "steer", text: "late" } as const;
        await sendInstruction(driver, { ...lateInstruction, createdAt: endedRun.endedAt });
      }
      return write.call(driver, id, change);
    };
    toolGate.open();
    await Promise.all([activeRun.result, keyedRun.result, lastRun.result]);
    await waitUntil(async () => (await readUserTexts()).length >= 4);
    assert.deepEqual(await readUserTexts(), ["first", "keyed", "last", "late"]);
    await waitUntil(async () => !(await localAgent.sessions.isRunning(sessionId)));
    const [run] = await localAgent.runs.list({ idempotencyKey: "k" });
    assert.equal(run?.id, keyedRun.id);
  });
});

describe("RunInput.queue", () => {
  it("is checked, and has no effect for a new session", async (t) => {
    const folder = await tempDir(t);
    const agent = new Agent({ providers: [new ScriptedProvider(["one"])], projectDir: folder.path });
    t.after(() => agent.close());
    for (const invalidInput of [{ queue: "yes" }, { onQueued: 1 }])
      await assert.rejects(agent.run({ message: "x", ...(invalidInput as object) }), { code: "invalid_input" });
    const onQueued = () => assert.fail("a run of a new session is not queued");
    assert.equal((await (await agent.run({ message: "x", queue: true, onQueued })).result).output, "one");
  });
});
