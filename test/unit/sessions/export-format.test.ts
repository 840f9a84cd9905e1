import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ChainData } from "gantry/plugin";
import { chainLines, ChainReader, headerLine } from "../../../src/sessions/export-format.js";
import { aMessage, anAsk, aResult, aRun, aSession, aGrowingMessage } from "../../../src/testing/session-driver/rule.js";

const chain: ChainData = {
  sessions: [
    {
      session: aSession("a", { lastSeq: 3 }),
      hiddenBy: "",
      view: [],
      messages: [aMessage("a", 1), aGrowingMessage("a", 2), aResult("a", 3)].map((message) => ({
        message,
        hiddenBy: "",
      })),
    },
  ],
  snapshots: [{ id: "s", after: 1, createdAt: aSession("a").createdAt }],
  runs: [
    aRun("r2", "a", { state: "failed", endedAt: aSession("a").updatedAt, error: { code: "provider", message: "no" } }),
    aRun("r1", "a", { idempotencyKey: "k" }),
  ],
  asks: [anAsk("q1", "a")],
};

function readChains(lines: readonly string[]): ChainData[] {
  const reader = new ChainReader();
  const chains = [headerLine(), ...lines].map((line) => reader.take(line)).filter((chain) => chain !== undefined);
  reader.close();
  return chains;
}

describe("an export", () => {
  it("is read back as it was written, including runs", () => {
    assert.deepEqual(readChains([...chainLines(chain)]), [chain]);
  });

  it("in the format without runs is read, and its `grown` fields are ignored", () => {
    const oldLines = [...chainLines({ ...chain, runs: [] })].map((line) =>
      line.includes('"finished":false') ? line.replace(/\}\n$/, ',"grown":[1,3]}\n') : line,
    );
    assert.ok(oldLines.some((line) => line.includes("grown")));
    assert.deepEqual(readChains(oldLines), [{ ...chain, runs: [] }]);
  });

  it("with invalid data is rejected with the line and the field", () => {
    const assertRejected = (from: string, to: string, reason: RegExp): void => {
      const lines = [...chainLines(chain)].map((line) => (line.includes('"r1"') ? line.replace(from, to) : line));
      assert.throws(() => readChains(lines), reason);
    };
    assertRejected('"sessionId":"a"', '"sessionId":"b"', /line 8: expected a run of the session a/);
    assertRejected('"running"', '"dancing"', /line 8: expected run\.state to be/);
    assertRejected('"error":null', '"error":"no"', /line 8: expected run\.error to be/);
    const invalidLines = [...chainLines(chain)].map((line) => line.replace('"oldText":null', '"oldText":1'));
    assert.throws(() => readChains(invalidLines), /line 6: expected message\.shown\.diff\.0\.oldText to be/);
    assert.throws(() => readChains([...chainLines(chain)].slice(-2)), /line 2: expected a line of type chain first/);
  });
});
