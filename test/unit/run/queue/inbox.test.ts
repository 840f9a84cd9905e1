import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, MemoryDriver, silentLogger, type Message } from "gantry";
import type { SessionDriver } from "gantry/plugin";
import { callTools, ScriptedProvider, type ScriptedStep } from "gantry/testing";
import { Inbox } from "../../../../src/run/queue/inbox.js";
import { sendInstruction, withdrawInstruction } from "../../../../src/testing/session-driver/rule.js";
import { STORES } from "../../../helpers/stores.js";
import { cancelled } from "../../../helpers/cancel-run.js";
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
  return { localAgent, remoteAgent, open, provider, textsOf, answered };
}

const waits: ScriptedStep = callTools(["wait", {}]);

/** Sends a text to the next run that ends, after its last read of instructions and before its end is stored. */
function steerLate(driver: SessionDriver): { text: string } {
  const late = { text: "" };
  const { write } = driver;
  driver.write = async (id, change) => {
    const [ended] = change.runs ?? [];
    const { text } = late;
    if (ended && ended.endedAt !== "" && text !== "") {
      late.text = "";
      const at = { sessionId: id, runId: ended.id, createdAt: ended.endedAt };
      await sendInstruction(driver, { id: text, kind: "steer", text, ...at });
    }
    return write.call(driver, id, change);
  };
  return late;
}

it("a notification before or after the creation of a session does not end its run", async (t) => {
  const { path: projectDir } = await tempDir(t);
  const driver = new MemoryDriver();
  const listeners = new Set<() => void>();
  const notifyAll = async () => {
    for (const notify of listeners) notify();
    await turns();
  };
  const { create } = driver;
  driver.create = async (start) => {
    await notifyAll();
    await create.call(driver, start);
    await notifyAll();
  };
  const subscribe = (_: string, listener: () => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  };
  Object.defineProperty(driver, "notifier", { value: { publish: () => undefined, subscribe } });
  const agent = new Agent({ driver, providers: [new ScriptedProvider(["done"])], tools: [], projectDir });
  t.after(() => agent.close());
  assert.equal((await (await agent.run({ message: "hi" })).result).output, "done");
});

it("an instruction that arrives during a read of the inbox is found by a second read", async (t) => {
  const driver = new MemoryDriver();
  const { instructions } = driver;
  const readGate = gate();
  let readCount = 0;
  driver.instructions = async (id) => {
    const pending = await instructions.call(driver, id);
    readCount += 1;
    if (readCount === 1) await readGate.wait();
    return pending;
  };
  const agent = new Agent({ driver, providers: [new ScriptedProvider(["done"])], tools: [] });
  t.after(() => agent.close());
  const { sessionId } = await (await agent.run({ message: "hi" })).result;
  readCount = 0;
  const options = { runId: "r", sessionId, store: driver, cancel: new AbortController(), logger: silentLogger };
  const inbox = new Inbox(options);
  const firstRead = inbox.read();
  await readGate.reached;
  await sendInstruction(driver, {
    id: "i",
    kind: "steer",
    text: "wait",
    sessionId,
    runId: "r",
    createdAt: "2026-01-01T00:00:00.000Z",
  });
  void inbox.read();
  readGate.open();
  await firstRead;
  await until(() => readCount === 2);
  await inbox.close();
  assert.deepEqual(
    inbox.takeSteering().map(({ text }) => text),
    ["wait"],
  );
});

