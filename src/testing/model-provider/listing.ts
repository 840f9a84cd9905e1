import assert from "node:assert/strict";
import { Socket } from "node:net";
import type { Model } from "../../ports/model-provider.js";
import { pause } from "../check.js";
import type { ProviderRules } from "./harness.js";

export const listingRules: ProviderRules = {
  "name: not empty, no `/` and no white space": async ({ provider }) => assert.match(provider.name, /^[^/\s]+$/),

  "idleTimeoutMs, maxRetries and maxWaitMs: integers in a valid range": async ({ provider }) => {
    assert.ok(Number.isSafeInteger(provider.idleTimeoutMs) && provider.idleTimeoutMs > 0, "idleTimeoutMs");
    assert.ok(Number.isSafeInteger(provider.maxRetries) && provider.maxRetries >= 0, "maxRetries");
    assert.ok(Number.isSafeInteger(provider.maxWaitMs) && provider.maxWaitMs >= 0, "maxWaitMs");
  },
  "configuredModels: models, read without network access": async ({ provider }) => {
    const connections = await connectionsOf(async () => {
      checkModels(provider.configuredModels);
      assert.deepEqual(provider.configuredModels, provider.configuredModels, "the same on a second read");
      await pause(20);
    });
    assert.equal(connections, 0, "reading `configuredModels` opened a connection");
  },
  "prepare: if present, resolves without network access": async (desk) => {
    const connections = await connectionsOf(async () => {
      await desk.soon(Promise.resolve(desk.provider.prepare?.()), "prepare");
      await pause(20);
    });
    assert.equal(connections, 0, "`prepare` opened a connection");
    await desk.ask(await desk.fixture.text());
  },
  "models: all available models once, including the configured ones": async (desk) => {
    const models = await desk.soon(desk.provider.models(new AbortController().signal), "models");
    checkModels(models);
    const ids = models.map(({ id }) => id);
    for (const { id } of desk.provider.configuredModels) assert.ok(ids.includes(id), `the configured model ${id}`);
  },
  "models: rejects with the reason of a signal that has aborted": async (desk) => {
    const reason = new Error("never mind");
    const listing = desk.provider.models(AbortSignal.abort(reason));
    await assert.rejects(desk.soon(listing, "a rejection"), (error) => error === reason);
  },
  "close: safe to call twice, also without any request": async (desk) => {
    await desk.soon(Promise.all([desk.provider.close(), desk.provider.close()]), "two closes at once");
    await desk.soon(desk.provider.close(), "a third one");
  },
};

/** Number of connections opened during the work. */
async function connectionsOf(work: () => Promise<void>): Promise<number> {
  const connect = Object.getOwnPropertyDescriptor(Socket.prototype, "connect");
  assert.ok(connect, "the fixture has connect");
  let connections = 0;
  Object.defineProperty(Socket.prototype, "connect", {
    ...connect,
    value(this: Socket, ...args: unknown[]): unknown {
      connections++;
      return Reflect.apply(connect.value as (...all: unknown[]) => unknown, this, args);
    },
  });
  try {
    await work();
  } finally {
    Object.defineProperty(Socket.prototype, "connect", connect);
  }
  return connections;
}

function checkModels(models: readonly Model[]): void {
  const ids = new Set<string>();
  for (const { id, name, ownedBy, contextWindow, maxOutput, prices } of models) {
    assert.ok(typeof id === "string" && id !== "" && !ids.has(id), `a model's id, each once: ${String(id)}`);
    ids.add(id);
    assert.ok(typeof name === "string" && name !== "", `name of ${id}`);
    assert.equal(typeof ownedBy, "string", `ownedBy of ${id}`);
    for (const tokens of [contextWindow, maxOutput])
      assert.ok(tokens === undefined || (Number.isSafeInteger(tokens) && tokens > 0), `limits of ${id}`);
    for (const price of Object.values(prices ?? {}) as (number | undefined)[])
      assert.ok(price === undefined || (Number.isFinite(price) && price >= 0), `prices of ${id}`);
  }
}
