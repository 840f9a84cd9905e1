import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, readdir, readFile, stat, symlink, utimes, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import path from "node:path";
import { describe, it, type TestContext } from "node:test";
import { promisify } from "node:util";
import { builtinTools, type BuiltinToolsOptions, type Tool, type ToolContext } from "gantry";
import { Redactor } from "../../../../src/base/redact.js";
import { Background } from "../../../../src/processes/background.js";
import { Child } from "../../../../src/processes/child.js";
import { findBubblewrap } from "../../../../src/tools/shell/sandbox/bubblewrap.js";
import { waitUntil } from "../../../helpers/server-runs.js";
import { tempDir } from "../../../helpers/temp-dir.js";
import { callTool, createToolContext } from "../../../helpers/tool-context.js";

const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };
const linuxOnly = { skip: process.platform === "linux" ? false : "needs /proc" };
const bubblewrap = findBubblewrap({ env, network: true });

/** Creates the tools of an agent and closes them after the test. `bash` waits only 10 ms for output after a start. */
function createTools(t: TestContext, options: BuiltinToolsOptions = {}) {
  const allTools = builtinTools({ env, ...options, bash: { sandbox: "off", startMs: 10, ...options.bash } });
  t.after(() => Promise.all(allTools.map(async (tool) => tool.close?.())));
  const findTool = (name: string): Tool => allTools.find((tool) => tool.name === name)!;
  const call = (name: string, input: object, context: ToolContext) => callTool(findTool(name), input, context);
  const { background } = findTool("bash");
  assert.ok(background);
  return { call, background };
}

/** Starts a background command. Repeats the start with a longer wait until the result has the expected output. */
async function startCommand(
  t: TestContext,
  command: string,
  expectedOutput: RegExp,
  context: ToolContext,
  options: BuiltinToolsOptions = {},
) {
  for (const startMs of [100, 1_000, 10_000]) {
    const tools = createTools(t, { ...options, bash: { ...options.bash, startMs } });
    const { text } = await tools.call("bash", { command, background: true }, context);
    if (expectedOutput.test(text)) return { ...tools, text, id: readCommandId(text) };
  }
  return assert.fail(`${command} does not print ${expectedOutput}`);
}

function isLiving(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return false;
  }
}

const readCommandId = (text: string): string => /bg-[0-9a-f]{6}/.exec(text)?.[0] ?? assert.fail(text);

