import assert from "node:assert/strict";
import { once } from "node:events";
import { rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { after, describe, it, type TestContext } from "node:test";
import type { Page } from "playwright-core";
import { NO_BROWSER, shareBrowser } from "../../helpers/console.js";
import { sendRawRequest } from "../../helpers/raw-http.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { serveConsole } from "../../helpers/served-console.js";
import { WAIT_LIMIT_MS } from "../../helpers/wait.js";

const SECRET = "s3cret-of-the-test";
const LOCKED_OPTIONS = { requiredHeaders: { "X-Key": SECRET } };
/** Path of the first request of the console's script. The request shows that the script ran. */
const SCRIPT_REQUEST = "/console/assets/icon-ABC.svg?ran";

/** Serves a page of another site, at `http://evil.example` and the addresses of this machine. Returns its port. */
async function startOtherSite(t: TestContext): Promise<number> {
  const server = createServer((_request, response) => {
    response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>evil</title><body></body>");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

async function startConsole(t: TestContext, options: object) {
  const console = await serveConsole(t, options);
  await writeFile(
    path.join(console.assets, "assets/main-ABC.js"),
    `await fetch("${SCRIPT_REQUEST}"); document.title = "console";`,
  );
  await rm(path.join(console.assets, "assets/main-ABC.js.gz"));
  return { ...console, port: new URL(console.url).port };
}

/** Waits for the console's script. Reads the title from outside, because the page's policy forbids evaluation. */
async function waitForConsole(page: Page): Promise<void> {
  await waitUntil(async () => (await page.title()) === "console");
}

async function createLoginCode(url: string): Promise<string> {
  const { path: linkPath } = (
    await sendRawRequest(url, "/console/links", { method: "POST", headers: { "x-key": SECRET } })
  ).json() as { path: string };
  return linkPath.split("=")[1] ?? "";
}

describe("a page of another site in a browser", { skip: NO_BROWSER }, () => {
  const browser = shareBrowser({ after }, [
    "--host-resolver-rules=MAP evil.example 127.0.0.1",
    // Chromium's own protection of local addresses is not under test, and other browsers have none.
    "--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets,BlockInsecurePrivateNetworkRequests",
  ]);

  const openPage = async (t: TestContext, url: string) => {
    const context = await (await browser()).newContext();
    t.after(() => context.close());
    context.setDefaultTimeout(WAIT_LIMIT_MS);
    const page = await context.newPage();
    const scriptRequests: string[] = [];
    context.on("request", (request) => {
      if (request.url().endsWith(SCRIPT_REQUEST)) scriptRequests.push(request.frame().url());
    });
    await page.goto(url);
    return { context, page, scriptRequests };
  };

  for (const [name, options] of [
    ["with required headers", LOCKED_OPTIONS],
    ["without required headers", {}],
  ] as const) {
    it(`cannot frame the console ${name}`, async (t) => {
      const { url } = await startConsole(t, options);
      const port = await startOtherSite(t);
      const directVisit = await openPage(t, `${url}/console`);
      await waitForConsole(directVisit.page);
      assert.equal(directVisit.scriptRequests.length, 1, "the console's script ran once");
      for (const origin of ["http://evil.example", "http://127.0.0.1", "http://localhost"]) {
        const { page, scriptRequests } = await openPage(t, `${origin}:${port}/`);
        for (const tag of ["iframe", "object", "embed"])
          await page.evaluate(
            `new Promise((resolve) => {
              const frame = document.createElement("${tag}");
              frame.onload = frame.onerror = () => resolve();
              frame["${tag === "object" ? "data" : "src"}"] = "${url}/console";
              frame.type = "text/html";
              document.body.append(frame);
            })`,
          );
        // A script of a frame sends its request before the frame's load event, and so before this point.
        await page.goto(`${origin}:${port}/later`);
        assert.deepEqual(scriptRequests, [], origin);
      }
    });

    it(`is rejected if its own host name resolves to the server, ${name}`, async (t) => {
      const { url, port } = await startConsole(t, options);
      const code = name === "without required headers" ? "x" : await createLoginCode(url);
      const { page, scriptRequests } = await openPage(t, `http://evil.example:${port}/console#code=${code}`);
      const statuses = await page.evaluate<number[]>(`(async () => {
        const headers = { "content-type": "application/json" };
        const body = JSON.stringify({ code: ${JSON.stringify(code)} });
        const ask = async (path, init) => (await fetch(path, init)).status;
        return [
          await ask("/console"),
          await ask("/console/assets/main-ABC.js"),
          await ask("/console/login", { method: "POST", headers, body }),
          await ask("/console/links", { method: "POST", headers, body }),
          await ask("/api/models"),
        ];
      })()`);
      const rejectedStatus = name === "without required headers" ? 403 : 401;
      assert.deepEqual(statuses, [403, 403, 403, rejectedStatus, rejectedStatus]);
      assert.deepEqual(scriptRequests, []);
    });
  }

  it("cannot use or create a login link, and reads no response", async (t) => {
    const { url } = await startConsole(t, LOCKED_OPTIONS);
    const code = await createLoginCode(url);
    const port = await startOtherSite(t);
    const { page } = await openPage(t, `http://evil.example:${port}/`);
    const results = await page.evaluate<unknown[]>(`(async () => {
      const body = JSON.stringify({ code: ${JSON.stringify(code)} });
      const results = [];
      for (const endpoint of ["login", "links"])
        for (const mode of ["cors", "no-cors"])
          for (const type of ["application/json", "text/plain"])
            results.push(
              await fetch("${url}/console/" + endpoint, { method: "POST", mode, headers: { "content-type": type }, body, credentials: "include" })
                .then(async (response) => response.type + (await response.text()), () => "nothing"),
            );
      navigator.sendBeacon("${url}/console/login", body);
      navigator.sendBeacon("${url}/console/login", new Blob([body], { type: "text/plain" }));
      return results;
    })()`);
    assert.ok(
      results.every((result) => result === "nothing" || result === "opaque"),
      JSON.stringify(results),
    );
    for (const endpoint of ["login", "links"]) {
      const formVisit = await openPage(t, `http://evil.example:${port}/`);
      const [response] = await Promise.all([
        formVisit.page.waitForResponse((candidate) => candidate.url().includes(`/console/${endpoint}`)),
        formVisit.page.evaluate(`(() => {
          const form = Object.assign(document.createElement("form"), { method: "post", enctype: "text/plain", action: "${url}/console/${endpoint}" });
          form.append(Object.assign(document.createElement("input"), { name: '{"code":"${code}","x":"', value: '"}' }));
          document.body.append(form);
          form.submit();
        })()`),
      ]);
      assert.ok([401, 403, 415].includes(response.status()), String(response.status()));
    }
    const loginResponse = await sendRawRequest(url, "/console/login", { body: JSON.stringify({ code }) });
    assert.equal(loginResponse.status, 200, "no request of the page used the link");
  });

  it("can open the console in a window, but cannot access that window", async (t) => {
    const { url } = await startConsole(t, LOCKED_OPTIONS);
    const { context, page, scriptRequests } = await openPage(t, `http://evil.example:${await startOtherSite(t)}/`);
    const [consolePage] = await Promise.all([
      context.waitForEvent("page"),
      page.evaluate(`(() => { window.consoleWindow = window.open("${url}/console"); })()`),
    ]);
    await waitForConsole(consolePage);
    assert.equal(scriptRequests.length, 1);
    assert.deepEqual(
      await Promise.all([page.evaluate("consoleWindow.closed"), consolePage.evaluate("window.opener")]),
      [true, null],
    );
  });
});
