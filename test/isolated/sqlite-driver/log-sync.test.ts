import assert from "node:assert/strict";
import { symlink } from "node:fs/promises";
import { it } from "node:test";
import { hasCode } from "gantry";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { acquireLease } from "../../../src/testing/session-driver/driver-calls.js";
import { aMessage, aSession, change } from "../../../src/testing/session-driver/records.js";
import { OperationRecorder } from "../../helpers/operation-recorder.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

const recorder = new OperationRecorder();

async function openDriver(t: Hooks, path: string, durability?: "full" | "normal"): Promise<SqliteDriver> {
  const driver = new SqliteDriver({ path, ...(durability ? { durability } : {}) });
  await driver.open();
  t.after(() => driver.close());
  return driver;
}

/** Returns the number of disk syncs during `action`. */
async function countSyncs(action: () => Promise<unknown>): Promise<number> {
  const { store } = await recorder.recordOperations(action);
  return store.filter((line) => line === "sync").length;
}

it("SqliteDriver syncs a write with `sync` at once, and other writes in the next synced() call", async (t) => {
  const folder = await tempDir(t);
  const driver = await openDriver(t, folder.at("sessions.db"));
  assert.equal(await countSyncs(() => driver.create({ session: aSession("a") })), 1);
  const { fence } = await acquireLease(driver, "a", "h");
  assert.equal(await countSyncs(() => driver.write("a", change({ fence, sync: true, add: [aMessage("a", 1)] }))), 1);
  assert.equal(await countSyncs(() => driver.write("a", change({ fence, add: [aMessage("a", 2)] }))), 0);
  assert.equal(await countSyncs(() => driver.synced()), 1);
  assert.equal(await countSyncs(() => driver.synced()), 0, "the store has no write that is not synced");
});

it("SqliteDriver syncs again for writes that arrive during a sync, at most once per write", async (t) => {
  const folder = await tempDir(t);
  const driver = await openDriver(t, folder.at("sessions.db"));
  await driver.create({ session: aSession("a") });
  const { fence } = await acquireLease(driver, "a", "h");
  const writeAndSync = async (): Promise<void> => {
    const pendingSyncs: Promise<void>[] = [];
    for (let seq = 1; seq <= 5; seq += 1) {
      await driver.write("a", change({ fence, add: [aMessage("a", seq)] }));
      pendingSyncs.push(driver.synced());
    }
    await Promise.all(pendingSyncs);
  };
  const syncCount = await countSyncs(writeAndSync);
  assert.ok(syncCount >= 2 && syncCount <= 5, `${syncCount} syncs`);
});

it("SqliteDriver with durability normal makes no sync", async (t) => {
  const folder = await tempDir(t);
  const driver = await openDriver(t, folder.at("sessions.db"), "normal");
  assert.equal(await countSyncs(() => driver.create({ session: aSession("a") })), 0);
  assert.equal(await countSyncs(() => driver.synced()), 0);
});

it("SqliteDriver syncs a store that was opened by a symbolic link, and synced() rejects after close", async (t) => {
  const folder = await tempDir(t, { "real/x": "" });
  const firstDriver = await openDriver(t, folder.at("real/sessions.db"));
  await symlink(folder.at("real/sessions.db"), folder.at("link.db"));
  const driver = await openDriver(t, folder.at("link.db"));
  assert.equal(await countSyncs(() => driver.create({ session: aSession("a") })), 1);
  assert.equal((await firstDriver.get("a"))?.id, "a");
  await driver.close();
  await assert.rejects(driver.synced(), (error) => hasCode(error, "store"));
});
