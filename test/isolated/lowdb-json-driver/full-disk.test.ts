import assert from "node:assert/strict";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { it } from "node:test";
import { hasCode, StoreError } from "gantry";
import { aGrowingMessage, aMessage, aSession, change, joinParts } from "../../../src/testing/session-driver/records.js";
import { tempDir } from "../../helpers/temp-dir.js";

const { writeSync } = fs;
let isFull = false;

/** Simulates a full disk: writes the first half of the data, and fails for at most 10 bytes. */
function writeUntilFull(file: number, bytes: Uint8Array, offset: number, length: number, position: number): number {
  if (!isFull) return writeSync(file, bytes, offset, length, position);
  if (length > 10) return writeSync(file, bytes, offset, Math.floor(length / 2), position);
  throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
}

it("LowdbJsonDriver rejects all changes that a full disk cannot store, and applies no part of the rejected changes", async (t) => {
  Object.assign(fs, { writeSync: writeUntilFull });
  syncBuiltinESMExports();
  const { LowdbJsonDriver } = await import("gantry/adapters/lowdb-json-driver");
  const folder = await tempDir(t);
  const path = folder.at("sessions");
  const append = (text: string) => change({ append: [{ messageId: "a-1", part: 0, type: "text" as const, text }] });
  const driver = new LowdbJsonDriver({ path });
  await driver.open();
  await driver.create({ session: aSession("a"), messages: [aGrowingMessage("a", 1)] });
  isFull = true;
  const rejectedWrites = [
    driver.write("a", append("lost")),
    driver.create({ session: aSession("b", { alias: "y" }), messages: [aMessage("b", 1)] }),
    driver.write("a", append("lost too")),
  ];
  for (const rejectedWrite of rejectedWrites)
    await assert.rejects(
      rejectedWrite,
      (error) => hasCode(error, "store") && error instanceof StoreError && error.isFull,
    );
  isFull = false;
  assert.equal(joinParts((await driver.messages("a"))[0]), "");
  await driver.write("a", append("kept"));
  assert.equal(await driver.get("y"), undefined);
  await driver.create({ session: aSession("c", { alias: "y" }) });
  await driver.close();
  const reopenedDriver = new LowdbJsonDriver({ path });
  await reopenedDriver.open();
  assert.equal(joinParts((await reopenedDriver.messages("a"))[0]), "kept");
  assert.equal((await reopenedDriver.get("y"))?.id, "c");
  await reopenedDriver.close();
});
