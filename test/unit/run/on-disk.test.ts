import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { createQwen } from "qwen-ai-provider-v5";
import { Agent, defineTool, hasCode, MemoryDriver, StoreError } from "gantry";
import type { ModelProvider } from "gantry/plugin";
import { AiSdkProvider, fromAiSdk } from "gantry/adapters/language-models";
import { callTools, ScriptedProvider } from "gantry/testing";
import { startFakeModelServer } from "../../helpers/fake-model-server.js";
import { turns } from "../../helpers/fake-time.js";
import { until } from "../../helpers/lab.js";

/** A store whose `synced` resolves when the test calls `completeSync`. */
class SlowDisk extends MemoryDriver {
  readonly waiting: { resolve: () => void; reject: (error: Error) => void }[] = [];

  synced(): Promise<void> {
    return new Promise((resolve, reject) => this.waiting.push({ resolve, reject }));
  }

  /** Resolves when the next sync is pending. By then a model request that does not wait for the sync has arrived. */
  async waitForSync(settle: () => Promise<unknown> = turns): Promise<void> {
    await until(() => this.waiting.length > 0);
    await settle();
    assert.equal(this.waiting.length, 1);
  }

  /** Completes the pending sync. */
  completeSync(): void {
    this.waiting.shift()?.resolve();
  }
}

interface Model {
  provider: ModelProvider;
  /** The number of requests to the model. */
  countRequests: () => number;
  /** Resolves when a pending request has arrived. */
  settle: () => Promise<unknown>;
}

/** A model that calls `look` and then ends, for each kind of provider. */
const PROVIDERS: Record<string, (t: TestContext) => Promise<Model>> = {
  "a scripted provider": async () => {
    const provider = new ScriptedProvider([callTools(["look", {}]), "done"]);
    return { provider, countRequests: () => provider.requests.length, settle: turns };
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
  // Sequential requests that start later also arrive later.
  const settle = async () => {
    for (let n = 0; n < 5; n += 1) await (await fetch(`${server.baseUrl}/models`)).text();
  };
  return { baseUrl: server.baseUrl, countRequests: () => requestsWithTools().length, settle };
}

describe("a run whose store syncs to disk", () => {
  for (const [name, open] of Object.entries(PROVIDERS))
    it(`waits for the sync before its model call, its tool, the next model call and its end (${name})`, async (t) => {
      const { provider, countRequests, settle } = await open(t);
      let ran = 0;
      const look = defineTool({
        name: "look",
        description: "Looks.",
        schema: { type: "object", properties: {} },
        run: () => `seen ${(ran += 1)} times`,
      });
      const driver = new SlowDisk();
      const agent = new Agent({ providers: [provider], model: { provider: "lab", model: "m" }, tools: [look], driver });
      t.after(() => agent.close());
      let ended = false;
      const running = agent.run({ message: "x" });
      await driver.waitForSync(settle);
      assert.deepEqual([countRequests(), ran], [0, 0], "the prompt is not on the disk");
      driver.completeSync();
      const run = await running;
      const result = run.result.finally(() => (ended = true));
      await driver.waitForSync(settle);
      assert.deepEqual([countRequests(), ran], [1, 0], "the call is not on the disk");
      driver.completeSync();
      await driver.waitForSync(settle);
      assert.deepEqual([countRequests(), ran], [1, 1], "the result is not on the disk");
      driver.completeSync();
      await driver.waitForSync(settle);
      assert.deepEqual([countRequests(), ran, ended], [2, 1, false], "the answer is not on the disk");
      driver.completeSync();
      assert.notEqual((await result).output, "");
    });

  it("fails without a model call if the sync of the prompt fails", async (t) => {
    const provider = new ScriptedProvider(["never"]);
    const driver = new SlowDisk();
    const agent = new Agent({ providers: [provider], driver });
    t.after(() => agent.close());
    const running = agent.run({ message: "x" });
    await driver.waitForSync();
    driver.waiting.shift()?.reject(new StoreError("the disk is gone"));
    await assert.rejects(running, (error) => hasCode(error, "store"));
    assert.equal(provider.requests.length, 0);
  });
});
