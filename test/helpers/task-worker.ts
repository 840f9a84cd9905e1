import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import path from "node:path";
import type { TestContext } from "node:test";
import { promisify } from "node:util";
import {
  textStep,
  type FakeModelServer,
  type FakePiece,
  type FakeRequest,
  type FakeStep,
  type FakeWireName,
} from "./fake-model-server.js";
import { startModelServer } from "./server-runs.js";
import { runGantry } from "./server.js";
import { tempDir, type TempDir } from "./temp-dir.js";
import { readCachedText, readConversation } from "./wire-conversation.js";

/** The manifest of a repository with a task. */
export const PACKAGE_JSON = JSON.stringify({ name: "wares", version: "1.0.0", type: "module", private: true });

/** Returns a test file with the common imports and `lines`. */
export function createTestFile(...lines: string[]): string {
  return ['import assert from "node:assert/strict";', 'import { test } from "node:test";', ...lines, ""].join("\n");
}

/** One tool call of the scripted model. */
export interface ToolUse {
  readonly name: string;
  readonly arguments: unknown;
}

/** One answer of the model: text and calls. */
export interface ModelTurn {
  readonly text?: string;
  readonly toolUses: readonly ToolUse[];
  /** How the answer fails. The client must repeat the request, and the turn has no results. */
  readonly failure?: FakeStep;
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
  readonly projectDir: string;
  /** The conversation of the latest request, as JSON. */
  readonly readRequest: () => string;
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

/** Creates an answer that fails: an error of the provider, or calls that break off. */
export function createFailedTurn(failure: FakeStep, ...toolUses: ToolUse[]): ModelTurn {
  return { toolUses, failure };
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
  /** The provider's wire. Default: chat completions. */
  readonly wire?: FakeWireName;
  /** In tokens. Default: 200,000. */
  readonly contextWindow?: number;
  /** Whether the conversation is compacted. Otherwise each request must begin with the whole previous request. */
  readonly isCompacted?: boolean;
  /** Answers requests without tools, which ask for titles and summaries. */
  readonly toolFreeAnswer?: (request: FakeRequest) => FakeStep;
  readonly config?: Readonly<Record<string, unknown>>;
  /** The repository's own tests. Default: `node --test`. */
  readonly tests?: readonly string[];
  /** Whether the tests fail before the work. Default: true. */
  readonly hasFailingTests?: boolean;
  /** Arguments of `gantry run` that precede the prompt. */
  readonly args?: readonly string[];
  /** Files of gantry's home. */
  readonly home?: Readonly<Record<string, string>>;
  /** Starts gantry with the prompt, and resolves when the work is done. Default: one `gantry run`. */
  readonly start?: (options: StartOptions) => Promise<StartResult>;
}

/** Folders and config of the process that works on a task. */
export interface StartOptions {
  readonly folder: TempDir;
  readonly home: string;
  readonly projectDir: string;
  readonly config: Readonly<Record<string, unknown>>;
}

/** Exit code and output of `gantry run`, or their equivalents. */
export interface StartResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
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

  const { model = "m1", wire = "openai", contextWindow = 200_000, toolFreeAnswer } = task;
  const models = await startModelServer(t, { models: [model], ...(toolFreeAnswer && { toolFreeAnswer }) });
  const mainScript = new Script(task.worker, folder.path);
  const subagentScripts = new Map<string, Script>();
  models.fallback = (request) => selectScript(request, task, mainScript, subagentScripts, folder.path).answer(request);
  const provider = {
    ...{ name: "lab", driver: wire, base_url: getBaseUrl(models, wire), api_key: "key-of-the-lab" },
    models: [{ id: model, context_window: contextWindow, cost: { input: 1, output: 1 } }],
  };
  const startOptions = {
    folder,
    home: home.path,
    projectDir: folder.path,
    config: { ...task.config, providers: [provider] },
  };
  const processResult = task.start
    ? await task.start(startOptions)
    : await runGantry(t, ["run", ...(task.args ?? []), task.prompt], startOptions);
  // A worker throws on unexpected input; that is the actual failure.
  if (mainScript.fault !== undefined) throw mainScript.fault;
  assert.deepEqual([models.violations, processResult.code], [[], 0], processResult.stderr);
  assert.ok(mainScript.isComplete, `the scripted model did not finish: ${processResult.stderr}`);

