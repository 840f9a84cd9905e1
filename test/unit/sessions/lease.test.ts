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
import { until } from "../../helpers/lab.js";
import { Tables } from "../../helpers/tables.js";

describe("the holder of a lease", () => {
  it("is alive in this process, dead after a reboot, and unknown on another host or in another container", () => {
    const ownHolder = currentHolder();
    assert.equal(isDead(ownHolder), false);
    assert.equal(isDead({ ...ownHolder, host: "elsewhere", pid: 1 }), false);
    // Two machines with the same host name can be distinguished only by a machine id.
    const machine = existsSync("/etc/machine-id") ? readFileSync("/etc/machine-id", "utf8").trim() : "";
    const rebooted = machine === "" ? "remote" : "dead";
    assert.deepEqual(
      [ownHolder, { ...ownHolder, host: "elsewhere" }, { ...ownHolder, boot: "another boot" }].map(holderState),
      ["alive", "remote", rebooted],
    );
    assert.equal(isDead({ ...ownHolder, boot: "another boot" }), machine !== "");
    assert.ok(ownHolder.host.includes(machine));
    const foreignHolder = {
      ...ownHolder,
      boot: "another boot",
      host: ownHolder.host.replace(machine, "another machine"),
    };
    if (machine !== "") assert.equal(holderState(foreignHolder), "remote");
    // In another container, pids have no meaning here, even with the same host name and boot id.
    if (process.platform === "linux") assert.equal(isDead({ ...ownHolder, host: hostname(), pid: 2 ** 22 + 1 }), false);
    assert.notEqual(currentHolder().id, ownHolder.id);
  });

  it("is dead after its process has exited, also if its pid is in use again", async () => {
    const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]);
    await once(child, "spawn");
    const ownHolder = currentHolder();
    const holder = { ...ownHolder, pid: child.pid ?? 0, started: "" };
    assert.equal(isDead(holder), false);
    if (process.platform === "linux") assert.equal(isDead({ ...holder, started: "1" }), true);
    child.kill("SIGKILL");
    await once(child, "exit");
    assert.equal(isDead(holder), true);
  });
});

function background(closing = new AbortController().signal): BackgroundTasks {
  return { tasks: new TaskSet(), closeSignal: closing };
}

describe("a lease", () => {
  it("has one holder at a time, and is free again after its release", async () => {
    const driver = new MemoryDriver();
    await driver.open();
    const firstLease = await ActiveLease.take(driver, "root", silentLogger);
    await assert.rejects(ActiveLease.take(driver, "root", silentLogger), { code: "session_busy" });
    await firstLease.release();
    const lost: Error[] = [];
    const secondLease = await ActiveLease.take(driver, "root", silentLogger, (reason) => lost.push(reason));
    assert.ok(secondLease.fence > firstLease.fence);
    assert.deepEqual(lost, []);
    await secondLease.release();
  });

  it("is released in the background if the store fails at first, and other processes are notified", async (t) => {
    // The code under test does not keep the process alive.
    const alive = setInterval(() => undefined, 1000);
    t.after(() => clearInterval(alive));
    const store = new Tables();
    const [driver, elsewhere] = [new MemoryDriver(store), new MemoryDriver(store)];
    await Promise.all([driver.open(), elsewhere.open()]);
    const write = driver.write.bind(driver);
    let isAway = true;
    driver.write = (...args) => (isAway ? Promise.reject(new StoreError("away")) : write(...args));
    const notifications: string[] = [];
    elsewhere.notifier.subscribe("root", () => notifications.push("root"));
    const held = await ActiveLease.take(driver, "root", silentLogger);
    const backgroundTasks = background();
    await held.releaseWithRetries(backgroundTasks);
    const foreignHolder = currentHolder("of another process");
    assert.ok("heldBy" in (await driver.lease("root", foreignHolder, 30_000)));
    isAway = false;
    await backgroundTasks.tasks.settled();
    assert.ok(!("heldBy" in (await driver.lease("root", foreignHolder, 30_000))));
    await until(() => notifications.length > 0);
    // A late release does not affect the new holder.
    await held.releaseWithRetries(backgroundTasks);
    assert.ok("heldBy" in (await driver.lease("root", currentHolder(), 30_000)));
  });

  it("whose release keeps failing does not block shutdown, and is logged once", async (t) => {
    // The code under test does not keep the process alive.
    const alive = setInterval(() => undefined, 1000);
    t.after(() => clearInterval(alive));
    const driver = new MemoryDriver();
    await driver.open();
    driver.write = () => Promise.reject(new StoreError("away"));
    const lines: string[] = [];
    const logger = { ...silentLogger, warn: (line: string) => lines.push(line) };
    const closing = new AbortController();
    const backgroundTasks = background(closing.signal);
    const held = await ActiveLease.take(driver, "one", logger);
    await held.releaseWithRetries(backgroundTasks);
    // The same for a write that never settles.
    const writeStarted = new Promise<void>((resolve) => {
      driver.write = () => {
        resolve();
        return new Promise(() => undefined);
      };
    });
    await writeStarted;
    assert.deepEqual(lines, []);
    closing.abort();
    await backgroundTasks.tasks.settled();
    assert.equal(lines.length, 1);
  });

  it("is released in up to 3 attempts; if all fail, its own process can still replace it", async () => {
    for (const failures of [1, 3]) {
      const driver = new MemoryDriver();
      await driver.open();
      let calls = 0;
      const write = driver.write.bind(driver);
      driver.write = (...args) => (++calls <= failures ? Promise.reject(new Error("disk I/O error")) : write(...args));
      const firstLease = await ActiveLease.take(driver, "root", silentLogger);
      await firstLease.releaseWithRetries(background());
      assert.equal(calls, Math.min(failures + 1, 3));
      const secondLease = await ActiveLease.take(driver, "root", silentLogger);
      assert.ok(secondLease.fence > firstLease.fence);
      await secondLease.release();
    }
  });
});

