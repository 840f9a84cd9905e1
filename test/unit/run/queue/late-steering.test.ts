import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { StoreError, type RunRecord } from "gantry";
import type { SessionDriver } from "gantry/plugin";
import { sendInstruction, withdrawInstruction } from "../../../../src/testing/session-driver/driver-calls.js";
import { cancelAndWait } from "../../../helpers/cancel-run.js";
import { waitUntil } from "../../../helpers/server-runs.js";
import { createAgents, steerLate, WAIT_STEP } from "../../../helpers/steered-agents.js";
import { STORES } from "../../../helpers/stores.js";

/** Rejects the first prompt that is stored after the end of a run, as a full disk does. Resolves when it was rejected. */
function rejectNextPrompt(driver: SessionDriver): Promise<void> {
  const { write } = driver;
  let hasEnded = false;
  return new Promise((resolve) => {
    driver.write = async (id, change) => {
      if (hasEnded && change.add && change.add.length > 0) {
        driver.write = write;
        resolve();
        throw new StoreError("no space left", { isFull: true });
      }
      hasEnded ||= change.release === true;
      return write.call(driver, id, change);
    };
  });
}

for (const [name, makeStore] of STORES)
  describe(`a steering message that arrives too late (${name})`, () => {
    it("starts a next run once for a steering message that arrives too late, but not if it was cancelled", async (t) => {
      const driver = (await makeStore(t))();
      const agents = await createAgents(t, () => driver, ["first", "second", { hang: true }, "last"]);
      const lateMessage = steerLate(driver);
      lateMessage.text = "too late";
      const run = await agents.localAgent.run({ message: "hi" });
      await run.result;
      const { sessionId } = run;
      await waitUntil(async () => (await agents.readTexts(sessionId)).length >= 4);
      const expectedTexts = ["user: hi", "assistant: first", "user: too late", "assistant: second"];
      assert.deepEqual(await agents.readTexts(sessionId), expectedTexts);
      await waitUntil(async () => !(await agents.localAgent.sessions.isRunning(sessionId)));
      const thirdRun = await agents.localAgent.run({ message: "third", sessionId });
      lateMessage.text = "no more";
      await cancelAndWait(agents.localAgent, thirdRun.id);
      await assert.rejects(thirdRun.result);
      await waitUntil(async () => (await driver.instructions(sessionId)).length === 0);
      // A run that starts from the instruction would come before this run.
      await (
        await agents.localAgent.run({ message: "last", sessionId, queue: true })
      ).result;
      const lastTexts = ["user: third", "user: last", "assistant: last"];
      assert.deepEqual(await agents.readTexts(sessionId), [...expectedTexts, ...lastTexts]);
    });

    it("starts no next run for a late message that was withdrawn, or for a message to another run", async (t) => {
      const driver = (await makeStore(t))();
      const agents = await createAgents(t, () => driver, ["done", "last"]);
      const { write } = driver;
      let isFirstRun = true;
      const foreignInstruction = {
        id: "other",
        runId: "other",
        kind: "steer",
        text: "of a run in line",
        createdAt: "",
      } as const;
      driver.write = async (id, change) => {
        const [endedRun] = change.runs ?? [];
        if (change.release !== true || !endedRun || !isFirstRun) return write.call(driver, id, change);
        isFirstRun = false;
        const lateInstruction = { ...foreignInstruction, id: "own", runId: endedRun.id, text: "too late" };
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
      const withdrawal = agents.waitForResult("write", (result) => "consumedInstructions" in result);
      const run = await agents.localAgent.run({ message: "hi" });
      await run.result;
      await withdrawal;
      // A run that follows the first run would come before this run.
      const lastInput = { message: "last", sessionId: run.sessionId, queue: true };
      await (
        await agents.localAgent.run(lastInput)
      ).result;
      const expectedTexts = ["user: hi", "assistant: done", "user: last", "assistant: last"];
      assert.deepEqual(await agents.readTexts(run.sessionId), expectedTexts);
      const pending = await driver.instructions(run.sessionId);
      assert.deepEqual(
        pending.map(({ id }) => id),
        ["other"],
      );
    });

    it("keeps a mode that was set meanwhile when a late message starts the next run", async (t) => {
      const driver = (await makeStore(t))();
      const agents = await createAgents(t, () => driver, [WAIT_STEP, "first", "second"]);
      steerLate(driver).text = "too late";
      const run = await agents.localAgent.run({ message: "hi", mode: "auto" });
      await agents.toolGate.firstWait;
      await agents.remoteAgent.sessions.update(run.sessionId, { mode: "plan" });
      agents.toolGate.open();
      await run.result;
      const hasEnded = async () => (await agents.readTexts(run.sessionId)).at(-1) === "assistant: second";
      await waitUntil(hasEnded);
      assert.equal((await agents.remoteAgent.sessions.get(run.sessionId))?.mode, "plan");
    });

    it("does not rewind the session again", async (t) => {
      const agents = await createAgents(t, await makeStore(t), ["first", "second", "third"]);
      const { localAgent, remoteAgent, readTexts } = agents;
      const { sessionId, result } = await localAgent.run({ message: "hi" });
      await result;
      const [message] = await remoteAgent.sessions.messages(sessionId);
      steerLate(agents.localDriver).text = "too late";
      const input = { message: "again", sessionId, rewind: { before: message?.id ?? "" } };
      await (
        await localAgent.run(input)
      ).result;
      await waitUntil(async () => (await readTexts(sessionId)).length === 4);
      const expectedTexts = ["user: again", "assistant: second", "user: too late", "assistant: third"];
      assert.deepEqual(await readTexts(sessionId), expectedTexts);
    });

    for (const side of ["localAgent", "remoteAgent"] as const)
      it(`is read by the next run of the ${side === "localAgent" ? "same" : "other"} process if no run starts for it`, async (t) => {
        const agents = await createAgents(t, await makeStore(t), ["first", "second"]);
        const rejection = rejectNextPrompt(agents.localDriver);
        steerLate(agents.localDriver).text = "too late";
        const run = await agents.localAgent.run({ message: "hi" });
        await Promise.all([run.result, rejection]);
        const { sessionId } = run;
        await (
          await agents[side].run({ message: "next", sessionId, queue: true })
        ).result;
        const expectedTexts = ["user: hi", "assistant: first", "user: next", "user: too late", "assistant: second"];
        assert.deepEqual(await agents.readTexts(sessionId), expectedTexts);
        assert.deepEqual(await agents.localDriver.instructions(sessionId), []);
      });

    it("is dropped if the run that waits in the queue for it is cancelled", async (t) => {
      const script = [WAIT_STEP, "first", { hang: true }];
      const agents = await createAgents(t, await makeStore(t), script);
      const { localAgent, toolGate } = agents;
      const run = await localAgent.run({ message: "hi" });
      await toolGate.firstWait;
      const { sessionId } = run;
      const nextRunPromise = localAgent.run({ message: "next", sessionId, queue: true });
      await waitUntil(async () => (await localAgent.runs.list({ states: ["queued"] })).length === 1);
      steerLate(agents.localDriver).text = "too late";
      toolGate.open();
      await run.result;
      const nextRun = await nextRunPromise;
      let lateRun: RunRecord | undefined;
      await waitUntil(async () => ([lateRun] = await localAgent.runs.list({ states: ["queued"] })).length === 1);
      assert.equal((await localAgent.runs.cancel(lateRun?.id ?? "")).state, "cancelled");
      await waitUntil(async () => (await agents.localDriver.instructions(sessionId)).length === 0);
      await cancelAndWait(localAgent, nextRun.id);
      await assert.rejects(nextRun.result, { code: "run_cancelled" });
      const readUserTexts = async () => (await agents.readTexts(sessionId)).filter((text) => text.startsWith("user"));
      assert.deepEqual(await readUserTexts(), ["user: hi", "user: next"]);
    });

    it("is read by a run that continues with its key after a shutdown", async (t) => {
      const agents = await createAgents(t, await makeStore(t), [{ hang: true }, "done"]);
      const input = { message: "hi", idempotencyKey: "k", fingerprint: "f" };
      const run = await agents.localAgent.run(input);
      await waitUntil(() => agents.provider.requests.length === 1);
      steerLate(agents.localDriver).text = "more";
      await Promise.all([assert.rejects(run.result, { code: "shutting_down" }), agents.localAgent.close()]);
      const continuedRun = await agents.remoteAgent.run(input);
      assert.equal(continuedRun.id, run.id);
      await continuedRun.result;
      assert.deepEqual(await agents.readTexts(run.sessionId), ["user: hi", "user: more", "assistant: done"]);
    });

    it("is removed by the next run if its own run was shut down", async (t) => {
      const agents = await createAgents(t, await makeStore(t), [{ hang: true }, "done"]);
      const run = await agents.localAgent.run({ message: "hi" });
      await waitUntil(() => agents.provider.requests.length === 1);
      steerLate(agents.localDriver).text = "more";
      await Promise.all([assert.rejects(run.result, { code: "shutting_down" }), agents.localAgent.close()]);
      const { sessionId } = run;
      await (
        await agents.remoteAgent.run({ message: "next", sessionId })
      ).result;
      assert.deepEqual(await agents.readTexts(sessionId), ["user: hi", "user: next", "assistant: done"]);
      assert.deepEqual(await agents.remoteDriver.instructions(sessionId), []);
    });
  });
