import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "gantry";
import { ListeningBase } from "gantry/plugin";

class TestTransport extends ListeningBase {
  readonly address = "odd://here";
  endCount = 0;
  constructor(readonly endWork: () => Promise<void>) {
    super();
  }
  protected end(): Promise<void> {
    this.endCount += 1;
    return this.endWork();
  }
}

describe("ListeningBase", () => {
  it("calls end() once for two stops, and resolves `ended`", async () => {
    const transport = new TestTransport(() => Promise.resolve());
    assert.equal(transport.isStopping, false);
    const stopSignal = new AbortController().signal;
    await Promise.all([transport.stop(stopSignal), transport.stop(stopSignal)]);
    await transport.ended;
    assert.deepEqual([transport.endCount, transport.isStopping, transport.shutdown.aborted], [1, true, false]);
  });

  it("aborts `shutdown` when the signal of one stop aborts, and not before", async () => {
    const transport = new TestTransport(
      () => new Promise((resolve) => transport.shutdown.addEventListener("abort", () => resolve())),
    );
    const firstStop = transport.stop(new AbortController().signal);
    const secondStopController = new AbortController();
    const secondStop = transport.stop(secondStopController.signal);
    assert.equal(transport.shutdown.aborted, false);
    secondStopController.abort();
    await Promise.all([firstStop, secondStop, transport.ended]);
    assert.ok(hasCode(transport.shutdown.reason, "shutting_down"));
    await transport.stop(AbortSignal.abort());
  });

  it("resolves `ended` also when end() rejects", async () => {
    const transport = new TestTransport(() => Promise.reject(new Error("stuck")));
    await assert.rejects(transport.stop(AbortSignal.abort()), /stuck/);
    await transport.ended;
  });
});
