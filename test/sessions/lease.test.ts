import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { hostname } from "node:os";
import { describe, it } from "node:test";
import { holderState, MemoryDriver, silentLogger, thisHolder } from "gantry";
import { HeldLease, isGone } from "../../src/sessions/lease.js";

describe("a holder of a lease", () => {
  it("is this process while it lives, in any boot but another, and unknown on other hosts", () => {
    const here = thisHolder();
    assert.equal(isGone(here), false);
    assert.equal(isGone({ ...here, host: "elsewhere", pid: 1 }), false);
    assert.deepEqual([here, { ...here, host: "elsewhere" }, { ...here, boot: "another boot" }].map(holderState), [
      "alive",
      "elsewhere",
      "dead",
    ]);
    assert.equal(isGone({ ...here, boot: "another boot" }), true);
    // Of another container: its pids say nothing here, though name and boot may be the same.
    if (process.platform === "linux") assert.equal(isGone({ ...here, host: hostname(), pid: 2 ** 22 + 1 }), false);
    assert.notEqual(thisHolder().id, here.id);
  });

  it("is gone with its process, also when another got its number", async () => {
    const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]);
    await once(child, "spawn");
    const here = thisHolder();
    const holder = { ...here, pid: child.pid ?? 0, started: "" };
    assert.equal(isGone(holder), false);
    if (process.platform === "linux") assert.equal(isGone({ ...holder, started: "1" }), true);
    child.kill("SIGKILL");
    await once(child, "exit");
    assert.equal(isGone(holder), true);
  });
});

describe("a lease", () => {
  it("is held by one, and free for the next after it was given back", async () => {
    const driver = new MemoryDriver();
    await driver.open();
    const one = await HeldLease.take(driver, "root", silentLogger);
    await assert.rejects(HeldLease.take(driver, "root", silentLogger), { code: "session_busy" });
    await one.release();
    const lost: Error[] = [];
    const two = await HeldLease.take(driver, "root", silentLogger, (reason) => lost.push(reason));
    assert.ok(two.fence > one.fence);
    assert.deepEqual(lost, []);
    await two.release();
  });

  it("that cannot be given back is tried again, and known as dead by its own process", async () => {
    for (const failures of [1, 3]) {
      const driver = new MemoryDriver();
      await driver.open();
      let calls = 0;
      const release = driver.release.bind(driver);
      driver.release = (lease) => (++calls <= failures ? Promise.reject(new Error("disk I/O error")) : release(lease));
      const one = await HeldLease.take(driver, "root", silentLogger);
      await one.giveBack();
      assert.equal(calls, Math.min(failures + 1, 3));
      const two = await HeldLease.take(driver, "root", silentLogger);
      assert.ok(two.fence > one.fence);
      await two.release();
    }
  });
});
