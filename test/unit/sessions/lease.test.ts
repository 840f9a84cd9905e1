import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { hostname } from "node:os";
import { describe, it } from "node:test";
import { MemoryDriver, silentLogger, StoreError } from "gantry";
import { holderState, currentHolder } from "gantry/plugin";
import { TaskSet } from "../../../src/base/task-set.js";
import { ActiveLease, isDead, type BackgroundTasks } from "../../../src/sessions/lease.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { Tables } from "../../helpers/tables.js";

describe("the holder of a lease", () => {
  it("is alive in this process, dead after a reboot, and unknown on another host or in another container", () => {
    const ownHolder = currentHolder();
    assert.equal(isDead(ownHolder), false);
    assert.equal(isDead({ ...ownHolder, host: "elsewhere", pid: 1 }), false);
    // Two machines with the same host name can be distinguished only by a machine id.
    const machineId = existsSync("/etc/machine-id") ? readFileSync("/etc/machine-id", "utf8").trim() : "";
    const stateAfterReboot = machineId === "" ? "remote" : "dead";
    assert.deepEqual(
      [ownHolder, { ...ownHolder, host: "elsewhere" }, { ...ownHolder, boot: "another boot" }].map(holderState),
      ["alive", "remote", stateAfterReboot],
    );
    assert.equal(isDead({ ...ownHolder, boot: "another boot" }), machineId !== "");
    assert.ok(ownHolder.host.includes(machineId));
    const foreignHolder = {
      ...ownHolder,
      boot: "another boot",
      host: ownHolder.host.replace(machineId, "another machine"),
    };
    if (machineId !== "") assert.equal(holderState(foreignHolder), "remote");
    // A pid of another container has no meaning in this process, even with the same host name and boot id.
    if (process.platform === "linux") assert.equal(isDead({ ...ownHolder, host: hostname(), pid: 2 ** 22 + 1 }), false);
    assert.notEqual(currentHolder().id, ownHolder.id);
  });

  it("is dead after its process has exited, also if its pid is in use again", async () => {
    const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]);
    await once(child, "spawn");
    const ownHolder = currentHolder();
    const childHolder = { ...ownHolder, pid: child.pid ?? 0, started: "" };
    assert.equal(isDead(childHolder), false);
    if (process.platform === "linux") assert.equal(isDead({ ...childHolder, started: "1" }), true);
    child.kill("SIGKILL");
    await once(child, "exit");
    assert.equal(isDead(childHolder), true);
  });
});

function createBackgroundTasks(closeSignal = new AbortController().signal): BackgroundTasks {
  return { tasks: new TaskSet(), closeSignal: closeSignal };
}

describe("a lease", () => {
  it("has one holder at a time, and is free again after its release", async () => {
    const driver = new MemoryDriver();
    await driver.open();
    const firstLease = await ActiveLease.take(driver, "root", silentLogger);
    await assert.rejects(ActiveLease.take(driver, "root", silentLogger), { code: "session_busy" });
    await firstLease.release();
    const losses: Error[] = [];
    const secondLease = await ActiveLease.take(driver, "root", silentLogger, (reason) => losses.push(reason));
    assert.ok(secondLease.fence > firstLease.fence);
    assert.deepEqual(losses, []);
    await secondLease.release();
  });

  it("is released in the background if the store fails at first, and other processes are notified", async (t) => {
    // The code under test does not keep the process alive.
    const keepAliveTimer = setInterval(() => undefined, 1000);
    t.after(() => clearInterval(keepAliveTimer));
    const store = new Tables();
    const [driver, otherDriver] = [new MemoryDriver(store), new MemoryDriver(store)];
    await Promise.all([driver.open(), otherDriver.open()]);
    const write = driver.write.bind(driver);
    let isUnavailable = true;
    driver.write = (...args) => (isUnavailable ? Promise.reject(new StoreError("away")) : write(...args));
    const notifications: string[] = [];
    otherDriver.notifier.subscribe("root", () => notifications.push("root"));
    const activeLease = await ActiveLease.take(driver, "root", silentLogger);
    const backgroundTasks = createBackgroundTasks();
    await activeLease.releaseWithRetries(backgroundTasks);
    const foreignHolder = currentHolder("of another process");
    assert.ok("heldBy" in (await driver.lease("root", foreignHolder, 30_000)));
    isUnavailable = false;
    await backgroundTasks.tasks.settled();
    assert.ok(!("heldBy" in (await driver.lease("root", foreignHolder, 30_000))));
    await waitUntil(() => notifications.length > 0);
    // A late release does not affect the new holder.
    await activeLease.releaseWithRetries(backgroundTasks);
    assert.ok("heldBy" in (await driver.lease("root", currentHolder(), 30_000)));
  });

  it("whose release keeps failing does not block shutdown, and is logged once", async (t) => {
    // The code under test does not keep the process alive.
    const keepAliveTimer = setInterval(() => undefined, 1000);
    t.after(() => clearInterval(keepAliveTimer));
    const driver = new MemoryDriver();
    await driver.open();
    driver.write = () => Promise.reject(new StoreError("away"));
    const warnings: string[] = [];
    const logger = { ...silentLogger, warn: (message: string) => warnings.push(message) };
    const closeController = new AbortController();
    const backgroundTasks = createBackgroundTasks(closeController.signal);
    const activeLease = await ActiveLease.take(driver, "one", logger);
    await activeLease.releaseWithRetries(backgroundTasks);
    // The next write never settles.
    const writeStarted = new Promise<void>((resolve) => {
      driver.write = () => {
        resolve();
        return new Promise(() => undefined);
      };
    });
    await writeStarted;
    assert.deepEqual(warnings, []);
    closeController.abort();
    await backgroundTasks.tasks.settled();
    assert.equal(warnings.length, 1);
  });

  it("is released in up to 3 attempts; if all fail, the process of the lease can still replace it", async () => {
    for (const failureCount of [1, 3]) {
      const driver = new MemoryDriver();
      await driver.open();
      let callCount = 0;
      const write = driver.write.bind(driver);
      driver.write = (...args) =>
        ++callCount <= failureCount ? Promise.reject(new Error("disk I/O error")) : write(...args);
      const firstLease = await ActiveLease.take(driver, "root", silentLogger);
      await firstLease.releaseWithRetries(createBackgroundTasks());
      assert.equal(callCount, Math.min(failureCount + 1, 3));
      const secondLease = await ActiveLease.take(driver, "root", silentLogger);
      assert.ok(secondLease.fence > firstLease.fence);
      await secondLease.release();
    }
  });
});

