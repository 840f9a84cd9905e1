import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { GantryClient, type ApiAsk } from "gantry/client";
import { TerminalStore } from "../../../adapters/terminal/store.js";
import { renderFrame } from "../../../adapters/terminal/frame.js";
import { Keyboard } from "../../../adapters/terminal/keys.js";
import { getLineText } from "../../../adapters/terminal/spans.js";
import { Transcript } from "../../../adapters/terminal/transcript.js";
import type { Hooks } from "../../helpers/temp-dir.js";

const CHOICES = ["Allow", "Always allow this", "Reject"];

function createAsk(fields: Partial<ApiAsk> = {}): ApiAsk {
  const choices = CHOICES.map((label) => ({ id: label, label, kind: "allow_once" as const }));
  const base = {
    id: "first",
    session_id: "s",
    run_id: "r",
    kind: "permission",
    tool: "bash",
    title: "Run it",
    reason: "",
  };
  return {
    ...base,
    input: { command: "make" },
    diff: [],
    locations: [],
    choices,
    free_text: false,
    ...fields,
  } as ApiAsk;
}

/** Opens a store with a stopped clock. Records the requests that the store sends. */
function openStore(hooks: Hooks, columns = 80, rows = 24) {
  const clock = { nowMs: 0 };
  const sentRequests: string[] = [];
  const client = new GantryClient({
    url: "http://127.0.0.1:9",
    fetch: async (input, init) => {
      sentRequests.push(`${new URL(String(input)).pathname} ${typeof init?.body === "string" ? init.body : ""}`);
      return Promise.reject(new TypeError("nobody listens here"));
    },
  });
  const noop = () => undefined;
  const storeOptions = {
    client,
    newSessionOptions: {},
    location: "here",
    loadCommands: async () => ({ COMMANDS: [], runCommand: noop, searchHistory: noop }),
    requestExit: noop,
    suspend: noop,
  };
  const store = new TerminalStore({ ...storeOptions, setWheel: noop, now: () => clock.nowMs });
  hooks.after(() => store.close());
  const keyboard = new Keyboard((input) => store.press(input));
  const transcript = new Transcript();
  const showRun = (runState: string, ...asks: ApiAsk[]) => {
    const session = { id: "s", title: "", provider: "", model: "", mode: "ask", reasoning_effort: "" };
    const state = { type: "state", session, run: { id: "r", state: runState }, plan: [], asks };
    store.conversation.mirror.apply(state as unknown as Parameters<typeof store.conversation.mirror.apply>[0]);
    store.reportChange();
  };
  return {
    store,
    clock,
    sentRequests,
    typeKeys: (text: string) => keyboard.feed(text),
    showAsk: (...asks: ApiAsk[]) => showRun("waiting", ...asks),
    showRun,
    renderScreen: () => renderFrame(store, transcript, columns, rows, 0).rows.map(getLineText),
  };
}

describe("a permission request while the user types", () => {
  it("ignores keys within its delay and Enter without a selection, and is answered once", (t) => {
    const { clock, sentRequests, typeKeys, showAsk, renderScreen } = openStore(t);
    showAsk(createAsk());
    // Each key within the delay of 500 ms restarts the delay, including the repeats of a key that is held down.
    for (const keys of ["\r", "\u001b[B", "\r", "\u001b[A\r"]) {
      clock.nowMs += 400;
      typeKeys(keys);
    }
    assert.deepEqual(sentRequests, []);
    assert.ok(!renderScreen().some((row) => row.includes("❯ 1")));
    clock.nowMs += 500;
    typeKeys("\r");
    assert.deepEqual(sentRequests, []);
    typeKeys("1");
    assert.ok(renderScreen().some((row) => row.includes("❯ 1 Allow")));
    typeKeys("\r\r\r");
    assert.deepEqual(sentRequests, ['/api/asks/first {"choice":"Allow"}']);
  });

  it("is not answered by text that begins with a choice number; the text goes to the prompt", (t) => {
    const { store, clock, sentRequests, typeKeys, showAsk } = openStore(t);
    showAsk(createAsk());
    typeKeys("1. first\r");
    assert.deepEqual(
      sentRequests.filter((path) => path.startsWith("/api/asks")),
      [],
    );
    assert.match(sentRequests[0] ?? "", /"message":"1\. first"/);
    clock.nowMs += 10_000;
    showAsk(createAsk({ id: "second" }));
    clock.nowMs += 10_000;
    for (const character of "1 more") typeKeys(character);
    assert.equal(store.editor.text, " more");
    typeKeys("\r");
    assert.deepEqual(
      sentRequests.filter((path) => path.startsWith("/api/asks")),
      [],
    );
  });

  it("is not answered by repeated keys of the previous answer", (t) => {
    const { store, clock, sentRequests, typeKeys, showAsk } = openStore(t);
    showAsk(createAsk());
    clock.nowMs += 1_000;
    typeKeys("1\r");
    showAsk(createAsk({ id: "second" }));
    typeKeys("1\r1\r");
    clock.nowMs += 400;
    typeKeys("1\r");
    assert.equal(sentRequests.length, 1);
    assert.equal(store.editor.text, "");
    clock.nowMs += 600;
    typeKeys("3\r");
    assert.equal(sentRequests[1], '/api/asks/second {"choice":"Reject"}');
    // Enter is also ignored directly after the request has disappeared.
    showAsk();
    typeKeys("1\r");
    assert.equal(sentRequests.length, 2);
    assert.equal(store.editor.text, "1");
  });

  it("leaves the keys to a prompt that is being written, until Tab is pressed", (t) => {
    const { store, clock, sentRequests, typeKeys, showAsk, renderScreen } = openStore(t);
    typeKeys("half a sent");
    showAsk(createAsk());
    clock.nowMs += 1_000;
    typeKeys("ence 1");
    assert.equal(store.editor.text, "half a sentence 1");
    assert.ok(renderScreen().some((row) => row.includes("Tab to answer")));
    typeKeys("\t1\r");
    assert.equal(sentRequests.length, 1);
    assert.equal(store.editor.text, "half a sentence 1");
  });
});

