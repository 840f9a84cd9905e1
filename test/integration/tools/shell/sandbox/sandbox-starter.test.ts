import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Writable } from "node:stream";
import { describe, it } from "node:test";
import { builtinTools } from "gantry";
import { findBubblewrap } from "../../../../../src/tools/shell/sandbox/bubblewrap.js";
import { waitUntil } from "../../../../helpers/server-runs.js";
import { ROOT, SOURCE_FLAGS, sourcePath } from "../../../../helpers/source-paths.js";
import { callTool, createTemporaryFolder, createToolContext } from "../../../../helpers/tool-context.js";

const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };
const bubblewrap = findBubblewrap({ env, network: true });

function createBash(variables: Record<string, string> = {}) {
  const options = { env: { ...env, ...variables }, bash: { sandbox: "required", network: true } } as const;
  const tool = builtinTools(options).find(({ name }) => name === "bash")!;
  return {
    run: async (command: string, projectDir: string) =>
      (await callTool(tool, { command }, createToolContext(projectDir))).text,
    close: () => tool.close!(),
    [Symbol.asyncDispose]: () => tool.close!(),
  };
}

/** Returns the pids of bubblewrap processes that wait for a command. Undefined `hostPid`: of all host processes. */
function findPreparedPids(hostPid?: number): number[] {
  return readdirSync("/proc").flatMap((pid) => {
    try {
      if (!/^\d+$/.test(pid) || !readFileSync(`/proc/${pid}/cmdline`, "latin1").includes("GANTRY_WHOLE")) return [];
      const [state, parentPid] = readFileSync(`/proc/${pid}/stat`, "latin1").split(") ").at(-1)!.split(" ");
      return state !== "Z" && (hostPid === undefined || parentPid === String(hostPid)) ? [Number(pid)] : [];
    } catch {
      return [];
    }
  });
}

