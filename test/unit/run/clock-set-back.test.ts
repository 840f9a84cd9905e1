// The clock of a process is set back while a session has runs.
import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Agent, MemoryDriver } from "gantry";
import { ScriptedProvider } from "gantry/testing";
import { tempDir } from "../../helpers/temp-dir.js";

/** A clock that advances by 1 ms with each reading. The returned function sets the clock back by 90 minutes. */
function mockClock(t: TestContext): () => void {
  let currentMs = Date.now();
  t.mock.method(Date, "now", () => (currentMs += 1));
  return () => void (currentMs -= 5_400_000);
}

async function createAgent(t: TestContext): Promise<Agent> {
  const { path: projectDir } = await tempDir(t);
  const providers = [new ScriptedProvider(["One.", "Two.", "Three."])];
  const agent = new Agent({ driver: new MemoryDriver(), providers, projectDir });
  t.after(() => agent.close());
  return agent;
}

describe("a session whose clock is set back", () => {
  it("was updated at the start of its first run or later, so that the next run is newer", async (t) => {
    mockClock(t);
    const agent = await createAgent(t);
    const run = await agent.run({ message: "first" });
    const updatedAt = (await agent.sessions.get(run.sessionId))?.updatedAt ?? "";
    const record = await agent.runs.get(run.id);
    assert.ok(updatedAt >= (record?.startedAt ?? "none"), `${updatedAt} ${record?.startedAt}`);
    await run.result;
  });

  it("shows the run after a revert as the newest", async (t) => {
    const setBack = mockClock(t);
    const agent = await createAgent(t);
    const first = await agent.run({ message: "first" });
    await first.result;
    const { sessionId } = first;
    setBack();
    const [prompt] = await agent.sessions.messages(sessionId);
    const { id: snapshotId } = await agent.sessions.revert(sessionId, prompt?.id ?? "");
    const second = await agent.run({ message: "second", sessionId });
    await second.result;
    setBack();
    await agent.sessions.restore(sessionId, snapshotId);
    const third = await agent.run({ message: "third", sessionId });
    await third.result;
    const runs = await agent.runs.list({ sessionId });
    assert.deepEqual(
      runs.map(({ id }) => id),
      [third.id, second.id, first.id],
    );
    for await (const event of agent.sessions.watch(sessionId, { follow: false }))
      if (event.type === "state") assert.equal(event.state.run?.id, third.id);
  });
});
