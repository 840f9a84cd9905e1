import assert from "node:assert/strict";
import { expectNothingOpened, withTimeout } from "../check.js";
import type { TransportRules } from "./harness.js";

export const startRules: TransportRules = {
  "name: not empty and without white space": async ({ transport }) => assert.match(transport.name, /^\S+$/),

  "start: resolves once clients can connect": async (harness) => {
    harness.provider.push("Hello.");
    const client = await harness.connect(await harness.start());
    const { text } = await harness.withTimeLimit(client.prompt("Hi"), "an answer");
    assert.equal(text, "Hello.");
  },
  "address: a URL, or `stdio`, printable, on one line": async (harness) => {
    const { address } = await harness.start();
    assert.ok(address === "stdio" || URL.canParse(address), `address ${JSON.stringify(address)}`);
    assert.match(address, /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/);
  },
  "start: the transport opens nothing before the call of start": async (harness) => {
    await expectNothingOpened(harness.resourcesBefore, harness.timeoutMs);
  },
};

export const failingStartRules: TransportRules = {
  "start: rejects if clients cannot connect, and leaves nothing open": async (harness) => {
    const failingTransport = await harness.fixture.createFailing?.();
    assert.ok(failingTransport, "the fixture has createFailing");
    let outcome: unknown;
    const starting = failingTransport.start(harness.agent).then(
      async (listening) => {
        await listening.stop(AbortSignal.abort());
        outcome = "started";
      },
      (error: unknown) => (outcome = error),
    );
    await withTimeout(starting, "start settles", harness.timeoutMs);
    assert.ok(outcome instanceof Error, `start: expected a rejection with an Error, got ${String(outcome)}`);
    await harness.fixture.clean();
    await expectNothingOpened(harness.resourcesBefore, harness.timeoutMs);
  },
};
