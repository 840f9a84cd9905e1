import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import path from "node:path";
import type { TestContext } from "node:test";
import { promisify } from "node:util";
import { say, type FakePiece, type FakeRequest, type FakeStep } from "./fake-model-server.js";
import { lab } from "./lab.js";
import { runGantry } from "./server.js";
import { tempDir, type TempDir } from "./temp.js";

/** One tool call of the scripted model. */
export interface Use {
  readonly name: string;
  readonly arguments: unknown;
}

/** One answer of the model: text and calls. */
export interface Turn {
  readonly text?: string;
  readonly uses: readonly Use[];
}

/** Result of a tool call; results have the order of the calls. */
export interface Result {
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
 * A scripted model that reacts to its input. Each yielded turn returns the results of its calls; the return value is
 * its final answer.
 */
export type Worker = (briefing: Briefing) => Generator<Turn, string, Results>;

/** Results of a turn's calls. */
type Results = readonly Result[];

/** Creates a tool call. */
export function use(name: string, args: unknown): Use {
  return { name, arguments: args };
}

/** Creates a turn with parallel calls. */
export function turn(...uses: Use[]): Turn {
  return { uses };
}

/** A repository with a task in it, and a scripted model that solves it. */
export interface Task {
  /** Files that are committed before the work starts. */
  readonly files: Readonly<Record<string, string>>;
  /** Uncommitted changes of another author. */
  readonly uncommitted?: Readonly<Record<string, string>>;
  readonly prompt: string;
  readonly worker: Worker;
  /** Scripted model for subagents. */
  readonly subagent?: Worker;
  /** Model id, which determines the model family. */
  readonly model?: string;
  readonly config?: Readonly<Record<string, unknown>>;
  /** The repository's own tests. Default: `node --test`. */
  readonly tests?: readonly string[];
  /** Whether the tests fail before the work. Default: true. */
  readonly fails?: boolean;
  /** Arguments of `gantry run` before the prompt. */
  readonly args?: readonly string[];
  /** Files of gantry's home. */
  readonly home?: Readonly<Record<string, string>>;
}

/** Result of a task. */
export interface Done {
  readonly folder: TempDir;
  readonly home: string;
  /** The model's final answer, as printed. */
  readonly answer: string;
  readonly stderr: string;
  /** Total size of all requests to the model, in bytes. */
  readonly bytes: number;
  /** Number of requests to the model. */
  readonly turns: number;
  git(...args: string[]): Promise<string>;
}

const execute = promisify(execFile);

/** Minimal, so that git settings of the user do not change a task. */
const GIT_ENV = { GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1", PATH: process.env["PATH"] ?? "" };

async function git(folder: string, ...args: string[]): Promise<string> {
  const who = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.com"];
  const { stdout } = await execute("git", [...who, ...args], { cwd: folder, env: GIT_ENV });
  return stdout;
}

/** Runs the repository's own tests. Resolves with whether they pass, and their output. */
async function judge(
  folder: string,
  [file = "", ...args]: readonly string[],
): Promise<{ ok: boolean; output: string }> {
  const { PATH = "", HOME = "" } = process.env;
  try {
    const { stdout, stderr } = await execute(file, args, { cwd: folder, env: { PATH, HOME }, maxBuffer: 1 << 26 });
    return { ok: true, output: stdout + stderr };
  } catch (error) {
    const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
    return { ok: false, output: stdout + stderr };
  }
}

/**
 * Runs a task with a real `gantry run` in a real repository. The repository's own tests decide: they fail before and
 * pass after, and nothing is committed.
 */
export async function work(t: TestContext, task: Task): Promise<Done> {
  const folder = await tempDir(t, task.files);
  const home = await tempDir(t, task.home ?? {});
  await git(folder.path, "init", "--quiet", "--initial-branch=main");
  await git(folder.path, "add", "--all");
  await git(folder.path, "commit", "--quiet", "--message=As it was");
  await folder.write(task.uncommitted ?? {});
  const tests = task.tests ?? [process.execPath, "--test"];
  const before = await judge(folder.path, tests);
  assert.equal(before.ok, task.fails === false, `the tests before the work: ${before.output}`);

  const { model = "m1" } = task;
  const models = await lab(t, { models: [model] });
  const mainScript = new Script(task.worker);
  const helpers = new Map<string, Script>();
  models.fallback = (request) => scriptFor(request, task, mainScript, helpers).answer(request);
  const provider = {
    ...{ name: "lab", driver: "openai", base_url: models.baseUrl, api_key: "key-of-the-lab" },
    models: [{ id: model, context_window: 200_000, cost: { input: 1, output: 1 } }],
  };
  const done = await runGantry(t, ["run", ...(task.args ?? []), task.prompt], {
    home: home.path,
    projectDir: folder.path,
    config: { ...task.config, providers: [provider] },
  });
  // A worker throws on unexpected input; that is the actual failure.
  if (mainScript.fault !== undefined) throw mainScript.fault;
  assert.deepEqual([models.violations, done.code], [[], 0], done.stderr);
  assert.ok(mainScript.ended, `the model's work was not over: ${done.stderr}`);

  const after = await judge(folder.path, tests);
  assert.ok(after.ok, `the tests after the work: ${after.output}\n${done.stderr}`);
  assert.equal((await git(folder.path, "log", "--format=%s")).trim(), "As it was", "nothing is committed unasked");
  const asking = models.requests.filter(({ tools }) => tools.length > 0);
  return {
    folder,
    home: home.path,
    answer: done.stdout.trim(),
    stderr: done.stderr,
    bytes: asking.reduce((sum, { body }) => sum + JSON.stringify(body).length, 0),
    turns: asking.length,
    git: (...args) => git(folder.path, ...args),
  };
}

/** The script of a request: that of the task or of a subagent. */
function scriptFor(request: FakeRequest, task: Task, mainScript: Script, helpers: Map<string, Script>): Script {
  const { messages } = request.body as { messages: WireMessage[] };
  const first = textIn(messages.find(({ role }) => role === "user")?.content);
  if (!task.subagent || first.startsWith(task.prompt)) return mainScript;
  const subagentScript = helpers.get(first) ?? new Script(task.subagent);
  helpers.set(first, subagentScript);
  return subagentScript;
}

interface WireMessage {
  role: string;
  content: unknown;
  tool_call_id?: string;
}

/** Runs a worker over the requests of its runs. */
class Script {
  readonly #worker: Worker;
  #work: ReturnType<Worker> | undefined;
  #calls: string[] = [];
  #ids = 0;
  ended = false;
  fault: unknown;

  constructor(worker: Worker) {
    this.#worker = worker;
  }

  answer(request: FakeRequest): FakeStep {
    try {
      return this.#next(request);
    } catch (error) {
      this.fault ??= error;
      return say("I am surprised, and stop.");
    }
  }

  #next(request: FakeRequest): FakeStep {
    const { messages } = request.body as { messages: WireMessage[] };
    const results = this.#calls.map((id) => {
      const answer = messages.findLast((message) => message.tool_call_id === id);
      assert.ok(answer, `the result of ${id} is not there`);
      return { text: textIn(answer.content) };
    });
    const { value, done } = this.#work
      ? this.#work.next(results)
      : (this.#work = this.#worker(toldBy(request, messages))).next(results);
    if (done === true) {
      this.ended = true;
      return say(value);
    }
    this.#calls = value.uses.map(() => `call_${++this.#ids}`);
    const calls = value.uses.map((toolUse, i): FakePiece => ({ call: { ...toolUse, id: this.#calls[i]! } }));
    return { say: [...(value.text === undefined ? [] : [{ text: value.text }]), ...calls] };
  }
}

function toldBy({ tools }: FakeRequest, messages: readonly WireMessage[]): Briefing {
  const system = textIn(messages.find(({ role }) => role === "system" || role === "developer")?.content);
  return { system, prompt: textIn(messages.findLast(({ role }) => role === "user")?.content), tools };
}

function textIn(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part: { text?: string }) => part.text ?? "").join("");
}

/** The part of a text that a pattern matches. Throws if nothing matches. */
export function matchIn(text: string, pattern: RegExp): string {
  const match = pattern.exec(text);
  assert.ok(match, `${String(pattern)} is nowhere in:\n${text.slice(0, 4_000)}`);
  return match[1] ?? match[0];
}

/** Current text of a file. */
export function textOf(folder: TempDir, name: string): Promise<string> {
  return readFile(path.join(folder.path, name), "utf8");
}
