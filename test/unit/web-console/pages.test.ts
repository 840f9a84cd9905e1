import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { Agent, silentLogger } from "gantry";
import { AcpHttpTransport } from "gantry/adapters/acp-http-sse-ws";
import { KoaHttpTransport } from "gantry/adapters/koa-http-api";
import { OfflineProvider } from "gantry/adapters/offline-provider";
import { WebConsoleTransport } from "gantry/adapters/web-console";
import { openHttpHost } from "gantry/http";
import { sendRawRequest } from "../../helpers/raw-http.js";
import { tempDir } from "../../helpers/temp-dir.js";
import { INDEX_PAGE, PAGE_SCRIPT, serveConsole } from "../../helpers/served-console.js";

const BROWSER_ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

describe("the files of the web console", () => {
  it("are a page that is revalidated and assets that are immutable, with their types", async (t) => {
    const { url, assets } = await serveConsole(t);
    for (const requestPath of ["/console", "/console/", "/console?x=1"]) {
      const page = await sendRawRequest(url, requestPath);
      assert.equal(page.status, 200);
      assert.equal(page.text, INDEX_PAGE);
      assert.equal(page.headers["content-type"], "text/html; charset=utf-8");
      assert.equal(page.headers["cache-control"], "no-cache");
    }
    const script = await sendRawRequest(url, "/console/assets/main-ABC.js");
    assert.equal(script.text, PAGE_SCRIPT);
    assert.equal(script.headers["content-type"], "text/javascript; charset=utf-8");
    assert.equal(script.headers["cache-control"], "public, max-age=31536000, immutable");
    assert.equal((await sendRawRequest(url, "/console/assets/icon-ABC.svg")).headers["content-type"], "image/svg+xml");

    const { etag = "" } = (await sendRawRequest(url, "/console")).headers;
    for (const cachedTag of [etag, `"other", ${etag}`, `W/${etag}`]) {
      const revalidation = await sendRawRequest(url, "/console", { headers: { "if-none-match": cachedTag } });
      assert.deepEqual([revalidation.status, revalidation.text, revalidation.headers.etag], [304, "", etag]);
    }
    await writeFile(path.join(assets, "index.html"), `${INDEX_PAGE} and more`);
    const changedPage = await sendRawRequest(url, "/console", { headers: { "if-none-match": etag } });
    assert.deepEqual([changedPage.status, changedPage.text], [200, `${INDEX_PAGE} and more`]);
  });

  it("are sent with gzip to clients that accept it, with a separate ETag", async (t) => {
    const { url } = await serveConsole(t);
    const requestPath = "/console/assets/main-ABC.js";
    for (const [accept, isCompressed] of [
      ["gzip, deflate, br", true],
      ["br;q=1.0, gzip;q=0.8", true],
      ["gzip;q=0", false],
      ["gzip;q=0.0, br", false],
      ["br", false],
    ] as const) {
      const response = await fetch(url + requestPath, { headers: { "accept-encoding": accept } });
      assert.equal(response.headers.get("content-encoding"), isCompressed ? "gzip" : null, accept);
      assert.equal(response.headers.get("vary"), "Accept-Encoding");
      assert.equal(await response.text(), PAGE_SCRIPT);
    }
    const headResponse = await sendRawRequest(url, requestPath, {
      method: "HEAD",
      headers: { "accept-encoding": "gzip" },
    });
    assert.equal(headResponse.text, "");
    const compressedResponse = await sendRawRequest(url, requestPath, { headers: { "accept-encoding": "gzip" } });
    assert.equal(headResponse.headers["content-length"], compressedResponse.headers["content-length"]);
    assert.ok(Number(compressedResponse.headers["content-length"]) < PAGE_SCRIPT.length);
    assert.notEqual(
      compressedResponse.headers.etag,
      (await sendRawRequest(url, requestPath)).headers.etag,
      "each encoding has its own ETag",
    );
  });

  it("are only the files of the build, for GET and HEAD only", async (t) => {
    const { url } = await serveConsole(t);
    for (const requestPath of [
      "/console/index.html",
      "/console/secret.txt",
      "/console/assets",
      "/console/assets/",
      "/console/assets/none-ABC.js",
      "/console/assets/notes.txt",
      "/console/assets/.hidden.js",
      "/console/assets/main-ABC.js.gz",
      "/console/assets/../index.html",
      "/console/assets/..%2findex.html",
      "/console/assets/%2e%2e/index.html",
      "/console/assets/sub/x.js",
      "/console/assets/main-ABC.js/",
      "/console/assets/main-ABC.js%00.js",
      "/console/x",
      "/console//",
    ]) {
      const response = await sendRawRequest(url, requestPath);
      assert.equal(response.status, 404, requestPath);
      assert.deepEqual(response.json(), { error: "not found", code: "not_found" }, requestPath);
    }
    for (const method of ["PUT", "DELETE", "PATCH", "POST", "OPTIONS"]) {
      const response = await sendRawRequest(url, "/console", { method });
      assert.deepEqual([response.status, response.headers.allow], [405, "GET, HEAD"], method);
    }
    for (const requestPath of ["/console/login", "/console/links"])
      assert.equal((await sendRawRequest(url, requestPath)).headers.allow, "POST");
  });

  it("have security headers in each response, including errors", async (t) => {
    const { url } = await serveConsole(t, { requiredHeaders: { "X-Key": "secret" } });
    const foreignHost = { headers: { host: "evil.example" } };
    for (const [requestPath, status, request] of [
      ["/console", 200, {}],
      ["/console/assets/main-ABC.js", 200, {}],
      ["/console/assets/none.js", 404, {}],
      ["/console/x", 401, {}],
      ["/console", 403, foreignHost],
      ["/console/login", 405, {}],
      ["/console/login", 400, { body: "x" }],
      ["/console/links", 200, { body: "{}", headers: { "x-key": "secret" } }],
    ] as const) {
      const { headers, ...response } = await sendRawRequest(url, requestPath, request);
      assert.equal(response.status, status, requestPath);
      const policy = headers["content-security-policy"];
      assert.equal(
        policy,
        "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; " +
          "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
          "require-trusted-types-for 'script'; trusted-types dompurify events-worker",
      );
      assert.equal(headers["x-content-type-options"], "nosniff");
      assert.equal(headers["x-frame-options"], "DENY");
      assert.equal(headers["referrer-policy"], "no-referrer");
      assert.equal(headers["cross-origin-opener-policy"], "same-origin");
      assert.equal(headers["cross-origin-resource-policy"], "same-origin");
    }
  });

  it("a missing build is reported with 404 and the command npm run build", async (t) => {
    const emptyFolder = await tempDir(t);
    const { url } = await serveConsole(t, { assets: emptyFolder.path });
    const page = await sendRawRequest(url, "/console");
    assert.equal(page.status, 404);
    assert.match(page.text, /npm run build/);
  });
});

