import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { callStep, textStep } from "../helpers/fake-model-server.js";
import { startModelServer, createServerConfig, waitUntil } from "../helpers/server-runs.js";
import { NO_TMUX, openPane } from "../helpers/terminal-pane.js";
import { startServer } from "../helpers/server.js";

const PROMPT_READY = /Type a prompt/;

describe("gantry chat in a terminal", { skip: NO_TMUX }, () => {
  it("suspends on Ctrl+Z with the screen restored, and shows the typed text again after fg", async (t) => {
    const modelServer = await startModelServer(t, { fallback: textStep("Still here.") });
    // A shell with job control, and a process between the shell and gantry that waits for gantry.
    const shell = `set -m; sh -c '"$@"; exit $?' between "$@"; echo "[in the shell]"; read go; fg`;
    const pane = await openPane(t, { config: createServerConfig(modelServer), shell });
    await pane.waitForScreen(PROMPT_READY);
    await pane.type("half a sentence");
    await pane.waitForScreen(/half a sentence/);
    await pane.sendKeys("C-z");
    await pane.waitForScreen(/\[in the shell\]/);
    assert.equal(await pane.readFormat("#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{wrap_flag}"), "0 1 0 1");
    await pane.type("typed there");
    await pane.sendKeys("Enter");
    await pane.waitForScreen(/half a sentence/);
    assert.equal(await pane.readFormat("#{alternate_on} #{mouse_any_flag}"), "1 1");
    await pane.type(" more");
    await pane.sendKeys("Enter");
    const screen = await pane.waitForScreen(/Still here\./);
    assert.match(screen, /❯ half a sentence more/);
    await pane.sendKeys("C-d");
    assert.equal((await pane.waitForExit()).code, 0);
  });

  it("continues after Ctrl+Z if no shell can resume gantry", async (t) => {
    const pane = await openPane(t, { config: createServerConfig(await startModelServer(t)) });
    await pane.waitForScreen(PROMPT_READY);
    await pane.record(`${pane.home}/raw`);
    await pane.sendKeys("C-z");
    // eslint-disable-next-line no-control-regex -- leaves the alternate screen, and enters it again
    const screenSwitch = /\u001b\[\?1049l[^]*\u001b\[\?1049h/;
    await waitUntil(async () => screenSwitch.test(await readFile(`${pane.home}/raw`, "utf8").catch(() => "")));
    await pane.type("goes on");
    await pane.waitForScreen(/❯ goes on/);
  });

  it("shows the number of background commands and the last command in 44 columns", async (t) => {
    const modelServer = await startModelServer(t);
    const createStartStep = (command: string) => callStep("bash", { command, background: true });
    modelServer.enqueue(createStartStep("sleep 300"), textStep("One."));
    const pane = await openPane(t, {
      columns: 44,
      config: createServerConfig(modelServer, { tools: { bash: { sandbox: "off" } } }),
    });
    await pane.waitForScreen(PROMPT_READY);
    await pane.type("Start");
    await pane.sendKeys("Enter");
    await pane.waitForScreen(/One\.[^]*\n {2}⟳ in the background: sleep 300 *\n/);
    // Control characters in a command are shown as symbols.
    modelServer.enqueue(createStartStep("sleep 301 # \u001b[2J and what no screen has room for"), textStep("Two."));
    await pane.type("Another");
    await pane.sendKeys("Enter");
    await pane.waitForScreen(/Two\.[^]*\n {2}⟳ 2 in the background: sleep 301 # ␛\[2J…? ?.*…\n/);
  });

  it("shows the complete answer after four resizes while the answer streams", async (t) => {
    const modelServer = await startModelServer(t);
    const words = Array.from({ length: 400 }, (_, i) => (i % 8 === 7 ? `word${i}\n` : `word${i} `));
    const sizes = [
      [40, 10],
      [132, 43],
      [20, 6],
      [80, 24],
    ] as const;
    // One part of the answer for each size, after the first part.
    const partWordCount = words.length / (sizes.length + 1);
    const parts = sizes.flatMap((_, n) => [
      { gate: `size ${n}` },
      { text: words.slice(partWordCount * (n + 1), partWordCount * (n + 2)) },
    ]);
    modelServer.enqueue({ say: [{ text: words.slice(0, partWordCount) }, ...parts, { text: "\nIt ended." }], pace: 3 });
    const pane = await openPane(t, { config: createServerConfig(modelServer) });
    await pane.waitForScreen(PROMPT_READY);
    await pane.type("Speak");
    await pane.sendKeys("Enter");
    await pane.waitForScreen(/word30 /);
    for (const [n, [columns, rows]] of sizes.entries()) {
      modelServer.openGate(`size ${n}`);
      await pane.resize(columns, rows);
    }
    const screen = await pane.waitForScreen(/It ended\./);
    const expectedRows = words
      .join("")
      .trimEnd()
      .split("\n")
      .slice(-15)
      .map((line) => `  ${line.trimEnd()}`);
    const visibleRows = screen.split("\n").map((row) => row.trimEnd());
    const startIndex = visibleRows.findIndex((row) => row === expectedRows[0]);
    assert.deepEqual(visibleRows.slice(startIndex, startIndex + expectedRows.length), expectedRows);
    assert.equal(visibleRows.filter((row) => /^─+$/.test(row)).length, 1);
    assert.equal(visibleRows.find((row) => /^─+$/.test(row))?.length, 80);
  });

  it("sends a paste of more than 80 kB completely", async (t) => {
    const modelServer = await startModelServer(t, { fallback: textStep("Read.") });
    const pane = await openPane(t, { config: createServerConfig(modelServer) });
    await pane.waitForScreen(PROMPT_READY);
    const text = Array.from({ length: 1_900 }, (_, i) => `line ${i} of what was pasted, with 漢字 and é`).join("\n");
    assert.ok(Buffer.byteLength(text) > 80_000);
    await pane.paste(text);
    await pane.waitForScreen(/\[Pasted text #1, 1900 lines\]/);
    await pane.type(" and an end");
    await pane.waitForScreen(/and an end/);
    await pane.sendKeys("Enter");
    await pane.waitForScreen(/Read\./);
    const [request] = modelServer.requests.filter(({ tools }) => tools.length > 0);
    assert.ok(JSON.stringify(request?.body).includes(JSON.stringify(`${text} and an end`).slice(1, -1)));
  });

  it("reports that its session was deleted elsewhere, and sends the typed prompt in a new session", async (t) => {
    const modelServer = await startModelServer(t);
    const server = await startServer(t, { config: createServerConfig(modelServer) });
    const pane = await openPane(t, { args: ["chat", "--url", server.url] });
    await pane.waitForScreen(PROMPT_READY);
    modelServer.enqueue(textStep("The first answer."));
    await pane.type("Begin");
    await pane.sendKeys("Enter");
    await pane.waitForScreen(/The first answer\./);
    await pane.waitForScreen((screen) => !/Ctrl\+C stops/.test(screen));
    const listSessionIds = async () => {
      const { sessions } = (await (await server.fetch("/api/sessions")).json()) as { sessions: { id: string }[] };
      return sessions.map(({ id }) => id);
    };
    const [deletedId = ""] = await listSessionIds();
    await pane.type("Not lost");
    assert.equal((await server.fetch(`/api/sessions/${deletedId}`, { method: "DELETE" })).status, 200);
    const screen = await pane.waitForScreen(/This session was deleted\./);
    assert.doesNotMatch(screen, /The first answer/);
    modelServer.enqueue(textStep("Another one."));
    await pane.sendKeys("Enter");
    await pane.waitForScreen(/❯ Not lost[^]*Another one\./);
    const remainingIds = await listSessionIds();
    assert.equal(remainingIds.length, 1);
    assert.notEqual(remainingIds[0], deletedId);
  });
});
