import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { builtinTools } from "gantry";
import { AiSdkProvider } from "gantry/adapters/language-models";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { CallCounter, type CallCount } from "../../helpers/call-counter.js";
import { startFakeModelServer } from "../../helpers/fake-model-server.js";
import { startApi } from "../../helpers/http-api.js";
import { tempDir } from "../../helpers/temp-dir.js";

// How much code a prompt over HTTP crosses, from the socket to the stored answer. A reader of one run has to read these
// files. A change that needs more files gives its reason here.

/**
 * Maximum files until the model is asked, and in all for a text answer and for an answer after a tool call. Currently
 * 100, 117 and 148. On a busy machine a timer may add one or two, for example to store a batch of text.
 *
 * Three files are new: `window-size` and `prompt-reports`, the sizes that the context of a session reports; and
 * `input-checks`, because the start needs these checks but not the others of `run-input`.
 *
 * Three more: `request-fields`, the request and the client in log lines; `measured-clock`, the clock of the store; and
 * `whole-pairs`, because a provider may split a character over two pieces.
 *
 * Two more: `event-loop-load`, because an overloaded server refuses runs; and `session-list`, split from the reads of the
 * SQLite driver.
 */
const MAX_FILES = { before: 102, text: 119, call: 150 };

describe("the files that a prompt crosses", () => {
  it("are few until the model is asked, and few in all, for a text answer and for a tool call", async (t) => {
    const folder = await tempDir(t, { "project/a.txt": "one\ntwo\n" });
    const model = await startFakeModelServer({ toolFreeAnswer: { say: [{ text: "A title" }] } });
    const provider = new AiSdkProvider({ name: "lab", driver: "openai", baseUrl: model.baseUrl, apiKey: "k" });
    t.after(async () => {
      await provider.close();
      await model.close();
    });
    const api = await startApi(t, {
      agent: {
        providers: [provider],
        driver: new SqliteDriver({ path: folder.at("sessions.db") }),
        tools: builtinTools(),
        projectDir: folder.at("project"),
      },
    });
    const counter = new CallCounter();
    t.after(() => counter.close());
    const readFile = { say: [{ call: { name: "read", arguments: { path: "a.txt" } } }] };
    const measure = async (message: string, hasCall: boolean): Promise<[before: CallCount, after: CallCount]> => {
      let before: CallCount | undefined;
      model.enqueue(() => {
        before = counter.count();
        return hasCall ? readFile : { say: [{ text: "OK." }] };
      });
      if (hasCall) model.enqueue({ say: [{ text: "Done." }] });
      const titled = new Promise((resolve) => api.agent.on("session.updated", resolve));
      counter.reset();
      const { status, text } = await api.postRun({ message });
      const after = counter.count();
      assert.equal(status, 200, text);
      // Otherwise the title of this session would be counted with the next run.
      await titled;
      // The task of the title ends after its event.
      await new Promise((resolve) => setImmediate(resolve));
      return [before!, after];
    };
    // Modules are loaded and caches filled by the first runs.
    await measure("warm", true);
    await measure("warm", false);
    const [textBefore, textAfter] = await measure("hi", false);
    const [, callAfter] = await measure("read a.txt", true);
    const union = (...counts: readonly CallCount[]): number => new Set(counts.flatMap(({ files }) => files)).size;
    const format = ({ files, functions, calls }: CallCount): string =>
      `${files.length} files, ${functions} functions, ${calls} calls`;
    t.diagnostic(`before the model is asked: ${format(textBefore)}`);
    t.diagnostic(`after: ${format(textAfter)}; in all ${union(textBefore, textAfter)} files`);
    t.diagnostic(`with a tool call: ${format(callAfter)} after; in all ${union(textBefore, callAfter)} files`);
    assert.ok(textBefore.files.length <= MAX_FILES.before, textBefore.files.join("\n"));
    assert.ok(union(textBefore, textAfter) <= MAX_FILES.text, textAfter.files.join("\n"));
    assert.ok(union(textBefore, callAfter) <= MAX_FILES.call, callAfter.files.join("\n"));
  });
});
