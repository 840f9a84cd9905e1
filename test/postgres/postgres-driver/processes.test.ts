import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { aSession } from "../../../src/testing/session-driver/rule.js";
import { Child, allAtOnce } from "../../helpers/child.js";
import { pause } from "../../helpers/lab.js";
import { NO_POSTGRES, postgresSchema } from "../../helpers/postgres.js";
import { randomOf, seedOf } from "../../helpers/random.js";
import { postgresOptions } from "../../helpers/stores.js";

const TRIALS = Number(process.env["TRIALS"] ?? 4);
const SEED = seedOf();

interface Place {
  url: string;
  schema: string;
}

const start = ({ url, schema }: Place, ...args: string[]): Child =>
  new Child("./session-process.ts", ["postgres", `${url} ${schema}`, ...args]);
const opened = async (place: Place): Promise<PostgresDriver> => {
  const driver = new PostgresDriver(postgresOptions(place));
  await driver.open();
  return driver;
};

describe("PostgresDriver in several processes", { skip: NO_POSTGRES }, () => {
  it("opens and migrates one fresh schema from four processes concurrently", async (t) => {
    const place = await postgresSchema(t);
    await allAtOnce(Array.from({ length: 4 }, () => start(place, "open")));
  });

  it("loses no write of four processes that write fifty messages each", async (t) => {
    const place = await postgresSchema(t);
    const driver = await opened(place);
    await driver.create({ session: aSession("shared") });
    await allAtOnce(Array.from({ length: 4 }, (_, n) => start(place, "write", `own${n}`, "50", "shared")));
    for (let n = 0; n < 4; n++) assert.equal((await driver.messages(`own${n}`)).length, 50);
    assert.equal((await driver.get("shared"))?.usage.promptTokens, 200);
    assert.equal((await driver.list({ limit: 1 })).total, 5);
    await driver.close();
  });

  it(`loses no acknowledged write when a process is killed at a random moment (SEED=${SEED})`, async (t) => {
    const random = randomOf(SEED);
    const place = await postgresSchema(t);
    for (let trial = 0; trial < TRIALS; trial++) {
      const id = `s${trial}`;
      const child = start(place, "append", id);
      // Waits for a number of acknowledged writes, then for a random moment in the following writes.
      await child.lines(1 + Math.floor(random() * 30));
      // Time: the kill hits a write at a random place.
      await pause(random() * 10);
      await child.kill();
      const acknowledged = child.stdout.split("\n").length - 1;
      const driver = await opened(place);
      // The server may still execute the statement that was sent before the kill.
      const before = await driver.messages(id);
      await driver.write(id, { fence: null, sync: false });
      const messages = await driver.messages(id);
      assert.ok(messages.length >= before.length);
      await driver.close();
      const storedText = messages
        .flatMap(({ parts }) => parts.map((part) => ("text" in part ? part.text : "")))
        .join("");
      const numbers = storedText.split(";").slice(0, -1);
      assert.deepEqual(
        numbers,
        numbers.map((_, n) => `${n}`),
        `trial ${trial}: in order, each once`,
      );
      assert.ok(
        numbers.length >= acknowledged,
        `trial ${trial}: ${acknowledged} acknowledged, ${numbers.length} found`,
      );
      assert.ok(numbers.length <= acknowledged + 1, `trial ${trial}: nothing that was never written`);
    }
  });
});
