import assert from "node:assert/strict";
import test, { after } from "node:test";
import type { Message } from "gantry";
import type { Page } from "playwright-core";
import { pageUntil, noBrowser, openWindow, sessionUrl, sharedBrowser, startConsole } from "../../helpers/console.js";
import { LATE } from "../../helpers/console-runs.js";
import { seedSessions } from "../../helpers/seeded-sessions.js";
import { makeTempDir } from "../../helpers/temp.js";

const browser = sharedBrowser({ after });
/** Number of messages in the long session; MESSAGES=10000 is the long form. */
const MESSAGES = Number(process.env["MESSAGES"] ?? 2_000);
/** Maximum number of rendered rows: the visible ones and about a page around them. */
const MAX_RENDERED_ROWS = 60;

/** Top of the row with a text, in pixels; undefined if it is not rendered. */
const placeOf = (page: Page, text: string) =>
  page.evaluate<number | undefined>(`(() => {
    const row = [...document.querySelectorAll(".scroller-row")].find((row) => row.textContent.includes(${JSON.stringify(text)}));
    return row && Math.round(row.getBoundingClientRect().top);
  })()`);
const scrollTo = (page: Page, place: string) =>
  page.evaluate(`(() => { const box = document.getElementById("timeline"); box.scrollTop = ${place}; })()`);
const countRows = (page: Page) => page.locator(".scroller-row").count();

test(
  `the timeline of ${MESSAGES} messages loads each page once, backwards, and renders at most ${MAX_RENDERED_ROWS} rows`,
  { skip: noBrowser },
  async (t) => {
    const home = await makeTempDir();
    t.after(() => home.remove());
    const [id = ""] = await seedSessions(home.path, [{ title: "Long", messages: conversation(MESSAGES) }]);
    const console = await startConsole(t, { home: home.path });
    const { page, requests } = await openWindow(t, await browser(), sessionUrl(console, id));
    // The end is shown first, and only the last page is loaded.
    await page.locator(".answer", { hasText: `Answer ${MESSAGES - 1}.` }).waitFor();
    const pages = () => requests.filter((request) => request.includes("/messages?"));
    assert.match(pages()[0] ?? "", /limit=50$/);
    assert.ok(pages().length <= 3, pages().join("\n"));
    assert.ok((await countRows(page)) <= MAX_RENDERED_ROWS);

    // Scroll up to the first message.
    await pageUntil(page, async () => {
      await scrollTo(page, "0");
      assert.ok((await countRows(page)) <= MAX_RENDERED_ROWS, "rows outside the view are rendered");
      return (await placeOf(page, "Question 0.")) !== undefined;
    });
    const requestedPages = pages();
    assert.equal(new Set(requestedPages).size, requestedPages.length, "a page was requested twice");
    await pageUntil(page, async () => (await page.locator(".timeline-before").textContent()) === "");

    // Jump to the middle, and back to the end.
    await scrollTo(page, "box.scrollHeight / 2");
    await pageUntil(page, async () => (await page.locator(".scroller-row").count()) > 3);
    assert.ok((await countRows(page)) <= MAX_RENDERED_ROWS);
    await page.getByRole("button", { name: "To the end" }).click();
    await page.locator(".answer", { hasText: `Answer ${MESSAGES - 1}.` }).waitFor();
    assert.equal(await page.getByRole("button", { name: "To the end" }).count(), 0);
  },
);

test(
  "a visible row keeps its position when older messages load or an answer grows; the end follows an answer",
  { skip: noBrowser },
  async (t) => {
    const home = await makeTempDir();
    t.after(() => home.remove());
    const [id = ""] = await seedSessions(home.path, [{ messages: conversation(600) }]);
    const console = await startConsole(t, { home: home.path });
    const { page } = await openWindow(t, await browser(), sessionUrl(console, id), { expected: LATE });
    await page.locator(".answer", { hasText: "Answer 599." }).waitFor();
    // Hold responses back, to compare the positions before and after them.
    let go: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => (go = resolve));
    await page.route(/\/messages\?/, async (route) => {
      await gate;
      await route.continue();
    });
    await pageUntil(page, async () => {
      await scrollTo(page, "Math.max(0, box.scrollTop - 400)");
      // The first row is a result whose call is not loaded; it disappears when the call is.
      return page.evaluate<boolean>(`document.getElementById("timeline").scrollTop === 0`);
    });
    // The rendered rows are measured by then.
    await page.evaluate(FRAMES);
    const name = await page.evaluate<string>(`(() => {
    const rows = [...document.querySelectorAll(".scroller-row")];
    const row = rows.find((row) => row.getBoundingClientRect().top > 100 && /(Question|Answer) \\d+\\./.test(row.textContent));
    return row.textContent.match(/(Question|Answer) \\d+\\./)[0];
  })()`);
    const place = await placeOf(page, name);
    go();
    await pageUntil(page, () => page.evaluate<boolean>(`document.getElementById("timeline").scrollTop > 3000`));
    await page.evaluate(FRAMES);
    assert.ok(Math.abs(((await placeOf(page, name)) ?? -1000) - (place ?? 0)) <= 2, `${name} moved`);

    console.models.enqueue({ say: [{ text: ["It grows"] }, { gate: "more" }, { text: "\n\nand grows".repeat(60) }] });
    const response = await console.server.fetch("/api/run", {
      method: "POST",
      body: JSON.stringify({ session_id: id, message: "Grow", background: true }),
    });
    assert.equal(response.status, 202);
    const placeBefore = await placeOf(page, name);
    console.models.open("more");
    await page.locator(".run-end", { hasText: "tokens" }).waitFor({ state: "attached" });
    await page.evaluate(FRAMES);
    assert.ok(Math.abs(((await placeOf(page, name)) ?? -1000) - (placeBefore ?? 0)) <= 2, `${name} moved`);

    // At the end, the timeline follows a growing answer.
    await page.getByRole("button", { name: "To the end" }).click();
    console.models.enqueue({
      say: [{ text: ["Once more"] }, { gate: "again" }, { text: "\n\nand once more".repeat(60) }],
    });
    await page.locator("#prompt").fill("Again");
    await page.locator("#prompt").press("Enter");
    await page.locator(".answer", { hasText: "Once more" }).waitFor();
    console.models.open("again");
    await page.locator(".run-end", { hasText: "tokens" }).waitFor();
    await pageUntil(page, () =>
      page.evaluate<boolean>(
        `(() => { const box = document.getElementById("timeline"); return box.scrollHeight - box.clientHeight - box.scrollTop < 2; })()`,
      ),
    );
  },
);

