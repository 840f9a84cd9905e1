import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { after, describe, it } from "node:test";
import { promisify } from "node:util";
import { findAccessibilityFaults, findOverflowingElements } from "../../helpers/accessibility.js";
import {
  NO_BROWSER,
  openWindow,
  sessionUrl,
  shareBrowser,
  startConsole,
  type WindowOptions,
} from "../../helpers/console.js";
import { STOPPED_SERVER_ERROR, waitForCondition } from "../../helpers/console-runs.js";
import { callStep, textStep } from "../../helpers/fake-model-server.js";
import { runPrompt } from "../../helpers/server-runs.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

const browser = shareBrowser({ after });
/** Browsers report the answer 409 of a conflict. */
const EXPECTED_FAULTS = new RegExp(`${STOPPED_SERVER_ERROR.source}|409 \\(Conflict\\)`);
const OLD_LINES = Array.from({ length: 30 }, (_, index) => `const a${index} = ${index};`);
/** The last line has no line break. */
const OLD_TEXT = OLD_LINES.join("\n");
const execute = promisify(execFile);

const git = (cwd: string, ...args: string[]) =>
  execute("git", ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", ...args], { cwd });

/** A session whose two runs change `src/a.ts` at two places and create a file. */
async function startChanges(
  t: Hooks,
  { hasRepository = false, ...window }: WindowOptions & { hasRepository?: boolean } = {},
) {
  const console = await startConsole(t, { files: { "src/a.ts": OLD_TEXT } });
  const { projectDir } = console.server;
  if (hasRepository) {
    await git(projectDir, "init", "--quiet", "--initial-branch=trunk");
    await git(projectDir, "add", "--all");
    await git(projectDir, "commit", "--quiet", "--message=First");
  }
  const edit = (from: string, to: string) => callStep("edit", { filePath: "src/a.ts", oldString: from, newString: to });
  console.models.enqueue(
    edit("const a1 = 1;", "const a1 = 'one';"),
    textStep("First answer"),
    edit("const a29 = 29;", "const a29 = 'last';"),
    callStep("write", { filePath: "my notes.md", content: "# Notes\n" }),
    textStep("Second answer"),
  );
  const { sessionId } = await runPrompt(console.server, { message: "First" });
  await runPrompt(console.server, { message: "Second", session_id: sessionId });
  const { page } = await openWindow(t, await browser(), sessionUrl(console, sessionId), {
    expectedFaults: EXPECTED_FAULTS,
    ...window,
  });
  await page.getByRole("link", { name: "Changes", exact: true }).click();
  await page.getByText("2 changed files.").waitFor();
  const read = (name: string) => readFile(path.join(projectDir, name), "utf8");
  return { console, page, sessionId, projectDir, read };
}

describe("the changes of a session", { skip: NO_BROWSER }, () => {
  it("are undone by lines and by file, and redone", async (t) => {
    const { page, read, projectDir } = await startChanges(t);
    const file = page.getByRole("region", { name: "Changes of src/a.ts" });
    await file.locator(".hljs-keyword").first().waitFor();
    await file.locator(".added mark", { hasText: "one" }).first().waitFor();
    await file.getByRole("button", { name: "Undo line 2 of src/a.ts" }).click();
    await waitForCondition(async () => (await read("src/a.ts")) === OLD_TEXT.replace("= 29;", "= 'last';"));
    await file.getByRole("button", { name: "Undo line 2 of src/a.ts" }).waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Undo file: my notes.md" }).click();
    await page.getByText("1 changed file.").waitFor();
    await assert.rejects(read("my notes.md"));
    await page.getByRole("button", { name: "Redo" }).click();
    await page.locator("dialog.rewind").getByRole("button", { name: "Redo" }).click();
    await page.locator("dialog.rewind").getByRole("button", { name: "Done" }).click();
    await page.getByText("2 changed files.").waitFor();
    assert.equal(await read("my notes.md"), "# Notes\n");

    // A later change of another program is overwritten only on request.
    await writeFile(path.join(projectDir, "src/a.ts"), "by hand\n");
    await file.getByRole("button", { name: "Undo file: src/a.ts" }).click();
    const problem = page.getByRole("alert");
    await problem.getByText(/Changed outside of the session: .*a\.ts/).waitFor();
    assert.equal(await read("src/a.ts"), "by hand\n");
    await problem.getByRole("button", { name: "Overwrite" }).click();
    await page.getByText("1 changed file.").waitFor();
    assert.equal(await read("src/a.ts"), OLD_TEXT);
  });

  it("are shown by run, and copied as a patch that git applies", async (t) => {
    const { page, read } = await startChanges(t);
    const repository = await tempDir(t, {});
    await git(repository.path, "init", "--quiet");
    const folder = path.join(repository.path, "sub");
    await mkdir(path.join(folder, "src"), { recursive: true });
    await writeFile(path.join(folder, "src/a.ts"), OLD_TEXT);
    await page.getByRole("button", { name: "Copy as patch", exact: true }).click();
    await page.getByText("The patch was copied.").waitFor();
    const patch = await page.evaluate<string>("navigator.clipboard.readText()");
    await writeFile(path.join(repository.path, "a.patch"), patch);
    await git(folder, "apply", "../a.patch");
    for (const name of ["src/a.ts", "my notes.md"])
      assert.equal(await readFile(path.join(folder, name), "utf8"), await read(name));

    await page.getByLabel("Changes of", { exact: false }).first().selectOption({ index: 2 });
    await page.getByText("1 changed file.").waitFor();
    const file = page.getByRole("region", { name: "Changes of src/a.ts" });
    assert.equal(await file.locator(".diff-row.added").count(), 1);
    await page.getByRole("link", { name: "Back to the session" }).click();
    await page.getByText("Second answer").waitFor();
  });

  for (const isDark of [false, true])
    for (const width of [1280, 360])
      it(`have no accessibility findings, ${isDark ? "dark" : "light"}, ${width} pixels`, async (t) => {
        const { page } = await startChanges(t, { isDark, width, height: 720 });
        await page.locator(".hljs-keyword").first().waitFor();
        assert.deepEqual(await findAccessibilityFaults(page), []);
        assert.deepEqual(await findOverflowingElements(page), []);
      });

  it("name the branch and the number of changed files in the header", async (t) => {
    const { page, projectDir } = await startChanges(t, { hasRepository: true });
    const head = page.locator(".head-git");
    await head.getByText("trunk · 2 changed").waitFor();
    await git(projectDir, "checkout", "--quiet", "-b", "topic");
    await page.evaluate("dispatchEvent(new Event('focus'))");
    await head.getByText("topic · 2 changed").waitFor();
  });
});
