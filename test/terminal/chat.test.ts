import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { call, say } from "../helpers/fake-model-server.js";
import { lab, labConfig } from "../helpers/lab.js";
import { NO_TMUX, openPane } from "../helpers/pane.js";

const READY = /Type a prompt/;
/** A question accepts keys after the keyboard was quiet for a moment. */
const READY_TO_ANSWER = /choose.*Enter answers/;

describe("gantry chat with its own agent", { skip: NO_TMUX }, () => {
  it("shows a run with its tools, outputs and diffs, and restores the screen at the end", async (t) => {
    const models = await lab(t);
    const pane = await openPane(t, {
      config: labConfig(models),
      files: { "lib/index.js": "export const answer = 41;\n", "old.txt": "before\n" },
      args: [],
    });
    models.enqueue(
      call("bash", { command: "echo from the shell" }),
      call("read", { filePath: "lib/index.js" }),
      call("edit", { filePath: "lib/index.js", oldString: "41", newString: "42" }),
      say("# Done\nThe answer is **42** in `lib/index.js`."),
    );
    await pane.until(READY);
    assert.equal(await pane.format("#{alternate_on}"), "1");
    await pane.type("Correct the answer");
    await pane.keys("Enter");
    const screen = await pane.until(/The answer is 42 in lib\/index\.js\./);
    assert.match(screen, /❯ Correct the answer/);
    assert.match(screen, /● bash echo from the shell\n +from the shell/);
    assert.match(screen, /● read lib\/index\.js/);
    assert.match(screen, /● edit lib\/index\.js/);
    assert.match(screen, /\+1 -1\n +- export const answer = 41;\n +\+ export const answer = 42;/);
    await pane.until(/auto · lab\/m1 · .* tokens.* A title/);
    await pane.keys("C-d");
    const { code, screen: after } = await pane.ended();
    assert.equal(code, 0);
    assert.match(after, /continue with: gantry chat --session [0-9a-f-]{36}/);
    assert.equal(await pane.format("#{alternate_on} #{cursor_flag} #{mouse_any_flag}"), "0 1 0");
  });

  it("completes a project command, shows it as typed, and sends its template to the model", async (t) => {
    const models = await lab(t);
    const pane = await openPane(t, {
      config: labConfig(models),
      files: {
        ".agents/commands/review.md": "---\ndescription: Look at a file\nargument-hint: FILE\n---\nReview $1 now.",
      },
      args: [],
    });
    models.enqueue(say("Reviewed."));
    await pane.until(READY);
    await pane.type("/rev");
    await pane.until(/\/review +Look at a file FILE/);
    await pane.keys("Tab");
    await pane.type("a.ts");
    await pane.keys("Enter");
    assert.match(await pane.until(/Reviewed\./), /❯ \/review a\.ts/);
    assert.match(JSON.stringify(models.requests.map(({ body }) => body)), /Review a\.ts now\./);
    await pane.keys("C-d");
    await pane.ended();
  });

  it("shows the diff in a permission request, and ignores an Enter that was typed before it", async (t) => {
    const models = await lab(t);
    const pane = await openPane(t, { config: labConfig(models), args: ["chat", "--mode", "ask"] });
    models.enqueue(
      call("write", { filePath: "new.txt", content: "one\ntwo\n" }),
      call("write", { filePath: "never.txt", content: "no\n" }),
      say("Ended."),
    );
    await pane.until(READY);
    await pane.type("Write it");
    // The second Enter arrives before the question appears, or at the same time.
    await pane.keys("Enter", "Enter");
    const askScreen = await pane.until(/Allow\? .*new\.txt/);
    assert.match(askScreen, /new file .*new\.txt \+2 -0\n +\+ one\n +\+ two/);
    await pane.keys("Enter");
    await pane.until(READY_TO_ANSWER);
    await pane.keys("1");
    await pane.until(/❯ 1 Allow/);
    await pane.keys("Enter");
    await pane.until((screen) => /Allow\? .*never\.txt/.test(screen) && READY_TO_ANSWER.test(screen));
    assert.equal(await readFile(`${pane.projectDir}/new.txt`, "utf8"), "one\ntwo\n");
    await pane.keys("Up");
    await pane.until(/❯ \d Reject/);
    await pane.keys("Enter");
    await pane.until(/Ended\./);
    await assert.rejects(readFile(`${pane.projectDir}/never.txt`));
    await pane.keys("C-c", "C-c");
    assert.equal((await pane.ended()).code, 0);
  });

  it("answers a question by choice and by text", async (t) => {
    const models = await lab(t);
    const pane = await openPane(t, { config: labConfig(models) });
    models.enqueue(
      call("ask_user", { question: "Which colour?", choices: ["red", "blue"] }),
      call("ask_user", { question: "Which shade?", choices: ["dark"], free_text: true }),
      say("Thanks."),
    );
    await pane.until(READY);
    await pane.type("Ask me");
    await pane.keys("Enter");
    await pane.until((screen) => /\? Which colour\?/.test(screen) && READY_TO_ANSWER.test(screen));
    await pane.keys("Down", "Down");
    await pane.until(/❯ 2 blue/);
    await pane.keys("Enter");
    await pane.until((screen) => /\? Which shade\?/.test(screen) && /type an answer/.test(screen));
    await pane.type("like the sky");
    await pane.until(/> like the sky/);
    await pane.keys("Enter");
    await pane.until(/Thanks\./);
    const last = JSON.stringify(models.lastOfRun);
    assert.match(last, /blue/);
    assert.match(last, /like the sky/);
  });

  it("stops a run with one Ctrl+C, accepts another prompt, and quits with two", async (t) => {
    const models = await lab(t);
    const pane = await openPane(t, { config: labConfig(models) });
    models.enqueue({ say: [{ text: "I begin" }, { stall: true }] }, say("Again here."));
    await pane.until(READY);
    await pane.type("Take your time");
    await pane.keys("Enter");
    await pane.until(/I begin/);
    await pane.keys("C-c");
    await pane.until(/Stopped\./);
    await pane.type("And now");
    await pane.keys("Enter");
    await pane.until(/Again here\./);
    await pane.keys("C-c");
    await pane.until(/Ctrl\+C again quits/);
    await pane.keys("C-c");
    assert.equal((await pane.ended()).code, 0);
  });

  it("sends 40 pasted lines as one prompt, and recalls the last prompt with the Up key", async (t) => {
    const models = await lab(t, { fallback: say("Taken.") });
    const pane = await openPane(t, { config: labConfig(models) });
    await pane.until(READY);
    const text = Array.from({ length: 40 }, (_, i) => `line ${i} äöü 漢字 👩‍👩‍👧`).join("\n");
    await pane.paste(text);
    await pane.until(/line 39/);
    assert.equal(models.requests.length, 0);
    await pane.keys("Enter");
    await pane.until(/Taken\./);
    const [request] = models.requests.filter(({ tools }) => tools.length > 0);
    assert.ok(JSON.stringify(request?.body).includes(JSON.stringify(text).slice(1, -1)));
    await pane.type("second");
    await pane.keys("M-Enter");
    await pane.type("row");
    await pane.until(/❯ second\n {2}row/);
    await pane.keys("Enter");
    await pane.until((screen) => (screen.match(/Taken\./g) ?? []).length === 2);
    await pane.keys("Up");
    await pane.until((screen) => /❯ second\n {2}row\n/.test(screen.slice(screen.lastIndexOf("───"))));
  });
});
