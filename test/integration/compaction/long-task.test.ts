import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it, type TestContext } from "node:test";
import { startFakeModelServer } from "../../helpers/fake-model-server.js";
import {
  createProjectFiles,
  createPrompt,
  getAnswerPath,
  LongTaskModel,
  PROMPT_COUNT,
  PROMPT_TURNS,
  TASK_TURNS,
} from "../../helpers/long-task.js";
import { parseSseEvents } from "../../helpers/raw-http.js";
import { startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

/** Runs the long task in a window of 32,000 tokens. Returns its model and the strategies of the compaction events. */
async function runLongTask(t: TestContext, strategy: string) {
  const project = await tempDir(t, createProjectFiles());
  const model = new LongTaskModel();
  const modelServer = await startFakeModelServer({
    toolFreeAnswer: (request) => model.answerToolFree(request),
    fallback: (request) => model.answer(request),
  });
  t.after(() => modelServer.close());
  const models = [{ id: "m1", context_window: 32_000, max_output: 8_000 }];
  const server = await startServer(t, {
    projectDir: project.path,
    config: {
      providers: [{ name: "lab", driver: "openai", base_url: modelServer.baseUrl, api_key: "x", models }],
      agent: { max_iterations: 1_000 },
      compaction: { strategy },
    },
  });
  let sessionId: string | undefined;
  const strategies: string[] = [];
  for (let i = 0; i < PROMPT_COUNT; i += 1) {
    const response = await server.fetch("/api/run", {
      method: "POST",
      body: JSON.stringify({ message: createPrompt(i), session_id: sessionId, stream: true }),
    });
    assert.equal(response.status, 200);
    sessionId = response.headers.get("x-session-id") ?? undefined;
    for (const { data } of parseSseEvents(await response.text())) {
      const event = data as { type?: string; strategy?: string };
      if (event.type !== "compaction") continue;
      assert.deepEqual(Object.keys(event).sort(), ["messages", "strategy", "tokens", "type"]);
      strategies.push(event.strategy ?? "");
    }
  }
  await server.stop();
  assert.deepEqual(modelServer.violations, []);
  assert.equal(model.turn, TASK_TURNS);
  assert.equal(
    strategies.length,
    model.compactions.length,
    "each compaction event, and no other request, changes the prefix",
  );
  assert.deepEqual(model.changedPrefixes, [], "system prompt and tools are byte-identical in all requests");
  const factCounts = strategies.map((_, i) => model.countFacts(i + 1));
  t.diagnostic(`${strategy}: ${model.countFacts()} facts known; from before each compaction: ${factCounts.join(", ")}`);
  return { model, strategies, project };
}

describe("a task of 300 turns in a window of 32,000 tokens", { concurrency: true }, () => {
  it("summary: later steps know the facts from before each compaction, and each compaction attaches the state", async (t) => {
    const { model, strategies, project } = await runLongTask(t, "summary");
    assert.deepEqual([...new Set(strategies)], ["summary"]);
    assert.ok(strategies.length >= 5, `${strategies.length} compactions`);
    assert.deepEqual(
      model.crossedNeeds.filter(({ isKnown }) => !isKnown).map(({ fact }) => fact.text),
      [],
    );
    assert.ok(model.crossedNeeds.length >= 60, `${model.crossedNeeds.length} facts`);
    const neededCompactions = new Set(model.crossedNeeds.flatMap(({ compactions }) => compactions));
    assert.ok(neededCompactions.size >= 5, `facts from before ${neededCompactions.size} compactions are needed`);
    for (const { turn, state } of model.compactions)
      assert.deepEqual(
        Object.entries(state).filter(([, isPresent]) => !isPresent),
        [],
        `the state after the compaction at turn ${turn}`,
      );
    for (const { fact } of model.crossedNeeds)
      if (fact.needTurn % PROMPT_TURNS !== 0)
        assert.equal(readFileSync(project.at(getAnswerPath(fact)), "utf8"), `${fact.value}\n`);
  });

  it("sliding-window: each compaction attaches the state, but facts are lost", async (t) => {
    const { model, strategies } = await runLongTask(t, "sliding-window");
    assert.deepEqual([...new Set(strategies)], ["sliding-window"]);
    assert.equal(model.summaryCount, 0);
    for (const { turn, state } of model.compactions)
      assert.deepEqual(
        Object.entries(state).filter(([, isPresent]) => !isPresent),
        [],
        `the state after the compaction at turn ${turn}`,
      );
    const knownCount = model.crossedNeeds.filter(({ isKnown }) => isKnown).length;
    assert.ok(knownCount < model.crossedNeeds.length / 2, "otherwise the task does not need a summary");
  });
});
