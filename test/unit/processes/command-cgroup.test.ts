import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { CommandCgroup } from "../../../src/processes/command-cgroup.js";
import { AppliedLimits } from "../../../src/tools/shell/command-limits.js";
import { tempDir } from "../../helpers/temp-dir.js";

// Files in a temporary folder: test/integration/tools/shell/command-limits.test.ts uses the kernel's cgroups.
async function createSystem(t: TestContext, files: Record<string, string>, ownCgroups: string) {
  const { path: root } = await tempDir(t);
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), content);
  }
  return { root, ownCgroups };
}

/** Returns the only folder of the cgroup's join files. */
function getFolder(cgroup: CommandCgroup): string {
  assert.equal(cgroup.joinFiles.length, 1);
  return dirname(cgroup.joinFiles[0] ?? "");
}

describe("the cgroup of a command", () => {
  it("has its limits in one folder of version 2, and reads its events", async (t) => {
    const files = {
      "cgroup.controllers": "cpu memory pids",
      "unit/cgroup.controllers": "memory pids",
      "unit/cgroup.subtree_control": "",
    };
    const system = await createSystem(t, files, "0::/unit\n");
    const cgroup = CommandCgroup.create({ memoryBytes: 1_000_000, processes: 7 }, system);
    const folder = getFolder(cgroup);
    assert.equal(dirname(folder), join(system.root, "unit"));
    assert.equal(readFileSync(join(folder, "memory.max"), "utf8"), "1000000");
    assert.equal(readFileSync(join(folder, "pids.max"), "utf8"), "7");
    assert.equal(readFileSync(join(system.root, "unit/cgroup.subtree_control"), "utf8"), "+pids");
    assert.deepEqual(cgroup.readEvents(), { killedProcesses: 0, refusedProcesses: 0 });
    writeFileSync(join(folder, "memory.events"), "low 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 0\n");
    writeFileSync(join(folder, "pids.events"), "max 5\n");
    assert.deepEqual(cgroup.readEvents(), { killedProcesses: 2, refusedProcesses: 5 });
  });

  it("is beside the cgroup into which gantry moved its own processes", async (t) => {
    const files = {
      "cgroup.controllers": "memory",
      "unit/gantry-main/cgroup.procs": "",
      "unit/cgroup.subtree_control": "memory\n",
    };
    const system = await createSystem(t, files, "0::/unit/gantry-main\n");
    const cgroup = CommandCgroup.create({ memoryBytes: 1 }, system);
    assert.equal(dirname(getFolder(cgroup)), join(system.root, "unit"));
  });

  it("is in the hierarchy of its controller in version 1", async (t) => {
    const files = { "memory/job/memory.limit_in_bytes": "", "pids/tasks": "" };
    const system = await createSystem(t, files, "8:pids:/elsewhere\n4:memory:/job\n0::/\n");
    const cgroup = CommandCgroup.create({ memoryBytes: 1_000_000, processes: 7 }, system);
    const [memoryFolder = "", pidsFolder = ""] = cgroup.joinFiles.map(dirname);
    assert.deepEqual(
      [dirname(memoryFolder), dirname(pidsFolder)],
      [join(system.root, "memory/job"), join(system.root, "pids")],
    );
    assert.equal(readFileSync(join(memoryFolder, "memory.limit_in_bytes"), "utf8"), "1000000");
    assert.equal(readFileSync(join(pidsFolder, "pids.max"), "utf8"), "7");
  });

  it("names the keys and the reason if it cannot be created", async (t) => {
    const missing = await createSystem(t, {}, "0::/\n");
    assert.throws(() => new AppliedLimits({ memoryBytes: 1, processes: 2 }, undefined, missing), {
      message:
        /^tools\.bash\.limits\.memory_bytes and tools\.bash\.limits\.processes cannot be enforced: .*memory is not available/,
    });
    const files = { "cgroup.controllers": "pids", "cgroup.subtree_control": "" };
    const undelegated = await createSystem(t, files, "0::/\n");
    assert.throws(() => new AppliedLimits({ memoryBytes: 1 }, undefined, undelegated), {
      message: /tools\.bash\.limits\.memory_bytes cannot be enforced: .*memory is not delegated/,
    });
    assert.deepEqual(new AppliedLimits({ cpuSeconds: 1, fileBytes: 1 }, undefined, missing).joinFiles, []);
  });
});
