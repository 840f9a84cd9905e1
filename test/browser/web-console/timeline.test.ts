import assert from "node:assert/strict";
import test, { after } from "node:test";
import type { Message } from "gantry";
import type { Page } from "playwright-core";
import {
  waitForPageState,
  NO_BROWSER,
  openWindow,
  sessionUrl,
  shareBrowser,
  startConsole,
} from "../../helpers/console.js";
import { fetchJson, waitForCondition } from "../../helpers/console-runs.js";
import { callStep } from "../../helpers/fake-model-server.js";
import { seedSessions } from "../../helpers/seeded-sessions.js";
import { pickUniqueSeconds } from "../../helpers/server-runs.js";
import { makeTempDir } from "../../helpers/temp-dir.js";

const browser = shareBrowser({ after });
/** Number of messages in the long session. The long form of the test sets MESSAGES=10000. */
const MESSAGE_COUNT = Number(process.env["MESSAGES"] ?? 2_000);
/** Maximum number of rendered rows: the visible rows, and about a page of rows around them. */
const MAX_RENDERED_ROWS = 60;

/** Returns the top of the row with a text, in pixels. Undefined: the row is not rendered. */
const readRowTop = (page: Page, text: string) =>
  page.evaluate<number | undefined>(`(() => {
    const row = [...document.querySelectorAll(".scroller-row")].find((row) => row.textContent.includes(${JSON.stringify(text)}));
    return row && Math.round(row.getBoundingClientRect().top);
  })()`);
const scrollTo = (page: Page, scrollTop: string) =>
  page.evaluate(`(() => { const box = document.getElementById("timeline"); box.scrollTop = ${scrollTop}; })()`);
/** Selectors of a call and of an answer: while it is shown, while it looks stopped, and while its run is known. */
const CALL_SELECTORS = { shown: ".call", stopped: ".call-stopped", active: ".composer .danger" };
const ANSWER_SELECTORS = { shown: ".answer", stopped: ".answer-interrupted", active: ".answer .caret" };
const countRows = (page: Page) => page.locator(".scroller-row").count();

test(
  `the timeline of ${MESSAGE_COUNT} messages loads each page once, backwards, and renders at most ${MAX_RENDERED_ROWS} rows`,
  { skip: NO_BROWSER },
  async (t) => {
    const home = await makeTempDir();
    t.after(() => home.remove());
    const [id = ""] = await seedSessions(home.path, [{ title: "Long", messages: createConversation(MESSAGE_COUNT) }]);
    const console = await startConsole(t, { home: home.path });
    const { page, requests } = await openWindow(t, await browser(), sessionUrl(console, id));
    // The end is shown first, and only the last page is loaded.
    await page.locator(".answer", { hasText: `Answer ${MESSAGE_COUNT - 1}.` }).waitFor();
    const findPageRequests = () => requests.filter((request) => request.includes("/messages?"));
    assert.match(findPageRequests()[0] ?? "", /limit=50$/);
    assert.ok(findPageRequests().length <= 3, findPageRequests().join("\n"));
    assert.ok((await countRows(page)) <= MAX_RENDERED_ROWS);

    // Scroll up to the first message.
    await waitForPageState(page, async () => {
      await scrollTo(page, "0");
      assert.ok((await countRows(page)) <= MAX_RENDERED_ROWS, "rows outside the view are rendered");
      return (await readRowTop(page, "Question 0.")) !== undefined;
    });
    const requestedPages = findPageRequests();
    assert.equal(new Set(requestedPages).size, requestedPages.length, "a page was requested twice");
    await waitForPageState(page, async () => (await page.locator(".timeline-before").textContent()) === "");

    // Jump to the middle, and back to the end.
    await scrollTo(page, "box.scrollHeight / 2");
    await waitForPageState(page, async () => (await page.locator(".scroller-row").count()) > 3);
    assert.ok((await countRows(page)) <= MAX_RENDERED_ROWS);
    await page.getByRole("button", { name: "To the end" }).click();
    await page.locator(".answer", { hasText: `Answer ${MESSAGE_COUNT - 1}.` }).waitFor();
    assert.equal(await page.getByRole("button", { name: "To the end" }).count(), 0);
  },
);