describe("the display of a permission request", () => {
  it("shows commands and diffs completely if they contain control or reordering characters", (t) => {
    const hiddenCommands = [
      "echo ok \u001b]; rm -rf ~; #\u0007",
      "echo ok \u001b]8;; rm -rf ~ #",
      "echo ok \u009d rm -rf ~\u009c",
      "echo ok \u001bP rm -rf ~\u001b\\",
      "echo ok # \r\n rm -rf ~",
      "echo ok # \u202e rm -rf ~",
      "echo ok \u001b[8m rm -rf ~",
    ];
    for (const command of hiddenCommands) {
      const { showAsk, renderScreen } = openStore(t);
      showAsk(createAsk({ title: command, input: {} }));
      assert.ok(
        renderScreen().some((row) => row.includes("rm -rf ~")),
        JSON.stringify(command),
      );
      const diff = [{ path: command, old_text: null, new_text: command }];
      for (const fields of [{ input: { command } }, { diff }, { input: command }]) {
        const { showAsk, renderScreen } = openStore(t);
        showAsk(createAsk({ title: command, ...fields }));
        const rows = renderScreen();
        const detailRows = rows.slice(rows.findIndex((row) => row.includes("Allow?")) + 1);
        assert.match(rows.join("\n"), /Allow\? echo ok[^]*rm -rf ~/, JSON.stringify(command));
        assert.ok(
          detailRows.some((row) => row.includes("rm -rf ~")),
          JSON.stringify(fields),
        );
      }
    }
    const { showAsk, renderScreen } = openStore(t);
    // A comment in the first line must not hide the second line.
    showAsk(createAsk({ title: "# harmless\nrm -rf ~" }));
    assert.ok(renderScreen().some((row) => row.includes("# harmless ⏎ rm -rf ~")));
  });

  it("reports the rows below the edge, keeps the choices visible and scrolls to the end", (t) => {
    for (const [columns, rows] of [
      [80, 24],
      [40, 10],
      [30, 8],
    ] as const) {
      const { clock, typeKeys, showAsk, renderScreen } = openStore(t, columns, rows);
      const command = `${Array.from({ length: 400 }, (_, i) => `echo ${i}`).join("\n")}\nthe end of it`;
      showAsk(createAsk({ title: `Run ${"a very long title ".repeat(40)}`, input: { command } }));
      const firstScreen = renderScreen();
      assert.equal(firstScreen.length, rows);
      assert.ok(
        firstScreen.some((row) => /↓ [34]\d\d more rows: PgDn/.test(row)),
        firstScreen.join("\n"),
      );
      assert.ok(firstScreen.some((row) => row.includes("1 Allow")));
      clock.nowMs += 1_000;
      typeKeys("\u001b[A");
      assert.ok(renderScreen().some((row) => row.includes("❯ 3 Reject")));
      for (let i = 0; i < 450; i += 1) typeKeys("\u001b[6~");
      const lastScreen = renderScreen();
      assert.ok(
        lastScreen.some((row) => row.includes("the end of it")),
        lastScreen.join("\n"),
      );
      assert.ok(lastScreen.some((row) => row.includes("end; PgUp scrolls back")));
    }
  });
});

describe("Ctrl+C", () => {
  it("does not clear a text if a run has just ended, and clears it a second later", (t) => {
    const { store, clock, typeKeys, showRun } = openStore(t);
    clock.nowMs = 10_000;
    showRun("running");
    typeKeys("next");
    showRun("finished");
    clock.nowMs += 900;
    typeKeys("\u0003");
    assert.equal(store.editor.text, "next");
    typeKeys("x\u007f");
    clock.nowMs += 100;
    typeKeys("\u0003");
    assert.equal(store.editor.text, "");
  });
});
