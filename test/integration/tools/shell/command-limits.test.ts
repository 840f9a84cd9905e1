import assert from "node:assert/strict";
import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { builtinTools, type BuiltinToolsOptions } from "gantry";
import { CommandCgroup } from "../../../../src/processes/command-cgroup.js";
import { describeLimits } from "../../../../src/tools/shell/command-limits.js";
import { findBubblewrap } from "../../../../src/tools/shell/sandbox/bubblewrap.js";
import { tempDir } from "../../../helpers/temp-dir.js";
import { callTool, createToolContext } from "../../../helpers/tool-context.js";

type BashOptions = NonNullable<BuiltinToolsOptions["bash"]>;

const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };
const bubblewrap = findBubblewrap({ env, network: true });
const node = `'${process.execPath}'`;
/** More than Node itself needs, less than the commands below try to use. */
const MEMORY_BYTES = 400_000_000;
const PROCESSES = 60;

async function createBash(t: TestContext, options: BashOptions) {
  const tools = builtinTools({ env, bash: { startMs: 60_000, ...options } });
  t.after(() => Promise.all(tools.map(async (tool) => tool.close?.())));
  const bash = tools.find(({ name }) => name === "bash");
  assert.ok(bash);
  const { path: projectDir } = await tempDir(t);
  const run = (command: string, input: object = {}) =>
    callTool(bash, { command, ...input }, createToolContext(projectDir));
  return { run, projectDir };
}

const limitNote = (key: string): RegExp =>
  new RegExp(`\\[limit reached: .*\\(${key}\\); the user can change tools\\.bash\\.limits\\]`);

for (const sandbox of ["required", "off"] as const)
  describe(`a limit of a command, with the sandbox ${sandbox}`, { skip: process.platform !== "linux" }, () => {
    const skipReason = async (limits: BashOptions["limits"] = {}): Promise<string | undefined> => {
      if (sandbox === "required" && (await bubblewrap) === undefined) return "bubblewrap does not work here";
      const { text, isWeak } = await describeLimits(limits);
      return isWeak ? text : undefined;
    };

    it("ends a process that uses more CPU time, in the foreground and background", async (t) => {
      const reason = await skipReason();
      if (reason !== undefined) return t.skip(reason);
      const { run } = await createBash(t, { sandbox, limits: { cpuSeconds: 1 } });
      const foreground = await run("while :; do :; done");
      assert.match(foreground.text, limitNote("cpu_seconds"));
      assert.equal(foreground.failed, true);
      assert.match((await run(`${node} -e 'for (;;);'; echo after`)).text, /after\n[^]*\(cpu_seconds\)/);
      assert.match((await run("while :; do :; done", { background: true })).text, limitNote("cpu_seconds"));
    });

    it("ends a process that ignores the first signal", async (t) => {
      const reason = await skipReason();
      if (reason !== undefined) return t.skip(reason);
      const { run } = await createBash(t, { sandbox, limits: { cpuSeconds: 1 } });
      assert.match(
        (await run("trap '' XCPU; while :; do :; done")).text,
        /possibly after 1 s of CPU time \(cpu_seconds\)/,
      );
    });

    it("limits the size of a file", async (t) => {
      const reason = await skipReason();
      if (reason !== undefined) return t.skip(reason);
      const { run, projectDir } = await createBash(t, { sandbox, limits: { fileBytes: 1_000_000 } });
      const command = "head -c 100M /dev/zero > file";
      assert.match((await run(command)).text, limitNote("file_bytes"));
      assert.equal(statSync(join(projectDir, "file")).size, 1_000_448);
      const write = `${node} -e 'require("node:fs").writeFileSync("other", Buffer.alloc(2_000_000))'`;
      assert.match((await run(write)).text, limitNote("file_bytes"));
      assert.match((await run(command, { background: true })).text, limitNote("file_bytes"));
    });

    it("ends a process if the command uses more memory", async (t) => {
      const limits = { memoryBytes: MEMORY_BYTES };
      const reason = await skipReason(limits);
      if (reason !== undefined) return t.skip(reason);
      const { run } = await createBash(t, { sandbox, limits });
      const command = `${node} -e 'Buffer.alloc(${3 * MEMORY_BYTES}, 1)'; echo after`;
      assert.match((await run(command)).text, /after\n[^]*\(memory_bytes\); the user can change tools\.bash\.limits\]/);
      assert.match((await run(command, { background: true })).text, limitNote("memory_bytes"));
    });

    it("refuses further processes", async (t) => {
      const limits = { processes: PROCESSES };
      const reason = await skipReason(limits);
      if (reason !== undefined) return t.skip(reason);
      const { run } = await createBash(t, { sandbox, limits });
      const script = `
        const { spawn } = require("node:child_process");
        for (let i = 0; i < ${2 * PROCESSES}; i++)
          spawn("sleep", ["300"], { stdio: "ignore" }).on("error", (error) => console.log(error.code)).unref();`;
      const { text } = await run(`${node} -e '${script}'`);
      assert.match(text, /EAGAIN/);
      assert.match(text, limitNote("processes"));
    });

    it("does not change a command below it", async (t) => {
      const limits = { cpuSeconds: 60, fileBytes: 1_000_000, memoryBytes: MEMORY_BYTES, processes: PROCESSES };
      const reason = await skipReason(limits);
      if (reason !== undefined) return t.skip(reason);
      const { run } = await createBash(t, { sandbox, limits });
      const { text } = await run(`head -c 10000 /dev/zero > file; ${node} -p '1 + 1'`);
      assert.equal(text, "2\n[exit code 0]");
    });
  });

describe("the cgroup of a command", () => {
  it("does not remain after the command", async (t) => {
    const limits = { memoryBytes: MEMORY_BYTES, processes: PROCESSES };
    const { text: fault, isWeak } = await describeLimits(limits);
    if (isWeak) return t.skip(fault);
    const { run } = await createBash(t, { sandbox: "off", limits });
    const { text } = await run("cat /proc/self/cgroup");
    const [name = assert.fail(text)] = /gantry-\d+-\d+/.exec(text) ?? [];
    const cgroup = CommandCgroup.create(limits);
    const folders = cgroup.joinFiles.map(dirname);
    await cgroup.remove();
    for (const folder of folders)
      assert.deepEqual([existsSync(folder), existsSync(join(dirname(folder), name))], [false, false]);
    assert.doesNotMatch(readFileSync("/proc/self/cgroup", "utf8"), /gantry-\d/);
  });
});
