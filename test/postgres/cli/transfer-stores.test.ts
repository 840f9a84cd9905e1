// Transfers sessions with all kinds of data from each kind of store to each other kind and back.
import assert from "node:assert/strict";
import { it } from "node:test";
import { Agent, defineTool } from "gantry";
import type { ChainData, SessionDriver } from "gantry/plugin";
import { LowdbJsonDriver } from "gantry/adapters/lowdb-json-driver";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { callTools, ScriptedProvider } from "gantry/testing";
import { NO_POSTGRES, postgresSchema } from "../../helpers/postgres.js";
import { runGantry } from "../../helpers/server.js";
import { postgresOptions } from "../../helpers/stores.js";
import { tempDir, type Hooks, type TempDir } from "../../helpers/temp.js";

/** A home folder whose config names the store, and a driver for this store. */
interface Place {
  home: TempDir;
  driver: () => SessionDriver;
}

async function place(t: Hooks, kind: string): Promise<Place> {
  const home = await tempDir(t);
  if (kind === "postgres") {
    const where = await postgresSchema(t);
    await home.write({ "config.json": JSON.stringify({ session: { driver: kind, ...where } }) });
    return { home, driver: () => new PostgresDriver(postgresOptions(where)) };
  }
  await home.write({ "config.json": JSON.stringify({ session: { driver: kind, path: "store" } }) });
  const path = home.at("store");
  return { home, driver: () => (kind === "json" ? new LowdbJsonDriver({ path }) : new SqliteDriver({ path })) };
}

async function dumps({ driver }: Place): Promise<(ChainData | undefined)[]> {
  const open = driver();
  await open.open();
  const { sessions } = await open.list({ limit: 100 });
  const all = await Promise.all(sessions.map(({ id }) => open.dump(id)));
  await open.close();
  return all;
}

/** Text with unusual characters, used for every text field. */
const ODD = "NUL \u0000, \u2028, half \ud83d and \udc69 apart, 👩‍💻, \\u0000, \u001b[31m";

async function work({ driver, home }: Place): Promise<void> {
  const act = defineTool({
    name: "act",
    description: "Acts.",
    kind: "execute",
    schema: { type: "object", properties: { what: { type: "string" } } },
    run: ({ what }) => `did ${String(what)} ${ODD}`,
  });
  const provider = new ScriptedProvider([callTools(["act", { what: ODD }]), `It is done. ${ODD}`]);
  const agent = new Agent({
    providers: [provider],
    driver: driver(),
    projectDir: home.path,
    tools: [act],
    compaction: { contextWindow: 4_000 },
  });
  const { id } = await agent.sessions.create({ alias: `other\u0000name`, title: ODD });
  await agent.sessions.update(id, { mode: "ask" });
  const first = await agent.run({
    message: ODD,
    sessionId: id,
    idempotencyKey: "key \u0000 of one",
    attachments: [{ type: "file", mediaType: "application/octet-stream", filename: ODD, data: "AAEC".repeat(500_000) }],
    ask: () => Promise.resolve("allow"),
  });
  await first.result;
  const long = await agent.run({ message: "begin" });
  await long.result;
  for (let n = 0; n < 6; n++)
    await (
      await agent.run({ message: "long ".repeat(800) + n, sessionId: long.sessionId })
    ).result;
  const messages = await agent.sessions.messages(long.sessionId);
  await agent.sessions.fork(long.sessionId, messages[3]!.id);
  await agent.sessions.revert(long.sessionId, messages.at(-3)!.id);
  await agent.close();
}

const KINDS = ["sqlite", "json", "postgres"];

it("sessions export and import keep all data between SQLite, JSON and PostgreSQL", { skip: NO_POSTGRES }, async (t) => {
  const first = await place(t, "sqlite");
  await work(first);
  const before = await dumps(first);
  const all = before.flatMap((chain) => chain ?? []);
  assert.equal(all.length, 3);
  assert.ok(
    all.some(({ asks }) => asks.length > 0),
    "asks",
  );
  assert.ok(
    all.some(({ snapshots }) => snapshots.length > 0),
    "snapshots",
  );
  assert.ok(
    all.some(({ sessions }) =>
      sessions.some(({ hiddenBy: cut, messages }) => cut !== "" || messages.some((stored) => stored.hiddenBy !== "")),
    ),
  );
  assert.ok(
    all.some(({ sessions }) => sessions.some(({ view }) => view.length > 0)),
    "views",
  );
  assert.ok(
    all.every(({ runs, sessions }) => runs.length > 0 || sessions.length === 1),
    "runs",
  );
  let text = (await runGantry(t, ["sessions", "export"], { home: first.home.path })).stdout;
  // Each kind of store is read and written by each other kind.
  for (const kind of [...KINDS.slice(1), ...KINDS, ...KINDS.toReversed().slice(1)]) {
    const next = await place(t, kind);
    const taken = await runGantry(t, ["sessions", "import"], { home: next.home.path, input: text });
    assert.deepEqual([taken.code, taken.stderr], [0, "3 sessions imported\n"], kind);
    assert.deepEqual(await dumps(next), before, kind);
    const out = await runGantry(t, ["sessions", "export"], { home: next.home.path });
    assert.deepEqual([out.code, out.stderr], [0, ""]);
    text = out.stdout;
    const again = await runGantry(t, ["sessions", "import"], { home: next.home.path, input: text });
    assert.equal(again.stderr, "0 sessions imported, 3 sessions skipped (already stored)\n");
  }
});
