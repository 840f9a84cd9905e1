import assert from "node:assert/strict";
import { once } from "node:events";
import { rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { after, describe, it, type TestContext } from "node:test";
import type { Page } from "playwright-core";
import { noBrowser, sharedBrowser } from "../../helpers/console.js";
import { send } from "../../helpers/http.js";
import { until } from "../../helpers/lab.js";
import { serveConsole } from "../../helpers/served-console.js";
import { WAIT_LIMIT_MS } from "../../helpers/wait.js";

const SECRET = "s3cret-of-the-test";
const LOCKED = { requiredHeaders: { "X-Key": SECRET } };
/** The first request of the console's script, which shows whether it ran. */
const RAN = "/console/assets/icon-ABC.svg?ran";

/** A page of another site. `http://evil.example` and the addresses of this machine resolve to it. */
async function otherSite(t: TestContext): Promise<number> {
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

async function served(t: TestContext, options: object) {
  const console = await serveConsole(t, options);
  await writeFile(
    path.join(console.assets, "assets/main-ABC.js"),
    `await fetch("${RAN}"); document.title = "console";`,
  );
  await rm(path.join(console.assets, "assets/main-ABC.js.gz"));
  return { ...console, port: new URL(console.url).port };
}

/** The page's policy forbids evaluation, so the title is read from outside. */
async function hasRun(page: Page): Promise<void> {
  await until(async () => (await page.title()) === "console");
}

async function makeCode(url: string): Promise<string> {
  const { path: linkPath } = (
    await send(url, "/console/links", { method: "POST", headers: { "x-key": SECRET } })
  ).json() as { path: string };
  return linkPath.split("=")[1] ?? "";
}

describe("a page of another site in a browser", { skip: noBrowser }, () => {
  const browser = sharedBrowser({ after }, [
    "--host-resolver-rules=MAP evil.example 127.0.0.1",
    // Chromium's own protection of local addresses is not under test, and other browsers have none.
    "--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets,BlockInsecurePrivateNetworkRequests",
  ]);

  const open = async (t: TestContext, url: string) => {
    const context = await (await browser()).newContext();
    t.after(() => context.close());
    context.setDefaultTimeout(WAIT_LIMIT_MS);
    const page = await context.newPage();
    const ran: string[] = [];
    context.on("request", (request) => {
      if (request.url().endsWith(RAN)) ran.push(request.frame().url());
    });
    await page.goto(url);
    return { context, page, ran };
  };

  for (const [name, options] of [
    ["with required headers", LOCKED],
    ["without required headers", {}],
  ] as const) {
    it(`cannot frame the console ${name}`, async (t) => {
      const { url } = await served(t, options);
      const port = await otherSite(t);
      const direct = await open(t, `${url}/console`);
      await hasRun(direct.page);
      assert.equal(direct.ran.length, 1, "the console ran");
      for (const place of ["http://evil.example", "http://127.0.0.1", "http://localhost"]) {
        const { page, ran } = await open(t, `${place}:${port}/`);
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
        await page.goto(`${place}:${port}/later`);
        assert.deepEqual(ran, [], place);
      }
    });

    it(`is rejected if its own host name resolves to the server, ${name}`, async (t) => {
      const { url, port } = await served(t, options);
      const code = name === "without required headers" ? "x" : await makeCode(url);
      const { page, ran } = await open(t, `http://evil.example:${port}/console#code=${code}`);
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
      const rejected = name === "without required headers" ? 403 : 401;
      assert.deepEqual(statuses, [403, 403, 403, rejected, rejected]);
      assert.deepEqual(ran, []);
    });
  }

  it("cannot use or create a login link, and reads no response", async (t) => {
    const { url } = await served(t, LOCKED);
    const code = await makeCode(url);
    const port = await otherSite(t);
    const { page } = await open(t, `http://evil.example:${port}/`);
    const results = await page.evaluate<unknown[]>(`(async () => {
      const body = JSON.stringify({ code: ${JSON.stringify(code)} });
      const seen = [];
      for (const place of ["login", "links"])
        for (const mode of ["cors", "no-cors"])
          for (const type of ["application/json", "text/plain"])
            seen.push(
              await fetch("${url}/console/" + place, { method: "POST", mode, headers: { "content-type": type }, body, credentials: "include" })
                .then(async (response) => response.type + (await response.text()), () => "nothing"),
            );
      navigator.sendBeacon("${url}/console/login", body);
      navigator.sendBeacon("${url}/console/login", new Blob([body], { type: "text/plain" }));
      return seen;
    })()`);
    assert.ok(
      results.every((result) => result === "nothing" || result === "opaque"),
      JSON.stringify(results),
    );
    for (const place of ["login", "links"]) {
      const form = await open(t, `http://evil.example:${port}/`);
      const [response] = await Promise.all([
        form.page.waitForResponse((candidate) => candidate.url().includes(`/console/${place}`)),
        form.page.evaluate(`(() => {
          const form = Object.assign(document.createElement("form"), { method: "post", enctype: "text/plain", action: "${url}/console/${place}" });
          form.append(Object.assign(document.createElement("input"), { name: '{"code":"${code}","x":"', value: '"}' }));
          document.body.append(form);
          form.submit();
        })()`),
      ]);
      assert.ok([401, 403, 415].includes(response.status()), String(response.status()));
    }
    const loginResponse = await send(url, "/console/login", { body: JSON.stringify({ code }) });
    assert.equal(loginResponse.status, 200, "no request of the page used the link");
  });

  it("can open the console in a window, but cannot access that window", async (t) => {
    const { url } = await served(t, LOCKED);
    const { context, page, ran } = await open(t, `http://evil.example:${await otherSite(t)}/`);
    const [opened] = await Promise.all([
      context.waitForEvent("page"),
      page.evaluate(`(() => { window.held = window.open("${url}/console"); })()`),
    ]);
    await hasRun(opened);
    assert.equal(ran.length, 1);
    assert.deepEqual(await Promise.all([page.evaluate("held.closed"), opened.evaluate("window.opener")]), [true, null]);
  });
});
