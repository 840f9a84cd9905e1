import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { aSession } from "../../../src/testing/session-driver/records.js";
import { Child, runAtOnce } from "../../helpers/child.js";
import { pause } from "../../helpers/server-runs.js";
import { NO_POSTGRES, createPostgresSchema } from "../../helpers/postgres.js";
import { createRandom, readSeed } from "../../helpers/random.js";
import { postgresOptions } from "../../helpers/stores.js";
import type { StoreAddress } from "./hold.js";

const TRIAL_COUNT = Number(process.env["TRIALS"] ?? 4);
const SEED = readSeed();

const startProcess = ({ url, schema }: StoreAddress, ...args: string[]): Child =>
  new Child("./session-process.ts", ["postgres", `${url} ${schema}`, ...args]);
const openDriver = async (address: StoreAddress): Promise<PostgresDriver> => {
  const driver = new PostgresDriver(postgresOptions(address));
  await driver.open();
  return driver;
};

describe("PostgresDriver in several processes", { skip: NO_POSTGRES }, () => {
  it("opens and migrates one fresh schema from four processes concurrently", async (t) => {
    const address = await createPostgresSchema(t);
    await runAtOnce(Array.from({ length: 4 }, () => startProcess(address, "open")));
  });

  it("loses no write of four processes that write fifty messages each", async (t) => {
    const address = await createPostgresSchema(t);
    const driver = await openDriver(address);
    await driver.create({ session: aSession("shared") });
    await runAtOnce(Array.from({ length: 4 }, (_, n) => startProcess(address, "write", `own${n}`, "50", "shared")));
    for (let n = 0; n < 4; n++) assert.equal((await driver.messages(`own${n}`)).length, 50);
    assert.equal((await driver.get("shared"))?.usage.promptTokens, 200);
    assert.equal((await driver.list({ limit: 1 })).total, 5);
    await driver.close();
  });

  it(`loses no acknowledged write when a process is killed at a random moment (SEED=${SEED})`, async (t) => {
    const random = createRandom(SEED);
    const address = await createPostgresSchema(t);
    for (let trial = 0; trial < TRIAL_COUNT; trial++) {
      const id = `s${trial}`;
      const child = startProcess(address, "append", id);
      // Waits for a number of acknowledged writes, then for a random moment in the following writes.
      await child.waitForLines(1 + Math.floor(random() * 30));
      // Time: the kill hits a write at a random moment.
      await pause(random() * 10);
      await child.kill();
      const acknowledgedCount = child.stdout.split("\n").length - 1;
      const driver = await openDriver(address);
      // The server may still execute the statement that was sent before the kill.
      const earlierMessages = await driver.messages(id);
      await driver.write(id, { fence: null, sync: false });
      const messages = await driver.messages(id);
      assert.ok(messages.length >= earlierMessages.length);
      await driver.close();
      const storedText = messages
        .flatMap(({ parts }) => parts.map((part) => ("text" in part ? part.text : "")))
        .join("");
      const numbers = storedText.split(";").slice(0, -1);
      assert.deepEqual(
        numbers,
        numbers.map((_, n) => `${n}`),
        `trial ${trial}: the stored numbers are in order, each once`,
      );
      assert.ok(
        numbers.length >= acknowledgedCount,
        `trial ${trial}: ${acknowledgedCount} acknowledged, ${numbers.length} found`,
      );
      assert.ok(numbers.length <= acknowledgedCount + 1, `trial ${trial}: no text was stored that was never written`);
    }
  });
});
