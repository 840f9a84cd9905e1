import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, readdir, readFile, rmdir, stat, utimes, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it, type TestContext } from "node:test";
import { builtinTools, type BuiltinToolsOptions } from "gantry";
import { findBubblewrap } from "../../../src/tools/shell/sandbox/bubblewrap.js";
import { Child } from "../../helpers/child.js";
import { killDetached } from "../../helpers/kill-detached.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { makeTempDir, tempDir } from "../../helpers/temp-dir.js";
import { callTool, createToolContext } from "../../helpers/tool-context.js";

const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };
const bubblewrap = findBubblewrap({ env, network: true });

function isLiving(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return false;
  }
}

/** Creates the tools of consecutive gantry processes on one home. `startMs`: time that `bash` waits for first output. */
async function createInstances(t: TestContext, options: BuiltinToolsOptions = {}) {
  const home = await makeTempDir();
  const keptPath = home.at("kept");
  // Cleans up after a failed test too: the running processes are recorded in the test's folders.
  t.after(async () => {
    killDetached(keptPath);
    await home.remove();
  });
  const folder = await tempDir(t);
  const startInstance = (startMs = 10) => {
    const tools = builtinTools({ env, ...options, bash: { sandbox: "off", keptPath, startMs, ...options.bash } });
    const findTool = (name: string) => tools.find((tool) => tool.name === name)!;
    const call = (name: string, input: object, sessionId = "one") =>
      callTool(findTool(name), input, createToolContext(folder.path, { sessionId }));
    const close = () => Promise.all(tools.map(async (tool) => tool.close?.()));
    return {
      call,
      close,
      list: (id = "one") => findTool("bash").background!.list(id),
      end: (id: string) => findTool("bash").background!.end(id),
    };
  };
  return { folder, keptPath, startInstance };
}

/** Starts a detached command. Repeats the start with a longer wait until the result has the expected output. */
async function startDetached(t: TestContext, input: object, expectedOutput: RegExp, options: BuiltinToolsOptions = {}) {
  for (const startMs of [300, 3_000, 30_000]) {
    const instances = await createInstances(t, options);
    const firstInstance = instances.startInstance(startMs);
    const { text } = await firstInstance.call("bash", { ...input, detached: true });
    if (expectedOutput.test(text)) return { ...instances, firstInstance, text, id: readCommandId(text) };
    await firstInstance.close();
  }
  return assert.fail(`the command does not print ${expectedOutput}`);
}

const readCommandId = (text: string): string => /bg-[0-9a-f]{6}/.exec(text)?.[0] ?? assert.fail(text);

const SERVICE_COMMAND =
  'trap "" TERM; echo $$ > pid; sleep 300 & echo $! > child; echo up; while read -r line; do echo "got $line"; done; exit 6';

