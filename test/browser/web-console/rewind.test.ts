import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { after, describe, it } from "node:test";
import type { Page } from "playwright-core";
import { findAccessibilityFaults, findOverflowingElements } from "../../helpers/accessibility.js";
import { NO_BROWSER, openWindow, sessionUrl, shareBrowser, startConsole } from "../../helpers/console.js";
import { fetchJson, STOPPED_SERVER_ERROR, waitForCondition, waitForPage } from "../../helpers/console-runs.js";
import { callStep, errorStep, textStep } from "../../helpers/fake-model-server.js";
import { runPrompt } from "../../helpers/server-runs.js";
import type { Hooks } from "../../helpers/temp-dir.js";

const browser = shareBrowser({ after });
/** Browsers report the answer 409 of a conflict, and 404 of a disabled action. */
const EXPECTED_FAULTS = new RegExp(`${STOPPED_SERVER_ERROR.source}|409 \\(Conflict\\)|404 \\(Not Found\\)`);

/** A session with two runs. The second run changes `a.txt` and creates `b.txt`. */
async function startRewind(t: Hooks, config: Record<string, unknown> = {}, window = {}) {
  const console = await startConsole(t, { config, files: { "a.txt": "one\n" } });
  console.models.enqueue(
    textStep("First answer"),
    callStep("edit", { filePath: "a.txt", oldString: "one", newString: "two" }),
    callStep("write", { filePath: "b.txt", content: "new\n" }),
    textStep("Second answer"),
  );
  const { sessionId } = await runPrompt(console.server, { message: "First prompt" });
  await runPrompt(console.server, { message: "Second prompt", session_id: sessionId });
  const url = sessionUrl(console, sessionId);
  const { page } = await openWindow(t, await browser(), url, { expectedFaults: EXPECTED_FAULTS, ...window });
  await page.getByText("Second answer").waitFor();
  const file = (name: string) => path.join(console.server.projectDir, name);
  return { console, sessionId, page, read: (name: string) => readFile(file(name), "utf8"), file };
}

const getPromptField = (page: Page) => page.getByRole("textbox", { name: "Message" });
const getDialog = (page: Page) => page.locator("dialog.rewind");
/** A button below the prompt with this number, from 0. */
const getAction = (page: Page, name: string, index: number) =>
  page.getByRole("button", { name, exact: true }).nth(index);

