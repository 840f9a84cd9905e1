import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { NO_BROWSER, openWindow, sessionUrl, shareBrowser, startConsole } from "../../helpers/console.js";
import { callStep, textStep } from "../../helpers/fake-model-server.js";
import { fetchJson, STOPPED_SERVER_ERROR, waitForPage, waitForQuestion } from "../../helpers/console-runs.js";
import { seedSessions } from "../../helpers/seeded-sessions.js";
import { makeTempDir } from "../../helpers/temp-dir.js";

const browser = shareBrowser({ after });

describe("permission requests and questions in the console", { skip: NO_BROWSER }, () => {
  it("render right-to-left letters in the order of their characters", async (t) => {
    const console = await startConsole(t, { config: { permissions: { mode: "ask" } } });
    console.models.enqueue(
      callStep("bash", { command: 'cp "\u05d0\u05d1" "\u05d3\u05d4" && echo \u05d0 > \u05d1' }),
      textStep("So."),
    );
    const { page } = await openWindow(t, await browser(), console.url, { expectedFaults: STOPPED_SERVER_ERROR });
    await page.getByRole("textbox", { name: "Message" }).fill("Copy");
    await page.keyboard.press("Enter");
    for (const selector of [".ask .ask-code", ".ask .ask-title"]) {
      await page.locator(`${selector} .rtl`).first().waitFor();
      const letters = await page.locator(`${selector} .rtl`).all();
      const leftEdges = await Promise.all(letters.map(async (letter) => (await letter.boundingBox())?.x ?? NaN));
      assert.equal(leftEdges.length, 4);
      assert.deepEqual(
        leftEdges,
        [...leftEdges].sort((a, b) => a - b),
        selector,
      );
    }
    await page.locator(".ask").getByRole("button", { name: "Reject" }).click();
    await page.getByText("So.").waitFor();
  });

  it("appear in every window with their diff, and an answer in one window closes them in all windows", async (t) => {
    const console = await startConsole(t, { files: { "a.txt": "one\ntwo is a line\nthree\n" } });
    const { models, server } = console;
    const content = "one\ntwo is a longer line\nthree\nfour\n";
    models.enqueue(
      callStep("read", { filePath: "a.txt" }),
      callStep("edit", {
        filePath: "a.txt",
        oldString: "two is a line\nthree\n",
        newString: "two is a longer line\nthree\nfour\n",
      }),
      textStep("Edited."),
      callStep("write", { filePath: "b.txt", content: "b\n" }),
      textStep("As you like."),
    );
    const { page } = await openWindow(t, await browser(), console.url, { expectedFaults: STOPPED_SERVER_ERROR });
    await page.getByRole("combobox", { name: "Mode" }).selectOption("ask");
    await page.getByRole("textbox", { name: "Message" }).fill("Change a.txt");
    await page.keyboard.press("Enter");
    const ask = page.getByRole("article", { name: "Edit a.txt" });
    await ask.waitFor();
    const id = /#\/s\/(.+)$/.exec(page.url())?.[1] ?? "";
    const secondWindow = await openWindow(t, await browser(), sessionUrl(console, id), {
      expectedFaults: STOPPED_SERVER_ERROR,
    });
    const secondAsk = secondWindow.page.getByRole("article", { name: "Edit a.txt" });
    await secondAsk.waitFor();
    for (const askCard of [ask, secondAsk]) {
      assert.deepEqual(await askCard.locator(".diff-row.removed .diff-text").allTextContents(), ["two is a line"]);
      assert.deepEqual(await askCard.locator(".diff-row.added .diff-text").allTextContents(), [
        "two is a longer line",
        "four",
      ]);
      assert.deepEqual(await askCard.locator(".diff-row.added mark").allTextContents(), ["longer "]);
    }
    await secondAsk.getByRole("button", { name: "Allow", exact: true }).click();
    await ask.waitFor({ state: "detached" });
    await page.getByText("Edited.").waitFor();
    assert.equal(await readFile(join(server.projectDir, "a.txt"), "utf8"), content);

    await page.getByRole("textbox", { name: "Message" }).fill("Make b.txt");
    await page.keyboard.press("Enter");
    await secondWindow.page.getByRole("article", { name: "Write b.txt" }).waitFor();
    await page.getByRole("article", { name: "Write b.txt" }).getByRole("button", { name: "Reject" }).click();
    await secondWindow.page.getByText("As you like.").waitFor();
    assert.equal(await secondWindow.page.locator(".ask").count(), 0);
    assert.equal(existsSync(join(server.projectDir, "b.txt")), false);
  });

  it("are answered by keyboard: a permission, a choice and a text", async (t) => {
    const console = await startConsole(t);
    const { models, server } = console;
    models.enqueue(
      callStep("bash", { command: "echo made > made.txt", description: "Makes a file" }),
      callStep("ask_user", { question: "Which colour?", choices: ["Red", "Blue"] }),
      callStep("ask_user", { question: "Which name?", choices: [], free_text: true }),
      textStep("Thanks."),
    );
    const { page } = await openWindow(t, await browser(), console.url, { expectedFaults: STOPPED_SERVER_ERROR });
    await page.getByRole("combobox", { name: "Mode" }).selectOption("ask");
    await page.getByRole("textbox", { name: "Message" }).fill("Go");
    await page.keyboard.press("Enter");
    const command = page.getByRole("article", { name: /^May bash/ });
    await command.waitFor();
    assert.equal(await command.getByRole("group", { name: "Command" }).textContent(), "echo made > made.txt");
    // Nothing was typed, so the question has the focus.
    await waitForQuestion(page);
    await page.keyboard.press("1");
    await page.getByRole("article", { name: "Which colour?" }).waitFor();
    assert.ok(existsSync(join(server.projectDir, "made.txt")));
    // A question does not take the focus from a user who types; digits go into the prompt.
    await page.getByRole("textbox", { name: "Message" }).focus();
    await page.keyboard.type("21");
    await page.keyboard.press("Escape");
    await page.keyboard.press("a");
    await waitForQuestion(page);
    await page.keyboard.press("2");
    const answerField = page.getByRole("textbox", { name: "Your own answer" });
    await answerField.fill("Ada 1");
    await page.keyboard.press("Enter");
    await page.getByText("Thanks.").waitFor();
    assert.equal(await page.getByRole("textbox", { name: "Message" }).inputValue(), "21");
    const { asks } = await fetchJson<{ asks: { reply: unknown }[] }>(server, "/api/asks?state=all");
    assert.deepEqual(
      asks.map(({ reply }) => reply),
      [
        { choice: "", text: "Ada 1" },
        { choice: "2", text: "" },
        { choice: "allow", text: "" },
      ],
    );
  });

  it("ignore a held key, and a key or click that arrives when they appear", async (t) => {
    const console = await startConsole(t);
    const { models, server } = console;
    models.enqueue(
      callStep("bash", { command: "echo 1 >> made.txt" }),
      callStep("bash", { command: "echo 2 >> made.txt" }),
    );
    const { page } = await openWindow(t, await browser(), console.url, { expectedFaults: STOPPED_SERVER_ERROR });
    await page.getByRole("combobox", { name: "Mode" }).selectOption("ask");
    await page.getByRole("textbox", { name: "Message" }).fill("Go");
    // Simulates a user who types and clicks at the moment when the question appears.
    await page.evaluate(`(() => {
      window.keyResults = [];
      document.addEventListener("focusin", ({ target }) => {
        if (!target.matches(".ask") || target.isHandled) return;
        target.isHandled = true;
        const press = (key, repeat) => target.dispatchEvent(new KeyboardEvent("keydown", { key, repeat, bubbles: true, cancelable: true }));
        press("1", true);
        target.querySelector(".ask-choices button").click();
        const isTyped = press("1", false);
        window.keyResults.push([isTyped, document.activeElement.id]);
      });
    })()`);
    await page.keyboard.press("Enter");
    const firstAsk = page.locator(".ask").filter({ hasText: "echo 1" });
    await firstAsk.locator("xpath=self::*[@aria-busy='false']").waitFor();
    // The key was typed into the prompt.
    assert.deepEqual(await page.evaluate("window.keyResults"), [[true, "prompt"]]);
    await page.evaluate(
      `document.querySelector(".ask").dispatchEvent(new KeyboardEvent("keydown", { key: "1", repeat: true, bubbles: true }))`,
    );
    await firstAsk.getByRole("button", { name: "Reject" }).click();
    // The next question appears in the same place, under the same pointer and key.
    const secondAsk = page.locator(".ask").filter({ hasText: "echo 2" });
    await secondAsk.locator("xpath=self::*[@aria-busy='false']").waitFor();
    await secondAsk.getByRole("button", { name: "Reject" }).click();
    await page.locator(".answer", { hasText: "OK." }).waitFor();
    const { asks } = await fetchJson<{ asks: { reply: { choice: string } }[] }>(server, "/api/asks?state=all");
    assert.deepEqual(
      asks.map(({ reply }) => reply.choice),
      ["reject", "reject"],
    );
    assert.equal(existsSync(join(server.projectDir, "made.txt")), false);
  });

  it("are counted in the session list and the title, and can be answered after a reload", async (t) => {
    const console = await startConsole(t);
    const { models } = console;
    const createQuestionStep = (gate: string) => ({
      say: [
        { text: "Working." },
        { gate },
        { call: { name: "bash", arguments: { command: `echo ${gate} >> made.txt` } } },
      ],
    });
    models.enqueue(createQuestionStep("list"), textStep("First."), createQuestionStep("reload"), textStep("Second."));
    const { page } = await openWindow(t, await browser(), console.url, { expectedFaults: STOPPED_SERVER_ERROR });
    await page.getByRole("combobox", { name: "Mode" }).selectOption("ask");
    await page.getByRole("textbox", { name: "Message" }).fill("Go");
    await page.keyboard.press("Enter");
    await page.getByText("Working.").waitFor();
    const sessionAddress = page.url();
    await page.getByRole("link", { name: "Runs" }).click();
    await page.getByRole("heading", { name: "Runs" }).first().waitFor();
    models.openGate("list");
    const questionsLink = page.getByRole("link", { name: "Questions 1 open" });
    await questionsLink.waitFor();
    await waitForPage(page, `document.title === "(1) Runs"`);
    // After a reload the page shows the question at once.
    await page.reload();
    await questionsLink.click();
    await page.locator(".questions-facts a").click();
    assert.equal(page.url(), sessionAddress);
    await page.locator(".ask").getByRole("button", { name: "Allow", exact: true }).click();
    await page.getByText("First.").waitFor();
    await questionsLink.waitFor({ state: "detached" });

    await page.getByRole("textbox", { name: "Message" }).fill("Again");
    await page.keyboard.press("Enter");
    await page.getByText("Working.").nth(1).waitFor();
    models.openGate("reload");
    await page.locator(".ask").waitFor();
    // Opens an empty page in between, so that the session page loads anew.
    await page.goto("about:blank");
    await page.goto(sessionAddress);
    await page.locator(".ask").getByRole("button", { name: "Allow", exact: true }).click();
    await page.getByText("Second.").waitFor();
    assert.equal(await readFile(join(console.server.projectDir, "made.txt"), "utf8"), "list\nreload\n");
  });

  it("appear below their call, and show a command after 399 empty lines and the end of a long line", async (t) => {
    const home = await makeTempDir();
    t.after(() => home.remove());
    const createText = (content: string) => [{ type: "text" as const, text: content }];
    const [id = ""] = await seedSessions(home.path, [
      {
        mode: "ask",
        messages: [
          { parts: createText("Question.") },
          { role: "assistant", parts: createText("Answer.\n\n".repeat(12)) },
        ],
      },
    ]);
    const console = await startConsole(t, { home: home.path, files: { "a.txt": "a\n" } });
    const hiddenCommand = `echo hello${"\n".repeat(400)}rm -rf ./precious`;
    const longLine = `x = 1;${" ".repeat(3000)}evil();`;
    console.models.enqueue(
      callStep("bash", { command: hiddenCommand }),
      callStep("read", { filePath: "a.txt" }),
      callStep("edit", { filePath: "a.txt", oldString: "a\n", newString: `${longLine}\n` }),
    );
    const { page } = await openWindow(t, await browser(), sessionUrl(console, id), {
      width: 900,
      height: 700,
      expectedFaults: STOPPED_SERVER_ERROR,
    });
    await page.locator(".answer").first().waitFor();
    await page.locator("#prompt").fill("Go on");
    await page.locator("#prompt").press("Enter");
    const command = page.getByRole("group", { name: "Command" });
    await command.getByText("rm -rf ./precious").waitFor();
    assert.equal(await command.textContent(), "echo hello399 empty linesrm -rf ./precious");
    await page.getByText("401 lines, 427 characters").waitFor();
    assert.deepEqual(
      await page.evaluate(
        `(({ scrollHeight, clientHeight, scrollWidth, clientWidth }) => [scrollHeight > clientHeight, scrollWidth > clientWidth])(document.querySelector(".ask-code"))`,
      ),
      [false, false],
    );
    // The content of the question and the call before it are visible.
    await waitForPage(page, IS_AT_END);
    // The header of the page has 48 pixels.
    for (const element of [page.locator(".call-waiting"), page.locator(".user-text", { hasText: "Go on" })]) {
      const elementBox = await element.boundingBox();
      const footBox = await page.locator(".foot").boundingBox();
      assert.ok(
        elementBox && footBox && elementBox.y >= 48 && elementBox.y + elementBox.height <= footBox.y,
        `${JSON.stringify(elementBox)} ${JSON.stringify(footBox)}`,
      );
    }
    assert.equal(await page.getByRole("button", { name: "To the end" }).count(), 0);
    await page.getByRole("button", { name: "Reject" }).click();
    const addedLine = page.locator(".ask .diff-row.added .diff-text");
    await addedLine.waitFor();
    await addedLine.getByRole("button", { name: "… 1,013 more characters" }).click();
    assert.equal(await addedLine.textContent(), longLine);
    const isWideScript = `(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)(document.querySelector(".ask .diff-lines"))`;
    assert.equal(await page.evaluate(isWideScript), false);
    await page.getByRole("button", { name: "Reject" }).click();
    await page.locator(".answer", { hasText: "OK." }).waitFor();
  });
});

/** Script that returns whether the timeline is scrolled to its end. */
const IS_AT_END = `(() => {
  const box = document.getElementById("timeline");
  return box.scrollHeight - box.clientHeight - box.scrollTop < 2;
})()`;
