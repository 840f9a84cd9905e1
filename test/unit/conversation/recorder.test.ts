import assert from "node:assert/strict";
import { it } from "node:test";
import type { Message, RunRecord, Usage } from "gantry";
import type { PartDelta, SessionChange, SessionDriver } from "gantry/plugin";
import { Recorder } from "../../../src/conversation/recorder.js";
import { until } from "../../helpers/lab.js";

const message = { id: "m", role: "assistant", parts: [], finished: false } as unknown as Message;
const delta = (text: string, part = 0): Omit<PartDelta, "messageId"> => ({ part, type: "text", text });
const turn = () => new Promise((resolve) => setImmediate(resolve));

/** Returns a recorder and its writes. A write completes when the test releases it. */
function recording() {
  const written: SessionChange[] = [];
  const waiting: (() => void)[] = [];
  const driver = {
    write: (_id: string, change: SessionChange) => {
      written.push(change);
      const result = { instructions: [], consumedInstructions: [] };
      return new Promise((resolve) => waiting.push(() => resolve(result)));
    },
  } as unknown as SessionDriver;
  const recorder = new Recorder(driver, "s", 1, {} as RunRecord, {} as Usage, assert.ifError, () => undefined);
  return { recorder, written, done: () => waiting.shift()?.() };
}

it("ten tokens are a batch, written as one piece of text and without a sync; what comes meanwhile is the next", async () => {
  const { recorder, written, done } = recording();
  for (let i = 0; i < 9; i += 1) recorder.append(message, delta(`${i} `));
  assert.equal(written.length, 0);
  for (let i = 9; i < 25; i += 1) recorder.append(message, delta(`${i} `));
  assert.equal(written.length, 1);
  assert.deepEqual(written[0]?.append, [{ messageId: "m", ...delta("0 1 2 3 4 5 6 7 8 9 ") }]);
  assert.equal(written[0]?.sync, false);
  assert.deepEqual(
    written[0]?.add?.map(({ id }) => id),
    ["m"],
  );
  done();
  await turn();
  assert.deepEqual(written[1]?.append, [
    { messageId: "m", ...delta(Array.from({ length: 15 }, (_, i) => `${i + 10} `).join("")) },
  ]);
  assert.deepEqual(written[1]?.add, undefined);
  done();
  await recorder.close();
});

it("one piece that holds many tokens is a batch of its own", async () => {
  const { recorder, written, done } = recording();
  recorder.append(message, delta("word ".repeat(50)));
  assert.equal(written.length, 1);
  done();
  await recorder.close();
});

it("few tokens are written all the same, soon", async () => {
  const { recorder, written, done } = recording();
  recorder.append(message, delta("a", 0));
  recorder.append(message, delta("b", 1));
  recorder.append(message, delta("c", 1));
  await until(() => written.length > 0);
  assert.deepEqual(written[0]?.append, [
    { messageId: "m", ...delta("a", 0) },
    { messageId: "m", ...delta("bc", 1) },
  ]);
  done();
  await recorder.close();
});
