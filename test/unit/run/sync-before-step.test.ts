import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { createQwen } from "qwen-ai-provider-v5";
import { Agent, defineTool, hasCode, MemoryDriver, StoreError } from "gantry";
import type { ModelProvider } from "gantry/plugin";
import { AiSdkProvider, fromAiSdk } from "gantry/adapters/language-models";
import { callTools, ScriptedProvider } from "gantry/testing";
import { startFakeModelServer } from "../../helpers/fake-model-server.js";
import { waitTurns } from "../../helpers/fake-time.js";
import { waitUntil } from "../../helpers/server-runs.js";

/** A store whose `synced` resolves when the test calls `completeSync`. */
class SlowSyncDriver extends MemoryDriver {
  readonly pendingSyncs: { resolve: () => void; reject: (error: Error) => void }[] = [];

  synced(): Promise<void> {
    return new Promise((resolve, reject) => this.pendingSyncs.push({ resolve, reject }));
  }

  /** Resolves when the next sync is pending. By then a model request that does not wait for the sync has arrived. */
  async waitForSync(settle: () => Promise<unknown> = waitTurns): Promise<void> {
    await waitUntil(() => this.pendingSyncs.length > 0);
    await settle();
    assert.equal(this.pendingSyncs.length, 1);
  }

  /** Completes the pending sync. */
  completeSync(): void {
    this.pendingSyncs.shift()?.resolve();
  }
}

interface Model {
  provider: ModelProvider;
  /** Returns the number of model calls, without title requests. */
  countRequests: () => number;
  /** Resolves when a pending request has arrived. */
  settle: () => Promise<unknown>;
}

/** A model that calls `look` and then ends, for each kind of provider. */
const PROVIDERS: Record<string, (t: TestContext) => Promise<Model>> = {
  "a scripted provider": async () => {
    const provider = new ScriptedProvider([callTools(["look", {}]), "done"]);
    return { provider, countRequests: () => provider.requests.length, settle: waitTurns };
  },
  AiSdkProvider: async (t) => {
    const server = await startModelServer(t);
    const models = [{ id: "m" }];
    const provider = new AiSdkProvider({ name: "lab", driver: "openai", baseUrl: server.baseUrl, apiKey: "k", models });
    return { provider, countRequests: server.countRequests, settle: server.settle };
  },
  "fromAiSdk with a third-party package": async (t) => {
    const server = await startModelServer(t);
    const provider = fromAiSdk(createQwen({ baseURL: server.baseUrl, apiKey: "k" }), { name: "lab", models: ["m"] });
    return { provider, countRequests: server.countRequests, settle: server.settle };
  },
};

async function startModelServer(t: TestContext) {
  const server = await startFakeModelServer({ dialect: { body: ["extra_body"] } });
  t.after(() => server.close());
  server.enqueue({ say: [{ call: { name: "look", arguments: {} } }] }, { say: [{ text: ["done"] }] });
  const requestsWithTools = () => server.requests.filter(({ body }) => "tools" in (body as object));
  // Requests arrive in the order of their start. Five requests leave time for a model request that has just started.
  const settle = async () => {
    for (let n = 0; n < 5; n += 1) await (await fetch(`${server.baseUrl}/models`)).text();
  };
  return { baseUrl: server.baseUrl, countRequests: () => requestsWithTools().length, settle };
}

describe("a run whose store syncs to disk", () => {
  for (const [name, createModel] of Object.entries(PROVIDERS))
    it(`waits for the sync before its model call, its tool, the next model call and its end (${name})`, async (t) => {
      const { provider, countRequests, settle } = await createModel(t);
      let callCount = 0;
      const lookTool = defineTool({
        name: "look",
        description: "Looks.",
        schema: { type: "object", properties: {} },
        run: () => `seen ${(callCount += 1)} times`,
      });
      const driver = new SlowSyncDriver();
      const agent = new Agent({
        providers: [provider],
        model: { provider: "lab", model: "m" },
        tools: [lookTool],
        driver,
      });
      t.after(() => agent.close());
      let hasEnded = false;
      const pendingRun = agent.run({ message: "x" });
      await driver.waitForSync(settle);
      assert.deepEqual([countRequests(), callCount], [0, 0], "no model request starts before the prompt is synced");
      driver.completeSync();
      const run = await pendingRun;
      const result = run.result.finally(() => (hasEnded = true));
      await driver.waitForSync(settle);
      assert.deepEqual([countRequests(), callCount], [1, 0], "the tool does not run before its call is synced");
      driver.completeSync();
      await driver.waitForSync(settle);
      assert.deepEqual(
        [countRequests(), callCount],
        [1, 1],
        "no second model request starts before the tool result is synced",
      );
      driver.completeSync();
      await driver.waitForSync(settle);
      assert.deepEqual(
        [countRequests(), callCount, hasEnded],
        [2, 1, false],
        "the run does not end before its answer is synced",
      );
      driver.completeSync();
      assert.notEqual((await result).output, "");
    });

  it("fails without a model call if the sync of the prompt fails", async (t) => {
    const provider = new ScriptedProvider(["never"]);
    const driver = new SlowSyncDriver();
    const agent = new Agent({ providers: [provider], driver });
    t.after(() => agent.close());
    const pendingRun = agent.run({ message: "x" });
    await driver.waitForSync();
    driver.pendingSyncs.shift()?.reject(new StoreError("the disk is gone"));
    await assert.rejects(pendingRun, (error) => hasCode(error, "store"));
    assert.equal(provider.requests.length, 0);
  });
});
