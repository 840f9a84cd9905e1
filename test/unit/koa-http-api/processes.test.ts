import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { builtinTools } from "gantry";
import { callTools } from "gantry/testing";
import { eventsOf } from "../../helpers/event-page.js";
import { tempDir, type Hooks } from "../../helpers/temp.js";
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

/** The states of a session's stream in the order of arrival. */
function statesOf(t: Hooks, url: string) {
  const abort = new AbortController();
  const states: (ListedProcess[] | undefined)[] = [];
  const types: string[] = [];
  let wake = (): void => undefined;
  const done = (async () => {
    for await (const { type, data } of eventsOf(url, {}, abort.signal)) {
      types.push(type);
      if (type === "state") states.push(data.processes as ListedProcess[] | undefined);
      wake();
    }
  })().catch(() => wake());
  t.after(async () => {
    abort.abort();
    await done;
  });
  const seen = async (test: (last: ListedProcess[] | undefined) => boolean): Promise<void> => {
    while (!test(states.at(-1))) await new Promise<void>((resolve) => (wake = resolve));
  };
  return { states, types, seen };
}

function isAlive(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return false;
  }
}

describe("background commands of a session", { skip: process.platform !== "linux" && "needs /proc" }, () => {
  it("are reported to watchers, outlive their run, and are gone after session deletion and agent close", async (t) => {
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
    const watched = statesOf(t, `${api.url}/api/sessions/${id}/events`);
    await watched.seen(() => watched.states.length === 1);
    assert.ok(watched.states[0] === undefined);
    await api.run({ message: "go", session_id: id });
    await watched.seen((last) => last?.length === 2 && last[0]?.state === "ended");
    const [ended, running] = watched.states.at(-1)!;
    assert.deepEqual(
      { ...ended!, id: "", started_at: "" },
      { id: "", command: "exit 7", state: "ended", started_at: "", exit_code: 7, detached: false },
    );
    assert.deepEqual([running!.state, running!.exit_code], ["running", null]);
    // The process outlives its run, and a watcher that joins later also receives its state.
    const pid = Number(await folder.written("pid"));
    assert.ok(isAlive(pid));
    const late = statesOf(t, `${api.url}/api/sessions/${id}/events`);
    await late.seen((last) => last?.[1]?.state === "running");
    const deleted = await fetch(`${api.url}/api/sessions/${id}`, { method: "DELETE" });
    assert.ok(deleted.ok);
    await api.agent.close();
    assert.ok(!isAlive(pid));
  });
});
