import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, afterEach, before, describe, it } from "node:test";
import type { Page } from "playwright-core";
import { findAccessibilityFaults, findOverflowingElements } from "../../helpers/accessibility.js";
import {
  NO_BROWSER,
  openWindow,
  sessionUrl,
  shareBrowser,
  startConsole,
  type ConsoleServer,
  type WindowOptions,
} from "../../helpers/console.js";
import {
  fetchJson,
  createFileHooks,
  STOPPED_SERVER_ERROR,
  waitForCondition,
  waitForPage,
  waitForQuestion,
} from "../../helpers/console-runs.js";
import { callStep, textStep } from "../../helpers/fake-model-server.js";

const hooks = createFileHooks(after);
const browser = shareBrowser(hooks);
const TODOS = [
  { content: "Look around", status: "completed" },
  { content: "Change it", status: "in_progress" },
  { content: "Test it", status: "pending" },
];
/** In US dollars per million tokens. */
const MODEL_COST = { input: 100, output: 200 };

/** Window names and widths. One is tested light and one dark; with WINDOWS=all, each is tested light and dark. */
const WINDOW_SIZES = [
  ["wide", 1280],
  ["phone", 360],
] as const;

const getPromptField = (page: Page) => page.getByRole("textbox", { name: "Message" });

describe("the web console", { skip: NO_BROWSER }, () => {
  let consoleServer: ConsoleServer;
  before(async () => {
    const modelEntries = [
      { id: "m1", cost: MODEL_COST },
      { id: "m2", name: "Second of all", cost: MODEL_COST },
    ];
    consoleServer = await startConsole(hooks, {
      modelEntries,
      files: { "a.txt": "one\ntwo is a line\nthree\n" },
    });
  });
  const openPage = async (
    t: { after(cleanup: () => Promise<void>): void },
    url = consoleServer.url,
    options: WindowOptions = {},
  ) => (await openWindow(t, await browser(), url, { expectedFaults: STOPPED_SERVER_ERROR, ...options })).page;
  const startRun = (body: object) =>
    fetchJson<{ session_id: string; run_id: string }>(consoleServer.server, "/api/run", {
      method: "POST",
      body: JSON.stringify({ background: true, ...body }),
    });
  const fetchSession = (id: string) => fetchJson<Record<string, unknown>>(consoleServer.server, `/api/sessions/${id}`);
  /** Starts a run that has a plan and requests permission to change a file. Resolves with the id of its session. */
  const startAskingRun = async () => {
    consoleServer.models.enqueue(
      callStep("todowrite", { todos: TODOS }),
      callStep("read", { filePath: "a.txt" }),
      callStep("edit", { filePath: "a.txt", oldString: "two is a line", newString: "two is a long line" }),
    );
    return (await startRun({ message: "Change a.txt", mode: "ask", can_answer: true })).session_id;
  };

  // A run that outlives its test would take the model answers of the next test's runs.
  afterEach(() =>
    waitForCondition(async () => {
      const { runs } = await fetchJson<{ runs: { state: string }[] }>(consoleServer.server, "/api/runs?size=100");
      return runs.every(({ state }) => !/^(queued|running|waiting)$/.test(state));
    }),
  );

  it("sets the model, effort and mode of a new session, and changes them in an existing session", async (t) => {
    const page = await openPage(t);
    await page.getByRole("button", { name: /^Model:/ }).click();
    const search = page.getByRole("combobox", { name: "Search models" });
    await search.fill("of all");
    const names = page.getByRole("option").locator(".model-name");
    await waitForCondition(async () => (await names.allTextContents()).join() === "Second of all");
    await page.keyboard.press("Enter");
    await page.getByRole("combobox", { name: "Effort" }).selectOption("high");
    await page.getByRole("combobox", { name: "Mode" }).selectOption("plan");
    await getPromptField(page).fill("Hello");
    await page.keyboard.press("Enter");
    await page.getByText("OK.", { exact: true }).waitFor();
    const id = /#\/s\/(.+)$/.exec(page.url())?.[1] ?? "";
    const getSettings = ({ provider, model, reasoning_effort, mode }: Record<string, unknown>) => [
      provider,
      model,
      reasoning_effort,
      mode,
    ];
    assert.deepEqual(getSettings(await fetchSession(id)), ["lab", "m2", "high", "plan"]);
    await page.getByRole("button", { name: "Model: Second of all" }).click();
    await page.getByRole("option", { name: /^m1/ }).click();
    await page.getByRole("button", { name: "Model: m1" }).waitFor();
    await page.getByRole("combobox", { name: "Effort" }).selectOption("low");
    await page.getByRole("combobox", { name: "Mode" }).selectOption("ask");
    const secondPage = await openPage(t, sessionUrl(consoleServer, id));
    await waitForPage(secondPage, `document.querySelector('[aria-label="Mode"]')?.value === "ask"`);
    // Two concurrent changes arrive in any order.
    await waitForCondition(async () => getSettings(await fetchSession(id)).join() === "lab,m1,low,ask");
    await page.getByRole("button", { name: "Model: m1" }).click();
    await waitForPage(page, `document.activeElement.getAttribute("aria-label") === "Search models"`);
    await page.keyboard.press("Escape");
    // The browser reports the closed popover later.
    await page.getByRole("listbox").waitFor({ state: "detached" });
  });

  it("shows the plan, and only its progress while a permission request is open", async (t) => {
    consoleServer.models.enqueue(callStep("todowrite", { todos: TODOS }), textStep("Planned."));
    const { session_id: id } = await startRun({ message: "Plan" });
    const page = await openPage(t, sessionUrl(consoleServer, id));
    const plan = page.getByRole("region", { name: "Plan" });
    await plan.getByText("1 of 3 done").waitFor();
    assert.deepEqual(await plan.getByRole("listitem").allTextContents(), [
      "Look around (done)",
      "Change it (in progress)",
      "Test it (to do)",
    ]);
    assert.equal(await plan.locator('[aria-current="step"]').textContent(), "Change it (in progress)");
    const askingPage = await openPage(t, sessionUrl(consoleServer, await startAskingRun()));
    await askingPage.locator(".ask").waitFor();
    assert.equal(await askingPage.getByRole("region", { name: "Plan" }).getByRole("listitem").count(), 0);
    await askingPage.locator(".ask").getByRole("button", { name: "Reject" }).click();
    await askingPage.getByRole("region", { name: "Plan" }).getByRole("listitem").first().waitFor();
  });

  it("lists background commands until they end, without sideways scroll on a phone", async (t) => {
    const command = "read -r line # a command that is longer than what a phone has room for in a line";
    consoleServer.models.enqueue(
      callStep("bash", { command, background: true }),
      callStep("bash", { command: "true" }),
      textStep("On."),
    );
    const { session_id: id } = await startRun({ message: "Start" });
    const page = await openPage(t, sessionUrl(consoleServer, id), { width: 380, height: 700 });
    const list = page.getByRole("list", { name: "Background commands" });
    await page.getByText("On.", { exact: true }).waitFor();
    // The page shows messages before it has the session's state.
    await list.getByRole("listitem").first().waitFor();
    const [itemText, ...otherItemTexts] = await list.getByRole("listitem").allTextContents();
    assert.deepEqual(otherItemTexts, []);
    const [, name = ""] = /^(bg-[0-9a-f]{6})read -r line # a command/.exec(itemText ?? "") ?? assert.fail(itemText);
    assert.deepEqual(await findAccessibilityFaults(page), []);
    assert.deepEqual(await findOverflowingElements(page), []);
    consoleServer.models.enqueue(callStep("bash_stop", { id: name }), textStep("Off."));
    await startRun({ message: "Stop", session_id: id });
    await page.getByText("Off.", { exact: true }).waitFor();
    await list.waitFor({ state: "detached" });
  });

  it("moves a running command to the background, on a phone too", async (t) => {
    const command = "read -r line < <(sleep 300) # a command that is longer than what a phone has room for in a line";
    consoleServer.models.enqueue(callStep("bash", { command }), textStep("It still runs."));
    const { session_id: id } = await startRun({ message: "Start" });
    const page = await openPage(t, sessionUrl(consoleServer, id), { width: 380, height: 700 });
    const move = page.getByRole("button", { name: "Move to background" });
    await move.waitFor();
    assert.deepEqual(await findAccessibilityFaults(page), []);
    assert.deepEqual(await findOverflowingElements(page), []);
    await move.click();
    await page.getByText("It still runs.", { exact: true }).waitFor();
    await page.getByRole("list", { name: "Background commands" }).getByText(command).waitFor();
    assert.equal(await move.count(), 0);
  });

  it("plots tokens and cost over time with a text alternative, and compacts the conversation", async (t) => {
    let id: string | undefined;
    for (const tokens of [1000, 3000]) {
      consoleServer.models.enqueue(textStep("Said. ".repeat(500), { usage: { input: tokens, output: 0 } }));
      const body = JSON.stringify({ message: "Say", ...(id !== undefined && { session_id: id }) });
      const response = await consoleServer.server.fetch("/api/run", { method: "POST", body });
      id = response.headers.get("x-session-id") ?? "";
      await response.text();
    }
    const page = await openPage(t, sessionUrl(consoleServer, id ?? ""));
    await page.getByRole("button", { name: "Tokens and cost" }).click();
    const usageRegion = page.getByRole("region", { name: "Tokens and cost" });
    await usageRegion.getByRole("img", { name: /^Tokens over time: 4k in 2 runs, from / }).waitFor();
    await usageRegion.getByRole("img", { name: /^Cost over time: \$0\.40 in 2 runs/ }).waitFor();
    assert.match(
      (await usageRegion.locator(".plot-tokens .plot-line").getAttribute("d")) ?? "",
      /^M0 96H0V76\.8H300V19\.2H300$/,
    );
    await usageRegion.getByText("Each run").click();
    assert.deepEqual(await usageRegion.getByRole("row").locator("td:nth-child(3)").allTextContents(), [
      "3,000",
      "1,000",
    ]);

    await usageRegion.getByRole("button", { name: "Compact the conversation" }).click();
    const readModelView = async () =>
      (await consoleServer.server.fetch(`/api/sessions/${id}/messages?view=model`)).text();
    await waitForCondition(async () => (await readModelView()).includes("Summary of the earlier conversation"));
    await usageRegion.getByText("3,000").waitFor();
    assert.equal(await page.getByText("Said. Said.").count(), 2);
  });

  it("shows new runs of all sessions, stops a run, and links from a run to its session", async (t) => {
    consoleServer.models.enqueue({ say: [{ text: "Long work." }, { gate: "never" }] });
    const { session_id: id } = await startRun({ message: "Work long" });
    const page = await openPage(t, `${consoleServer.url}#/runs`);
    const activeRuns = page.getByRole("region", { name: "Active" });
    await activeRuns.getByRole("listitem").waitFor();
    await page.getByText("1 active").waitFor();
    await activeRuns.getByRole("button", { name: /^Stop the run of/ }).click();
    await activeRuns.waitFor({ state: "detached" });
    const [firstEndedRun] = await page.getByRole("region", { name: "Ended" }).getByRole("listitem").all();
    assert.match((await firstEndedRun?.textContent()) ?? "", /cancelled/);
    // A new run appears without user action.
    const waitingSessionId = await startAskingRun();
    await activeRuns.getByText("waiting for an answer").waitFor();
    await activeRuns.getByRole("link").click();
    await page.locator(".ask").waitFor();
    assert.ok(page.url().endsWith(waitingSessionId));
    await page.locator(".ask").getByRole("button", { name: "Reject" }).click();
    assert.notEqual(waitingSessionId, id);
  });

  it("requests the runs again when the runs page becomes visible", async (t) => {
    await startRun({ message: "Hello" });
    const { page, requests } = await openWindow(t, await browser(), `${consoleServer.url}#/runs`, {
      expectedFaults: STOPPED_SERVER_ERROR,
    });
    await page.getByRole("region", { name: "Ended" }).waitFor();
    const setVisibility = (state: string) =>
      page.evaluate(`Object.defineProperty(document, "visibilityState", { configurable: true, get: () => "${state}" });
        document.dispatchEvent(new Event("visibilitychange"))`);
    const countRequests = () => requests.filter((request) => request.includes("/api/runs?")).length;
    await setVisibility("hidden");
    const countBefore = countRequests();
    await setVisibility("visible");
    await waitForCondition(async () => countRequests() > countBefore);
  });

  it("is usable by keyboard alone, from a new session to a stopped run", async (t) => {
    const page = await openPage(t, `${consoleServer.url}#/runs`);
    await page.getByRole("status").first().waitFor();
    await page.keyboard.press("?");
    const help = page.getByRole("dialog", { name: "Keyboard shortcuts" });
    await help.getByText("Stop the run").waitFor();
    await page.keyboard.press("Escape");
    await help.waitFor({ state: "detached" });
    await page.keyboard.press("n");
    await getPromptField(page).waitFor();
    await waitForPage(page, `document.activeElement.id === "prompt"`);
    consoleServer.models.enqueue(
      callStep("bash", { command: "echo by-key > key.txt" }),
      callStep("bash", { command: "sleep 1000" }),
    );
    // Tab to the mode, then back to the prompt.
    await page.keyboard.press("Tab");
    while ((await page.evaluate(`document.activeElement.getAttribute("aria-label")`)) !== "Mode")
      await page.keyboard.press("Tab");
    await page.keyboard.type("Ask");
    await page.keyboard.press("Escape");
    await page.keyboard.press("i");
    await page.keyboard.type("Make key.txt? n / g r");
    await page.keyboard.press("Enter");
    await page.getByRole("article", { name: /^May bash/ }).waitFor();
    await waitForQuestion(page);
    await page.keyboard.press("1");
    await page.locator(".ask").filter({ hasText: "sleep 1000" }).waitFor();
    assert.ok(existsSync(join(consoleServer.server.projectDir, "key.txt")));
    await waitForQuestion(page);
    await page.keyboard.press("1");
    await page.getByRole("button", { name: "Stop", exact: true }).waitFor();
    await page.locator(".ask").waitFor({ state: "detached" });
    // Two Escape keys that close something do not stop the run.
    await waitForPage(page, `document.activeElement.id === "prompt"`);
    await page.keyboard.press("Escape");
    await page.keyboard.press("?");
    await help.waitFor();
    await page.keyboard.press("Escape");
    await help.waitFor({ state: "detached" });
    await page.keyboard.press("Escape");
    assert.equal(await page.getByRole("button", { name: "Stop", exact: true }).count(), 1);
    // On a busy machine, the second key may come too late and count as the first one.
    await waitForCondition(async () => {
      await page.keyboard.press("Escape");
      return (await page.getByRole("button", { name: "Stop", exact: true }).count()) === 0;
    });
    await page.keyboard.press("g");
    await page.keyboard.press("r");
    await page.getByRole("region", { name: "Ended" }).getByText("cancelled").first().waitFor();
  });

  it("shows 400 of 10,000 changed lines, and 2,000 more on request", async (t) => {
    const lines = Array.from({ length: 10_000 }, (_, index) => `line ${index}\n`).join("");
    consoleServer.models.enqueue(callStep("write", { filePath: "long.txt", content: lines }));
    const { session_id: id } = await startRun({ message: "Write much", mode: "ask", can_answer: true });
    const page = await openPage(t, sessionUrl(consoleServer, id));
    const ask = page.locator(".ask");
    await ask.getByText("+10000").waitFor();
    assert.equal(await ask.locator(".diff-row").count(), 400);
    await ask.getByRole("button", { name: "Show 2,000 more of 9,600 lines" }).click();
    assert.equal(await ask.locator(".diff-row").count(), 2400);
    await ask.getByRole("button", { name: "Reject" }).click();
  });

  for (const isDark of [false, true])
    for (const [name, width] of WINDOW_SIZES.filter((_, n) => process.env["WINDOWS"] === "all" || isDark === (n === 1)))
      it(`has no accessibility findings and no sideways scroll in any view, ${isDark ? "dark" : "light"}, ${name}`, async (t) => {
        const page = await openPage(t, consoleServer.url, { width, height: 720, isDark });
        const checkView = async (view: string) => {
          assert.deepEqual(await findAccessibilityFaults(page), [], view);
          assert.deepEqual(await findOverflowingElements(page), [], view);
        };
        await getPromptField(page).waitFor();
        await checkView("new session");
        await page.getByRole("button", { name: /^Model:/ }).click();
        await page.getByRole("option").first().waitFor();
        await checkView("model picker");
        await page.keyboard.press("Escape");
        const id = await startAskingRun();
        await page.evaluate(`location.hash = "#/s/${id}"`);
        await page.locator(".ask .diff-row.added").waitFor();
        await checkView("permission");
        assert.deepEqual(
          await page.evaluate(createOverflowScript(".ask-choices .button, .composer-send", ".foot")),
          [],
        );
        if (width > 720) {
          await page.locator(".ask").getByRole("button", { name: "Side by side" }).click();
          await checkView("side by side");
          await page.locator(".ask").getByRole("button", { name: "Side by side" }).click();
        }
        consoleServer.models.enqueue(textStep("Edited `a.txt`."));
        await page.locator(".ask").getByRole("button", { name: "Allow", exact: true }).click();
        await page.getByText("Edited a.txt.").waitFor();
        await page.locator(".fold", { hasText: "Read" }).click();
        await page.locator(".output").first().waitFor();
        assert.deepEqual(await page.evaluate(createOverflowScript(".output .copy", ".output")), []);
        await checkView("session");
        await page.getByRole("button", { name: "Tokens and cost" }).click();
        await page.getByRole("img", { name: /^Tokens over time/ }).waitFor();
        await checkView("spending");
        await page.getByRole("button", { name: "Close" }).click();
        await page.evaluate(`location.hash = "#/runs"`);
        await page.getByRole("region", { name: "Ended" }).waitFor();
        await checkView("runs");
        await page.keyboard.press("?");
        await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
        await checkView("help");
        await consoleServer.server.fetch("/api/run", {
          method: "POST",
          body: JSON.stringify({ message: "Write a.txt back" }),
        });
      });
});

/** Returns a script that finds elements of selector `parts` that extend beyond their ancestor `box` or the window. */
function createOverflowScript(parts: string, box: string): string {
  return `[...document.querySelectorAll(${JSON.stringify(parts)})].filter((part) => {
    const [inner, outer] = [part.getBoundingClientRect(), part.closest(${JSON.stringify(box)}).getBoundingClientRect()];
    return inner.right > outer.right + 1 || inner.bottom > outer.bottom + 1 || ("${box}" === ".foot" && inner.bottom > innerHeight);
  }).map((part) => part.outerHTML)`;
}