test(
  "an active run is not shown as stopped while its messages are loaded and its state is not",
  { skip: NO_BROWSER },
  async (t) => {
    const console = await startConsole(t);
    const { page } = await openWindow(t, await browser(), console.url, { hasSharedWorkers: false });
    for (const { step, shown, stopped, active } of [
      { step: callStep("bash", { command: `sleep ${pickUniqueSeconds()}` }), ...CALL_SELECTORS },
      { step: { say: [{ text: "Half an answer" }, { gate: "half" }] }, ...ANSWER_SELECTORS },
    ]) {
      console.models.enqueue(step);
      const response = await console.server.fetch("/api/run", {
        method: "POST",
        body: JSON.stringify({ message: "Work", background: true }),
      });
      const { session_id: id } = (await response.json()) as { session_id: string };
      await waitForCondition(async () => {
        const { messages } = await fetchJson<{ messages: unknown[] }>(console.server, `/api/sessions/${id}/messages`);
        return /Half an answer|sleep/.test(JSON.stringify(messages));
      });
      // The state arrives with the event stream.
      let openStream: () => void = () => undefined;
      const gate = new Promise<void>((resolve) => (openStream = resolve));
      await page.route(/\/events\?/, async (route) => {
        await gate;
        await route.continue();
      });
      await page.goto(sessionUrl(console, id));
      await page.locator(shown).waitFor();
      await page.evaluate(WAIT_FOR_FRAMES);
      assert.equal(await page.locator(stopped).count(), 0);
      openStream();
      await page.locator(active).waitFor();
      await page.unroute(/\/events\?/);
    }
  },
);

test(
  "a visible row keeps its position when older messages load or an answer grows; the end follows an answer",
  { skip: NO_BROWSER },
  async (t) => {
    const home = await makeTempDir();
    t.after(() => home.remove());
    const [id = ""] = await seedSessions(home.path, [{ messages: createConversation(600) }]);
    const console = await startConsole(t, { home: home.path });
    const { page } = await openWindow(t, await browser(), sessionUrl(console, id));
    await page.locator(".answer", { hasText: "Answer 599." }).waitFor();
    // Hold responses back, to compare the positions before and after them.
    let releaseResponses: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => (releaseResponses = resolve));
    await page.route(/\/messages\?/, async (route) => {
      await gate;
      await route.continue();
    });
    await waitForPageState(page, async () => {
      await scrollTo(page, "Math.max(0, box.scrollTop - 400)");
      // The first row is a result whose call is not loaded. This row disappears when the call is loaded.
      return page.evaluate<boolean>(`document.getElementById("timeline").scrollTop === 0`);
    });
    // After these frames, the rendered rows are measured.
    await page.evaluate(WAIT_FOR_FRAMES);
    const rowText = await page.evaluate<string>(`(() => {
    const rows = [...document.querySelectorAll(".scroller-row")];
    const row = rows.find((row) => row.getBoundingClientRect().top > 100 && /(Question|Answer) \\d+\\./.test(row.textContent));
    return row.textContent.match(/(Question|Answer) \\d+\\./)[0];
  })()`);
    const topBefore = await readRowTop(page, rowText);
    releaseResponses();
    await waitForPageState(page, () => page.evaluate<boolean>(`document.getElementById("timeline").scrollTop > 3000`));
    await page.evaluate(WAIT_FOR_FRAMES);
    assert.ok(Math.abs(((await readRowTop(page, rowText)) ?? -1000) - (topBefore ?? 0)) <= 2, `${rowText} moved`);

    console.models.enqueue({ say: [{ text: ["It grows"] }, { gate: "more" }, { text: "\n\nand grows".repeat(60) }] });
    const response = await console.server.fetch("/api/run", {
      method: "POST",
      body: JSON.stringify({ session_id: id, message: "Grow", background: true }),
    });
    assert.equal(response.status, 202);
    const topBeforeGrowth = await readRowTop(page, rowText);
    console.models.openGate("more");
    await page.locator(".run-end", { hasText: "tokens" }).waitFor({ state: "attached" });
    await page.evaluate(WAIT_FOR_FRAMES);
    assert.ok(Math.abs(((await readRowTop(page, rowText)) ?? -1000) - (topBeforeGrowth ?? 0)) <= 2, `${rowText} moved`);

    // At the end, the timeline follows a growing answer.
    await page.getByRole("button", { name: "To the end" }).click();
    console.models.enqueue({
      say: [{ text: ["Once more"] }, { gate: "again" }, { text: "\n\nand once more".repeat(60) }],
    });
    await page.locator("#prompt").fill("Again");
    await page.locator("#prompt").press("Enter");
    await page.locator(".answer", { hasText: "Once more" }).waitFor();
    console.models.openGate("again");
    await page.locator(".run-end", { hasText: "tokens" }).waitFor();
    await waitForPageState(page, () =>
      page.evaluate<boolean>(
        `(() => { const box = document.getElementById("timeline"); return box.scrollHeight - box.clientHeight - box.scrollTop < 2; })()`,
      ),
    );
  },
);

