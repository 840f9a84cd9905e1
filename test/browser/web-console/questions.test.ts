import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import type { Page } from "playwright-core";
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
  STOPPED_SERVER_ERROR,
  waitForCondition,
  waitForPage,
  waitForQuestion,
} from "../../helpers/console-runs.js";
import { callStep, textStep } from "../../helpers/fake-model-server.js";
import { createGate } from "../../helpers/gate.js";
import { runPrompt } from "../../helpers/server-runs.js";

const browser = shareBrowser({ after });

interface StoredAsk {
  state: string;
  reply: { choice: string; text: string } | null;
}

/** Starts a run of a new session in mode `ask`. Resolves with the id of the session. */
async function startRun({ server }: ConsoleServer, message: string, { canAnswer = false } = {}): Promise<string> {
  const body = JSON.stringify({ message, mode: "ask", background: true, can_answer: canAnswer });
  return (await fetchJson<{ session_id: string }>(server, "/api/run", { method: "POST", body })).session_id;
}

/** Starts a run that requests permission for a command, then answers. */
function startCommand(console: ConsoleServer, name: string): Promise<string> {
  console.models.enqueue(callStep("bash", { command: `echo ${name}` }), textStep(`${name} is done.`));
  return startRun(console, `Run ${name}`);
}

async function listAsks({ server }: ConsoleServer, state: "open" | "all"): Promise<StoredAsk[]> {
  return (await fetchJson<{ asks: StoredAsk[] }>(server, `/api/asks?state=${state}`)).asks;
}

/** Waits until the session's run has finished. */
async function waitForEnd({ server }: ConsoleServer, sessionId: string): Promise<void> {
  await waitForCondition(async () => {
    const { runs } = await fetchJson<{ runs: { state: string }[] }>(server, `/api/runs?session_id=${sessionId}`);
    return runs[0]?.state === "finished";
  });
}

/** Allows the only open question of the questions view. */
async function allowOnlyQuestion(page: Page, command: string): Promise<void> {
  const ask = page.locator(".ask").filter({ hasText: `echo ${command}` });
  await ask.locator("xpath=self::*[@aria-busy='false']").waitFor();
  await ask.getByRole("button", { name: "Allow", exact: true }).click();
  await page.getByText("No open questions.").waitFor();
}

const readIcon = (page: Page) =>
  page.evaluate<string>(`decodeURIComponent(document.querySelector('link[rel="icon"]').href)`);

/** Sets the visibility that the page sees: windows of a headless browser are always visible. */
const setVisibility = (page: Page, state: "hidden" | "visible") =>
  page.evaluate(`Object.defineProperty(document, "visibilityState", { configurable: true, get: () => "${state}" });
    document.dispatchEvent(new Event("visibilitychange"))`);

