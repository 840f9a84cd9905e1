import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import path from "node:path";
import type { TestContext } from "node:test";
import { promisify } from "node:util";
import { textStep, type FakePiece, type FakeRequest, type FakeStep } from "./fake-model-server.js";
import { startModelServer } from "./server-runs.js";
import { runGantry } from "./server.js";
import { tempDir, type TempDir } from "./temp-dir.js";

/** One tool call of the scripted model. */
export interface ToolUse {
  readonly name: string;
  readonly arguments: unknown;
}

/** One answer of the model: text and calls. */
export interface ModelTurn {
  readonly text?: string;
  readonly toolUses: readonly ToolUse[];
}

/** Result of a tool call; results have the order of the calls. */
export interface ToolResult {
  readonly text: string;
}

/** The model's input before its first answer. */
export interface Briefing {
  /** The system prompt. */
  readonly system: string;
  /** The user's last message. */
  readonly prompt: string;
  readonly tools: readonly string[];
}

/**
 * A scripted model that reacts to its input. Each `yield` of a turn returns the results of that turn's calls. The
 * generator's return value is the model's final answer.
 */
export type ScriptedWorker = (briefing: Briefing) => Generator<ModelTurn, string, Results>;

/** Results of a turn's calls. */
type Results = readonly ToolResult[];

/** Creates a tool call. */
export function createToolUse(name: string, args: unknown): ToolUse {
  return { name, arguments: args };
}

/** Creates a turn with parallel calls. */
export function createTurn(...toolUses: ToolUse[]): ModelTurn {
  return { toolUses };
}

/** A repository with a task in it, and a scripted model that solves it. */
export interface Task {
  /** Files that are committed before the work starts. */
  readonly files: Readonly<Record<string, string>>;
  /** Uncommitted changes of another author. */
  readonly uncommitted?: Readonly<Record<string, string>>;
  readonly prompt: string;
  readonly worker: ScriptedWorker;
  /** Scripted model for subagents. Default: `worker` answers their requests too. */
  readonly subagent?: ScriptedWorker;
  /** Model id, which determines the model family. Default: `m1`. */
  readonly model?: string;
  readonly config?: Readonly<Record<string, unknown>>;
  /** The repository's own tests. Default: `node --test`. */
  readonly tests?: readonly string[];
  /** Whether the tests fail before the work. Default: true. */
  readonly hasFailingTests?: boolean;
  /** Arguments of `gantry run` that precede the prompt. */
  readonly args?: readonly string[];
  /** Files of gantry's home. */
  readonly home?: Readonly<Record<string, string>>;
}

/** Result of a task. */
export interface TaskResult {
  readonly folder: TempDir;
  readonly home: string;
  /** The model's final answer, as printed. */
  readonly answer: string;
  readonly stderr: string;
  /** Total size of the counted requests as JSON, in characters. */
  readonly requestCharacters: number;
  /** Number of requests to the model that offer tools; requests for titles offer none. */
  readonly requestCount: number;
  git(...args: string[]): Promise<string>;
}

const runFile = promisify(execFile);

