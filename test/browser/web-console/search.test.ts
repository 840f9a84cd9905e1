import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { NO_BROWSER, openWindow, sessionUrl, shareBrowser, startConsole } from "../../helpers/console.js";
import { STOPPED_SERVER_ERROR, waitForPage } from "../../helpers/console-runs.js";
import { seedSessions } from "../../helpers/seeded-sessions.js";
import { makeTempDir } from "../../helpers/temp-dir.js";

const browser = shareBrowser({ after });
const toMessage = (role: "user" | "assistant", text: string) => ({
  role,
  parts: [{ type: "text" as const, text }],
});
/** Whether the marked row contains the text, lies in the visible area and has the focus. */
const isMarked = (text: string) => `(() => {
  const row = document.querySelector(".scroller-row.marked");
  const box = document.getElementById("timeline").getBoundingClientRect();
  const { top } = row?.getBoundingClientRect() ?? { top: -1 };
  return row === document.activeElement && row.textContent.includes(${JSON.stringify(text)}) &&
    top >= box.top && top < box.bottom - 20;
})()`;

describe("the search in messages", { skip: NO_BROWSER }, () => {
  it("groups matches by session, and opens a message that is not loaded by keyboard alone", async (t) => {
    const home = await makeTempDir();
    t.after(() => home.remove());
    const longConversation = Array.from({ length: 2_400 }, (_, index) =>
      toMessage(index % 2 === 0 ? "user" : "assistant", `Text ${index}.${index === 101 ? " The blue heron." : ""}`),
    );
    const [longId = "", , archivedId = ""] = await seedSessions(home.path, [
      { title: "Long", messages: longConversation },
      { title: "Other", messages: [toMessage("user", "A red fox.")] },
      { title: "Archived", archived: true, messages: [toMessage("user", "One heron, and another heron.")] },
    ]);
    const console = await startConsole(t, { home: home.path });
    const { page } = await openWindow(t, await browser(), console.url, { expectedFaults: STOPPED_SERVER_ERROR });
    await page.locator("#prompt").waitFor();
    await page.keyboard.press("Control+k");
    await page.getByRole("dialog", { name: "Commands" }).waitFor();
    await page.keyboard.type("heron");
    await page.getByRole("option", { name: "Search messages for “heron”" }).waitFor();
    await page.keyboard.press("Enter");
    await page.getByText("2 messages in 2 sessions").waitFor();
    assert.equal(await page.title(), "Search");
    const archivedMatches = page.getByRole("region", { name: "Archived" });
    assert.deepEqual(await archivedMatches.locator("mark").allTextContents(), ["heron", "heron"]);
    assert.deepEqual(await page.getByRole("region", { name: "Long" }).locator("mark").allTextContents(), ["heron"]);
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await waitForPage(page, `document.activeElement.textContent.includes("The blue heron")`);
    await page.keyboard.press("Enter");
    await waitForPage(page, isMarked("The blue heron."));
    assert.equal(page.url(), `${sessionUrl(console, longId)}/102`);

    // The list of matches is shown again, and another search replaces it.
    await page.goBack();
    await page.getByText("2 messages in 2 sessions").waitFor();
    const field = page.getByRole("searchbox", { name: "Search the messages of all sessions" });
    await field.fill("another");
    await page.getByText("1 message in 1 session").waitFor();
    await field.press("Enter");
    await waitForPage(page, isMarked("another heron"));
    assert.equal(page.url(), `${sessionUrl(console, archivedId)}/1`);
    await page.keyboard.press("g");
    await page.keyboard.press("m");
    await field.fill("griffin");
    await page.getByText("No message contains these words.").waitFor();
  });

  it("opens a result of a tool inside its call", async (t) => {
    const home = await makeTempDir();
    t.after(() => home.remove());
    const [id = ""] = await seedSessions(home.path, [
      {
        messages: [
          toMessage("user", "Read it"),
          {
            role: "assistant",
            parts: [{ type: "tool_call", id: "call-1", name: "read", arguments: `{"filePath":"a.txt"}` }],
          },
          { role: "tool", toolCallId: "call-1", name: "read", parts: [{ type: "text", text: "A kestrel." }] },
        ],
      },
    ]);
    const console = await startConsole(t, { home: home.path });
    const { page } = await openWindow(t, await browser(), sessionUrl(console, id), {
      expectedFaults: STOPPED_SERVER_ERROR,
    });
    await page.getByText("Read it").waitFor();
    await page.getByRole("link", { name: "Search messages" }).click();
    await page.getByRole("searchbox", { name: "Search the messages" }).fill("kestrel");
    await page.locator(".search-match").click();
    await page.locator(".output", { hasText: "A kestrel." }).waitFor();
  });
});
