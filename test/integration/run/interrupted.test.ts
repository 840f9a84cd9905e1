// A server is killed during a run. Another process reads the stored state.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent } from "gantry";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { ScriptedProvider } from "gantry/testing";
import { findRun } from "../../../src/testing/session-driver/driver-calls.js";
import { startModelServer, createServerConfig, startStreamedRun } from "../../helpers/server-runs.js";
import { startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

describe("a run whose process was killed", { concurrency: true }, () => {
  it("is reported as interrupted at once and stored as interrupted with the next prompt", async (t) => {
    const modelServer = await startModelServer(t);
    modelServer.enqueue({ say: [{ text: "Half an answer" }, { stall: true }] });
    const home = await tempDir(t);
    const options = { config: createServerConfig(modelServer), home: home.path };
    const server = await startServer(t, options);
    const runStream = await startStreamedRun(server, { message: "x" });
    await runStream.waitForCharacters(1);
    const { sessionId } = runStream;

    const store = new SqliteDriver({ path: home.at("sessions.db") });
    await using agent = new Agent({ providers: [new ScriptedProvider()], driver: store });
    const [runningRecord] = await agent.runs.list({ sessionId });
    assert.equal(runningRecord?.state, "running");
    assert.deepEqual(await agent.runs.list({ states: ["interrupted"] }), []);

    await server.stop("SIGKILL");
    await runStream.ended;
    const interruptedRecord = { ...runningRecord, state: "interrupted" };
    assert.deepEqual(await agent.runs.get(runningRecord.id), interruptedRecord);
    assert.deepEqual(await agent.runs.list({ states: ["interrupted"] }), [interruptedRecord]);
    assert.deepEqual(await agent.runs.list({ states: ["running"] }), []);
    assert.equal((await findRun(store, runningRecord.id))?.run.state, "running");

    const nextRun = await agent.run({ message: "go on", sessionId });
    assert.equal((await findRun(store, runningRecord.id))?.run.state, "interrupted");
    await nextRun.result;
    assert.deepEqual(
      (await agent.runs.list({ sessionId })).map(({ id, state }) => [id, state]),
      [
        [nextRun.id, "finished"],
        [runningRecord.id, "interrupted"],
      ],
    );
  });
});
