import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fstatSync, readdirSync, readFileSync, writeSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { describe, it } from "node:test";
import { builtinTools } from "gantry";
import { findBubblewrap } from "../../../src/tools/shell/sandbox/bubblewrap.js";
import { Child } from "../../../src/processes/child.js";
import { openUnnamedFile, ProcessGroup } from "../../../src/processes/process-group.js";
import { OperationRecorder } from "../../helpers/operation-recorder.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { callTool, createTemporaryFolder, createToolContext } from "../../helpers/tool-context.js";

const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };
const bubblewrapSearch = findBubblewrap({ env, network: true });
const linuxOnly = { skip: process.platform === "linux" ? false : "needs /proc" };

function runInSandbox(command: string, projectDir: string) {
  const bash = builtinTools({ env, bash: { sandbox: "required", network: true } }).find(({ name }) => name === "bash")!;
  return callTool(bash, { command }, createToolContext(projectDir));
}

/** Whether a process exists and is no zombie. `name`: part of its line in /proc/PID/stat; default: any name. */
function isLiving(pid: number, name = ""): boolean {
  try {
    const line = readFileSync(`/proc/${pid}/stat`, "latin1");
    return line.includes(name) && !/^\d+ \(.*\) [ZX]/.test(line);
  } catch {
    return false;
  }
}

describe("the end of a sandbox", () => {
  it(
    "is awaited and leftovers are reported, even if bubblewrap exits before the namespace's first process",
    linuxOnly,
    async () => {
      await using folder = await createTemporaryFolder();
      // Prints bubblewrap's information and leaves the first process of its namespace running.
      const file = join(folder.path, "bwrap");
      await writeFile(
        file,
        `#!/bin/sh\nsleep 4721 >/dev/null 2>&1 3>&- 4<&- & echo "{ \\"child-pid\\": $! }" >&3; echo $!`,
        {
          mode: 0o700,
        },
      );
      let output = "";
      const child = await Child.start({ file, args: [], cwd: folder.path, env, isSandbox: true });
      child.configureSandbox([]);
      const result = await child.run({
        timeoutMs: 30_000,
        signal: new AbortController().signal,
        onOutput: (chunk) => (output += chunk.toString()),
      });
      assert.ok(!isLiving(Number(output)), output);
      assert.deepEqual(result, { code: 0, signal: null, reason: "exit", hadLeftovers: true, sandboxFault: undefined });
    },
  );

  it("is awaited until all 300 remaining processes of the command are dead", async (t) => {
    if (!(await bubblewrapSearch)) return t.skip("no working bubblewrap");
    await using folder = await createTemporaryFolder();
    const name = `left-${process.pid}`;
    const { text } = await runInSandbox(
      `cp "$(command -v sleep)" ${name}; for i in $(seq 300); do setsid env -i "$PWD/${name}" 600 >/dev/null 2>&1 & done; ` +
        `while [ "$(cat /proc/[0-9]*/comm 2>/dev/null | grep -c ${name})" -lt 300 ]; do sleep 0.05; done; echo all`,
      folder.path,
    );
    assert.match(text, /^all\n/);
    const remainingPids = readdirSync("/proc").filter((pid) => isLiving(Number(pid), name));
    assert.deepEqual(remainingPids, []);
  });

  it("is detected with reads of at most three processes and no listing of /proc", async (t) => {
    if (!(await bubblewrapSearch)) return t.skip("no working bubblewrap");
    await using folder = await createTemporaryFolder();
    const recorder = new OperationRecorder();
    const { files } = await recorder.recordOperations(() => runInSandbox("true", folder.path));
    assert.ok(files.length > 0);
    assert.deepEqual(
      files.filter((call) => call === "readdirSync /proc"),
      [],
    );
    const statPids = files.map((call) => /^openSync \/proc\/(\d+)\/stat$/.exec(call)?.[1]);
    // Looks up at most three processes: the start times of the bubblewrap of this and of the next command, and the
    // state of the namespace's first process.
    assert.ok(new Set(statPids.filter((pid) => pid !== undefined)).size <= 3);
  });

  it("is the end of the process named by child-pid, once its whole id is written", linuxOnly, async () => {
    const bubblewrap = spawn("sleep", ["4722"], { stdio: "ignore" });
    const firstProcess = spawn("sleep", ["4722"], { stdio: "ignore" });
    const file = openUnnamedFile()!;
    // The space is allocated, so that bubblewrap can write on a full disk.
    assert.equal(fstatSync(file).size, 1024);
    const group = new ProcessGroup(bubblewrap.pid!, "mark", file);
    try {
      assert.equal(group.hasNamespaceEnded(), undefined);
      const bubblewrapInfo = `{\n    "child-pid": ${firstProcess.pid},\n    "mnt-namespace": 1\n}\n`;
      const splitIndex = bubblewrapInfo.indexOf(String(firstProcess.pid)) + 1;
      writeSync(file, bubblewrapInfo.slice(0, splitIndex));
      assert.equal(group.hasNamespaceEnded(), undefined);
      writeSync(file, bubblewrapInfo.slice(splitIndex));
      assert.equal(group.hasNamespaceEnded(), false);
      firstProcess.kill("SIGKILL");
      await once(firstProcess, "exit");
      assert.equal(group.hasNamespaceEnded(), true);
    } finally {
      group.close();
      for (const child of [bubblewrap, firstProcess]) child.kill("SIGKILL");
    }
  });

  it("is detected when the first process is dead but its parent has not waited for it", linuxOnly, async (t) => {
    // The shell becomes `sleep`, which never waits for its child.
    const parent = spawn("/bin/sh", ["-c", "cat <&3 & echo $!; exec sleep 4723"], {
      stdio: ["ignore", "pipe", "ignore", "pipe"],
    });
    try {
      const [pidText] = (await once(parent.stdout as Readable, "data")) as [Buffer];
      const pid = Number(pidText.toString());
      const file = openUnnamedFile()!;
      writeSync(file, `{ "child-pid": ${pid} }`);
      const group = new ProcessGroup(parent.pid!, "mark", file);
      t.after(() => group.close());
      // The shell itself would wait for its child.
      await waitUntil(() => isLiving(parent.pid!, "(sleep)"));
      (parent.stdio[3] as Writable).end();
      await waitUntil(() => !isLiving(pid));
      assert.equal(group.hasNamespaceEnded(), true);
    } finally {
      parent.kill("SIGKILL");
    }
  });
});
