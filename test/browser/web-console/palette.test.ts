import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { NO_BROWSER, openWindow, sessionUrl, shareBrowser, startConsole } from "../../helpers/console.js";
import { fetchJson, STOPPED_SERVER_ERROR, waitForCondition, waitForPage } from "../../helpers/console-runs.js";
import { seedSessions } from "../../helpers/seeded-sessions.js";
import { makeTempDir } from "../../helpers/temp-dir.js";

const browser = shareBrowser({ after });
const ACTIVE_OPTION = `document.getElementById(document.activeElement.getAttribute("aria-activedescendant"))?.textContent`;

describe("the command palette and the settings", { skip: NO_BROWSER }, () => {
  it("opens a session, sets mode and model and stops a run by keyboard alone", async (t) => {
    const home = await makeTempDir();
    t.after(() => home.remove());
    const messages = [{ parts: [{ type: "text" as const, text: "Hello" }] }];
    const seeds = Array.from({ length: 60 }, (_, i) => ({ title: `Number ${i}`, messages }));
    const [firstId = ""] = await seedSessions(home.path, seeds);
    const console = await startConsole(t, { home: home.path, modelEntries: [{ id: "m1" }, { id: "m2" }] });
    const { page } = await openWindow(t, await browser(), console.url, { expectedFaults: STOPPED_SERVER_ERROR });
    const palette = page.getByRole("dialog", { name: "Commands" });
    const choose = async (text: string, option: RegExp) => {
      await page.keyboard.press("Control+k");
      await waitForPage(page, `document.activeElement.getAttribute("role") === "combobox"`);
      await page.keyboard.type(text);
      await palette.getByRole("option", { name: option }).first().waitFor();
      await waitForPage(page, `${option}.test(${ACTIVE_OPTION})`);
      await page.keyboard.press("Enter");
      await palette.waitFor({ state: "detached" });
    };
    // The field of the prompt has the focus. The list of sessions has loaded only the newest ones.
    await page.locator("#prompt").waitFor();
    await choose("number 0", /^Number 0/);
    await page.locator(".user-text").waitFor();
    assert.equal(page.url(), sessionUrl(console, firstId));
    const fetchSession = () => fetchJson<Record<string, unknown>>(console.server, `/api/sessions/${firstId}`);
    await choose("mode plan", /^Mode Plan/);
    await waitForCondition(async () => (await fetchSession()).mode === "plan");
    await choose("model m2", /^Model m2/);
    await waitForCondition(async () => (await fetchSession()).model === "m2");
    await page.locator("#prompt").focus();
    await page.keyboard.press("Alt+m");
    await waitForCondition(async () => (await fetchSession()).mode === "auto");

    console.models.enqueue({ say: [{ text: "Working." }, { gate: "never" }] });
    await page.locator("#prompt").fill("Work");
    await page.keyboard.press("Enter");
    await page.getByText("Working.").waitFor();
    await choose("stop", /^Stop the run/);
    await page.getByRole("button", { name: "Stop", exact: true }).waitFor({ state: "detached" });

    // Escape closes the palette and returns the focus, and an arrow key moves to the next command.
    await page.locator("#prompt").focus();
    await page.keyboard.press("Control+k");
    await palette.waitFor();
    const firstOption = await page.evaluate<string>(ACTIVE_OPTION);
    await page.keyboard.press("ArrowDown");
    await waitForPage(page, `${ACTIVE_OPTION} !== ${JSON.stringify(firstOption)}`);
    await page.keyboard.press("Escape");
    await palette.waitFor({ state: "detached" });
    assert.equal(await page.evaluate("document.activeElement.id"), "prompt");
    await choose("settings", /^Settings/);
    await page.getByRole("heading", { name: "Settings" }).waitFor();
  });

  it("shows version, providers and how to connect a model, and stores the theme", async (t) => {
    const console = await startConsole(t);
    const { page } = await openWindow(t, await browser(), `${console.url}#/settings`, {
      expectedFaults: STOPPED_SERVER_ERROR,
    });
    const { version } = await fetchJson<{ version: string }>(console.server, "/api/health");
    const server = page.getByRole("region", { name: "The server" });
    await server.getByText(version).waitFor();
    await server.getByText("accepts runs").waitFor();
    const models = page.getByRole("region", { name: "Models" });
    await models.getByText("lab", { exact: true }).waitFor();
    const row = models.getByRole("row", { name: /^Anthropic/ });
    assert.deepEqual(await row.getByRole("cell").allTextContents(), [
      "ANTHROPIC_API_KEY",
      '{ "provider": "anthropic" }',
      "not connected",
    ]);
    await page.getByRole("group", { name: "Theme" }).getByRole("button", { name: "Dark" }).click();
    await waitForPage(page, `document.documentElement.dataset.theme === "dark"`);
    await page.reload();
    await page.locator('[aria-pressed="true"]', { hasText: "Dark" }).waitFor();
  });

  it("names what is missing on the first screen of a server without a model", async (t) => {
    const console = await startConsole(t, {
      config: { providers: [{ name: "offline", driver: "offline" }], model: {} },
    });
    const { page } = await openWindow(t, await browser(), console.url, { expectedFaults: STOPPED_SERVER_ERROR });
    await page.getByText("No language model is connected.").waitFor();
    await page.getByRole("link", { name: "Connect a model" }).click();
    await page.getByRole("region", { name: "Models" }).getByText("No language model is connected.").waitFor();
    assert.equal(await page.title(), "Settings");
  });
});
