import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { noBrowser, openWindow, sessionUrl, sharedBrowser, startConsole } from "../helpers/console.js";
import { call, say } from "../helpers/fake-model-server.js";
import { fetchJson, GONE, until } from "../helpers/console-runs.js";

const browser = sharedBrowser({ after });

describe("questions of a run", { skip: noBrowser }, () => {
  it("are asked in every window with the changes in sight; the first answer counts, whichever window it is of", async (t) => {
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
    const { page } = await openWindow(t, await browser(), console.url, { expected: GONE });
    await page.getByRole("combobox", { name: "Mode" }).selectOption("ask");
    await page.getByRole("textbox", { name: "Message" }).fill("Change a.txt");
    await page.keyboard.press("Enter");
    const ask = page.getByRole("article", { name: "Edit a.txt" });
    await ask.waitFor();
    const id = /#\/s\/(.+)$/.exec(page.url())?.[1] ?? "";
    const second = await openWindow(t, await browser(), sessionUrl(console, id), { expected: GONE });
    const same = second.page.getByRole("article", { name: "Edit a.txt" });
    await same.waitFor();
    for (const one of [ask, same]) {
      assert.deepEqual(await one.locator(".diff-row.removed .diff-text").allTextContents(), ["two is a line"]);
      assert.deepEqual(await one.locator(".diff-row.added .diff-text").allTextContents(), [
        "two is a longer line",
        "four",
      ]);
      assert.deepEqual(await one.locator(".diff-row.added mark").allTextContents(), ["longer "]);
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

  it("are answered with keys: a command, a choice, words of one's own", async (t) => {
    const console = await startConsole(t);
    const { models, server } = console;
    models.enqueue(
      call("bash", { command: "echo made > made.txt", description: "Makes a file" }),
      call("ask_user", { question: "Which colour?", choices: ["Red", "Blue"] }),
      call("ask_user", { question: "Which name?", choices: [], free_text: true }),
      say("Thanks."),
    );
    const { page } = await openWindow(t, await browser(), console.url, { expected: GONE });
    await page.getByRole("combobox", { name: "Mode" }).selectOption("ask");
    await page.getByRole("textbox", { name: "Message" }).fill("Go");
    await page.keyboard.press("Enter");
    const command = page.getByRole("article", { name: /^May bash/ });
    await command.waitFor();
    assert.equal(await command.getByRole("group", { name: "Command" }).textContent(), "echo made > made.txt");
    // Nothing was typed, so the question has the focus.
    await until(page, `document.activeElement.classList.contains("ask")`);
    await page.keyboard.press("1");
    await page.getByRole("article", { name: "Which colour?" }).waitFor();
    assert.ok(existsSync(join(server.projectDir, "made.txt")));
    // Who types is left alone, and digits are what they type.
    await page.getByRole("textbox", { name: "Message" }).focus();
    await page.keyboard.type("21");
    await page.keyboard.press("Escape");
    await page.keyboard.press("a");
    await page.keyboard.press("2");
    const own = page.getByRole("textbox", { name: "Your own answer" });
    await own.fill("Ada 1");
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
});
