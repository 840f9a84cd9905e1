import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import type { Page } from "playwright-core";
import { findAccessibilityFaults, findOverflowingElements } from "../../helpers/accessibility.js";
import {
  NO_BROWSER,
  openWindow,
  shareBrowser,
  startConsole,
  type ConsoleOptions,
  type ConsoleServer,
} from "../../helpers/console.js";
import { fetchJson, STOPPED_SERVER_ERROR } from "../../helpers/console-runs.js";
import { textStep } from "../../helpers/fake-model-server.js";
import type { Hooks } from "../../helpers/temp-dir.js";

const browser = shareBrowser({ after });
const getPrompt = (page: Page) => page.getByRole("textbox", { name: "Message" });
const getCommands = (page: Page) => page.getByRole("group", { name: "Your command" });
const send = async (page: Page, text: string) => {
  await getPrompt(page).fill(text);
  await getPrompt(page).press("Enter");
};

/** Opens a session whose first run has ended. */
async function openSession(hooks: Hooks, options: ConsoleOptions = {}, width = 1280) {
  const console = await startConsole(hooks, options);
  console.models.enqueue(textStep("Hello."));
  const { page } = await openWindow(hooks, await browser(), console.url, {
    width,
    height: 720,
    expectedFaults: new RegExp(`${STOPPED_SERVER_ERROR.source}|403|409`),
  });
  await getPrompt(page).fill("Hello");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.getByText("Hello.").waitFor();
  await page.locator(".run-end", { hasText: "tokens" }).waitFor();
  return { console, page };
}

async function fetchContents(console: ConsoleServer): Promise<string[]> {
  const { sessions } = await fetchJson<{ sessions: { id: string }[] }>(console.server, "/api/sessions");
  const path = `/api/sessions/${sessions[0]?.id}/messages`;
  const { messages } = await fetchJson<{ messages: { content: string }[] }>(console.server, path);
  return messages.map(({ content }) => content);
}

describe("a shell command in the prompt", { skip: NO_BROWSER }, () => {
  it("is stored for the model with !, and not with !!", async (t) => {
    const { console, page } = await openSession(t);
    await getPrompt(page).fill("!!echo hidden; exit 3");
    await page.getByText("The model does not see it.").waitFor();
    await getPrompt(page).press("Enter");
    const hiddenCommand = getCommands(page).filter({ hasText: "echo hidden" });
    await hiddenCommand.getByText("exit code 3 · not shown to the model").waitFor();
    await send(page, "!echo shared-$((40 + 2))");
    const sharedCommand = getCommands(page).filter({ hasText: "echo shared" });
    await sharedCommand.getByText("shown to the model", { exact: true }).waitFor();
    await sharedCommand.getByText("shared-42").waitFor();
    assert.equal(await sharedCommand.count(), 1);
    assert.deepEqual(await fetchContents(console), ["Hello", "Hello.", "!echo shared-$((40 + 2))"]);
    assert.deepEqual(await findAccessibilityFaults(page), []);

    console.models.enqueue(textStep("Seen."));
    await send(page, "What did I run?");
    await page.getByText("Seen.").waitFor();
    const request = JSON.stringify(console.models.requests.at(-1));
    assert.ok(request.includes("shared-42") && !request.includes("hidden"));
    await hiddenCommand.getByRole("button", { name: "Remove the command" }).click();
    assert.equal(await hiddenCommand.count(), 0);
    await page.reload();
    await sharedCommand.getByText("shared-42").waitFor();
  });

  it("streams its output and can be stopped, 360 pixels", async (t) => {
    const { console, page } = await openSession(t, {}, 360);
    await getPrompt(page).fill("!echo begun; sleep 600");
    await page.getByRole("button", { name: "Run the command" }).click();
    await getCommands(page).locator(".output", { hasText: "begun" }).waitFor();
    assert.deepEqual(await findAccessibilityFaults(page), []);
    assert.deepEqual(await findOverflowingElements(page), []);
    await page.getByRole("button", { name: "Stop the command" }).click();
    await getCommands(page).getByText("stopped").waitFor();
    assert.deepEqual(await fetchContents(console), ["Hello", "Hello."]);
  });

  it("returns to the field if the session has a run, where !! still works", async (t) => {
    const { console, page } = await openSession(t);
    console.models.enqueue({ say: [{ text: "Working." }, { gate: "never" }] });
    await send(page, "Work");
    await page.getByText("Working.").waitFor();
    await send(page, "!echo now");
    await page.getByRole("alert").getByText("a run is active").waitFor();
    assert.equal(await getPrompt(page).inputValue(), "!echo now");
    await send(page, "!!echo now");
    await getCommands(page).locator(".output", { hasText: "now" }).waitFor();
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await page.getByText("The run was stopped").waitFor();
  });

  it("returns to the field if the server runs no commands, and in a new session", async (t) => {
    const { console, page } = await openSession(t, { config: { server: { shell: false } } });
    await send(page, "!echo 1");
    await page.getByRole("alert").getByText("this server runs no commands of people").waitFor();
    assert.equal(await getPrompt(page).inputValue(), "!echo 1");
    await page.goto(`${console.url}#/`);
    await page.getByText("What should the agent do?").waitFor();
    await send(page, "!echo 2");
    await page.getByRole("alert").getByText("A command needs a session").waitFor();
    assert.equal(await getPrompt(page).inputValue(), "!echo 2");
  });
});
