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
import { until } from "../../helpers/lab.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { tempDir, type TempDir } from "../../helpers/temp.js";

const example = (name: string) => fileURLToPath(new URL(`../../../examples/${name}`, import.meta.url));
const HOSTILE = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;

/** Paragraphs that the watch-only page makes of messages. */
function short(messages: readonly WireMessage[]): string[] {
  return messages.map(({ role, content }) => `${String(role)}: ${String(content)}`);
}

/** Paragraphs that the page with a prompt makes of messages. */
function lines(messages: readonly WireMessage[]): string[] {
  return messages.map(({ role, reasoning, content, tool_calls }) => {
    const calls = (tool_calls as { function: { name: string; arguments: string } }[]).map(
      ({ function: { name, arguments: argumentsJson } }) => `${name} ${argumentsJson}`,
    );
    return [`${String(role)}:`, reasoning, content, ...calls].filter(Boolean).join("\n");
  });
}

const messageTexts = `[...document.querySelectorAll("#log p")].map((line) => line.textContent)`;
const state = `document.querySelector("#state").textContent`;
const send = (text: string) =>
  `document.forms[0].text.value = ${JSON.stringify(text)}; document.querySelector("form button").click()`;
const press = (label: string) =>
  `[...document.querySelectorAll("button")].find((button) => button.textContent === ${JSON.stringify(label)}).click()`;

const PAGES = [
  ["07-watch.html", short],
  ["08-take-part.html", lines],
] as const;

// Each browser tests one of the pages, in the soak both.
const BROWSERS = ["firefox", "chromium"] satisfies BrowserName[];
for (const [n, [name, linesOf]] of PAGES.entries())
  for (const browser of process.env["BROWSERS"] === "all" ? BROWSERS : [BROWSERS[n]!])
    it(`examples/${name} in ${browser} shows the stored messages after a kill, 503s, a restart and a revert`, (t) =>
      survives(t, browser, name, linesOf));

async function survives(t: TestContext, browser: BrowserName, name: string, linesOf: typeof lines): Promise<void> {
  if (findBrowser(browser) === undefined) return t.skip(`no ${browser} here`);
  const model = await startFakeModelServer({ aside: { say: [{ text: "A title" }] } });
  t.after(() => model.close());
  const [home, projectDir] = [await tempDir(t), await tempDir(t)];
  const config = {
    providers: [{ name: "fake", driver: "openai", base_url: model.baseUrl, api_key: "k", models: [{ id: "m1" }] }],
  };
  const start = (port: string) =>
    startServer(t, {
      home: home.path,
      projectDir: projectDir.path,
      config,
      args: ["serve", "--port", port],
    });
  let server = await start("0");
  const { port } = new URL(server.url);
  const json = async <T>(from: GantryServer, path: string, body?: object): Promise<T> => {
    const init = body && { method: "POST", headers: from.personHeaders, body: JSON.stringify(body) };
    const answer = await from.fetch(path, init);
    assert.ok(answer.ok, await answer.clone().text());
    return answer.json() as Promise<T>;
  };

  // Another client starts a run before any page is open.
  model.enqueue({ say: [{ reasoning: "Hm." }, { text: ["One ", "two "] }, { gate: "first" }, { text: "three." }] });
  const { session_id: id } = await json<{ session_id: string }>(server, "/api/run", {
    message: "Count.",
    background: true,
    mode: "ask",
  });
  await model.request(1);
  const page = await openPage(
    t,
    browser,
    example(name),
    `session=${id}&server=${encodeURIComponent(server.url)}#token=${server.token}`,
  );
  await page.until<string[]>(messageTexts, (all) => all[1]?.endsWith("One two ") === true);
  assert.match(await page.evaluate(`return ${state}`), /: running$/);

  // Kills the server in the middle of an answer. A server that answers 503 takes its address, then the server returns.
  await server.stop("SIGKILL");
  const takesPart = name === "08-take-part.html";
  if (takesPart) await page.until<string>(state, (text) => text === "connecting");
  let refused = 0;
  const failingServer = createServer((_, response) => {
    refused += 1;
    response.writeHead(503).end();
  });
  failingServer.listen(Number(port), "127.0.0.1");
  await once(failingServer, "listening");
  await until(() => refused > 0);
  failingServer.close();
  failingServer.closeAllConnections();
  server = await start(port);
  await page.until<string>(state, (text) => text.endsWith(": interrupted"));
  const messages = async () =>
    (await json<{ messages: WireMessage[] }>(server, `/api/sessions/${id}/messages`)).messages;
  const shown = async () => {
    const expectedLines = JSON.stringify(linesOf(await messages()));
    await page.until<string[]>(messageTexts, (all) => JSON.stringify(all) === expectedLines);
  };
  await shown();
  model.open("first");

  if (takesPart) await takesPartIn({ page, model, id, projectDir, home }, shown, messages);
  else {
    model.enqueue({ say: [{ text: HOSTILE }] });
    await json(server, "/api/run", { message: "Go on.", session_id: id, mode: "auto" });
    await shown();
  }
  assert.deepEqual(await page.evaluate(`return [document.title, document.images.length, document.scripts.length]`), [
    "A session, live",
    0,
    1,
  ]);

  // Another process reverts the session.
  const agent = new Agent({ providers: [], driver: new SqliteDriver({ path: home.at("sessions.db") }) });
  const [first] = await agent.sessions.messages(id);
  await agent.sessions.revert(id, first!.id);
  await agent.close();
  await page.until<string[]>(messageTexts, (all) => all.length === 1);
  await shown();

  await server.fetch(`/api/sessions/${id}`, { method: "DELETE" });
  await page.until<string>(state, (text) => text === "deleted");
}

