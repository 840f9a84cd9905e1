// Transfers sessions with all kinds of data from each kind of store to each other kind and back.
import assert from "node:assert/strict";
import { it } from "node:test";
import { Agent, defineTool } from "gantry";
import type { ChainData, SessionDriver } from "gantry/plugin";
import { LowdbJsonDriver } from "gantry/adapters/lowdb-json-driver";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { callTools, ScriptedProvider } from "gantry/testing";
import { NO_POSTGRES, createPostgresSchema } from "../../helpers/postgres.js";
import { runGantry } from "../../helpers/server.js";
import { postgresOptions } from "../../helpers/stores.js";
import { tempDir, type Hooks, type TempDir } from "../../helpers/temp-dir.js";

/** A home folder whose config names the store, and a driver for this store. */
interface TestStore {
  home: TempDir;
  createDriver: () => SessionDriver;
}

async function createStore(t: Hooks, kind: string): Promise<TestStore> {
  const home = await tempDir(t);
  if (kind === "postgres") {
    const address = await createPostgresSchema(t);
    await home.write({ "config.json": JSON.stringify({ session: { driver: kind, ...address } }) });
    return { home, createDriver: () => new PostgresDriver(postgresOptions(address)) };
  }
  await home.write({ "config.json": JSON.stringify({ session: { driver: kind, path: "store" } }) });
  const path = home.at("store");
  return { home, createDriver: () => (kind === "json" ? new LowdbJsonDriver({ path }) : new SqliteDriver({ path })) };
}

async function dumpChains({ createDriver }: TestStore): Promise<(ChainData | undefined)[]> {
  const storeDriver = createDriver();
  await storeDriver.open();
  const { sessions } = await storeDriver.list({ limit: 100 });
  const chains = await Promise.all(sessions.map(({ id }) => storeDriver.dump(id)));
  await storeDriver.close();
  return chains;
}

/** Text with unusual characters, used for every text field. */
const UNUSUAL_TEXT = "NUL \u0000, \u2028, half \ud83d and \udc69 apart, 👩‍💻, \\u0000, \u001b[31m";

async function fillStore({ createDriver, home }: TestStore): Promise<void> {
  const actTool = defineTool({
    name: "act",
    description: "Acts.",
    kind: "execute",
    schema: { type: "object", properties: { what: { type: "string" } } },
    run: ({ what }) => `did ${String(what)} ${UNUSUAL_TEXT}`,
  });
  const provider = new ScriptedProvider([callTools(["act", { what: UNUSUAL_TEXT }]), `It is done. ${UNUSUAL_TEXT}`]);
  const agent = new Agent({
    providers: [provider],
    driver: createDriver(),
    projectDir: home.path,
    tools: [actTool],
    compaction: { contextWindow: 4_000 },
  });
  const { id } = await agent.sessions.create({ alias: `other\u0000name`, title: UNUSUAL_TEXT });
  await agent.sessions.update(id, { mode: "ask" });
  const firstRun = await agent.run({
    message: UNUSUAL_TEXT,
    sessionId: id,
    idempotencyKey: "key \u0000 of one",
    attachments: [
      { type: "file", mediaType: "application/octet-stream", filename: UNUSUAL_TEXT, data: "AAEC".repeat(500_000) },
    ],
    ask: () => Promise.resolve("allow"),
  });
  await firstRun.result;
  const compactedRun = await agent.run({ message: "begin" });
  await compactedRun.result;
  for (let n = 0; n < 6; n++)
    await (
      await agent.run({ message: "long ".repeat(800) + n, sessionId: compactedRun.sessionId })
    ).result;
  const messages = await agent.sessions.messages(compactedRun.sessionId);
  await agent.sessions.fork(compactedRun.sessionId, messages[3]!.id);
  await agent.sessions.revert(compactedRun.sessionId, messages.at(-3)!.id);
  await agent.close();
}

const KINDS = ["sqlite", "json", "postgres"];

it("sessions export and import keep all data between SQLite, JSON and PostgreSQL", { skip: NO_POSTGRES }, async (t) => {
  const sourceStore = await createStore(t, "sqlite");
  await fillStore(sourceStore);
  const expectedChains = await dumpChains(sourceStore);
  const storedChains = expectedChains.flatMap((chain) => chain ?? []);
  assert.equal(storedChains.length, 3);
  assert.ok(
    storedChains.some(({ asks }) => asks.length > 0),
    "no chain has asks",
  );
  assert.ok(
    storedChains.some(({ snapshots }) => snapshots.length > 0),
    "no chain has snapshots",
  );
  assert.ok(
    storedChains.some(({ sessions }) =>
      sessions.some(
        ({ hiddenBy, messages }) => hiddenBy !== "" || messages.some((storedMessage) => storedMessage.hiddenBy !== ""),
      ),
    ),
    "no session or message is hidden",
  );
  assert.ok(
    storedChains.some(({ sessions }) => sessions.some(({ view }) => view.length > 0)),
    "no session has a view",
  );
  assert.ok(
    storedChains.every(({ runs, sessions }) => runs.length > 0 || sessions.length === 1),
    "a chain has neither runs nor a single session",
  );
  let exportText = (await runGantry(t, ["sessions", "export"], { home: sourceStore.home.path })).stdout;
  // Each kind of store is read and written by each other kind.
  for (const kind of [...KINDS.slice(1), ...KINDS, ...KINDS.toReversed().slice(1)]) {
    const targetStore = await createStore(t, kind);
    const importResult = await runGantry(t, ["sessions", "import"], { home: targetStore.home.path, input: exportText });
    assert.deepEqual([importResult.code, importResult.stderr], [0, "3 sessions imported\n"], kind);
    assert.deepEqual(await dumpChains(targetStore), expectedChains, kind);
    const exportResult = await runGantry(t, ["sessions", "export"], { home: targetStore.home.path });
    assert.deepEqual([exportResult.code, exportResult.stderr], [0, ""]);
    exportText = exportResult.stdout;
    const repeatedImport = await runGantry(t, ["sessions", "import"], {
      home: targetStore.home.path,
      input: exportText,
    });
    assert.equal(repeatedImport.stderr, "0 sessions imported, 3 sessions skipped (already stored)\n");
  }
});