for (const [name, make] of STORES)
  describe(`a run that receives instructions (${name})`, () => {
    for (const from of ["its own process", "another process"] as const) {
      const side = from === "its own process" ? "localAgent" : "remoteAgent";

      it(`is cancelled from ${from}, and keeps its partial answer`, async (t) => {
        const agents = await two(t, await make(t), [
          { chunks: [{ type: "text", block: "0", text: "so far" }], hang: true },
        ]);
        const run = await agents.localAgent.run({ message: "hi" });
        for await (const event of run) if (event.type === "token") break;
        assert.equal((await cancelled(agents[side], run.id)).state, "cancelled");
        await assert.rejects(run.result, { code: "run_cancelled" });
        assert.deepEqual(await agents.textsOf(run.sessionId), ["user: hi", "assistant: so far"]);
        // A second cancel is no error and has no effect.
        assert.deepEqual(await agents.remoteAgent.runs.cancel(run.id), await agents.localAgent.runs.get(run.id));
        const next = await agents.localAgent.run({ message: "again", sessionId: run.sessionId });
        await next.result;
      });

      it(`sends a steering message from ${from} to the model with the next request`, async (t) => {
        const agents = await two(t, await make(t), [waits, "done"]);
        const run = await agents.localAgent.run({ message: "hi" });
        const events: string[] = [];
        const reading = (async () => {
          for await (const event of run) events.push(event.type);
        })();
        await agents.open.reached;
        const read = agents.answered("instructions", (all) => all.some(({ text }) => text === "not that way"));
        assert.equal(await agents[side].runs.steer(run.id, "not that way"), true);
        await read;
        agents.open.open();
        const { output } = await run.result;
        await reading;
        assert.equal(output, "done");
        assert.deepEqual(await agents.textsOf(run.sessionId), [
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

    it("continues after an answer if a steering message arrived before it", async (t) => {
      const answerGate = gate();
      const agents = await two(t, await make(t), [
        async () => {
          await answerGate.wait();
          return "first";
        },
        "second",
      ]);
      const run = await agents.localAgent.run({ message: "hi" });
      await answerGate.reached;
      await agents.localAgent.runs.steer(run.id, "and this");
      answerGate.open();
      assert.equal((await run.result).output, "second");
      const expectedTexts = ["user: hi", "assistant: first", "user: and this", "assistant: second"];
      assert.deepEqual(await agents.textsOf(run.sessionId), expectedTexts);
      assert.equal((await agents.localAgent.runs.list({ sessionId: run.sessionId })).length, 1);
    });

    it("starts a next run once for a steering message that arrives too late, but not if it was cancelled", async (t) => {
      const driver = (await make(t))();
      const agents = await two(t, () => driver, ["first", "second", { hang: true }, "last"]);
      const late = steerLate(driver);
      late.text = "too late";
      const run = await agents.localAgent.run({ message: "hi" });
      await run.result;
      const { sessionId } = run;
      await until(async () => (await agents.textsOf(sessionId)).length >= 4);
      const expectedTexts = ["user: hi", "assistant: first", "user: too late", "assistant: second"];
      assert.deepEqual(await agents.textsOf(sessionId), expectedTexts);
      await until(async () => !(await agents.localAgent.sessions.isRunning(sessionId)));
      const third = await agents.localAgent.run({ message: "third", sessionId });
      late.text = "no more";
      await cancelled(agents.localAgent, third.id);
      await assert.rejects(third.result);
      await until(async () => (await driver.instructions(sessionId)).length === 0);
      // A run that starts from the instruction would come before this run.
      await (
        await agents.localAgent.run({ message: "last", sessionId, queue: true })
      ).result;
      const last = ["user: third", "user: last", "assistant: last"];
      assert.deepEqual(await agents.textsOf(sessionId), [...expectedTexts, ...last]);
    });

    it("starts no next run for a late message that was withdrawn, or for a message to another run", async (t) => {
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
          await sendInstruction(driver, { ...instruction, sessionId: id });
        const result = await write.call(driver, id, change);
        assert.deepEqual(
          result.instructions.map(({ id }) => id),
          ["own", "other"],
        );
        assert.equal(await withdrawInstruction(driver, id, "own"), true);
        return result;
      };
      const withdrawn = agents.answered("write", (result) => "consumedInstructions" in result);
      const run = await agents.localAgent.run({ message: "hi" });
      await run.result;
      await withdrawn;
      // A run that follows the first run would come before this run.
      const last = { message: "last", sessionId: run.sessionId, queue: true };
      await (
        await agents.localAgent.run(last)
      ).result;
      const expectedTexts = ["user: hi", "assistant: done", "user: last", "assistant: last"];
      assert.deepEqual(await agents.textsOf(run.sessionId), expectedTexts);
      const pending = await driver.instructions(run.sessionId);
      assert.deepEqual(
        pending.map(({ id }) => id),
        ["other"],
      );
    });

    it("keeps a mode that was set meanwhile when a late message starts the next run", async (t) => {
      const driver = (await make(t))();
      const agents = await two(t, () => driver, [waits, "first", "second"]);
      steerLate(driver).text = "too late";
      const run = await agents.localAgent.run({ message: "hi", mode: "auto" });
      await agents.open.reached;
      await agents.remoteAgent.sessions.update(run.sessionId, { mode: "plan" });
      agents.open.open();
      await run.result;
      const isOver = async () => (await agents.textsOf(run.sessionId)).at(-1) === "assistant: second";
      await until(isOver);
      assert.equal((await agents.remoteAgent.sessions.get(run.sessionId))?.mode, "plan");
    });

    it("accepts 100 pending steering messages, and rejects more from any process", async (t) => {
      const agents = await two(t, await make(t), [waits, "done"]);
      const run = await agents.localAgent.run({ message: "hi" });
      await agents.open.reached;
      for (let i = 0; i < 100; i++) assert.equal(await agents.localAgent.runs.steer(run.id, `m${i}`), true);
      for (const side of ["localAgent", "remoteAgent"] as const)
        await assert.rejects(agents[side].runs.steer(run.id, "one more"), {
          code: "too_many_runs",
          message: "too many messages wait for this run",
        });
      agents.open.open();
      await run.result;
      assert.equal((await agents.textsOf(run.sessionId)).filter((line) => /^user: m\d+$/.test(line)).length, 100);
    });

    it("rejects an unknown run or a blank message, and reports that it has already ended", async (t) => {
      const { localAgent } = await two(t, await make(t), ["done"]);
      await assert.rejects(localAgent.runs.cancel("none"), { code: "run_not_found" });
      await assert.rejects(localAgent.runs.steer("none", "text"), { code: "run_not_found" });
      const run = await localAgent.run({ message: "hi" });
      await assert.rejects(localAgent.runs.steer(run.id, " "), { code: "invalid_input", field: "text" });
      await run.result;
      assert.equal(await localAgent.runs.steer(run.id, "more"), false);
      assert.equal((await localAgent.runs.cancel(run.id)).state, "finished");
    });
  });
