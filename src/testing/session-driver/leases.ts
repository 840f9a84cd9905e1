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
  "lease: one holder at a time; others are told who has it": async (store) => {
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
    const other = await store.second();
    assert.deepEqual(await other.lease("a", aHolder("h3"), 60_000), { heldBy: lease });
    assert.ok("fence" in (await other.lease("b", aHolder("h2"), 60_000)), "another chain is free");
  },
  "lease: the same holder renews it, with the same fence and a later end": async (store) => {
    await store.driver.create({ session: aSession("a") });
    const first = await leaseOf(store.driver, "a", "h1", 10_000);
    const driver = await store.reopen();
    const again = await leaseOf(driver, "a", "h1", 90_000);
    assert.equal(again.fence, first.fence);
    assert.ok(again.expiresAt > first.expiresAt, "a renewed lease ends later");
    await driver.write("a", change({ fence: first.fence, add: [aMessage("a", 1)] }));
  },
  "lease: of a chain, by any id of it": async ({ driver }) => {
    await driver.create({ session: aSession("a") });
    await driver.create({ session: aSession("a1", { chain: { root: "a", index: 1 } }) });
    const lease = await leaseOf(driver, "a", "h1");
    assert.ok("heldBy" in (await driver.lease("a1", aHolder("h2"), 60_000)), "it is held under the other id too");
    await driver.write("a", change({ fence: lease.fence, add: [aMessage("a", 1)] }));
    await driver.write("a1", change({ fence: lease.fence, add: [aMessage("a1", 2)] }));
  },
  "lease: a holder whose time ran out is replaced, and its writes are refused from then on": async (store) => {
    const { driver } = store;
    await driver.create({ session: aSession("a"), messages: [growing("a", 1)] });
    const old = await leaseOf(driver, "a", "h1", 20);
    await sleep(40);
    await driver.write("a", change({ fence: old.fence, set: { title: "nobody came" } }));
    const other = await store.second();
    const lease = await leaseOf(other, "a", "h2");
    assert.ok(lease.fence > old.fence, "a higher fence");
    const late = change({ fence: old.fence, append: [{ messageId: "a-1", part: 0, type: "text", text: "late" }] });
    await rejectsWith(driver.write("a", late), "lease_lost", "a replaced holder writes");
    await rejectsWith(other.write("a", late), "lease_lost", "the same elsewhere");
    assert.deepEqual(await driver.messages("a"), [growing("a", 1)]);
    assert.ok("heldBy" in (await driver.lease("a", aHolder("h1"), 60_000)), "it is held");
    await other.write("a", change({ fence: lease.fence, add: [aMessage("a", 2)] }));
  },
  "lease: `replacing` replaces the lease of that fence at once, and nobody else's": async (store) => {
    const { driver } = store;
    await driver.create({ session: aSession("a") });
    const first = await leaseOf(driver, "a", "h1");
    const told = await driver.lease("a", aHolder("h2"), 60_000, { fenceToReplace: first.fence + 1 });
    assert.deepEqual(told, { heldBy: first });
    const other = await store.second();
    const second = await other.lease("a", aHolder("h2"), 60_000, { fenceToReplace: first.fence });
    assert.ok(
      "fence" in second && second.fence > first.fence,
      "the lease of that fence is replaced, under a higher fence",
    );
    assert.equal(second.holder.id, "h2");
    await rejectsWith(driver.write("a", change({ fence: first.fence, set: { title: "x" } })), "lease_lost", "gone");
    // A late call replaces no lease, not even a later one of the same holder.
    const late = await driver.lease("a", aHolder("h3"), 60_000, { fenceToReplace: first.fence });
    assert.ok("heldBy" in late, "it is held by its new holder");
    assert.deepEqual([late.heldBy.holder, late.heldBy.fence], [aHolder("h2"), second.fence]);
    await release(driver, second);
    const free = await driver.lease("a", aHolder("h3"), 60_000, { fenceToReplace: first.fence });
    assert.ok("fence" in free, "a free one is had all the same");
  },
  "lease: of a session that is not there yet, and its fence is that of the create": async ({ driver }) => {
    const lease = await leaseOf(driver, "a", "h1");
    assert.deepEqual(await driver.lease("a", aHolder("h2"), 60_000), { heldBy: lease });
    const session = aSession("a");
    await rejectsWith(driver.create({ session, fence: lease.fence + 1 }), "lease_lost", "another fence");
    assert.equal(await driver.get("a"), undefined);
    await driver.create({ session, fence: lease.fence });
    await driver.write("a", change({ fence: lease.fence, add: [aMessage("a", 1)] }));
  },
  "release: alone it gives back the lease of a session that was never created, and nothing else does": async (
    store,
  ) => {
    const { driver } = store;
    const other = await store.second();
    const first = await leaseOf(driver, "a", "h1");
    const { rootId, fence } = first;
    const more = change({ fence, release: true, set: { title: "x" } });
    await rejectsWith(driver.write("a", more), "session_not_found", "with other fields");
    const wrong = release(driver, { rootId, fence: fence + 1 });
    await rejectsWith(wrong, "session_not_found", "another fence");
    assert.ok("heldBy" in (await other.lease("a", aHolder("h2"), 60_000)), "it is still held");
    await release(driver, first);
    const second = await leaseOf(other, "a", "h2");
    assert.ok(second.fence > fence, "a higher fence");
    await rejectsWith(driver.create({ session: aSession("a"), fence }), "lease_lost", "it was given back");
    await other.create({ session: aSession("a"), fence: second.fence });
  },
  "lease: tells the chain's head where it is asked for, as it is under the lease": async (store) => {
    const { driver } = store;
    const run = aRun("r1", "a");
    await driver.create({ session: aSession("a", { alias: "x" }), messages: [aMessage("a", 1)], run });
    const other = await store.second();
    const first = await leaseOf(other, "a", "h1");
    const cut = { id: "s", after: 1, createdAt: at(1) };
    await other.write(
      "a",
      change({ fence: first.fence, revert: cut, add: [aMessage("a", 2)], runs: [aRun("r2", "a")] }),
    );
    await release(other, first);
    const taken = await driver.lease("a", aHolder("h2"), 60_000, { head: { messages: true } });
    assert.ok("fence" in taken && taken.head, "a lease with the head");
    const { snapshots, ...head } = (await driver.head("a"))!;
    assert.deepEqual(taken.head, head);
    assert.deepEqual(snapshots, [cut]);
    assert.deepEqual(
      taken.head.messages.map(({ seq }) => seq),
      [1, 2],
    );
    const rival = await other.lease("a", aHolder("h3"), 60_000, { head: { messages: true } });
    assert.ok("heldBy" in rival && !("head" in rival), "nothing is told to whoever does not have it");
    const plain = await driver.lease("a", aHolder("h2"), 60_000);
    assert.ok("fence" in plain && plain.head === undefined, "nobody asked");
    const nobody = await driver.lease("b", aHolder("h2"), 60_000, { head: { messages: true } });
    assert.ok("fence" in nobody && nobody.head === undefined, "there is no session");
  },
  "lease: with the head, messages are left out only where they need not be told": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: [aMessage("a", 1)] });
    const first = await leaseOf(driver, "a", "h1");
    await release(driver, first);
    // A holder of an earlier lease does not have the messages of the last one.
    const unknown = { head: { messages: true, known: first.fence + 1 } };
    const told = await driver.lease("a", aHolder("h2"), 60_000, unknown);
    assert.ok("fence" in told, "the lease is had");
    assert.deepEqual(told.head?.messages, [aMessage("a", 1)]);
    await release(driver, told);
    const known = { head: { messages: true, known: told.fence } };
    const again = await driver.lease("a", aHolder("h3"), 60_000, known);
    assert.ok("fence" in again && again.head, "a lease with the head");
    assert.ok(again.head.messages.length === 0 || again.previous === told.fence, "no messages, or the fence before it");
    assert.deepEqual(again.head.newest, await driver.get("a"));
  },
  "write: with `release` it gives the lease back, and tells what instructions are left": async (store) => {
    const { driver } = store;
    await driver.create({ session: aSession("a") });
    const other = await store.second();
    const first = await leaseOf(driver, "a", "h1");
    await instruct(other, anInstruction("i1", "a"));
    await instruct(other, anInstruction("i2", "a"));
    await instruct(other, anInstruction("withdrawn", "a"));
    await withdraw(other, "a", "withdrawn");
    const none = await driver.write("a", change({ fence: first.fence, add: [aMessage("a", 1)] }));
    assert.deepEqual(none.instructions, [], "the lease was not given back");
    const last = change({ fence: first.fence, add: [aMessage("a", 2)], consumedInstructions: ["i1"], release: true });
    const { instructions, consumedInstructions } = await driver.write("a", last);
    assert.deepEqual(instructions, [anInstruction("i2", "a")]);
    assert.deepEqual(consumedInstructions, ["i1"]);
    assert.deepEqual(await other.instructions("a"), [anInstruction("i2", "a")], "it is still there");
    await rejectsWith(
      driver.write("a", change({ fence: first.fence, add: [aMessage("a", 3)] })),
      "lease_lost",
      "given back",
    );
    const second = await leaseOf(other, "a", "h2");
    assert.ok(second.fence > first.fence, "a higher fence");
    assert.ok(second.previous === undefined || second.previous === first.fence, "no fence before it, or the first one");
    await rejectsWith(driver.write("a", { ...last, add: [] }), "lease_lost", "it was given back before");
    assert.ok("heldBy" in (await driver.lease("a", aHolder("h3"), 60_000)), "the next keeps it");
  },
  "write: a refused one gives no lease back, whatever it is refused for": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: [aMessage("a", 1)] });
    await driver.create({ session: aSession("b"), run: aRun("taken", "b", { idempotencyKey: "k" }) });
    const { fence } = await leaseOf(driver, "a", "h1");
    await instruct(driver, anInstruction("i", "a"));
    await driver.write("a", change({ asks: [anAsk("q", "a")] }));
    const whole = { answer: { askId: "q", ...answered("allow") }, instruct: anInstruction("no", "a") };
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
      const one = change({ fence, consumedInstructions: ["i"], release: true, ...whole, ...fields });
      await rejectsWith(driver.write("a", one), code, code);
      assert.ok("heldBy" in (await driver.lease("a", aHolder("h2"), 60_000)), code);
      assert.deepEqual(await driver.instructions("a"), [anInstruction("i", "a")], code);
      assert.equal((await askOf(driver, "q"))?.state, "open", code);
    }
    await rejectsWith(driver.write("none", change({ fence, release: true })), "session_not_found", "unknown");
    await driver.write("a", change({ fence, add: [aMessage("a", 2)] }));
  },
  "lease: nobody has it before its time ran out, however short that is": async (store) => {
    const { driver } = store;
    const other = await store.second();
    for (const ttl of [4000, 1000, 300]) {
      const id = `a${ttl}`;
      await driver.create({ session: aSession(id) });
      const since = performance.now();
      const { fence } = await leaseOf(driver, id, "h1", ttl);
      await driver.write(id, change({ fence, runs: [aRun(`r${ttl}`, id)] }));
      const run = await runOf(other, `r${ttl}`);
      const rival = await other.lease(id, aHolder("h2"), 60_000);
      // Where that took too long nothing can be said; of the longest it is said.
      if (performance.now() - since >= ttl) continue;
      assert.ok("heldBy" in rival, `a lease of ${ttl} ms was taken before its time`);
      assert.deepEqual(run?.holder, aHolder("h1"), `nobody holds the run under a lease of ${ttl} ms`);
    }
  },
  "lease: of many that replace the same dead holder at once through two drivers, exactly one gets it": async (
    store,
  ) => {
    await store.driver.create({ session: aSession("a") });
    const drivers = [store.driver, await store.second()];
    let { fence: dead } = await leaseOf(store.driver, "a", "h");
    for (let round = 0; round < 5; round++) {
      const answers = await Promise.all(
        Array.from({ length: 8 }, (_, n) =>
          (drivers[n % 2] ?? store.driver).lease("a", aHolder(`h${round}-${n}`), 60_000, { fenceToReplace: dead }),
        ),
      );
      const won = answers.flatMap((answer) => ("fence" in answer ? [answer.fence] : []));
      assert.equal(won.length, 1, `${won.length} holders in round ${round}`);
      dead = won[0] ?? 0;
    }
  },
  "release: the lease is free, the fence is spent, and the next is greater": async ({ driver }) => {
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
  "lease: where it tells the one before, that is the chain's last, whoever had it; nothing is told of a deleted chain":
    async (store) => {
      const { driver } = store;
      const other = await store.second();
      await driver.create({ session: aSession("a") });
      const told: (readonly [previous: number | undefined, real: number])[] = [];
      let last = await leaseOf(driver, "a", "h1");
      const next = async (by: typeof driver, holder: string): Promise<void> => {
        const lease = await leaseOf(by, "a", holder);
        told.push([lease.previous, last.fence]);
        last = lease;
      };
      await release(driver, last);
      await next(driver, "h2");
      await release(driver, last);
      await next(other, "h3");
      await release(other, last);
      await next(driver, "h4");
      await release(driver, last);
      for (const [previous, real] of told) assert.ok(previous === undefined || previous === real, "the last one");
      // Whoever held the lease before knows nothing of what was said without one.
      await driver.write("a", change({ fence: null, add: [aMessage("a", 1)] }));
      const unleased = await leaseOf(other, "a", "h5");
      assert.equal(unleased.previous, undefined, "changed without a lease");
      await release(other, unleased);
      await driver.create({ session: aSession("a1", { chain: { root: "a", index: 1 } }), view: [aMessage("a", 1)] });
      assert.equal((await leaseOf(other, "a", "h5")).previous, undefined, "a follow-up without a lease");
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
  "delete: the lease goes too, and a later write of its holder is refused, also when the id is used again": async (
    store,
  ) => {
    const { driver } = store;
    await driver.create({ session: aSession("a") });
    const lease = await leaseOf(driver, "a", "h1");
    const other = await store.second();
    await other.delete(["a"]);
    const late = change({ fence: lease.fence, add: [aMessage("a", 1)] });
    await rejectsWith(driver.write("a", late), "session_not_found", "the session is gone");
    await other.create({ session: aSession("a") });
    await rejectsWith(driver.write("a", late), "lease_lost", "another session of that id");
    assert.deepEqual(await seqs(driver, "a"), []);
    await leaseOf(driver, "a", "h2");
  },
  "lease: of many that ask at once through two drivers, exactly one gets it": async (store) => {
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
