import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { callStep, textStep } from "../helpers/fake-model-server.js";
import { startModelServer, createServerConfig } from "../helpers/server-runs.js";
import { NO_TMUX, openPane } from "../helpers/terminal-pane.js";

const PROMPT_READY = /Type a prompt/;
/** Shown when a question accepts keys, which needs a short time without keys. */
const READY_TO_ANSWER = /choose.*Enter answers/;

describe("gantry chat with its own agent", { skip: NO_TMUX }, () => {
  it("shows a run with its tools, outputs and diffs, and restores the screen at the end", async (t) => {
    const modelServer = await startModelServer(t);
    const pane = await openPane(t, {
      config: createServerConfig(modelServer),
      files: { "lib/index.js": "export const answer = 41;\n", "old.txt": "before\n" },
      args: [],
    });
    modelServer.enqueue(
      callStep("bash", { command: "echo from the shell" }),
      callStep("read", { filePath: "lib/index.js" }),
      callStep("edit", { filePath: "lib/index.js", oldString: "41", newString: "42" }),
      textStep("# Done\nThe answer is **42** in `lib/index.js`."),
    );
    await pane.waitForScreen(PROMPT_READY);
    assert.equal(await pane.readFormat("#{alternate_on}"), "1");
    await pane.type("Correct the answer");
    await pane.sendKeys("Enter");
    const screen = await pane.waitForScreen(/The answer is 42 in lib\/index\.js\./);
    assert.match(screen, /❯ Correct the answer/);
    assert.match(screen, /● bash echo from the shell\n +from the shell/);
    assert.match(screen, /● read lib\/index\.js/);
    assert.match(screen, /● edit lib\/index\.js/);
    assert.match(screen, /\+1 -1\n +- export const answer = 41;\n +\+ export const answer = 42;/);
    await pane.waitForScreen(/auto · lab\/m1 · .* tokens.* A title/);
    await pane.sendKeys("C-d");
    const { code, screen: finalScreen } = await pane.waitForExit();
    assert.equal(code, 0);
    assert.match(finalScreen, /continue with: gantry chat --session [0-9a-f-]{36}/);
    assert.equal(await pane.readFormat("#{alternate_on} #{cursor_flag} #{mouse_any_flag}"), "0 1 0");
  });

  it("completes a project command, shows it as typed, and sends its template to the model", async (t) => {
    const modelServer = await startModelServer(t);
    const pane = await openPane(t, {
      config: createServerConfig(modelServer),
      files: {
        ".agents/commands/review.md": "---\ndescription: Look at a file\nargument-hint: FILE\n---\nReview $1 now.",
      },
      args: [],
    });
    modelServer.enqueue(textStep("Reviewed."));
    await pane.waitForScreen(PROMPT_READY);
    await pane.type("/rev");
    await pane.waitForScreen(/\/review +Look at a file FILE/);
    await pane.sendKeys("Tab");
    await pane.type("a.ts");
    await pane.sendKeys("Enter");
    assert.match(await pane.waitForScreen(/Reviewed\./), /❯ \/review a\.ts/);
    assert.match(JSON.stringify(modelServer.requests.map(({ body }) => body)), /Review a\.ts now\./);
    await pane.sendKeys("C-d");
    await pane.waitForExit();
  });

  it("shows the diff in a permission request, and ignores an Enter that was typed before the request", async (t) => {
    const modelServer = await startModelServer(t);
    const pane = await openPane(t, { config: createServerConfig(modelServer), args: ["chat", "--mode", "ask"] });
    modelServer.enqueue(
      callStep("write", { filePath: "new.txt", content: "one\ntwo\n" }),
      callStep("write", { filePath: "never.txt", content: "no\n" }),
      textStep("Ended."),
    );
    await pane.waitForScreen(PROMPT_READY);
    await pane.type("Write it");
    // The second Enter arrives before the question appears, or at the same time.
    await pane.sendKeys("Enter", "Enter");
    const askScreen = await pane.waitForScreen(/Allow\? .*new\.txt/);
    assert.match(askScreen, /new file .*new\.txt \+2 -0\n +\+ one\n +\+ two/);
    await pane.sendKeys("Enter");
    await pane.waitForScreen(READY_TO_ANSWER);
    await pane.sendKeys("1");
    await pane.waitForScreen(/❯ 1 Allow/);
    await pane.sendKeys("Enter");
    await pane.waitForScreen((screen) => /Allow\? .*never\.txt/.test(screen) && READY_TO_ANSWER.test(screen));
    assert.equal(await readFile(`${pane.projectDir}/new.txt`, "utf8"), "one\ntwo\n");
    await pane.sendKeys("Up");
    await pane.waitForScreen(/❯ \d Reject/);
    await pane.sendKeys("Enter");
    await pane.waitForScreen(/Ended\./);
    await assert.rejects(readFile(`${pane.projectDir}/never.txt`));
    await pane.sendKeys("C-c", "C-c");
    assert.equal((await pane.waitForExit()).code, 0);
  });

  it("answers a question by choice and by text", async (t) => {
    const modelServer = await startModelServer(t);
    const pane = await openPane(t, { config: createServerConfig(modelServer) });
    modelServer.enqueue(
      callStep("ask_user", { question: "Which colour?", choices: ["red", "blue"] }),
      callStep("ask_user", { question: "Which shade?", choices: ["dark"], free_text: true }),
      textStep("Thanks."),
    );
    await pane.waitForScreen(PROMPT_READY);
    await pane.type("Ask me");
    await pane.sendKeys("Enter");
    await pane.waitForScreen((screen) => /\? Which colour\?/.test(screen) && READY_TO_ANSWER.test(screen));
    await pane.sendKeys("Down", "Down");
    await pane.waitForScreen(/❯ 2 blue/);
    await pane.sendKeys("Enter");
    await pane.waitForScreen((screen) => /\? Which shade\?/.test(screen) && /type an answer/.test(screen));
    await pane.type("like the sky");
    await pane.waitForScreen(/> like the sky/);
    await pane.sendKeys("Enter");
    await pane.waitForScreen(/Thanks\./);
    const lastRequest = JSON.stringify(modelServer.lastRunRequest);
    assert.match(lastRequest, /blue/);
    assert.match(lastRequest, /like the sky/);
  });

  it("stops a run with one Ctrl+C, accepts another prompt, and quits with two", async (t) => {
    const modelServer = await startModelServer(t);
    const pane = await openPane(t, { config: createServerConfig(modelServer) });
    modelServer.enqueue({ say: [{ text: "I begin" }, { stall: true }] }, textStep("Again here."));
    await pane.waitForScreen(PROMPT_READY);
    await pane.type("Take your time");
    await pane.sendKeys("Enter");
    await pane.waitForScreen(/I begin/);
    await pane.sendKeys("C-c");
    await pane.waitForScreen(/Stopped\./);
    await pane.type("And now");
    await pane.sendKeys("Enter");
    await pane.waitForScreen(/Again here\./);
    await pane.sendKeys("C-c");
    await pane.waitForScreen(/Ctrl\+C again quits/);
    await pane.sendKeys("C-c");
    assert.equal((await pane.waitForExit()).code, 0);
  });

  it("sends 40 pasted lines as one prompt, and recalls the last prompt with the Up key", async (t) => {
    const modelServer = await startModelServer(t, { fallback: textStep("Taken.") });
    const pane = await openPane(t, { config: createServerConfig(modelServer) });
    await pane.waitForScreen(PROMPT_READY);
    const text = Array.from({ length: 40 }, (_, i) => `line ${i} äöü 漢字 👩‍👩‍👧`).join("\n");
    await pane.paste(text);
    await pane.waitForScreen(/❯ \[Pasted text #1, 40 lines\]/);
    assert.equal(modelServer.requests.length, 0);
    await pane.sendKeys("Enter");
    await pane.waitForScreen(/Taken\./);
    const [request] = modelServer.requests.filter(({ tools }) => tools.length > 0);
    assert.ok(JSON.stringify(request?.body).includes(JSON.stringify(text).slice(1, -1)));
    await pane.type("second");
    await pane.sendKeys("M-Enter");
    await pane.type("row");
    await pane.waitForScreen(/❯ second\n {2}row/);
    await pane.sendKeys("Enter");
    await pane.waitForScreen((screen) => (screen.match(/Taken\./g) ?? []).length === 2);
    await pane.sendKeys("Up");
    await pane.waitForScreen((screen) => /❯ second\n {2}row\n/.test(screen.slice(screen.lastIndexOf("───"))));
  });
});
