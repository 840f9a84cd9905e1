import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { describe, it } from "node:test";
import { startProcess } from "gantry/plugin";
import { Child } from "../../helpers/child.js";
import { pause, waitUntil } from "../../helpers/server-runs.js";
import { tempDir, type TempDir } from "../../helpers/temp-dir.js";

const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };
const linuxOnly = { skip: process.platform === "linux" ? false : "needs /proc" };

/** Three processes that ignore TERM: in the group, outside the group, and outside the group without the environment. */
const THREE_CHILDREN =
  `hold='trap "" TERM HUP; echo $$ > "$1"; while :; do sleep 0.2; done'; ` +
  `sh -c "$hold" - one & setsid sh -c "$hold" - two & setsid env -i PATH="$PATH" sh -c "$hold" - three & ` +
  `while ! [ -s one ] || ! [ -s two ] || ! [ -s three ]; do sleep 0.02; done; echo ready; `;

const startShell = (command: string, cwd: string) => startProcess({ file: "/bin/sh", args: ["-c", command], cwd, env });

function isLiving(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return false;
  }
}

async function waitUntilDead(folder: TempDir): Promise<void> {
  const pids = await Promise.all(["one", "two", "three"].map(async (name) => Number(await folder.read(name))));
  assert.ok(pids.every((pid) => pid > 1));
  await waitUntil(() => !pids.some(isLiving));
}

const readCommandLine = (pid: number): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "latin1");
  } catch {
    return "";
  }
};

const findGuardianPid = (pid: number): number | undefined =>
  readdirSync("/proc")
    .map(Number)
    .find(
      (processId) =>
        processId > 0 &&
        existsSync(`/proc/${processId}/stat`) &&
        readCommandLine(processId).includes("gantry-guardian") &&
        new RegExp(`^\\d+ \\(.*\\) \\S ${pid} `).test(readFileSync(`/proc/${processId}/stat`, "latin1")),
    );

describe("startProcess", () => {
  it("connects standard input, output and error, and reports the exit code", async (t) => {
    const folder = await tempDir(t);
    const child = await startShell('read -r line; echo "$line, $PWD"; echo no >&2; exit 3', folder.path);
    child.stdin.write("hello\n");
    const outputs = await Promise.all([text(child.stdout), text(child.stderr)]);
    assert.deepEqual(outputs, [`hello, ${folder.path}\n`, "no\n"]);
    assert.deepEqual(await child.ended, { code: 3, signal: null });
    child.stdin.write("too late\n");
    await child.stop();
  });

  it("keeps 60,000 bytes of output readable after the process has ended", async (t) => {
    const folder = await tempDir(t);
    const child = await startShell("head -c 60000 /dev/zero", folder.path);
    await child.ended;
    assert.equal((await text(child.stdout)).length, 60_000);
  });

  it(
    "gives the process only its environment and the call mark, and the guardian only PATH and shell variables",
    linuxOnly,
    async (t) => {
      const folder = await tempDir(t);
      const child = await startShell("env", folder.path);
      const variableNames = (await text(child.stdout)).split("\n").map((line) => line.split("=")[0]);
      assert.deepEqual(
        variableNames.filter(
          (name) => !["PATH", "GANTRY_CALL", "PWD", "OLDPWD", "SHLVL", "_", ""].includes(name ?? ""),
        ),
        [],
      );
      // The guardian process does not have the environment either.
      const guardianPid = findGuardianPid(process.pid);
      const environment = await readFile(`/proc/${guardianPid}/environ`, "latin1");
      assert.deepEqual(
        environment.split("\0").filter((variable) => variable !== "" && !/^(PATH|PWD|OLDPWD|SHLVL|_)=/.test(variable)),
        [],
      );
    },
  );

  it(
    "stop() kills all child processes, including ones that ignore TERM or left the process group",
    linuxOnly,
    async (t) => {
      const folder = await tempDir(t);
      const child = await startShell(`trap "" TERM; ${THREE_CHILDREN} wait`, folder.path);
      await once(child.stdout, "data");
      await Promise.all([child.stop(50), child.stop()]);
      assert.deepEqual(await child.ended, { code: null, signal: "SIGKILL" });
      await waitUntilDead(folder);
    },
  );

  it(
    "kills the remaining child processes, also outside the process group, when the program exits",
    linuxOnly,
    async (t) => {
      const folder = await tempDir(t);
      // A process without the mark is found only through its parent, which has ended in this test.
      const child = await startShell(`${THREE_CHILDREN} kill -9 $(cat three); exit 0`, folder.path);
      assert.deepEqual(await child.ended, { code: 0, signal: null });
      await waitUntilDead(folder);
    },
  );

  it("rejects with ENOENT if the program does not exist", async (t) => {
    const folder = await tempDir(t);
    const program = { file: folder.at("none"), args: [], cwd: folder.path, env };
    await assert.rejects(startProcess(program), { code: "ENOENT" });
  });
});

describe("processes whose parent has ended", linuxOnly, () => {
  for (const launcher of ["program", "bash"])
    it(`are killed after SIGKILL of the parent (started with "${launcher}")`, async (t) => {
      const folder = await tempDir(t);
      const parent = new Child("process-starter.ts", [
        launcher,
        `trap "" TERM; ${THREE_CHILDREN} echo > all; wait`,
        folder.path,
      ]);
      // Until this file exists, the shell writes to the parent and would die with the parent. The child without the mark
      // could then not be found.
      await folder.readWhenWritten("all");
      await parent.kill();
      await waitUntilDead(folder);
    });

  it("are killed after the parent exits normally", async (t) => {
    const folder = await tempDir(t);
    const parent = new Child("process-starter.ts", ["exit", `trap "" TERM; ${THREE_CHILDREN} wait`, folder.path]);
    await parent.waitForEnd();
    await waitUntilDead(folder);
  });

  it("are killed after SIGKILL of the parent, even if the parent's first guardian was killed before", async (t) => {
    const folder = await tempDir(t);
    const parent = new Child("process-starter.ts", ["program", `trap "" TERM; ${THREE_CHILDREN} wait`, folder.path]);
    await parent.waitForLines(1);
    const { pid = 0 } = parent.process;
    // Time: a guardian that lived for less than a second is not restarted.
    await pause(1_100);
    const firstGuardianPid = findGuardianPid(pid);
    assert.ok(firstGuardianPid !== undefined);
    process.kill(firstGuardianPid, "SIGKILL");
    await waitUntil(() => ![undefined, firstGuardianPid].includes(findGuardianPid(pid)));
    // The guardian exists a moment before it receives its target. It has received the target when the parent answers.
    parent.send("ready?");
    await parent.waitForMessage();
    await parent.kill();
    await waitUntilDead(folder);
  });

  it("have no guardian left after SIGKILL of the parent", async (t) => {
    const folder = await tempDir(t);
    const parent = new Child("process-starter.ts", ["program", "echo ready; read -r line", folder.path]);
    await parent.waitForLines(1);
    const guardianPid = findGuardianPid(parent.process.pid ?? 0);
    assert.ok(guardianPid !== undefined);
    await parent.kill();
    await waitUntil(() => !isLiving(guardianPid));
  });
});