test(
  "the timeline keeps its end or its visible row in place when content grows in the frame of a scroll",
  { skip: NO_BROWSER },
  async (t) => {
    const home = await makeTempDir();
    t.after(() => home.remove());
    const [id = ""] = await seedSessions(home.path, [{ messages: createConversation(700) }]);
    const console = await startConsole(t, { home: home.path });
    const { page } = await openWindow(t, await browser(), sessionUrl(console, id));
    await page.locator(".answer", { hasText: "Answer 699." }).waitFor();
    await page.evaluate(WAIT_FOR_FRAMES);
    // Scrolls to the end; in the same frame a question takes space, or the answer grows.
    for (const growScript of [GROW_FOOT, GROW_LAST_ROW]) {
      await page.evaluate(`(async () => {
        const box = document.getElementById("timeline");
        box.scrollTop -= 600;
        await ${WAIT_FOR_FRAMES};
        box.scrollTop = box.scrollHeight;
        ${growScript}
        await ${WAIT_FOR_FRAMES};
      })()`);
      assert.deepEqual(await page.evaluate(READ_END_STATE), { distance: 0, hasButton: false });
    }
    // A position slightly above the end does not count as the end.
    await page.evaluate(`(async () => {
      document.getElementById("timeline").scrollTop -= 20;
      ${GROW_LAST_ROW}
      await ${WAIT_FOR_FRAMES};
      ${GROW_FOOT}
      await ${WAIT_FOR_FRAMES};
    })()`);
    const { distance, hasButton } = await page.evaluate<{ distance: number; hasButton: boolean }>(READ_END_STATE);
    assert.ok(hasButton && distance > 100, String(distance));
    // A row in the middle stays in place when content above and below it grows in the same frame.
    const movedPixels = await page.evaluate<number>(`(async () => {
      const box = document.getElementById("timeline");
      box.scrollTop -= 1500;
      await ${WAIT_FOR_FRAMES};
      box.scrollTop -= 40;
      const rows = [...document.querySelectorAll(".scroller-row")];
      const index = rows.findIndex((row) => row.getBoundingClientRect().bottom > box.getBoundingClientRect().top + 1);
      const topBefore = rows[index].getBoundingClientRect().top;
      rows[index - 1].firstElementChild.style.paddingTop = "130px";
      ${GROW_LAST_ROW}
      await ${WAIT_FOR_FRAMES};
      return Math.round(rows[index].getBoundingClientRect().top - topBefore);
    })()`);
    assert.equal(movedPixels, 0);
    // Scroll up to the first message. Each step moves the visible row by exactly the scrolled distance.
    const scrollResult = await page.evaluate<{ shifts: number[]; firstRowText: string }>(`(async () => {
      const box = document.getElementById("timeline");
      const shifts = [];
      const edge = box.getBoundingClientRect().top;
      // Reads where the browser draws the row. Between two frames, new rows are not measured yet.
      const readPaintedTop = (row) => new Promise((done) => {
        new IntersectionObserver(([entry], observer) => {
          observer.disconnect();
          done(entry.boundingClientRect.top);
        }).observe(row);
      });
      for (let steps = 0; steps < 3000; steps += 1) {
        const row = [...document.querySelectorAll(".scroller-row")].find((row) => row.getBoundingClientRect().top > edge + 40);
        const topBefore = await readPaintedTop(row);
        const scrollTopBefore = box.scrollTop;
        box.scrollTop -= 500;
        const expectedTop = topBefore + scrollTopBefore - box.scrollTop;
        await ${WAIT_FOR_FRAMES};
        const shift = Math.round((await readPaintedTop(row)) - expectedTop);
        if (row.isConnected && Math.abs(shift) > 1) shifts.push(shift);
        if (box.scrollTop === 0 && document.querySelector(".timeline-before").textContent === "") break;
      }
      return { shifts, firstRowText: document.querySelector(".scroller-row").textContent };
    })()`);
    assert.deepEqual(scrollResult.shifts, []);
    assert.match(scrollResult.firstRowText, /^Question 0\./);
  },
);

