import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, MemoryDriver, silentLogger, type Message } from "gantry";
import type { SessionDriver } from "gantry/plugin";
import { callTools, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { Inbox } from "../../../../src/run/queue/inbox.js";
import { instruct, withdraw } from "../../../../src/testing/session-driver/rule.js";
import { STORES } from "../../../helpers/stores.js";
import { cancelled } from "../../../helpers/cancelled.js";
import { turns } from "../../../helpers/fake-time.js";
import { gate, waitTool } from "../../../helpers/gate.js";
import { until } from "../../../helpers/lab.js";
import { observed } from "../../../helpers/observed-driver.js";
import { tempDir, type Hooks } from "../../../helpers/temp.js";

const textOf = ({ role, parts }: Message): string =>
  `${role}: ${parts.map((part) => ("text" in part ? part.text : part.type)).join("|")}`;

/** Two agents on one store, as two processes have; the first has the script and a tool that waits for the gate. */
async function two(t: Hooks, driver: () => SessionDriver, script: readonly ScriptedStep[]) {
  const folder = await tempDir(t);
  const open = gate();
  const provider = new ScriptedProvider(script);
  const { driver: first, answered } = observed(driver());
  const [here, there] = [first, driver()].map(
    (one) => new Agent({ driver: one, providers: [provider], tools: [waitTool(open)], projectDir: folder.path }),
  ) as [Agent, Agent];
  t.after(async () => {
    open.open();
    await Promise.all([here.close(), there.close()]);
  });
  const said = async (id: string) => (await there.sessions.messages(id)).map(textOf);
  return { here, there, open, provider, said, answered };
}

const waits: ScriptedStep = callTools(["wait", {}]);

/** Tell the run that ends next a text, when it looks no more and its end is about to be stored. */
function tellLate(driver: SessionDriver): { text: string } {
  const late = { text: "" };
  const { write } = driver;
  driver.write = async (id, change) => {
    const [ended] = change.runs ?? [];
    const { text } = late;
    if (ended && ended.endedAt !== "" && text !== "") {
      late.text = "";
      const at = { sessionId: id, runId: ended.id, createdAt: ended.endedAt };
      await instruct(driver, { id: text, kind: "steer", text, ...at });
    }
    return write.call(driver, id, change);
  };
  return late;
}

it("a hint that comes before a new session is there, for nothing, ends no run", async (t) => {
  const { path: projectDir } = await tempDir(t);
  const driver = new MemoryDriver();
  const hints = new Set<() => void>();
  const hint = async () => {
    for (const one of hints) one();
    await turns();
  };
  const { create } = driver;
  driver.create = async (start) => {
    await hint();
    await create.call(driver, start);
    await hint();
  };
  const subscribe = (_: string, one: () => void) => {
    hints.add(one);
    return () => hints.delete(one);
  };
  Object.defineProperty(driver, "notifier", { value: { publish: () => undefined, subscribe } });
  const agent = new Agent({ driver, providers: [new ScriptedProvider(["done"])], tools: [], projectDir });
  t.after(() => agent.close());
  assert.equal((await (await agent.run({ message: "hi" })).result).output, "done");
});

it("what comes while an inbox looks is found by a second look", async (t) => {
  const driver = new MemoryDriver();
  const { instructions } = driver;
  const isLooking = gate();
  let looks = 0;
  driver.instructions = async (id) => {
    const found = await instructions.call(driver, id);
    looks += 1;
    if (looks === 1) await isLooking.wait();
    return found;
  };
  const agent = new Agent({ driver, providers: [new ScriptedProvider(["done"])], tools: [] });
  t.after(() => agent.close());
  const { sessionId } = await (await agent.run({ message: "hi" })).result;
  looks = 0;
  const options = { runId: "r", sessionId, store: driver, cancel: new AbortController(), logger: silentLogger };
  const inbox = new Inbox(options);
  const looked = inbox.look();
  await isLooking.reached;
  await instruct(driver, {
    id: "i",
    kind: "steer",
    text: "wait",
    sessionId,
    runId: "r",
    createdAt: "2026-01-01T00:00:00.000Z",
  });
  void inbox.look();
  isLooking.open();
  await looked;
  await until(() => looks === 2);
  await inbox.close();
  assert.deepEqual(
    inbox.takeSteering().map(({ text }) => text),
    ["wait"],
  );
});

for (const [name, make] of STORES)
  describe(`a run is told something from outside (${name})`, () => {
    for (const from of ["its own process", "another process"] as const) {
      const which = from === "its own process" ? "here" : "there";

      it(`is cancelled by ${from}`, async (t) => {
        const agents = await two(t, await make(t), [
          { chunks: [{ type: "text", block: "0", text: "so far" }], hang: true },
        ]);
        const run = await agents.here.run({ message: "hi" });
        for await (const event of run) if (event.type === "token") break;
        assert.equal((await cancelled(agents[which], run.id)).state, "cancelled");
        await assert.rejects(run.result, { code: "run_cancelled" });
        assert.deepEqual(await agents.said(run.sessionId), ["user: hi", "assistant: so far"]);
        // Once more is no fault, and leaves nothing behind.
        assert.deepEqual(await agents.there.runs.cancel(run.id), await agents.here.runs.get(run.id));
        const next = await agents.here.run({ message: "again", sessionId: run.sessionId });
        await next.result;
      });

      it(`reads what ${from} told it before its model is asked again`, async (t) => {
        const agents = await two(t, await make(t), [waits, "done"]);
        const run = await agents.here.run({ message: "hi" });
        const events: string[] = [];
        const reading = (async () => {
          for await (const event of run) events.push(event.type);
        })();
        await agents.open.reached;
        const read = agents.answered("instructions", (all) => all.some(({ text }) => text === "not that way"));
        assert.equal(await agents[which].runs.steer(run.id, "not that way"), true);
        await read;
        agents.open.open();
        const { output } = await run.result;
        await reading;
        assert.equal(output, "done");
        assert.deepEqual(await agents.said(run.sessionId), [
          "user: hi",
          "assistant: tool_call",
          "tool: waited",
          "user: not that way",
          "assistant: done",
        ]);
        assert.deepEqual(events, ["tool_call", "tool_result", "steered", "token", "done"]);
        const request = agents.provider.requests.at(-1);
        assert.deepEqual(request?.messages.at(-1)?.parts, [{ type: "text", text: "not that way" }]);
      });
    }

    it("goes on when its last answer came before what it was told was read", async (t) => {
      const asked = gate();
      const agents = await two(t, await make(t), [
        async () => {
          await asked.wait();
          return "first";
        },
        "second",
      ]);
      const run = await agents.here.run({ message: "hi" });
      await asked.reached;
      await agents.here.runs.steer(run.id, "and this");
      asked.open();
      assert.equal((await run.result).output, "second");
      const wanted = ["user: hi", "assistant: first", "user: and this", "assistant: second"];
      assert.deepEqual(await agents.said(run.sessionId), wanted);
      assert.equal((await agents.here.runs.list({ sessionId: run.sessionId })).length, 1);
    });

    it("makes the next prompt of what came too late, once, and nothing of it when it is cancelled", async (t) => {
      const driver = (await make(t))();
      const agents = await two(t, () => driver, ["first", "second", { hang: true }, "last"]);
      const late = tellLate(driver);
      late.text = "too late";
      const run = await agents.here.run({ message: "hi" });
      await run.result;
      const { sessionId } = run;
      await until(async () => (await agents.said(sessionId)).length >= 4);
      const wanted = ["user: hi", "assistant: first", "user: too late", "assistant: second"];
      assert.deepEqual(await agents.said(sessionId), wanted);
      await until(async () => !(await agents.here.sessions.isRunning(sessionId)));
      const third = await agents.here.run({ message: "third", sessionId });
      late.text = "no more";
      await cancelled(agents.here, third.id);
      await assert.rejects(third.result);
      await until(async () => (await driver.instructions(sessionId)).length === 0);
      // A run made of the instruction would come before this one.
      await (
        await agents.here.run({ message: "last", sessionId, queue: true })
      ).result;
      const last = ["user: third", "user: last", "assistant: last"];
      assert.deepEqual(await agents.said(sessionId), [...wanted, ...last]);
    });

    it("follows nothing that was taken back as it ended, and nothing of other runs", async (t) => {
      const driver = (await make(t))();
      const agents = await two(t, () => driver, ["done", "last"]);
      const { write } = driver;
      let isFirst = true;
      const other = { id: "other", runId: "other", kind: "steer", text: "of a run in line", createdAt: "" } as const;
      driver.write = async (id, change) => {
        const [ended] = change.runs ?? [];
        if (change.release !== true || !ended || !isFirst) return write.call(driver, id, change);
        isFirst = false;
        const own = { ...other, id: "own", runId: ended.id, text: "too late" };
        for (const one of [own, other]) await instruct(driver, { ...one, sessionId: id });
        const left = await write.call(driver, id, change);
        assert.deepEqual(
          left.instructions.map(({ id }) => id),
          ["own", "other"],
        );
        assert.equal(await withdraw(driver, id, "own"), true);
        return left;
      };
      const withdrawn = agents.answered("write", (told) => "consumedInstructions" in told);
      const run = await agents.here.run({ message: "hi" });
      await run.result;
      await withdrawn;
      // A run that follows the first one would come before this one.
      const last = { message: "last", sessionId: run.sessionId, queue: true };
      await (
        await agents.here.run(last)
      ).result;
      const wanted = ["user: hi", "assistant: done", "user: last", "assistant: last"];
      assert.deepEqual(await agents.said(run.sessionId), wanted);
      const left = await driver.instructions(run.sessionId);
      assert.deepEqual(
        left.map(({ id }) => id),
        ["other"],
      );
    });

    it("takes back nothing that somebody set meanwhile, when what came too late begins the next run", async (t) => {
      const driver = (await make(t))();
      const agents = await two(t, () => driver, [waits, "first", "second"]);
      tellLate(driver).text = "too late";
      const run = await agents.here.run({ message: "hi", mode: "auto" });
      await agents.open.reached;
      await agents.there.sessions.update(run.sessionId, { mode: "plan" });
      agents.open.open();
      await run.result;
      const isOver = async () => (await agents.said(run.sessionId)).at(-1) === "assistant: second";
      await until(isOver);
      assert.equal((await agents.there.sessions.get(run.sessionId))?.mode, "plan");
    });

    it("takes 100 messages that wait for the model, and no more, from any process", async (t) => {
      const agents = await two(t, await make(t), [waits, "done"]);
      const run = await agents.here.run({ message: "hi" });
      await agents.open.reached;
      for (let i = 0; i < 100; i++) assert.equal(await agents.here.runs.steer(run.id, `m${i}`), true);
      for (const from of ["here", "there"] as const)
        await assert.rejects(agents[from].runs.steer(run.id, "one more"), {
          code: "too_many_runs",
          message: "too many messages wait for this run",
        });
      agents.open.open();
      await run.result;
      assert.equal((await agents.said(run.sessionId)).filter((line) => /^user: m\d+$/.test(line)).length, 100);
    });

    it("refuses what cannot be told, and says so of a run that has ended", async (t) => {
      const { here } = await two(t, await make(t), ["done"]);
      await assert.rejects(here.runs.cancel("none"), { code: "run_not_found" });
      await assert.rejects(here.runs.steer("none", "text"), { code: "run_not_found" });
      const run = await here.run({ message: "hi" });
      await assert.rejects(here.runs.steer(run.id, " "), { code: "invalid_input", field: "text" });
      await run.result;
      assert.equal(await here.runs.steer(run.id, "more"), false);
      assert.equal((await here.runs.cancel(run.id)).state, "finished");
    });
  });
