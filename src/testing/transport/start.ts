import assert from "node:assert/strict";
import { expectNothingOpened, withTimeout } from "../check.js";
import type { TransportRules } from "./harness.js";

export const startRules: TransportRules = {
  "name: not empty and without white space": async ({ transport }) => assert.match(transport.name, /^\S+$/),

  "start: resolves once clients can connect": async (stage) => {
    stage.provider.push("Hello.");
    const client = await stage.connect(await stage.start());
    const { text } = await stage.soon(client.prompt("Hi"), "an answer");
    assert.equal(text, "Hello.");
  },
  "address: a URL, or `stdio`, printable, on one line": async (stage) => {
    const { address } = await stage.start();
    assert.ok(address === "stdio" || URL.canParse(address), `address ${JSON.stringify(address)}`);
    assert.match(address, /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/);
  },
  "start: opens nothing before it is called": async (stage) => {
    await expectNothingOpened(stage.before, stage.timeoutMs);
  },
};

export const failingStartRules: TransportRules = {
  "start: rejects if clients cannot connect, and leaves nothing open": async (stage) => {
    const failingTransport = await stage.fixture.createFailing?.();
    assert.ok(failingTransport, "the fixture has createFailing");
    let outcome: unknown;
    const starting = failingTransport.start(stage.agent).then(
      async (listening) => {
        await listening.stop(AbortSignal.abort());
        outcome = "started";
      },
      (error: unknown) => (outcome = error),
    );
    await withTimeout(starting, "start settles", stage.timeoutMs);
    assert.ok(outcome instanceof Error, `start: expected a rejection with an Error, got ${String(outcome)}`);
    await stage.fixture.clean();
    await expectNothingOpened(stage.before, stage.timeoutMs);
  },
};
