// `npm run bench:json`: duration of each operation of the JSON driver, compared with the SQLite driver in the same run.
// Reports the fastest of several rounds. Not part of the tests, because the result depends on the machine.
import type { SessionDriver } from "gantry/plugin";
import { acquireLease, releaseLease } from "../../src/testing/session-driver/driver-calls.js";
import {
  aGrowingMessage,
  aMessage,
  aSession,
  at,
  change,
  someMessages,
} from "../../src/testing/session-driver/records.js";
import { makeTempDir } from "../helpers/temp-dir.js";

const ROUND_COUNT = 3;
const SESSION_COUNT = 1000;
const DELTA_COUNT = 2000;

type DriverName = "json" | "sqlite";

async function openDriver(driverName: DriverName, path: string): Promise<SessionDriver> {
  const driver =
    driverName === "json"
      ? new (await import("gantry/adapters/lowdb-json-driver")).LowdbJsonDriver({ path })
      : new (await import("gantry/adapters/sqlite-driver")).SqliteDriver({ path });
  await driver.open();
  return driver;
}

/** Measures the duration of one operation of each kind, in µs. */
async function measure(driverName: DriverName): Promise<Map<string, number>> {
  await using folder = await makeTempDir();
  const durationsUs = new Map<string, number>();
  const measureOperation = async (
    name: string,
    count: number,
    operation: (n: number) => Promise<unknown>,
  ): Promise<void> => {
    const startMs = performance.now();
    for (let n = 0; n < count; n++) await operation(n);
    durationsUs.set(name, ((performance.now() - startMs) / count) * 1000);
  };
  let driver = await openDriver(driverName, folder.at("store"));
  await driver.create({ session: aSession("long"), messages: someMessages("long", 1, 500) });
  const lease = await acquireLease(driver, "long", "h");
  await driver.write("long", change({ fence: lease.fence, add: [aGrowingMessage("long", 501)] }));
  const append = [{ messageId: "long-501", part: 0, type: "text" as const, text: "token " }];
  await measureOperation("append text to a long chain", DELTA_COUNT, () =>
    driver.write("long", change({ fence: lease.fence, append })),
  );
  await releaseLease(driver, lease);
  await measureOperation("add a message", 200, (n) =>
    driver.write("long", change({ add: [aMessage("long", 502 + n)] })),
  );
  await measureOperation("add a message, synced to the disk", 200, (n) =>
    driver.write("long", change({ add: [aMessage("long", 702 + n)], sync: true })),
  );
  await measureOperation("create", SESSION_COUNT, (n) =>
    driver.create({ session: aSession(`s${n}`, { updatedAt: at(n) }), messages: [aMessage(`s${n}`, 1)] }),
  );
  await measureOperation("a page of the list", SESSION_COUNT / 20, (n) => driver.list({ limit: 20, offset: 20 * n }));
  await measureOperation("head of a chain", 500, (n) => driver.head(`s${n}`));
  await measureOperation("a page of messages", 200, (n) => driver.messages("long", { after: 2 * n, limit: 20 }));
  await measureOperation("a run: lease, two messages, release", 100, async (n) => {
    const { fence, ...leaseFields } = await acquireLease(driver, `s${n}`, "h");
    for (const seq of [2, 3]) await driver.write(`s${n}`, change({ fence, add: [aMessage(`s${n}`, seq)], sync: true }));
    await releaseLease(driver, { fence, ...leaseFields });
  });
  await driver.close();
  await measureOperation(`open ${SESSION_COUNT} sessions, list and close`, 5, async () => {
    driver = await openDriver(driverName, folder.at("store"));
    await driver.list({ limit: 20 });
    await driver.close();
  });
  return durationsUs;
}

const bestDurationsUs: Record<DriverName, Map<string, number>> = { json: new Map(), sqlite: new Map() };
for (let round = 0; round < ROUND_COUNT; round++)
  for (const driverName of ["json", "sqlite"] as const)
    for (const [name, durationUs] of await measure(driverName))
      bestDurationsUs[driverName].set(name, Math.min(durationUs, bestDurationsUs[driverName].get(name) ?? Infinity));
process.stdout.write(`${"µs".padEnd(42)}     json   sqlite  json/sqlite\n`);
for (const [name, jsonUs] of bestDurationsUs.json) {
  const sqliteUs = bestDurationsUs.sqlite.get(name) ?? NaN;
  const columns = [
    jsonUs.toFixed(0).padStart(9),
    sqliteUs.toFixed(0).padStart(9),
    (jsonUs / sqliteUs).toFixed(2).padStart(13),
  ];
  process.stdout.write(`${name.padEnd(42)}${columns.join("")}\n`);
}
