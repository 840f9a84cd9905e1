import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, readdir, readFile, rmdir, stat, utimes, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it, type TestContext } from "node:test";
import { builtinTools, type BuiltinToolsOptions } from "gantry";
import { findBubblewrap } from "../../../src/tools/shell/sandbox/bubblewrap.js";
import { Child } from "../../helpers/child.js";
import { killDetached } from "../../helpers/kill-detached.js";
import { until } from "../../helpers/lab.js";
import { makeTempDir, tempDir } from "../../helpers/temp.js";
import { callTool, toolContext } from "../../helpers/tool-context.js";

const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };
const bubblewrap = findBubblewrap({ env, network: true });

function isLiving(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return false;
  }
}

/** Tools of consecutive gantry processes on the same home folder. */
async function createInstances(t: TestContext, options: BuiltinToolsOptions = {}) {
  const home = await makeTempDir();
  const keptPath = home.at("kept");
  // Cleans up after a failed test too: the running processes are recorded in the test's folders.
  t.after(async () => {
    killDetached(keptPath);
    await home.remove();
  });
  const folder = await tempDir(t);
  const start = (startMs = 10) => {
    const tools = builtinTools({ env, ...options, bash: { sandbox: "off", keptPath, startMs, ...options.bash } });
    const toolNamed = (name: string) => tools.find((tool) => tool.name === name)!;
    const call = (name: string, input: object, sessionId = "one") =>
      callTool(toolNamed(name), input, toolContext(folder.path, { sessionId }));
    const close = () => Promise.all(tools.map(async (tool) => tool.close?.()));
    return {
      call,
      close,
      list: (id = "one") => toolNamed("bash").background!.list(id),
      end: (id: string) => toolNamed("bash").background!.end(id),
    };
  };
  return { folder, keptPath, start };
}

/** Starts a detached command whose first output is part of the start result. A slow machine needs a longer wait. */
async function startDetached(t: TestContext, input: object, expectedOutput: RegExp, options: BuiltinToolsOptions = {}) {
  for (const startMs of [300, 3_000, 30_000]) {
    const instances = await createInstances(t, options);
    const first = instances.start(startMs);
    const { text } = await first.call("bash", { ...input, detached: true });
    if (expectedOutput.test(text)) return { ...instances, first, text, id: idIn(text) };
    await first.close();
  }
  return assert.fail(`it does not print ${expectedOutput}`);
}

const idIn = (text: string): string => /bg-[0-9a-f]{6}/.exec(text)?.[0] ?? assert.fail(text);

const SERVICE =
  'trap "" TERM; echo $$ > pid; sleep 300 & echo $! > child; echo up; while read -r line; do echo "got $line"; done; exit 6';

