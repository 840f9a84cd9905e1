import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { promisify } from "node:util";
import { findAccessibilityFaults, findOverflowingElements } from "../../helpers/accessibility.js";
import { NO_BROWSER, openWindow, shareBrowser, startConsole } from "../../helpers/console.js";
import { fetchJson, STOPPED_SERVER_ERROR, waitForPage } from "../../helpers/console-runs.js";
import { textStep } from "../../helpers/fake-model-server.js";
import { runPrompt } from "../../helpers/server-runs.js";

const browser = shareBrowser({ after });
const git = (cwd: string, ...args: string[]) => promisify(execFile)("git", args, { cwd });

describe("several projects in the console", { skip: NO_BROWSER }, () => {
  for (const { isDark, width } of [
    { isDark: false, width: 1280 },
    { isDark: true, width: 360 },
  ])
    it(`are in one list, are selected, and receive new sessions, ${isDark ? "dark" : "light"}, ${width} pixels`, async (t) => {
      const console = await startConsole(t, { files: { "web/a.txt": "", "docs/a.txt": "" } });
      const { projectDir } = console.server;
      await git(join(projectDir, "web"), "init", "--quiet", "--initial-branch=trunk");
      await mkdir(join(projectDir, "shop"));
      await runPrompt(console.server, { message: "hi", project_dir: join(projectDir, "web") });
      await runPrompt(console.server, { message: "hi", project_dir: join(projectDir, "docs") });
      const { page } = await openWindow(t, await browser(), console.url, {
        ...{ width, height: 720, isDark },
        expectedFaults: new RegExp(`${STOPPED_SERVER_ERROR.source}|400`),
      });
      const showList = async () => {
        if (width < 600) await page.getByRole("button", { name: "Sessions" }).click();
      };
      const waitForProjects = (names: readonly string[]) =>
        waitForPage(
          page,
          `JSON.stringify([...document.querySelectorAll(".side-project-name")].map((e) => e.textContent)) ===
            ${JSON.stringify(JSON.stringify(names))}`,
        );
      await showList();
      await waitForProjects(["docs", "web"]);
      assert.deepEqual(await findAccessibilityFaults(page), []);
      assert.deepEqual(await findOverflowingElements(page), []);

      // The list and new sessions use the selected project.
      await page.getByRole("combobox", { name: "Project" }).selectOption({ label: "web" });
      await waitForPage(page, `document.querySelectorAll(".side-session").length === 1`);
      await waitForProjects([]);
      if (width < 600) await page.getByRole("button", { name: "Close", exact: true }).click();
      await page.getByText(`in ${join(projectDir, "web")} on the branch trunk with 1 changed file.`).waitFor();
      const send = async (text: string, answer: string) => {
        console.models.enqueue(textStep(answer));
        await page.getByRole("textbox", { name: "Message" }).fill(text);
        await page.getByRole("button", { name: "Send", exact: true }).click();
        await page.locator(".answer", { hasText: answer }).waitFor();
      };
      await send("More", "In web.");
      await waitForPage(page, `document.querySelectorAll(".side-session").length === 2`);

      // A folder without sessions is typed. The server refuses folders outside of its roots.
      await page.goto(`${console.url}#/`);
      await page.getByRole("button", { name: "Choose another folder" }).click();
      const field = page.getByRole("combobox", { name: "Project folder" });
      await field.fill("/");
      await field.press("Enter");
      await page.getByText("server.project_roots does not permit it").waitFor();
      assert.deepEqual(await findAccessibilityFaults(page), []);
      assert.deepEqual(await findOverflowingElements(page), []);
      await field.fill("shop");
      await page.getByRole("button", { name: "Use" }).click();
      await page.getByText(`in ${join(projectDir, "shop")}. All`).waitFor();
      await send("New", "In shop.");
      const { sessions } = await fetchJson<{ sessions: { project_dir: string }[] }>(console.server, "/api/sessions");
      assert.deepEqual(
        sessions.map(({ project_dir: folder }) => folder),
        ["shop", "web", "docs", "web"].map((name) => join(projectDir, name)),
      );
      // The session of the other project is not in the list, until all projects are shown.
      await showList();
      await waitForPage(page, `document.querySelectorAll(".side-session").length === 2`);
      await page.getByRole("combobox", { name: "Project" }).selectOption({ label: "All projects" });
      await waitForProjects(["shop", "web", "docs", "web"]);
    });
});
