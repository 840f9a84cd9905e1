import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { findBubblewrap } from "../../../../../src/tools/shell/sandbox/bubblewrap.js";
import { waitUntil } from "../../../../helpers/server-runs.js";
import { ROOT, SOURCE_FLAGS, sourcePath } from "../../../../helpers/source-paths.js";
import { createTemporaryFolder } from "../../../../helpers/tool-context.js";

const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };

/** Returns the command lines of running processes with this text in their environment. */
function findCommandLinesByEnvironment(text: string): string[] {
  return readdirSync("/proc").flatMap((pid) => {
    try {
      if (!/^\d+$/.test(pid) || !readFileSync(`/proc/${pid}/environ`, "latin1").includes(text)) return [];
      const line = readFileSync(`/proc/${pid}/cmdline`, "latin1").split("\0").join(" ");
      return line === "" ? [] : [line];
    } catch {
      return [];
    }
  });
}

describe("findBubblewrap", () => {
  it("leaves no process running if its host is killed during the search", async (t) => {
    if (!(await findBubblewrap({ env, network: true }))) return t.skip("no working bubblewrap");
    await using folder = await createTemporaryFolder();
    const script = join(folder.path, "host.mjs");
    const environmentEntry = `LEFT=${folder.path}`;
    // The process kills itself after a delay as soon as bubblewrap is its child process.
    await writeFile(
      script,
      `import { readFileSync } from "node:fs";
       import { findBubblewrap } from ${JSON.stringify(sourcePath("src/tools/shell/sandbox/bubblewrap.ts"))};
       const env = { PATH: process.env.PATH, LEFT: ${JSON.stringify(folder.path)} };
       // Exit code 7: the search has ended before the poll found its child process.
       void findBubblewrap({ env, network: true }).then(() => process.exit(7));
       const childrenFile = "/proc/self/task/" + process.pid + "/children";
       const isBubblewrap = (pid) => {
         try {
           return readFileSync("/proc/" + pid + "/cmdline", "latin1").includes("--args");
         } catch {
           return false;
         }
       };
       const poll = () => {
         const [first] = readFileSync(childrenFile, "latin1").split(" ").filter((pid) => pid !== "" && isBubblewrap(pid));
         if (first === undefined) return void setImmediate(poll);
         const killMs = performance.now() + Number(process.argv[2]);
         while (performance.now() < killMs);
         process.kill(process.pid, "SIGKILL");
       };
       poll();`,
    );
    // Time: the kills after different delays hit different steps of bubblewrap. The result must be the same after each
    // delay.
    const pendingRounds = [0, 2, 4].map(async (delayMs) => {
      for (;;) {
        const child = spawn(process.execPath, [...SOURCE_FLAGS, script, String(delayMs)], {
          cwd: ROOT,
          stdio: ["ignore", "inherit", "inherit"],
        });
        const exitEvent = (await once(child, "exit")) as unknown[];
        if (exitEvent[0] === 7) continue;
        assert.deepEqual(exitEvent, [null, "SIGKILL"]);
        return;
      }
    });
    await Promise.all(pendingRounds);
    await waitUntil(() => findCommandLinesByEnvironment(environmentEntry).length === 0);
  });

  it("has finished when close() of the sandbox that started the search resolves", async (t) => {
    if (!(await findBubblewrap({ env, network: true }))) return t.skip("no working bubblewrap");
    await using folder = await createTemporaryFolder();
    const script = join(folder.path, "host.mjs");
    await writeFile(
      script,
      `import { Sandbox } from ${JSON.stringify(sourcePath("src/tools/shell/sandbox/sandbox.ts"))};
       import { findBubblewrap } from ${JSON.stringify(sourcePath("src/tools/shell/sandbox/bubblewrap.ts"))};
       const env = { PATH: process.env.PATH };
       const sandbox = new Sandbox({ env, allowPaths: [], deniedPaths: [], sandbox: "auto" });
       let isOver = false;
       void sandbox.describe();
       void findBubblewrap({ env, network: true }).then(() => (isOver = true));
       await sandbox.close();
       process.exitCode = isOver ? 0 : 9;`,
    );
    const child = spawn(process.execPath, [...SOURCE_FLAGS, script], {
      cwd: ROOT,
      stdio: ["ignore", "inherit", "inherit"],
    });
    assert.deepEqual(await once(child, "exit"), [0, null]);
  });
});
