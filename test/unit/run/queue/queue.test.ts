import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, MemoryDriver, type Message, type RunInput, type RunRecord } from "gantry";
import { currentHolder, type SessionDriver } from "gantry/plugin";
import { callTools, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { instruct, runOf } from "../../../../src/testing/session-driver/rule.js";
import { cancelled } from "../../../helpers/cancelled.js";
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
  const under = await localAgent.run({ message: "first" });
  await open.reached;
  const { sessionId } = under;
  /** Queues a run. Returns its `queued` notifications and its outcome. */
  const queued = async (agent: Agent, message: string, input: Partial<RunInput> = {}) => {
    const heard: number[] = [];
    let outcome!: Promise<unknown>;
    const record = await new Promise<RunRecord>((resolve, reject) => {
      const onQueued = (ahead: number, run: RunRecord) => {
        heard.push(ahead);
        resolve(run);
      };
      outcome = agent.run({ message, sessionId, queue: true, onQueued, ...input }).then((run) => run.result);
      outcome.then(() => reject(new Error("it did not wait")), reject);
    });
    return { heard, id: record.id, outcome, record };
  };
  const userTexts = async () =>
    (await remoteAgent.sessions.messages(sessionId))
      .filter(({ role }: Message) => role === "user")
      .map(({ parts }) => parts.map((part) => ("text" in part ? part.text : part.type)).join(""));
  const stateOf = async (id: string) => (await remoteAgent.runs.get(id))?.state;
  return {
    here: localAgent,
    there: remoteAgent,
    second,
    open,
    under,
    sessionId,
    queued,
    said: userTexts,
    stateOf,
    answered,
  };
}

