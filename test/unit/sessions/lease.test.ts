import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { hostname } from "node:os";
import { describe, it } from "node:test";
import { MemoryDriver, silentLogger, StoreError } from "gantry";
import { holderState, currentHolder } from "gantry/plugin";
import { TaskSet } from "../../../src/base/task-set.js";
import { ActiveLease, isDead, type Background } from "../../../src/sessions/lease.js";
import { until } from "../../helpers/lab.js";
import { Tables } from "../../helpers/tables.js";

describe("a holder of a lease", () => {
  it("is this process while it lives, in any boot but another, and unknown on other hosts", () => {
    const here = currentHolder();
    assert.equal(isDead(here), false);
    assert.equal(isDead({ ...here, host: "elsewhere", pid: 1 }), false);
    // Only a machine that something names can be told from another one of its name.
    const machine = existsSync("/etc/machine-id") ? readFileSync("/etc/machine-id", "utf8").trim() : "";
    const rebooted = machine === "" ? "elsewhere" : "dead";
    assert.deepEqual([here, { ...here, host: "elsewhere" }, { ...here, boot: "another boot" }].map(holderState), [
      "alive",
      "elsewhere",
      rebooted,
    ]);
    assert.equal(isDead({ ...here, boot: "another boot" }), machine !== "");
    assert.ok(here.host.includes(machine));
    const other = { ...here, boot: "another boot", host: here.host.replace(machine, "another machine") };
    if (machine !== "") assert.equal(holderState(other), "elsewhere");
    // Of another container: its pids say nothing here, though name and boot may be the same.
    if (process.platform === "linux") assert.equal(isDead({ ...here, host: hostname(), pid: 2 ** 22 + 1 }), false);
    assert.notEqual(currentHolder().id, here.id);
  });

  it("is gone with its process, also when another got its number", async () => {
    const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]);
    await once(child, "spawn");
    const here = currentHolder();
    const holder = { ...here, pid: child.pid ?? 0, started: "" };
    assert.equal(isDead(holder), false);
    if (process.platform === "linux") assert.equal(isDead({ ...holder, started: "1" }), true);
    child.kill("SIGKILL");
    await once(child, "exit");
    assert.equal(isDead(holder), true);
  });
});

function background(closing = new AbortController().signal): Background {
  return { tasks: new TaskSet(), closing };
}

describe("a lease", () => {
  it("is held by one, and free for the next after it was given back", async () => {
    const driver = new MemoryDriver();
    await driver.open();
    const one = await ActiveLease.take(driver, "root", silentLogger);
    await assert.rejects(ActiveLease.take(driver, "root", silentLogger), { code: "session_busy" });
    await one.release();
    const lost: Error[] = [];
    const two = await ActiveLease.take(driver, "root", silentLogger, (reason) => lost.push(reason));
    assert.ok(two.fence > one.fence);
    assert.deepEqual(lost, []);
    await two.release();
  });

  it("that could not be given back for a while is given back later, and others are told", async (t) => {
    // By itself it keeps no process.
    const alive = setInterval(() => undefined, 1000);
    t.after(() => clearInterval(alive));
    const store = new Tables();
    const [driver, elsewhere] = [new MemoryDriver(store), new MemoryDriver(store)];
    await Promise.all([driver.open(), elsewhere.open()]);
    const write = driver.write.bind(driver);
    let isAway = true;
    driver.write = (...args) => (isAway ? Promise.reject(new StoreError("away")) : write(...args));
    const told: string[] = [];
    elsewhere.notifier.subscribe("root", () => told.push("root"));
    const held = await ActiveLease.take(driver, "root", silentLogger);
    const behind = background();
    await held.giveBack(behind);
    const other = currentHolder("of another process");
    assert.ok("heldBy" in (await driver.lease("root", other, 30_000)));
    isAway = false;
    await behind.tasks.settled();
    assert.ok(!("heldBy" in (await driver.lease("root", other, 30_000))));
    await until(() => told.length > 0);
    // What comes too late takes it from nobody.
    await held.giveBack(behind);
    assert.ok("heldBy" in (await driver.lease("root", currentHolder(), 30_000)));
  });

  it("that could not be given back holds up no end", async (t) => {
    // By itself it keeps no process.
    const alive = setInterval(() => undefined, 1000);
    t.after(() => clearInterval(alive));
    const driver = new MemoryDriver();
    await driver.open();
    driver.write = () => Promise.reject(new StoreError("away"));
    const lines: string[] = [];
    const logger = { ...silentLogger, warn: (line: string) => lines.push(line) };
    const closing = new AbortController();
    const behind = background(closing.signal);
    const held = await ActiveLease.take(driver, "one", logger);
    await held.giveBack(behind);
    // One that is not answered, either.
    const asked = new Promise<void>((resolve) => {
      driver.write = () => {
        resolve();
        return new Promise(() => undefined);
      };
    });
    await asked;
    assert.deepEqual(lines, []);
    closing.abort();
    await behind.tasks.settled();
    assert.equal(lines.length, 1);
  });

  it("that cannot be given back is tried again, and known as dead by its own process", async () => {
    for (const failures of [1, 3]) {
      const driver = new MemoryDriver();
      await driver.open();
      let calls = 0;
      const write = driver.write.bind(driver);
      driver.write = (...args) => (++calls <= failures ? Promise.reject(new Error("disk I/O error")) : write(...args));
      const one = await ActiveLease.take(driver, "root", silentLogger);
      await one.giveBack(background());
      assert.equal(calls, Math.min(failures + 1, 3));
      const two = await ActiveLease.take(driver, "root", silentLogger);
      assert.ok(two.fence > one.fence);
      await two.release();
    }
  });
});

describe("a lease whose store is away", () => {
  it("is renewed as soon as that is back, one attempt at a time, and lost to whoever took it meanwhile", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const store = new Tables();
    const [driver, other] = [new MemoryDriver(store), new MemoryDriver(store)];
    await driver.open();
    await other.open();
    const lost: Error[] = [];
    const held = await ActiveLease.take(driver, "root", silentLogger, (reason) => lost.push(reason));
    const lease = driver.lease.bind(driver);
    let asked = 0;
    let fail = (): void => undefined;
    driver.lease = () => {
      asked += 1;
      return new Promise((_, reject) => (fail = () => reject(new StoreError("no connection", { unavailable: true }))));
    };
    const settle = () => new Promise((resolve) => setImmediate(resolve));
    t.mock.timers.tick(10_000);
    assert.equal(asked, 1);
    // It hangs: nothing is asked beside it.
    t.mock.timers.tick(10_000);
    assert.equal(asked, 1);
    fail();
    await settle();
    t.mock.timers.tick(2_000);
    assert.equal(asked, 2, "soon again");
    const before = store.leases.get("root")?.expiresAt ?? "";
    driver.lease = lease;
    fail();
    await settle();
    t.mock.timers.tick(2_000);
    await settle();
    assert.ok((store.leases.get("root")?.expiresAt ?? "") >= before);
    assert.deepEqual(lost, []);
    // Away for longer than the lease lasts.
    const rival = await other.lease("root", { ...currentHolder(), host: "another host" }, 30_000, {
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

  it("is given back with a change alone: its last renewal comes before that, and none behind it", async (t) => {
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
      held.backWith(async () => {
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
    // What failed is not given back yet.
    await held.giveBack(background());
    await held.giveBack(background());
    assert.deepEqual(order.slice(3), ["release"]);
    const next = await lease.call(driver, "root", currentHolder(), 1);
    assert.ok(!("heldBy" in next));
  });
});
