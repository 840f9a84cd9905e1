import assert from "node:assert/strict";
import { mkdir, readdir, rename, utimes, writeFile } from "node:fs/promises";
import { it } from "node:test";
import { hasCode } from "gantry";
import { currentHolder } from "gantry/plugin";
import type { LeaseHolder } from "gantry/plugin";
import { StoreLock } from "../../../adapters/lowdb-json-driver/store-lock.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

/** Returns the file name of a holder's token. */
const createTokenName = ({ host, boot, pid, started, id }: LeaseHolder): string =>
  [host, boot, `${pid}`, started, id].map(encodeURIComponent).join(",");

/** Creates a lock that this holder owns. */
async function createHeldLock(t: Hooks, holder: Partial<LeaseHolder>): Promise<{ folder: string; token: string }> {
  const parentFolder = await tempDir(t);
  const folder = parentFolder.at("lock");
  const token = parentFolder.at("lock", createTokenName({ ...currentHolder("other"), ...holder }));
  await mkdir(folder);
  await writeFile(token, "");
  return { folder, token };
}

/** A pid that Linux never uses, a reused pid, and a process from before the last boot. */
const DEAD_HOLDERS: Partial<LeaseHolder>[] = [{ pid: 2 ** 22 + 1 }, { started: "1" }, { boot: "an earlier one" }];

it("a lock of a process that died, or whose pid was reused, goes to exactly one of eight takers", async (t) => {
  for (const holder of DEAD_HOLDERS) {
    const { folder } = await createHeldLock(t, holder);
    const results = await Promise.allSettled(Array.from({ length: 8 }, () => StoreLock.acquire(folder, "/store")));
    const acquiredLocks = results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
    assert.equal(acquiredLocks.length, 1, JSON.stringify(holder));
    assert.equal((await readdir(folder)).length, 1);
    for (const lock of acquiredLocks) lock.release();
    assert.deepEqual(await readdir(folder), ["free"]);
  }
});

it("a lock of a live process is refused with the pid of that process and a remedy, and is free after release", async (t) => {
  const folder = (await tempDir(t)).at("lock");
  const lock = await StoreLock.acquire(folder, "/store");
  await assert.rejects(
    StoreLock.acquire(folder, "/store"),
    (error) =>
      hasCode(error, "store") &&
      /^session store \/store: the process \d+ on \S+ has it open.*session\.driver to "sqlite"/.test(error.message) &&
      error.message.includes(`process ${process.pid} on`),
  );
  lock.release();
  (await StoreLock.acquire(folder, "/store")).release();
});

it("a lock of another host is refused while its token's time changes, and can be taken after that", async (t) => {
  const { folder, token } = await createHeldLock(t, { host: "elsewhere x" });
  let isAlive = true;
  const tokenUpdates = (async () => {
    for (let seconds = 1; isAlive; seconds++) await utimes(token, seconds, seconds);
  })();
  await assert.rejects(StoreLock.acquire(folder, "/store", 60_000), /on elsewhere has it open/);
  isAlive = false;
  await tokenUpdates;
  const lock = await StoreLock.acquire(folder, "/store", 50);
  lock.release();
});

it("a holder that lost its lock gets a store error from throwIfLost()", async (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  const folder = (await tempDir(t)).at("lock");
  const lock = await StoreLock.acquire(folder, "/store");
  lock.throwIfLost();
  const [token = ""] = await readdir(folder);
  await rename(`${folder}/${token}`, `${folder}/${createTokenName(currentHolder("other"))}`);
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
