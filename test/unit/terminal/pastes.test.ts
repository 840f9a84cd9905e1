import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { GantryClient } from "gantry/client";
import { StateFiles } from "../../../adapters/terminal/state-files.js";
import { TerminalStore } from "../../../adapters/terminal/store.js";
import { startApi } from "../../helpers/http-api.js";
import { tempDir } from "../../helpers/temp-dir.js";
import { startTerminal } from "../../helpers/terminal-screen.js";

const LINES = Array.from({ length: 42 }, (_, i) => `line ${i + 1} @note.txt`).join("\n");
const BACKSPACE = "\u007f";

function paste(text: string): string {
  return `\u001b[200~${text.replaceAll("\n", "\r")}\u001b[201~`;
}

describe("a long pasted text", () => {
  it("is one label in the prompt, is sent in full, and is complete in the history", async (t) => {
    const api = await startApi(t, { steps: ["The answer."] });
    const { screen, type, serve } = startTerminal(t, api.url);
    serve();
    type(`see ${paste(LINES)}`);
    await screen.waitFor(/❯ see \[Pasted text #1, 42 lines\]$/m);
    type(BACKSPACE);
    await screen.waitFor(/❯ see$/m);
    // Deleted to the start of the line and inserted again.
    type(`${paste(LINES)} and ${paste("x".repeat(1_001))}\u0015\u0019`);
    await screen.waitFor(/❯ see \[Pasted text #2, 42 lines\] and\n {2}\[Pasted text #3, 1001 characters\]$/m);
    type("\u0017ok\r");
    await screen.waitFor(/The answer\./);
    assert.ok(JSON.stringify(api.provider.requests).includes(JSON.stringify(`see ${LINES} and ok`)));
    type("\u001b[A");
    await screen.waitFor(/line 42 @note\.txt and ok$/m);
  });

  it("stays a text with at most 10 lines and 1,000 characters, and a typed label stays a label", async (t) => {
    const api = await startApi(t, { steps: ["The answer."] });
    const { screen, type, serve } = startTerminal(t, api.url);
    serve();
    type(`[Pasted text #1, 2 lines] ${paste("a\nb\nc\nd\ne\nf\ng\nh\ni\nj")}`);
    await screen.waitFor(/^ {2}j$/m);
    type(`\r${paste(`${"y".repeat(1_000)}`)}`);
    await screen.waitFor(/The answer\.[^]*y{50}/);
    assert.match(JSON.stringify(api.provider.requests), /"\[Pasted text #1, 2 lines\] a\\nb/);
  });

  it("is complete in the stored draft", async (t) => {
    const folder = await tempDir(t);
    const noop = () => undefined;
    const files = new StateFiles(folder.path, "here");
    await files.prepare();
    const store = new TerminalStore({
      client: new GantryClient({ url: "http://127.0.0.1:9" }),
      ...{ newSessionOptions: {}, location: "here", requestExit: noop, suspend: noop, setWheel: noop },
      loadCommands: async () => ({ COMMANDS: [], runCommand: noop, searchHistory: noop }),
      stateFiles: Promise.resolve(files),
    });
    store.press({ type: "text", text: "see " });
    store.press({ type: "paste", text: LINES });
    await store.storeTexts();
    await store.close();
    const { texts } = await new StateFiles(folder.path, "here").take("new");
    assert.deepEqual(texts, [{ draft: `see ${LINES}`, entries: [] }]);
  });
});
