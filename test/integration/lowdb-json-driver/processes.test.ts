import assert from "node:assert/strict";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { LowdbJsonDriver } from "gantry/adapters/lowdb-json-driver";
import { aMessage, aSession, change } from "../../../src/testing/session-driver/rule.js";
import { Child, allAtOnce } from "../../helpers/child.js";
import { messagesInFile } from "../../helpers/json-store.js";
import { randomOf, seedOf } from "../../helpers/random.js";

const TRIALS = Number(process.env["TRIALS"] ?? 2);
const SEED = seedOf();
/** Most writes that are acknowledged between the first and the kill. */
const MAX_WRITES = 200;

describe("LowdbJsonDriver in several processes", () => {
  let folder = "";
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "gantry-json-"));
  });
  after(() => rm(folder, { recursive: true, force: true }));
  const start = (path: string, ...args: string[]): Child => new Child("./session-process.ts", ["json", path, ...args]);
  const opened = async (path: string): Promise<LowdbJsonDriver> => {
    const driver = new LowdbJsonDriver({ path });
    await driver.open();
    return driver;
  };

  const messagesIn = async (path: string, id: string): Promise<number> =>
    (await messagesInFile(join(path, `${id}.json`))).length;

  it("four processes open one fresh store", async () => {
    const path = join(folder, "fresh", "sessions");
    await allAtOnce(Array.from({ length: 4 }, () => start(path, "open")));
    assert.deepEqual(await readdir(path), []);
    assert.deepEqual(await readdir(join(`${path}.d`, "open")), [], "every process cleaned up");
  });

  it("four processes with fifty writes each lose none", async () => {
    const path = join(folder, "four");
    const driver = await opened(path);
    await driver.create({ session: aSession("shared") });
    await allAtOnce(Array.from({ length: 4 }, (_, n) => start(path, "write", `own${n}`, "50", "shared")));
    for (let n = 0; n < 4; n++) assert.equal((await driver.messages(`own${n}`)).length, 50);
    assert.equal((await driver.get("shared"))?.usage.promptTokens, 200);
    assert.equal((await driver.list({ limit: 1 })).total, 5);
    await driver.close();
    assert.deepEqual((await readdir(path)).sort(), [
      ...["own0", "own1", "own2", "own3", "shared"].map((id) => `${id}.json`),
    ]);
    assert.equal(await messagesIn(path, "own3"), 50, "folded in at close");
  });

  it(`kill -9 at random moments loses nothing that was acknowledged (SEED=${SEED})`, async () => {
    const random = randomOf(SEED);
    const path = join(folder, "kill");
    const witness = await opened(path);
    for (let trial = 0; trial < TRIALS; trial++) {
      const id = `s${trial}`;
      const child = start(path, "append", id);
      await child.lines(1 + Math.floor(random() * MAX_WRITES));
      await child.kill();
      const acknowledged = child.stdout.split("\n").length - 1;
      // One that was open all the time, and one that opens now, must agree.
      const fresh = trial % 2 === 0 ? await opened(path) : witness;
      for (const driver of [witness, fresh]) {
        const messages = await driver.messages(id);
        const text = messages.flatMap((message) => message.parts.map((part) => ("text" in part ? part.text : "")));
        const numbers = text.join("").split(";").slice(0, -1);
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
        assert.equal((await driver.get(id))?.lastSeq, messages.at(-1)?.seq, "the index agrees");
      }
      await witness.write(id, change({ add: [aMessage(id, 1000)] }));
      if (fresh !== witness) {
        assert.equal((await fresh.get(id))?.lastSeq, 1000);
        await fresh.close();
      }
    }
    await witness.close();
    const last = await opened(path);
    assert.equal((await readdir(join(`${path}.d`, "open"))).length, 1, "temporary files of the dead are gone");
    for (let trial = 0; trial < TRIALS; trial++) {
      const told = await last.messages(`s${trial}`);
      assert.equal(await messagesIn(path, `s${trial}`), told.length, "all is in the files");
    }
    await last.close();
  });
});
