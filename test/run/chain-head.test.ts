import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readHead } from "../../src/run/chain-head.js";
import { aMessage, aRun, aSession, change, leaseOf, someMessages } from "../../src/testing/session-driver/rule.js";
import { STORES } from "../helpers/stores.js";

for (const [name, makeStore] of STORES) {
  describe(`what a run goes on from (${name})`, () => {
    it("is the head of the chain, however long, with what a cut hides left out", async (t) => {
      const driver = (await makeStore(t))();
      await driver.open();
      await driver.create({ session: aSession("a"), messages: someMessages("a", 1, 2_500), run: aRun("r", "a") });
      const { fence } = await leaseOf(driver, "a", "h");
      const same = async (): Promise<number> => {
        const original = await driver.get("a");
        assert.ok(original);
        const head = await readHead(driver, original, { messages: true });
        assert.deepEqual(head, await driver.head("a"));
        const bare = await readHead(driver, original, { messages: false });
        assert.deepEqual({ ...bare, messages: head?.messages }, head);
        return head?.messages.length ?? 0;
      };
      assert.equal(await same(), 2_500);
      const cut = { id: "s", after: 2_000, createdAt: "2026-01-01T00:00:00.000Z" };
      await driver.write("a", change({ fence, cut }));
      assert.equal(await same(), 2_000);
      await driver.write("a", change({ fence, add: [aMessage("a", 2_501)] }));
      assert.equal(await same(), 2_001);
      const next = aSession("a1", { chain: { root: "a", index: 1 }, lastSeq: 2_501 });
      await driver.create({ session: next, view: someMessages("a1", 1, 2), messages: [aMessage("a1", 2_502)], fence });
      assert.equal(await same(), 3);
      const gone = aSession("b", { lastSeq: 2_000 });
      assert.equal(await readHead(driver, gone, { messages: true }), undefined);
    });
  });
}