/** Script that waits. Time: two frames, so that changes are laid out, measured and positioned. */
const WAIT_FOR_FRAMES =
  "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))";
const GROW_FOOT = `document.querySelector(".foot").style.paddingTop = (parseFloat(getComputedStyle(document.querySelector(".foot")).paddingTop) + 150) + "px";`;
const GROW_LAST_ROW = `{
  const last = [...document.querySelectorAll(".scroller-row")].at(-1).firstElementChild;
  last.style.paddingTop = (parseFloat(getComputedStyle(last).paddingTop) + 170) + "px";
}`;
/** Script that returns the distance to the end in pixels, and whether the button to the end is shown. */
const READ_END_STATE = `(() => {
  const box = document.getElementById("timeline");
  const distance = box.scrollHeight - box.clientHeight - box.scrollTop;
  return { distance: Math.abs(distance) < 2 ? 0 : distance, hasButton: document.querySelector(".timeline-end") !== null };
})()`;

/** Creates questions, answers with code, and tool calls with output, of many heights. */
function createConversation(count: number): Partial<Message>[] {
  return Array.from({ length: count }, (_, i): Partial<Message> => {
    const text = (content: string) => [{ type: "text" as const, text: content }];
    if (i % 4 === 0) return { role: "user", parts: text(`Question ${i}. ${"Why is that so? ".repeat(i % 17)}`) };
    if (i % 4 === 1)
      return {
        role: "assistant",
        parts: [
          ...text(`Answer ${i}. I will look.`),
          { type: "tool_call", id: `call-${i}`, name: "bash", arguments: JSON.stringify({ command: `ls ${i}` }) },
        ],
      };
    if (i % 4 === 2)
      return { role: "tool", toolCallId: `call-${i - 1}`, name: "bash", parts: text("a\nb\n".repeat(i % 30)) };
    const code = `\`\`\`ts\nexport const a${i} = ${i};\n${"// more\n".repeat(i % 23)}\`\`\``;
    return {
      role: "assistant",
      parts: text(`Answer ${i}. **So** it is:\n\n${code}\n\n- one\n- two ${"and more ".repeat(i % 40)}`),
    };
  });
}
