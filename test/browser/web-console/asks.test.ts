import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { noBrowser, openWindow, sessionUrl, sharedBrowser, startConsole } from "../../helpers/console.js";
import { call, say } from "../../helpers/fake-model-server.js";
import { fetchJson, SERVER_GONE, LATE, until, untilAsked } from "../../helpers/console-runs.js";
import { seedSessions } from "../../helpers/seeded-sessions.js";
import { makeTempDir } from "../../helpers/temp.js";

const browser = sharedBrowser({ after });

describe("permission requests and questions in the console", { skip: noBrowser }, () => {
  it("render right-to-left letters in the order of their characters", async (t) => {
    const console = await startConsole(t, { config: { permissions: { mode: "ask" } } });
    console.models.enqueue(
      call("bash", { command: 'cp "\u05d0\u05d1" "\u05d3\u05d4" && echo \u05d0 > \u05d1' }),
      say("So."),
    );
    const { page } = await openWindow(t, await browser(), console.url, { expected: SERVER_GONE });
    await page.getByRole("textbox", { name: "Message" }).fill("Copy");
    await page.keyboard.press("Enter");
    for (const place of [".ask .ask-code", ".ask .ask-title"]) {
      await page.locator(`${place} .rtl`).first().waitFor();
      const letters = await page.locator(`${place} .rtl`).all();
      const lefts = await Promise.all(letters.map(async (letter) => (await letter.boundingBox())?.x ?? NaN));
      assert.equal(lefts.length, 4);
      assert.deepEqual(
        lefts,
        [...lefts].sort((a, b) => a - b),
        place,
      );
    }
    await page.locator(".ask").getByRole("button", { name: "Reject" }).click();
    await page.getByText("So.").waitFor();
  });

  it("appear in every window with their diff, and an answer in one window closes them in all", async (t) => {
    const console = await startConsole(t, { files: { "a.txt": "one\ntwo is a line\nthree\n" } });
    const { models, server } = console;
    const content = "one\ntwo is a longer line\nthree\nfour\n";
    models.enqueue(
      call("read", { filePath: "a.txt" }),
      call("edit", {
        filePath: "a.txt",
        oldString: "two is a line\nthree\n",
        newString: "two is a longer line\nthree\nfour\n",
      }),
      say("Edited."),
      call("write", { filePath: "b.txt", content: "b\n" }),
      say("As you like."),
    );
    const expected = new RegExp(`${SERVER_GONE.source}|${LATE.source}`);
    const { page } = await openWindow(t, await browser(), console.url, { expected });
    await page.getByRole("combobox", { name: "Mode" }).selectOption("ask");
    await page.getByRole("textbox", { name: "Message" }).fill("Change a.txt");
    await page.keyboard.press("Enter");
    const ask = page.getByRole("article", { name: "Edit a.txt" });
    await ask.waitFor();
    const id = /#\/s\/(.+)$/.exec(page.url())?.[1] ?? "";
    const second = await openWindow(t, await browser(), sessionUrl(console, id), { expected: SERVER_GONE });
    const same = second.page.getByRole("article", { name: "Edit a.txt" });
    await same.waitFor();
    for (const askCard of [ask, same]) {
      assert.deepEqual(await askCard.locator(".diff-row.removed .diff-text").allTextContents(), ["two is a line"]);
      assert.deepEqual(await askCard.locator(".diff-row.added .diff-text").allTextContents(), [
        "two is a longer line",
        "four",
      ]);
      assert.deepEqual(await askCard.locator(".diff-row.added mark").allTextContents(), ["longer "]);
    }
    await same.getByRole("button", { name: "Allow", exact: true }).click();
    await ask.waitFor({ state: "detached" });
    await page.getByText("Edited.").waitFor();
    assert.equal(await readFile(join(server.projectDir, "a.txt"), "utf8"), content);

    await page.getByRole("textbox", { name: "Message" }).fill("Make b.txt");
    await page.keyboard.press("Enter");
    await second.page.getByRole("article", { name: "Write b.txt" }).waitFor();
    await page.getByRole("article", { name: "Write b.txt" }).getByRole("button", { name: "Reject" }).click();
    await second.page.getByText("As you like.").waitFor();
    assert.equal(await second.page.locator(".ask").count(), 0);
    assert.equal(existsSync(join(server.projectDir, "b.txt")), false);
  });

  it("are answered by keyboard: a permission, a choice and a text", async (t) => {
    const console = await startConsole(t);
    const { models, server } = console;
    models.enqueue(
      call("bash", { command: "echo made > made.txt", description: "Makes a file" }),
      call("ask_user", { question: "Which colour?", choices: ["Red", "Blue"] }),
      call("ask_user", { question: "Which name?", choices: [], free_text: true }),
      say("Thanks."),
    );
    const { page } = await openWindow(t, await browser(), console.url, { expected: SERVER_GONE });
    await page.getByRole("combobox", { name: "Mode" }).selectOption("ask");
    await page.getByRole("textbox", { name: "Message" }).fill("Go");
    await page.keyboard.press("Enter");
    const command = page.getByRole("article", { name: /^May bash/ });
    await command.waitFor();
    assert.equal(await command.getByRole("group", { name: "Command" }).textContent(), "echo made > made.txt");
    // Nothing was typed, so the question has the focus.
    await untilAsked(page);
    await page.keyboard.press("1");
    await page.getByRole("article", { name: "Which colour?" }).waitFor();
    assert.ok(existsSync(join(server.projectDir, "made.txt")));
    // A question does not take the focus from a user who types; digits go into the prompt.
    await page.getByRole("textbox", { name: "Message" }).focus();
    await page.keyboard.type("21");
    await page.keyboard.press("Escape");
    await page.keyboard.press("a");
    await untilAsked(page);
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
    models.enqueue(call("bash", { command: "echo 1 >> made.txt" }), call("bash", { command: "echo 2 >> made.txt" }));
    const { page } = await openWindow(t, await browser(), console.url, { expected: SERVER_GONE });
    await page.getByRole("combobox", { name: "Mode" }).selectOption("ask");
    await page.getByRole("textbox", { name: "Message" }).fill("Go");
    // Simulates a user who types and clicks at the moment when the question appears.
    await page.evaluate(`(() => {
      window.met = [];
      document.addEventListener("focusin", ({ target }) => {
        if (!target.matches(".ask") || target.met) return;
        target.met = true;
        const press = (key, repeat) => target.dispatchEvent(new KeyboardEvent("keydown", { key, repeat, bubbles: true, cancelable: true }));
        press("1", true);
        target.querySelector(".ask-choices button").click();
        const typed = press("1", false);
        window.met.push([typed, document.activeElement.id]);
      });
    })()`);
    await page.keyboard.press("Enter");
    const first = page.locator(".ask").filter({ hasText: "echo 1" });
    await first.locator("xpath=self::*[@aria-busy='false']").waitFor();
    // The key was typed into the prompt.
    assert.deepEqual(await page.evaluate("window.met"), [[true, "prompt"]]);
    await page.evaluate(
      `document.querySelector(".ask").dispatchEvent(new KeyboardEvent("keydown", { key: "1", repeat: true, bubbles: true }))`,
    );
    await first.getByRole("button", { name: "Reject" }).click();
    // The next question appears in the same place, under the same pointer and key.
    const second = page.locator(".ask").filter({ hasText: "echo 2" });
    await second.locator("xpath=self::*[@aria-busy='false']").waitFor();
    await second.getByRole("button", { name: "Reject" }).click();
    await page.locator(".answer", { hasText: "OK." }).waitFor();
    const { asks } = await fetchJson<{ asks: { reply: { choice: string } }[] }>(server, "/api/asks?state=all");
    assert.deepEqual(
      asks.map(({ reply }) => reply.choice),
      ["reject", "reject"],
    );
    assert.equal(existsSync(join(server.projectDir, "made.txt")), false);
  });

  it("are linked from the list of runs, and can be answered after a reload", async (t) => {
    const console = await startConsole(t);
    const { models } = console;
    const question = (gate: string) => ({
      say: [
        { text: "Working." },
        { gate },
        { call: { name: "bash", arguments: { command: `echo ${gate} >> made.txt` } } },
      ],
    });
    models.enqueue(question("list"), say("First."), question("reload"), say("Second."));
    const { page } = await openWindow(t, await browser(), console.url, { expected: SERVER_GONE });
    await page.getByRole("combobox", { name: "Mode" }).selectOption("ask");
    await page.getByRole("textbox", { name: "Message" }).fill("Go");
    await page.keyboard.press("Enter");
    await page.getByText("Working.").waitFor();
    const address = page.url();
    await page.getByRole("link", { name: "Runs" }).click();
    await page.getByRole("heading", { name: "Runs" }).first().waitFor();
    models.open("list");
    const waiting = page.getByRole("link", { name: "1 pending question" });
    await waiting.waitFor();
    await until(page, `document.title === "? Runs"`);
    // After a reload the page shows the question at once.
    await page.reload();
    await waiting.click();
    assert.equal(page.url(), address);
    await page.locator(".ask").getByRole("button", { name: "Allow", exact: true }).click();
    await page.getByText("First.").waitFor();
    await waiting.waitFor({ state: "detached" });

    await page.getByRole("textbox", { name: "Message" }).fill("Again");
    await page.keyboard.press("Enter");
    await page.getByText("Working.").nth(1).waitFor();
    models.open("reload");
    await page.locator(".ask").waitFor();
    // Leaves the server, as a slowly loading page does.
    await page.goto("about:blank");
    await page.goto(address);
    await page.locator(".ask").getByRole("button", { name: "Allow", exact: true }).click();
    await page.getByText("Second.").waitFor();
    assert.equal(await readFile(join(console.server.projectDir, "made.txt"), "utf8"), "list\nreload\n");
  });

  it("appear below their call, and show a command after 399 empty lines and the end of a long line", async (t) => {
    const home = await makeTempDir();
    t.after(() => home.remove());
    const text = (content: string) => [{ type: "text" as const, text: content }];
    const [id = ""] = await seedSessions(home.path, [
      {
        mode: "ask",
        messages: [{ parts: text("Question.") }, { role: "assistant", parts: text("Answer.\n\n".repeat(12)) }],
      },
    ]);
    const console = await startConsole(t, { home: home.path, files: { "a.txt": "a\n" } });
    const hidden = `echo hello${"\n".repeat(400)}rm -rf ./precious`;
    const late = `x = 1;${" ".repeat(3000)}evil();`;
    console.models.enqueue(
      call("bash", { command: hidden }),
      call("read", { filePath: "a.txt" }),
      call("edit", { filePath: "a.txt", oldString: "a\n", newString: `${late}\n` }),
    );
    const { page } = await openWindow(t, await browser(), sessionUrl(console, id), {
      width: 900,
      height: 700,
      expected: SERVER_GONE,
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
    await until(page, AT_END);
    for (const element of [page.locator(".call-waiting"), page.locator(".user-text", { hasText: "Go on" })]) {
      const place = await element.boundingBox();
      const foot = await page.locator(".foot").boundingBox();
      assert.ok(
        place && foot && place.y >= 48 && place.y + place.height <= foot.y,
        `${JSON.stringify(place)} ${JSON.stringify(foot)}`,
      );
    }
    assert.equal(await page.getByRole("button", { name: "To the end" }).count(), 0);
    await page.getByRole("button", { name: "Reject" }).click();
    const line = page.locator(".ask .diff-row.added .diff-text");
    await line.waitFor();
    await line.getByRole("button", { name: "… 1,013 more characters" }).click();
    assert.equal(await line.textContent(), late);
    const isWide = `(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)(document.querySelector(".ask .diff-lines"))`;
    assert.equal(await page.evaluate(isWide), false);
    await page.getByRole("button", { name: "Reject" }).click();
    await page.locator(".answer", { hasText: "OK." }).waitFor();
  });
});

/** Expression: whether the timeline is scrolled to its end. */
const AT_END = `(() => {
  const box = document.getElementById("timeline");
  return box.scrollHeight - box.clientHeight - box.scrollTop < 2;
})()`;
