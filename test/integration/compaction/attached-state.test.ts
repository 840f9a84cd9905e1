import assert from "node:assert/strict";
import { it } from "node:test";
import { spawnAcp } from "../../helpers/acp-process.js";
import {
  call,
  fail,
  say,
  startFakeModelServer,
  type FakeModelServer,
  type FakeRequest,
  type FakeStep,
} from "../../helpers/fake-model-server.js";
import { sseEvents } from "../../helpers/http.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp.js";

/** Number of tool calls of one prompt. `TURNS=300` is the long form. */
const TURNS = Number(process.env["TURNS"] ?? 24);
const SUBAGENT_PROMPT = "Write the file of the subagent.";
const TODOS = ["draw the plans", "pour the concrete", "paint the handrail"].map((content, i) => ({
  content,
  status: i === 0 ? "in_progress" : "pending",
}));

/** A model that works until its calls are used up and checks each prompt that it receives. */
class Worker {
  /** Text that each prompt must contain: todo items, and paths of the files changed so far. */
  readonly expected = new Set<string>();
  readonly missing: string[] = [];
  #calls = 0;
  #left = 0;

  begin(calls: number): void {
    this.#left = calls;
  }

  answer({ body }: FakeRequest): FakeStep {
    const prompt = JSON.stringify(body);
    if (prompt.includes(SUBAGENT_PROMPT) && !prompt.includes("BUILD THE BRIDGE"))
      return prompt.includes("Created sub/agent.ts") ? say("sub/agent.ts is written.") : this.#write("sub/agent.ts");
    for (const text of this.expected) if (!prompt.includes(text)) this.missing.push(`prompt ${this.#calls}: ${text}`);
    if (this.#left-- <= 0) return say("Done.");
    const n = (this.#calls += 1);
    if (n === 1) {
      for (const { content } of TODOS) this.expected.add(content);
      return call("todowrite", { todos: TODOS });
    }
    if (n === 2) {
      this.expected.add("sub/agent.ts");
      return call("task", { description: "write one file", prompt: SUBAGENT_PROMPT });
    }
    if (n === 3) return call("bash", { command: "echo unseen > by-command.txt" });
    if (n === 4) {
      this.expected.add("old.txt");
      return call("delete", { path: "old.txt" });
    }
    const path = `src/part-${n % 60}.ts`;
    this.expected.add(path);
    return this.#write(path);
  }

  #write(path: string): FakeStep {
    return call("write", { path, content: `// ${path} ${this.#calls}\n${"const concrete = 1;\n".repeat(300)}` });
  }
}

async function runPrompt(server: GantryServer, message: string, sessionId?: string) {
  const response = await server.fetch("/api/run", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ message, session_id: sessionId, stream: true }),
  });
  assert.equal(response.status, 200);
  const events = sseEvents(await response.text()).map(({ data }) => data as { type?: string; strategy?: string });
  const strategies = events.filter(({ type }) => type === "compaction").map(({ strategy }) => strategy);
  return { sessionId: response.headers.get("x-session-id") ?? "", strategies };
}

function configOf({ baseUrl }: FakeModelServer) {
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
    aside: say("Notes that mention neither."),
    fallback: (request) => worker.answer(request),
  });
  t.after(() => models.close());
  const options = { home: home.path, projectDir: project.path };
  const config = configOf(models);

  const first = await startServer(t, { ...options, config });
  worker.begin(TURNS);
  const { sessionId, strategies } = await runPrompt(first, "BUILD THE BRIDGE");
  assert.deepEqual(worker.missing, []);
  assert.ok(strategies.length >= 3, `${strategies.length} compactions`);
  assert.deepEqual([...new Set(strategies)], ["summary"]);
  await first.stop();

  const second = await startServer(t, options);
  models.aside = fail(400, "no summaries today");
  worker.begin(TURNS);
  const restarted = await runPrompt(second, "GO ON", sessionId);
  assert.deepEqual(worker.missing, []);
  assert.ok(restarted.strategies.length >= 3, `${restarted.strategies.length} compactions`);
  assert.deepEqual([...new Set(restarted.strategies)], ["sliding-window"]);
  await second.stop();

  models.aside = say("Notes that mention neither.");
  const { gantry, peer } = await spawnAcp(t, options);
  await peer.initialize();
  await peer.request("session/resume", { sessionId, cwd: project.path, mcpServers: [] });
  worker.begin(TURNS);
  await peer.prompt(sessionId, "AND ON");
  assert.deepEqual(worker.missing, []);
  assert.match(JSON.stringify(peer.updates(sessionId)), /Context compacted \(summary\)/);
  const last = JSON.stringify(models.lastOfRun?.body);
  assert.match(last, /\[>\] draw the plans/);
  assert.match(last, /commands may have changed others/);
  assert.deepEqual(models.violations, []);
  gantry.child.stdin.end();
  await gantry.exited;
});
