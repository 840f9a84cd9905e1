import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { currentHolder } from "gantry/plugin";
import { headOptions, messagesOf } from "../../../src/run/chain-head.js";
import { aMessage, aRun, aSession, change, release, someMessages } from "../../../src/testing/session-driver/rule.js";
import { STORES } from "../../helpers/stores.js";

for (const [name, makeStore] of STORES) {
  describe(`what a run goes on from (${name})`, () => {
    it("is the head of the chain, however long, with what a cut hides left out", async (t) => {
      const driver = (await makeStore(t))();
      await driver.open();
      await driver.create({ session: aSession("a"), messages: someMessages("a", 1, 2_500), run: aRun("r", "a") });
      /** Takes the lease, as a run would that knows what was said under the lease `known`. */
      const take = async (known: number | undefined) => {
        const original = await driver.get("a");
        assert.ok(original);
        const wanted = headOptions(original, known);
        const lease = await driver.lease("a", currentHolder(), 30_000, { head: wanted });
        assert.ok(!("heldBy" in lease) && lease.head);
        const messages = await messagesOf(driver, lease.head, wanted, lease.previous);
        const head = await driver.head("a");
        assert.deepEqual({ ...lease.head, messages, snapshots: head?.snapshots }, head);
        return { lease, said: messages.length };
      };
      let known: number | undefined;
      /** Whether it knows all of it, nothing or something that was said before: the messages are the same. */
      const same = async (work?: (fence: number) => Promise<void>): Promise<number> => {
        const said: number[] = [];
        for (const one of [known, undefined, -1]) {
          const taken = await take(one);
          said.push(taken.said);
          if (one === -1) await work?.(taken.lease.fence);
          await release(driver, taken.lease);
          known = taken.lease.fence;
        }
        assert.equal(new Set(said).size, 1);
        return said[0] ?? -1;
      };
      const cut = { id: "s", after: 2_000, createdAt: "2026-01-01T00:00:00.000Z" };
      assert.equal(
        await same((fence) => driver.write("a", change({ fence, revert: cut })).then(() => undefined)),
        2_500,
      );
      const add = [aMessage("a", 2_501)];
      assert.equal(await same((fence) => driver.write("a", change({ fence, add })).then(() => undefined)), 2_000);
      const session = aSession("a1", { chain: { root: "a", index: 1 }, lastSeq: 2_501 });
      const [view, messages] = [someMessages("a1", 1, 2), [aMessage("a1", 2_502)]];
      assert.equal(await same((fence) => driver.create({ session, view, messages, fence })), 2_001);
      assert.equal(await same(), 3);
      const few = { session: aSession("b"), messages: someMessages("b", 1, 3) };
      await driver.create(few);
      const wanted = headOptions(few.session, undefined);
      const short = await driver.lease("b", currentHolder(), 30_000, { head: wanted });
      assert.ok(!("heldBy" in short));
      assert.deepEqual(short.head?.messages, few.messages, "told with the lease");
      await release(driver, short);
      // What was known is lost before it is used: then it is read all the same.
      const knowing = headOptions(few.session, short.fence);
      const next = await driver.lease("b", currentHolder(), 30_000, { head: knowing });
      assert.ok(!("heldBy" in next) && next.head);
      assert.deepEqual(await messagesOf(driver, next.head, knowing, next.previous), few.messages);
    });
  });
}
