import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { builtinTools } from "gantry";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { callTools } from "gantry/testing";
import { eventsOf, type WireEvent } from "../../helpers/event-page.js";
import { tempDir, type Hooks } from "../../helpers/temp.js";
import { startApi } from "../../helpers/http-api.js";

const COMMAND = "for i in 1 2 3; do echo é$i; while [ ! -e go$i ]; do sleep 0.02; done; done";
const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };

/**
 * Collects the events of a session's stream. `until` resolves when the output of its running tools ends with the given
 * text.
 */
function watching(t: Hooks, url: string) {
  const events: WireEvent[] = [];
  const abort = new AbortController();
  let wake = (): void => undefined;
  const done = (async () => {
    for await (const event of eventsOf(url, {}, abort.signal)) {
      events.push(event);
      wake();
    }
  })().catch(() => wake());
  t.after(async () => {
    abort.abort();
    await done;
  });
  const seen = async (test: () => boolean): Promise<void> => {
    while (!test()) await new Promise<void>((resolve) => (wake = resolve));
  };
  const progress = () => events.filter(({ type }) => type === "tool_progress");
  const printed = () =>
    progress()
      .map(({ data }) => data.content)
      .join("");
  return { events, progress, printed, seen, until: (end: string) => seen(() => printed().endsWith(end)) };
}

describe("tool_progress events", () => {
  it("send a command's output as it prints to watchers in this process, also late ones, and to no run stream", async (t) => {
    const folder = await tempDir(t);
    const tools = builtinTools({ env, bash: { sandbox: "off" } });
    const path = folder.at("sessions.db");
    const api = await startApi(t, {
      steps: [callTools(["bash", { command: COMMAND }, "call-1"]), "done"],
      agent: { tools, projectDir: folder.path, driver: new SqliteDriver({ path }) },
    });
    const otherApi = await startApi(t, { agent: { driver: new SqliteDriver({ path }) } });
    const { id } = await api.agent.sessions.create();
    const events = (of: { url: string }) => `${of.url}/api/sessions/${id}/events`;
    const first = watching(t, events(api));
    const otherWatcher = watching(t, events(otherApi));
    const answer = api.run({ message: "go", session_id: id, stream: true });

    await first.until("é1\n");
    await writeFile(folder.at("go1"), "");
    await first.until("é2\n");
    const late = watching(t, events(api));
    await late.until("é1\né2\n");
    assert.equal(late.progress().length, 1);
    await writeFile(folder.at("go2"), "");
    await Promise.all([first, late].map((watcher) => watcher.until("é1\né2\né3\n")));
    for (const { events, progress } of [first, late]) {
      const [progressEvent] = progress();
      assert.equal(progressEvent?.id, undefined);
      assert.deepEqual(Object.keys(progressEvent?.data), ["tool_call_id", "content"]);
      assert.equal(progressEvent?.data.tool_call_id, "call-1");
      // The call arrives before its output.
      const call = events.findIndex(({ data }) => data.message?.tool_calls?.[0]?.id === "call-1");
      assert.ok(call >= 0 && call < events.indexOf(progressEvent!));
    }
    await writeFile(folder.at("go3"), "");
    const { text } = await answer;
    assert.match(text, /event: done/);
    assert.doesNotMatch(text, /tool_progress/);
    for (const watcher of [first, late, otherWatcher])
      await watcher.seen(() => watcher.events.some(({ data }) => data.message?.content === "done"));
    assert.deepEqual(otherWatcher.progress(), []);
    assert.ok(otherWatcher.events.some(({ data }) => data.message?.content === "é1\né2\né3\n[exit code 0]"));
  });
});
