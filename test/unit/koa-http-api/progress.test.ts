import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { builtinTools } from "gantry";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { callTools } from "gantry/testing";
import { readSessionEvents, type WireEvent } from "../../helpers/event-page.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";
import { startApi } from "../../helpers/http-api.js";

const COMMAND = "for i in 1 2 3; do echo é$i; while [ ! -e go$i ]; do sleep 0.02; done; done";
const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };

/** Collects the events of a session. `waitForOutput` resolves when the output of running tools ends with `suffix`. */
function watchSession(t: Hooks, url: string) {
  const events: WireEvent[] = [];
  const watchAbort = new AbortController();
  let wake = (): void => undefined;
  const readPromise = (async () => {
    for await (const event of readSessionEvents(url, {}, watchAbort.signal)) {
      events.push(event);
      wake();
    }
  })().catch(() => wake());
  t.after(async () => {
    watchAbort.abort();
    await readPromise;
  });
  const waitForEvents = async (isExpected: () => boolean): Promise<void> => {
    while (!isExpected()) await new Promise<void>((resolve) => (wake = resolve));
  };
  const getProgressEvents = () => events.filter(({ type }) => type === "tool_progress");
  const getOutput = () =>
    getProgressEvents()
      .map(({ data }) => data.content)
      .join("");
  return {
    events,
    getProgressEvents,
    waitForEvents,
    waitForOutput: (suffix: string) => waitForEvents(() => getOutput().endsWith(suffix)),
  };
}

describe("tool_progress events", () => {
  it("send a command's output at once to current and later watchers in this process, and to no run stream", async (t) => {
    const folder = await tempDir(t);
    const tools = builtinTools({ env, bash: { sandbox: "off" } });
    const path = folder.at("sessions.db");
    const api = await startApi(t, {
      steps: [callTools(["bash", { command: COMMAND }, "call-1"]), "done"],
      agent: { tools, projectDir: folder.path, driver: new SqliteDriver({ path }) },
    });
    const otherApi = await startApi(t, { agent: { driver: new SqliteDriver({ path }) } });
    const { id } = await api.agent.sessions.create();
    const getEventsUrl = (targetApi: { url: string }) => `${targetApi.url}/api/sessions/${id}/events`;
    const firstWatcher = watchSession(t, getEventsUrl(api));
    const otherWatcher = watchSession(t, getEventsUrl(otherApi));
    const runResponse = api.postRun({ message: "go", session_id: id, stream: true });

    await firstWatcher.waitForOutput("é1\n");
    await writeFile(folder.at("go1"), "");
    await firstWatcher.waitForOutput("é2\n");
    const laterWatcher = watchSession(t, getEventsUrl(api));
    await laterWatcher.waitForOutput("é1\né2\n");
    assert.equal(laterWatcher.getProgressEvents().length, 1);
    await writeFile(folder.at("go2"), "");
    await Promise.all([firstWatcher, laterWatcher].map((watcher) => watcher.waitForOutput("é1\né2\né3\n")));
    for (const { events, getProgressEvents } of [firstWatcher, laterWatcher]) {
      const [progressEvent] = getProgressEvents();
      assert.equal(progressEvent?.id, undefined);
      assert.deepEqual(Object.keys(progressEvent?.data), ["tool_call_id", "content"]);
      assert.equal(progressEvent?.data.tool_call_id, "call-1");
      // The call arrives before its output.
      const callIndex = events.findIndex(({ data }) => data.message?.tool_calls?.[0]?.id === "call-1");
      assert.ok(callIndex >= 0 && callIndex < events.indexOf(progressEvent!));
    }
    await writeFile(folder.at("go3"), "");
    const { text } = await runResponse;
    assert.match(text, /event: done/);
    assert.doesNotMatch(text, /tool_progress/);
    for (const watcher of [firstWatcher, laterWatcher, otherWatcher])
      await watcher.waitForEvents(() => watcher.events.some(({ data }) => data.message?.content === "done"));
    assert.deepEqual(otherWatcher.getProgressEvents(), []);
    assert.ok(otherWatcher.events.some(({ data }) => data.message?.content === "é1\né2\né3\n[exit code 0]"));
  });
});
