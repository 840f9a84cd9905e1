import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, MemoryDriver, silentLogger } from "gantry";
import { ScriptedProvider } from "gantry/testing";
import { Inbox } from "../../../../src/run/queue/inbox.js";
import { sendInstruction } from "../../../../src/testing/session-driver/driver-calls.js";
import { cancelAndWait } from "../../../helpers/cancel-run.js";
import { waitTurns } from "../../../helpers/fake-time.js";
import { createGate } from "../../../helpers/gate.js";
import { waitUntil } from "../../../helpers/server-runs.js";
import { createAgents, WAIT_STEP } from "../../../helpers/steered-agents.js";
import { STORES } from "../../../helpers/stores.js";
import { tempDir } from "../../../helpers/temp-dir.js";

it("a notification before or after the creation of a session does not end its run", async (t) => {
  const { path: projectDir } = await tempDir(t);
  const driver = new MemoryDriver();
  const listeners = new Set<() => void>();
  const notifyAll = async () => {
    for (const notify of listeners) notify();
    await waitTurns();
  };
  const { create } = driver;
  driver.create = async (creation) => {
    await notifyAll();
    await create.call(driver, creation);
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
  const readGate = createGate();
  let readCount = 0;
  driver.instructions = async (id) => {
    const pendingInstructions = await instructions.call(driver, id);
    readCount += 1;
    if (readCount === 1) await readGate.wait();
    return pendingInstructions;
  };
  const agent = new Agent({ driver, providers: [new ScriptedProvider(["done"])], tools: [] });
  t.after(() => agent.close());
  const { sessionId } = await (await agent.run({ message: "hi" })).result;
  readCount = 0;
  const options = { runId: "r", sessionId, store: driver, cancel: new AbortController(), logger: silentLogger };
  const inbox = new Inbox(options);
  const firstRead = inbox.read();
  await readGate.firstWait;
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
  await waitUntil(() => readCount === 2);
  await inbox.close();
  assert.deepEqual(
    inbox.takeSteering().map(({ text }) => text),
    ["wait"],
  );
});

for (const [name, makeStore] of STORES)
  describe(`a run that receives instructions (${name})`, () => {
    for (const sender of ["its own process", "another process"] as const) {
      const side = sender === "its own process" ? "localAgent" : "remoteAgent";

      it(`is cancelled from ${sender}, and keeps its partial answer`, async (t) => {
        const agents = await createAgents(t, await makeStore(t), [
          { chunks: [{ type: "text", block: "0", text: "so far" }], hang: true },
        ]);
        const run = await agents.localAgent.run({ message: "hi" });
        for await (const event of run) if (event.type === "token") break;
        assert.equal((await cancelAndWait(agents[side], run.id)).state, "cancelled");
        await assert.rejects(run.result, { code: "run_cancelled" });
        assert.deepEqual(await agents.readTexts(run.sessionId), ["user: hi", "assistant: so far"]);
        // A second cancel is no error and has no effect.
        assert.deepEqual(await agents.remoteAgent.runs.cancel(run.id), await agents.localAgent.runs.get(run.id));
        const nextRun = await agents.localAgent.run({ message: "again", sessionId: run.sessionId });
        await nextRun.result;
      });

      it(`sends a steering message from ${sender} to the model with the next request`, async (t) => {
        const agents = await createAgents(t, await makeStore(t), [WAIT_STEP, "done"]);
        const run = await agents.localAgent.run({ message: "hi" });
        const events: string[] = [];
        const pendingEvents = (async () => {
          for await (const event of run) events.push(event.type);
        })();
        await agents.toolGate.firstWait;
        const instructionRead = agents.waitForResult("instructions", (instructions) =>
          instructions.some(({ text }) => text === "not that way"),
        );
        assert.equal(await agents[side].runs.steer(run.id, "not that way"), true);
        await instructionRead;
        agents.toolGate.open();
        const { output } = await run.result;
        await pendingEvents;
        assert.equal(output, "done");
        assert.deepEqual(await agents.readTexts(run.sessionId), [
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
      const answerGate = createGate();
      const agents = await createAgents(t, await makeStore(t), [
        async () => {
          await answerGate.wait();
          return "first";
        },
        "second",
      ]);
      const run = await agents.localAgent.run({ message: "hi" });
      await answerGate.firstWait;
      await agents.localAgent.runs.steer(run.id, "and this");
      answerGate.open();
      assert.equal((await run.result).output, "second");
      const expectedTexts = ["user: hi", "assistant: first", "user: and this", "assistant: second"];
      assert.deepEqual(await agents.readTexts(run.sessionId), expectedTexts);
      assert.equal((await agents.localAgent.runs.list({ sessionId: run.sessionId })).length, 1);
    });

    it("accepts 100 pending steering messages, and rejects more from any process", async (t) => {
      const agents = await createAgents(t, await makeStore(t), [WAIT_STEP, "done"]);
      const run = await agents.localAgent.run({ message: "hi" });
      await agents.toolGate.firstWait;
      for (let i = 0; i < 100; i++) assert.equal(await agents.localAgent.runs.steer(run.id, `m${i}`), true);
      for (const side of ["localAgent", "remoteAgent"] as const)
        await assert.rejects(agents[side].runs.steer(run.id, "one more"), {
          code: "too_many_runs",
          message: "too many messages wait for this run",
        });
      agents.toolGate.open();
      await run.result;
      assert.equal((await agents.readTexts(run.sessionId)).filter((line) => /^user: m\d+$/.test(line)).length, 100);
    });

    it("accepts exactly 100 of many concurrent steering messages of one process", async (t) => {
      const agents = await createAgents(t, await makeStore(t), [WAIT_STEP, "done"]);
      const run = await agents.localAgent.run({ message: "hi" });
      await agents.toolGate.firstWait;
      const outcomes = await Promise.allSettled(
        Array.from({ length: 120 }, (_, i) => agents.localAgent.runs.steer(run.id, `m${i}`)),
      );
      const rejections = outcomes.filter((outcome) => outcome.status === "rejected");
      assert.deepEqual(
        rejections.map(({ reason }) => (reason as { code?: string }).code),
        Array.from({ length: 20 }, () => "too_many_runs"),
      );
      agents.toolGate.open();
      await run.result;
      assert.equal((await agents.readTexts(run.sessionId)).filter((line) => /^user: m\d+$/.test(line)).length, 100);
    });

    it("rejects an unknown run or a blank message, and reports that it has already ended", async (t) => {
      const { localAgent } = await createAgents(t, await makeStore(t), ["done"]);
      await assert.rejects(localAgent.runs.cancel("none"), { code: "run_not_found" });
      await assert.rejects(localAgent.runs.steer("none", "text"), { code: "run_not_found" });
      const run = await localAgent.run({ message: "hi" });
      await assert.rejects(localAgent.runs.steer(run.id, " "), { code: "invalid_input", field: "text" });
      await run.result;
      assert.equal(await localAgent.runs.steer(run.id, "more"), false);
      assert.equal((await localAgent.runs.cancel(run.id)).state, "finished");
    });
  });
