import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { describe, it, type TestContext } from "node:test";
import { builtinTools, type BuiltinToolsOptions, type ToolContext, type ToolOutput } from "gantry";
import { findBubblewrap } from "../../../../src/tools/shell/sandbox/bubblewrap.js";
import { waitFor } from "../../../helpers/wait.js";
import { tempDir } from "../../../helpers/temp-dir.js";
import { callTool, createToolContext } from "../../../helpers/tool-context.js";

const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };
const linuxOnly = { skip: process.platform === "linux" ? false : "needs /proc" };
const bubblewrap = findBubblewrap({ env, network: true });

/** Starts commands whose calls a test moves to the background. */
async function createShell(t: TestContext, options: BuiltinToolsOptions = {}) {
  const folder = await tempDir(t);
  const tools = builtinTools({ env, ...options, bash: { sandbox: "off", ...options.bash } });
  t.after(() => Promise.all(tools.map(async (tool) => tool.close?.())));
  const call = (name: string, input: object, context: ToolContext = createToolContext(folder.path)) =>
    callTool(
      tools.find((tool) => tool.name === name)!,
      input,
      context,
    );
  /** Starts a command. Resolves when it has printed `expectedOutput`. */
  const start = async (input: { command: string; timeout?: number }, expectedOutput: RegExp) => {
    const [moveController, runController] = [new AbortController(), new AbortController()];
    let output = "";
    let onOutput = (): void => undefined;
    const progress = (text: string): void => {
      output += text;
      onOutput();
    };
    const context = createToolContext(folder.path, {
      ...{ signal: runController.signal, backgroundSignal: moveController.signal, progress },
    });
    const result = call("bash", input, context);
    await new Promise<void>((resolve) => {
      onOutput = () => void (expectedOutput.test(output) && resolve());
    });
    return { result, move: () => moveController.abort(), cancel: () => runController.abort(new Error("cancelled")) };
  };
  const { background } = tools.find(({ name }) => name === "bash")!;
  assert.ok(background);
  return { call, start, background, folder };
}

function readId({ text }: ToolOutput): string {
  return /bg-[0-9a-f]{6}/.exec(text)?.[0] ?? assert.fail(text);
}

describe("a command that a person moves to the background", linuxOnly, () => {
  it("continues with its output, without the time limit and the signal of its call", async (t) => {
    const { call, start, background, folder } = await createShell(t);
    const command = "echo begin; while [ ! -e go ]; do sleep 0.1; done; echo later; exit 3";
    const { result, move, cancel } = await start({ command, timeout: 5 }, /begin/);
    move();
    const output = await result;
    const id = readId(output);
    assert.equal(
      output.text,
      `begin\n[${id} is running]\n[the user moved it to the background. It continues as ${id}: bash_output shows its output, bash_stop stops it]`,
    );
    assert.notEqual(output.failed, true);
    cancel();
    assert.deepEqual(
      (await background.list("session")).map((state) => [state.id, state.command, state.state]),
      [[id, command, "running"]],
    );
    // Longer than the time limit of the call.
    const { text } = await call("bash_output", { id, wait_end: true, timeout: 6 });
    assert.match(text, /did not end within 6 s/);
    await folder.write({ go: "" });
    assert.equal((await call("bash_output", { id, wait_end: true })).text, "later\n[exit code 3]");
  });

  it("is stopped by bash_stop, and ends with its session", async (t) => {
    const { call, start, background } = await createShell(t);
    const commands = [
      await start({ command: "echo a; sleep 300" }, /a/),
      await start({ command: "echo b; sleep 300" }, /b/),
    ];
    for (const { move } of commands) move();
    const [firstId = "", secondId = ""] = await Promise.all(commands.map(async ({ result }) => readId(await result)));
    assert.match((await call("bash_stop", { id: firstId })).text, /was stopped, with all processes/);
    await background.end("session");
    await assert.rejects(call("bash_output", { id: secondId }), /not found/);
  });

  it("shows no part of a secret that is printed before and after the move", async (t) => {
    const secret = "Hq7vTz31LmWx90RsKd";
    const { call, start, folder } = await createShell(t, { secrets: [secret] });
    const command = `echo start; printf '${secret.slice(0, 9)}'; touch half; while [ ! -e go ]; do sleep 0.1; done; echo '${secret.slice(9)} done'`;
    const { result, move } = await start({ command }, /start/);
    await waitFor("the first half", () => existsSync(folder.at("half")) || undefined);
    move();
    const output = await result;
    assert.ok(!output.text.includes(secret.slice(0, 9)), output.text);
    await folder.write({ go: "" });
    const { text } = await call("bash_output", { id: readId(output), wait_for: "done" });
    assert.match(text, /^\[redacted\] done\n/);
  });

  it("continues for its call if too many commands are running", async (t) => {
    const { call, start, folder } = await createShell(t, { bash: { startMs: 0 } });
    for (let i = 0; i < 16; i++) await call("bash", { command: "sleep 300", background: true });
    const command = "echo begin; while [ ! -e go ]; do sleep 0.1; done; echo later";
    const { result, move } = await start({ command }, /begin/);
    move();
    await folder.write({ go: "" });
    assert.equal((await result).text, "begin\nlater\n[exit code 0]");
  });

  it("continues in the sandbox", async (t) => {
    if (!(await bubblewrap)) return t.skip("no working bubblewrap");
    const { call, start, folder } = await createShell(t, { bash: { sandbox: "required" } });
    const command = "echo begin; while [ ! -e go ]; do sleep 0.1; done; touch /outside || exit 5";
    const { result, move } = await start({ command }, /begin/);
    move();
    const id = readId(await result);
    await folder.write({ go: "" });
    assert.match((await call("bash_output", { id, wait_end: true })).text, /Read-only file system\n\[exit code 5\]$/);
  });
});