for (const [name, make] of STORES)
  describe(`runs in line (${name})`, () => {
    it("begin in the order in which they were asked for, whichever process asked, and hear how many are before them", async (t) => {
      const {
        here: localAgent,
        there: remoteAgent,
        open,
        under,
        sessionId,
        queued,
        said: userTexts,
        stateOf,
      } = await busy(t, await make(t));
      const line = [];
      for (const [n, agent] of [localAgent, remoteAgent, remoteAgent, localAgent, remoteAgent].entries())
        line.push(await queued(agent, `m${n}`));
      assert.deepEqual(
        line.map(({ heard }) => heard[0]),
        [1, 2, 3, 4, 5],
      );
      const listed = await remoteAgent.runs.list({ sessionId, states: ["queued"] });
      assert.deepEqual(
        listed.map(({ id }) => id),
        line.map(({ id }) => id).reverse(),
      );
      // A watcher sees the active run.
      for await (const event of remoteAgent.sessions.watch(sessionId, { follow: false }))
        if (event.type === "state") assert.equal(event.state.run?.id, under.id);
      // A run without `queue` is rejected as before.
      await assert.rejects(remoteAgent.run({ message: "no", sessionId }), { code: "session_busy" });
      open.open();
      await Promise.all(line.map(({ outcome }) => outcome));
      assert.deepEqual(await userTexts(), ["first", "m0", "m1", "m2", "m3", "m4"]);
      for (const { heard, id, record } of line) {
        assert.deepEqual(
          heard,
          [...heard].sort((a, b) => b - a),
        );
        const run = await localAgent.runs.get(id);
        assert.equal(run?.state, "finished");
        assert.equal(run.queueLease, null);
        assert.ok(run.startedAt >= record.startedAt);
      }
      assert.deepEqual(await localAgent.runs.list({ states: ["queued", "interrupted"] }), []);
      assert.equal(await stateOf(under.id), "finished");
    });

    it("are refused beyond 100 of one session in a process, and none of another session", async (t) => {
      const { here: localAgent, there: remoteAgent, open, sessionId, queued } = await busy(t, await make(t));
      const gone = new AbortController();
      const line = await Promise.all(
        Array.from({ length: 100 }, () => queued(localAgent, "m", { signal: gone.signal })),
      );
      await assert.rejects(localAgent.run({ message: "m", sessionId, queue: true }), {
        code: "too_many_runs",
        message: "too many runs wait for this session",
      });
      const foreignRun = await queued(remoteAgent, "of another process", { signal: gone.signal });
      open.open();
      gone.abort();
      await Promise.allSettled([...line, foreignRun].map(({ outcome }) => outcome));
      assert.equal((await (await localAgent.run({ message: "m", sessionId, queue: true })).result).output, "done");
    });

    it("wait for those before them, also for those of a process that looks later", async (t) => {
      const {
        here: localAgent,
        there: remoteAgent,
        second,
        open,
        under,
        queued,
        said: userTexts,
        answered,
      } = await busy(t, await make(t));
      const first = await queued(remoteAgent, "m0");
      const looksLater = gate();
      const { runs } = second;
      second.runs = async (query) => {
        await looksLater.wait();
        return runs.call(second, query);
      };
      const next = await queued(localAgent, "m1");
      const looked = answered("runs", (all) => all.every(({ run }) => run.state === "queued"));
      open.open();
      await under.result;
      await looked;
      await answered("runs");
      assert.equal((await localAgent.runs.get(next.id))?.state, "queued");
      looksLater.open();
      await Promise.all([first.outcome, next.outcome]);
      assert.deepEqual(await userTexts(), ["first", "m0", "m1"]);
    });

    it("leave it when they are cancelled, by their signal or by anybody, and those behind them come nearer", async (t) => {
      const {
        here: localAgent,
        there: remoteAgent,
        open,
        sessionId,
        queued,
        said: userTexts,
        stateOf,
      } = await busy(t, await make(t));
      const gone = new AbortController();
      const a = await queued(localAgent, "a", { signal: gone.signal });
      const b = await queued(localAgent, "b");
      const c = await queued(localAgent, "c");
      const d = await queued(localAgent, "d");
      gone.abort();
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
      assert.deepEqual([d.heard[0], d.heard.at(-1)! <= 1], [4, true]);
    });

    it("end with their session, whoever deletes it", async (t) => {
      for (const which of ["here", "there"] as const) {
        const line = await busy(t, await make(t));
        const a = await line.queued(line.here, "a");
        await line[which].sessions.delete(line.sessionId);
        await assert.rejects(a.outcome, { code: "session_not_found" });
        line.open.open();
        await assert.rejects(line.under.result);
        assert.equal(await line.here.runs.get(a.id), undefined);
      }
    });

    it("end with their agent, and are passed over by those of others", async (t) => {
      const {
        here: localAgent,
        there: remoteAgent,
        open,
        sessionId,
        queued,
        stateOf,
        said: userTexts,
      } = await busy(t, await make(t));
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

    it("are interrupted when their process died, and hold nobody up", async (t) => {
      const driver = await make(t);
      const {
        here: localAgent,
        there: remoteAgent,
        open,
        sessionId,
        queued,
        under,
        stateOf,
        said: userTexts,
      } = await busy(t, driver);
      const store = driver();
      await store.open();
      t.after(() => store.close());
      const record = (await localAgent.runs.get(under.id))!;
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
      assert.equal(a.heard[0], 1);
      open.open();
      await a.outcome;
      assert.deepEqual(await userTexts(), ["first", "a"]);
      for (const id of ["dead", "stale"]) assert.equal((await runOf(store, id))?.run.state, "interrupted");
    });

    it("come before whoever finds the session free", async (t) => {
      const driver = await make(t);
      const { here: localAgent, there: remoteAgent, open, under, sessionId, stateOf } = await busy(t, driver);
      const store = driver();
      await store.open();
      t.after(() => store.close());
      open.open();
      await under.result;
      const record = (await localAgent.runs.get(under.id))!;
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
      let heard: number[] = [];
      const localRun = localAgent.run({
        message: "mine",
        sessionId,
        queue: true,
        onQueued: (ahead) => (heard = [...heard, ahead]),
      });
      await until(() => heard.length > 0);
      assert.equal(heard[0], 1);
      assert.equal(await stateOf("other"), "queued");
      await store.write(sessionId, { fence: null, sync: false, runs: [{ ...foreignRecord, state: "cancelled" }] });
      await (
        await localRun
      ).result;
    });

    it("take no place of those that go on, and are limited like them", async (t) => {
      const {
        here: localAgent,
        open,
        sessionId,
        queued,
        said: userTexts,
      } = await busy(t, await make(t), { concurrentRuns: 1 });
      const a = await queued(localAgent, "a");
      await assert.rejects(localAgent.run({ message: "b", sessionId, queue: true }), { code: "too_many_runs" });
      open.open();
      await a.outcome;
      assert.deepEqual(await userTexts(), ["first", "a"]);
    });

    it("wait for a place too, where all are taken by others", async (t) => {
      const { here: localAgent, open, under, answered } = await busy(t, await make(t), { concurrentRuns: 1 });
      const { id } = await localAgent.sessions.create();
      const heard: number[] = [];
      const onQueued = (ahead: number) => void heard.push(ahead);
      const waits = localAgent.run({ message: "a", sessionId: id, queue: true, onQueued });
      await until(() => heard.length > 0);
      // After two more polls it still waits.
      for (let look = 0; look < 2; look += 1) await answered("runs");
      assert.equal(await localAgent.sessions.isRunning(id), false);
      open.open();
      await under.result;
      await (
        await waits
      ).result;
      assert.deepEqual(heard, [0]);
    });

    it("wait on when their process was taken for dead, unless their key went to another", async (t) => {
      const driver = await make(t);
      const { here: localAgent, open, sessionId, queued, said: userTexts, stateOf } = await busy(t, driver);
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

    it("keep why they could not begin, and their key", async (t) => {
      const { here: localAgent, there: remoteAgent, open, queued, sessionId } = await busy(t, await make(t));
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

describe("what a run was told too late", () => {
  it("is the next in line, a run of its own with no key", async (t) => {
    const driver = new MemoryDriver();
    const line = await busy(t, () => driver);
    const { here: localAgent, open, under, sessionId, queued, said: userTexts } = line;
    const keyed = await queued(localAgent, "keyed", { idempotencyKey: "k", fingerprint: "f" });
    const last = await queued(localAgent, "last");
    // Arrives after the last poll of the keyed run and before its end is stored.
    const { write } = driver;
    driver.write = async (id, change) => {
      const ended = change.runs?.find((run) => run.id === keyed.id && run.endedAt !== "");
      if (ended) {
        const lateInstruction = { id: "late", sessionId: id, runId: ended.id, kind: "steer", text: "late" } as const;
        await instruct(driver, { ...lateInstruction, createdAt: ended.endedAt });
      }
      return write.call(driver, id, change);
    };
    open.open();
    await Promise.all([under.result, keyed.outcome, last.outcome]);
    await until(async () => (await userTexts()).length >= 4);
    assert.deepEqual(await userTexts(), ["first", "keyed", "last", "late"]);
    await until(async () => !(await localAgent.sessions.isRunning(sessionId)));
    const [run] = await localAgent.runs.list({ idempotencyKey: "k" });
    assert.equal(run?.id, keyed.id);
  });
});

describe("RunInput.queue", () => {
  it("is checked, and changes nothing for a session that is new", async (t) => {
    const folder = await tempDir(t);
    const agent = new Agent({ providers: [new ScriptedProvider(["one"])], projectDir: folder.path });
    t.after(() => agent.close());
    for (const wrong of [{ queue: "yes" }, { onQueued: 1 }])
      await assert.rejects(agent.run({ message: "x", ...(wrong as object) }), { code: "invalid_input" });
    const onQueued = () => assert.fail("nobody is in the way");
    assert.equal((await (await agent.run({ message: "x", queue: true, onQueued })).result).output, "one");
  });
});
