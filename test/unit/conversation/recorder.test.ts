import assert from "node:assert/strict";
import { it } from "node:test";
import type { Message, RunRecord, Usage } from "gantry";
import type { PartDelta, SessionChange, SessionDriver } from "gantry/plugin";
import { Recorder } from "../../../src/conversation/recorder.js";
import { waitUntil } from "../../helpers/server-runs.js";

const message = { id: "m", role: "assistant", parts: [], finished: false } as unknown as Message;
const createDelta = (text: string, part = 0): Omit<PartDelta, "messageId"> => ({ part, type: "text", text });
const waitForNextTurn = () => new Promise((resolve) => setImmediate(resolve));

/** Returns a recorder and its writes. A write completes when the test calls `completeWrite`. */
function createRecorder() {
  const writes: SessionChange[] = [];
  const pendingWrites: (() => void)[] = [];
  const driver = {
    write: (_id: string, change: SessionChange) => {
      writes.push(change);
      const result = { instructions: [], consumedInstructions: [] };
      return new Promise((resolve) => pendingWrites.push(() => resolve(result)));
    },
  } as unknown as SessionDriver;
  const recorder = new Recorder(
    driver,
    "s",
    1,
    { run: {} as RunRecord, lastSeq: 0, sessionUsage: {} as Usage },
    assert.ifError,
    () => undefined,
  );
  return { recorder, writes, completeWrite: () => pendingWrites.shift()?.() };
}

it("Recorder writes ten tokens as one batch without sync, and later tokens in the next batch", async () => {
  const { recorder, writes, completeWrite } = createRecorder();
  for (let i = 0; i < 9; i += 1) recorder.append(message, createDelta(`${i} `));
  assert.equal(writes.length, 0);
  for (let i = 9; i < 25; i += 1) recorder.append(message, createDelta(`${i} `));
  assert.equal(writes.length, 1);
  assert.deepEqual(writes[0]?.append, [{ messageId: "m", ...createDelta("0 1 2 3 4 5 6 7 8 9 ") }]);
  assert.equal(writes[0]?.sync, false);
  assert.deepEqual(
    writes[0]?.add?.map(({ id }) => id),
    ["m"],
  );
  completeWrite();
  await waitForNextTurn();
  assert.deepEqual(writes[1]?.append, [
    { messageId: "m", ...createDelta(Array.from({ length: 15 }, (_, i) => `${i + 10} `).join("")) },
  ]);
  assert.deepEqual(writes[1]?.add, undefined);
  completeWrite();
  await recorder.close();
});

it("Recorder writes a single delta of 50 words at once", async () => {
  const { recorder, writes, completeWrite } = createRecorder();
  recorder.append(message, createDelta("word ".repeat(50)));
  assert.equal(writes.length, 1);
  completeWrite();
  await recorder.close();
});

it("Recorder writes fewer than ten tokens without waiting for a full batch, one delta per part", async () => {
  const { recorder, writes, completeWrite } = createRecorder();
  recorder.append(message, createDelta("a", 0));
  recorder.append(message, createDelta("b", 1));
  recorder.append(message, createDelta("c", 1));
  await waitUntil(() => writes.length > 0);
  assert.deepEqual(writes[0]?.append, [
    { messageId: "m", ...createDelta("a", 0) },
    { messageId: "m", ...createDelta("bc", 1) },
  ]);
  completeWrite();
  await recorder.close();
});
