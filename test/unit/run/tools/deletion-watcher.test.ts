import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { Agent, builtinTools } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import { waitUntil } from "../../../helpers/server-runs.js";
import { STORES } from "../../../helpers/stores.js";
import { tempDir } from "../../../helpers/temp-dir.js";

/** Whether the process exists and is neither a zombie (Z) nor dead (X). */
function isProcessRunning(pid: number): boolean {
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
    for (const [name, makeStore] of STORES)
      it(`ends without a watcher, and the command of another session continues (${name})`, async (t) => {
        const folder = await tempDir(t);
        const openDriver = await makeStore(t);
        const tools = builtinTools({ bash: { sandbox: "off" } });
        const createStep = (file: string) =>
          callTools(["bash", { command: `echo $$ > ${file}; exec sleep 1000`, background: true }]);
        const provider = new ScriptedProvider([createStep("one"), "begun", createStep("two"), "begun"]);
        const commonOptions = { projectDir: folder.path, projectInstructions: false };
        const agent = new Agent({ ...commonOptions, providers: [provider], driver: openDriver(), tools });
        t.after(() => agent.close());
        const secondAgent = new Agent({
          ...commonOptions,
          providers: [new ScriptedProvider([])],
          driver: openDriver(),
        });
        t.after(() => secondAgent.close());
        const deletedRun = await agent.run({ message: "go" });
        await deletedRun.result;
        const remainingRun = await agent.run({ message: "go" });
        await remainingRun.result;
        const readPid = async (file: string) => Number(await folder.readWhenWritten(file));
        const [firstPid, secondPid] = [await readPid("one"), await readPid("two")];
        assert.deepEqual([isProcessRunning(firstPid), isProcessRunning(secondPid)], [true, true]);
        await secondAgent.sessions.delete(deletedRun.sessionId);
        await waitUntil(() => Promise.resolve(!isProcessRunning(firstPid)));
        assert.equal(isProcessRunning(secondPid), true, "the command of the other session continues");
      });
  },
);