describe("a detached command", { skip: process.platform === "linux" ? false : "needs /proc" }, () => {
  it("survives the close of the tools; later instances list, read, write to and stop the command, only in its session", async (t) => {
    const { folder, startInstance, firstInstance, text, id } = await startDetached(
      t,
      { command: SERVICE_COMMAND, background: true },
      /^up\n/,
    );
    assert.match(text, /^up\n\[bg-\w+ is running\]\n\[it continues as .*; it continues after gantry ends\]$/);
    const pids = [Number(await folder.read("pid")), Number(await folder.read("child"))];
    await firstInstance.close();
    assert.ok(pids.every(isLiving));

    const secondInstance = startInstance();
    const [{ startedAt, ...listedFields }] = (await secondInstance.list()) as [
      Awaited<ReturnType<typeof secondInstance.list>>[0],
    ];
    assert.ok(startedAt <= new Date().toISOString());
    assert.deepEqual(listedFields, { id, command: SERVICE_COMMAND, state: "running", exitCode: null, detached: true });
    // Another session does not see the command.
    assert.deepEqual(await secondInstance.list("two"), []);
    await assert.rejects(secondInstance.call("bash_stop", { id }, "two"), /existing commands: none/);
    assert.match((await secondInstance.call("bash_output", { id })).text, /^\(no new output\)/);
    await secondInstance.call("bash_input", { id, text: "hello" });
    assert.match((await secondInstance.call("bash_output", { id, wait_for: "got hello" })).text, /^got hello\n/);
    await secondInstance.close();

    const thirdInstance = startInstance();
    assert.match((await thirdInstance.call("bash_output", { id })).text, /^\(no new output\)/);
    const stopResult = await thirdInstance.call("bash_stop", { id });
    assert.match(stopResult.text, /was stopped/);
    assert.ok(!pids.some(isLiving));
    assert.equal((await thirdInstance.list())[0]?.state, "ended");
    await thirdInstance.close();
  });

  it("reports exit code 6 to the next instance and leaves no child process running", async (t) => {
    const { folder, startInstance } = await createInstances(t);
    const firstInstance = startInstance();
    const id = readCommandId((await firstInstance.call("bash", { command: SERVICE_COMMAND, detached: true })).text);
    await firstInstance.close();
    const secondInstance = startInstance();
    await secondInstance.call("bash_input", { id, text: "", close: true });
    const { text } = await secondInstance.call("bash_output", { id, wait_end: true });
    assert.match(text, /\[exit code 6\]$/);
    assert.equal((await secondInstance.list())[0]?.exitCode, 6);
    const childPid = Number(await folder.read("child"));
    await waitUntil(() => !isLiving(childPid));
    await assert.rejects(secondInstance.call("bash_input", { id, text: "late" }), /has ended/);
    await secondInstance.close();
  });

  it("is listed as running and can be stopped after only its keeper was killed", async (t) => {
    const { folder, keptPath, startInstance } = await createInstances(t);
    const firstInstance = startInstance();
    const id = readCommandId(
      (await firstInstance.call("bash", { command: "echo $$ > pid; exec sleep 300", detached: true })).text,
    );
    const pid = Number(await folder.readWhenWritten("pid"));
    const { pid: keeperPid } = JSON.parse(await readFile(path.join(keptPath, "one", `${id}.json`), "utf8")) as {
      pid: number;
    };
    // The command runs a moment before its keeper has recorded its process.
    const childRecordPath = path.join(keptPath, "one", `${id}.child`);
    await waitUntil(async () => (await readFile(childRecordPath, "utf8").catch(() => "")).endsWith("}"));
    process.kill(keeperPid, "SIGKILL");
    await waitUntil(() => !isLiving(keeperPid));
    await firstInstance.close();
    const secondInstance = startInstance();
    assert.equal((await secondInstance.list())[0]?.state, "running");
    assert.match((await secondInstance.call("bash_stop", { id })).text, /\[ended by SIGKILL\]\n\[bg-\w+ was stopped/);
    assert.ok(!isLiving(pid));
    await secondInstance.close();
  });

  it("keeps running while its output cannot be written, and records the number of lost bytes", async (t) => {
    const { folder, keptPath, startInstance } = await createInstances(t);
    const instance = startInstance();
    const command =
      "read -r line; head -c 20000000 /dev/zero; echo > printed; while read -r line; do echo got $line; done";
    const id = readCommandId((await instance.call("bash", { command, detached: true })).text);
    // The path of the next part of the output.
    const nextPartPath = path.join(keptPath, "one", `${id}.1`);
    await mkdir(nextPartPath);
    await instance.call("bash_input", { id, text: "" });
    await waitUntil(() => existsSync(folder.at("printed")));
    await instance.call("bash_input", { id, text: "one" });
    await rmdir(nextPartPath);
    await instance.call("bash_input", { id, text: "two" });
    const { text } = await instance.call("bash_output", { id, wait_for: "got two" });
    assert.match(text, /got two\n\[bg-\w+ is running\]$/);
    // The keeper may read the last zeros from the pipe before or after the folder is removed.
    const lastPart = await readFile(nextPartPath, "latin1");
    assert.match(lastPart, /^\n\[\.\.\. \d+ bytes could not be written \.\.\.\]\n\0*(got one\n)?got two\n$/);
    await instance.call("bash_stop", { id });
    await instance.close();
  });

  it("rejects further input while the command has not read 1 MiB of earlier input", async (t) => {
    const { startInstance } = await createInstances(t);
    const onlyInstance = startInstance();
    const id = readCommandId((await onlyInstance.call("bash", { command: "exec sleep 300", detached: true })).text);
    const text = "x".repeat(1024 * 1024);
    await onlyInstance.call("bash_input", { id, text });
    await assert.rejects(onlyInstance.call("bash_input", { id, text }), /has not read its earlier input; nothing was/);
    await onlyInstance.call("bash_stop", { id });
    await onlyInstance.close();
  });

  it("survives a SIGKILL of gantry and the deletion of its session", async (t) => {
    const { folder, keptPath, startInstance } = await createInstances(t);
    const starterProcess = new Child("process-starter.ts", ["kept", SERVICE_COMMAND, folder.path, keptPath]);
    await folder.readWhenWritten("child");
    await starterProcess.kill();
    const pid = Number(await folder.read("pid"));
    const nextInstance = startInstance();
    const [listedCommand] = await nextInstance.list();
    await nextInstance.end("one");
    assert.ok(isLiving(pid));
    await nextInstance.call("bash_stop", { id: listedCommand!.id });
    assert.ok(!isLiving(pid));
    await nextInstance.close();
  });

  it("is listed as ended if its pid belongs to another process or the machine restarted; invalid records are ignored", async (t) => {
    const { keptPath, startInstance } = await createInstances(t);
    await mkdir(path.join(keptPath, "one"), { recursive: true });
    const bootId = (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim();
    const processStat = readFileSync("/proc/self/stat", "latin1");
    const startTicks = Number(processStat.slice(processStat.lastIndexOf(")") + 2).split(" ")[19]);
    const record = { command: "x", since: "2026-01-01T00:00:00.000Z", mark: "m", pid: process.pid };
    const writeRecord = (id: string, fields: object) =>
      writeFile(path.join(keptPath, "one", `${id}.json`), JSON.stringify({ ...record, id, ...fields }));
    await writeRecord("bg-000001", { started: startTicks + 1, boot: bootId });
    await writeRecord("bg-000002", { started: startTicks, boot: "another" });
    await writeRecord("bg-000003", { pid: 1, started: startTicks, boot: bootId });
    await writeRecord("bg-000004", { pid: "x", started: startTicks, boot: bootId });
    await writeFile(path.join(keptPath, "one", "bg-000005.json"), "{");
    const laterInstance = startInstance();
    assert.deepEqual(
      (await laterInstance.list()).map(({ id, state }) => `${id} ${state}`),
      ["bg-000001 ended", "bg-000002 ended"],
    );
    // The process that now has the pid is not stopped.
    assert.match((await laterInstance.call("bash_stop", { id: "bg-000001" })).text, /\[exit status unknown\]/);
    await laterInstance.close();
  });

  it("runs in the sandbox and accepts input and a stop from the next instance", async (t) => {
    if (!(await bubblewrap)) return t.skip("no working bubblewrap");
    const command = "touch /outside || echo held; while read -r line; do echo got $line > said; echo told; done";
    const sandboxOutput = /Read-only file system\nheld\n/;
    const { startInstance, folder, firstInstance, id } = await startDetached(t, { command }, sandboxOutput, {
      bash: { sandbox: "required" },
    });
    await firstInstance.close();
    const secondInstance = startInstance();
    await secondInstance.call("bash_input", { id, text: "you" });
    assert.match((await secondInstance.call("bash_output", { id, wait_for: "told" })).text, /^told/);
    assert.equal(await folder.read("said"), "got you\n");
    assert.match((await secondInstance.call("bash_stop", { id })).text, /was stopped/);
    await secondInstance.close();
  });

  it("redacts secrets; its files are private to the user, and a later start deletes expired files", async (t) => {
    const secret = "Hq7vTz31LmWx90RsKd";
    const { startInstance, keptPath } = await createInstances(t, { secrets: [secret] });
    const firstInstance = startInstance();
    const id = readCommandId(
      (await firstInstance.call("bash", { command: `read -r line; echo ${secret}`, detached: true })).text,
    );
    await firstInstance.call("bash_input", { id, text: "" });
    const { text } = await firstInstance.call("bash_output", { id, wait_end: true });
    assert.equal(text, "[redacted]\n[exit code 0]");
    assert.match((await firstInstance.list())[0]!.command, /echo \[redacted\]/);
    const folder = path.join(keptPath, "one");
    const fileNames = await readdir(folder);
    for (const name of fileNames) assert.equal((await stat(path.join(folder, name))).mode & 0o077, 0, name);
    await firstInstance.close();
    const { pid } = JSON.parse(await readFile(path.join(folder, `${id}.json`), "utf8")) as { pid: number };
    await waitUntil(() => !isLiving(pid));
    await utimes(path.join(folder, `${id}.end`), new Date(0), new Date(0));
    const secondInstance = startInstance();
    await secondInstance.call("bash", { command: "true", detached: true }, "two");
    assert.equal(existsSync(folder), false);
    await secondInstance.close();
  });
});

it("bash rejects a detached command if no folder for detached commands is configured", async (t) => {
  const folder = await tempDir(t);
  const bash = builtinTools({ env, bash: { sandbox: "off" } }).find(({ name }) => name === "bash")!;
  t.after(() => bash.close?.());
  const rejectedCall = callTool(bash, { command: "true", detached: true }, createToolContext(folder.path));
  await assert.rejects(rejectedCall, /commands cannot outlive gantry here/);
});