describe("a lease while the store is unavailable", () => {
  it("is renewed with one attempt at a time until the store is back, and is lost if another holder took it", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const store = new Tables();
    const [driver, secondDriver] = [new MemoryDriver(store), new MemoryDriver(store)];
    await driver.open();
    await secondDriver.open();
    const losses: Error[] = [];
    const activeLease = await ActiveLease.take(driver, "root", silentLogger, (reason) => losses.push(reason));
    const originalLease = driver.lease.bind(driver);
    let renewalCount = 0;
    let rejectRenewal = (): void => undefined;
    driver.lease = () => {
      renewalCount += 1;
      return new Promise(
        (_, reject) => (rejectRenewal = () => reject(new StoreError("no connection", { isUnavailable: true }))),
      );
    };
    const settle = () => new Promise((resolve) => setImmediate(resolve));
    t.mock.timers.tick(10_000);
    assert.equal(renewalCount, 1);
    // The pending renewal hangs, so no second renewal starts.
    t.mock.timers.tick(10_000);
    assert.equal(renewalCount, 1);
    rejectRenewal();
    await settle();
    t.mock.timers.tick(2_000);
    assert.equal(renewalCount, 2, "the renewal is repeated after 2 s");
    const previousExpiry = store.leases.get("root")?.expiresAt ?? "";
    driver.lease = originalLease;
    rejectRenewal();
    await settle();
    t.mock.timers.tick(2_000);
    await settle();
    assert.ok((store.leases.get("root")?.expiresAt ?? "") >= previousExpiry);
    assert.deepEqual(losses, []);
    // The store is unreachable for longer than the lease lasts.
    const foreignLease = await secondDriver.lease("root", { ...currentHolder(), host: "another host" }, 30_000, {
      fenceToReplace: activeLease.fence,
    });
    assert.ok(!("heldBy" in foreignLease));
    t.mock.timers.tick(10_000);
    await settle();
    assert.deepEqual(
      losses.map(({ name }) => name),
      ["LeaseLostError"],
    );
    t.mock.timers.tick(60_000);
    await settle();
    assert.equal(losses.length, 1);
    await activeLease.release();
    assert.equal(store.leases.get("root")?.fence, foreignLease.fence, "a late release keeps the other holder's lease");
  });

  it("delays a change that releases it until its pending renewal has ended, and is not renewed afterwards", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const driver = new MemoryDriver();
    await driver.open();
    const activeLease = await ActiveLease.take(driver, "root", silentLogger);
    const operations: string[] = [];
    const { lease, write } = driver;
    let continueRenewal = (): void => undefined;
    driver.lease = async (...args) => {
      operations.push("renewal");
      await new Promise<void>((resolve) => (continueRenewal = resolve));
      operations.push("renewed");
      return lease.apply(driver, args);
    };
    driver.write = async (...args) => {
      operations.push("release");
      return write.apply(driver, args);
    };
    t.mock.timers.tick(10_000);
    const releaseRejection = assert.rejects(
      activeLease.releaseWith(async () => {
        operations.push("write");
        throw new StoreError("no connection");
      }),
    );
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(operations, ["renewal"]);
    continueRenewal();
    await releaseRejection;
    t.mock.timers.tick(60_000);
    assert.deepEqual(operations, ["renewal", "renewed", "write"]);
    // The failed release is repeated once.
    await activeLease.releaseWithRetries(createBackgroundTasks());
    await activeLease.releaseWithRetries(createBackgroundTasks());
    assert.deepEqual(operations.slice(3), ["release"]);
    const nextLease = await lease.call(driver, "root", currentHolder(), 1);
    assert.ok(!("heldBy" in nextLease));
  });
});
