import assert from "node:assert/strict";
import { mkdir, readdir, rename, utimes, writeFile } from "node:fs/promises";
import { it } from "node:test";
import { hasCode } from "gantry";
import { currentHolder } from "gantry/plugin";
import type { LeaseHolder } from "gantry/plugin";
import { ProcessLock } from "../../../adapters/lowdb-json-driver/process-lock.js";
import { tempDir, type Hooks } from "../../helpers/temp.js";

/** The file name of a holder's token. */
const nameOf = ({ host, boot, pid, started, id }: LeaseHolder): string =>
  [host, boot, `${pid}`, started, id].map(encodeURIComponent).join(",");

/** Creates a lock that this holder owns. */
async function heldBy(t: Hooks, holder: Partial<LeaseHolder>): Promise<{ folder: string; token: string }> {
  const place = await tempDir(t);
  const folder = place.at("lock");
  const token = place.at("lock", nameOf({ ...currentHolder("other"), ...holder }));
  await mkdir(folder);
  await writeFile(token, "");
  return { folder, token };
}

const DEAD: Partial<LeaseHolder>[] = [{ pid: 2 ** 22 + 1 }, { started: "1" }, { boot: "an earlier one" }];

it("a lock of a process that died, or whose pid was reused, goes to exactly one of eight takers", async (t) => {
  for (const holder of DEAD) {
    const { folder } = await heldBy(t, holder);
    const taken = await Promise.allSettled(Array.from({ length: 8 }, () => ProcessLock.acquire(folder, "/store")));
    const winners = taken.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
    assert.equal(winners.length, 1, JSON.stringify(holder));
    assert.equal((await readdir(folder)).length, 1);
    for (const lock of winners) lock.release();
    assert.deepEqual(await readdir(folder), ["free"]);
  }
});

it("a lock of a live process is refused with its pid and a remedy, and is free after release", async (t) => {
  const folder = (await tempDir(t)).at("lock");
  const lock = await ProcessLock.acquire(folder, "/store");
  await assert.rejects(
    ProcessLock.acquire(folder, "/store"),
    (error) =>
      hasCode(error, "store") &&
      /^session store \/store: the process \d+ on \S+ has it open.*session\.driver to "sqlite"/.test(error.message) &&
      error.message.includes(`process ${process.pid} on`),
  );
  lock.release();
  (await ProcessLock.acquire(folder, "/store")).release();
});

it("a lock of another host is refused while its token's time changes, and can be taken after that", async (t) => {
  const { folder, token } = await heldBy(t, { host: "elsewhere x" });
  let isAlive = true;
  const life = (async () => {
    for (let time = 1; isAlive; time++) await utimes(token, time, time);
  })();
  await assert.rejects(ProcessLock.acquire(folder, "/store", 60_000), /on elsewhere has it open/);
  isAlive = false;
  await life;
  const lock = await ProcessLock.acquire(folder, "/store", 50);
  lock.release();
});

it("a holder that lost its lock gets a store error from check()", async (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  const folder = (await tempDir(t)).at("lock");
  const lock = await ProcessLock.acquire(folder, "/store");
  lock.throwIfLost();
  const [token = ""] = await readdir(folder);
  await rename(`${folder}/${token}`, `${folder}/${nameOf(currentHolder("other"))}`);
  t.mock.timers.tick(2_000);
  for (let isLost = false; !isLost;) {
    await readdir(folder);
    try {
      lock.throwIfLost();
    } catch (error) {
      isLost = hasCode(error, "store");
    }
  }
  lock.release();
});
