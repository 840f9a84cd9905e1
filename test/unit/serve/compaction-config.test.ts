import assert from "node:assert/strict";
import { it, type TestContext } from "node:test";
import { compose } from "../../../src/serve/compose.js";
import { loadConfig } from "../../../src/serve/config.js";
import { silentLogger } from "../../../src/base/log.js";
import { tempDir } from "../../helpers/temp-dir.js";

// Third-party modules in a folder without gantry's package, which descriptors do not need.
const TRANSPORT_MODULE = `export default { gantry: 1, kind: "transport", name: "quiet", parse: () => ({}), useClass: class {
  name = "quiet";
  start() { return Promise.resolve({ address: "nowhere", ended: new Promise(() => {}), stop: () => Promise.resolve() }); }
} };`;
const PROVIDER_MODULE = `export default { gantry: 1, kind: "model-provider", name: "tiny", parse: () => ({}), useClass: class {
  name = "tiny"; idleTimeoutMs = 60000; maxRetries = 0; maxWaitMs = 60000;
  configuredModels = [{ id: "m", name: "m", ownedBy: "" }];
  models() { return Promise.resolve(this.configuredModels); }
  async *stream() {
    yield { type: "text", block: "0", text: "ok" };
    yield { type: "finish", reason: "stop", usage: { inputTokens: 0, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 } };
  }
  close() { return Promise.resolve(); }
} };`;
const STRATEGY_MODULE = `export default { gantry: 1, kind: "compaction-strategy", name: "last", parse: () => ({}), useClass: class {
  name = "last-one";
  compact({ messages }) { return Promise.resolve(messages.slice(-1)); }
} };`;

async function startAgent(t: TestContext, strategy: string) {
  const folder = await tempDir(t, {
    "transport.mjs": TRANSPORT_MODULE,
    "provider.mjs": PROVIDER_MODULE,
    "strategy.mjs": STRATEGY_MODULE,
    "config.json": JSON.stringify({
      server: { transports: ["./transport.mjs"] },
      providers: [{ driver: "./provider.mjs" }],
      compaction: { strategy, context_window: 6_000 },
    }),
  });
  const loadedConfig = await loadConfig({ home: folder.path });
  return compose({ loadedConfig, home: folder.path, projectDir: folder.path, logger: silentLogger });
}

it("the compaction config sets the context window and selects a strategy module by its path", async (t) => {
  const { agent, stop } = await startAgent(t, "./strategy.mjs");
  t.after(stop);
  const strategies: string[] = [];
  agent.on("session.compacted", ({ strategy }) => strategies.push(strategy));
  const run = await agent.run({ message: `one ${"x".repeat(6_000)}` });
  await run.result;
  for (let i = 0; i < 4; i++) {
    const nextRun = await agent.run({ message: `more ${"x".repeat(6_000)}`, sessionId: run.sessionId });
    await nextRun.result;
  }
  assert.ok(strategies.length > 0);
  assert.deepEqual(new Set(strategies), new Set(["last-one"]));
});

it("an unknown compaction strategy fails the start with an error that lists the known strategies", async (t) => {
  await assert.rejects(startAgent(t, "magic"), {
    code: "adapter",
    message:
      /config\.json: compaction\.strategy: unknown compaction-strategy magic: expected sliding-window, summary, a package/,
  });
});
