import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { NO_BROWSER, openWindow, shareBrowser, startConsole } from "../../helpers/console.js";
import { STOPPED_SERVER_ERROR } from "../../helpers/console-runs.js";
import { callStep, textStep } from "../../helpers/fake-model-server.js";

const browser = shareBrowser({ after });

describe("the session of a subagent", { skip: NO_BROWSER }, () => {
  it("opens from the row of its tool call, is in no list, and links back to its parent session", async (t) => {
    const console = await startConsole(t, { files: { "a.txt": "one\n" } });
    console.models.enqueue(
      callStep("task", { description: "Count the lines", prompt: "How many lines has a.txt?" }),
      callStep("read", { filePath: "a.txt" }),
      textStep("One line, in a.txt."),
      textStep("It has one line."),
    );
    const { page } = await openWindow(t, await browser(), console.url, { expectedFaults: STOPPED_SERVER_ERROR });
    await page.getByRole("textbox", { name: "Message" }).fill("Count");
    await page.keyboard.press("Enter");
    await page.getByText("It has one line.").waitFor();
    const parentUrl = page.url();
    const row = page.getByRole("button", { name: /Ask a subagent Count the lines/ });
    await row.click();
    await page.getByText("One line, in a.txt.").waitFor();
    await page.getByRole("link", { name: "Open the subagent: Count the lines" }).click();
    await page.getByText("How many lines has a.txt?").waitFor();
    await page.getByRole("button", { name: /Read a\.txt/ }).waitFor();
    assert.notEqual(page.url(), parentUrl);
    assert.equal(await page.locator("nav, aside").getByText("Count the lines").count(), 0);
    // The parent session undoes the work of its subagents.
    const prompt = page.getByRole("textbox", { name: "Message" });
    await prompt.fill("/");
    await page.getByRole("option", { name: "/compact" }).waitFor();
    assert.equal(await page.getByRole("option", { name: "/undo" }).count(), 0);
    await prompt.fill("");
    await page.getByRole("link", { name: "Back to the parent session" }).click();
    await page.getByText("It has one line.").waitFor();
    assert.equal(page.url(), parentUrl);
    await prompt.fill("/");
    await page.getByRole("option", { name: "/undo" }).waitFor();
  });
});
