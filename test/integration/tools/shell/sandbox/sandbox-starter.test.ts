import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Writable } from "node:stream";
import { describe, it } from "node:test";
import { builtinTools } from "gantry";
import { findBubblewrap } from "../../../../../src/tools/shell/sandbox/bubblewrap.js";
import { until } from "../../../../helpers/lab.js";
import { ROOT, SOURCE_FLAGS, source } from "../../../../helpers/node.js";
import { callTool, temporaryFolder, toolContext } from "../../../../helpers/tool-context.js";

const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };
const works = findBubblewrap({ env, network: true });

function bash(variables: Record<string, string> = {}) {
  const options = { env: { ...env, ...variables }, bash: { sandbox: "required", network: true } } as const;
  const tool = builtinTools(options).find(({ name }) => name === "bash")!;
  return {
    run: async (command: string, projectDir: string) =>
      (await callTool(tool, { command }, toolContext(projectDir))).text,
    close: () => tool.close!(),
    [Symbol.asyncDispose]: () => tool.close!(),
  };
}

/** Bubblewrap processes that wait for a command and are children of `parent`. Undefined: all of them. */
function preparedPids(parent?: number): number[] {
  return readdirSync("/proc").flatMap((pid) => {
    try {
      if (!/^\d+$/.test(pid) || !readFileSync(`/proc/${pid}/cmdline`, "latin1").includes("GANTRY_WHOLE")) return [];
      const [state, itsParent] = readFileSync(`/proc/${pid}/stat`, "latin1").split(") ").at(-1)!.split(" ");
      return state !== "Z" && (parent === undefined || itsParent === String(parent)) ? [Number(pid)] : [];
    } catch {
      return [];
    }
  });
}

describe("a prepared sandbox", () => {
  it("runs the next command and is then replaced; none remains after the tool is closed", async (t) => {
    if (!(await works)) return t.skip("no working bubblewrap");
    await using folder = await temporaryFolder();
    await using tool = bash();
    await tool.run("true", folder.path);
    await until(() => preparedPids(process.pid).length === 1);
    const [first] = preparedPids(process.pid);
    assert.equal(await tool.run("echo second", folder.path), "second\n[exit code 0]");
    await until(() => preparedPids(process.pid).length === 1);
    assert.notEqual(preparedPids(process.pid)[0], first);
    await tool.close();
    await until(() => preparedPids(process.pid).length === 0);
    assert.equal(await tool.run("echo third", folder.path), "third\n[exit code 0]");
    assert.deepEqual(preparedPids(process.pid), []);
  });

  it("does not prevent the next command if it was killed", async (t) => {
    if (!(await works)) return t.skip("no working bubblewrap");
    await using folder = await temporaryFolder();
    await using tool = bash();
    await tool.run("true", folder.path);
    await until(() => preparedPids(process.pid).length === 1);
    const [first = 0] = preparedPids(process.pid);
    process.kill(first, "SIGKILL");
    await until(() => !existsSync(`/proc/${first}`));
    assert.equal(await tool.run("echo second", folder.path), "second\n[exit code 0]");
  });

  it("passes a command on unchanged and adds no variable with it to the environment", async (t) => {
    if (!(await works)) return t.skip("no working bubblewrap");
    await using folder = await temporaryFolder();
    await using tool = bash({ GANTRY_SCRIPT: "echo not this", GANTRY_COMMAND: "nor this", ONLY: "this" });
    const names = async (): Promise<string[]> => {
      const text = await tool.run("env", folder.path);
      return text.split("\n").flatMap((line) => /^\w+(?==)/.exec(line) ?? []);
    };
    for (let round = 0; round < 2; round++) {
      const knownVariables = ["PATH", "ONLY", "GANTRY_CALL", "TMPDIR", "GOCACHE", "PWD", "OLDPWD", "SHLVL", "_"];
      assert.deepEqual(
        (await names()).filter((name) => !knownVariables.includes(name)),
        [],
      );
      const odd = `'"\\$x \`y\` é\u2028 \n\t#; -n`;
      await tool.run(`cat > written <<'END'\n${odd}\nEND`, folder.path);
      assert.equal(await readFile(join(folder.path, "written"), "utf8"), `${odd}\n`);
      const long = await tool.run(`: ${"'".repeat(130_000)}; echo "$0 $# $-"`, folder.path);
      assert.match(long, /^\S*bash 0 \S*c\n|^\S*sh 0 /);
    }
  });

  it("runs nothing if the arguments of a command arrive incomplete", async (t) => {
    if (!(await works)) return t.skip("no working bubblewrap");
    await using folder = await temporaryFolder();
    await using tool = bash();
    await tool.run("true", folder.path);
    await until(() => preparedPids(process.pid).length === 1);
    const [file = "", ...args] = readFileSync(`/proc/${preparedPids(process.pid)[0]}/cmdline`, "utf8")
      .slice(0, -1)
      .split("\0");
    const fullWords = ["--bind", "/", "/", "--setenv", "GANTRY_COMMAND", "touch made", "--chdir", folder.path];
    fullWords.push("--setenv", "GANTRY_SCRIPT", 'eval "$GANTRY_COMMAND"');
    const outcome = async (words: string[]) => {
      const child = spawn(file, args, { env, stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
      (child.stdio[4] as Writable).end(words.map((word) => `${word}\0`).join(""));
      const [code] = (await once(child, "exit")) as [number];
      return { code, made: existsSync(join(folder.path, "made")) };
    };
    assert.deepEqual(await outcome(fullWords), { code: 126, made: false });
    assert.deepEqual(await outcome([]), { code: 1, made: false });
    assert.deepEqual(await outcome([...fullWords, "--setenv", "GANTRY_WHOLE", "1"]), { code: 0, made: true });
  });

  it("ends with its host process, killed or not, and does not keep it alive", async (t) => {
    if (!(await works)) return t.skip("no working bubblewrap");
    await using folder = await temporaryFolder();
    const script = join(folder.path, "host.mjs");
    await writeFile(
      script,
      `import { writeFileSync } from "node:fs";
       import { builtinTools } from ${JSON.stringify(source("src/tools/builtin-tools.ts"))};
       const env = { PATH: process.env.PATH, LEFT: ${JSON.stringify(folder.path)} };
       const bash = builtinTools({ env, bash: { sandbox: "required" } }).find((tool) => tool.name === "bash");
       const context = { sessionId: "s", callId: "c", projectDir: ${JSON.stringify(folder.path)}, signal: new AbortController().signal, ask: async () => "allow", state: new Map() };
       await bash.run(bash.parse({ command: "true" }), context);
       writeFileSync(${JSON.stringify(join(folder.path, "done"))}, "");
       if (process.argv[2] === "stay") setInterval(() => undefined, 1_000);`,
    );
    const remainingPids = () =>
      preparedPids().filter((pid) => {
        try {
          return readFileSync(`/proc/${pid}/environ`, "latin1").includes(`LEFT=${folder.path}`);
        } catch {
          return false;
        }
      });
    for (const how of ["stay", "end"]) {
      const child = spawn(process.execPath, [...SOURCE_FLAGS, script, how], { cwd: ROOT, stdio: "inherit" });
      const exit = once(child, "exit") as Promise<[number | null]>;
      try {
        // Waits until the command has ended: bubblewrap leaves a process behind if its reader dies while it starts.
        if (how === "stay") await until(() => existsSync(join(folder.path, "done")) && remainingPids().length === 1);
      } finally {
        if (how === "stay") child.kill("SIGKILL");
      }
      assert.equal((await exit)[0], how === "stay" ? null : 0);
      await until(() => remainingPids().length === 0);
    }
  });
});
