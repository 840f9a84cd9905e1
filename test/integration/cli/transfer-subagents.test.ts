// Export and import of subagent sessions.
import assert from "node:assert/strict";
import { it } from "node:test";
import { Agent, builtinTools, MemoryDriver, type Session } from "gantry";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { callTools, ScriptedProvider } from "gantry/testing";
import { adoptOrphans } from "../../../src/cli/transfer/adopt-orphans.js";
import { runGantry } from "../../helpers/server.js";
import { tempDir, type TempDir } from "../../helpers/temp-dir.js";

const createDriver = (home: TempDir) => new SqliteDriver({ path: home.at("sessions.db"), durability: "normal" });

/** Creates a session with one subagent session. Returns both ids. */
async function createSubagentSession(home: TempDir): Promise<{ parentId: string; subagentId: string }> {
  const call = callTools(["task", { description: "Look", prompt: "Look there." }, "c1"]);
  const provider = new ScriptedProvider([call, "helped", "done"]);
  const tools = builtinTools().filter(({ name }) => name === "task");
  await using agent = new Agent({ providers: [provider], driver: createDriver(home), projectDir: home.path, tools });
  const run = await agent.run({ message: "go" });
  await run.result;
  const [subagent] = (await agent.sessions.list({ spawnedBy: run.sessionId })).sessions;
  return { parentId: run.sessionId, subagentId: subagent!.id };
}

async function runWithAgent<T>(home: TempDir, action: (agent: Agent) => Promise<T>): Promise<T> {
  const provider = new ScriptedProvider([], { fallback: "on" });
  await using agent = new Agent({ providers: [provider], driver: createDriver(home), projectDir: home.path });
  return await action(agent);
}

const listSessions = (home: TempDir, spawnedBy?: string): Promise<Session[]> =>
  runWithAgent(
    home,
    async ({ sessions }) => (await sessions.list(spawnedBy === undefined ? {} : { spawnedBy })).sessions,
  );

it("export and import of a session include its subagent sessions, which keep their parent", async (t) => {
  const [home, target] = [await tempDir(t), await tempDir(t)];
  const { parentId, subagentId } = await createSubagentSession(home);
  const { stdout } = await runGantry(t, ["sessions", "export", parentId], { home: home.path });
  const { stderr } = await runGantry(t, ["sessions", "import"], { home: target.path, input: stdout });
  assert.equal(stderr, "2 sessions imported\n");
  assert.deepEqual(
    (await listSessions(target)).map(({ id }) => id),
    [parentId],
  );
  assert.deepEqual(
    (await listSessions(target, parentId)).map(({ id }) => id),
    [subagentId],
  );
});

it("a subagent session imported without its parent is listed as an ordinary session and continues", async (t) => {
  const [home, target] = [await tempDir(t), await tempDir(t)];
  const { parentId, subagentId } = await createSubagentSession(home);
  const subagentExport = (await runGantry(t, ["sessions", "export", subagentId], { home: home.path })).stdout;
  const { stderr } = await runGantry(t, ["sessions", "import"], { home: target.path, input: subagentExport });
  assert.equal(stderr, "1 session imported\n1 session of subagents without their parent are now ordinary sessions\n");
  const [session] = await listSessions(target);
  assert.deepEqual([session?.id, session?.spawnedBy, session?.title], [subagentId, null, "Look"]);
  await runWithAgent(target, async (agent) => {
    assert.equal((await (await agent.run({ message: "on", sessionId: subagentId })).result).output, "on");
    assert.equal((await agent.sessions.messages(subagentId)).length, 4);
  });
  // If the parent session exists, the imported session belongs to it again.
  await runWithAgent(home, ({ sessions }) => sessions.delete(subagentId));
  const secondImport = await runGantry(t, ["sessions", "import"], { home: home.path, input: subagentExport });
  assert.equal(secondImport.stderr, "1 session imported\n");
  assert.deepEqual(
    (await listSessions(home, parentId)).map(({ id }) => id),
    [subagentId],
  );
});

it("adoptOrphans turns one of two sessions that name each other as parent into an ordinary session", async (t) => {
  const home = await tempDir(t);
  const { parentId, subagentId } = await createSubagentSession(home);
  const source = createDriver(home);
  await source.open();
  const orphanDriver = new MemoryDriver();
  await orphanDriver.open();
  for (const [id, sessionId] of [
    [subagentId, parentId],
    [parentId, subagentId],
  ] as const) {
    const chain = (await source.dump(id))!;
    const spawnedBy = { sessionId, runId: "r", callId: "c" };
    const sessions = chain.sessions.map((data) => ({ ...data, session: { ...data.session, spawnedBy } }));
    await orphanDriver.load({ ...chain, sessions });
  }
  await source.close();
  assert.equal(await adoptOrphans(orphanDriver, [subagentId, parentId]), 1);
  assert.deepEqual(
    (await orphanDriver.list({ limit: 9 })).sessions.map(({ id }) => id),
    [subagentId],
  );
  assert.deepEqual(
    (await orphanDriver.list({ limit: 9, spawnedBy: subagentId })).sessions.map(({ id }) => id),
    [parentId],
  );
});