interface Taking {
  page: BrowserPage;
  model: FakeModelServer;
  id: string;
  projectDir: TempDir;
  home: TempDir;
}

/** Sends a prompt, answers a question, sends an instruction to a run and stops it, all on the page. */
async function takesPartIn(
  { page, model, id, projectDir, home }: Taking,
  shown: () => Promise<void>,
  messages: () => Promise<WireMessage[]>,
): Promise<void> {
  // The page sends a prompt. The model's text must stay text, and its call waits for the button.
  model.enqueue({
    say: [{ text: HOSTILE }, { call: { name: "write", arguments: { filePath: "a.txt", content: HOSTILE } } }],
  });
  model.enqueue({ say: [{ text: "Written." }] });
  await page.evaluate(send("Go on."));
  const askText = await page.until<string>(`document.querySelector("#asks").textContent`, (text) => text !== "");
  assert.ok(askText.includes("a.txt") && askText.includes(HOSTILE), askText);
  assert.equal(existsSync(projectDir.at("a.txt")), false);
  await page.evaluate(press("Allow"));
  await page.until<string>(state, (text) => text.endsWith(": finished"));
  assert.equal(await projectDir.read("a.txt"), HOSTILE);
  await shown();
  // Sends an instruction to a run, then stops it.
  model.enqueue({ say: [{ text: "Looking. " }, { gate: "look" }, { call: { name: "list", arguments: {} } }] });
  model.enqueue({ say: [{ text: "I see " }, { stall: true }] });
  await page.evaluate(send("Look around."));
  await page.until<string[]>(messageTexts, (all) => all.at(-1) === "assistant:\nLooking. ");
  await page.evaluate(send("Only at the top."));
  const store = new SqliteDriver({ path: home.at("sessions.db") });
  await store.open();
  await until(async () => (await store.instructions(id)).length > 0);
  await store.close();
  model.open("look");
  await page.until<string[]>(messageTexts, (all) => all.at(-1) === "assistant:\nI see ");
  await page.evaluate(press("Stop"));
  await page.until<string>(state, (text) => text.endsWith(": cancelled"));
  await shown();
  const users = (await messages()).filter(({ role }) => role === "user").map(({ content }) => content);
  assert.deepEqual(users, ["Count.", "Go on.", "Look around.", "Only at the top."]);
}