describe("a prepared sandbox", () => {
  it("runs the next command and is then replaced; no prepared sandbox remains after the tool is closed", async (t) => {
    if (!(await bubblewrap)) return t.skip("no working bubblewrap");
    await using folder = await createTemporaryFolder();
    await using tool = createBash();
    await tool.run("true", folder.path);
    await waitUntil(() => findPreparedPids(process.pid).length === 1);
    const [firstPid] = findPreparedPids(process.pid);
    assert.equal(await tool.run("echo second", folder.path), "second\n[exit code 0]");
    await waitUntil(() => findPreparedPids(process.pid).length === 1);
    assert.notEqual(findPreparedPids(process.pid)[0], firstPid);
    await tool.close();
    await waitUntil(() => findPreparedPids(process.pid).length === 0);
    assert.equal(await tool.run("echo third", folder.path), "third\n[exit code 0]");
    assert.deepEqual(findPreparedPids(process.pid), []);
  });

  it("does not prevent the next command if the prepared sandbox was killed", async (t) => {
    if (!(await bubblewrap)) return t.skip("no working bubblewrap");
    await using folder = await createTemporaryFolder();
    await using tool = createBash();
    await tool.run("true", folder.path);
    await waitUntil(() => findPreparedPids(process.pid).length === 1);
    const [preparedPid = 0] = findPreparedPids(process.pid);
    process.kill(preparedPid, "SIGKILL");
    await waitUntil(() => !existsSync(`/proc/${preparedPid}`));
    assert.equal(await tool.run("echo second", folder.path), "second\n[exit code 0]");
  });

  it("passes a command on unchanged and adds no variable to the environment of the command", async (t) => {
    if (!(await bubblewrap)) return t.skip("no working bubblewrap");
    await using folder = await createTemporaryFolder();
    await using tool = createBash({ GANTRY_SCRIPT: "echo not this", GANTRY_COMMAND: "nor this", ONLY: "this" });
    const readVariableNames = async (): Promise<string[]> => {
      const text = await tool.run("env", folder.path);
      return text.split("\n").flatMap((line) => /^\w+(?==)/.exec(line) ?? []);
    };
    for (let round = 0; round < 2; round++) {
      const allowedVariables = ["PATH", "ONLY", "GANTRY_CALL", "TMPDIR", "GOCACHE", "PWD", "OLDPWD", "SHLVL", "_"];
      assert.deepEqual(
        (await readVariableNames()).filter((name) => !allowedVariables.includes(name)),
        [],
      );
      const specialText = `'"\\$x \`y\` é\u2028 \n\t#; -n`;
      await tool.run(`cat > written <<'END'\n${specialText}\nEND`, folder.path);
      assert.equal(await readFile(join(folder.path, "written"), "utf8"), `${specialText}\n`);
      const longOutput = await tool.run(`: ${"'".repeat(130_000)}; echo "$0 $# $-"`, folder.path);
      assert.match(longOutput, /^\S*bash 0 \S*c\n|^\S*sh 0 /);
    }
  });

  it("runs nothing if the arguments of a command arrive incomplete", async (t) => {
    if (!(await bubblewrap)) return t.skip("no working bubblewrap");
    await using folder = await createTemporaryFolder();
    await using tool = createBash();
    await tool.run("true", folder.path);
    await waitUntil(() => findPreparedPids(process.pid).length === 1);
    const [file = "", ...args] = readFileSync(`/proc/${findPreparedPids(process.pid)[0]}/cmdline`, "utf8")
      .slice(0, -1)
      .split("\0");
    const completeArgs = ["--bind", "/", "/", "--setenv", "GANTRY_COMMAND", "touch made", "--chdir", folder.path];
    completeArgs.push("--setenv", "GANTRY_SCRIPT", 'eval "$GANTRY_COMMAND"');
    const runWithArgs = async (pipedArgs: string[]) => {
      const child = spawn(file, args, { env, stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
      (child.stdio[4] as Writable).end(pipedArgs.map((pipedArg) => `${pipedArg}\0`).join(""));
      const [code] = (await once(child, "exit")) as [number];
      return { code, hasRun: existsSync(join(folder.path, "made")) };
    };
    assert.deepEqual(await runWithArgs(completeArgs), { code: 126, hasRun: false });
    assert.deepEqual(await runWithArgs([]), { code: 1, hasRun: false });
    assert.deepEqual(await runWithArgs([...completeArgs, "--setenv", "GANTRY_WHOLE", "1"]), { code: 0, hasRun: true });
  });

  it("ends when its host process exits or is killed, and does not keep the host process alive", async (t) => {
    if (!(await bubblewrap)) return t.skip("no working bubblewrap");
    await using folder = await createTemporaryFolder();
    for (const mode of ["stay", "end"]) {
      const host = await startHost(folder.path, [`await run("true");`, ...(mode === "stay" ? [STAY] : [])]);
      if (mode === "stay") {
        await waitUntil(() => findPreparedPids(host.pid).length === 1);
        host.kill("SIGKILL");
      }
      assert.equal(await host.exitCode, mode === "stay" ? null : 0);
      await waitUntil(() => findProcesses(folder.path).length === 0);
    }
  });

  it("ends when its host process is killed while bubblewrap starts", async (t) => {
    if (!(await bubblewrap)) return t.skip("no working bubblewrap");
    await using folder = await createTemporaryFolder();
    // Time: bubblewrap takes a few milliseconds to start; the host is killed at several moments of that.
    const delaysMs = [0, 1, 2, 3, 4, 5, 6, 8];
    const results = delaysMs.map(async (delayMs) => {
      const killItself = `setTimeout(() => process.kill(process.pid, "SIGKILL"), ${delayMs});`;
      const host = await startHost(folder.path, [`await run("true");`, `void run("sleep 4724");`, killItself, STAY]);
      assert.equal(await host.exitCode, null);
    });
    await Promise.all(results);
    await waitUntil(() => findProcesses(folder.path).length === 0);
  });
});

/** Keeps a host process running. */
const STAY = "setInterval(() => undefined, 1_000);";

/** Starts a process that runs `lines` of code. `run(command)` in them runs a command in a sandbox. */
async function startHost(folder: string, lines: readonly string[]) {
  const script = join(folder, `${randomUUID()}.mjs`);
  await writeFile(
    script,
    `import { builtinTools } from ${JSON.stringify(sourcePath("src/tools/builtin-tools.ts"))};
     const env = { PATH: process.env.PATH, LEFT: ${JSON.stringify(folder)} };
     const bash = builtinTools({ env, bash: { sandbox: "required" } }).find((tool) => tool.name === "bash");
     const context = { sessionId: "s", callId: "c", projectDir: ${JSON.stringify(folder)}, signal: new AbortController().signal, ask: async () => "allow", state: new Map() };
     const run = (command) => bash.run(bash.parse({ command }), context);
     ${lines.join("\n")}`,
  );
  const child = spawn(process.execPath, [...SOURCE_FLAGS, script], { cwd: ROOT, stdio: "inherit" });
  const exitCode = once(child, "exit").then(([code]) => code as number | null);
  return { pid: child.pid, kill: (signal: NodeJS.Signals) => child.kill(signal), exitCode };
}

/** Returns the living processes whose environment has the folder of `startHost`. */
function findProcesses(folder: string): string[] {
  return readdirSync("/proc").filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/environ`, "latin1").includes(`LEFT=${folder}\0`);
    } catch {
      return false;
    }
  });
}
