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

/** Number of tool calls per prompt. The long form of the test sets `TURNS=300`. */
const CALLS_PER_PROMPT = Number(process.env["TURNS"] ?? 24);
const SUBAGENT_PROMPT = "Write the file of the subagent.";
const TODOS = ["draw the plans", "pour the concrete", "paint the handrail"].map((content, i) => ({
  content,
  status: i === 0 ? "in_progress" : "pending",
}));

/** Answers each prompt with a configured number of tool calls and checks each request for the expected texts. */
class PromptCheckingModel {
  /** Texts that each request must contain: todo items, and the paths of the files changed so far. */
  readonly expectedTexts = new Set<string>();
  readonly missingTexts: string[] = [];
  #callCount = 0;
  #remainingCallCount = 0;

  startPrompt(callCount: number): void {
    this.#remainingCallCount = callCount;
  }

  createStep({ body }: FakeRequest): FakeStep {
    const prompt = JSON.stringify(body);
    if (prompt.includes(SUBAGENT_PROMPT) && !prompt.includes("BUILD THE BRIDGE"))
      return prompt.includes("Created sub/agent.ts")
        ? textStep("sub/agent.ts is written.")
        : this.#write("sub/agent.ts");
    for (const text of this.expectedTexts)
      if (!prompt.includes(text)) this.missingTexts.push(`prompt ${this.#callCount}: ${text}`);
    if (this.#remainingCallCount-- <= 0) return textStep("Done.");
    const callNumber = (this.#callCount += 1);
    if (callNumber === 1) {
      for (const { content } of TODOS) this.expectedTexts.add(content);
      return callStep("todowrite", { todos: TODOS });
    }
    if (callNumber === 2) {
      this.expectedTexts.add("sub/agent.ts");
      return callStep("task", { description: "write one file", prompt: SUBAGENT_PROMPT });
    }
    if (callNumber === 3) return callStep("bash", { command: "echo unseen > by-command.txt" });
    if (callNumber === 4) {
      this.expectedTexts.add("old.txt");
      return callStep("delete", { path: "old.txt" });
    }
    const path = `src/part-${callNumber % 60}.ts`;
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

/** Runs a streamed prompt. Returns the session id and the strategies of the compactions during the run. */
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

it("each request contains the todo list and the changed files after compactions, a restart, failed summaries and a resume", async (t) => {
  const home = await tempDir(t);
  const project = await tempDir(t, { "old.txt": "old" });
  const promptCheckingModel = new PromptCheckingModel();
  const modelServer = await startFakeModelServer({
    toolFreeAnswer: textStep("Notes that mention neither."),
    fallback: (request) => promptCheckingModel.createStep(request),
  });
  t.after(() => modelServer.close());
  const options = { home: home.path, projectDir: project.path };
  const config = createConfig(modelServer);

  const firstServer = await startServer(t, { ...options, config });
  promptCheckingModel.startPrompt(CALLS_PER_PROMPT);
  const { sessionId, strategies } = await runPrompt(firstServer, "BUILD THE BRIDGE");
  assert.deepEqual(promptCheckingModel.missingTexts, []);
  assert.ok(strategies.length >= 3, `${strategies.length} compactions`);
  assert.deepEqual([...new Set(strategies)], ["summary"]);
  await firstServer.stop();

  const secondServer = await startServer(t, options);
  modelServer.toolFreeAnswer = errorStep(400, "no summaries today");
  promptCheckingModel.startPrompt(CALLS_PER_PROMPT);
  const secondRun = await runPrompt(secondServer, "GO ON", sessionId);
  assert.deepEqual(promptCheckingModel.missingTexts, []);
  assert.ok(secondRun.strategies.length >= 3, `${secondRun.strategies.length} compactions`);
  assert.deepEqual([...new Set(secondRun.strategies)], ["sliding-window"]);
  await secondServer.stop();

  modelServer.toolFreeAnswer = textStep("Notes that mention neither.");
  const { gantry, peer } = await spawnAcpServer(t, options);
  await peer.initialize();
  await peer.request("session/resume", { sessionId, cwd: project.path, mcpServers: [] });
  promptCheckingModel.startPrompt(CALLS_PER_PROMPT);
  await peer.prompt(sessionId, "AND ON");
  assert.deepEqual(promptCheckingModel.missingTexts, []);
  assert.match(JSON.stringify(peer.getUpdates(sessionId)), /Context compacted \(summary\)/);
  const lastRequest = JSON.stringify(modelServer.lastRunRequest?.body);
  assert.match(lastRequest, /\[>\] draw the plans/);
  assert.match(lastRequest, /commands may have changed others/);
  assert.deepEqual(modelServer.violations, []);
  gantry.child.stdin.end();
  await gantry.exited;
});
