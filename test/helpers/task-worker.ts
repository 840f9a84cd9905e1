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

/** One call of the scripted model, as models write it. */
export interface Use {
  readonly name: string;
  readonly arguments: unknown;
}

/** What the model says at once: words, and calls. */
export interface Turn {
  readonly text?: string;
  readonly uses: readonly Use[];
}

/** What calls brought, in the order of the calls. */
export interface Result {
  readonly text: string;
}

/** What the model is told before its first word. */
export interface Told {
  /** The system prompt. */
  readonly system: string;
  /** The user's last words. */
  readonly prompt: string;
  readonly tools: readonly string[];
}

/** A model that goes by what it sees: each turn it yields brings the results of its calls, what it returns is its answer. */
export type Worker = (told: Told) => Generator<Turn, string, Results>;

/** A call of every turn, and what a turn without that many would bring. */
type Results = readonly Result[];

/** A tool call. */
export function use(name: string, args: unknown): Use {
  return { name, arguments: args };
}

/** A turn of calls that are made at once. */
export function turn(...uses: Use[]): Turn {
  return { uses };
}

/** A repository with a thing to do in it, and a model that does it. */
export interface Task {
  /** All that is committed before the work begins. */
  readonly files: Readonly<Record<string, string>>;
  /** What somebody else has changed, and not committed. */
  readonly uncommitted?: Readonly<Record<string, string>>;
  readonly prompt: string;
  readonly worker: Worker;
  /** Works on what helpers are asked. */
  readonly helper?: Worker;
  /** The model's id, by which its family is known. */
  readonly model?: string;
  readonly config?: Readonly<Record<string, unknown>>;
  /** The repository's own tests. Default `node --test`. */
  readonly tests?: readonly string[];
  /** Whether its tests fail before the work; default true. */
  readonly fails?: boolean;
  /** Arguments of `gantry run` before the prompt. */
  readonly args?: readonly string[];
  /** Files of gantry's home. */
  readonly home?: Readonly<Record<string, string>>;
}

/** What came of it. */
export interface Done {
  readonly folder: TempDir;
  readonly home: string;
  /** The model's last answer, as it was printed. */
  readonly answer: string;
  readonly stderr: string;
  /** Bytes of all requests to the model. */
  readonly bytes: number;
  /** How often it was asked. */
  readonly turns: number;
  git(...args: string[]): Promise<string>;
}

const execute = promisify(execFile);

/** Plain, so that nobody's own settings change what a task is. */
const GIT_ENV = { GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1", PATH: process.env["PATH"] ?? "" };

async function git(folder: string, ...args: string[]): Promise<string> {
  const who = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.com"];
  const { stdout } = await execute("git", [...who, ...args], { cwd: folder, env: GIT_ENV });
  return stdout;
}

/** Whether the repository's own tests hold, and what they print. */
async function judge(folder: string, [file = "", ...args]: readonly string[]): Promise<{ ok: boolean; said: string }> {
  const { PATH = "", HOME = "" } = process.env;
  try {
    const { stdout, stderr } = await execute(file, args, { cwd: folder, env: { PATH, HOME }, maxBuffer: 1 << 26 });
    return { ok: true, said: stdout + stderr };
  } catch (error) {
    const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
    return { ok: false, said: stdout + stderr };
  }
}

/**
 * Have a task done by a real `gantry run` in a real repository, and judged by the repository's own tests: red before,
 * green after, nothing committed.
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
  assert.equal(before.ok, task.fails === false, `the tests before the work: ${before.said}`);

  const { model = "m1" } = task;
  const models = await lab(t, { models: [model] });
  const asked = new Script(task.worker);
  const helpers = new Map<string, Script>();
  models.fallback = (request) => scriptFor(request, task, asked, helpers).answer(request);
  const provider = {
    ...{ name: "lab", driver: "openai", base_url: models.baseUrl, api_key: "key-of-the-lab" },
    models: [{ id: model, context_window: 200_000, cost: { input: 1, output: 1 } }],
  };
  const done = await runGantry(t, ["run", ...(task.args ?? []), task.prompt], {
    home: home.path,
    projectDir: folder.path,
    config: { ...task.config, providers: [provider] },
  });
  // A worker that is surprised throws: that is what went wrong.
  if (asked.fault !== undefined) throw asked.fault;
  assert.deepEqual([models.violations, done.code], [[], 0], done.stderr);
  assert.ok(asked.ended, `the model's work was not over: ${done.stderr}`);

  const after = await judge(folder.path, tests);
  assert.ok(after.ok, `the tests after the work: ${after.said}\n${done.stderr}`);
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

/** Whose conversation a request is: that of the task, or of a helper. */
function scriptFor(request: FakeRequest, task: Task, own: Script, helpers: Map<string, Script>): Script {
  const { messages } = request.body as { messages: WireMessage[] };
  const first = textIn(messages.find(({ role }) => role === "user")?.content);
  if (!task.helper || first.startsWith(task.prompt)) return own;
  const known = helpers.get(first) ?? new Script(task.helper);
  helpers.set(first, known);
  return known;
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
    const calls = value.uses.map((one, i): FakePiece => ({ call: { ...one, id: this.#calls[i]! } }));
    return { say: [...(value.text === undefined ? [] : [{ text: value.text }]), ...calls] };
  }
}

function toldBy({ tools }: FakeRequest, messages: readonly WireMessage[]): Told {
  const system = textIn(messages.find(({ role }) => role === "system" || role === "developer")?.content);
  return { system, prompt: textIn(messages.findLast(({ role }) => role === "user")?.content), tools };
}

function textIn(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part: { text?: string }) => part.text ?? "").join("");
}

/** The part of a text that a pattern finds, as a model would pick it out. Throws where it is not there. */
export function found(text: string, pattern: RegExp): string {
  const match = pattern.exec(text);
  assert.ok(match, `${String(pattern)} is nowhere in:\n${text.slice(0, 4_000)}`);
  return match[1] ?? match[0];
}

/** Text of a file as it is now. */
export function textOf(folder: TempDir, name: string): Promise<string> {
  return readFile(path.join(folder.path, name), "utf8");
}
