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

/** Two agents on one store, like two processes. The first agent has the script and a tool that waits for the gate. */
async function two(t: Hooks, driver: () => SessionDriver, script: readonly ScriptedStep[]) {
  const folder = await tempDir(t);
  const open = gate();
  const provider = new ScriptedProvider(script);
  const { driver: first, answered } = observed(driver());
  const [localAgent, remoteAgent] = [first, driver()].map(
    (agentDriver) =>
      new Agent({ driver: agentDriver, providers: [provider], tools: [waitTool(open)], projectDir: folder.path }),
  ) as [Agent, Agent];
  t.after(async () => {
    open.open();
    await Promise.all([localAgent.close(), remoteAgent.close()]);
  });
  const textsOf = async (id: string) => (await remoteAgent.sessions.messages(id)).map(textOf);
  return { here: localAgent, there: remoteAgent, open, provider, said: textsOf, answered };
}

const waits: ScriptedStep = callTools(["wait", {}]);

/** Sends a text to the next run that ends, after its last read of instructions and before its end is stored. */
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
    for (const notify of hints) notify();
    await turns();
  };
  const { create } = driver;
  driver.create = async (start) => {
    await hint();
    await create.call(driver, start);
    await hint();
  };
  const subscribe = (_: string, listener: () => void) => {
    hints.add(listener);
    return () => hints.delete(listener);
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
    const pending = await instructions.call(driver, id);
    looks += 1;
    if (looks === 1) await isLooking.wait();
    return pending;
  };
  const agent = new Agent({ driver, providers: [new ScriptedProvider(["done"])], tools: [] });
  t.after(() => agent.close());
  const { sessionId } = await (await agent.run({ message: "hi" })).result;
  looks = 0;
  const options = { runId: "r", sessionId, store: driver, cancel: new AbortController(), logger: silentLogger };
  const inbox = new Inbox(options);
  const looked = inbox.read();
  await isLooking.reached;
  await instruct(driver, {
    id: "i",
    kind: "steer",
    text: "wait",
    sessionId,
    runId: "r",
    createdAt: "2026-01-01T00:00:00.000Z",
  });
  void inbox.read();
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
        // A second cancel is no error and has no effect.
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
      const answerGate = gate();
      const agents = await two(t, await make(t), [
        async () => {
          await answerGate.wait();
          return "first";
        },
        "second",
      ]);
      const run = await agents.here.run({ message: "hi" });
      await answerGate.reached;
      await agents.here.runs.steer(run.id, "and this");
      answerGate.open();
      assert.equal((await run.result).output, "second");
      const expectedTexts = ["user: hi", "assistant: first", "user: and this", "assistant: second"];
      assert.deepEqual(await agents.said(run.sessionId), expectedTexts);
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
      const expectedTexts = ["user: hi", "assistant: first", "user: too late", "assistant: second"];
      assert.deepEqual(await agents.said(sessionId), expectedTexts);
      await until(async () => !(await agents.here.sessions.isRunning(sessionId)));
      const third = await agents.here.run({ message: "third", sessionId });
      late.text = "no more";
      await cancelled(agents.here, third.id);
      await assert.rejects(third.result);
      await until(async () => (await driver.instructions(sessionId)).length === 0);
      // A run that starts from the instruction would come before this run.
      await (
        await agents.here.run({ message: "last", sessionId, queue: true })
      ).result;
      const last = ["user: third", "user: last", "assistant: last"];
      assert.deepEqual(await agents.said(sessionId), [...expectedTexts, ...last]);
    });

    it("follows nothing that was taken back as it ended, and nothing of other runs", async (t) => {
      const driver = (await make(t))();
      const agents = await two(t, () => driver, ["done", "last"]);
      const { write } = driver;
      let isFirst = true;
      const foreignInstruction = {
        id: "other",
        runId: "other",
        kind: "steer",
        text: "of a run in line",
        createdAt: "",
      } as const;
      driver.write = async (id, change) => {
        const [ended] = change.runs ?? [];
        if (change.release !== true || !ended || !isFirst) return write.call(driver, id, change);
        isFirst = false;
        const lateInstruction = { ...foreignInstruction, id: "own", runId: ended.id, text: "too late" };
        for (const instruction of [lateInstruction, foreignInstruction])
          await instruct(driver, { ...instruction, sessionId: id });
        const result = await write.call(driver, id, change);
        assert.deepEqual(
          result.instructions.map(({ id }) => id),
          ["own", "other"],
        );
        assert.equal(await withdraw(driver, id, "own"), true);
        return result;
      };
      const withdrawn = agents.answered("write", (result) => "consumedInstructions" in result);
      const run = await agents.here.run({ message: "hi" });
      await run.result;
      await withdrawn;
      // A run that follows the first run would come before this run.
      const last = { message: "last", sessionId: run.sessionId, queue: true };
      await (
        await agents.here.run(last)
      ).result;
      const expectedTexts = ["user: hi", "assistant: done", "user: last", "assistant: last"];
      assert.deepEqual(await agents.said(run.sessionId), expectedTexts);
      const pending = await driver.instructions(run.sessionId);
      assert.deepEqual(
        pending.map(({ id }) => id),
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
      const { here: localAgent } = await two(t, await make(t), ["done"]);
      await assert.rejects(localAgent.runs.cancel("none"), { code: "run_not_found" });
      await assert.rejects(localAgent.runs.steer("none", "text"), { code: "run_not_found" });
      const run = await localAgent.run({ message: "hi" });
      await assert.rejects(localAgent.runs.steer(run.id, " "), { code: "invalid_input", field: "text" });
      await run.result;
      assert.equal(await localAgent.runs.steer(run.id, "more"), false);
      assert.equal((await localAgent.runs.cancel(run.id)).state, "finished");
    });
  });
