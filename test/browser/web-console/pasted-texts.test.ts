import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import type { Page } from "playwright-core";
import { findAccessibilityFaults, findOverflowingElements } from "../../helpers/accessibility.js";
import { NO_BROWSER, openWindow, shareBrowser, startConsole, type ConsoleServer } from "../../helpers/console.js";
import { fetchJson, STOPPED_SERVER_ERROR, waitForPage } from "../../helpers/console-runs.js";
import { textStep } from "../../helpers/fake-model-server.js";

const browser = shareBrowser({ after });
const LONG_TEXT = Array.from({ length: 120 }, (_, index) => `line ${index} costs $& $1`).join("\n");
const getPrompt = (page: Page) => page.getByRole("textbox", { name: "Message" });

async function paste(page: Page, text: string): Promise<void> {
  await page.evaluate(`navigator.clipboard.writeText(${JSON.stringify(text)})`);
  await getPrompt(page).press("Control+v");
}

async function fetchPrompts({ server }: ConsoleServer): Promise<unknown[]> {
  const { sessions } = await fetchJson<{ sessions: { id: string }[] }>(server, "/api/sessions");
  const path = `/api/sessions/${sessions[0]?.id}/messages`;
  const { messages } = await fetchJson<{ messages: { role: string; content: unknown }[] }>(server, path);
  return messages.filter(({ role }) => role === "user").map(({ content }) => content);
}

describe("a long pasted text", { skip: NO_BROWSER }, () => {
  for (const width of [1280, 360])
    it(`is folded in the prompt and sent in full, also after a reload, ${width} pixels`, async (t) => {
      const console = await startConsole(t);
      console.models.enqueue(textStep("Read."), textStep("Read again."));
      const { page } = await openWindow(t, await browser(), console.url, {
        width,
        expectedFaults: STOPPED_SERVER_ERROR,
      });
      await getPrompt(page).fill("Look: ");
      await paste(page, "a short text ");
      await paste(page, LONG_TEXT);
      const pastes = page.getByRole("list", { name: "Pasted texts" });
      await pastes.getByText("Pasted 120 lines #1").waitFor();
      assert.equal(await getPrompt(page).inputValue(), "Look: a short text [Pasted 120 lines #1]");
      assert.deepEqual(await findAccessibilityFaults(page), []);
      assert.deepEqual(await findOverflowingElements(page), []);
      await page.reload();
      await pastes.getByText("Pasted 120 lines #1").waitFor();
      await page.getByRole("button", { name: "Send", exact: true }).click();
      await page.getByText("Read.", { exact: true }).waitFor();
      assert.deepEqual(await fetchPrompts(console), [`Look: a short text ${LONG_TEXT}`]);
      await waitForPage(page, `localStorage.getItem("gantry.pastes") === null`);

      // A paste is expanded, and another one is removed.
      await paste(page, LONG_TEXT);
      await pastes.getByRole("button", { name: "Expand Pasted 120 lines #1" }).click();
      assert.equal(await getPrompt(page).inputValue(), LONG_TEXT);
      await getPrompt(page).fill("Kept ");
      await paste(page, LONG_TEXT);
      await pastes.getByRole("button", { name: /^Remove Pasted/ }).click();
      assert.equal(await getPrompt(page).inputValue(), "Kept ");
      assert.equal(await pastes.count(), 0);
      // The Undo of the browser removes a paste too.
      await paste(page, LONG_TEXT);
      await pastes.waitFor();
      await getPrompt(page).press("Control+z");
      await waitForPage(page, `!document.getElementById("prompt").value.includes("Pasted")`);
    });

  it("returns to the field as it was if the request fails", async (t) => {
    const console = await startConsole(t);
    const { page } = await openWindow(t, await browser(), console.url, { expectedFaults: /ERR_|500/ });
    await getPrompt(page).waitFor();
    await paste(page, LONG_TEXT);
    await page.route(/\/api\/run$/, (route) =>
      route.fulfill({ status: 500, json: { error: "broken", code: "internal" } }),
    );
    await getPrompt(page).press("Enter");
    await page.getByRole("alert").getByText("Not sent").waitFor();
    assert.equal(await getPrompt(page).inputValue(), "[Pasted 120 lines #1]");
    await page.getByRole("list", { name: "Pasted texts" }).waitFor();
    await page.unroute(/\/api\/run$/);
    console.models.enqueue(textStep("Read."));
    await getPrompt(page).press("Enter");
    await page.getByText("Read.", { exact: true }).waitFor();
    assert.deepEqual(await fetchPrompts(console), [LONG_TEXT]);
  });
});
