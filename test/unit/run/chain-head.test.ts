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
      /** Takes the lease like a run that knows the messages written under the lease `known`. */
      const take = async (knownFence: number | undefined) => {
        const original = await driver.get("a");
        assert.ok(original);
        const headRequest = headOptions(original, knownFence);
        const lease = await driver.lease("a", currentHolder(), 30_000, { head: headRequest });
        assert.ok(!("heldBy" in lease) && lease.head);
        const messages = await messagesOf(driver, lease.head, headRequest, lease.previous);
        const head = await driver.head("a");
        assert.deepEqual({ ...lease.head, messages, snapshots: head?.snapshots }, head);
        return { lease, messageCount: messages.length };
      };
      let knownFence: number | undefined;
      /**
       * Asserts that the messages are the same, whether all, no or only earlier messages are known. Returns their
       * count.
       */
      const same = async (work?: (fence: number) => Promise<void>): Promise<number> => {
        const messageCounts: number[] = [];
        for (const fence of [knownFence, undefined, -1]) {
          const taken = await take(fence);
          messageCounts.push(taken.messageCount);
          if (fence === -1) await work?.(taken.lease.fence);
          await release(driver, taken.lease);
          knownFence = taken.lease.fence;
        }
        assert.equal(new Set(messageCounts).size, 1);
        return messageCounts[0] ?? -1;
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
      const headRequest = headOptions(few.session, undefined);
      const short = await driver.lease("b", currentHolder(), 30_000, { head: headRequest });
      assert.ok(!("heldBy" in short));
      assert.deepEqual(short.head?.messages, few.messages, "told with the lease");
      await release(driver, short);
      // The known messages are lost before their use, so that they must be read.
      const knowing = headOptions(few.session, short.fence);
      const next = await driver.lease("b", currentHolder(), 30_000, { head: knowing });
      assert.ok(!("heldBy" in next) && next.head);
      assert.deepEqual(await messagesOf(driver, next.head, knowing, next.previous), few.messages);
    });
  });
}