describe("a background command", linuxOnly, () => {
  it("continues after its call, can be read and written to, and is stopped with its child process", async (t) => {
    const folder = await tempDir(t);
    const context = createToolContext(folder.path);
    const command = "echo begin; sleep 300 & echo $! > pid; while read -r line; do echo got $line; done; wait";
    const { call, text, id } = await startCommand(t, command, /^begin\n/, context);
    assert.match(text, /^begin\n\[bg-\w+ is running\]\n\[it continues as bg-\w+: bash_output shows/);
    assert.match((await call("bash_output", { id }, context)).text, /^\(no new output\)\n\[bg-\w+ is running\]$/);
    assert.match((await call("bash_input", { id, text: "one" }, context)).text, /received the input/);
    const outputResult = await call("bash_output", { id, wait_for: "^got (one|1)$" }, context);
    assert.match(outputResult.text, /^got one\n\[/);
    assert.equal(outputResult.failed, false);
    const stopResult = await call("bash_stop", { id }, context);
    assert.match(stopResult.text, /\[ended by SIGTERM\]\n\[bg-\w+ was stopped/);
    assert.ok(!isLiving(Number(await folder.read("pid"))));
    assert.match((await call("bash_output", { id }, context)).text, /ended by SIGTERM/);
    await assert.rejects(call("bash_input", { id, text: "two" }, context), /has ended/);
  });

  it("runs in its workdir, also with run_in_background, and is listed with the workdir", async (t) => {
    const folder = await tempDir(t, { "it's/a.txt": "" });
    const context = createToolContext(folder.path);
    const { call, background } = createTools(t);
    const { text } = await call("bash", { command: "pwd; cat", workdir: "it's", run_in_background: true }, context);
    const id = readCommandId(text);
    const workdirResult = await call("bash_output", { id, wait_for: "it's$" }, context);
    assert.equal(workdirResult.failed, false, workdirResult.text);
    assert.deepEqual(
      (await background.list(context.sessionId)).map(({ command }) => command),
      ["cd 'it'\\''s' && pwd; cat"],
    );
    await call("bash_stop", { id }, context);
  });

  it("returns output and exit code at once if the command ends during the start", async (t) => {
    const folder = await tempDir(t);
    const { call } = createTools(t, { bash: { startMs: 60_000 } });
    const { text, failed } = await call(
      "bash",
      { command: "echo no; exit 3", background: true },
      createToolContext(folder.path),
    );
    assert.deepEqual([text, failed], ["no\n[exit code 3]", true]);
  });

  it("bash_output waits for the end of the command, and finds text that the start result has already returned", async (t) => {
    const folder = await tempDir(t);
    const context = createToolContext(folder.path);
    const command = "echo listening on 1; read -r line; echo bye; exit 4";
    const { call, id } = await startCommand(t, command, /^listening on 1\n/, context);
    assert.match((await call("bash_output", { id, wait_for: "listening" }, context)).text, /^listening on 1\n/);
    assert.match((await call("bash_output", { id }, context)).text, /^\(no new output\)/);
    await call("bash_input", { id, text: "", close: true }, context);
    const { text } = await call("bash_output", { id, wait_end: true }, context);
    assert.equal(text, "bye\n[exit code 4]");
  });

  it("bash_input reports input that the command has not read, and rejects more input meanwhile", async (t) => {
    const folder = await tempDir(t);
    const { call } = createTools(t);
    const context = createToolContext(folder.path);
    const command = "read -r go < begin; tr -d x; echo over";
    await promisify(execFile)("mkfifo", [folder.at("begin")]);
    const id = readCommandId((await call("bash", { command, background: true }, context)).text);
    const sentText = "x".repeat(900_000);
    assert.match(
      (await call("bash_input", { id, text: sentText }, context)).text,
      /not read all input yet; the rest is buffered/,
    );
    await assert.rejects(call("bash_input", { id, text: sentText }, context), /nothing was written/);
    await writeFile(folder.at("begin"), "go\n");
    await call("bash_input", { id, text: "said once", close: true }, context);
    const { text } = await call("bash_output", { id, wait_end: true }, context);
    assert.equal(text, "\nsaid once\nover\n[exit code 0]");
  });

  it("bash_output stops waiting at the timeout or on cancel, with more waiting calls than worker threads", async (t) => {
    const folder = await tempDir(t);
    const { call } = createTools(t);
    const context = createToolContext(folder.path);
    const id = readCommandId((await call("bash", { command: "echo aaaa; sleep 300", background: true }, context)).text);
    const waitingCalls = Array.from({ length: Math.max(4, 2 * availableParallelism()) + 2 }, () =>
      call("bash_output", { id, wait_for: "never", timeout: 1 }, createToolContext(folder.path)),
    );
    for (const { text, failed } of await Promise.all(waitingCalls)) {
      assert.match(text, /no match within 1 s/);
      assert.equal(failed, true);
    }
    await assert.rejects(call("bash_output", { id, wait_for: "(" }, context), /wait_for: /);
    const cancelController = new AbortController();
    const cancelledCall = call("bash_output", { id, wait_end: true }, { ...context, signal: cancelController.signal });
    cancelController.abort(new Error("cancelled"));
    await assert.rejects(cancelledCall, /cancelled/);
    assert.match((await call("bash_output", { id }, context)).text, /is running/);
  });

  it("is visible to its own session only, and ends with that session", async (t) => {
    const folder = await tempDir(t);
    const { call, background } = createTools(t);
    const firstContext = createToolContext(folder.path, { sessionId: "one" });
    const secondContext = createToolContext(folder.path, { sessionId: "two" });
    const changedSessionIds: string[] = [];
    t.after(background.onChange((session) => changedSessionIds.push(session)));
    const command = "sleep 300 # secret-1234567890";
    const id = readCommandId((await call("bash", { command, background: true }, firstContext)).text);
    for (const name of ["bash_output", "bash_stop"])
      await assert.rejects(call(name, { id }, secondContext), /existing commands: none/);
    const [listedCommand] = await background.list("one");
    const { startedAt, ...otherFields } = listedCommand!;
    assert.deepEqual(otherFields, { id, command, state: "running", exitCode: null, detached: false });
    assert.equal(new Date(startedAt).toISOString(), startedAt);
    assert.deepEqual(await background.list("two"), []);
    await background.end("two");
    assert.match((await call("bash_output", { id }, firstContext)).text, /is running/);
    await background.end("one");
    await assert.rejects(call("bash_output", { id }, firstContext), /existing commands: none/);
    assert.deepEqual(changedSessionIds, ["one", "one"]);
  });

  it("is listed beside a command that starts at the same time", async (t) => {
    const folder = await tempDir(t);
    const background = new Background({}, new Redactor(() => []), (output) => output);
    t.after(() => background.close(new Error("the test has ended")));
    const startCommand = () => {
      const program = { file: "sleep", args: ["300"], cwd: folder.path, env };
      const options = { command: "sleep 300", path: () => undefined, cleanUp: () => Promise.resolve([]) };
      return background.start("session", options, { start: () => Child.start(program) });
    };
    const commands = await Promise.all([startCommand(), startCommand()]);
    const states = await background.list("session");
    assert.deepEqual(states.map(({ id }) => id).sort(), commands.map(({ id }) => id).sort());
    assert.ok(states.every(({ state }) => state === "running"));
  });

  it("is rejected while 16 commands of its session run", async (t) => {
    const folder = await tempDir(t);
    const { call } = createTools(t);
    const context = createToolContext(folder.path);
    const startSleep = () => call("bash", { command: "sleep 300", background: true }, createToolContext(folder.path));
    const ids = (await Promise.all(Array.from({ length: 16 }, startSleep))).map(({ text }) => readCommandId(text));
    assert.equal(new Set(ids).size, 16);
    await assert.rejects(startSleep(), /16 background commands of this session are already running/);
    await call("bash_stop", { id: ids[0] }, context);
    await startSleep();
  });

  it("ends when the agent's tools are closed, and no command starts afterwards", async (t) => {
    const folder = await tempDir(t);
    const agentTools = builtinTools({ env, bash: { sandbox: "off", startMs: 10 } });
    const bash = agentTools.find(({ name }) => name === "bash")!;
    await callTool(
      bash,
      { command: "echo $$ > pid; exec sleep 300", background: true },
      createToolContext(folder.path),
    );
    const pid = Number(await folder.readWhenWritten("pid"));
    assert.ok(isLiving(pid));
    await Promise.all(agentTools.map(async (tool) => tool.close?.()));
    assert.ok(!isLiving(pid));
    await assert.rejects(
      callTool(bash, { command: "true", background: true }, createToolContext(folder.path)),
      /shutting down/,
    );
  });

  it("shows each line once and splits no character or colour sequence between reads", async (t) => {
    const folder = await tempDir(t);
    const context = createToolContext(folder.path);
    const slowPrefix =
      "printf 'a\\xc3'; read -r l; printf '\\xa9b\\033[3'; read -r l; printf '1mc\\033[0m\\n'; read -r l";
    const command = `${slowPrefix}; for i in $(seq 1500); do echo line-$i-é; done; exit 2`;
    const { call, id } = await startCommand(t, command, /^a\n/, context);
    const outputParts: string[] = [];
    const readOutput = async (args: object = {}): Promise<boolean> => {
      const { text } = await call("bash_output", { id, ...args }, context);
      if (!text.startsWith("(no new output)")) outputParts.push(text.replace(/(^|\n)\[[^]*$/, ""));
      return text.endsWith("[exit code 2]");
    };
    for (const wait_for of ["éb", "c", "line"]) {
      await call("bash_input", { id, text: "" }, context);
      await readOutput({ wait_for });
    }
    await waitUntil(() => readOutput());
    const expectedLines = Array.from({ length: 1500 }, (_, i) => `line-${i + 1}-é`);
    // A line can be split between two reads.
    assert.ok(outputParts.join("").replaceAll("\n", "") === `éb${["c", ...expectedLines].join("")}`);
  });

  it("redacts secrets that are split between reads, and secrets in the listed command", async (t) => {
    const folder = await tempDir(t);
    const secret = "Hq7vTz31LmWx90RsKd";
    const context = createToolContext(folder.path);
    const command = `printf 'a${secret.slice(0, 9)}'; read -r line; echo '${secret.slice(9)} done'; read -r line`;
    const { call, background, id } = await startCommand(t, command, /^a\n/, context, { secrets: [secret] });
    await call("bash_input", { id, text: "" }, context);
    const { text } = await call("bash_output", { id, wait_for: "done" }, context);
    assert.match(text, /^\[redacted\] done\n/);
    await background.end("session");
    const secretCommand = `echo ${secret}; sleep 300`;
    await call("bash", { command: secretCommand, background: true }, context);
    assert.match(JSON.stringify(await background.list("session")), /echo \[redacted\]; sleep/);
  });

  it("runs in the sandbox with input, output, exit code and stop", async (t) => {
    if (!(await bubblewrap)) return t.skip("no working bubblewrap");
    const folder = await tempDir(t);
    const context = createToolContext(folder.path);
    const command =
      "echo in; sleep 300 & while read -r line; do echo got $line > said; echo told; done; touch /outside || exit 5";
    const { call, id } = await startCommand(t, command, /^in\n/, context, { bash: { sandbox: "required" } });
    await call("bash_input", { id, text: "you" }, context);
    assert.match((await call("bash_output", { id, wait_for: "told" }, context)).text, /^told/);
    assert.equal(await folder.read("said"), "got you\n");
    await call("bash_input", { id, text: "", close: true }, context);
    const { text } = await call("bash_output", { id, wait_end: true }, context);
    assert.match(text, /Read-only file system\n\[exit code 5\]$/);
    const secondId = readCommandId((await call("bash", { command, background: true }, context)).text);
    assert.match((await call("bash_stop", { id: secondId }, context)).text, /was stopped/);
  });
});

describe("a background command in a git repository", linuxOnly, () => {
  it("cannot create files in .git or move .git", async (t) => {
    if (!(await bubblewrap)) return t.skip("no working bubblewrap");
    const folder = await tempDir(t, { ".git/HEAD": "ref: refs/heads/main\n", ".git/config": "" });
    const { call } = createTools(t, { bash: { sandbox: "required" } });
    const context = createToolContext(folder.path);
    const command = "touch .git/commondir .git/new; mv .git other; touch here; echo over >&2; sleep 300";
    const { text } = await call("bash", { command, background: true }, context);
    const gitResult = await call("bash_output", { id: readCommandId(text), wait_for: "^over$" }, context);
    const fullText = text + gitResult.text;
    assert.match(fullText, /commondir.*Read-only file system/);
    assert.match(fullText, /cannot move|busy/);
    assert.deepEqual((await readdir(folder.at(".git"))).sort(), ["HEAD", "config"]);
    assert.ok(existsSync(folder.at("here")));
  });
});

describe("the saved output of a long command", () => {
  const linesCommand = "for i in $(seq 9000); do echo line-$i; done";

  it("can be opened by read and grep in its own session only, and is deleted with the session", async (t) => {
    const folder = await tempDir(t);
    const home = await tempDir(t);
    const outputsPath = home.at("outputs");
    const secret = "Hq7vTz31LmWx90RsKd";
    const { call, background } = createTools(t, { deniedPaths: [home.path], secrets: [secret], bash: { outputsPath } });
    const context = createToolContext(folder.path, { sessionId: "../one" });
    const { text } = await call("bash", { command: `${linesCommand}; echo ${secret}; ${linesCommand}` }, context);
    assert.match(text, /^line-1\n/);
    const file = /\[the whole output is in (.*) \(open it with read or grep\)\]$/m.exec(text)?.[1] ?? assert.fail(text);
    assert.equal(path.dirname(path.dirname(file)), outputsPath);
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    const fullOutput = await readFile(file, "utf8");
    assert.equal(fullOutput.split("\n").length, 18_002);
    assert.match(fullOutput, /line-9000\n\[redacted\]\nline-1\n/);
    assert.match((await call("read", { path: file, offset: 5000, limit: 2 }, context)).text, /5000\tline-5000/);
    assert.match((await call("grep", { path: file, pattern: "^line-4321$" }, context)).text, /4321:line-4321/);
    // Another session's output, neighbouring files and link targets cannot be read, and nothing can be changed.
    for (const name of ["read", "grep"]) {
      const args = { path: file, pattern: "line" };
      await assert.rejects(call(name, args, { ...context, sessionId: "two" }), /denied|outside/);
    }
    await writeFile(home.at("key"), "key");
    await symlink(home.at("key"), path.join(path.dirname(file), "link"));
    for (const deniedPath of [home.at("key"), path.join(path.dirname(file), "link"), `${path.dirname(file)}/../../key`])
      await assert.rejects(call("read", { path: deniedPath }, context), /denied|outside/);
    await assert.rejects(call("write", { path: file, content: "x" }, context), /denied|outside/);
    await background.end("../one");
    assert.equal(existsSync(path.dirname(file)), false);
  });

  it("does not exist for a short output", async (t) => {
    const folder = await tempDir(t);
    const outputsPath = folder.at("outputs");
    const { call } = createTools(t, { bash: { outputsPath } });
    const { text } = await call("bash", { command: "echo short" }, createToolContext(folder.path));
    assert.equal(text, "short\n[exit code 0]");
    assert.equal(existsSync(outputsPath), false);
  });

  it("is named in the result of a background command too", async (t) => {
    const folder = await tempDir(t);
    const { call } = createTools(t, { bash: { outputsPath: folder.at("outputs") } });
    const context = createToolContext(folder.path);
    const id = readCommandId(
      (await call("bash", { command: `read -r go; ${linesCommand}`, background: true }, context)).text,
    );
    await call("bash_input", { id, text: "go" }, context);
    const { text } = await call("bash_output", { id, wait_end: true }, context);
    const file = /whole output is in (.*) \(open/.exec(text)?.[1] ?? assert.fail(text.slice(-200));
    assert.equal((await readFile(file, "utf8")).split("\n").length, 9_001);
  });

  it("is deleted by a later command after the output has expired", async (t) => {
    const folder = await tempDir(t);
    const outputsPath = folder.at("outputs");
    await mkdir(path.join(outputsPath, "old"), { recursive: true });
    const expiredFile = path.join(outputsPath, "old", "a.txt");
    await writeFile(expiredFile, "old");
    await utimes(expiredFile, new Date(0), new Date(0));
    const { call } = createTools(t, { bash: { outputsPath } });
    await call("bash", { command: linesCommand }, createToolContext(folder.path, { sessionId: "new" }));
    assert.deepEqual(await readdir(outputsPath), ["new"]);
  });
});
