import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { say } from "../helpers/fake-model-server.js";
import { lab, labConfig } from "../helpers/lab.js";
import { NO_TMUX, openPane } from "../helpers/pane.js";

const READY = /Type a prompt/;

describe("gantry chat: commands, colours and signals", { skip: NO_TMUX }, () => {
  it("completes a file name after @, except ignored files, and attaches the file", async (t) => {
    const models = await lab(t, { fallback: say("Read.") });
    const pane = await openPane(t, {
      config: labConfig(models),
      files: { ".gitignore": "secret*\n", "secret-notes.txt": "no", "notes of mine.txt": "the content of it" },
    });
    await pane.until(READY);
    await pane.type("See @not");
    const proposed = await pane.until(/@notes\\ of\\ mine\.txt/);
    assert.doesNotMatch(proposed, /secret/);
    await pane.keys("Tab");
    await pane.until(/❯ See @notes\\ of\\ mine\.txt/);
    await pane.keys("Enter");
    await pane.until(/Read\./);
    assert.match(JSON.stringify(models.requests[0]?.body), /the content of it/);
  });

  it("runs its slash commands, and rejects an unknown one", async (t) => {
    const models = await lab(t, { fallback: say("Yes.") });
    const config = labConfig(models);
    (config.providers as { models: unknown }[])[0]!.models = [{ id: "m1" }, { id: "m2" }];
    const pane = await openPane(t, { config });
    const command = async (line: string, then: RegExp) => {
      await pane.type(line);
      await pane.keys("Enter");
      await pane.until(then);
    };
    await pane.until(READY);
    await pane.type("/mo");
    await pane.until(/\/model +choose the model\n.*\/mode/);
    await pane.keys("C-u");
    await command("/model m2", /Model: lab\/m2\./);
    await command("/mode plan", /The mode is plan/);
    await command("Hello", /Yes\./);
    await pane.until(/plan · lab\/m2/);
    await command("/title A name of mine", /lab\/m2.* · A name of mine/);
    await command("/cost", /this session +\d+.* in, \d+ out/);
    const close = async () => {
      await pane.keys("Escape");
      await pane.until((screen) => !/Esc closes/.test(screen));
    };
    await close();
    await command("/compact", /too little to compact/);
    await command("/nonsense", /no command \/nonsense/);
    await command("/help", /Keys and commands/);
    await close();
    await command("/new", READY);
    await command("/sessions", /❯ +A name of mine/);
    await pane.keys("C-d");
    await pane.until(/Delete the session "A name of mine"\?/);
    await pane.keys("n");
    // Keys that arrive together with `n` would be one answer of several letters.
    await pane.until((screen) => !/Delete the session/.test(screen));
    await command("/sessions", /❯ +A name of mine/);
    await pane.keys("C-d");
    await pane.until(/Delete the session/);
    await pane.keys("y");
    await pane.until(/no session yet/);
    await close();
    await command("/quit", /ended 0/);
  });

  it("compacts the conversation with the instructions of /compact, and still shows all messages", async (t) => {
    // The summary is requested like a title, without tools.
    const models = await lab(t, { aside: say("NOTES") });
    const pane = await openPane(t, { config: labConfig(models) });
    models.enqueue(say("A long answer. ".repeat(200)), say("And its end."), say("On it."));
    await pane.until(READY);
    for (const [typed, then] of [
      ["Tell me", /long answer/],
      ["More", /And its end\./],
      ["/compact the name of the river", /The model now sees \d+ messages/],
      ["Row on", /On it\./],
    ] as const) {
      await pane.type(typed);
      await pane.keys("Enter");
      await pane.until(then);
    }
    const sent = models.requests.map(({ body }) => JSON.stringify(body));
    assert.equal(sent.filter((body) => /kept above all: the name of the river/.test(body)).length, 1);
    const next = sent.find((body) => body.includes("Row on"));
    assert.match(next ?? "", /Summary of the earlier conversation[^"]*NOTES/);
    assert.doesNotMatch(next ?? "", /(A long answer. ){200}/);
    assert.match(await pane.until(/❯ Row on/), /And its end\./);
  });

  it("uses no colours with NO_COLOR, and shows the answer after resizes down to 1 column", async (t) => {
    const models = await lab(t, { fallback: say("A **bold** answer of some words, and `code` 漢字漢字漢字漢字漢字.") });
    const pane = await openPane(t, { config: labConfig(models), env: { NO_COLOR: "1" }, columns: 20, rows: 12 });
    await pane.until(/a prompt/);
    await pane.type("Say it");
    await pane.keys("Enter");
    const screen = await pane.until(/words/, "-e");
    // eslint-disable-next-line no-control-regex -- the test searches for colours
    assert.doesNotMatch(screen, /\u001b\[[\d;]*(3[0-7]|9[0-7])m/);
    for (const [columns, rows] of [
      [300, 50],
      [8, 5],
      [1, 2],
      [60, 20],
    ] as const)
      await pane.resize(columns, rows);
    await pane.until(/A bold answer of some words, and code\s+漢字漢字漢字漢字漢字\./);
    await pane.until((now) => now.split("\n").filter((row) => /^─+$/.test(row)).length === 1);
  });

  it("restores the screen on SIGTERM, SIGHUP and an uncaught exception", async (t) => {
    const breaks = "process.on('SIGUSR2', () => { throw new Error('something broke'); })";
    for (const [signal, code, expectedScreen] of [
      ["SIGTERM", 0, /./],
      ["SIGHUP", 0, /./],
      ["SIGUSR2", 1, /gantry: .*something broke/],
    ] as const) {
      const pane = await openPane(t, {
        config: labConfig(await lab(t)),
        env: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(breaks)}` },
        shell: `sh -c 'echo $$ > pid; exec "$@"' gantry "$@"`,
        args: ["chat"],
      });
      await pane.until(READY);
      process.kill(Number(await readFile(`${pane.projectDir}/pid`, "utf8")), signal);
      const { code: exitCode, screen } = await pane.ended();
      assert.equal(exitCode, code, signal);
      assert.match(screen, expectedScreen);
      assert.equal(await pane.format("#{alternate_on} #{cursor_flag} #{mouse_any_flag}"), "0 1 0");
    }
  });
});