test(
  "the timeline keeps its end or its visible row in place when content grows in the frame of a scroll",
  { skip: noBrowser },
  async (t) => {
    const home = await makeTempDir();
    t.after(() => home.remove());
    const [id = ""] = await seedSessions(home.path, [{ messages: conversation(700) }]);
    const console = await startConsole(t, { home: home.path });
    const { page } = await openWindow(t, await browser(), sessionUrl(console, id));
    await page.locator(".answer", { hasText: "Answer 699." }).waitFor();
    await page.evaluate(FRAMES);
    // Scrolls to the end; in the same frame a question takes space, or the answer grows.
    for (const change of [GROW_FOOT, GROW_LAST]) {
      await page.evaluate(`(async () => {
        const box = document.getElementById("timeline");
        box.scrollTop -= 600;
        await ${FRAMES};
        box.scrollTop = box.scrollHeight;
        ${change}
        await ${FRAMES};
      })()`);
      assert.deepEqual(await page.evaluate(END_STATE), { left: 0, button: false });
    }
    // A position slightly above the end does not count as the end.
    await page.evaluate(`(async () => {
      document.getElementById("timeline").scrollTop -= 20;
      ${GROW_LAST}
      await ${FRAMES};
      ${GROW_FOOT}
      await ${FRAMES};
    })()`);
    const { left, button } = await page.evaluate<{ left: number; button: boolean }>(END_STATE);
    assert.ok(button && left > 100, String(left));
    // A row in the middle stays in place when content above and below it grows in the same frame.
    const moved = await page.evaluate<number>(`(async () => {
      const box = document.getElementById("timeline");
      box.scrollTop -= 1500;
      await ${FRAMES};
      box.scrollTop -= 40;
      const rows = [...document.querySelectorAll(".scroller-row")];
      const at = rows.findIndex((row) => row.getBoundingClientRect().bottom > box.getBoundingClientRect().top + 1);
      const before = rows[at].getBoundingClientRect().top;
      rows[at - 1].firstElementChild.style.paddingTop = "130px";
      ${GROW_LAST}
      await ${FRAMES};
      return Math.round(rows[at].getBoundingClientRect().top - before);
    })()`);
    assert.equal(moved, 0);
    // Scroll up to the first message. Each step moves the visible row by exactly the scrolled distance.
    const steps = await page.evaluate<{ moved: number[]; first: string }>(`(async () => {
      const box = document.getElementById("timeline");
      const moved = [];
      const edge = box.getBoundingClientRect().top;
      // Where the browser draws the row. Between two frames, rows that have just come are not measured yet.
      const painted = (row) => new Promise((done) => {
        new IntersectionObserver(([entry], observer) => {
          observer.disconnect();
          done(entry.boundingClientRect.top);
        }).observe(row);
      });
      for (let steps = 0; steps < 3000; steps += 1) {
        const row = [...document.querySelectorAll(".scroller-row")].find((row) => row.getBoundingClientRect().top > edge + 40);
        const before = await painted(row);
        const from = box.scrollTop;
        box.scrollTop -= 500;
        const wanted = before + from - box.scrollTop;
        await ${FRAMES};
        const off = Math.round((await painted(row)) - wanted);
        if (row.isConnected && Math.abs(off) > 1) moved.push(off);
        if (box.scrollTop === 0 && document.querySelector(".timeline-before").textContent === "") break;
      }
      return { moved, first: document.querySelector(".scroller-row").textContent };
    })()`);
    assert.deepEqual(steps.moved, []);
    assert.match(steps.first, /^Question 0\./);
  },
);

/** Time: two frames, so that changes are laid out, measured and positioned. */
const FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))";
const GROW_FOOT = `document.querySelector(".foot").style.paddingTop = (parseFloat(getComputedStyle(document.querySelector(".foot")).paddingTop) + 150) + "px";`;
const GROW_LAST = `{
  const last = [...document.querySelectorAll(".scroller-row")].at(-1).firstElementChild;
  last.style.paddingTop = (parseFloat(getComputedStyle(last).paddingTop) + 170) + "px";
}`;
/** Distance to the end in pixels, and whether the button to the end is shown. */
const END_STATE = `(() => {
  const box = document.getElementById("timeline");
  const left = box.scrollHeight - box.clientHeight - box.scrollTop;
  return { left: Math.abs(left) < 2 ? 0 : left, button: document.querySelector(".timeline-end") !== null };
})()`;

/** Questions, answers with code, and tool calls with output, of many heights. */
function conversation(count: number): Partial<Message>[] {
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