describe("a detached command", { skip: process.platform === "linux" ? false : "needs /proc" }, () => {
  it("survives the close of the tools; later instances list, read, write to and stop it, in its session only", async (t) => {
    const { folder, start, first, text, id } = await startDetached(t, { command: SERVICE, background: true }, /^up\n/);
    assert.match(text, /^up\n\[bg-\w+ is running\]\n\[it continues as .*; it continues after gantry ends\]$/);
    const pids = [Number(await folder.read("pid")), Number(await folder.read("child"))];
    await first.close();
    assert.ok(pids.every(isLiving));

    const second = start();
    const [{ startedAt: since, ...listed }] = (await second.list()) as [Awaited<ReturnType<typeof second.list>>[0]];
    assert.ok(since <= new Date().toISOString());
    assert.deepEqual(listed, { id, command: SERVICE, state: "running", exitCode: null, detached: true });
    // Another session does not see the command.
    assert.deepEqual(await second.list("two"), []);
    await assert.rejects(second.call("bash_stop", { id }, "two"), /existing commands: none/);
    assert.match((await second.call("bash_output", { id })).text, /^\(no new output\)/);
    await second.call("bash_input", { id, text: "hello" });
    assert.match((await second.call("bash_output", { id, wait_for: "got hello" })).text, /^got hello\n/);
    await second.close();

    const third = start();
    assert.match((await third.call("bash_output", { id })).text, /^\(no new output\)/);
    const stopped = await third.call("bash_stop", { id });
    assert.match(stopped.text, /was stopped/);
    assert.ok(!pids.some(isLiving));
    assert.equal((await third.list())[0]?.state, "ended");
    await third.close();
  });

  it("reports exit code 6 to the next instance and leaves no child process running", async (t) => {
    const { folder, start } = await createInstances(t);
    const first = start();
    const id = idIn((await first.call("bash", { command: SERVICE, detached: true })).text);
    await first.close();
    const second = start();
    await second.call("bash_input", { id, text: "", close: true });
    const { text } = await second.call("bash_output", { id, wait_end: true });
    assert.match(text, /\[exit code 6\]$/);
    assert.equal((await second.list())[0]?.exitCode, 6);
    const child = Number(await folder.read("child"));
    await until(() => !isLiving(child));
    await assert.rejects(second.call("bash_input", { id, text: "late" }), /has ended/);
    await second.close();
  });

  it("is listed as running and can be stopped after only its keeper was killed", async (t) => {
    const { folder, keptPath, start } = await createInstances(t);
    const first = start();
    const id = idIn((await first.call("bash", { command: "echo $$ > pid; exec sleep 300", detached: true })).text);
    const pid = Number(await folder.written("pid"));
    const { pid: keeper } = JSON.parse(await readFile(path.join(keptPath, "one", `${id}.json`), "utf8")) as {
      pid: number;
    };
    // The command runs a moment before its keeper has recorded its process.
    const childRecordPath = path.join(keptPath, "one", `${id}.child`);
    await until(async () => (await readFile(childRecordPath, "utf8").catch(() => "")).endsWith("}"));
    process.kill(keeper, "SIGKILL");
    await until(() => !isLiving(keeper));
    await first.close();
    const second = start();
    assert.equal((await second.list())[0]?.state, "running");
    assert.match((await second.call("bash_stop", { id })).text, /\[ended by SIGKILL\]\n\[bg-\w+ was stopped/);
    assert.ok(!isLiving(pid));
    await second.close();
  });

  it("keeps running while its output cannot be written, and records the number of lost bytes", async (t) => {
    const { folder, keptPath, start } = await createInstances(t);
    const gantry = start();
    const command =
      "read -r line; head -c 20000000 /dev/zero; echo > printed; while read -r line; do echo got $line; done";
    const id = idIn((await gantry.call("bash", { command, detached: true })).text);
    // The path of the next part of the output.
    const next = path.join(keptPath, "one", `${id}.1`);
    await mkdir(next);
    await gantry.call("bash_input", { id, text: "" });
    await until(() => existsSync(folder.at("printed")));
    await gantry.call("bash_input", { id, text: "one" });
    await rmdir(next);
    await gantry.call("bash_input", { id, text: "two" });
    const { text } = await gantry.call("bash_output", { id, wait_for: "got two" });
    assert.match(text, /got two\n\[bg-\w+ is running\]$/);
    // The keeper may read the last zeros from the pipe before or after the folder is removed.
    const lastPart = await readFile(next, "latin1");
    assert.match(lastPart, /^\n\[\.\.\. \d+ bytes could not be written \.\.\.\]\n\0*(got one\n)?got two\n$/);
    await gantry.call("bash_stop", { id });
    await gantry.close();
  });

  it("rejects further input while it has not read 1 MiB of earlier input", async (t) => {
    const { start } = await createInstances(t);
    const gantry = start();
    const id = idIn((await gantry.call("bash", { command: "exec sleep 300", detached: true })).text);
    const text = "x".repeat(1024 * 1024);
    await gantry.call("bash_input", { id, text });
    await assert.rejects(gantry.call("bash_input", { id, text }), /has not read its earlier input; nothing was/);
    await gantry.call("bash_stop", { id });
    await gantry.close();
  });

  it("survives a SIGKILL of gantry and the deletion of its session", async (t) => {
    const { folder, keptPath, start } = await createInstances(t);
    const holder = new Child("process-holder.ts", ["kept", SERVICE, folder.path, keptPath]);
    await folder.written("child");
    await holder.kill();
    const pid = Number(await folder.read("pid"));
    const next = start();
    const [listed] = await next.list();
    await next.end("one");
    assert.ok(isLiving(pid));
    await next.call("bash_stop", { id: listed!.id });
    assert.ok(!isLiving(pid));
    await next.close();
  });

  it("is listed as ended if its pid is another process or the machine restarted; invalid records are ignored", async (t) => {
    const { keptPath, start } = await createInstances(t);
    await mkdir(path.join(keptPath, "one"), { recursive: true });
    const boot = (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim();
    const processStat = readFileSync("/proc/self/stat", "latin1");
    const started = Number(processStat.slice(processStat.lastIndexOf(")") + 2).split(" ")[19]);
    const record = { command: "x", since: "2026-01-01T00:00:00.000Z", mark: "m", pid: process.pid };
    const write = (id: string, fields: object) =>
      writeFile(path.join(keptPath, "one", `${id}.json`), JSON.stringify({ ...record, id, ...fields }));
    await write("bg-000001", { started: started + 1, boot });
    await write("bg-000002", { started, boot: "another" });
    await write("bg-000003", { pid: 1, started, boot });
    await write("bg-000004", { pid: "x", started, boot });
    await writeFile(path.join(keptPath, "one", "bg-000005.json"), "{");
    const next = start();
    assert.deepEqual(
      (await next.list()).map(({ id, state }) => `${id} ${state}`),
      ["bg-000001 ended", "bg-000002 ended"],
    );
    // No other process is stopped in its place.
    assert.match((await next.call("bash_stop", { id: "bg-000001" })).text, /\[exit status unknown\]/);
    await next.close();
  });

  it("runs in the sandbox and accepts input and a stop from the next instance", async (t) => {
    if (!(await bubblewrap)) return t.skip("no working bubblewrap");
    const command = "touch /outside || echo held; while read -r line; do echo got $line > said; echo told; done";
    const shown = /Read-only file system\nheld\n/;
    const { start, folder, first, id } = await startDetached(t, { command }, shown, { bash: { sandbox: "required" } });
    await first.close();
    const second = start();
    await second.call("bash_input", { id, text: "you" });
    assert.match((await second.call("bash_output", { id, wait_for: "told" })).text, /^told/);
    assert.equal(await folder.read("said"), "got you\n");
    assert.match((await second.call("bash_stop", { id })).text, /was stopped/);
    await second.close();
  });

  it("redacts secrets; its files are private to the user, and a later start deletes the expired ones", async (t) => {
    const secret = "Hq7vTz31LmWx90RsKd";
    const { start, keptPath } = await createInstances(t, { secrets: [secret] });
    const first = start();
    const id = idIn((await first.call("bash", { command: `read -r line; echo ${secret}`, detached: true })).text);
    await first.call("bash_input", { id, text: "" });
    const { text } = await first.call("bash_output", { id, wait_end: true });
    assert.equal(text, "[redacted]\n[exit code 0]");
    assert.match((await first.list())[0]!.command, /echo \[redacted\]/);
    const folder = path.join(keptPath, "one");
    const names = await readdir(folder);
    for (const name of names) assert.equal((await stat(path.join(folder, name))).mode & 0o077, 0, name);
    await first.close();
    const { pid } = JSON.parse(await readFile(path.join(folder, `${id}.json`), "utf8")) as { pid: number };
    await until(() => !isLiving(pid));
    await utimes(path.join(folder, `${id}.end`), new Date(0), new Date(0));
    const second = start();
    await second.call("bash", { command: "true", detached: true }, "two");
    assert.equal(existsSync(folder), false);
    await second.close();
  });
});

it("bash rejects a detached command if no folder for detached commands is configured", async (t) => {
  const folder = await tempDir(t);
  const bash = builtinTools({ env, bash: { sandbox: "off" } }).find(({ name }) => name === "bash")!;
  t.after(() => bash.close?.());
  const start = callTool(bash, { command: "true", detached: true }, toolContext(folder.path));
  await assert.rejects(start, /commands cannot outlive gantry here/);
});
