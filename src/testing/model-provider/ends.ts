import assert from "node:assert/strict";
import { hasCode } from "../../ports/errors.js";
import type { ModelChunk, ModelRequest } from "../../ports/model-provider.js";
import { expectNothingOpened } from "../check.js";
import type { ProviderHarness, ProviderRules } from "./harness.js";

export const abortRules: ProviderRules = {
  "abort: with an aborted signal, the stream rejects with the signal's reason and yields no chunk": async (harness) => {
    const request = await harness.fixture.text();
    const reason = new Error("cancelled");
    const chunks: ModelChunk[] = [];
    const readPromise = (async () => {
      for await (const chunk of harness.provider.stream(request, AbortSignal.abort(reason))) chunks.push(chunk);
    })();
    await assert.rejects(harness.withTimeLimit(readPromise, "a rejection"), (error) => error === reason);
    assert.deepEqual(chunks, []);
  },
  "abort: in mid-answer rejects with the signal's reason, without a finish": async (harness) => {
    await expectAbortAfterText(harness, await harness.fixture.text());
  },
  "a reader that stops in mid-answer ends the call": async (harness) => {
    const request = await harness.fixture.text();
    const partialRead = (async () => {
      for await (const chunk of harness.provider.stream(request, new AbortController().signal)) {
        if (chunk.type === "text") break;
      }
    })();
    await harness.withTimeLimit(partialRead, "the end of a call whose reader stopped");
    await harness.ask(await harness.fixture.text());
  },
  "close: nothing is open afterwards": async (harness) => {
    await harness.ask(await harness.fixture.text());
    await harness.withTimeLimit(harness.provider.close(), "close");
    await harness.fixture.clean();
    await expectNothingOpened(harness.resourcesBefore, harness.timeoutMs);
  },
};

/** Rules for providers whose model can stall. */
export function stallRules(prepareRequest: () => Promise<ModelRequest>): ProviderRules {
  return {
    "abort: while the model is silent, rejects promptly with the signal's reason": async (harness) => {
      await expectAbortAfterText(harness, await prepareRequest());
      await harness.ask(await harness.fixture.text());
    },
  };
}

/** Rules for providers that can fail. */
export function faultRules(prepareRequest: () => Promise<ModelRequest>): ProviderRules {
  return {
    "fault: rejects with a ProviderError that names the provider and the kind, in one line, never after a finish":
      async (harness) => {
        const request = await prepareRequest();
        const chunks: ModelChunk[] = [];
        const readPromise = (async () => {
          for await (const chunk of harness.provider.stream(request, new AbortController().signal)) chunks.push(chunk);
        })();
        let thrownError: unknown;
        await harness.withTimeLimit(
          readPromise.catch((error: unknown) => (thrownError = error)),
          "the failure",
        );
        assert.ok(hasCode(thrownError, "provider"), `expected a ProviderError, got ${String(thrownError)}`);
        assert.equal(thrownError.provider, harness.provider.name);
        assert.ok(typeof thrownError.kind === "string" && thrownError.kind.length > 0, "kind");
        assert.match(thrownError.message, /^[^\r\n]+$/);
        assert.ok(!chunks.some(({ type }) => type === "finish"), "a finish before the fault");
      },
    "fault: the next request is answered": async (harness) => {
      const failingAnswer = harness.ask(await prepareRequest());
      await assert.rejects(failingAnswer);
      await harness.ask(await harness.fixture.text());
    },
  };
}

/**
 * Aborts an answer after its first text. Asserts that the stream rejects with the signal's reason, without a finish.
 */
async function expectAbortAfterText(harness: ProviderHarness, request: ModelRequest): Promise<void> {
  const reason = new Error("cancelled");
  const abortController = new AbortController();
  const chunks: ModelChunk[] = [];
  const readPromise = (async () => {
    for await (const chunk of harness.provider.stream(request, abortController.signal)) {
      chunks.push(chunk);
      if (chunk.type === "text") abortController.abort(reason);
    }
  })();
  await assert.rejects(harness.withTimeLimit(readPromise, "a rejection"), (error) => error === reason);
  assert.ok(!chunks.some(({ type }) => type === "finish"), "a finish after an abort");
}
