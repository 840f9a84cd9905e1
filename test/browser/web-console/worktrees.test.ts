import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { promisify } from "node:util";
import { findAccessibilityFaults, findOverflowingElements } from "../../helpers/accessibility.js";
import { NO_BROWSER, openWindow, shareBrowser, startConsole } from "../../helpers/console.js";
import { STOPPED_SERVER_ERROR } from "../../helpers/console-runs.js";
import { callStep, textStep } from "../../helpers/fake-model-server.js";
import { tempDir } from "../../helpers/temp-dir.js";

const browser = shareBrowser({ after });

async function createRepository(cwd: string): Promise<void> {
  const git = (...args: string[]) =>
    promisify(execFile)("git", ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", ...args], { cwd });
  await git("init", "--quiet");
  await git("add", ".");
  await git("commit", "--quiet", "--message=Begin");
}

describe("a session in a worktree", { skip: NO_BROWSER }, () => {
  for (const { isDark, width } of [
    { isDark: false, width: 1280 },
    { isDark: true, width: 360 },
  ])
    it(`is started and applied in the console, ${isDark ? "dark" : "light"}, ${width} pixels`, async (t) => {
      const worktrees = await tempDir(t);
      const console = await startConsole(t, {
        files: { "a.txt": "old\n" },
        config: { session: { worktrees: worktrees.path } },
      });
      const { projectDir } = console.server;
      const readProject = () => readFile(join(projectDir, "a.txt"), "utf8");
      await createRepository(projectDir);
      const { page } = await openWindow(t, await browser(), console.url, {
        ...{ width, height: 720, isDark },
        expectedFaults: new RegExp(`${STOPPED_SERVER_ERROR.source}|409 \\(Conflict\\)`),
      });
      await page.getByRole("checkbox", { name: /Git worktree/ }).check();
      assert.deepEqual(await findAccessibilityFaults(page), []);
      assert.deepEqual(await findOverflowingElements(page), []);
      const send = async (newText: string) => {
        console.models.enqueue(
          callStep("write", { filePath: "a.txt", content: newText }),
          textStep(`Wrote ${newText}.`),
        );
        await page.getByRole("textbox", { name: "Message" }).fill(`Write ${newText}`);
        await page.getByRole("button", { name: "Send", exact: true }).click();
        await page.locator(".answer", { hasText: `Wrote ${newText}.` }).waitFor();
        // The answer is visible before the run ends, and an apply is refused until then.
        await page.getByRole("button", { name: "Stop", exact: true }).waitFor({ state: "detached" });
      };
      await send("new");
      assert.equal(await readProject(), "old\n");

      await page.getByRole("link", { name: "Changes" }).click();
      const bar = page.getByRole("region", { name: "Worktree" });
      await bar.getByText(`a copy of ${projectDir}.`).waitFor();
      await bar.getByRole("button", { name: "Apply to the folder" }).click();
      await page.getByText("Changes of one file were applied.").waitFor();
      assert.equal(await readProject(), "new");

      // A file that changed in the folder too is left as it is.
      await page.getByRole("link", { name: "Back to the session" }).click();
      await writeFile(join(projectDir, "a.txt"), "mine");
      await send("newer");
      await page.getByRole("link", { name: "Changes" }).last().click();
      await bar.getByRole("button", { name: "Apply to the folder" }).click();
      await bar.getByText("was changed in the project folder too").waitFor();
      assert.equal(await readProject(), "mine");
      assert.deepEqual(await findAccessibilityFaults(page), []);
      assert.deepEqual(await findOverflowingElements(page), []);
      if (width > 600) await page.locator(".side-project-name", { hasText: "worktree" }).waitFor();
    });
});
