import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import type { LeaseHolder } from "../../ports/holder.js";
import type { SessionChange } from "../../ports/session-driver.js";
import { rejectsWith } from "../check.js";
import {
  aHolder,
  aMessage,
  anAsk,
  anInstruction,
  answered,
  aRun,
  aSession,
  askOf,
  at,
  change,
  growing,
  instruct,
  leaseOf,
  release,
  runOf,
  seqs,
  withdraw,
} from "./rule.js";
import type { StoreRules } from "./rule.js";

export const leaseRules: StoreRules = {
  "lease: one holder at a time; other callers receive the current lease": async (store) => {
    await store.driver.create({ session: aSession("a") });
    await store.driver.create({ session: aSession("b") });
    const holder: LeaseHolder = { id: "h1", host: "n1", boot: "b1", pid: 42, started: "99" };
    const before = Date.now();
    const lease = await store.driver.lease("a", holder, 60_000);
    assert.ok("fence" in lease, "the lease is had");
    assert.deepEqual([lease.rootId, lease.holder], ["a", holder]);
    assert.ok(
      Date.parse(lease.expiresAt) >= before + 60_000 && Date.parse(lease.expiresAt) <= Date.now() + 60_000,
      "it ends 60 s from now",
    );
    assert.deepEqual(await store.driver.lease("a", aHolder("h2"), 60_000), { heldBy: lease });
    const secondDriver = await store.second();
    assert.deepEqual(await secondDriver.lease("a", aHolder("h3"), 60_000), { heldBy: lease });
    assert.ok("fence" in (await secondDriver.lease("b", aHolder("h2"), 60_000)), "another chain is free");
  },
  "lease: the same holder renews it, with the same fence and a later expiry": async (store) => {
    await store.driver.create({ session: aSession("a") });
    const first = await leaseOf(store.driver, "a", "h1", 10_000);
    const driver = await store.reopen();
    const again = await leaseOf(driver, "a", "h1", 90_000);
    assert.equal(again.fence, first.fence);
    assert.ok(again.expiresAt > first.expiresAt, "a renewed lease ends later");
    await driver.write("a", change({ fence: first.fence, add: [aMessage("a", 1)] }));
  },
  "lease: applies to the whole chain, by any id of it": async ({ driver }) => {
    await driver.create({ session: aSession("a") });
    await driver.create({ session: aSession("a1", { chain: { root: "a", index: 1 } }) });
    const lease = await leaseOf(driver, "a", "h1");
    assert.ok("heldBy" in (await driver.lease("a1", aHolder("h2"), 60_000)), "it is held under the other id too");
    await driver.write("a", change({ fence: lease.fence, add: [aMessage("a", 1)] }));
    await driver.write("a1", change({ fence: lease.fence, add: [aMessage("a1", 2)] }));
  },
  "lease: an expired holder is replaced, and from then on its writes are rejected": async (store) => {
    const { driver } = store;
    await driver.create({ session: aSession("a"), messages: [growing("a", 1)] });
    const old = await leaseOf(driver, "a", "h1", 20);
    await sleep(40);
    await driver.write("a", change({ fence: old.fence, set: { title: "no rival" } }));
    const secondDriver = await store.second();
    const lease = await leaseOf(secondDriver, "a", "h2");
    assert.ok(lease.fence > old.fence, "a higher fence");
    const late = change({ fence: old.fence, append: [{ messageId: "a-1", part: 0, type: "text", text: "late" }] });
    await rejectsWith(driver.write("a", late), "lease_lost", "a replaced holder writes");
    await rejectsWith(secondDriver.write("a", late), "lease_lost", "the same through another driver");
    assert.deepEqual(await driver.messages("a"), [growing("a", 1)]);
    assert.ok("heldBy" in (await driver.lease("a", aHolder("h1"), 60_000)), "it is held");
    await secondDriver.write("a", change({ fence: lease.fence, add: [aMessage("a", 2)] }));
  },
  "lease: `fenceToReplace` replaces the lease of that fence at once, and no other": async (store) => {
    const { driver } = store;
    await driver.create({ session: aSession("a") });
    const first = await leaseOf(driver, "a", "h1");
    const conflict = await driver.lease("a", aHolder("h2"), 60_000, { fenceToReplace: first.fence + 1 });
    assert.deepEqual(conflict, { heldBy: first });
    const secondDriver = await store.second();
    const second = await secondDriver.lease("a", aHolder("h2"), 60_000, { fenceToReplace: first.fence });
    assert.ok(
      "fence" in second && second.fence > first.fence,
      "the lease of that fence is replaced, under a higher fence",
    );
    assert.equal(second.holder.id, "h2");
    await rejectsWith(driver.write("a", change({ fence: first.fence, set: { title: "x" } })), "lease_lost", "gone");
    // A late call does not replace a newer lease, even of the same holder.
    const late = await driver.lease("a", aHolder("h3"), 60_000, { fenceToReplace: first.fence });
    assert.ok("heldBy" in late, "it is held by its new holder");
    assert.deepEqual([late.heldBy.holder, late.heldBy.fence], [aHolder("h2"), second.fence]);
    await release(driver, second);
    const free = await driver.lease("a", aHolder("h3"), 60_000, { fenceToReplace: first.fence });
    assert.ok("fence" in free, "a free lease is acquired anyway");
  },
  "lease: can be acquired before its session exists; create rejects another fence": async ({ driver }) => {
    const lease = await leaseOf(driver, "a", "h1");
    assert.deepEqual(await driver.lease("a", aHolder("h2"), 60_000), { heldBy: lease });
    const session = aSession("a");
    await rejectsWith(driver.create({ session, fence: lease.fence + 1 }), "lease_lost", "another fence");
    assert.equal(await driver.get("a"), undefined);
    await driver.create({ session, fence: lease.fence });
    await driver.write("a", change({ fence: lease.fence, add: [aMessage("a", 1)] }));
  },
  "release: a change with `release` alone releases the lease of a session that was never created": async (store) => {
    const { driver } = store;
    const secondDriver = await store.second();
    const first = await leaseOf(driver, "a", "h1");
    const { rootId, fence } = first;
    const extraChange = change({ fence, release: true, set: { title: "x" } });
    await rejectsWith(driver.write("a", extraChange), "session_not_found", "with other fields");
    const wrong = release(driver, { rootId, fence: fence + 1 });
    await rejectsWith(wrong, "session_not_found", "another fence");
    assert.ok("heldBy" in (await secondDriver.lease("a", aHolder("h2"), 60_000)), "it is still held");
    await release(driver, first);
    const second = await leaseOf(secondDriver, "a", "h2");
    assert.ok(second.fence > fence, "a higher fence");
    await rejectsWith(driver.create({ session: aSession("a"), fence }), "lease_lost", "it was given back");
    await secondDriver.create({ session: aSession("a"), fence: second.fence });
  },
  "lease: returns the chain's head on request, in its state under the lease": async (store) => {
    const { driver } = store;
    const run = aRun("r1", "a");
    await driver.create({ session: aSession("a", { alias: "x" }), messages: [aMessage("a", 1)], run });
    const secondDriver = await store.second();
    const first = await leaseOf(secondDriver, "a", "h1");
    const cut = { id: "s", after: 1, createdAt: at(1) };
    await secondDriver.write(
      "a",
      change({ fence: first.fence, revert: cut, add: [aMessage("a", 2)], runs: [aRun("r2", "a")] }),
    );
    await release(secondDriver, first);
    const taken = await driver.lease("a", aHolder("h2"), 60_000, { head: { messages: true } });
    assert.ok("fence" in taken && taken.head, "a lease with the head");
    const { snapshots, ...head } = (await driver.head("a"))!;
    assert.deepEqual(taken.head, head);
    assert.deepEqual(snapshots, [cut]);
    assert.deepEqual(
      taken.head.messages.map(({ seq }) => seq),
      [1, 2],
    );
    const rival = await secondDriver.lease("a", aHolder("h3"), 60_000, { head: { messages: true } });
    assert.ok("heldBy" in rival && !("head" in rival), "no head without the lease");
    const plain = await driver.lease("a", aHolder("h2"), 60_000);
    assert.ok("fence" in plain && plain.head === undefined, "no head was requested");
    const nobody = await driver.lease("b", aHolder("h2"), 60_000, { head: { messages: true } });
    assert.ok("fence" in nobody && nobody.head === undefined, "there is no session");
  },
  "lease: with the head, messages are omitted only if the caller already has them": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: [aMessage("a", 1)] });
    const first = await leaseOf(driver, "a", "h1");
    await release(driver, first);
    // The holder of an earlier lease does not have the messages of the last one.
    const unknown = { head: { messages: true, cachedFence: first.fence + 1 } };
    const freshLease = await driver.lease("a", aHolder("h2"), 60_000, unknown);
    assert.ok("fence" in freshLease, "the lease is had");
    assert.deepEqual(freshLease.head?.messages, [aMessage("a", 1)]);
    await release(driver, freshLease);
    const headOptions = { head: { messages: true, cachedFence: freshLease.fence } };
    const again = await driver.lease("a", aHolder("h3"), 60_000, headOptions);
    assert.ok("fence" in again && again.head, "a lease with the head");
    assert.ok(
      again.head.messages.length === 0 || again.previous === freshLease.fence,
      "no messages, or the fence before it",
    );
    assert.deepEqual(again.head.newest, await driver.get("a"));
  },
  "write: with `release` releases the lease and returns the remaining instructions": async (store) => {
    const { driver } = store;
    await driver.create({ session: aSession("a") });
    const secondDriver = await store.second();
    const first = await leaseOf(driver, "a", "h1");
    await instruct(secondDriver, anInstruction("i1", "a"));
    await instruct(secondDriver, anInstruction("i2", "a"));
    await instruct(secondDriver, anInstruction("withdrawn", "a"));
    await withdraw(secondDriver, "a", "withdrawn");
    const none = await driver.write("a", change({ fence: first.fence, add: [aMessage("a", 1)] }));
    assert.deepEqual(none.instructions, [], "the lease was not given back");
    const last = change({ fence: first.fence, add: [aMessage("a", 2)], consumedInstructions: ["i1"], release: true });
    const { instructions, consumedInstructions } = await driver.write("a", last);
    assert.deepEqual(instructions, [anInstruction("i2", "a")]);
    assert.deepEqual(consumedInstructions, ["i1"]);
    assert.deepEqual(await secondDriver.instructions("a"), [anInstruction("i2", "a")], "it is still there");
    await rejectsWith(
      driver.write("a", change({ fence: first.fence, add: [aMessage("a", 3)] })),
      "lease_lost",
      "given back",
    );
    const second = await leaseOf(secondDriver, "a", "h2");
    assert.ok(second.fence > first.fence, "a higher fence");
    assert.ok(second.previous === undefined || second.previous === first.fence, "no fence before it, or the first one");
    await rejectsWith(driver.write("a", { ...last, add: [] }), "lease_lost", "it was given back before");
    assert.ok("heldBy" in (await driver.lease("a", aHolder("h3"), 60_000)), "the next keeps it");
  },
  "write: a rejected change never releases the lease": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: [aMessage("a", 1)] });
    await driver.create({ session: aSession("b"), run: aRun("taken", "b", { idempotencyKey: "k" }) });
    const { fence } = await leaseOf(driver, "a", "h1");
    await instruct(driver, anInstruction("i", "a"));
    await driver.write("a", change({ asks: [anAsk("q", "a")] }));
    const commonFields = { answer: { askId: "q", ...answered("allow") }, instruct: anInstruction("no", "a") };
    const delta = { messageId: "a-1", part: 0, type: "text", text: "x" } as const;
    const refused: [string, Partial<SessionChange>][] = [
      ["seq_taken", { add: [aMessage("a", 1)] }],
      ["run_key_taken", { runs: [aRun("r", "a", { idempotencyKey: "k" })] }],
      ["run_key_taken", { runs: [aRun("taken", "a")] }],
      ["point_not_found", { append: [delta] }],
      ["point_not_found", { finish: [aMessage("a", 1)] }],
      ["point_not_found", { restore: "none" }],
      ["lease_lost", { fence: fence + 1 }],
    ];
    for (const [code, fields] of refused) {
      const invalidChange = change({ fence, consumedInstructions: ["i"], release: true, ...commonFields, ...fields });
      await rejectsWith(driver.write("a", invalidChange), code, code);
      assert.ok("heldBy" in (await driver.lease("a", aHolder("h2"), 60_000)), code);
      assert.deepEqual(await driver.instructions("a"), [anInstruction("i", "a")], code);
      assert.equal((await askOf(driver, "q"))?.state, "open", code);
    }
    await rejectsWith(driver.write("none", change({ fence, release: true })), "session_not_found", "unknown");
    await driver.write("a", change({ fence, add: [aMessage("a", 2)] }));
  },
  "lease: cannot be taken before it expires, however short it is": async (store) => {
    const { driver } = store;
    const secondDriver = await store.second();
    for (const ttl of [4000, 1000, 300]) {
      const id = `a${ttl}`;
      await driver.create({ session: aSession(id) });
      const since = performance.now();
      const { fence } = await leaseOf(driver, id, "h1", ttl);
      await driver.write(id, change({ fence, runs: [aRun(`r${ttl}`, id)] }));
      const run = await runOf(secondDriver, `r${ttl}`);
      const rival = await secondDriver.lease(id, aHolder("h2"), 60_000);
      // If the steps took longer than the lease, the result is meaningless. The longest lease normally gives a result.
      if (performance.now() - since >= ttl) continue;
      assert.ok("heldBy" in rival, `a lease of ${ttl} ms was taken before its time`);
      assert.deepEqual(run?.holder, aHolder("h1"), `the run has no holder under a lease of ${ttl} ms`);
    }
  },
  "lease: of concurrent calls that replace the same dead holder through two drivers, exactly one succeeds": async (
    store,
  ) => {
    await store.driver.create({ session: aSession("a") });
    const drivers = [store.driver, await store.second()];
    let { fence } = await leaseOf(store.driver, "a", "h");
    for (let round = 0; round < 5; round++) {
      const answers = await Promise.all(
        Array.from({ length: 8 }, (_, n) =>
          (drivers[n % 2] ?? store.driver).lease("a", aHolder(`h${round}-${n}`), 60_000, { fenceToReplace: fence }),
        ),
      );
      const won = answers.flatMap((answer) => ("fence" in answer ? [answer.fence] : []));
      assert.equal(won.length, 1, `${won.length} holders in round ${round}`);
      fence = won[0] ?? 0;
    }
  },
  "release: the lease is free, its fence is invalid, and the next fence is greater": async ({ driver }) => {
    await driver.create({ session: aSession("a") });
    const first = await leaseOf(driver, "a", "h1");
    await release(driver, first);
    await rejectsWith(driver.write("a", change({ fence: first.fence, set: { title: "x" } })), "lease_lost", "released");
    const second = await leaseOf(driver, "a", "h1");
    assert.ok(second.fence > first.fence, "also for the same holder");
    await rejectsWith(release(driver, first), "lease_lost", "released before");
    await driver.write("a", change({ fence: second.fence, set: { title: "y" } }));
    await release(driver, second);
    await rejectsWith(release(driver, second), "lease_lost", "released twice");
  },
  "lease: `previous`, if returned, is the fence of the chain's last lease; it is undefined after a delete": async (
    store,
  ) => {
    const { driver } = store;
    const secondDriver = await store.second();
    await driver.create({ session: aSession("a") });
    const previousFences: (readonly [previous: number | undefined, real: number])[] = [];
    let last = await leaseOf(driver, "a", "h1");
    const next = async (by: typeof driver, holder: string): Promise<void> => {
      const lease = await leaseOf(by, "a", holder);
      previousFences.push([lease.previous, last.fence]);
      last = lease;
    };
    await release(driver, last);
    await next(driver, "h2");
    await release(driver, last);
    await next(secondDriver, "h3");
    await release(secondDriver, last);
    await next(driver, "h4");
    await release(driver, last);
    for (const [previous, real] of previousFences)
      assert.ok(previous === undefined || previous === real, "the last one");
    // A previous holder does not know the messages that were written without a lease.
    await driver.write("a", change({ fence: null, add: [aMessage("a", 1)] }));
    const unleased = await leaseOf(secondDriver, "a", "h5");
    assert.equal(unleased.previous, undefined, "changed without a lease");
    await release(secondDriver, unleased);
    await driver.create({ session: aSession("a1", { chain: { root: "a", index: 1 } }), view: [aMessage("a", 1)] });
    assert.equal((await leaseOf(secondDriver, "a", "h5")).previous, undefined, "a follow-up without a lease");
    await driver.delete(["a"]);
    await driver.create({ session: aSession("a") });
    assert.equal((await leaseOf(driver, "a", "h6")).previous, undefined, "another chain of that id");
  },
  "fences grow across releases, deletes and reopening": async (store) => {
    const seen: number[] = [];
    for (let round = 0; round < 3; round++) {
      await store.driver.create({ session: aSession("a") });
      const lease = await leaseOf(store.driver, "a", `h${round}`);
      seen.push(lease.fence);
      if (round === 0) await release(store.driver, lease);
      await store.driver.delete(["a"]);
      await store.reopen();
    }
    const [first = 0, second = 0, third = 0] = seen;
    assert.ok(first < second && second < third, `fences: ${seen.join(", ")}`);
  },
  "delete: removes the lease; later writes of its holder are rejected, also if the id is used again": async (store) => {
    const { driver } = store;
    await driver.create({ session: aSession("a") });
    const lease = await leaseOf(driver, "a", "h1");
    const secondDriver = await store.second();
    await secondDriver.delete(["a"]);
    const late = change({ fence: lease.fence, add: [aMessage("a", 1)] });
    await rejectsWith(driver.write("a", late), "session_not_found", "the session is gone");
    await secondDriver.create({ session: aSession("a") });
    await rejectsWith(driver.write("a", late), "lease_lost", "another session of that id");
    assert.deepEqual(await seqs(driver, "a"), []);
    await leaseOf(driver, "a", "h2");
  },
  "lease: of concurrent requests through two drivers, exactly one succeeds": async (store) => {
    await store.driver.create({ session: aSession("a") });
    const drivers = [store.driver, await store.second()];
    for (let round = 0; round < 5; round++) {
      const answers = await Promise.all(
        Array.from({ length: 8 }, (_, n) =>
          (drivers[n % 2] ?? store.driver).lease("a", aHolder(`h${round}-${n}`), 60_000),
        ),
      );
      const won = answers.filter((answer) => "fence" in answer);
      assert.equal(won.length, 1, `${won.length} holders in round ${round}`);
      const [lease] = won;
      if (lease && "fence" in lease) await release(store.driver, lease);
    }
  },
};
