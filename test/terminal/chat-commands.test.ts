import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { textStep } from "../helpers/fake-model-server.js";
import { startModelServer, createServerConfig } from "../helpers/server-runs.js";
import { NO_TMUX, openPane } from "../helpers/terminal-pane.js";

const PROMPT_READY = /Type a prompt/;

describe("gantry chat: commands, colours and signals", { skip: NO_TMUX }, () => {
  it("completes a file name after @, except ignored files, and attaches the file", async (t) => {
    const modelServer = await startModelServer(t, { fallback: textStep("Read.") });
    const pane = await openPane(t, {
      config: createServerConfig(modelServer),
      files: { ".gitignore": "secret*\n", "secret-notes.txt": "no", "notes of mine.txt": "the content of it" },
    });
    await pane.waitForScreen(PROMPT_READY);
    await pane.type("See @not");
    const completionScreen = await pane.waitForScreen(/@notes\\ of\\ mine\.txt/);
    assert.doesNotMatch(completionScreen, /secret/);
    await pane.sendKeys("Tab");
    await pane.waitForScreen(/❯ See @notes\\ of\\ mine\.txt/);
    await pane.sendKeys("Enter");
    await pane.waitForScreen(/Read\./);
    assert.match(JSON.stringify(modelServer.requests[0]?.body), /the content of it/);
  });

  it("attaches an image that the prompt names by its path", async (t) => {
    const modelServer = await startModelServer(t, { fallback: textStep("Seen.") });
    const pane = await openPane(t, { config: createServerConfig(modelServer) });
    const path = join(pane.projectDir, "my shot.gif");
    await writeFile(path, Buffer.from("R0lGODlhAQABAAAAACw=", "base64"));
    await pane.waitForScreen(PROMPT_READY);
    await pane.type(`See ${path.replace(" ", "\\ ")}`);
    await pane.sendKeys("Enter");
    await pane.waitForScreen(/Seen\./);
    assert.match(JSON.stringify(modelServer.requests[0]?.body), /R0lGODlhAQABAAAAACw=|shot\.gif/);
  });

  it("runs its slash commands, and rejects an unknown command", async (t) => {
    const modelServer = await startModelServer(t, { fallback: textStep("Yes.") });
    const config = createServerConfig(modelServer);
    (config.providers as { models: unknown }[])[0]!.models = [{ id: "m1" }, { id: "m2" }];
    const pane = await openPane(t, { config });
    const runCommand = async (line: string, expectedScreen: RegExp) => {
      await pane.type(line);
      await pane.sendKeys("Enter");
      await pane.waitForScreen(expectedScreen);
    };
    await pane.waitForScreen(PROMPT_READY);
    await pane.type("/mo");
    await pane.waitForScreen(/\/model +choose the model\n.*\/mode/);
    await pane.sendKeys("C-u");
    await runCommand("/model m2", /Model: lab\/m2\./);
    await runCommand("/mode plan", /The mode is plan/);
    await runCommand("Hello", /Yes\./);
    await pane.waitForScreen(/plan · lab\/m2/);
    await runCommand("/title A name of mine", /lab\/m2.* · A name of mine/);
    await runCommand("/cost", /this session +\d+.* in, \d+ out/);
    const closePanel = async () => {
      await pane.sendKeys("Escape");
      await pane.waitForScreen((screen) => !/Esc closes/.test(screen));
    };
    await closePanel();
    await runCommand("/compact", /too little to compact/);
    await runCommand("/nonsense", /Unknown command \/nonsense/);
    await runCommand("/help", /Keys and commands/);
    await closePanel();
    await runCommand("/new", PROMPT_READY);
    await runCommand("/sessions", /❯ +A name of mine/);
    await pane.sendKeys("C-d");
    await pane.waitForScreen(/Delete the session "A name of mine"\?/);
    await pane.sendKeys("n");
    // Keys that arrive together with `n` would be one answer of several letters.
    await pane.waitForScreen((screen) => !/Delete the session/.test(screen));
    await runCommand("/sessions", /❯ +A name of mine/);
    await pane.sendKeys("C-d");
    await pane.waitForScreen(/Delete the session/);
    await pane.sendKeys("y");
    await pane.waitForScreen(/no session yet/);
    await closePanel();
    await runCommand("/quit", /ended 0/);
  });

  it("compacts the conversation with the instructions of /compact, and still shows all messages", async (t) => {
    // The summary is requested like a title, without tools.
    const modelServer = await startModelServer(t, { toolFreeAnswer: textStep("NOTES") });
    const pane = await openPane(t, { config: createServerConfig(modelServer) });
    modelServer.enqueue(textStep("A long answer. ".repeat(200)), textStep("And its end."), textStep("On it."));
    await pane.waitForScreen(PROMPT_READY);
    for (const [input, expectedScreen] of [
      ["Tell me", /long answer/],
      ["More", /And its end\./],
      ["/compact the name of the river", /The model now sees \d+ messages/],
      ["Row on", /On it\./],
    ] as const) {
      await pane.type(input);
      await pane.sendKeys("Enter");
      await pane.waitForScreen(expectedScreen);
    }
    const requestBodies = modelServer.requests.map(({ body }) => JSON.stringify(body));
    assert.equal(requestBodies.filter((body) => /keep above all: the name of the river/.test(body)).length, 1);
    const nextRequest = requestBodies.find((body) => body.includes("Row on"));
    assert.match(nextRequest ?? "", /Summary of the earlier conversation[^"]*NOTES/);
    assert.doesNotMatch(nextRequest ?? "", /(A long answer. ){200}/);
    assert.match(await pane.waitForScreen(/❯ Row on/), /And its end\./);
  });

  it("uses no colours with NO_COLOR, and shows the answer after resizes down to 1 column", async (t) => {
    const modelServer = await startModelServer(t, {
      fallback: textStep("A **bold** answer of some words, and `code` 漢字漢字漢字漢字漢字."),
    });
    const pane = await openPane(t, {
      config: createServerConfig(modelServer),
      env: { NO_COLOR: "1" },
      columns: 20,
      rows: 12,
    });
    await pane.waitForScreen(/a prompt/);
    await pane.type("Say it");
    await pane.sendKeys("Enter");
    const screen = await pane.waitForScreen(/words/, "-e");
    // eslint-disable-next-line no-control-regex -- the test searches for colours
    assert.doesNotMatch(screen, /\u001b\[[\d;]*(3[0-7]|9[0-7])m/);
    for (const [columns, rows] of [
      [300, 50],
      [8, 5],
      [1, 2],
      [60, 20],
    ] as const)
      await pane.resize(columns, rows);
    await pane.waitForScreen(/A bold answer of some words, and code\s+漢字漢字漢字漢字漢字\./);
    await pane.waitForScreen(
      (resizedScreen) => resizedScreen.split("\n").filter((row) => /^─+$/.test(row)).length === 1,
    );
  });

  it("restores the screen on SIGTERM, SIGHUP and an uncaught exception", async (t) => {
    const throwScript = "process.on('SIGUSR2', () => { throw new Error('something broke'); })";
    for (const [signal, code, expectedScreen] of [
      ["SIGTERM", 0, /./],
      ["SIGHUP", 0, /./],
      ["SIGUSR2", 1, /gantry: .*something broke/],
    ] as const) {
      const pane = await openPane(t, {
        config: createServerConfig(await startModelServer(t)),
        env: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(throwScript)}` },
        shell: `sh -c 'echo $$ > pid; exec "$@"' gantry "$@"`,
        args: ["chat"],
      });
      await pane.waitForScreen(PROMPT_READY);
      process.kill(Number(await readFile(`${pane.projectDir}/pid`, "utf8")), signal);
      const { code: exitCode, screen } = await pane.waitForExit();
      assert.equal(exitCode, code, signal);
      assert.match(screen, expectedScreen);
      assert.equal(await pane.readFormat("#{alternate_on} #{cursor_flag} #{mouse_any_flag}"), "0 1 0");
    }
  });
});
