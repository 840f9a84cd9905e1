import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { findAccessibilityFaults, findOverflowingElements } from "../../helpers/accessibility.js";
import { NO_BROWSER, openWindow, shareBrowser, startConsole } from "../../helpers/console.js";
import { STOPPED_SERVER_ERROR } from "../../helpers/console-runs.js";
import { callStep, textStep } from "../../helpers/fake-model-server.js";

const browser = shareBrowser({ after });

describe("the context meter", { skip: NO_BROWSER }, () => {
  for (const { isDark, width } of [
    { isDark: false, width: 1280 },
    { isDark: true, width: 360 },
  ])
    it(`grows with the conversation and shows its parts, ${isDark ? "dark" : "light"}, ${width} pixels`, async (t) => {
      const console = await startConsole(t, {
        files: { "a.txt": "word ".repeat(4_000) },
        modelEntries: [{ id: "m1", context_window: 20_000 }],
      });
      console.models.enqueue(textStep("Hello."));
      const { page } = await openWindow(t, await browser(), console.url, {
        width,
        height: 720,
        isDark,
        expectedFaults: STOPPED_SERVER_ERROR,
      });
      const prompt = page.getByRole("textbox", { name: "Message" });
      await prompt.fill("Hello");
      await page.getByRole("button", { name: "Send", exact: true }).click();
      await page.getByText("Hello.").waitFor();
      const meter = page.getByRole("button", { name: /^Context: \d+ % of 20k tokens$/ });
      await meter.click();
      const panel = page.getByRole("complementary", { name: "Conversation" });
      const readTokens = async (part: string) => {
        const row = panel.getByRole("row", { name: new RegExp(`^${part} `) });
        return Number((await row.getByRole("cell").textContent())?.replaceAll(",", ""));
      };
      const freeTokens = await readTokens("Free");
      assert.ok((await readTokens("System prompt")) > 0);
      assert.ok((await readTokens("Tools")) > 0);
      assert.equal(await readTokens("Tool outputs"), 0);
      assert.deepEqual(await findAccessibilityFaults(page), []);
      assert.deepEqual(await findOverflowingElements(page), []);

      await panel.getByRole("button", { name: "Close" }).click();
      console.models.enqueue(callStep("read", { filePath: "a.txt" }), textStep("Many words."));
      await prompt.fill("Read a.txt");
      await page.getByRole("button", { name: "Send", exact: true }).click();
      await page.getByText("Many words.").waitFor();
      await meter.click();
      await panel.getByRole("row", { name: /^Tool outputs [1-9]/ }).waitFor();
      assert.ok((await readTokens("Free")) < freeTokens);
      await page.keyboard.press("Escape");
      await panel.waitFor({ state: "detached" });
    });
});
