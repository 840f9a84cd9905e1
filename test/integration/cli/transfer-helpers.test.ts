// Export and import of subagent sessions.
import assert from "node:assert/strict";
import { it } from "node:test";
import { Agent, builtinTools, MemoryDriver, type Session } from "gantry";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { callTools, ScriptedProvider } from "gantry/testing";
import { adoptOrphans } from "../../../src/cli/transfer/adopt-orphans.js";
import { runGantry } from "../../helpers/server.js";
import { tempDir, type TempDir } from "../../helpers/temp.js";

const driver = (home: TempDir) => new SqliteDriver({ path: home.at("sessions.db"), durability: "normal" });

/** Creates a session with one subagent session. Returns both ids. */
async function createSubagentSession(home: TempDir): Promise<{ asker: string; helper: string }> {
  const call = callTools(["task", { description: "Look", prompt: "Look there." }, "c1"]);
  const provider = new ScriptedProvider([call, "helped", "done"]);
  const tools = builtinTools().filter(({ name }) => name === "task");
  await using agent = new Agent({ providers: [provider], driver: driver(home), projectDir: home.path, tools });
  const run = await agent.run({ message: "go" });
  await run.result;
  const [helper] = (await agent.sessions.list({ spawnedBy: run.sessionId })).sessions;
  return { asker: run.sessionId, helper: helper!.id };
}

async function within<T>(home: TempDir, work: (agent: Agent) => Promise<T>): Promise<T> {
  const provider = new ScriptedProvider([], { fallback: "on" });
  await using agent = new Agent({ providers: [provider], driver: driver(home), projectDir: home.path });
  return await work(agent);
}

const listed = (home: TempDir, spawnedBy?: string): Promise<Session[]> =>
  within(home, async ({ sessions }) => (await sessions.list(spawnedBy === undefined ? {} : { spawnedBy })).sessions);

it("a session takes its helpers along, and they stay its helpers", async (t) => {
  const [home, there] = [await tempDir(t), await tempDir(t)];
  const { asker, helper } = await createSubagentSession(home);
  const { stdout } = await runGantry(t, ["sessions", "export", asker], { home: home.path });
  const { stderr } = await runGantry(t, ["sessions", "import"], { home: there.path, input: stdout });
  assert.equal(stderr, "2 sessions imported\n");
  assert.deepEqual(
    (await listed(there)).map(({ id }) => id),
    [asker],
  );
  assert.deepEqual(
    (await listed(there, asker)).map(({ id }) => id),
    [helper],
  );
});

it("a helper that comes alone is a session that lists show and a person goes on with", async (t) => {
  const [home, there] = [await tempDir(t), await tempDir(t)];
  const { asker, helper } = await createSubagentSession(home);
  const alone = (await runGantry(t, ["sessions", "export", helper], { home: home.path })).stdout;
  const { stderr } = await runGantry(t, ["sessions", "import"], { home: there.path, input: alone });
  assert.equal(stderr, "1 session imported\n1 session of subagents without their parent are now ordinary sessions\n");
  const [session] = await listed(there);
  assert.deepEqual([session?.id, session?.spawnedBy, session?.title], [helper, null, "Look"]);
  await within(there, async (agent) => {
    assert.equal((await (await agent.run({ message: "on", sessionId: helper })).result).output, "on");
    assert.equal((await agent.sessions.messages(helper)).length, 4);
  });
  // If the parent session exists, the imported session belongs to it again.
  await within(home, ({ sessions }) => sessions.delete(helper));
  const back = await runGantry(t, ["sessions", "import"], { home: home.path, input: alone });
  assert.equal(back.stderr, "1 session imported\n");
  assert.deepEqual(
    (await listed(home, asker)).map(({ id }) => id),
    [helper],
  );
});

it("two that a file says asked for each other are shown all the same", async (t) => {
  const home = await tempDir(t);
  const { asker, helper } = await createSubagentSession(home);
  const from = driver(home);
  await from.open();
  const store = new MemoryDriver();
  await store.open();
  for (const [id, sessionId] of [
    [helper, asker],
    [asker, helper],
  ] as const) {
    const chain = (await from.dump(id))!;
    const spawnedBy = { sessionId, runId: "r", callId: "c" };
    const sessions = chain.sessions.map((data) => ({ ...data, session: { ...data.session, spawnedBy } }));
    await store.load({ ...chain, sessions });
  }
  await from.close();
  assert.equal(await adoptOrphans(store, [helper, asker]), 1);
  assert.deepEqual(
    (await store.list({ limit: 9 })).sessions.map(({ id }) => id),
    [helper],
  );
  assert.deepEqual(
    (await store.list({ limit: 9, spawnedBy: helper })).sessions.map(({ id }) => id),
    [asker],
  );
});
