import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createServer } from "node:http";
import { it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { Agent } from "gantry";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { findBrowser, type BrowserName } from "../../helpers/browser.js";
import { openPage, type BrowserPage } from "../../helpers/browser-page.js";
import type { WireMessage } from "../../helpers/event-page.js";
import { startFakeModelServer, type FakeModelServer } from "../../helpers/fake-model-server.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { tempDir, type TempDir } from "../../helpers/temp-dir.js";

const getExamplePath = (name: string) => fileURLToPath(new URL(`../../../examples/${name}`, import.meta.url));
const UNTRUSTED_MARKUP = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;

/** Formats messages like the paragraphs of the watch-only page. */
function formatMessages(messages: readonly WireMessage[]): string[] {
  return messages.map(({ role, content }) => `${String(role)}: ${String(content)}`);
}

/** Formats messages like the paragraphs of the page with a prompt. */
function formatMessagesWithCalls(messages: readonly WireMessage[]): string[] {
  return messages.map(({ role, reasoning, content, tool_calls }) => {
    const calls = (tool_calls as { function: { name: string; arguments: string } }[]).map(
      ({ function: { name, arguments: argumentsJson } }) => `${name} ${argumentsJson}`,
    );
    return [`${String(role)}:`, reasoning, content, ...calls].filter(Boolean).join("\n");
  });
}

const messageTextsScript = `[...document.querySelectorAll("#log p")].map((line) => line.textContent)`;
const stateScript = `document.querySelector("#state").textContent`;
const createSendScript = (text: string) =>
  `document.forms[0].text.value = ${JSON.stringify(text)}; document.querySelector("form button").click()`;
const createPressScript = (label: string) =>
  `[...document.querySelectorAll("button")].find((button) => button.textContent === ${JSON.stringify(label)}).click()`;

const PAGES = [
  ["07-watch.html", formatMessages],
  ["08-take-part.html", formatMessagesWithCalls],
] as const;

// Each browser tests one page; with BROWSERS=all, both pages.
const BROWSERS = ["firefox", "chromium"] satisfies BrowserName[];
for (const [n, [name, format]] of PAGES.entries())
  for (const browser of process.env["BROWSERS"] === "all" ? BROWSERS : [BROWSERS[n]!])
    it(`examples/${name} in ${browser} shows the stored messages after a kill, 503s, a restart and a revert`, (t) =>
      testPage(t, browser, name, format));

async function testPage(
  t: TestContext,
  browser: BrowserName,
  name: string,
  format: typeof formatMessagesWithCalls,
): Promise<void> {
  if (findBrowser(browser) === undefined) return t.skip(`no ${browser} here`);
  const model = await startFakeModelServer({ toolFreeAnswer: { say: [{ text: "A title" }] } });
  t.after(() => model.close());
  const [home, projectDir] = [await tempDir(t), await tempDir(t)];
  const config = {
    providers: [{ name: "fake", driver: "openai", base_url: model.baseUrl, api_key: "k", models: [{ id: "m1" }] }],
  };
  const startGantry = (port: string) =>
    startServer(t, {
      home: home.path,
      projectDir: projectDir.path,
      config,
      args: ["serve", "--port", port],
    });
  let server = await startGantry("0");
  const { port } = new URL(server.url);
  const fetchJson = async <T>(source: GantryServer, path: string, body?: object): Promise<T> => {
    const init = body && { method: "POST", headers: source.personHeaders, body: JSON.stringify(body) };
    const response = await source.fetch(path, init);
    assert.ok(response.ok, await response.clone().text());
    return response.json() as Promise<T>;
  };

  // Another client starts a run before any page is open.
  model.enqueue({ say: [{ reasoning: "Hm." }, { text: ["One ", "two "] }, { gate: "first" }, { text: "three." }] });
  const { session_id: id } = await fetchJson<{ session_id: string }>(server, "/api/run", {
    message: "Count.",
    background: true,
    mode: "ask",
  });
  await model.waitForRequest(1);
  const page = await openPage(
    t,
    browser,
    getExamplePath(name),
    `session=${id}&server=${encodeURIComponent(server.url)}#token=${server.token}`,
  );
  await page.waitUntil<string[]>(messageTextsScript, (texts) => texts[1]?.endsWith("One two ") === true);
  assert.match(await page.evaluate(`return ${stateScript}`), /: running$/);

  // Kills the server during an answer. Another server on the same port returns 503, then gantry starts again.
  await server.stop("SIGKILL");
  const hasPromptForm = name === "08-take-part.html";
  if (hasPromptForm) await page.waitUntil<string>(stateScript, (text) => text === "connecting");
  let rejectedCount = 0;
  const failingServer = createServer((_, response) => {
    rejectedCount += 1;
    response.writeHead(503).end();
  });
  failingServer.listen(Number(port), "127.0.0.1");
  await once(failingServer, "listening");
  await waitUntil(() => rejectedCount > 0);
  failingServer.close();
  failingServer.closeAllConnections();
  server = await startGantry(port);
  await page.waitUntil<string>(stateScript, (text) => text.endsWith(": interrupted"));
  const readMessages = async () =>
    (await fetchJson<{ messages: WireMessage[] }>(server, `/api/sessions/${id}/messages`)).messages;
  const waitForMessages = async () => {
    const expectedLines = JSON.stringify(format(await readMessages()));
    await page.waitUntil<string[]>(messageTextsScript, (texts) => JSON.stringify(texts) === expectedLines);
  };
  await waitForMessages();
  model.openGate("first");

  if (hasPromptForm) await testPromptForm({ page, model, id, projectDir, home }, waitForMessages, readMessages);
  else {
    model.enqueue({ say: [{ text: UNTRUSTED_MARKUP }] });
    await fetchJson(server, "/api/run", { message: "Go on.", session_id: id, mode: "auto" });
    await waitForMessages();
  }
  assert.deepEqual(await page.evaluate(`return [document.title, document.images.length, document.scripts.length]`), [
    "A session, live",
    0,
    1,
  ]);

  // Another process reverts the session.
  const agent = new Agent({ providers: [], driver: new SqliteDriver({ path: home.at("sessions.db") }) });
  const [firstMessage] = await agent.sessions.messages(id);
  await agent.sessions.revert(id, firstMessage!.id);
  await agent.close();
  await page.waitUntil<string[]>(messageTextsScript, (texts) => texts.length === 1);
  await waitForMessages();

  await server.fetch(`/api/sessions/${id}`, { method: "DELETE" });
  await page.waitUntil<string>(stateScript, (text) => text === "deleted");
}

interface PromptFormTest {
  page: BrowserPage;
  model: FakeModelServer;
  id: string;
  projectDir: TempDir;
  home: TempDir;
}

/** On the page: sends a prompt, answers a permission request, steers a run and stops it. */
async function testPromptForm(
  { page, model, id, projectDir, home }: PromptFormTest,
  waitForMessages: () => Promise<void>,
  readMessages: () => Promise<WireMessage[]>,
): Promise<void> {
  // The page sends a prompt and shows markup of the model as text. The tool call waits for the button.
  model.enqueue({
    say: [
      { text: UNTRUSTED_MARKUP },
      { call: { name: "write", arguments: { filePath: "a.txt", content: UNTRUSTED_MARKUP } } },
    ],
  });
  model.enqueue({ say: [{ text: "Written." }] });
  await page.evaluate(createSendScript("Go on."));
  const askText = await page.waitUntil<string>(`document.querySelector("#asks").textContent`, (text) => text !== "");
  assert.ok(askText.includes("a.txt") && askText.includes(UNTRUSTED_MARKUP), askText);
  assert.equal(existsSync(projectDir.at("a.txt")), false);
  await page.evaluate(createPressScript("Allow"));
  await page.waitUntil<string>(stateScript, (text) => text.endsWith(": finished"));
  assert.equal(await projectDir.read("a.txt"), UNTRUSTED_MARKUP);
  await waitForMessages();
  // Sends an instruction to a run, then stops it.
  model.enqueue({ say: [{ text: "Looking. " }, { gate: "look" }, { call: { name: "list", arguments: {} } }] });
  model.enqueue({ say: [{ text: "I see " }, { stall: true }] });
  await page.evaluate(createSendScript("Look around."));
  await page.waitUntil<string[]>(messageTextsScript, (texts) => texts.at(-1) === "assistant:\nLooking. ");
  await page.evaluate(createSendScript("Only at the top."));
  const store = new SqliteDriver({ path: home.at("sessions.db") });
  await store.open();
  await waitUntil(async () => (await store.instructions(id)).length > 0);
  await store.close();
  model.openGate("look");
  await page.waitUntil<string[]>(messageTextsScript, (texts) => texts.at(-1) === "assistant:\nI see ");
  await page.evaluate(createPressScript("Stop"));
  await page.waitUntil<string>(stateScript, (text) => text.endsWith(": cancelled"));
  await waitForMessages();
  const userPrompts = (await readMessages()).filter(({ role }) => role === "user").map(({ content }) => content);
  assert.deepEqual(userPrompts, ["Count.", "Go on.", "Look around.", "Only at the top."]);
}
