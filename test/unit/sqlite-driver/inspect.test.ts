import assert from "node:assert/strict";
import { it } from "node:test";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { inspectStore } from "../../../adapters/sqlite-driver/inspect.js";
import { aMessage, aSession } from "../../../src/testing/session-driver/records.js";
import { tempDir } from "../../helpers/temp-dir.js";

it("inspectStore counts the space that a deleted session has left", async (t) => {
  const path = (await tempDir(t)).at("sessions.db");
  const driver = new SqliteDriver({ path });
  await driver.open();
  const text = "x".repeat(1024 * 1024);
  await driver.create({ session: aSession("a"), messages: [aMessage("a", 1, { parts: [{ type: "text", text }] })] });
  await driver.close();
  const { freeBytes } = await inspectStore(path);
  assert.ok(freeBytes < text.length / 4, `${freeBytes} bytes were free before`);
  await driver.open();
  await driver.delete(["a"]);
  await driver.close();
  const emptyStore = await inspectStore(path);
  assert.equal(emptyStore.sessions, 0);
  assert.ok(emptyStore.freeBytes >= text.length, `${emptyStore.freeBytes} bytes are free`);
});
