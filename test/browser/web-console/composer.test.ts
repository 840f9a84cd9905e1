import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Page } from "playwright-core";
import { findAccessibilityFaults } from "../../helpers/accessibility.js";
import {
  NO_BROWSER,
  openWindow,
  sessionUrl,
  shareBrowser,
  startConsole,
  type ConsoleServer,
} from "../../helpers/console.js";
import {
  fetchJson,
  createFileHooks,
  STOPPED_SERVER_ERROR,
  waitForCondition,
  waitForPage,
} from "../../helpers/console-runs.js";
import { callStep, textStep } from "../../helpers/fake-model-server.js";
import { countProcesses, pickUniqueSeconds } from "../../helpers/server-runs.js";

const hooks = createFileHooks(after);
const browser = shareBrowser(hooks);
/** A PNG file of one pixel, in base64. */
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** Returns a script that pastes or drops a file like a browser. */
const createFileEventScript = (
  event: "paste" | "drop",
  file: { name: string; type: string; base64: string },
) => `(() => {
  const bytes = Uint8Array.from(atob(${JSON.stringify(file.base64)}), (character) => character.charCodeAt(0));
  const data = new DataTransfer();
  data.items.add(new File([bytes], ${JSON.stringify(file.name)}, { type: ${JSON.stringify(file.type)} }));
  const init = { bubbles: true, cancelable: true };
  const event = ${JSON.stringify(event)} === "paste"
    ? new ClipboardEvent("paste", { ...init, clipboardData: data })
    : new DragEvent("drop", { ...init, dataTransfer: data });
  document.getElementById("prompt").dispatchEvent(event);
})()`;

const getPromptField = (page: Page) => page.getByRole("textbox", { name: "Message" });

