import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { call, say } from "../helpers/fake-model-server.js";
import { lab, labConfig, until } from "../helpers/lab.js";
import { NO_TMUX, openPane } from "../helpers/pane.js";
import { startServer } from "../helpers/server.js";

const READY = /Type a prompt/;

describe("gantry chat in a terminal", { skip: NO_TMUX }, () => {
  it("suspends on Ctrl+Z with the screen restored, and shows the typed text again after fg", async (t) => {
    const models = await lab(t, { fallback: say("Still here.") });
    // A shell with job control, and a process between it and gantry that waits for gantry.
    const shell = `set -m; sh -c '"$@"; exit $?' between "$@"; echo "[in the shell]"; read go; fg`;
    const pane = await openPane(t, { config: labConfig(models), shell });
    await pane.until(READY);
    await pane.type("half a sentence");
    await pane.until(/half a sentence/);
    await pane.keys("C-z");
    await pane.until(/\[in the shell\]/);
    assert.equal(await pane.format("#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{wrap_flag}"), "0 1 0 1");
    await pane.type("typed there");
    await pane.keys("Enter");
    await pane.until(/half a sentence/);
    assert.equal(await pane.format("#{alternate_on} #{mouse_any_flag}"), "1 1");
    await pane.type(" more");
    await pane.keys("Enter");
    const screen = await pane.until(/Still here\./);
    assert.match(screen, /❯ half a sentence more/);
    await pane.keys("C-d");
    assert.equal((await pane.ended()).code, 0);
  });

  it("continues after Ctrl+Z if no shell can resume it", async (t) => {
    const pane = await openPane(t, { config: labConfig(await lab(t)) });
    await pane.until(READY);
    await pane.record(`${pane.home}/raw`);
    await pane.keys("C-z");
    // eslint-disable-next-line no-control-regex -- leaves the alternate screen, and enters it again
    const leftAndEntered = /\u001b\[\?1049l[^]*\u001b\[\?1049h/;
    await until(async () => leftAndEntered.test(await readFile(`${pane.home}/raw`, "utf8").catch(() => "")));
    await pane.type("goes on");
    await pane.until(/❯ goes on/);
  });

  it("shows the number of background commands and the last command in 44 columns", async (t) => {
    const models = await lab(t);
    const start = (command: string) => call("bash", { command, background: true });
    models.enqueue(start("sleep 300"), say("One."));
    const pane = await openPane(t, {
      columns: 44,
      config: labConfig(models, { tools: { bash: { sandbox: "off" } } }),
    });
    await pane.until(READY);
    await pane.type("Start");
    await pane.keys("Enter");
    await pane.until(/One\.[^]*\n {2}⟳ in the background: sleep 300 *\n/);
    // Control characters in a command are shown as symbols.
    models.enqueue(start("sleep 301 # \u001b[2J and what no screen has room for"), say("Two."));
    await pane.type("Another");
    await pane.keys("Enter");
    await pane.until(/Two\.[^]*\n {2}⟳ 2 in the background: sleep 301 # ␛\[2J…? ?.*…\n/);
  });

  it("shows the complete answer after four resizes while it streams", async (t) => {
    const models = await lab(t);
    const words = Array.from({ length: 400 }, (_, i) => (i % 8 === 7 ? `word${i}\n` : `word${i} `));
    const sizes = [
      [40, 10],
      [132, 43],
      [20, 6],
      [80, 24],
    ] as const;
    // One part of the answer for each size, after the first part.
    const part = words.length / (sizes.length + 1);
    const parts = sizes.flatMap((_, n) => [
      { gate: `size ${n}` },
      { text: words.slice(part * (n + 1), part * (n + 2)) },
    ]);
    models.enqueue({ say: [{ text: words.slice(0, part) }, ...parts, { text: "\nIt ended." }], pace: 3 });
    const pane = await openPane(t, { config: labConfig(models) });
    await pane.until(READY);
    await pane.type("Speak");
    await pane.keys("Enter");
    await pane.until(/word30 /);
    for (const [n, [columns, rows]] of sizes.entries()) {
      models.open(`size ${n}`);
      await pane.resize(columns, rows);
    }
    const screen = await pane.until(/It ended\./);
    const expectedRows = words
      .join("")
      .trimEnd()
      .split("\n")
      .slice(-15)
      .map((line) => `  ${line.trimEnd()}`);
    const seen = screen.split("\n").map((row) => row.trimEnd());
    const at = seen.findIndex((row) => row === expectedRows[0]);
    assert.deepEqual(seen.slice(at, at + expectedRows.length), expectedRows);
    assert.equal(seen.filter((row) => /^─+$/.test(row)).length, 1);
    assert.equal(seen.find((row) => /^─+$/.test(row))?.length, 80);
  });

  it("sends a paste of more than 80 kB completely", async (t) => {
    const models = await lab(t, { fallback: say("Read.") });
    const pane = await openPane(t, { config: labConfig(models) });
    await pane.until(READY);
    const text = Array.from({ length: 1_900 }, (_, i) => `line ${i} of what was pasted, with 漢字 and é`).join("\n");
    assert.ok(Buffer.byteLength(text) > 80_000);
    await pane.paste(text);
    await pane.until(/line 1899/);
    await pane.type(" and an end");
    await pane.until(/and an end/);
    await pane.keys("Enter");
    await pane.until(/Read\./);
    const [request] = models.requests.filter(({ tools }) => tools.length > 0);
    assert.ok(JSON.stringify(request?.body).includes(JSON.stringify(`${text} and an end`).slice(1, -1)));
  });

  it("reports that its session was deleted elsewhere, and sends the typed prompt in a new session", async (t) => {
    const models = await lab(t);
    const server = await startServer(t, { config: labConfig(models) });
    const pane = await openPane(t, { args: ["chat", "--url", server.url] });
    await pane.until(READY);
    models.enqueue(say("The first answer."));
    await pane.type("Begin");
    await pane.keys("Enter");
    await pane.until(/The first answer\./);
    await pane.until((screen) => !/Ctrl\+C stops/.test(screen));
    const ids = async () => {
      const { sessions } = (await (await server.fetch("/api/sessions")).json()) as { sessions: { id: string }[] };
      return sessions.map(({ id }) => id);
    };
    const [first = ""] = await ids();
    await pane.type("Not lost");
    assert.equal((await server.fetch(`/api/sessions/${first}`, { method: "DELETE" })).status, 200);
    const screen = await pane.until(/This session was deleted\./);
    assert.doesNotMatch(screen, /The first answer/);
    models.enqueue(say("Another one."));
    await pane.keys("Enter");
    await pane.until(/❯ Not lost[^]*Another one\./);
    const remainingIds = await ids();
    assert.equal(remainingIds.length, 1);
    assert.notEqual(remainingIds[0], first);
  });
});
