import assert from "node:assert/strict";
import { hasCode } from "../../ports/errors.js";
import type { ModelChunk, ModelRequest } from "../../ports/model-provider.js";
import { expectNothingOpened } from "../check.js";
import type { ProviderHarness, ProviderRules } from "./harness.js";

export const abortRules: ProviderRules = {
  "abort: with an aborted signal rejects with its reason, without any chunk": async (desk) => {
    const request = await desk.fixture.text();
    const reason = new Error("too late");
    const chunks: ModelChunk[] = [];
    const stream = (async () => {
      for await (const chunk of desk.provider.stream(request, AbortSignal.abort(reason))) chunks.push(chunk);
    })();
    await assert.rejects(desk.soon(stream, "a rejection"), (error) => error === reason);
    assert.deepEqual(chunks, []);
  },
  "abort: in mid-answer rejects with the signal's reason, without a finish": async (desk) => {
    await abortedAfterFirst(desk, await desk.fixture.text());
  },
  "a reader that stops in mid-answer ends the call": async (desk) => {
    const request = await desk.fixture.text();
    const leave = (async () => {
      for await (const chunk of desk.provider.stream(request, new AbortController().signal)) {
        if (chunk.type === "text") break;
      }
    })();
    await desk.soon(leave, "the end of a call whose reader stopped");
    await desk.ask(await desk.fixture.text());
  },
  "close: nothing is open afterwards": async (desk) => {
    await desk.ask(await desk.fixture.text());
    await desk.soon(desk.provider.close(), "close");
    await desk.fixture.clean();
    await expectNothingOpened(desk.before, desk.timeoutMs);
  },
};

/** Rules for providers whose model can stall. */
export function stallRules(arrange: () => Promise<ModelRequest>): ProviderRules {
  return {
    "abort: while the model is silent, rejects promptly with the signal's reason": async (desk) => {
      await abortedAfterFirst(desk, await arrange());
      await desk.ask(await desk.fixture.text());
    },
  };
}

/** Rules for providers that can fail. */
export function faultRules(arrange: () => Promise<ModelRequest>): ProviderRules {
  return {
    "fault: rejects with a ProviderError that names the provider and the kind, in one line, never after a finish":
      async (desk) => {
        const request = await arrange();
        const chunks: ModelChunk[] = [];
        const stream = (async () => {
          for await (const chunk of desk.provider.stream(request, new AbortController().signal)) chunks.push(chunk);
        })();
        let outcome: unknown;
        await desk.soon(
          stream.catch((error: unknown) => (outcome = error)),
          "the failure",
        );
        assert.ok(hasCode(outcome, "provider"), `expected a ProviderError, got ${String(outcome)}`);
        assert.equal(outcome.provider, desk.provider.name);
        assert.ok(typeof outcome.kind === "string" && outcome.kind.length > 0, "kind");
        assert.match(outcome.message, /^[^\r\n]+$/);
        assert.ok(!chunks.some(({ type }) => type === "finish"), "a finish before the fault");
      },
    "fault: the next request is answered": async (desk) => {
      const failed = desk.ask(await arrange());
      await assert.rejects(failed);
      await desk.ask(await desk.fixture.text());
    },
  };
}

async function abortedAfterFirst(desk: ProviderHarness, request: ModelRequest): Promise<void> {
  const reason = new Error("enough");
  const abort = new AbortController();
  const chunks: ModelChunk[] = [];
  const stream = (async () => {
    for await (const chunk of desk.provider.stream(request, abort.signal)) {
      chunks.push(chunk);
      if (chunk.type === "text") abort.abort(reason);
    }
  })();
  await assert.rejects(desk.soon(stream, "a rejection"), (error) => error === reason);
  assert.ok(!chunks.some(({ type }) => type === "finish"), "a finish after an abort");
}
