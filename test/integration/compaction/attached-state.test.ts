import assert from "node:assert/strict";
import { it } from "node:test";
import { spawnAcpServer } from "../../helpers/acp-process.js";
import {
  callStep,
  errorStep,
  textStep,
  startFakeModelServer,
  type FakeModelServer,
  type FakeRequest,
  type FakeStep,
} from "../../helpers/fake-model-server.js";
import { parseSseEvents } from "../../helpers/raw-http.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

/** Number of tool calls of one prompt. `TURNS=300` is the long form. */
const TURN_COUNT = Number(process.env["TURNS"] ?? 24);
const SUBAGENT_PROMPT = "Write the file of the subagent.";
const TODOS = ["draw the plans", "pour the concrete", "paint the handrail"].map((content, i) => ({
  content,
  status: i === 0 ? "in_progress" : "pending",
}));

/** A model that makes a set number of calls and checks each prompt that it receives. */
class Worker {
  /** Text that each prompt must contain: todo items, and paths of the files changed so far. */
  readonly expectedTexts = new Set<string>();
  readonly missingTexts: string[] = [];
  #callCount = 0;
  #remainingCalls = 0;

  begin(callCount: number): void {
    this.#remainingCalls = callCount;
  }

  answer({ body }: FakeRequest): FakeStep {
    const prompt = JSON.stringify(body);
    if (prompt.includes(SUBAGENT_PROMPT) && !prompt.includes("BUILD THE BRIDGE"))
      return prompt.includes("Created sub/agent.ts")
        ? textStep("sub/agent.ts is written.")
        : this.#write("sub/agent.ts");
    for (const text of this.expectedTexts)
      if (!prompt.includes(text)) this.missingTexts.push(`prompt ${this.#callCount}: ${text}`);
    if (this.#remainingCalls-- <= 0) return textStep("Done.");
    const n = (this.#callCount += 1);
    if (n === 1) {
      for (const { content } of TODOS) this.expectedTexts.add(content);
      return callStep("todowrite", { todos: TODOS });
    }
    if (n === 2) {
      this.expectedTexts.add("sub/agent.ts");
      return callStep("task", { description: "write one file", prompt: SUBAGENT_PROMPT });
    }
    if (n === 3) return callStep("bash", { command: "echo unseen > by-command.txt" });
    if (n === 4) {
      this.expectedTexts.add("old.txt");
      return callStep("delete", { path: "old.txt" });
    }
    const path = `src/part-${n % 60}.ts`;
    this.expectedTexts.add(path);
    return this.#write(path);
  }

  #write(path: string): FakeStep {
    return callStep("write", {
      path,
      content: `// ${path} ${this.#callCount}\n${"const concrete = 1;\n".repeat(300)}`,
    });
  }
}

async function runPrompt(server: GantryServer, message: string, sessionId?: string) {
  const response = await server.fetch("/api/run", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ message, session_id: sessionId, stream: true }),
  });
  assert.equal(response.status, 200);
  const events = parseSseEvents(await response.text()).map(({ data }) => data as { type?: string; strategy?: string });
  const strategies = events.filter(({ type }) => type === "compaction").map(({ strategy }) => strategy);
  return { sessionId: response.headers.get("x-session-id") ?? "", strategies };
}

function createConfig({ baseUrl }: FakeModelServer) {
  const models = [{ id: "m1", context_window: 16_000, max_output: 4_000 }];
  return {
    providers: [{ name: "lab", driver: "openai", base_url: baseUrl, api_key: "x", models }],
    agent: { max_iterations: 1_000 },
  };
}

it("each prompt has todo list and changed files through compactions, restart, resume and failed summaries", async (t) => {
  const home = await tempDir(t);
  const project = await tempDir(t, { "old.txt": "old" });
  const worker = new Worker();
  const models = await startFakeModelServer({
    toolFreeAnswer: textStep("Notes that mention neither."),
    fallback: (request) => worker.answer(request),
  });
  t.after(() => models.close());
  const options = { home: home.path, projectDir: project.path };
  const config = createConfig(models);

  const firstServer = await startServer(t, { ...options, config });
  worker.begin(TURN_COUNT);
  const { sessionId, strategies } = await runPrompt(firstServer, "BUILD THE BRIDGE");
  assert.deepEqual(worker.missingTexts, []);
  assert.ok(strategies.length >= 3, `${strategies.length} compactions`);
  assert.deepEqual([...new Set(strategies)], ["summary"]);
  await firstServer.stop();

  const secondServer = await startServer(t, options);
  models.toolFreeAnswer = errorStep(400, "no summaries today");
  worker.begin(TURN_COUNT);
  const restartedRun = await runPrompt(secondServer, "GO ON", sessionId);
  assert.deepEqual(worker.missingTexts, []);
  assert.ok(restartedRun.strategies.length >= 3, `${restartedRun.strategies.length} compactions`);
  assert.deepEqual([...new Set(restartedRun.strategies)], ["sliding-window"]);
  await secondServer.stop();

  models.toolFreeAnswer = textStep("Notes that mention neither.");
  const { gantry, peer } = await spawnAcpServer(t, options);
  await peer.initialize();
  await peer.request("session/resume", { sessionId, cwd: project.path, mcpServers: [] });
  worker.begin(TURN_COUNT);
  await peer.prompt(sessionId, "AND ON");
  assert.deepEqual(worker.missingTexts, []);
  assert.match(JSON.stringify(peer.getUpdates(sessionId)), /Context compacted \(summary\)/);
  const lastRequest = JSON.stringify(models.lastRunRequest?.body);
  assert.match(lastRequest, /\[>\] draw the plans/);
  assert.match(lastRequest, /commands may have changed others/);
  assert.deepEqual(models.violations, []);
  gantry.child.stdin.end();
  await gantry.exited;
});
