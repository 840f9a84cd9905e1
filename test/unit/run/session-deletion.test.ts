import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { Agent, builtinTools } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import { until } from "../../helpers/lab.js";
import { STORES } from "../../helpers/stores.js";
import { tempDir } from "../../helpers/temp.js";

function isLiving(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return false;
  }
}

describe(
  "the background command of a session that another process deletes",
  { skip: process.platform === "linux" ? false : "needs /proc" },
  () => {
    for (const [name, make] of STORES)
      it(`ends without a watcher, and that of another session continues (${name})`, async (t) => {
        const folder = await tempDir(t);
        const open = await make(t);
        const tools = builtinTools({ bash: { sandbox: "off" } });
        const start = (file: string) =>
          callTools(["bash", { command: `echo $$ > ${file}; exec sleep 1000`, background: true }]);
        const provider = new ScriptedProvider([start("one"), "begun", start("two"), "begun"]);
        const commonOptions = { projectDir: folder.path, projectInstructions: false };
        const agent = new Agent({ ...commonOptions, providers: [provider], driver: open(), tools });
        t.after(() => agent.close());
        const secondAgent = new Agent({ ...commonOptions, providers: [new ScriptedProvider([])], driver: open() });
        t.after(() => secondAgent.close());
        const deleted = await agent.run({ message: "go" });
        await deleted.result;
        const remainingRun = await agent.run({ message: "go" });
        await remainingRun.result;
        const pidOf = async (file: string) => Number(await folder.written(file));
        const [firstPid, secondPid] = [await pidOf("one"), await pidOf("two")];
        assert.deepEqual([isLiving(firstPid), isLiving(secondPid)], [true, true]);
        await secondAgent.sessions.delete(deleted.sessionId);
        await until(() => Promise.resolve(!isLiving(firstPid)));
        assert.equal(isLiving(secondPid), true, "another session's goes on");
      });
  },
);
