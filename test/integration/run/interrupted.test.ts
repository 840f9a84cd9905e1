// A server is killed during a run. Another process reads the stored state.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent } from "gantry";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { ScriptedProvider } from "gantry/testing";
import { findRun } from "../../../src/testing/session-driver/rule.js";
import { lab, labConfig, stream } from "../../helpers/lab.js";
import { startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp.js";

describe("a run whose process was killed", { concurrency: true }, () => {
  it("is reported as interrupted at once and stored as interrupted with the next prompt", async (t) => {
    const models = await lab(t);
    models.enqueue({ say: [{ text: "Half an answer" }, { stall: true }] });
    const home = await tempDir(t);
    const options = { config: labConfig(models), home: home.path };
    const server = await startServer(t, options);
    const streamed = await stream(server, { message: "x" });
    await streamed.text(1);
    const { sessionId } = streamed;

    const store = new SqliteDriver({ path: home.at("sessions.db") });
    await using agent = new Agent({ providers: [new ScriptedProvider()], driver: store });
    const [running] = await agent.runs.list({ sessionId });
    assert.equal(running?.state, "running");
    assert.deepEqual(await agent.runs.list({ states: ["interrupted"] }), []);

    await server.stop("SIGKILL");
    await streamed.ended;
    const interrupted = { ...running, state: "interrupted" };
    assert.deepEqual(await agent.runs.get(running.id), interrupted);
    assert.deepEqual(await agent.runs.list({ states: ["interrupted"] }), [interrupted]);
    assert.deepEqual(await agent.runs.list({ states: ["running"] }), []);
    assert.equal((await findRun(store, running.id))?.run.state, "running");

    const next = await agent.run({ message: "go on", sessionId });
    assert.equal((await findRun(store, running.id))?.run.state, "interrupted");
    await next.result;
    assert.deepEqual(
      (await agent.runs.list({ sessionId })).map(({ id, state }) => [id, state]),
      [
        [next.id, "finished"],
        [running.id, "interrupted"],
      ],
    );
  });
});
