import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, afterEach, before, describe, it } from "node:test";
import type { Page } from "playwright-core";
import { accessFindings, sidewaysScroll } from "../../helpers/access.js";
import {
  noBrowser,
  openWindow,
  sessionUrl,
  sharedBrowser,
  startConsole,
  type ConsoleServer,
  type WindowOptions,
} from "../../helpers/console.js";
import { fetchJson, fileHooks, SERVER_GONE, settled, until, untilAsked } from "../../helpers/console-runs.js";
import { call, say } from "../../helpers/fake-model-server.js";

const hooks = fileHooks(after);
const browser = sharedBrowser(hooks);
const TODOS = [
  { content: "Look around", status: "completed" },
  { content: "Change it", status: "in_progress" },
  { content: "Test it", status: "pending" },
];
const cost = { input: 100, output: 200 };

/** Window sizes. One is tested light and one dark, with WINDOWS=all each in both. */
const WINDOWS = [
  ["wide", 1280],
  ["phone", 360],
] as const;

const prompt = (page: Page) => page.getByRole("textbox", { name: "Message" });

describe("the web console", { skip: noBrowser }, () => {
  let server: ConsoleServer;
  before(async () => {
    const described = [
      { id: "m1", cost },
      { id: "m2", name: "Second of all", cost },
    ];
    server = await startConsole(hooks, { described, files: { "a.txt": "one\ntwo is a line\nthree\n" } });
  });
  const open = async (t: { after(run: () => Promise<void>): void }, url = server.url, options: WindowOptions = {}) =>
    (await openWindow(t, await browser(), url, { expected: SERVER_GONE, ...options })).page;
  const begin = (body: object) =>
    fetchJson<{ session_id: string; run_id: string }>(server.server, "/api/run", {
      method: "POST",
      body: JSON.stringify({ background: true, ...body }),
    });
  const sessionOf = (id: string) => fetchJson<Record<string, unknown>>(server.server, `/api/sessions/${id}`);
  /** Creates a session whose run has a plan and requests permission to change a file. */
  const beginAsking = async () => {
    server.models.enqueue(
      call("todowrite", { todos: TODOS }),
      call("read", { filePath: "a.txt" }),
      call("edit", { filePath: "a.txt", oldString: "two is a line", newString: "two is a long line" }),
    );
    return (await begin({ message: "Change a.txt", mode: "ask", can_answer: true })).session_id;
  };

  // A run that outlives its test would take the model answers of the next test's runs.
  afterEach(() =>
    settled(async () => {
      const { runs } = await fetchJson<{ runs: { state: string }[] }>(server.server, "/api/runs?size=100");
      return runs.every(({ state }) => !/^(queued|running|waiting)$/.test(state));
    }),
  );

  it("sets the model, effort and mode of a new session, and changes them in an existing one", async (t) => {
    const page = await open(t);
    await page.getByRole("button", { name: /^Model:/ }).click();
    const search = page.getByRole("combobox", { name: "Search models" });
    await search.fill("of all");
    const names = page.getByRole("option").locator(".model-name");
    await settled(async () => (await names.allTextContents()).join() === "Second of all");
    await page.keyboard.press("Enter");
    await page.getByRole("combobox", { name: "Effort" }).selectOption("high");
    await page.getByRole("combobox", { name: "Mode" }).selectOption("plan");
    await prompt(page).fill("Hello");
    await page.keyboard.press("Enter");
    await page.getByText("OK.", { exact: true }).waitFor();
    const id = /#\/s\/(.+)$/.exec(page.url())?.[1] ?? "";
    const settingsOf = ({ provider, model, reasoning_effort, mode }: Record<string, unknown>) => [
      provider,
      model,
      reasoning_effort,
      mode,
    ];
    assert.deepEqual(settingsOf(await sessionOf(id)), ["lab", "m2", "high", "plan"]);
    await page.getByRole("button", { name: "Model: Second of all" }).click();
    await page.getByRole("option", { name: /^m1/ }).click();
    await page.getByRole("button", { name: "Model: m1" }).waitFor();
    await page.getByRole("combobox", { name: "Effort" }).selectOption("low");
    await page.getByRole("combobox", { name: "Mode" }).selectOption("ask");
    const secondPage = await open(t, sessionUrl(server, id));
    await until(secondPage, `document.querySelector('[aria-label="Mode"]')?.value === "ask"`);
    // Two concurrent changes arrive in any order.
    await settled(async () => settingsOf(await sessionOf(id)).join() === "lab,m1,low,ask");
    await page.getByRole("button", { name: "Model: m1" }).click();
    await until(page, `document.activeElement.getAttribute("aria-label") === "Search models"`);
    await page.keyboard.press("Escape");
    // The browser reports the closed popover later.
    await page.getByRole("listbox").waitFor({ state: "detached" });
  });

  it("shows the plan, and only its progress while a permission request is open", async (t) => {
    server.models.enqueue(call("todowrite", { todos: TODOS }), say("Planned."));
    const { session_id: id } = await begin({ message: "Plan" });
    const page = await open(t, sessionUrl(server, id));
    const plan = page.getByRole("region", { name: "Plan" });
    await plan.getByText("1 of 3 done").waitFor();
    assert.deepEqual(await plan.getByRole("listitem").allTextContents(), [
      "Look around (done)",
      "Change it (in progress)",
      "Test it (to do)",
    ]);
    assert.equal(await plan.locator('[aria-current="step"]').textContent(), "Change it (in progress)");
    const askingPage = await open(t, sessionUrl(server, await beginAsking()));
    await askingPage.locator(".ask").waitFor();
    assert.equal(await askingPage.getByRole("region", { name: "Plan" }).getByRole("listitem").count(), 0);
    await askingPage.locator(".ask").getByRole("button", { name: "Reject" }).click();
    await askingPage.getByRole("region", { name: "Plan" }).getByRole("listitem").first().waitFor();
  });

  it("lists background commands until they end, without sideways scroll on a phone", async (t) => {
    const command = "read -r line # a command that is longer than what a phone has room for in a line";
    server.models.enqueue(call("bash", { command, background: true }), call("bash", { command: "true" }), say("On."));
    const { session_id: id } = await begin({ message: "Start" });
    const page = await open(t, sessionUrl(server, id), { width: 380, height: 700 });
    const list = page.getByRole("list", { name: "Background commands" });
    await page.getByText("On.", { exact: true }).waitFor();
    const [line, ...otherLines] = await list.getByRole("listitem").allTextContents();
    assert.deepEqual(otherLines, []);
    const [, name = ""] = /^(bg-[0-9a-f]{6})read -r line # a command/.exec(line ?? "") ?? assert.fail(line);
    assert.deepEqual(await accessFindings(page), []);
    assert.deepEqual(await sidewaysScroll(page), []);
    server.models.enqueue(call("bash_stop", { id: name }), say("Off."));
    await begin({ message: "Stop", session_id: id });
    await page.getByText("Off.", { exact: true }).waitFor();
    await list.waitFor({ state: "detached" });
  });

  it("plots tokens and cost over time with a text alternative, and compacts the conversation", async (t) => {
    let id: string | undefined;
    for (const tokens of [1000, 3000]) {
      server.models.enqueue(say("Said. ".repeat(500), { usage: { input: tokens, output: 0 } }));
      const body = JSON.stringify({ message: "Say", ...(id !== undefined && { session_id: id }) });
      const response = await server.server.fetch("/api/run", { method: "POST", body });
      id = response.headers.get("x-session-id") ?? "";
      await response.text();
    }
    const page = await open(t, sessionUrl(server, id ?? ""));
    await page.getByRole("button", { name: "Tokens and cost" }).click();
    const spending = page.getByRole("region", { name: "Tokens and cost" });
    await spending.getByRole("img", { name: /^Tokens over time: 4k in 2 runs, from / }).waitFor();
    await spending.getByRole("img", { name: /^Cost over time: \$0\.40 in 2 runs/ }).waitFor();
    assert.match(
      (await spending.locator(".plot-tokens .plot-line").getAttribute("d")) ?? "",
      /^M0 96H0V76\.8H300V19\.2H300$/,
    );
    await spending.getByText("Each run").click();
    assert.deepEqual(await spending.getByRole("row").locator("td:nth-child(3)").allTextContents(), ["3,000", "1,000"]);

    await spending.getByRole("button", { name: "Compact the conversation" }).click();
    const modelView = async () => (await server.server.fetch(`/api/sessions/${id}/messages?view=model`)).text();
    await settled(async () => (await modelView()).includes("Summary of the earlier conversation"));
    await spending.getByText("3,000").waitFor();
    assert.equal(await page.getByText("Said. Said.").count(), 2);
  });

  it("shows new runs of all sessions, stops a run, and links to its session", async (t) => {
    server.models.enqueue({ say: [{ text: "Long work." }, { gate: "never" }] });
    const { session_id: id } = await begin({ message: "Work long" });
    const page = await open(t, `${server.url}#/runs`);
    const active = page.getByRole("region", { name: "Active" });
    await active.getByRole("listitem").waitFor();
    await page.getByText("1 active").waitFor();
    await active.getByRole("button", { name: /^Stop the run of/ }).click();
    await active.waitFor({ state: "detached" });
    const [first] = await page.getByRole("region", { name: "Ended" }).getByRole("listitem").all();
    assert.match((await first?.textContent()) ?? "", /cancelled/);
    // A new run appears without user action.
    const waiting = await beginAsking();
    await active.getByText("waiting for an answer").waitFor();
    await active.getByRole("link").click();
    await page.locator(".ask").waitFor();
    assert.ok(page.url().endsWith(waiting));
    await page.locator(".ask").getByRole("button", { name: "Reject" }).click();
    assert.notEqual(waiting, id);
  });

  it("requests the runs again when its page becomes visible", async (t) => {
    await begin({ message: "Hello" });
    const { page, requests } = await openWindow(t, await browser(), `${server.url}#/runs`, { expected: SERVER_GONE });
    await page.getByRole("region", { name: "Ended" }).waitFor();
    const setVisibility = (state: string) =>
      page.evaluate(`Object.defineProperty(document, "visibilityState", { configurable: true, get: () => "${state}" });
        document.dispatchEvent(new Event("visibilitychange"))`);
    const requestCount = () => requests.filter((request) => request.includes("/api/runs?")).length;
    await setVisibility("hidden");
    const before = requestCount();
    await setVisibility("visible");
    await settled(async () => requestCount() > before);
  });

  it("is usable by keyboard alone, from a new session to a stopped run", async (t) => {
    const page = await open(t, `${server.url}#/runs`);
    await page.getByRole("status").first().waitFor();
    await page.keyboard.press("?");
    const help = page.getByRole("dialog", { name: "Keyboard shortcuts" });
    await help.getByText("Stop the run").waitFor();
    await page.keyboard.press("Escape");
    await help.waitFor({ state: "detached" });
    await page.keyboard.press("n");
    await prompt(page).waitFor();
    await until(page, `document.activeElement.id === "prompt"`);
    server.models.enqueue(call("bash", { command: "echo by-key > key.txt" }), call("bash", { command: "sleep 1000" }));
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
    await untilAsked(page);
    await page.keyboard.press("1");
    await page.locator(".ask").filter({ hasText: "sleep 1000" }).waitFor();
    assert.ok(existsSync(join(server.server.projectDir, "key.txt")));
    await untilAsked(page);
    await page.keyboard.press("1");
    await page.getByRole("button", { name: "Stop" }).waitFor();
    await page.locator(".ask").waitFor({ state: "detached" });
    // Two Escape keys that close something do not stop the run.
    await until(page, `document.activeElement.id === "prompt"`);
    await page.keyboard.press("Escape");
    await page.keyboard.press("?");
    await help.waitFor();
    await page.keyboard.press("Escape");
    await help.waitFor({ state: "detached" });
    await page.keyboard.press("Escape");
    assert.equal(await page.getByRole("button", { name: "Stop" }).count(), 1);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
    await page.keyboard.press("g");
    await page.keyboard.press("r");
    await page.getByRole("region", { name: "Ended" }).getByText("cancelled").first().waitFor();
  });

  it("shows 400 of 10,000 changed lines, and 2,000 more on request", async (t) => {
    const lines = Array.from({ length: 10_000 }, (_, at) => `line ${at}\n`).join("");
    server.models.enqueue(call("write", { filePath: "long.txt", content: lines }));
    const { session_id: id } = await begin({ message: "Write much", mode: "ask", can_answer: true });
    const page = await open(t, sessionUrl(server, id));
    const ask = page.locator(".ask");
    await ask.getByText("+10000").waitFor();
    assert.equal(await ask.locator(".diff-row").count(), 400);
    await ask.getByRole("button", { name: "Show 2,000 more of 9,600 lines" }).click();
    assert.equal(await ask.locator(".diff-row").count(), 2400);
    await ask.getByRole("button", { name: "Reject" }).click();
  });

  for (const dark of [false, true])
    for (const [name, width] of WINDOWS.filter((_, n) => process.env["WINDOWS"] === "all" || dark === (n === 1)))
      it(`has no accessibility findings and no sideways scroll in any view, ${dark ? "dark" : "light"}, ${name}`, async (t) => {
        const page = await open(t, server.url, { width, height: 720, dark });
        const check = async (view: string) => {
          assert.deepEqual(await accessFindings(page), [], view);
          assert.deepEqual(await sidewaysScroll(page), [], view);
        };
        await prompt(page).waitFor();
        await check("new session");
        await page.getByRole("button", { name: /^Model:/ }).click();
        await page.getByRole("option").first().waitFor();
        await check("model picker");
        await page.keyboard.press("Escape");
        const id = await beginAsking();
        await page.evaluate(`location.hash = "#/s/${id}"`);
        await page.locator(".ask .diff-row.added").waitFor();
        await check("permission");
        assert.deepEqual(await page.evaluate(outOf(".ask-choices .button, .composer-send", ".foot")), []);
        if (width > 720) {
          await page.locator(".ask").getByRole("button", { name: "Side by side" }).click();
          await check("side by side");
          await page.locator(".ask").getByRole("button", { name: "Side by side" }).click();
        }
        server.models.enqueue(say("Edited `a.txt`."));
        await page.locator(".ask").getByRole("button", { name: "Allow", exact: true }).click();
        await page.getByText("Edited a.txt.").waitFor();
        await page.locator(".fold", { hasText: "Read" }).click();
        await page.locator(".output").first().waitFor();
        assert.deepEqual(await page.evaluate(outOf(".output .copy", ".output")), []);
        await check("session");
        await page.getByRole("button", { name: "Tokens and cost" }).click();
        await page.getByRole("img", { name: /^Tokens over time/ }).waitFor();
        await check("spending");
        await page.getByRole("button", { name: "Close" }).click();
        await page.evaluate(`location.hash = "#/runs"`);
        await page.getByRole("region", { name: "Ended" }).waitFor();
        await check("runs");
        await page.keyboard.press("?");
        await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
        await check("help");
        await server.server.fetch("/api/run", {
          method: "POST",
          body: JSON.stringify({ message: "Write a.txt back" }),
        });
      });
});

/** Expression: elements of `parts` that extend beyond their `box` or the window. */
function outOf(parts: string, box: string): string {
  return `[...document.querySelectorAll(${JSON.stringify(parts)})].filter((part) => {
    const [inner, outer] = [part.getBoundingClientRect(), part.closest(${JSON.stringify(box)}).getBoundingClientRect()];
    return inner.right > outer.right + 1 || inner.bottom > outer.bottom + 1 || ("${box}" === ".foot" && inner.bottom > innerHeight);
  }).map((part) => part.outerHTML)`;
}
