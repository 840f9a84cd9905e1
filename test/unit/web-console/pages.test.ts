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
import { send } from "../../helpers/http.js";
import { tempDir } from "../../helpers/temp.js";
import { INDEX_PAGE, SCRIPT, serveConsole } from "../../helpers/served-console.js";

const HTML = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

describe("the files of the web console", () => {
  it("are a page that is revalidated and assets that are immutable, with their types", async (t) => {
    const { url, assets } = await serveConsole(t);
    for (const place of ["/console", "/console/", "/console?x=1"]) {
      const page = await send(url, place);
      assert.equal(page.status, 200);
      assert.equal(page.text, INDEX_PAGE);
      assert.equal(page.headers["content-type"], "text/html; charset=utf-8");
      assert.equal(page.headers["cache-control"], "no-cache");
    }
    const script = await send(url, "/console/assets/main-ABC.js");
    assert.equal(script.text, SCRIPT);
    assert.equal(script.headers["content-type"], "text/javascript; charset=utf-8");
    assert.equal(script.headers["cache-control"], "public, max-age=31536000, immutable");
    assert.equal((await send(url, "/console/assets/icon-ABC.svg")).headers["content-type"], "image/svg+xml");

    const { etag = "" } = (await send(url, "/console")).headers;
    for (const cachedTag of [etag, `"other", ${etag}`, `W/${etag}`]) {
      const again = await send(url, "/console", { headers: { "if-none-match": cachedTag } });
      assert.deepEqual([again.status, again.text, again.headers.etag], [304, "", etag]);
    }
    await writeFile(path.join(assets, "index.html"), `${INDEX_PAGE} and more`);
    const changed = await send(url, "/console", { headers: { "if-none-match": etag } });
    assert.deepEqual([changed.status, changed.text], [200, `${INDEX_PAGE} and more`]);
  });

  it("are sent with gzip to clients that accept it, with a separate ETag", async (t) => {
    const { url } = await serveConsole(t);
    const place = "/console/assets/main-ABC.js";
    for (const [accept, packed] of [
      ["gzip, deflate, br", true],
      ["br;q=1.0, gzip;q=0.8", true],
      ["gzip;q=0", false],
      ["gzip;q=0.0, br", false],
      ["br", false],
    ] as const) {
      const response = await fetch(url + place, { headers: { "accept-encoding": accept } });
      assert.equal(response.headers.get("content-encoding"), packed ? "gzip" : null, accept);
      assert.equal(response.headers.get("vary"), "Accept-Encoding");
      assert.equal(await response.text(), SCRIPT);
    }
    const head = await send(url, place, { method: "HEAD", headers: { "accept-encoding": "gzip" } });
    assert.equal(head.text, "");
    const raw = await send(url, place, { headers: { "accept-encoding": "gzip" } });
    assert.equal(head.headers["content-length"], raw.headers["content-length"]);
    assert.ok(Number(raw.headers["content-length"]) < SCRIPT.length);
    assert.notEqual(raw.headers.etag, (await send(url, place)).headers.etag, "each encoding has its own ETag");
  });

  it("are only those that the build made, for GET and HEAD only", async (t) => {
    const { url } = await serveConsole(t);
    for (const place of [
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
      const missing = await send(url, place);
      assert.equal(missing.status, 404, place);
      assert.deepEqual(missing.json(), { error: "not found", code: "not_found" }, place);
    }
    for (const method of ["PUT", "DELETE", "PATCH", "POST", "OPTIONS"]) {
      const refused = await send(url, "/console", { method });
      assert.deepEqual([refused.status, refused.headers.allow], [405, "GET, HEAD"], method);
    }
    for (const place of ["/console/login", "/console/links"])
      assert.equal((await send(url, place)).headers.allow, "POST");
  });

  it("have security headers in each response, errors included", async (t) => {
    const { url } = await serveConsole(t, { requiredHeaders: { "X-Key": "secret" } });
    const refused = { headers: { host: "evil.example" } };
    for (const [place, status, request] of [
      ["/console", 200, {}],
      ["/console/assets/main-ABC.js", 200, {}],
      ["/console/assets/none.js", 404, {}],
      ["/console/x", 401, {}],
      ["/console", 403, refused],
      ["/console/login", 405, {}],
      ["/console/login", 400, { body: "x" }],
      ["/console/links", 200, { body: "{}", headers: { "x-key": "secret" } }],
    ] as const) {
      const { headers, ...answer } = await send(url, place, request);
      assert.equal(answer.status, status, place);
      const policy = headers["content-security-policy"];
      assert.equal(
        policy,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; " +
          "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
          "require-trusted-types-for 'script'; trusted-types dompurify",
      );
      assert.equal(headers["x-content-type-options"], "nosniff");
      assert.equal(headers["x-frame-options"], "DENY");
      assert.equal(headers["referrer-policy"], "no-referrer");
      assert.equal(headers["cross-origin-opener-policy"], "same-origin");
      assert.equal(headers["cross-origin-resource-policy"], "same-origin");
    }
  });

  it("a missing build is reported with 404 and the command npm run build", async (t) => {
    const empty = await tempDir(t);
    const { url } = await serveConsole(t, { assets: empty.path });
    const page = await send(url, "/console");
    assert.equal(page.status, 404);
    assert.match(page.text, /npm run build/);
  });
});

describe("GET / from a browser", () => {
  const answers = async (url: string) =>
    Promise.all(
      (
        [
          {},
          { headers: { accept: "*/*" } },
          { headers: { accept: "application/json" } },
          { headers: { accept: "text/html;q=0, */*" } },
          { headers: { accept: "text/event-stream" } },
          { headers: { accept: HTML, host: "evil.example" } },
          { headers: { accept: HTML }, body: "{}" },
          { headers: { accept: HTML }, method: "DELETE" },
          { headers: { accept: HTML }, method: "OPTIONS" },
        ] as const
      ).map(async (request) => {
        const { status, text, rawHeaders } = await send(url, "/", request);
        return { status, text, headers: rawHeaders.map((header, i) => (rawHeaders[i - 1] === "Date" ? "" : header)) };
      }),
    );

  for (const kinds of [["api"], ["acp"], ["api", "acp"]])
    it(`redirects to the console beside ${kinds.join(" and ")}, and other requests get the same response as before`, async (t) => {
      const agent = new Agent({ providers: [new OfflineProvider({ servers: [] })] });
      t.after(() => agent.close());
      const open = async () => {
        const host = openHttpHost({ port: 0 });
        t.after(() => host.close(AbortSignal.abort()));
        let address = "";
        for (const kind of kinds) {
          const made = kind === "api" ? new KoaHttpTransport({}, host) : new AcpHttpTransport({}, silentLogger, host);
          ({ address } = await made.start(agent));
        }
        return { host, url: new URL(address).origin };
      };
      const [plain, both] = [await open(), await open()];
      await new WebConsoleTransport({}, both.host).start(agent);
      assert.deepEqual(await answers(both.url), await answers(plain.url));
      for (const method of ["GET", "HEAD"])
        for (const place of ["/", "/?x=1"]) {
          const sent = await send(both.url, place, { method, headers: { accept: HTML } });
          assert.deepEqual([sent.status, sent.headers.location, sent.text], [302, "/console", ""]);
          assert.notEqual((await send(plain.url, place, { method, headers: { accept: HTML } })).status, 302);
        }
      // The request line holds the absolute URL, as with a proxy.
      const through = await send(both.url, `${both.url}/`, { headers: { accept: HTML } });
      assert.equal(through.status, 302);
    });

  it("redirects without the required headers; other clients get 401", async (t) => {
    const { url } = await serveConsole(t, { requiredHeaders: { "X-Key": "secret" } });
    const sent = await send(url, "/", { headers: { accept: HTML } });
    assert.deepEqual([sent.status, sent.headers.location], [302, "/console"]);
    assert.equal((await send(url, "/")).status, 401, "other clients still need the headers");
    assert.equal((await send(url, "/", { headers: { accept: HTML, host: "evil.example" } })).status, 401);
  });
});
