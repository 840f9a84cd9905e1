import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, describe, it } from "node:test";
import { findAccessibilityFaults, findOverflowingElements } from "../../helpers/accessibility.js";
import { NO_BROWSER, openWindow, sessionUrl, shareBrowser, startConsole } from "../../helpers/console.js";
import { fetchJson, STOPPED_SERVER_ERROR, waitForPage } from "../../helpers/console-runs.js";
import { seedSessions } from "../../helpers/seeded-sessions.js";
import { makeTempDir } from "../../helpers/temp-dir.js";

const browser = shareBrowser({ after });
const MESSAGE_COUNT = 10_000;
const toText = (text: string) => [{ type: "text" as const, text }];
const readClipboard = "navigator.clipboard.readText()";

describe("a conversation in the console", { skip: NO_BROWSER }, () => {
  it("of 10,000 messages shows its first and its last message by a key", async (t) => {
    const home = await makeTempDir();
    t.after(() => home.remove());
    const messages = Array.from({ length: MESSAGE_COUNT }, (_, index) => ({
      role: index % 2 === 0 ? ("user" as const) : ("assistant" as const),
      parts: toText(`Text ${index}.`),
    }));
    const [id = ""] = await seedSessions(home.path, [{ messages }]);
    const console = await startConsole(t, { home: home.path });
    const { page, requests } = await openWindow(t, await browser(), sessionUrl(console, id), {
      expectedFaults: STOPPED_SERVER_ERROR,
    });
    await page.getByText(`Text ${MESSAGE_COUNT - 1}.`).waitFor();
    const countPages = () => requests.filter((request) => request.includes("/messages?")).length;
    const firstCount = countPages();
    await page.locator("#timeline").focus();
    await page.keyboard.press("g");
    await page.keyboard.press("t");
    await page.getByText("Text 0.", { exact: true }).waitFor();
    await waitForPage(page, `document.activeElement.textContent.includes("Text 0.")`);
    assert.ok(countPages() - firstCount <= 12, `${countPages() - firstCount} pages`);
    assert.ok((await page.locator(".scroller-row").count()) < 60);
    await page.keyboard.press("g");
    await page.keyboard.press("e");
    await page.getByText(`Text ${MESSAGE_COUNT - 1}.`).waitFor();
    await page.evaluate(`document.getElementById("timeline").scrollTop -= 600`);
    await page.getByRole("button", { name: "To the first message" }).click();
    await page.getByText("Text 0.", { exact: true }).waitFor();
    await page.getByRole("button", { name: "To the end" }).click();
    await page.getByText(`Text ${MESSAGE_COUNT - 1}.`).waitFor();
  });

  for (const { isDark, width } of [
    { isDark: false, width: 1280 },
    { isDark: true, width: 360 },
  ])
    it(`is copied as a message, an answer and a whole, and downloaded, ${isDark ? "dark" : "light"}, ${width} pixels`, async (t) => {
      const home = await makeTempDir();
      t.after(() => home.remove());
      const [id = ""] = await seedSessions(home.path, [
        {
          title: "Look at: a/b",
          messages: [
            { role: "user", parts: toText("Read **it**") },
            {
              role: "assistant",
              parts: [
                ...toText("I look."),
                { type: "tool_call", id: "call-1", name: "read", arguments: `{"filePath":"a.txt"}` },
              ],
            },
            { role: "tool", toolCallId: "call-1", name: "read", failed: true, parts: toText("missing") },
            { role: "assistant", parts: toText("It is `gone`.") },
          ],
        },
      ]);
      const console = await startConsole(t, { home: home.path });
      const { page } = await openWindow(t, await browser(), sessionUrl(console, id), {
        width,
        isDark,
        expectedFaults: STOPPED_SERVER_ERROR,
      });
      await page.getByRole("button", { name: "Copy the message" }).click();
      await waitForPage(page, `${readClipboard}.then((text) => text === "Read **it**")`);
      await page.getByRole("button", { name: "Copy the answer" }).last().click();
      await waitForPage(page, `${readClipboard}.then((text) => text === "It is \`gone\`.")`);
      await page.getByRole("button", { name: /^Context:/ }).click();
      const section = page.getByRole("region", { name: "Copy and export" });
      await section.getByRole("button", { name: "Copy as Markdown" }).click();
      await page.getByText("The conversation was copied as Markdown.").waitFor();
      const markdown = [
        "# Look at: a/b\n\n## You\n\nRead **it**\n\n",
        "## Agent\n\nI look.\n\n- Read `a.txt` (failed)\n\nIt is `gone`.\n",
      ].join("");
      assert.equal(await page.evaluate(readClipboard), markdown);
      assert.deepEqual(await findAccessibilityFaults(page), []);
      assert.deepEqual(await findOverflowingElements(page), []);
      for (const [name, fileName] of [
        ["Download as Markdown", "Look-at-a-b.md"],
        ["Download as JSON", "Look-at-a-b.json"],
      ] as const) {
        const downloadEvent = page.waitForEvent("download");
        await section.getByRole("button", { name }).click();
        const download = await downloadEvent;
        assert.equal(download.suggestedFilename(), fileName);
        const text = await readFile(await download.path(), "utf8");
        if (fileName.endsWith(".md")) assert.equal(text, markdown);
        else assert.equal((JSON.parse(text) as { messages: unknown[] }).messages.length, 4);
      }
    });

  it("of a pinned session stays at the top of the list, also if the list has not loaded it", async (t) => {
    const home = await makeTempDir();
    t.after(() => home.remove());
    const seeds = Array.from({ length: 80 }, (_, index) => ({ title: `Number ${index}`, messages: [] }));
    await seedSessions(home.path, seeds);
    const console = await startConsole(t, { home: home.path });
    const { page } = await openWindow(t, await browser(), console.url, {
      expectedFaults: new RegExp(`${STOPPED_SERVER_ERROR.source}|404`),
    });
    const list = page.getByRole("navigation", { name: "Sessions" });
    const firstEntry = list.locator(".side-session").first();
    const search = list.getByRole("searchbox", { name: "Search sessions" });
    await firstEntry.getByText("Number 79").waitFor();
    await search.fill("Number 0");
    await firstEntry.getByText("Number 0").waitFor();
    await firstEntry.hover();
    await firstEntry.getByRole("button", { name: "Pin Number 0" }).click();
    await search.fill("");
    await list.getByText("Pinned", { exact: true }).waitFor();
    await firstEntry.getByText("Number 0").waitFor();
    assert.deepEqual(await findAccessibilityFaults(page), []);
    await page.reload();
    await firstEntry.getByText("Number 0").waitFor();
    await list.getByText("Number 79").waitFor();

    // A session that was deleted meanwhile is no longer pinned.
    const { sessions } = await fetchJson<{ sessions: { id: string }[] }>(
      console.server,
      "/api/sessions?search=Number%200",
    );
    await console.server.fetch(`/api/sessions/${sessions[0]?.id}`, { method: "DELETE" });
    await page.reload();
    await firstEntry.getByText("Number 79").waitFor();
    await waitForPage(page, `localStorage.getItem("gantry.pins") === null`);
  });
});
