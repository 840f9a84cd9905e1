import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ChainData } from "gantry/plugin";
import { formatChainLines, ChainReader, formatHeader } from "../../../src/sessions/export-format.js";
import {
  aGrowingMessage,
  aMessage,
  anAsk,
  aResult,
  aRun,
  aSession,
} from "../../../src/testing/session-driver/records.js";

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
  const chains = [formatHeader(), ...lines].map((line) => reader.readLine(line)).filter((chain) => chain !== undefined);
  reader.close();
  return chains;
}

describe("an export", () => {
  it("is read back as it was written, including runs", () => {
    assert.deepEqual(readChains([...formatChainLines(chain)]), [chain]);
  });

  it("contains the owner of a session and whether it is shared", () => {
    const [data] = chain.sessions;
    assert.ok(data);
    const session = { ...data.session, owner: "ann", shared: true };
    const ownedChain = { ...chain, sessions: [{ ...data, session }] };
    const lines = [...formatChainLines(ownedChain)];
    assert.deepEqual(readChains(lines), [ownedChain]);
    const invalidLines = lines.map((line) => line.replace('"owner":"ann"', '"owner":""'));
    assert.throws(() => readChains(invalidLines), /session\.owner/);
  });

  it("in the format without runs is read, and its `grown` fields are ignored", () => {
    const oldLines = [...formatChainLines({ ...chain, runs: [] })].map((line) =>
      line.includes('"finished":false') ? line.replace(/\}\n$/, ',"grown":[1,3]}\n') : line,
    );
    assert.ok(oldLines.some((line) => line.includes("grown")));
    assert.deepEqual(readChains(oldLines), [{ ...chain, runs: [] }]);
  });

  it("with invalid data is rejected with the line and the field", () => {
    const assertRejects = (searchText: string, replacement: string, errorPattern: RegExp): void => {
      const lines = [...formatChainLines(chain)].map((line) =>
        line.includes('"r1"') ? line.replace(searchText, replacement) : line,
      );
      assert.throws(() => readChains(lines), errorPattern);
    };
    assertRejects('"sessionId":"a"', '"sessionId":"b"', /line 8: expected a run of the session a/);
    assertRejects('"running"', '"dancing"', /line 8: expected run\.state to be/);
    assertRejects('"error":null', '"error":"no"', /line 8: expected run\.error to be/);
    const invalidLines = [...formatChainLines(chain)].map((line) => line.replace('"oldText":null', '"oldText":1'));
    assert.throws(() => readChains(invalidLines), /line 6: expected message\.shown\.diff\.0\.oldText to be/);
    assert.throws(
      () => readChains([...formatChainLines(chain)].slice(-2)),
      /line 2: expected a line of type chain first/,
    );
  });
});