describe("questions of all sessions in the console", { skip: NO_BROWSER }, () => {
  it("wait for an answer from the questions view while the page shows another session, reloads or moves", async (t) => {
    const console = await startConsole(t);
    const { sessionId } = await runPrompt(console.server, { message: "Begin" });
    const { page, context } = await openWindow(t, await browser(), sessionUrl(console, sessionId), {
      expectedFaults: new RegExp(`${STOPPED_SERVER_ERROR.source}|^window:`),
    });
    await page.locator(".answer").waitFor();
    const questionsLink = page.getByRole("link", { name: /^Questions/ });

    // The page shows another session.
    const secondId = await startCommand(console, "second");
    await questionsLink.getByText("1 open").waitFor();
    await page.locator(`[data-session="${secondId}"] .badge`, { hasText: "1" }).waitFor();
    assert.match(await page.title(), /^\(1\) /);
    assert.match(await readIcon(page), />1<\/text>/);
    await questionsLink.click();
    await page
      .getByRole("region", { name: /^Question of / })
      .locator(".ask-code")
      .waitFor();
    await allowOnlyQuestion(page, "second");
    assert.equal(await page.title(), "Questions");
    assert.doesNotMatch(await readIcon(page), /<text/);
    assert.equal(await page.locator(".badge").count(), 0);
    await waitForEnd(console, secondId);

    // The question comes while no page is open.
    console.models.enqueue(
      { say: [{ gate: "away" }, { call: { name: "bash", arguments: { command: "echo third" } } }] },
      textStep("third is done."),
    );
    const thirdId = await startRun(console, "Run third");
    await page.goto("about:blank");
    console.models.openGate("away");
    await waitForCondition(async () => (await listAsks(console, "open")).length === 1);
    await page.goto(`${console.url}#/questions`);
    await page.reload();
    await allowOnlyQuestion(page, "third");
    await waitForEnd(console, thirdId);

    // The page shows the runs, and a second window is open.
    await page.goto(`${console.url}#/runs`);
    const secondPage = await context.newPage();
    await secondPage.goto(`${console.url}#/questions`);
    await secondPage.getByText("No open questions.").waitFor();
    const fourthId = await startCommand(console, "fourth");
    await questionsLink.getByText("1 open").waitFor();
    await waitForPage(page, `document.title === "(1) Runs"`);
    await questionsLink.click();
    await page.locator(".ask").waitFor();
    await allowOnlyQuestion(secondPage, "fourth");
    await page.getByText("No open questions.").waitFor();
    await waitForEnd(console, fourthId);

    assert.deepEqual(
      (await listAsks(console, "all")).map(({ state, reply }) => [state, reply?.choice]),
      Array.from({ length: 3 }, () => ["answered", "allow"]),
    );
  });

  it("are answered by keyboard alone, with a choice and a text, and link to their sessions", async (t) => {
    const console = await startConsole(t);
    console.models.enqueue(
      callStep("ask_user", { question: "Which colour?", choices: ["Red", "Blue"] }),
      callStep("ask_user", { question: "Which name?", choices: [], free_text: true }),
      textStep("Thanks."),
    );
    const { page } = await openWindow(t, await browser(), console.url, { expectedFaults: STOPPED_SERVER_ERROR });
    await page.locator("#prompt").waitFor();
    const sessionId = await startRun(console, "Ask me", { canAnswer: true });
    await page.keyboard.press("Escape");
    await page.keyboard.press("g");
    await page.keyboard.press("q");
    await page.getByRole("article", { name: /Which colour\?/ }).waitFor();
    await waitForQuestion(page);
    await page.keyboard.press("2");
    await page.getByRole("article", { name: /Which name\?/ }).waitFor();
    await waitForQuestion(page);
    await page.keyboard.press("Tab");
    await page.keyboard.type("Ada");
    await page.keyboard.press("Enter");
    await page.getByText("No open questions.").waitFor();
    // The focus stays in the view.
    await waitForPage(page, `document.activeElement.textContent === "No open questions."`);
    await waitForEnd(console, sessionId);
    const replies = (await listAsks(console, "all")).map(({ reply }) => reply);
    assert.deepEqual(replies, [
      { choice: "", text: "Ada" },
      { choice: "2", text: "" },
    ]);

    const linkedId = await startCommand(console, "linked");
    await page
      .getByRole("region", { name: /^Question of / })
      .getByRole("link")
      .click();
    await page.locator(".foot .ask").waitFor();
    assert.equal(page.url(), sessionUrl(console, linkedId));
    await page.locator(".foot .ask").getByRole("button", { name: "Reject" }).click();
    await waitForPage(page, `!document.title.startsWith("(")`);
  });

  it("show one desktop notification in all windows of a browser, only after the user asked for them", async (t) => {
    const console = await startConsole(t);
    const { page, context } = await openWindow(t, await browser(), "about:blank", {
      expectedFaults: new RegExp(`${STOPPED_SERVER_ERROR.source}|^window:|^request: http`),
    });
    // Records the notifications and the requests for permission of each window.
    await context.addInitScript(`
      window.shown = [];
      window.requestCount = 0;
      const { requestPermission } = Notification;
      window.Notification = class extends Notification {
        constructor(title, options) {
          super(title, options);
          window.shown.push({ title, ...options });
          window.lastNotification = this;
        }
        static requestPermission() {
          window.requestCount++;
          return requestPermission.call(super.constructor);
        }
      };
    `);
    await context.grantPermissions(["notifications"]);
    await page.goto(`${console.url}#/questions`);
    const button = page.getByRole("button", { name: "Desktop notifications" });
    await button.waitFor();
    assert.equal(await button.getAttribute("aria-pressed"), "false");
    assert.equal(await page.evaluate("window.requestCount"), 0);
    await page.evaluate("Notification.requestPermission = async () => { window.requestCount++; return 'granted'; }");
    await button.click();
    await page.locator('button[aria-pressed="true"]', { hasText: "Desktop notifications" }).waitFor();
    assert.equal(await page.evaluate("window.requestCount"), 1);

    const pages = [page, await context.newPage()];
    await pages[1]?.goto(`${console.url}#/questions`);
    // The other window has the same choice without a click.
    await pages[1]?.locator('button[aria-pressed="true"]', { hasText: "Desktop notifications" }).waitFor();
    const listShown = async () =>
      (await Promise.all(pages.map((window) => window.evaluate<ShownNotification[]>("window.shown")))).flat();
    for (const window of pages) await setVisibility(window, "hidden");
    const sessionId = await startCommand(console, "notified");
    await waitForCondition(async () => (await listShown()).length > 0);
    const [shown] = await listShown();
    assert.deepEqual([shown?.title, shown?.body], ["May bash do this?", "echo notified"]);
    assert.match(shown?.tag ?? "", /^gantry-ask-/);
    const [notifyingPage] = await Promise.all(
      pages.map(async (window) => ((await window.evaluate<number>("window.shown.length")) > 0 ? window : undefined)),
    ).then((windows) => windows.filter((window) => window !== undefined));
    await notifyingPage?.evaluate("lastNotification.dispatchEvent(new Event('click'))");
    await notifyingPage?.locator(".foot .ask").waitFor();
    assert.equal(notifyingPage?.url(), sessionUrl(console, sessionId));

    await notifyingPage?.locator(".ask").getByRole("button", { name: "Allow", exact: true }).click();
    await waitForCondition(async () => (await listShown()).some(({ tag }) => tag.startsWith("gantry-run-")));
    const ended = (await listShown()).filter(({ tag }) => tag.startsWith("gantry-run-"));
    assert.deepEqual(
      ended.map(({ body }) => body),
      ["The run has finished."],
    );
    // Both windows have received the events since, and neither has shown a second notification.
    assert.equal((await listShown()).length, 2);
  });

  it("are counted in the session list if they arrive, and sessions are deleted, while the list loads", async (t) => {
    const console = await startConsole(t);
    const { sessionId: keptId } = await runPrompt(console.server, { message: "Keep" });
    const { sessionId: deletedId } = await runPrompt(console.server, { message: "Delete" });
    const { page } = await openWindow(t, await browser(), console.url);
    const entry = (id: string) => page.locator(`[data-session="${id}"]`);
    await entry(deletedId).waitFor();
    const archiveButton = page.getByRole("button", { name: "Archived sessions" });
    await archiveButton.click();
    await page.locator(".side-end", { hasText: "No archived session." }).waitFor();
    const listGate = createGate();
    await page.route(/\/api\/sessions\?/, async (route) => {
      const response = await route.fetch();
      await listGate.wait();
      await route.fulfill({ response });
    });
    await archiveButton.click();
    await listGate.firstWait;

    await console.server.fetch(`/api/sessions/${deletedId}`, { method: "DELETE" });
    const newId = await startCommand(console, "new");
    await page
      .getByRole("link", { name: /^Questions/ })
      .getByText("1 open")
      .waitFor();
    listGate.open();
    await entry(keptId).waitFor();
    assert.equal(await entry(newId).locator(".badge", { hasText: "1" }).count(), 1);
    assert.equal(await entry(deletedId).count(), 0);
  });
});

interface ShownNotification {
  title: string;
  body: string;
  tag: string;
}
