import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { builtinTools } from "gantry";
import { callTools } from "gantry/testing";
import { readSessionEvents } from "../../helpers/event-page.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";
import { startApi } from "../../helpers/http-api.js";

const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };

interface ListedProcess {
  id: string;
  command: string;
  state: string;
  started_at: string;
  exit_code: number | null;
  detached: boolean;
}

/** Watches a session and collects the event types, and the process list of each state event. */
function watchProcesses(t: Hooks, url: string) {
  const watchAbort = new AbortController();
  const states: (ListedProcess[] | undefined)[] = [];
  const types: string[] = [];
  let wake = (): void => undefined;
  const readPromise = (async () => {
    for await (const { type, data } of readSessionEvents(url, {}, watchAbort.signal)) {
      types.push(type);
      if (type === "state") states.push(data.processes as ListedProcess[] | undefined);
      wake();
    }
  })().catch(() => wake());
  t.after(async () => {
    watchAbort.abort();
    await readPromise;
  });
  const waitForProcesses = async (
    isExpected: (currentProcesses: ListedProcess[] | undefined) => boolean,
  ): Promise<void> => {
    while (!isExpected(states.at(-1))) await new Promise<void>((resolve) => (wake = resolve));
  };
  return { states, types, waitForProcesses };
}

function isAlive(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return false;
  }
}

describe("background commands of a session", { skip: process.platform !== "linux" && "needs /proc" }, () => {
  it("are reported to watchers, outlive their run, and end after session deletion and agent close", async (t) => {
    const folder = await tempDir(t);
    const api = await startApi(t, {
      steps: [
        callTools(["bash", { command: "exit 7", background: true }]),
        callTools(["bash", { command: "echo $$ > pid; read -r line; exec sleep 300", background: true }]),
        "done",
      ],
      agent: { tools: builtinTools({ env, bash: { sandbox: "off" } }), projectDir: folder.path },
    });
    const { id } = await api.agent.sessions.create();
    const watcher = watchProcesses(t, `${api.url}/api/sessions/${id}/events`);
    await watcher.waitForProcesses(() => watcher.states.length === 1);
    assert.ok(watcher.states[0] === undefined);
    await api.postRun({ message: "go", session_id: id });
    await watcher.waitForProcesses((processes) => processes?.length === 2 && processes[0]?.state === "ended");
    const [endedProcess, runningProcess] = watcher.states.at(-1)!;
    assert.deepEqual(
      { ...endedProcess!, id: "", started_at: "" },
      { id: "", command: "exit 7", state: "ended", started_at: "", exit_code: 7, detached: false },
    );
    assert.deepEqual([runningProcess!.state, runningProcess!.exit_code], ["running", null]);
    // The process outlives its run, and a watcher that joins later also receives its state.
    const pid = Number(await folder.readWhenWritten("pid"));
    assert.ok(isAlive(pid));
    const laterWatcher = watchProcesses(t, `${api.url}/api/sessions/${id}/events`);
    await laterWatcher.waitForProcesses((processes) => processes?.[1]?.state === "running");
    const response = await fetch(`${api.url}/api/sessions/${id}`, { method: "DELETE" });
    assert.ok(response.ok);
    await api.agent.close();
    assert.ok(!isAlive(pid));
  });
});
