import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "gantry";
import { ListeningBase } from "gantry/plugin";

class TestTransport extends ListeningBase {
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

describe("ListeningBase", () => {
  it("calls end() once for two stops, and resolves `ended`", async () => {
    const transport = new TestTransport(() => Promise.resolve());
    assert.equal(transport.stopping, false);
    const stopSignal = new AbortController().signal;
    await Promise.all([transport.stop(stopSignal), transport.stop(stopSignal)]);
    await transport.ended;
    assert.deepEqual([transport.ends, transport.stopping, transport.shutdown.aborted], [1, true, false]);
  });

  it("aborts `shutdown` when the signal of one stop aborts, and not before", async () => {
    const transport = new TestTransport(
      () => new Promise((resolve) => transport.shutdown.addEventListener("abort", () => resolve())),
    );
    const first = transport.stop(new AbortController().signal);
    const impatientStop = new AbortController();
    const second = transport.stop(impatientStop.signal);
    assert.equal(transport.shutdown.aborted, false);
    impatientStop.abort();
    await Promise.all([first, second, transport.ended]);
    assert.ok(hasCode(transport.shutdown.reason, "shutting_down"));
    await transport.stop(AbortSignal.abort());
  });

  it("resolves `ended` also when end() rejects", async () => {
    const transport = new TestTransport(() => Promise.reject(new Error("stuck")));
    await assert.rejects(transport.stop(AbortSignal.abort()), /stuck/);
    await transport.ended;
  });
});