  assert.ok(
    task.isCompacted === true || mainScript.isPrefixKept,
    "a request does not begin with the previous request, so that providers cannot cache it",
  );

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

function getBaseUrl(models: FakeModelServer, wire: FakeWireName): string {
  return wire === "google" ? `${models.url}/v1beta` : models.baseUrl;
}

/** Selects the script of a request: the script of the task or of a subagent. */
function selectScript(
  request: FakeRequest,
  task: Task,
  mainScript: Script,
  subagentScripts: Map<string, Script>,
  projectDir: string,
): Script {
  const [firstPrompt = ""] = readConversation(request).prompts;
  if (!task.subagent || firstPrompt.startsWith(task.prompt)) return mainScript;
  const subagentScript = subagentScripts.get(firstPrompt) ?? new Script(task.subagent, projectDir);
  subagentScripts.set(firstPrompt, subagentScript);
  return subagentScript;
}

/** Passes the results of tool calls to a worker, and returns the worker's turns as answers of the model. */
class Script {
  readonly #worker: ScriptedWorker;
  readonly #projectDir: string;
  #turns: ReturnType<ScriptedWorker> | undefined;
  #request: FakeRequest | undefined;
  #callIds: string[] = [];
  #idCount = 0;
  #cachedText = "";
  isComplete = false;
  /** Whether each request began with the previous request. */
  isPrefixKept = true;
  fault: unknown;

  constructor(worker: ScriptedWorker, projectDir: string) {
    this.#worker = worker;
    this.#projectDir = projectDir;
  }

  answer(request: FakeRequest): FakeStep {
    try {
      this.#request = request;
      const cachedText = readCachedText(request.body);
      this.isPrefixKept &&= cachedText.startsWith(this.#cachedText);
      this.#cachedText = cachedText;
      return this.#createNextStep(request);
    } catch (error) {
      this.fault ??= error;
      return textStep("I am surprised, and stop.");
    }
  }

  #createNextStep(request: FakeRequest): FakeStep {
    const results = this.#readResults(request);
    const { value, done } = this.#turns
      ? this.#turns.next(results)
      : (this.#turns = this.#worker(this.#createBriefing(request))).next(results);
    if (done === true) {
      this.isComplete = true;
      return textStep(value);
    }
    const calls = value.toolUses.map((toolUse) => ({ ...toolUse, id: `call_${++this.#idCount}` }));
    this.#callIds = value.failure ? [] : calls.map(({ id }) => id);
    const say: FakePiece[] = [
      ...(value.text === undefined ? [] : [{ text: value.text }]),
      ...calls.map((call) => ({ call })),
    ];
    return { ...(say.length > 0 && { say }), ...value.failure };
  }

  /** Reads the results of the last turn's calls. On Google's wire, which has no ids, these are the request's last. */
  #readResults(request: FakeRequest): Results {
    const { results } = readConversation(request);
    const hasIds = request.wire !== "google";
    const firstIndex = results.length - this.#callIds.length;
    return this.#callIds.map((id, i) => {
      const result = hasIds ? results.findLast(({ callId }) => callId === id) : results[firstIndex + i];
      assert.ok(result, `the request has no result of ${id}`);
      return result;
    });
  }

  #createBriefing(request: FakeRequest): Briefing {
    const { system, prompts } = readConversation(request);
    const readRequest = () => JSON.stringify(this.#request?.body);
    return { system, prompt: prompts.at(-1) ?? "", tools: request.tools, projectDir: this.#projectDir, readRequest };
  }
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
