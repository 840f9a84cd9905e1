import assert from "node:assert/strict";
import { test } from "node:test";
import { SharedReads } from "../../../src/base/shared-reads.js";

/** Reads that the test completes, with the key of each. */
function createReads() {
  const pending: { key: string; complete: (value: number) => void; fail: (error: Error) => void }[] = [];
  const reads = new SharedReads<number>(
    (key) => new Promise((complete, fail) => pending.push({ key, complete, fail })),
  );
  return { pending, reads };
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

test("a call during a read gets the result of the read that follows", async () => {
  const { pending, reads } = createReads();
  const first = reads.get("a");
  const later = [reads.get("a"), reads.get("a")];
  assert.equal(pending.length, 1);
  pending[0]?.complete(1);
  assert.equal(await first, 1);
  await nextTurn();
  assert.equal(pending.length, 2);
  pending[1]?.complete(2);
  assert.deepEqual(await Promise.all(later), [2, 2]);
});

test("a call after a read starts a read, also after an error", async () => {
  const { pending, reads } = createReads();
  const first = reads.get("a");
  const second = reads.get("a");
  pending[0]?.fail(new Error("unreadable"));
  await assert.rejects(first, /unreadable/);
  await nextTurn();
  pending[1]?.complete(2);
  assert.equal(await second, 2);
  const third = reads.get("a");
  assert.equal(pending.length, 3);
  pending[2]?.complete(3);
  assert.equal(await third, 3);
});

test("reads of different keys do not wait for each other", async () => {
  const { pending, reads } = createReads();
  const first = reads.get("a");
  const second = reads.get("b");
  assert.deepEqual(
    pending.map(({ key }) => key),
    ["a", "b"],
  );
  pending[1]?.complete(2);
  assert.equal(await second, 2);
  pending[0]?.complete(1);
  assert.equal(await first, 1);
});
