import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { currentHolder } from "gantry/plugin";
import { createHeadRequest, loadMessages } from "../../../src/run/load-messages.js";
import { releaseLease } from "../../../src/testing/session-driver/driver-calls.js";
import { aMessage, aRun, aSession, change, someMessages } from "../../../src/testing/session-driver/records.js";
import { STORES } from "../../helpers/stores.js";

for (const [name, makeStore] of STORES) {
  describe(`the conversation at the start of a run (${name})`, () => {
    it("is the head of the chain without reverted messages, whichever messages the process already has", async (t) => {
      const driver = (await makeStore(t))();
      await driver.open();
      await driver.create({ session: aSession("a"), messages: someMessages("a", 1, 2_500), run: aRun("r", "a") });
      /**
       * Takes the lease like a run that knows the messages written up to the fence `knownFence`. With undefined, the
       * run knows no messages.
       */
      const takeLease = async (knownFence: number | undefined) => {
        const storedSession = await driver.get("a");
        assert.ok(storedSession);
        const headRequest = createHeadRequest(storedSession, knownFence);
        const lease = await driver.lease("a", currentHolder(), 30_000, { head: headRequest });
        assert.ok(!("heldBy" in lease) && lease.head);
        const messages = await loadMessages(driver, lease.head, headRequest, lease.previous);
        const head = await driver.head("a");
        assert.deepEqual({ ...lease.head, messages, snapshots: head?.snapshots }, head);
        return { lease, messageCount: messages.length };
      };
      let knownFence: number | undefined;
      /**
       * Asserts that a run gets the same number of messages if all, none or outdated messages are known. The fence -1
       * stands for outdated messages. Returns the number of messages.
       */
      const assertSameMessages = async (useLease?: (fence: number) => Promise<void>): Promise<number> => {
        const messageCounts: number[] = [];
        for (const requestedFence of [knownFence, undefined, -1]) {
          const result = await takeLease(requestedFence);
          messageCounts.push(result.messageCount);
          if (requestedFence === -1) await useLease?.(result.lease.fence);
          await releaseLease(driver, result.lease);
          knownFence = result.lease.fence;
        }
        assert.equal(new Set(messageCounts).size, 1);
        return messageCounts[0] ?? -1;
      };
      const snapshot = { id: "s", after: 2_000, createdAt: "2026-01-01T00:00:00.000Z" };
      assert.equal(
        await assertSameMessages((fence) =>
          driver.write("a", change({ fence, revert: snapshot })).then(() => undefined),
        ),
        2_500,
      );
      const addedMessages = [aMessage("a", 2_501)];
      assert.equal(
        await assertSameMessages((fence) =>
          driver.write("a", change({ fence, add: addedMessages })).then(() => undefined),
        ),
        2_000,
      );
      const session = aSession("a1", { chain: { root: "a", index: 1 }, lastSeq: 2_501 });
      const [view, messages] = [someMessages("a1", 1, 2), [aMessage("a1", 2_502)]];
      assert.equal(await assertSameMessages((fence) => driver.create({ session, view, messages, fence })), 2_001);
      assert.equal(await assertSameMessages(), 3);
      const smallSessionInput = { session: aSession("b"), messages: someMessages("b", 1, 3) };
      await driver.create(smallSessionInput);
      const headRequest = createHeadRequest(smallSessionInput.session, undefined);
      const firstLease = await driver.lease("b", currentHolder(), 30_000, { head: headRequest });
      assert.ok(!("heldBy" in firstLease));
      assert.deepEqual(
        firstLease.head?.messages,
        smallSessionInput.messages,
        "the lease response contains the messages",
      );
      await releaseLease(driver, firstLease);
      // The process loses the known messages before their use, so `loadMessages` must read the messages.
      const headRequestWithFence = createHeadRequest(smallSessionInput.session, firstLease.fence);
      const secondLease = await driver.lease("b", currentHolder(), 30_000, { head: headRequestWithFence });
      assert.ok(!("heldBy" in secondLease) && secondLease.head);
      assert.deepEqual(
        await loadMessages(driver, secondLease.head, headRequestWithFence, secondLease.previous),
        smallSessionInput.messages,
      );
    });
  });
}