describe("the prompt field", { skip: NO_BROWSER }, () => {
  let consoleServer: ConsoleServer;
  before(async () => {
    consoleServer = await startConsole(hooks, { modelEntries: [{ id: "m1", input: ["text", "image"] }] });
  });
  const openPage = async (t: { after(cleanup: () => Promise<void>): void }, url = consoleServer.url) =>
    (await openWindow(t, await browser(), url, { expectedFaults: STOPPED_SERVER_ERROR })).page;
  /** Starts a session with a run that waits for `gate`. Resolves with the session's id. */
  async function startRun(page: Page, gate: string): Promise<string> {
    consoleServer.models.enqueue({ say: [{ text: "Working. " }, { gate }, { text: "Worked." }] });
    await getPromptField(page).fill("Work");
    await page.keyboard.press("Enter");
    await page.getByText("Working.").waitFor();
    return /#\/s\/(.+)$/.exec(page.url())?.[1] ?? "";
  }

  async function fetchUserTexts(id: string): Promise<unknown[]> {
    const path = `/api/sessions/${id}/messages`;
    const { messages } = await fetchJson<{ messages: { role: string; content: unknown }[] }>(
      consoleServer.server,
      path,
    );
    return messages.filter(({ role }) => role === "user").map(({ content }) => content);
  }

  it("sends pasted, dropped and selected files to the model, but no removed file", async (t) => {
    const page = await openPage(t);
    await getPromptField(page).waitFor();
    await page.evaluate(createFileEventScript("paste", { name: "image.png", type: "image/png", base64: PIXEL }));
    const text = Buffer.from("Größe 42\n").toString("base64");
    await page.evaluate(createFileEventScript("drop", { name: "notes.md", type: "text/markdown", base64: text }));
    await page.locator('input[type="file"]').setInputFiles([
      { name: "data.csv", mimeType: "text/csv", buffer: Buffer.from("a,b\n1,2\n") },
      { name: "wrong.txt", mimeType: "text/plain", buffer: Buffer.from("xyzzy") },
    ]);
    await page.getByRole("button", { name: "Remove wrong.txt" }).click();
    const files = page.getByRole("list", { name: "Attached files" });
    assert.deepEqual(await files.locator("bdi").allTextContents(), ["image.png", "notes.md", "data.csv"]);
    await getPromptField(page).fill("What is this?");
    await page.keyboard.press("Enter");
    await page.getByText("OK.", { exact: true }).waitFor();
    assert.equal(await files.count(), 0);
    const lastRequest = consoleServer.models.requests.filter(({ tools }) => tools.length > 0).at(-1);
    const requestJson = JSON.stringify(lastRequest);
    assert.ok(requestJson.includes(PIXEL), "the request contains the image");
    assert.ok(
      requestJson.includes("Größe 42") && requestJson.includes("notes.md"),
      "the request contains the text file and its name",
    );
    assert.ok(requestJson.includes("1,2") && !requestJson.includes("xyzzy"));
  });

  it("completes a slash command, shows the command as typed, and sends the command's template to the model", async (t) => {
    const { projectDir } = consoleServer.server;
    await mkdir(join(projectDir, ".agents/commands"), { recursive: true });
    await writeFile(join(projectDir, ".agents/commands/review.md"), "---\ndescription: Look\n---\nReview $1 now.");
    const page = await openPage(t);
    await getPromptField(page).fill("/re");
    const option = page.getByRole("option", { name: "/review Look" });
    await option.waitFor();
    await page.keyboard.press("Tab");
    await option.waitFor({ state: "detached" });
    await page.keyboard.type("a.ts");
    await page.keyboard.press("Enter");
    await page.getByText("OK.", { exact: true }).waitFor();
    await page.getByText("/review a.ts", { exact: true }).first().waitFor();
    const lastRequest = consoleServer.models.requests.filter(({ tools }) => tools.length > 0).at(-1);
    assert.ok(JSON.stringify(lastRequest).includes("Review a.ts now."));
  });

  it("completes the path of a file after @, by keyboard and by click", async (t) => {
    const { projectDir } = consoleServer.server;
    await mkdir(join(projectDir, "src"), { recursive: true });
    await writeFile(join(projectDir, "src/complete me.ts"), "");
    await writeFile(join(projectDir, "src/completion.ts"), "");
    const page = await openPage(t);
    await getPromptField(page).pressSequentially("Read @completi");
    await page.getByRole("option", { name: "src/completion.ts" }).waitFor();
    assert.deepEqual(await findAccessibilityFaults(page), []);
    await page.keyboard.press("Enter");
    await waitForPage(page, `document.getElementById("prompt").value === "Read src/completion.ts "`);
    await getPromptField(page).pressSequentially("and @complete");
    await page.getByRole("option", { name: "src/complete me.ts" }).click();
    await waitForPage(
      page,
      `document.getElementById("prompt").value === 'Read src/completion.ts and "src/complete me.ts" '`,
    );
    await getPromptField(page).fill("");
  });

  it("shows earlier prompts on Arrow Up, and searches them on Ctrl+R", async (t) => {
    const page = await openPage(t);
    for (const text of ["The oldest prompt", "The newest prompt"]) {
      await page.goto(`${consoleServer.url}#/`);
      await page.getByRole("heading", { name: "New session" }).waitFor();
      await getPromptField(page).fill(text);
      await page.keyboard.press("Enter");
      await page.getByText("OK.", { exact: true }).waitFor();
    }
    const waitForText = (text: string) =>
      waitForPage(page, `document.getElementById("prompt").value === ${JSON.stringify(text)}`);
    await getPromptField(page).press("ArrowUp");
    await waitForText("The newest prompt");
    await getPromptField(page).press("ArrowUp");
    await waitForText("The oldest prompt");
    await getPromptField(page).press("ArrowDown");
    await waitForText("The newest prompt");
    await getPromptField(page).fill("typed");
    // A typed text is not replaced.
    await getPromptField(page).press("ArrowUp");
    await getPromptField(page).press("Control+r");
    await page.getByRole("combobox", { name: "Search earlier prompts" }).fill("OLDEST");
    await page.getByRole("option", { name: "The oldest prompt" }).waitFor();
    assert.deepEqual(await findAccessibilityFaults(page), []);
    await page.keyboard.press("Enter");
    await waitForText("typed\nThe oldest prompt");
  });

  it("stops a run during a command, and the process of the command ends", async (t) => {
    const { page, requests } = await openWindow(t, await browser(), consoleServer.url);
    const command = `sleep ${pickUniqueSeconds()}`;
    consoleServer.models.enqueue(callStep("bash", { command: `${command}; echo over` }));
    await getPromptField(page).fill("Sleep");
    await page.keyboard.press("Enter");
    await waitForCondition(async () => (await countProcesses(command)) > 0);
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await page.getByRole("button", { name: "Stop", exact: true }).waitFor({ state: "detached" });
    await waitForCondition(async () => (await countProcesses(command)) === 0);
    const { runs } = await fetchJson<{ runs: { state: string }[] }>(consoleServer.server, "/api/runs?size=1");
    // The requests show whether a failed cancel was lost in the page or in the server.
    const cancelRequestCount = requests.filter((request) => request.endsWith("/cancel")).length;
    assert.deepEqual({ state: runs[0]?.state, cancelRequestCount }, { state: "cancelled", cancelRequestCount: 1 });
  });

  it("steers an active run, adds prompts to the queue, and returns a withdrawn prompt to the field", async (t) => {
    const page = await openPage(t);
    const id = await startRun(page, "steer");
    consoleServer.models.enqueue(textStep("Heard."));
    await getPromptField(page).fill("Only in lib");
    await page.keyboard.press("Enter");
    await waitForPage(page, `document.getElementById("prompt").value === ""`);
    const runMode = page.getByRole("combobox", { name: "During the run" });
    await runMode.selectOption("queue");
    for (const text of ["Then this", "And that"]) {
      await getPromptField(page).fill(text);
      await page.getByRole("button", { name: "Add to queue" }).click();
      await page.getByText(`Queued: ${text}`).waitFor();
    }
    const lastPrompt = page.getByRole("listitem").filter({ hasText: "Queued: And that" });
    await lastPrompt.getByRole("button", { name: "Edit" }).click();
    await waitForPage(page, `document.getElementById("prompt").value === "And that"`);
    await lastPrompt.waitFor({ state: "detached" });
    consoleServer.models.enqueue(textStep("Done then."));
    consoleServer.models.openGate("steer");
    await page.getByText("Done then.").waitFor();
    const { messages } = await fetchJson<{ messages: { role: string; content: string }[] }>(
      consoleServer.server,
      `/api/sessions/${id}/messages`,
    );
    assert.deepEqual(
      messages.filter(({ role }) => role === "user").map(({ content }) => content),
      ["Work", "Only in lib", "Then this"],
    );
  });

  it("shows an unread steer message, also after a reload, and gets the message back when the run is stopped", async (t) => {
    const page = await openPage(t);
    for (const needsReload of [false, true]) {
      await page.goto(consoleServer.url);
      await page.getByRole("heading", { name: "New session" }).waitFor();
      const id = await startRun(page, `given back ${needsReload}`);
      await getPromptField(page).fill("Only in lib");
      const steerResponse = page.waitForResponse(/\/steer$/);
      await page.keyboard.press("Enter");
      const pendingNote = page.getByText("Not read yet: Only in lib");
      await pendingNote.waitFor();
      // A reload would cancel a request that has no answer yet, and the text would return to the field.
      await steerResponse;
      if (needsReload) {
        await page.reload();
        await pendingNote.waitFor();
      }
      await getPromptField(page).fill("And then");
      await page.getByRole("button", { name: "Stop", exact: true }).click();
      await waitForPage(page, `document.getElementById("prompt").value === "Only in lib\\nAnd then"`);
      await pendingNote.waitFor({ state: "detached" });
      const { messages } = await fetchJson<{ messages: { role: string; content: string }[] }>(
        consoleServer.server,
        `/api/sessions/${id}/messages`,
      );
      assert.deepEqual(
        messages.filter(({ role }) => role === "user").map(({ content }) => content),
        ["Work"],
      );
      consoleServer.models.openGate(`given back ${needsReload}`);
    }
  });

  it("stops the queue with the run, and sends or edits the queued prompts when the user asks for it", async (t) => {
    const page = await openPage(t);
    const id = await startRun(page, "held");
    await page.getByRole("combobox", { name: "During the run" }).selectOption("queue");
    for (const text of ["First of the queue", "Second of the queue"]) {
      await getPromptField(page).fill(text);
      await page.getByRole("button", { name: "Add to queue" }).click();
      await page.getByText(`Queued: ${text}`).waitFor();
    }
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    const heldPrompts = page.getByRole("region", { name: "Prompts that were not sent" });
    await heldPrompts.getByText("2 prompts were not sent").waitFor();
    await page.getByText("The run was stopped").waitFor();
    assert.deepEqual(await fetchUserTexts(id), ["Work"]);

    // Another window shows the same prompts. A prompt that is edited there is edited once.
    await page.reload();
    await heldPrompts.getByText("2 prompts were not sent").waitFor();
    await heldPrompts.getByRole("button", { name: "Edit: Second of the queue" }).click();
    await waitForPage(page, `document.getElementById("prompt").value === "Second of the queue"`);
    consoleServer.models.enqueue(textStep("Queue sent."));
    await heldPrompts.getByRole("button", { name: "Send it" }).click();
    await page.getByText("Queue sent.").waitFor();
    await heldPrompts.waitFor({ state: "detached" });
    assert.deepEqual(await fetchUserTexts(id), ["Work", "First of the queue"]);
    consoleServer.models.openGate("held");
  });

  it("shows the newest draft in all windows of a session, and a text that a window would overwrite", async (t) => {
    const { page, context } = await openWindow(t, await browser(), consoleServer.url, {
      expectedFaults: /^window: about:blank$/,
    });
    await getPromptField(page).fill("from the first window");
    const otherPage = await context.newPage();
    await otherPage.goto(consoleServer.url);
    await waitForPage(otherPage, `document.getElementById("prompt").value === "from the first window"`);
    await getPromptField(otherPage).fill("from the other window");
    await waitForPage(page, `document.getElementById("prompt").value === "from the other window"`);
    await otherPage.close();
    await page.reload();
    await waitForPage(page, `document.getElementById("prompt").value === "from the other window"`);
  });

  it("says that drafts are not stored while the browser's storage is full", async (t) => {
    const page = await openPage(t);
    await getPromptField(page).waitFor();
    await page.evaluate(`{
      let filler = "x".repeat(1024 * 1024);
      for (let key = 0; filler !== ""; key++)
        try { localStorage.setItem("filler" + key, filler); } catch { filler = filler.slice(1 + filler.length / 2); }
    }`);
    await getPromptField(page).fill("a draft without storage");
    await page.getByText("The storage of this browser is full.").waitFor();
    const id = await startRun(page, "full");
    await getPromptField(page).fill("another draft without storage");
    await page.evaluate(`location.hash = "#/"`);
    await page.getByRole("heading", { name: "New session" }).waitFor();
    await page.evaluate(`location.hash = "#/s/${id}"`);
    await waitForPage(page, `document.getElementById("prompt").value === "another draft without storage"`);
    await page.evaluate(`localStorage.clear()`);
    await getPromptField(page).fill("a stored draft");
    await page.getByText("The storage of this browser is full.").waitFor({ state: "detached" });
    await page.reload();
    await waitForPage(page, `document.getElementById("prompt").value === "a stored draft"`);
    consoleServer.models.openGate("full");
  });

  it("keeps the draft of each session over a reload, and a prompt whose response was lost", async (t) => {
    const page = await openPage(t);
    const id = await startRun(page, "draft");
    await getPromptField(page).fill("half a thou");
    await page.evaluate(`location.hash = "#/"`);
    await page.getByRole("heading", { name: "New session" }).waitFor();
    assert.equal(await getPromptField(page).inputValue(), "");
    await page.goto(sessionUrl(consoleServer, id));
    await page.reload();
    await getPromptField(page).waitFor();
    assert.equal(await getPromptField(page).inputValue(), "half a thou");
    consoleServer.models.openGate("draft");
    await page.getByText("Worked.").waitFor();

    await page.getByRole("button", { name: "Stop", exact: true }).waitFor({ state: "detached" });
    const readPrecious = async () => {
      const path = `/api/sessions/${id}/messages`;
      const { messages } = await fetchJson<{ messages: { content: unknown }[] }>(consoleServer.server, path);
      return messages.filter(({ content }) => content === "precious");
    };
    await page.route("**/api/run", (route) => route.abort());
    await getPromptField(page).fill("precious");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").filter({ hasText: "Not sent" }).waitFor();
    assert.equal(await getPromptField(page).inputValue(), "precious");
    await page.unroute("**/api/run");
    // The server receives the request, but the response is lost. The prompt is in a message, in the field, or in both.
    consoleServer.models.enqueue(textStep("Once."));
    await page.route("**/api/run", async (route) => {
      await route.fetch();
      await route.abort();
    });
    await page.keyboard.press("Enter");
    await page.getByText("Once.").waitFor();
    await page.unroute("**/api/run");
    await page.getByRole("button", { name: "Stop", exact: true }).waitFor({ state: "detached" });
    if ((await getPromptField(page).inputValue()) === "precious") await page.keyboard.press("Enter");
    await waitForCondition(async () => (await getPromptField(page).inputValue()) === "");
    assert.equal((await readPrecious()).length, 1);
  });

  it("grows with the number of lines, sends on Enter, and breaks the line on Shift+Enter", async (t) => {
    const page = await openPage(t);
    const readHeight = async () => (await getPromptField(page).boundingBox())?.height ?? 0;
    const initialHeight = await readHeight();
    await getPromptField(page).pressSequentially("one");
    for (let line = 0; line < 5; line++) await page.keyboard.press("Shift+Enter");
    await getPromptField(page).pressSequentially("two");
    // Five more lines are higher than 60 pixels.
    assert.ok((await readHeight()) > initialHeight + 60);
    consoleServer.models.enqueue(textStep("Both lines."));
    await page.keyboard.press("Enter");
    await page.getByText("Both lines.").waitFor();
    assert.equal(await readHeight(), initialHeight);
    const lastRequest = consoleServer.models.requests.filter(({ tools }) => tools.length > 0).at(-1);
    assert.ok(JSON.stringify(lastRequest).includes("one\\n\\n\\n\\n\\ntwo"));
  });
});
