// Many windows of one browser. The test prints how long the requests of Allow and Stop take.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import type { Page } from "playwright-core";
import { fetchJson, waitForCondition } from "../../helpers/console-runs.js";
import { NO_BROWSER, openWindow, shareBrowser, startConsole, waitForPageState } from "../../helpers/console.js";
import { callStep } from "../../helpers/fake-model-server/steps.js";
import { seedSessions } from "../../helpers/seeded-sessions.js";
import { startScriptedProxy, type ScriptedProxy } from "../../helpers/scripted-proxy.js";
import { makeTempDir } from "../../helpers/temp-dir.js";

const SESSION_COUNT = 10;
const WINDOW_COUNT = 20;

const browser = shareBrowser({ after });

/** The open event streams of the browser, each as its number of watched sessions. */
const countWatches = (proxy: ScriptedProxy): number[] =>
  proxy
    .getOpenPaths()
    .filter((path) => /\/events(\?|$)/.test(path))
    .map((path) => path.split("watch=").length - 1);

/** Whether the browser has one stream, with this number of watched sessions. */
const hasOneStream = (proxy: ScriptedProxy, watchCount: number): boolean =>
  isDeepStrictEqual(countWatches(proxy), [watchCount]);

/** Clicks a button. Resolves with the time from the request to its complete response, in ms. */
async function clickAndMeasure(page: Page, button: string, path: RegExp): Promise<number> {
  const requestPromise = page.waitForRequest((request) => request.method() === "POST" && path.test(request.url()));
  await page.getByRole("button", { name: button, exact: true }).first().click();
  const request = await requestPromise;
  const response = await request.response();
  await response?.finished();
  assert.equal(response?.status(), 200);
  return request.timing().responseEnd;
}

function describeTimes(name: string, times: readonly number[]): string {
  const sortedTimes = [...times].sort((a, b) => a - b);
  const median = sortedTimes[Math.floor(sortedTimes.length / 2)] ?? 0;
  return `${name}: median ${median.toFixed(0)} ms, longest ${(sortedTimes.at(-1) ?? 0).toFixed(0)} ms`;
}

test(
  "twenty windows on ten sessions share one connection, and Allow and Stop work in each",
  { skip: NO_BROWSER },
  async (t) => {
    const console = await startConsole(t);
    const proxy = await startScriptedProxy(t, console.server.url);
    const ids: string[] = [];
    for (let n = 0; n < SESSION_COUNT; n += 1) {
      console.models.enqueue(callStep("write", { path: `file-${n}.txt`, content: "x" }));
      const body = JSON.stringify({ message: `Session ${n}`, background: true, mode: "ask", can_answer: true });
      const run = await fetchJson<{ session_id: string }>(console.server, "/api/run", { method: "POST", body });
      ids.push(run.session_id);
      await waitForCondition(async () => {
        const { asks } = await fetchJson<{ asks: unknown[] }>(console.server, "/api/asks?can_answer=true&size=100");
        return asks.length === n + 1;
      });
    }
    for (let n = 0; n < SESSION_COUNT; n += 1)
      console.models.enqueue({ say: [{ text: "Half an answer" }, { gate: "never" }] });
    const url = `${proxy.url}/console`;
    const { page: firstPage, context } = await openWindow(t, await browser(), `${url}#/s/${ids[0]}`, {
      // The other windows of this test.
      expectedFaults: /^window: about:blank$/,
    });
    const pages = [firstPage];
    while (pages.length < WINDOW_COUNT) {
      const page = await context.newPage();
      await page.goto(`${url}#/s/${ids[pages.length % SESSION_COUNT]}`);
      pages.push(page);
    }
    // Both windows of each session show its question, and later its answer.
    for (const page of pages) await page.locator(".ask").getByRole("button", { name: "Allow", exact: true }).waitFor();
    await waitForPageState(firstPage, () => hasOneStream(proxy, WINDOW_COUNT));
    const allowTimes: number[] = [];
    for (const page of pages.slice(0, SESSION_COUNT))
      allowTimes.push(await clickAndMeasure(page, "Allow", /\/api\/asks\//));
    for (const page of pages) await page.locator(".answer", { hasText: "Half an answer" }).waitFor();
    const stopTimes: number[] = [];
    for (const page of pages.slice(SESSION_COUNT)) stopTimes.push(await clickAndMeasure(page, "Stop", /\/cancel$/));
    for (const page of pages)
      await page.getByRole("button", { name: "Stop", exact: true }).waitFor({ state: "detached" });
    t.diagnostic(describeTimes("Allow", allowTimes));
    t.diagnostic(describeTimes("Stop", stopTimes));
    // The worker notices windows that are gone. The stream ends with the last window.
    for (const page of pages.slice(1)) await page.close();
    await waitForPageState(firstPage, () => hasOneStream(proxy, 1));
    await firstPage.goto("about:blank");
    await waitForPageState(firstPage, () => countWatches(proxy).length === 0);
  },
);

test(
  "a page that opened nine sessions has one event stream, without a shared worker too",
  { skip: NO_BROWSER },
  async (t) => {
    const home = await makeTempDir();
    t.after(() => home.remove());
    const messages = [{ parts: [{ type: "text" as const, text: "Hello" }] }];
    const seeds = Array.from({ length: 9 }, (_, i) => ({ title: `Number ${i}`, messages }));
    await seedSessions(home.path, seeds);
    const console = await startConsole(t, { home: home.path });
    for (const hasSharedWorkers of [true, false]) {
      const proxy = await startScriptedProxy(t, console.server.url);
      const { page, context } = await openWindow(t, await browser(), `${proxy.url}/console`, { hasSharedWorkers });
      for (let i = 0; i < 9; i += 1) {
        await page.locator(".side-session a", { hasText: `Number ${i}` }).click();
        await page.locator(".head-name", { hasText: `Number ${i}` }).waitFor();
      }
      await waitForPageState(page, () => hasOneStream(proxy, 1));
      await page.locator(".side-link", { hasText: "Runs" }).click();
      await waitForPageState(page, () => hasOneStream(proxy, 0));
      await context.close();
    }
  },
);
