import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { findAccessibilityFaults } from "../../helpers/accessibility.js";
import { NO_BROWSER, openWindow, shareBrowser, startConsole, type ConsoleServer } from "../../helpers/console.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { runGantry } from "../../helpers/server.js";
import type { Hooks } from "../../helpers/temp-dir.js";

const SECRET = "s3cret-of-the-test";
const LOCKED_CONFIG = { server: { port: 0, required_headers: { "X-Key": SECRET } } };
/** Matches the browser's console message for a rejected request. */
const REJECTION_MESSAGE = /status of (401|429|503)/;

async function createLoginLink(hooks: Hooks, { server }: ConsoleServer): Promise<string> {
  const { stdout, stderr } = await runGantry(hooks, ["console", "--url", server.url], { home: server.home });
  assert.match(stdout, /#code=/, stderr);
  return stdout.trim();
}

describe("the console of a server with required headers", { skip: NO_BROWSER }, () => {
  const browser = shareBrowser({ after });

  it("logs in with the link of `gantry console` once, and neither sends nor keeps the code in an address", async (t) => {
    const console = await startConsole(t, { config: LOCKED_CONFIG });
    const { url } = console;
    const link = await createLoginLink(t, console);

    const { page, requests } = await openWindow(t, await browser(), link);
    await page.waitForResponse((response) => response.url().includes("/api/") && response.ok());
    assert.equal(await page.evaluate("location.href.includes('code=')"), false);
    assert.ok(requests.every((path) => !path.includes("code=")));
    await Promise.all([
      page.waitForResponse((response) => response.url().includes("/api/") && response.ok()),
      page.reload(),
    ]);

    const expectedFaults = /401|link|unauthorized/i;
    const secondWindow = await openWindow(t, await browser(), link, { expectedFaults });
    await secondWindow.page.getByText("gantry console").first().waitFor();
    const windowWithoutLink = await openWindow(t, await browser(), url, { expectedFaults });
    await windowWithoutLink.page.getByText("gantry console").first().waitFor();
    assert.ok(!(await windowWithoutLink.page.content()).includes(SECRET));
  });

  it("logs in by a link that is opened in the locked page, and keeps the view of that page", async (t) => {
    const console = await startConsole(t, { config: LOCKED_CONFIG });
    const { page } = await openWindow(t, await browser(), `${console.url}#/runs`, {
      expectedFaults: REJECTION_MESSAGE,
    });
    await page.getByText("gantry console").first().waitFor();
    const usedLink = await createLoginLink(t, console);
    for (const link of [usedLink, await createLoginLink(t, console)]) {
      // The first link opens in the locked page, the second in the page that is logged in.
      await page.evaluate(`location.href = ${JSON.stringify(link)}`);
      await page.waitForEvent("load");
      await page.getByRole("heading", { name: "Runs" }).first().waitFor();
      assert.equal(page.url(), `${console.url}#/runs`);
    }
    // An invalid link does not log the page out.
    await page.evaluate(`location.href = ${JSON.stringify(usedLink)}`);
    await page.waitForEvent("load");
    await page.getByRole("heading", { name: "Runs" }).first().waitFor();
    await page.goBack();
    await page.getByRole("heading", { name: "Runs" }).first().waitFor();
    assert.ok(!page.url().includes("code="));
  });

  it("does not report a link as used after a 503 of the login, and lets the user try again", async (t) => {
    const console = await startConsole(t, { config: LOCKED_CONFIG });
    const link = await createLoginLink(t, console);
    const { page } = await openWindow(t, await browser(), `${console.url}#/runs`, {
      expectedFaults: REJECTION_MESSAGE,
    });
    await page.getByText("gantry console").first().waitFor();
    await page.route("**/console/login", (route) => route.fulfill({ status: 503, json: { error: "not now" } }));
    await page.evaluate(`location.href = ${JSON.stringify(link)}`);
    await page.getByText("not now").waitFor();
    assert.equal(await page.getByText("already used").count(), 0);
    assert.ok(!page.url().includes("code="));
    await page.unroute("**/console/login");
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("heading", { name: "Runs" }).first().waitFor();
  });
});

describe("the console of a server without required headers", { skip: NO_BROWSER }, () => {
  const browser = shareBrowser({ after });

  it("opens without a link, and despite an invalid code", async (t) => {
    const { url } = await startConsole(t);
    const { page } = await openWindow(t, await browser(), `${url}#code=x`, { expectedFaults: REJECTION_MESSAGE });
    await page.getByText("What should the agent do?").waitFor();
    assert.ok(!page.url().includes("code="));
  });

  it("requests no other path of the API for a session id such as ..", async (t) => {
    const { url } = await startConsole(t);
    for (const name of ["..", "%2e%2e", ".", "%2E", "%", "..%2fmodels"]) {
      const { page, requests } = await openWindow(t, await browser(), `${url}#/s/${name}`, {
        expectedFaults: /status of 404/,
      });
      await page.getByRole("heading", { name: /What should the agent do|Session not found/ }).waitFor();
      const unexpectedRequests = requests.filter(
        (request) => !/ \/(console|api\/(models\b|sessions\b|git$))/.test(request),
      );
      assert.deepEqual(unexpectedRequests, [], name);
    }
  });
});

describe("the console of a server with users", { skip: NO_BROWSER }, () => {
  const browser = shareBrowser({ after });

  it("logs in with a token, and shows only the sessions of its user", async (t) => {
    const console = await startConsole(t, { config: { server: { port: 0, tokens: "tokens.json" } } });
    const { server } = console;
    const addUser = async (name: string) => {
      const { stdout, stderr } = await runGantry(t, ["token", "add", name], { home: server.home });
      assert.match(stdout, /^gantry_/, stderr);
      return stdout.trim();
    };
    const [adasToken, bobsToken] = [await addUser("ada"), await addUser("bob")];
    const send = (token: string, method: string, path: string, body: object) =>
      server.fetch(path, {
        method,
        headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
        body: JSON.stringify(body),
      });
    const createSession = async (token: string, title: string) => {
      const response = await send(token, "POST", "/api/run", { message: "hi" });
      if (response.status === 401) return false;
      const id = response.headers.get("X-Session-Id");
      assert.equal((await send(token, "PATCH", `/api/sessions/${id}`, { title })).status, 200);
      return true;
    };
    // The server reads a new token within half a second.
    await waitUntil(() => createSession(adasToken, "Session of Ada"));
    await waitUntil(() => createSession(bobsToken, "Session of Bob"));
    const { page } = await openWindow(t, await browser(), console.url, { expectedFaults: REJECTION_MESSAGE });
    const logIn = async (token: string) => {
      await page.getByLabel("Or enter your token").fill(token);
      await Promise.all([page.waitForEvent("load"), page.getByRole("button", { name: "Log in" }).click()]);
    };
    await page.getByLabel("Or enter your token").waitFor();
    assert.deepEqual(await findAccessibilityFaults(page), []);
    await logIn("gantry_wrong");
    await logIn(adasToken);
    await page.getByText("Session of Ada").first().waitFor();
    assert.equal(await page.getByText("Session of Bob").count(), 0);
  });
});
