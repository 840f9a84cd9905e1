import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { findAccessibilityFaults, findOverflowingElements } from "../../helpers/accessibility.js";
import { NO_BROWSER, openWindow, shareBrowser, startConsole } from "../../helpers/console.js";
import { fetchJson, STOPPED_SERVER_ERROR, waitForCondition } from "../../helpers/console-runs.js";
import { callStep } from "../../helpers/fake-model-server.js";

const browser = shareBrowser({ after });

/** Views without a session, and a text that each shows when it is complete. */
const VIEWS = [
  ["questions", "1 open question"],
  ["settings", "accepts runs"],
  ["search", "Search the messages of all sessions"],
  ["runs", "1 active"],
  ["mcp", "no MCP servers"],
  ["", "What should the agent do?"],
] as const;

describe("the views of all sessions", { skip: NO_BROWSER }, () => {
  for (const isDark of [false, true])
    for (const width of [1280, 360])
      it(`have no accessibility findings and no sideways scroll, ${isDark ? "dark" : "light"}, ${width} pixels`, async (t) => {
        const console = await startConsole(t);
        console.models.enqueue(callStep("bash", { command: "echo 1" }));
        const { page } = await openWindow(t, await browser(), `${console.url}#/questions`, {
          width,
          height: 720,
          isDark,
          expectedFaults: STOPPED_SERVER_ERROR,
        });
        await page.getByText("No open questions.").waitFor();
        const body = JSON.stringify({ message: "Ask", mode: "ask", background: true });
        await fetchJson(console.server, "/api/run", { method: "POST", body });
        const checkView = async (view: string) => {
          assert.deepEqual(await findAccessibilityFaults(page), [], view);
          assert.deepEqual(await findOverflowingElements(page), [], view);
        };
        for (const [name, text] of VIEWS) {
          await page.evaluate(`location.hash = "#/${name}"`);
          await page.getByText(text).waitFor();
          await checkView(name);
          await page.keyboard.press("Control+k");
          await page.getByRole("dialog", { name: "Commands" }).waitFor();
          if (name === "") await checkView("palette");
          await page.keyboard.press("Escape");
        }
        await page.getByRole("textbox", { name: "Message" }).press("Escape");
        await page.keyboard.press("?");
        await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
        await checkView("help");
        await page.keyboard.press("Escape");
        // The skip link leads to the content of a view without a prompt.
        await page.evaluate(`location.hash = "#/settings"`);
        await page.locator(".skip").focus();
        await page.keyboard.press("Enter");
        await waitForCondition(async () => (await page.evaluate("document.activeElement.id")) === "content");
      });

  it("have no accessibility findings in a page that needs a login", async (t) => {
    const console = await startConsole(t, { config: { server: { required_headers: { "X-Key": "k" } } } });
    const { page } = await openWindow(t, await browser(), console.url, { expectedFaults: /401|ERR_/ });
    await page.locator(".locked").waitFor();
    assert.deepEqual(await findAccessibilityFaults(page), []);
  });
});
