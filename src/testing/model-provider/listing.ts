import assert from "node:assert/strict";
import { Socket } from "node:net";
import type { Model } from "../../ports/model-provider.js";
import { pause } from "../check.js";
import type { ProviderRules } from "./harness.js";

/** Time for a connection that the provider opens asynchronously. */
const CONNECT_WAIT_MS = 20;

export const listingRules: ProviderRules = {
  "name: not empty, no `/` and no white space": async ({ provider }) => assert.match(provider.name, /^[^/\s]+$/),

  "idleTimeoutMs, maxRetries and maxWaitMs: integers in a valid range": async ({ provider }) => {
    assert.ok(Number.isSafeInteger(provider.idleTimeoutMs) && provider.idleTimeoutMs > 0, "idleTimeoutMs");
    assert.ok(Number.isSafeInteger(provider.maxRetries) && provider.maxRetries >= 0, "maxRetries");
    assert.ok(Number.isSafeInteger(provider.maxWaitMs) && provider.maxWaitMs >= 0, "maxWaitMs");
  },
  "configuredModels: models, read without network access": async ({ provider }) => {
    const connectionCount = await countConnections(async () => {
      checkModels(provider.configuredModels);
      assert.deepEqual(provider.configuredModels, provider.configuredModels, "a second read returns the same models");
      await pause(CONNECT_WAIT_MS);
    });
    assert.equal(connectionCount, 0, "reading `configuredModels` opened a connection");
  },
  "prepare: if present, resolves without network access": async (harness) => {
    const connectionCount = await countConnections(async () => {
      await harness.withTimeLimit(Promise.resolve(harness.provider.prepare?.()), "prepare");
      await pause(CONNECT_WAIT_MS);
    });
    assert.equal(connectionCount, 0, "`prepare` opened a connection");
    await harness.ask(await harness.fixture.text());
  },
  "models: all available models once, including the configured ones": async (harness) => {
    const models = await harness.withTimeLimit(harness.provider.models(new AbortController().signal), "models");
    checkModels(models);
    const ids = models.map(({ id }) => id);
    for (const { id } of harness.provider.configuredModels) assert.ok(ids.includes(id), `the configured model ${id}`);
  },
  "models: rejects with the reason of a signal that has aborted": async (harness) => {
    const reason = new Error("never mind");
    const modelsPromise = harness.provider.models(AbortSignal.abort(reason));
    await assert.rejects(harness.withTimeLimit(modelsPromise, "a rejection"), (error) => error === reason);
  },
  "close: safe to call twice, also without any request": async (harness) => {
    await harness.withTimeLimit(
      Promise.all([harness.provider.close(), harness.provider.close()]),
      "two concurrent closes",
    );
    await harness.withTimeLimit(harness.provider.close(), "a third close");
  },
};

/** Counts the connections opened by `work`. */
async function countConnections(work: () => Promise<void>): Promise<number> {
  const connect = Object.getOwnPropertyDescriptor(Socket.prototype, "connect");
  assert.ok(connect, "Socket.prototype has connect");
  let connectionCount = 0;
  Object.defineProperty(Socket.prototype, "connect", {
    ...connect,
    value(this: Socket, ...args: unknown[]): unknown {
      connectionCount++;
      return Reflect.apply(connect.value as (...all: unknown[]) => unknown, this, args);
    },
  });
  try {
    await work();
  } finally {
    Object.defineProperty(Socket.prototype, "connect", connect);
  }
  return connectionCount;
}

function checkModels(models: readonly Model[]): void {
  const ids = new Set<string>();
  for (const { id, name, ownedBy, contextWindow, maxOutput, prices } of models) {
    assert.ok(typeof id === "string" && id !== "" && !ids.has(id), `ids are unique and not empty, got ${String(id)}`);
    ids.add(id);
    assert.ok(typeof name === "string" && name !== "", `name of ${id}`);
    assert.equal(typeof ownedBy, "string", `ownedBy of ${id}`);
    for (const tokens of [contextWindow, maxOutput])
      assert.ok(tokens === undefined || (Number.isSafeInteger(tokens) && tokens > 0), `limits of ${id}`);
    for (const price of Object.values(prices ?? {}) as (number | undefined)[])
      assert.ok(price === undefined || (Number.isFinite(price) && price >= 0), `prices of ${id}`);
  }
}
