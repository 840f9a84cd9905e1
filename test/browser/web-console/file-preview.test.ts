import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { after, describe, it } from "node:test";
import { findAccessibilityFaults, findOverflowingElements } from "../../helpers/accessibility.js";
import { NO_BROWSER, openWindow, shareBrowser, startConsole } from "../../helpers/console.js";
import { fetchJson, STOPPED_SERVER_ERROR, waitForPage } from "../../helpers/console-runs.js";
import { callStep, textStep } from "../../helpers/fake-model-server.js";

const browser = shareBrowser({ after });
const LINE_COUNT = 400;
const SOURCE = Array.from({ length: LINE_COUNT }, (_, index) => `export const value${index + 1} = "${index}";`).join(
  "\n",
);
const ANSWER = [
  "I read `src/a.ts`, mostly `src/a.ts:300`, but not `src/b.ts`.",
  "See [the binary](data.bin), [a missing file](src/missing.ts#L3) and [a site](https://example.com/a.ts).",
].join(" ");

describe("the preview of files", { skip: NO_BROWSER }, () => {
  for (const { isDark, width } of [
    { isDark: false, width: 1280 },
    { isDark: true, width: 360 },
  ])
    it(`opens from tool calls and answers, ${isDark ? "dark" : "light"}, ${width} pixels`, async (t) => {
      const console = await startConsole(t, {
        files: { "src/a.ts": SOURCE, "src/b.ts": "", "data.bin": new Uint8Array([0, 1, 2, 255]) },
      });
      console.models.enqueue(callStep("read", { filePath: "src/a.ts" }), textStep(ANSWER));
      const { page } = await openWindow(t, await browser(), console.url, {
        width,
        height: 720,
        isDark,
        hasSharedWorkers: false,
        expectedFaults: new RegExp(`${STOPPED_SERVER_ERROR.source}|404`),
      });
      await page.getByRole("textbox", { name: "Message" }).fill("Look");
      await page.getByRole("button", { name: "Send", exact: true }).click();
      const answer = page.locator(".answer");
      await answer.getByRole("link", { name: "the binary" }).waitFor();
      const expectedLinks = ["src/a.ts", "src/a.ts:300", "the binary", "a missing file", "a site"];
      await waitForPage(page, `document.querySelectorAll(".answer a").length >= ${expectedLinks.length}`);
      assert.deepEqual(await answer.getByRole("link").allTextContents(), expectedLinks);
      const panel = page.getByRole("complementary", { name: "File" });

      await page.getByRole("link", { name: /^Open .*src\/a\.ts$/ }).click();
      await panel.getByText(`value${LINE_COUNT} =`).waitFor();
      await panel.locator(".hljs-keyword").first().waitFor();
      assert.deepEqual(await findAccessibilityFaults(page), []);
      assert.deepEqual(await findOverflowingElements(page), []);
      await page.keyboard.press("Escape");
      await panel.waitFor({ state: "detached" });

      // The file opens in the editor that the settings name.
      const sessionAddress = page.url();
      await page.goto(`${console.url}#/settings`);
      await page.getByRole("combobox", { name: "Editor" }).selectOption({ label: "Zed" });
      await page.goto(sessionAddress);

      await answer.getByRole("link", { name: "src/a.ts:300" }).click();
      await panel.getByRole("img", { name: "Line 300" }).waitFor();
      const editorLink = panel.getByRole("link", { name: "Open in Zed" });
      assert.equal(await editorLink.getAttribute("href"), `zed://file${console.server.projectDir}/src/a.ts:300`);
      await waitForPage(
        page,
        `(() => {
          const { top, bottom } = document.querySelector(".preview-mark").getBoundingClientRect();
          return top >= 0 && bottom <= innerHeight;
        })()`,
      );
      // The button to close does not scroll away.
      await waitForPage(page, `document.querySelector(".preview .panel-head").getBoundingClientRect().top === 0`);
      await panel.getByRole("button", { name: "Close" }).click();

      await answer.getByRole("link", { name: "the binary" }).click();
      await panel.getByText("This file is not text").waitFor();
      await page.goBack();
      await panel.waitFor({ state: "detached" });

      await answer.getByRole("link", { name: "a missing file" }).click();
      await panel.getByText("This file does not exist").waitFor();
      await panel.getByRole("button", { name: "Close" }).click();

      // A reload shows the file of the address, which was deleted meanwhile.
      await answer.getByRole("link", { name: "src/a.ts", exact: true }).click();
      await panel.getByText("value1 =").waitFor();
      const [session] = (await fetchJson<{ sessions: { project_dir: string }[] }>(console.server, "/api/sessions"))
        .sessions;
      await rm(`${session?.project_dir}/src/a.ts`);
      await page.reload();
      await panel.getByText("This file does not exist").waitFor();

      // The project folder, of which the links are made, is received after the messages.
      let isBlocked = true;
      await page.route(/worker/, (route) => (isBlocked ? route.abort() : route.continue()));
      await page.reload();
      await answer.getByText("but not").waitFor();
      assert.deepEqual(await answer.locator("a code").allTextContents(), []);
      isBlocked = false;
      await answer.getByRole("link", { name: "src/a.ts:300" }).waitFor({ state: "attached" });
    });
});
