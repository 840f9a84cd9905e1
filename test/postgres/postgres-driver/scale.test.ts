// No query reads a whole table, no matter how much is stored.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import {
  acquireLease,
  answerAsk,
  findAsk,
  findNewest,
  findRun,
  findSnapshots,
  releaseLease,
  sendInstruction,
  withdrawInstruction,
} from "../../../src/testing/session-driver/driver-calls.js";
import {
  aGrowingMessage,
  aMessage,
  anAsk,
  anInstruction,
  aResolution,
  aRun,
  aSession,
  at,
  change,
} from "../../../src/testing/session-driver/records.js";
import { buildAsksStatement, buildRunsStatement } from "../../../adapters/postgres-driver/reads.js";
import { createSqlResolver } from "../../../adapters/postgres-driver/schema.js";
import { buildListStatement } from "../../../adapters/postgres-driver/session-list.js";
import { runAsAdmin, NO_POSTGRES, createPostgresDatabase } from "../../helpers/postgres.js";
import { postgresOptions } from "../../helpers/stores.js";

const SESSION_COUNT = Number(process.env["COUNT"] ?? 100_000);

/**
 * Creates `COUNT` chains with one message, one run and one ask each. The totals are not counted by the trigger, because
 * the updates of one row in one transaction take quadratic time.
 */
const FILL_SQL = `
  INSERT INTO big.chains (root) SELECT 's' || n FROM generate_series(1, ${SESSION_COUNT}) n;
  INSERT INTO big.names SELECT root, chain, 0, false FROM big.chains;
  ALTER TABLE big.sessions DISABLE TRIGGER sessions_inserted;
  INSERT INTO big.sessions (chain, last_seq, first_seq, prompt_tokens, completion_tokens, total_tokens, cost, idx, titled, id,
    alias, root, parent_id, project_dir, created_at, updated_at, provider, model, reasoning_effort, mode, leave, cuts, title,
    search, owner, shared)
  SELECT chain, (chain % 5 > 0)::int, 1, 0, 0, 0, 0, 0, true, root, '', root, '', '/p' || chain % 100, '', to_char(
    timestamp '2026-01-01' + chain * interval '1 s', 'YYYY-MM-DD"T"HH24:MI:SS.000"Z"'), 'p', 'm', '', 'auto', '[]', '[]',
    'Title ' || chain, 'title ' || chain, CASE WHEN chain % 5 = 0 THEN 'most' ELSE 'u' || chain % 100 END, chain % 1000 = 0 FROM big.chains;
  INSERT INTO big.messages SELECT chain, 1, 0, true, '', 'm', '', '{"id":"m","role":"user","parts":[],"toolCallId":"","name":"","failed":false,"createdAt":""}', ''
    FROM big.chains;
  INSERT INTO big.runs SELECT chain, null, 'r' || chain, CASE WHEN chain % 50 = 0 THEN 'k' || chain ELSE '' END,
    CASE WHEN chain % 1000 = 0 THEN 'running' WHEN chain % 100 = 0 THEN 'failed' ELSE 'finished' END, updated_at, '',
    '{"id":"r' || chain || '","state":"finished","startedAt":"' || updated_at || '"}'
    FROM big.sessions;
  UPDATE big.runs SET started_by = 'owner:ann' WHERE chain % 1000 = 500;
  INSERT INTO big.asks SELECT chain, null, 'q' || chain, CASE WHEN chain % 1000 = 0 THEN 'open' ELSE 'answered' END,
    updated_at, '{"id":"q' || chain || '","createdAt":"' || updated_at || '"}', '' FROM big.sessions;
  INSERT INTO big.instructions (chain, id, instruction) SELECT chain, 'i' || chain, '{"id":"i"}' FROM big.chains;
  ALTER TABLE big.sessions ENABLE TRIGGER sessions_inserted;
  INSERT INTO big.totals SELECT '', 0, count(*) FROM big.sessions;
  INSERT INTO big.totals SELECT 'reader:0::' || reader, 0, count(*) FROM big.sessions GROUP BY reader;
`;