describe("rewind in the console", { skip: NO_BROWSER }, () => {
  it("sends an edited message in place of the old one, and cancels an edit with Escape", async (t) => {
    const { console, page } = await startRewind(t);
    const field = getPromptField(page);
    await field.fill("A draft");
    await getAction(page, "Edit and resend", 1).click();
    await waitForCondition(async () => (await field.inputValue()) === "Second prompt");
    await waitForPage(page, `document.activeElement.id === "prompt"`);
    assert.deepEqual(await findAccessibilityFaults(page), []);
    await page.keyboard.press("Escape");
    await waitForCondition(async () => (await field.inputValue()) === "A draft");
    assert.equal(await page.locator(".user-text").count(), 2);

    console.models.enqueue(textStep("Third answer"));
    await getAction(page, "Edit and resend", 1).click();
    await waitForCondition(async () => (await field.inputValue()) === "Second prompt");
    await field.fill("Edited prompt");
    await page.keyboard.press("Enter");
    await page.getByText("Third answer").waitFor();
    await page.getByText("Second answer").waitFor({ state: "detached" });
    assert.deepEqual(await page.locator(".user-text").allTextContents(), ["First prompt", "Edited prompt"]);
    assert.equal(await field.inputValue(), "A draft");
  });

  it("names the files that prevent an edit, and overwrites them on request", async (t) => {
    const { console, page, read, file } = await startRewind(t);
    await writeFile(file("a.txt"), "by hand\n");
    await getAction(page, "Edit and resend", 1).click();
    const banner = page.getByRole("region", { name: "Edited message" });
    await banner.getByLabel("Also restore the files").check();
    await page.keyboard.press("Tab");
    await getPromptField(page).press("Enter");
    await banner.getByText(/Changed outside of the session: .*a\.txt/).waitFor();
    await page
      .getByRole("alert")
      .getByText(/^Not sent: a file was changed outside/)
      .waitFor();
    assert.equal(await read("a.txt"), "by hand\n");
    await page.getByText("Second answer").waitFor();
    await banner.getByLabel("Overwrite these files").check();
    console.models.enqueue(textStep("Third answer"));
    await getPromptField(page).press("Enter");
    await page.getByText("Third answer").waitFor();
    assert.equal(await read("a.txt"), "one\n");
  });

  it("rewinds the messages alone, or with the files after a list of them", async (t) => {
    const { page, read, file } = await startRewind(t);
    const dialog = getDialog(page);
    await getAction(page, "Rewind to here", 1).click();
    await dialog.getByRole("button", { name: "Rewind" }).click();
    await dialog.getByText("No file was changed.").waitFor();
    await page.getByText("Second answer").waitFor({ state: "detached" });
    assert.equal(await getPromptField(page).inputValue(), "Second prompt");
    assert.equal(await read("a.txt"), "two\n");
    await dialog.getByRole("button", { name: "Redo" }).click();
    await dialog.getByRole("heading", { name: "Redo" }).waitFor();
    await dialog.getByRole("button", { name: "Redo" }).click();
    await dialog.getByRole("heading", { name: "The undo was reverted" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByText("Second answer").waitFor();

    await writeFile(file("a.txt"), "by hand\n");
    await getAction(page, "Rewind to here", 0).click();
    await dialog.getByLabel("Messages and files").check();
    const files = dialog.getByRole("list", { name: "Files" });
    await files.getByText(/Removed: .*b\.txt/).waitFor();
    await files.getByText(/Changed outside of the session: .*a\.txt/).waitFor();
    assert.equal(await dialog.getByRole("button", { name: "Rewind" }).isDisabled(), true);
    assert.deepEqual(await findAccessibilityFaults(page), []);
    assert.equal(await read("b.txt"), "new\n");
    await dialog.getByLabel(/^Overwrite files/).check();
    await dialog.getByRole("button", { name: "Rewind" }).click();
    await files.getByText(/Restored: .*a\.txt/).waitFor();
    await dialog.getByRole("button", { name: "Done" }).click();
    await waitForCondition(async () => (await page.locator(".user-text").count()) === 0);
    assert.equal(await read("a.txt"), "one\n");
  });

  it("opens a fork with the message in its prompt field", async (t) => {
    const { page, sessionId } = await startRewind(t);
    await getAction(page, "Fork from here", 1).click();
    await waitForCondition(() => Promise.resolve(!page.url().includes(sessionId)));
    await page.getByText("First answer").waitFor();
    assert.equal(await getPromptField(page).inputValue(), "Second prompt");
    assert.deepEqual(await page.locator(".user-text").allTextContents(), ["First prompt"]);
    // A copy without messages is a new session.
    await getAction(page, "Fork from here", 0).click();
    await page.getByText("What should the agent do?").waitFor();
    assert.equal(await getPromptField(page).inputValue(), "First prompt");
  });

  it("retries a failed run", async (t) => {
    const { console, page } = await startRewind(t);
    console.models.enqueue(errorStep(400, "bad request"));
    await getPromptField(page).fill("Fail");
    await page.keyboard.press("Enter");
    await page.getByText("The run failed").waitFor();
    console.models.enqueue(textStep("It works now"));
    await page.getByRole("button", { name: "Retry" }).click();
    await page.getByText("It works now").waitFor();
    assert.equal(await page.locator(".user-text", { hasText: "Fail" }).count(), 1);
  });

  it("explains a server that permits no rewind", async (t) => {
    const { page } = await startRewind(t, { session: { rewind: false } });
    await getAction(page, "Fork from here", 1).click();
    await page.getByText("This server does not permit rewind, undo and fork").first().waitFor();
    await getAction(page, "Rewind to here", 1).click();
    await getDialog(page).getByRole("button", { name: "Rewind" }).click();
    await getDialog(page).getByRole("alert").getByText("session.rewind is false").waitFor();
  });

  for (const isDark of [false, true])
    it(`fits a phone, ${isDark ? "dark" : "light"}`, async (t) => {
      const { page } = await startRewind(t, {}, { width: 360, height: 720, isDark });
      await getAction(page, "Rewind to here", 1).click();
      await getDialog(page).getByLabel("Messages and files").check();
      await getDialog(page)
        .getByText(/Removed: .*b\.txt/)
        .waitFor();
      assert.deepEqual(await findAccessibilityFaults(page), []);
      assert.deepEqual(await findOverflowingElements(page), []);
      await page.keyboard.press("Escape");
      await getDialog(page).waitFor({ state: "detached" });
      assert.deepEqual(await findAccessibilityFaults(page), []);
      assert.deepEqual(await findOverflowingElements(page), []);
    });

  it("undoes and redoes the last run", async (t) => {
    const { page, read, sessionId, console, file } = await startRewind(t);
    const dialog = getDialog(page);
    await page.getByRole("group", { name: "Actions of the run" }).getByRole("button", { name: "Undo" }).click();
    await dialog.getByText(/Restored: .*a\.txt/).waitFor();
    await dialog.getByRole("button", { name: "Undo" }).click();
    await dialog.getByRole("heading", { name: "The run was undone" }).waitFor();
    await dialog.getByText(/Restored: .*a\.txt/).waitFor();
    await page.keyboard.press("Escape");
    await page.getByText("Second answer").waitFor({ state: "detached" });
    assert.equal(await read("a.txt"), "one\n");
    await page.getByRole("group", { name: "Actions of the run" }).getByRole("button", { name: "Redo" }).click();
    await dialog.getByRole("button", { name: "Redo" }).click();
    await dialog.getByRole("heading", { name: "The undo was reverted" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByText("Second answer").waitFor();
    assert.equal(await read("b.txt"), "new\n");

    // The command of the prompt field sends nothing. A file that changed since is reported, with the reason.
    await writeFile(file("a.txt"), "by hand\n");
    await getPromptField(page).fill("/und");
    await page.getByRole("option", { name: /^\/undo/ }).waitFor();
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await dialog.getByText(/Changed outside of the session: .*a\.txt/).waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    assert.equal(await getPromptField(page).inputValue(), "");
    const { runs } = await fetchJson<{ runs: unknown[] }>(console.server, `/api/runs?session_id=${sessionId}`);
    assert.equal(runs.length, 2);

    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Search commands and sessions" }).fill("redo");
    await page.getByRole("option", { name: /^Redo/ }).click();
    await dialog.getByRole("heading", { name: "Redo" }).waitFor();
    await dialog.getByRole("alert").waitFor();
  });
});
