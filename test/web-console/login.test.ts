import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { noBrowser, openWindow, sharedBrowser, startConsole } from "../helpers/console.js";
import { runGantry } from "../helpers/server.js";

const SECRET = "s3cret-of-the-test";

describe("who opens the console where headers are required", { skip: noBrowser }, () => {
  const browser = sharedBrowser({ after });

  it("is let in by the link of gantry console, once, and leaves no trace of it", async (t) => {
    const config = { server: { port: 0, required_headers: { "X-Key": SECRET } } };
    const { server, url } = await startConsole(t, { config });
    const { stdout, stderr } = await runGantry(t, ["console", "--url", server.url], { home: server.home });
    const link = stdout.trim();
    assert.match(link, /#code=/, stderr);

    const { page, requests } = await openWindow(t, await browser(), link);
    await page.waitForResponse((answer) => answer.url().includes("/api/") && answer.ok());
    assert.equal(await page.evaluate("location.href.includes('code=')"), false);
    assert.ok(requests.every((path) => !path.includes("code=")));
    await Promise.all([page.waitForResponse((answer) => answer.url().includes("/api/") && answer.ok()), page.reload()]);

    const expected = /401|link|unauthorized/i;
    const second = await openWindow(t, await browser(), link, { expected });
    await second.page.getByText("gantry console").first().waitFor();
    const without = await openWindow(t, await browser(), url, { expected });
    await without.page.getByText("gantry console").first().waitFor();
    assert.ok(!(await without.page.content()).includes(SECRET));
  });
});
