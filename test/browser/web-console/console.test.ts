import assert from "node:assert/strict";
import test, { after } from "node:test";
import type { Page } from "playwright-core";
import {
  waitForPageState,
  NO_BROWSER,
  openWindow,
  sessionUrl,
  shareBrowser,
  startConsole,
} from "../../helpers/console.js";
import { textStep } from "../../helpers/fake-model-server.js";
import { runPrompt, fetchMessages } from "../../helpers/server-runs.js";
import { seedSessions } from "../../helpers/seeded-sessions.js";
import { startServer } from "../../helpers/server.js";
import { makeTempDir } from "../../helpers/temp-dir.js";

const browser = shareBrowser({ after });
const skip = NO_BROWSER;

/** Returns the texts of the shown messages, without labels and controls. */
function readShownTexts(page: Page): Promise<string[]> {
  return page.locator(".user-text, .answer .markdown").allInnerTexts();
}

async function sendPrompt(page: Page, text: string): Promise<void> {
  await page.locator("#prompt").fill(text);
  await page.locator("#prompt").press("Enter");
}

/** Fields of a scrollable element; tests have no DOM types. */
interface ScrollableElement {
  scrollTop: number;
  scrollHeight: number;
}

test("a prompt creates a session whose answer is shown while it streams", { skip }, async (t) => {
  const console = await startConsole(t);
  console.models.enqueue({ say: [{ text: ["**One**"] }, { gate: "rest" }, { text: [" two", " three"] }] });
  const { page } = await openWindow(t, await browser(), console.url);
  await sendPrompt(page, "Count <b>to</b> three");
  await page.locator(".answer strong", { hasText: "One" }).waitFor();
  assert.match(page.url(), /#\/s\/[\w-]+$/);
  // The stop button is available during the run.
  await page.getByRole("button", { name: /stop/i }).first().waitFor();
  console.models.openGate("rest");
  await page.locator(".answer", { hasText: "One two three" }).waitFor();
  assert.deepEqual(await readShownTexts(page), ["Count <b>to</b> three", "One two three"]);
  await page.locator(".run-end", { hasText: "tokens" }).waitFor();
  await page.locator(".head-name", { hasText: "A title" }).waitFor();
  await page.locator(".side-session.current", { hasText: "A title" }).waitFor();
  assert.equal(await page.locator("#announcer").innerText(), "The answer is complete.");
});

test("a reference link at the start of an answer resolves by a definition at the answer's end", { skip }, async (t) => {
  const console = await startConsole(t);
  const definition = "\n\n[1]: https://a.example/there\n";
  const paragraphs = Array.from({ length: 20 }, (_, n) => `Paragraph ${n}.\n\n`);
  console.models.enqueue({
    say: [{ text: ["See [it][1].\n\n", ...paragraphs] }, { gate: "rest" }, { text: [definition] }],
  });
  const { page } = await openWindow(t, await browser(), console.url);
  await sendPrompt(page, "Where?");
  await page.locator(".answer", { hasText: "Paragraph 19" }).waitFor();
  console.models.openGate("rest");
  await page.locator('.answer a[href="https://a.example/there"]', { hasText: "it" }).waitFor();
});

test("a page that is reloaded during a run shows the text so far and the rest of the stream", { skip }, async (t) => {
  const console = await startConsole(t);
  console.models.enqueue({ say: [{ text: ["The first half"] }, { gate: "rest" }, { text: [", the second half."] }] });
  const { page } = await openWindow(t, await browser(), console.url);
  await sendPrompt(page, "Tell me");
  await page.locator(".answer", { hasText: "The first half" }).waitFor();
  await page.reload();
  await page.locator(".answer", { hasText: "The first half" }).waitFor();
  await page.locator(".caret").waitFor();
  console.models.openGate("rest");
  await page.locator(".answer", { hasText: "The first half, the second half." }).waitFor();
  assert.deepEqual(await readShownTexts(page), ["Tell me", "The first half, the second half."]);
});

test("two windows of one session show the same messages", { skip }, async (t) => {
  const console = await startConsole(t);
  const { sessionId } = await runPrompt(console.server, { message: "Begin" });
  const windows = [];
  for (let i = 0; i < 2; i += 1) windows.push(await openWindow(t, await browser(), sessionUrl(console, sessionId)));
  const [firstPage, secondPage] = windows.map(({ page }) => page);
  for (const page of [firstPage!, secondPage!]) await page.locator(".answer").waitFor();
  console.models.enqueue(textStep("To both."), textStep("And back."));
  await sendPrompt(firstPage!, "From the first");
  for (const page of [firstPage!, secondPage!]) await page.locator(".answer", { hasText: "To both." }).waitFor();
  await sendPrompt(secondPage!, "From the second");
  for (const page of [firstPage!, secondPage!]) await page.locator(".answer", { hasText: "And back." }).waitFor();
  const expectedTexts = ["Begin", "OK.", "From the first", "To both.", "From the second", "And back."];
  assert.deepEqual(await readShownTexts(firstPage!), expectedTexts);
  assert.deepEqual(await readShownTexts(secondPage!), expectedTexts);
});

test("a page reconnects to a killed and restarted server and shows each message once", { skip }, async (t) => {
  const home = await makeTempDir();
  t.after(() => home.remove());
  const console = await startConsole(t, { home: home.path });
  const { sessionId } = await runPrompt(console.server, { message: "Before" });
  const { page } = await openWindow(t, await browser(), sessionUrl(console, sessionId), {
    expectedFaults: /ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET/,
  });
  await page.locator(".answer").waitFor();
  const { port } = new URL(console.server.url);
  await console.server.stop("SIGKILL");
  await page.locator(".connection-lost").waitFor();
  const { projectDir } = console.server;
  const server = await startServer(t, { home: home.path, projectDir, args: ["serve", "--port", port] });
  await page.locator(".connection-lost").waitFor({ state: "detached" });
  console.models.enqueue(textStep("After."));
  await runPrompt(server, { message: "Again", session_id: sessionId });
  await page.locator(".answer", { hasText: "After." }).waitFor();
  assert.deepEqual(await readShownTexts(page), ["Before", "OK.", "Again", "After."]);
});

test(
  "a page whose server is killed before its event script is loaded connects to the restarted server",
  { skip },
  async (t) => {
    const home = await makeTempDir();
    t.after(() => home.remove());
    const console = await startConsole(t, { home: home.path });
    const { sessionId } = await runPrompt(console.server, { message: "Before" });
    const { page } = await openWindow(t, await browser(), `${console.url}#/`, {
      expectedFaults: /ERR_|Failed to load/,
    });
    await page.locator("#prompt").waitFor();
    // The requests of a shared worker cannot be blocked here.
    await page.addInitScript("delete globalThis.SharedWorker");
    let isBlocked = true;
    await page.route(/worker/, (route) => (isBlocked ? route.abort() : route.continue()));
    await page.goto(sessionUrl(console, sessionId));
    await page.reload();
    await page.locator(".connection-lost").waitFor();
    isBlocked = false;
    await page.locator(".connection-lost").waitFor({ state: "detached" });
    console.models.enqueue(textStep("After."));
    await runPrompt(console.server, { message: "Again", session_id: sessionId });
    await page.locator(".answer", { hasText: "After." }).waitFor();
  },
);

test("the session list loads all sessions on scroll, searches, renames and deletes", { skip }, async (t) => {
  const home = await makeTempDir();
  t.after(() => home.remove());
  const seeds = Array.from({ length: 130 }, (_, i) => ({ title: i % 13 === 0 ? `Needle ${i}` : `Hay ${i}` }));
  await seedSessions(home.path, seeds);
  const console = await startConsole(t, { home: home.path });
  const { page, requests } = await openWindow(t, await browser(), console.url);
  const entries = page.locator(".side-session");
  await page.locator(".side-session", { hasText: "Hay 129" }).waitFor();
  const initialCount = await entries.count();
  assert.ok(initialCount < 130, `${initialCount} sessions at first`);
  // Scrolls to the end until all pages are loaded.
  await waitForPageState(page, async () => {
    await page.locator(".side-list").evaluate((list: ScrollableElement) => (list.scrollTop = list.scrollHeight));
    return (await entries.count()) === 130;
  });
  assert.equal(new Set(await page.locator(".side-title").allTextContents()).size, 130);

  await page.locator("#session-search").fill("needle");
  await waitForPageState(page, async () => (await entries.count()) === 10);
  assert.ok(requests.some((request) => request.includes("search=needle")));
  await page.locator("#session-search").fill("nothing like it");
  await page.locator(".side-end", { hasText: "No matching session." }).waitFor();
  await page.locator("#session-search").fill("Needle 13");

  const entry = page.locator(".side-session", { hasText: "Needle 13" });
  await waitForPageState(page, async () => (await entries.count()) === 1);
  await entry.hover();
  await entry.getByRole("button", { name: "Rename" }).click();
  await page.locator(".side-session input").fill("Needle 13 <i>anew</i>");
  await page.locator(".side-session input").press("Enter");
  await page.locator(".side-title", { hasText: "Needle 13 <i>anew</i>" }).waitFor();
  await entry.hover();
  await entry.getByRole("button", { name: "Archive" }).click();
  await waitForPageState(page, async () => (await entries.count()) === 0);
  await page.getByRole("button", { name: "Archived sessions" }).click();
  await waitForPageState(page, async () => (await entries.count()) === 1);
  await entry.hover();
  await entry.getByRole("button", { name: "Unarchive" }).click();
  await page.locator(".side-end", { hasText: "No matching session." }).waitFor();
  await page.getByRole("button", { name: "Archived sessions" }).click();
  await waitForPageState(page, async () => (await entries.count()) === 1);
  await entry.hover();
  await entry.getByRole("button", { name: "Delete" }).click();
  // The default choice deletes nothing.
  await page.getByRole("button", { name: "Keep" }).click();
  await entry.hover();
  await entry.getByRole("button", { name: "Delete" }).click();
  await page.locator(".side-delete").getByRole("button", { name: "Delete" }).click();
  await waitForPageState(page, async () => (await entries.count()) === 0);
  const { total } = (await (await console.server.fetch("/api/sessions")).json()) as { total: number };
  assert.equal(total, 129);
});

test("a session that was deleted elsewhere or never existed is shown as not found", { skip }, async (t) => {
  const console = await startConsole(t);
  const { sessionId } = await runPrompt(console.server, { message: "Begin" });
  const { page } = await openWindow(t, await browser(), sessionUrl(console, sessionId), { expectedFaults: /404/ });
  await page.locator(".answer").waitFor();
  await console.server.fetch(`/api/sessions/${sessionId}`, { method: "DELETE" });
  await page.locator(".empty", { hasText: "not found" }).waitFor();
  // The live region also announces the deletion, instead of the previous message.
  await page.locator("#announcer", { hasText: "Session not found." }).waitFor({ state: "attached" });
  assert.equal(await page.title(), "gantry");
  await waitForPageState(page, async () => (await page.locator(".side-session").count()) === 0);
  await page.goto(sessionUrl(console, "never-was"));
  await page.reload();
  await page.locator(".empty", { hasText: "not found" }).waitFor();
});

test("each tool call is one row that unfolds to its arguments, output and changes", { skip }, async (t) => {
  const files = { "a.txt": "one\ntwo\n" };
  const console = await startConsole(t, { files });
  const edit = { filePath: "a.txt", oldString: "two", newString: "TWO" };
  console.models.enqueue(
    { say: [{ reasoning: ["I should look."] }, { call: { name: "read", arguments: { path: "a.txt" } } }] },
    { say: [{ call: { name: "edit", arguments: edit } }, { call: { name: "read", arguments: { path: "b.txt" } } }] },
    textStep("Done."),
  );
  const { sessionId } = await runPrompt(console.server, { message: "Change it" });
  const { page } = await openWindow(t, await browser(), sessionUrl(console, sessionId));
  await page.locator(".answer", { hasText: "Done." }).waitFor();
  assert.deepEqual(await page.locator(".call > .call-line > .fold b").allInnerTexts(), ["Read", "Edit", "Read"]);
  assert.deepEqual(await page.locator(".call > .call-line > .fold code").allInnerTexts(), ["a.txt", "a.txt", "b.txt"]);
  // A small change is unfolded, all other rows are folded.
  assert.equal(await page.locator(".call-body").count(), 1);
  assert.match(await page.locator(".call-body").innerText(), /TWO/);
  assert.equal(await page.locator(".call-counts").innerText(), "+1\n−1");
  assert.equal(await page.locator(".call-failed").count(), 1);
  await page.locator(".call > .call-line > .fold").first().click();
  const firstCall = page.locator(".call").first();
  assert.match(await firstCall.locator(".output pre").innerText(), /1\s+one/);
  assert.equal(await firstCall.locator(".call-arguments dd").innerText(), "a.txt");
  await firstCall.getByRole("button", { name: "Copy the output" }).click();
  assert.match(await page.evaluate<string>("navigator.clipboard.readText()"), /one/);
  await page.locator(".call-failed > .call-line > .fold").click();
  assert.match(await page.locator(".call-failed .output").innerText(), /b\.txt/);
  assert.equal((await fetchMessages(console.server, sessionId)).length, 7);
});