describe("GET / from a browser", () => {
  const readResponses = async (url: string) =>
    Promise.all(
      (
        [
          {},
          { headers: { accept: "*/*" } },
          { headers: { accept: "application/json" } },
          { headers: { accept: "text/html;q=0, */*" } },
          { headers: { accept: "text/event-stream" } },
          { headers: { accept: BROWSER_ACCEPT, host: "evil.example" } },
          { headers: { accept: BROWSER_ACCEPT }, body: "{}" },
          { headers: { accept: BROWSER_ACCEPT }, method: "DELETE" },
          { headers: { accept: BROWSER_ACCEPT }, method: "OPTIONS" },
        ] as const
      ).map(async (request) => {
        const { status, text, rawHeaders } = await sendRawRequest(url, "/", request);
        // The values of these headers differ between responses.
        const isUnique = (name: string | undefined): boolean => name === "Date" || name === "X-Request-Id";
        return { status, text, headers: rawHeaders.map((header, i) => (isUnique(rawHeaders[i - 1]) ? "" : header)) };
      }),
    );

  for (const kinds of [["api"], ["acp"], ["api", "acp"]])
    it(`redirects to the console next to ${kinds.join(" and ")}, and other requests get the response of a host without the console`, async (t) => {
      const agent = new Agent({ providers: [new OfflineProvider({ servers: [] })] });
      t.after(() => agent.close());
      const openHost = async () => {
        const host = openHttpHost({ port: 0 });
        t.after(() => host.close(AbortSignal.abort()));
        let address = "";
        for (const kind of kinds) {
          const transport =
            kind === "api" ? new KoaHttpTransport({}, host) : new AcpHttpTransport({}, silentLogger, host);
          ({ address } = await transport.start(agent));
        }
        return { host, url: new URL(address).origin };
      };
      const [hostWithoutConsole, hostWithConsole] = [await openHost(), await openHost()];
      await new WebConsoleTransport({}, hostWithConsole.host).start(agent);
      assert.deepEqual(await readResponses(hostWithConsole.url), await readResponses(hostWithoutConsole.url));
      for (const method of ["GET", "HEAD"])
        for (const requestPath of ["/", "/?x=1"]) {
          const response = await sendRawRequest(hostWithConsole.url, requestPath, {
            method,
            headers: { accept: BROWSER_ACCEPT },
          });
          assert.deepEqual([response.status, response.headers.location, response.text], [302, "/console", ""]);
          assert.notEqual(
            (await sendRawRequest(hostWithoutConsole.url, requestPath, { method, headers: { accept: BROWSER_ACCEPT } }))
              .status,
            302,
          );
        }
      // The request line holds the absolute URL, as with a proxy.
      const proxyResponse = await sendRawRequest(hostWithConsole.url, `${hostWithConsole.url}/`, {
        headers: { accept: BROWSER_ACCEPT },
      });
      assert.equal(proxyResponse.status, 302);
    });

  it("redirects without the required headers; other clients get 401", async (t) => {
    const { url } = await serveConsole(t, { requiredHeaders: { "X-Key": "secret" } });
    const response = await sendRawRequest(url, "/", { headers: { accept: BROWSER_ACCEPT } });
    assert.deepEqual([response.status, response.headers.location], [302, "/console"]);
    assert.equal((await sendRawRequest(url, "/")).status, 401, "other clients still need the headers");
    assert.equal(
      (await sendRawRequest(url, "/", { headers: { accept: BROWSER_ACCEPT, host: "evil.example" } })).status,
      401,
    );
  });
});