describe("a lease while the store is unavailable", () => {
  it("is renewed as soon as the store is back, one attempt at a time, and lost if another holder took it", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const store = new Tables();
    const [driver, secondDriver] = [new MemoryDriver(store), new MemoryDriver(store)];
    await driver.open();
    await secondDriver.open();
    const lost: Error[] = [];
    const held = await ActiveLease.take(driver, "root", silentLogger, (reason) => lost.push(reason));
    const lease = driver.lease.bind(driver);
    let renewals = 0;
    let fail = (): void => undefined;
    driver.lease = () => {
      renewals += 1;
      return new Promise((_, reject) => (fail = () => reject(new StoreError("no connection", { unavailable: true }))));
    };
    const settle = () => new Promise((resolve) => setImmediate(resolve));
    t.mock.timers.tick(10_000);
    assert.equal(renewals, 1);
    // The pending renewal hangs, so no second one starts.
    t.mock.timers.tick(10_000);
    assert.equal(renewals, 1);
    fail();
    await settle();
    t.mock.timers.tick(2_000);
    assert.equal(renewals, 2, "soon again");
    const before = store.leases.get("root")?.expiresAt ?? "";
    driver.lease = lease;
    fail();
    await settle();
    t.mock.timers.tick(2_000);
    await settle();
    assert.ok((store.leases.get("root")?.expiresAt ?? "") >= before);
    assert.deepEqual(lost, []);
    // Unreachable for longer than the lease lasts.
    const rival = await secondDriver.lease("root", { ...currentHolder(), host: "another host" }, 30_000, {
      fenceToReplace: held.fence,
    });
    assert.ok(!("heldBy" in rival));
    t.mock.timers.tick(10_000);
    await settle();
    assert.deepEqual(
      lost.map(({ name }) => name),
      ["LeaseLostError"],
    );
    t.mock.timers.tick(60_000);
    await settle();
    assert.equal(lost.length, 1);
    await held.release();
    assert.equal(store.leases.get("root")?.fence, rival.fence, "it gives back what is its own");
  });

  it("is released by a change only after its pending renewal, and not renewed afterwards", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const driver = new MemoryDriver();
    await driver.open();
    const held = await ActiveLease.take(driver, "root", silentLogger);
    const order: string[] = [];
    const { lease, write } = driver;
    let go = (): void => undefined;
    driver.lease = async (...args) => {
      order.push("renewal");
      await new Promise<void>((resolve) => (go = resolve));
      order.push("renewed");
      return lease.apply(driver, args);
    };
    driver.write = async (...args) => {
      order.push("release");
      return write.apply(driver, args);
    };
    t.mock.timers.tick(10_000);
    const refused = assert.rejects(
      held.releaseWith(async () => {
        order.push("write");
        throw new StoreError("no connection");
      }),
    );
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(order, ["renewal"]);
    go();
    await refused;
    t.mock.timers.tick(60_000);
    assert.deepEqual(order, ["renewal", "renewed", "write"]);
    // A failed release is not a release, and is repeated.
    await held.releaseWithRetries(background());
    await held.releaseWithRetries(background());
    assert.deepEqual(order.slice(3), ["release"]);
    const next = await lease.call(driver, "root", currentHolder(), 1);
    assert.ok(!("heldBy" in next));
  });
});
