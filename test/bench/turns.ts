// `npm run bench:turns`: turns per second of one growing session, by store. The rates show whether turns become slower
// with the session's length. TURNS is the number of turns, ONLY the name of a single store to measure. A turn is the
// kernel's driver calls for a prompt with a streamed answer. Not part of the tests, because the result depends on the
// machine.
import type { SessionDriver } from "gantry/plugin";
import { MemoryDriver } from "gantry";
import { LowdbJsonDriver } from "gantry/adapters/lowdb-json-driver";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import {
  aGrowingMessage,
  aHolder,
  aMessage,
  aRun,
  aSession,
  change,
} from "../../src/testing/session-driver/records.js";
import { makeTempDir } from "../helpers/temp-dir.js";

const TURN_COUNT = Number(process.env["TURNS"] ?? 2000);
/** Each part of the session has its own rate. */
const PART_COUNT = 4;
const PART_TURNS = TURN_COUNT / PART_COUNT;
const APPEND_COUNT = 5;
const TEXT = "Some words of an answer that is streamed to whoever reads it. ".repeat(4);

async function runTurn(driver: SessionDriver, n: number): Promise<void> {
  await driver.get("s");
  const lease = await driver.lease("s", aHolder("h"), 60_000, { head: { messages: false } });
  if (!("fence" in lease)) throw new Error("the lease is held");
  const { fence } = lease;
  const usage = { promptTokens: 100, completionTokens: 10, totalTokens: 110, cost: 0.001 };
  const run = aRun(`r${n}`, "s", { idempotencyKey: `k${n}` });
  await driver.write("s", change({ fence, sync: true, add: [aMessage("s", 2 * n + 1)], runs: [run] }));
  const answer = aGrowingMessage("s", 2 * n + 2);
  await driver.write("s", change({ fence, add: [answer] }));
  for (let index = 0; index < APPEND_COUNT; index++)
    await driver.write("s", change({ fence, append: [{ messageId: answer.id, part: 0, type: "text", text: TEXT }] }));
  const finish = [{ ...answer, parts: [{ type: "text" as const, text: TEXT.repeat(APPEND_COUNT) }], finished: true }];
  const runs = [{ ...run, state: "finished" as const }];
  await driver.write("s", change({ fence, sync: true, finish, usage, runs, release: true }));
}

await using folder = await makeTempDir();
const stores = {
  memory: () => new MemoryDriver(),
  json: () => new LowdbJsonDriver({ path: folder.at("json") }),
  sqlite: () => new SqliteDriver({ path: folder.at("sqlite.db") }),
};
process.stdout.write(`turns per second, ${PART_TURNS} turns each\n`);
for (const [name, createDriver] of Object.entries(stores)) {
  if (process.env["ONLY"] && process.env["ONLY"] !== name) continue;
  const driver = createDriver();
  await driver.open();
  await driver.create({ session: aSession("s") });
  const rates: string[] = [];
  for (let part = 0; part < PART_COUNT; part++) {
    const startMs = performance.now();
    for (let n = part * PART_TURNS; n < (part + 1) * PART_TURNS; n++) await runTurn(driver, n);
    rates.push(((PART_TURNS / (performance.now() - startMs)) * 1000).toFixed(0).padStart(7));
  }
  await driver.close();
  process.stdout.write(`${name.padEnd(10)}${rates.join("")}\n`);
}
