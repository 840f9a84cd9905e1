import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "gantry";
import { ListeningBase } from "gantry/plugin";

class Odd extends ListeningBase {
  readonly address = "odd://here";
  ends = 0;
  constructor(readonly work: () => Promise<void>) {
    super();
  }
  protected end(): Promise<void> {
    this.ends += 1;
    return this.work();
  }
}

describe("the life of a transport", () => {
  it("ends once, however often it is stopped, and says so", async () => {
    const odd = new Odd(() => Promise.resolve());
    assert.equal(odd.stopping, false);
    const patience = new AbortController().signal;
    await Promise.all([odd.stop(patience), odd.stop(patience)]);
    await odd.ended;
    assert.deepEqual([odd.ends, odd.stopping, odd.shutdown.aborted], [1, true, false]);
  });

  it("lets work finish until one who stops it is out of patience", async () => {
    const odd = new Odd(() => new Promise((resolve) => odd.shutdown.addEventListener("abort", () => resolve())));
    const first = odd.stop(new AbortController().signal);
    const hasty = new AbortController();
    const second = odd.stop(hasty.signal);
    assert.equal(odd.shutdown.aborted, false);
    hasty.abort();
    await Promise.all([first, second, odd.ended]);
    assert.ok(hasCode(odd.shutdown.reason, "shutting_down"));
    await odd.stop(AbortSignal.abort());
  });

  it("has ended, too, where the end went wrong", async () => {
    const odd = new Odd(() => Promise.reject(new Error("stuck")));
    await assert.rejects(odd.stop(AbortSignal.abort()), /stuck/);
    await odd.ended;
  });
});