describe(`PostgresDriver with ${SESSION_COUNT} sessions`, { skip: NO_POSTGRES }, () => {
  it("makes no sequential scan of a large table in any call", async (t) => {
    const url = await createPostgresDatabase(t);
    const driver = new PostgresDriver(postgresOptions({ url, schema: "big" }));
    await driver.open();
    for (const statement of [...FILL_SQL.split(";\n").filter((text) => text.trim() !== ""), "ANALYZE"])
      await runAsAdmin(url, statement);
    const readScanCounts = async (): Promise<Record<string, unknown>> => {
      const rows = await runAsAdmin(
        url,
        "SELECT relname, seq_scan::int FROM pg_stat_user_tables WHERE schemaname = 'big' AND n_live_tup > 1000",
      );
      return Object.fromEntries(rows.map(({ relname, seq_scan }) => [relname, seq_scan]));
    };
    const explainStatement = async ({ sql, values }: ReturnType<typeof buildListStatement>): Promise<string> => {
      const literals = values.map((value) => (Array.isArray(value) ? `'{${value.join()}}'` : `'${String(value)}'`));
      const statement = createSqlResolver("big")(sql).replaceAll(/\$(\d+)/g, (_, n) => literals[Number(n) - 1] ?? "");
      return (await runAsAdmin(url, `EXPLAIN ${statement}`)).map((row) => String(row["QUERY PLAN"])).join("\n");
    };
    const visible = { limit: 20, visibleTo: "u7" };
    for (const statement of [
      buildRunsStatement(visible),
      buildRunsStatement({ ...visible, states: ["failed"] }),
      buildAsksStatement(visible),
    ]) {
      const plan = await explainStatement(statement);
      assert.equal(plan.match(/Index Cond: \(+reader = /g)?.length, 2, plan);
    }
    const startedByPlan = await explainStatement(buildRunsStatement({ limit: 100, startedBy: "ann" }));
    assert.match(startedByPlan, /Index Scan Backward using runs_of_user on runs r/);
    assert.doesNotMatch(startedByPlan, /-> +Sort/);
    // The pages are read in the order of an index that has only the user's and the shared sessions; only a page is sorted.
    const before = { updatedAt: at(50_000), id: "s1" };
    for (const [user, projectDir] of [
      ["u7", "/p7"],
      ["most", "/p5"],
    ] as const)
      for (const [query, index, count] of [
        [{}, "sessions_of_reader", 4],
        [{ before }, "sessions_of_reader", 4],
        [{ archived: "exclude" as const }, "sessions_of_reader", 2],
        [{ archived: "only" as const }, "sessions_of_reader", 2],
        [{ projectDir }, "sessions_of_reader_dir", 4],
        [{ projectDir, before, archived: "exclude" as const }, "sessions_of_reader_dir", 2],
      ] as const) {
        const plan = await explainStatement(buildListStatement({ limit: 5, visibleTo: user, ...query }));
        assert.equal(plan.match(new RegExp(`Index Scan Backward using ${index} on`, "g"))?.length, count, plan);
        assert.equal(plan.match(/ on sessions/g)?.length, count, plan);
        assert.doesNotMatch(plan, /-> +(Incremental )?Sort/, plan);
      }
    // A connection reports its statistics when it is closed.
    await driver.close();
    const scansBefore = await readScanCounts();
    assert.equal(Object.keys(scansBefore).length, 7, Object.keys(scansBefore).join());
    await driver.open();
    // PostgreSQL makes a new plan for the first executions and then keeps a generic plan.
    for (let round = 0; round < 12; round++) {
      const id = `s${round + 1}`;
      const middleTime = new Date(Date.UTC(2026, 0, 1) + SESSION_COUNT * 500).toISOString();
      assert.equal((await driver.list({ limit: 20 })).sessions.length, 20);
      await driver.list({ limit: 20, before: { updatedAt: middleTime, id } });
      await driver.list({ limit: 20, projectDir: "/p7", before: { updatedAt: middleTime, id } });
      await driver.list({ limit: 20, emptyBefore: at(300) });
      const visible = await driver.list({ limit: 20, visibleTo: "u7" });
      assert.deepEqual([visible.sessions.length, visible.total], [20, SESSION_COUNT / 100 + SESSION_COUNT / 1000]);
      await driver.list({ limit: 20, visibleTo: "u7", projectDir: "/p7", before: { updatedAt: middleTime, id } });
      await driver.list({ limit: 20, visibleTo: "u7", archived: "exclude", search: "title" });
      assert.equal((await driver.list({ limit: 20, visibleTo: "nobody" })).total, SESSION_COUNT / 1000);
      await driver.runs({ limit: 20, visibleTo: "u7" });
      assert.equal((await driver.runs({ limit: 100, startedBy: "ann" })).length, SESSION_COUNT / 1000);
      await driver.runs({ limit: 20, visibleTo: "u7", states: ["running", "failed"] });
      await driver.asks({ limit: 20, visibleTo: "u7" });
      await driver.asks({ limit: 20, visibleTo: "u7", open: true });
      assert.equal((await driver.get(id))?.id, id);
      await findNewest(driver, id);
      await driver.head(id);
      await driver.messages(id);
      await driver.messages(id, { scope: "chain", before: 9, limit: 2, tool: "x" });
      await driver.messages(id, { scope: "chain", hiddenBy: "x" });
      await findSnapshots(driver, id);
      await driver.instructions(id);
      await driver.runs({ limit: 20 });
      await driver.runs({ limit: 20, sessionId: id, states: ["finished"] });
      await driver.runs({ limit: 20, states: ["running", "waiting", "queued"] });
      await driver.runs({ limit: 20, states: ["failed", "finished"], before: { startedAt: middleTime, id } });
      await driver.runs({ limit: 20, idempotencyKey: "k50" });
      await findRun(driver, `r${round + 1}`);
      await driver.asks({ limit: 20, open: true });
      await driver.asks({ limit: 20, sessionId: id });
      await findAsk(driver, `q${round + 1}`);
      const lease = await acquireLease(driver, id, "h");
      const { fence } = lease;
      const asks = [anAsk(`ask${round}`, id)];
      await driver.write(
        id,
        change({ fence, sync: true, runs: [aRun(`run${round}`, id, { idempotencyKey: `key${round}` })], asks }),
      );
      await driver.write(
        id,
        change({
          fence,
          add: [aGrowingMessage(id, 2)],
          append: [{ messageId: `${id}-2`, part: 0, type: "text", text: "x" }],
        }),
      );
      await driver.write(
        id,
        change({ fence, finish: [aMessage(id, 2)], revert: { id: "c", after: 1, createdAt: at(1) } }),
      );
      await driver.write(id, change({ fence, restore: "c", set: { projectDir: "/new" } }));
      await answerAsk(driver, id, `ask${round}`, aResolution("allow"));
      await sendInstruction(driver, anInstruction(`in${round}`, id));
      await withdrawInstruction(driver, id, `in${round}`);
      await releaseLease(driver, lease);
      await driver.forgetKeys(at(60));
      const data = await driver.dump(id);
      await driver.delete([id]);
      assert.ok(data);
      await driver.load(data);
      await driver.create({
        session: aSession(`new${round}`, { alias: `alias${round}` }),
        messages: [aMessage("x", 1)],
      });
    }
    await driver.close();
    assert.deepEqual(await readScanCounts(), scansBefore);
  });
});