/** A minimal environment, so that the user's git settings do not change a task. */
const GIT_ENV = { GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1", PATH: process.env["PATH"] ?? "" };

async function git(folder: string, ...args: string[]): Promise<string> {
  const identityArguments = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.com"];
  const { stdout } = await runFile("git", [...identityArguments, ...args], { cwd: folder, env: GIT_ENV });
  return stdout;
}

/** Runs the repository's own tests. Resolves with whether they pass, and their output. */
async function runTests(
  folder: string,
  [file = "", ...args]: readonly string[],
): Promise<{ isPassing: boolean; output: string }> {
  const { PATH = "", HOME = "" } = process.env;
  try {
    const { stdout, stderr } = await runFile(file, args, { cwd: folder, env: { PATH, HOME }, maxBuffer: 1 << 26 });
    return { isPassing: true, output: stdout + stderr };
  } catch (error) {
    const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
    return { isPassing: false, output: stdout + stderr };
  }
}

/**
 * Runs a task with a real `gantry run` in a real repository. The repository's own tests must fail before the run
 * (unless `hasFailingTests` is false) and pass after it. The run must commit nothing.
 */
export async function runTask(t: TestContext, task: Task): Promise<TaskResult> {
  const folder = await tempDir(t, task.files);
  const home = await tempDir(t, task.home ?? {});
  await git(folder.path, "init", "--quiet", "--initial-branch=main");
  await git(folder.path, "add", "--all");
  await git(folder.path, "commit", "--quiet", "--message=As it was");
  await folder.write(task.uncommitted ?? {});
  const tests = task.tests ?? [process.execPath, "--test"];
  const testsBefore = await runTests(folder.path, tests);
  assert.equal(
    testsBefore.isPassing,
    task.hasFailingTests === false,
    `the tests before the task: ${testsBefore.output}`,
  );

  const { model = "m1" } = task;
  const models = await startModelServer(t, { models: [model] });
  const mainScript = new Script(task.worker);
  const subagentScripts = new Map<string, Script>();
  models.fallback = (request) => selectScript(request, task, mainScript, subagentScripts).answer(request);
  const provider = {
    ...{ name: "lab", driver: "openai", base_url: models.baseUrl, api_key: "key-of-the-lab" },
    models: [{ id: model, context_window: 200_000, cost: { input: 1, output: 1 } }],
  };
  const processResult = await runGantry(t, ["run", ...(task.args ?? []), task.prompt], {
    home: home.path,
    projectDir: folder.path,
    config: { ...task.config, providers: [provider] },
  });
  // A worker throws on unexpected input; that is the actual failure.
  if (mainScript.fault !== undefined) throw mainScript.fault;
  assert.deepEqual([models.violations, processResult.code], [[], 0], processResult.stderr);
  assert.ok(mainScript.isComplete, `the scripted model did not finish: ${processResult.stderr}`);

  const testsAfter = await runTests(folder.path, tests);
  assert.ok(testsAfter.isPassing, `the tests after the task: ${testsAfter.output}\n${processResult.stderr}`);
  assert.equal((await git(folder.path, "log", "--format=%s")).trim(), "As it was", "the task commits nothing");
  const modelRequests = models.requests.filter(({ tools }) => tools.length > 0);
  return {
    folder,
    home: home.path,
    answer: processResult.stdout.trim(),
    stderr: processResult.stderr,
    requestCharacters: modelRequests.reduce((sum, { body }) => sum + JSON.stringify(body).length, 0),
    requestCount: modelRequests.length,
    git: (...args) => git(folder.path, ...args),
  };
}

/** Selects the script of a request: the script of the task or of a subagent. */
function selectScript(
  request: FakeRequest,
  task: Task,
  mainScript: Script,
  subagentScripts: Map<string, Script>,
): Script {
  const { messages } = request.body as { messages: WireMessage[] };
  const firstPrompt = joinText(messages.find(({ role }) => role === "user")?.content);
  if (!task.subagent || firstPrompt.startsWith(task.prompt)) return mainScript;
  const subagentScript = subagentScripts.get(firstPrompt) ?? new Script(task.subagent);
  subagentScripts.set(firstPrompt, subagentScript);
  return subagentScript;
}

interface WireMessage {
  role: string;
  content: unknown;
  tool_call_id?: string;
}

/** Passes the results of tool calls to a worker, and returns the worker's turns as answers of the model. */
class Script {
  readonly #worker: ScriptedWorker;
  #turns: ReturnType<ScriptedWorker> | undefined;
  #callIds: string[] = [];
  #idCount = 0;
  isComplete = false;
  fault: unknown;

  constructor(worker: ScriptedWorker) {
    this.#worker = worker;
  }

  answer(request: FakeRequest): FakeStep {
    try {
      return this.#createNextStep(request);
    } catch (error) {
      this.fault ??= error;
      return textStep("I am surprised, and stop.");
    }
  }

  #createNextStep(request: FakeRequest): FakeStep {
    const { messages } = request.body as { messages: WireMessage[] };
    const results = this.#callIds.map((id) => {
      const resultMessage = messages.findLast((message) => message.tool_call_id === id);
      assert.ok(resultMessage, `the request has no result of ${id}`);
      return { text: joinText(resultMessage.content) };
    });
    const { value, done } = this.#turns
      ? this.#turns.next(results)
      : (this.#turns = this.#worker(readBriefing(request, messages))).next(results);
    if (done === true) {
      this.isComplete = true;
      return textStep(value);
    }
    this.#callIds = value.toolUses.map(() => `call_${++this.#idCount}`);
    const calls = value.toolUses.map((toolUse, i): FakePiece => ({ call: { ...toolUse, id: this.#callIds[i]! } }));
    return { say: [...(value.text === undefined ? [] : [{ text: value.text }]), ...calls] };
  }
}

function readBriefing({ tools }: FakeRequest, messages: readonly WireMessage[]): Briefing {
  const system = joinText(messages.find(({ role }) => role === "system" || role === "developer")?.content);
  return { system, prompt: joinText(messages.findLast(({ role }) => role === "user")?.content), tools };
}

function joinText(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part: { text?: string }) => part.text ?? "").join("");
}

/** The first group of a pattern's match, or the whole match if the pattern has no group. Throws if nothing matches. */
export function requireMatch(text: string, pattern: RegExp): string {
  const match = pattern.exec(text);
  assert.ok(match, `${String(pattern)} matches nothing in:\n${text.slice(0, 4_000)}`);
  return match[1] ?? match[0];
}

/** Current text of a file. */
export function readText(folder: TempDir, name: string): Promise<string> {
  return readFile(path.join(folder.path, name), "utf8");
}
