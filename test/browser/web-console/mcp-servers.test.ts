import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { findAccessibilityFaults, findOverflowingElements } from "../../helpers/accessibility.js";
import { NO_BROWSER, openWindow, shareBrowser, startConsole } from "../../helpers/console.js";
import { startOAuthMcpServer } from "../../helpers/oauth-mcp-server.js";

describe("the MCP servers of the console", { skip: NO_BROWSER }, () => {
  const browser = shareBrowser({ after });

  it("log a person in with the keyboard, in a window of the browser, and out", async (t) => {
    const office = await startOAuthMcpServer(t);
    const config = { mcp_servers: { office: { url: office.url }, broken: { command: "gantry-test-no-such-program" } } };
    const { server, url } = await startConsole(t, { config });
    const run = await server.fetch("/api/run", { method: "POST", body: JSON.stringify({ message: "hi" }) });
    assert.equal(run.status, 200);
    // The window of the login is the only other window.
    const { page, context } = await openWindow(t, await browser(), url, { width: 360, expectedFaults: /^window: / });
    await page.getByRole("link", { name: "MCP servers" }).click();
    await page.getByRole("heading", { name: "MCP servers" }).waitFor();
    const servers = page.getByRole("list", { name: "MCP servers" }).getByRole("listitem");
    await servers.filter({ hasText: "office" }).getByText("needs a login").waitFor();
    const brokenServer = servers.filter({ hasText: "broken" });
    await brokenServer.getByText("was not found").waitFor();
    assert.equal(await brokenServer.getByRole("button").count(), 0);
    assert.deepEqual(await findAccessibilityFaults(page), []);
    assert.deepEqual(await findOverflowingElements(page), []);

    const loginWindowPromise = context.waitForEvent("page");
    await page.getByRole("button", { name: "Log in to office" }).focus();
    await page.keyboard.press("Enter");
    const loginWindow = await loginWindowPromise;
    await loginWindow.getByText("Logged in to office.").waitFor();
    assert.equal(new URL(loginWindow.url()).origin, server.url);
    assert.equal(await loginWindow.evaluate("window.opener"), null);
    await loginWindow.close();
    await servers.filter({ hasText: "office" }).getByText("1 tool · logged in").waitFor();
    await page.getByRole("button", { name: "Log out of office" }).click();
    await page.getByRole("button", { name: "Log in to office" }).waitFor();
    for (const secret of office.secrets()) assert.ok(!(await page.content()).includes(secret));
  });

  it("cannot be logged in to by a page of another site", async (t) => {
    const office = await startOAuthMcpServer(t);
    const { server } = await startConsole(t, { config: { mcp_servers: { office: { url: office.url } } } });
    const context = await (await browser()).newContext();
    t.after(() => context.close());
    const page = await context.newPage();
    await context.route("https://evil.example/", (route) => route.fulfill({ contentType: "text/html", body: "evil" }));
    await page.goto("https://evil.example/");
    const send = (path: string, type: string) =>
      page.evaluate(`fetch(${JSON.stringify(server.url + path)}, { method: "POST", body: "{}", mode: "no-cors",
        headers: { "content-type": ${JSON.stringify(type)} } }).then(() => "sent", () => "blocked")`);
    await send("/api/mcp-servers/office/login", "text/plain");
    await send("/api/mcp-servers/office/login", "application/json");
    assert.deepEqual(office.authorizationHeaders, []);
    // A link can lead to the callback, but a code without the state of a login changes nothing.
    await page.goto(`${server.url}/api/mcp-servers/callback?code=evil&state=evil`);
    assert.match(await page.content(), /did not begin here/);
  });
});
