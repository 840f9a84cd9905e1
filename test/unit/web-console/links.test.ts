import assert from "node:assert/strict";
import { describe, it, mock } from "node:test";
import { createLogger } from "gantry";
import { sendRawRequest, type RawRequest } from "../../helpers/raw-http.js";
import { serveConsole } from "../../helpers/served-console.js";

const SECRET = "s3cret-of-the-test";
const LOCKED_OPTIONS = { requiredHeaders: { "X-Key": SECRET } };
const KEY_HEADERS = { "x-key": SECRET };

const createLinkCode = async (url: string) => {
  const response = await sendRawRequest(url, "/console/links", { method: "POST", headers: KEY_HEADERS });
  assert.equal(response.status, 200, response.text);
  const { path } = response.json() as { path: string };
  const code = /^\/console#code=([\w-]{22})$/.exec(path)?.[1];
  assert.ok(code, path);
  return code;
};
const login = (url: string, code: unknown, options: RawRequest = {}) =>
  sendRawRequest(url, "/console/login", { body: JSON.stringify({ code }), ...options });

describe("a one-time link", () => {
  it("returns the required headers at its first use, and bad_link at the second", async (t) => {
    const { url } = await serveConsole(t, LOCKED_OPTIONS);
    assert.equal((await sendRawRequest(url, "/api/models")).status, 401);
    const [firstCode, secondCode] = [await createLinkCode(url), await createLinkCode(url)];
    assert.notEqual(firstCode, secondCode);
    const response = await login(url, firstCode);
    assert.deepEqual([response.status, response.json()], [200, { headers: { "X-Key": SECRET } }]);
    assert.equal(response.headers["cache-control"], "no-store");
    const { headers } = response.json() as { headers: Record<string, string> };
    assert.equal((await sendRawRequest(url, "/api/models", { headers })).status, 200);
    const secondResponse = await login(url, firstCode);
    assert.equal(secondResponse.status, 401);
    assert.equal((secondResponse.json() as { code: string }).code, "bad_link");
    assert.equal((await login(url, secondCode)).status, 200, "the other link still works");
  });

  it("succeeds for exactly one of eight simultaneous logins", async (t) => {
    const { url } = await serveConsole(t, LOCKED_OPTIONS);
    const code = await createLinkCode(url);
    const statuses = await Promise.all(Array.from({ length: 8 }, async () => (await login(url, code)).status));
    assert.deepEqual(statuses.sort(), [200, ...Array.from({ length: 7 }, () => 401)]);
  });

  it("is not created without the required headers, nor for a page of another site", async (t) => {
    const { url } = await serveConsole(t, LOCKED_OPTIONS);
    const foreignHeaders = { origin: "https://evil.example", "sec-fetch-site": "cross-site" };
    for (const headers of [{}, { "x-key": "wrong" }, foreignHeaders, { host: "evil.example" }] as Record<
      string,
      string
    >[]) {
      const response = await sendRawRequest(url, "/console/links", { method: "POST", headers });
      assert.equal(response.status, headers === foreignHeaders ? 415 : 401, JSON.stringify(headers));
      assert.ok(!response.text.includes("code="));
    }
    const jsonHeaders = { ...foreignHeaders, "content-type": "application/json" };
    assert.equal((await sendRawRequest(url, "/console/links", { method: "POST", headers: jsonHeaders })).status, 401);
  });

  it("stays usable after rejected logins: other origin, other host, body that is not JSON", async (t) => {
    const { url } = await serveConsole(t, LOCKED_OPTIONS);
    const code = await createLinkCode(url);
    const jsonHeaders = { "content-type": "application/json" };
    for (const [headers, status] of [
      [{ ...jsonHeaders, origin: "https://evil.example" }, 403],
      [{ ...jsonHeaders, origin: "null" }, 403],
      [{ ...jsonHeaders, "sec-fetch-site": "cross-site" }, 403],
      [
        { ...jsonHeaders, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" },
        403,
      ],
      [{ ...jsonHeaders, host: "evil.example" }, 403],
      [{ ...jsonHeaders, host: "evil.example:80", origin: "http://evil.example:80" }, 403],
      [{ "content-type": "text/plain", "sec-fetch-site": "same-origin" }, 415],
      [{ "content-type": "application/x-www-form-urlencoded", origin: url }, 415],
    ] as const) {
      const response = await login(url, code, { headers });
      assert.equal(response.status, status, JSON.stringify(headers));
      assert.ok(!response.text.includes(SECRET));
    }
    for (const body of ["", "x", "null", "[]", '{"code":1}', '{"code":["x"]}'])
      assert.equal((await sendRawRequest(url, "/console/login", { body })).status, 400, body);
    const longCodeResponse = await sendRawRequest(url, "/console/login", {
      body: JSON.stringify({ code: "x".repeat(2_000) }),
    });
    assert.equal(longCodeResponse.status, 413);
    const sameOriginHeaders = { ...jsonHeaders, origin: url, "sec-fetch-site": "same-origin" };
    assert.equal(
      (await login(url, code, { headers: sameOriginHeaders })).status,
      200,
      "a rejected login does not consume the link",
    );
  });

  it("is valid after 59 seconds and expired after 120 seconds", async (t) => {
    const { url } = await serveConsole(t, LOCKED_OPTIONS);
    const startMs = performance.now();
    const [code, lateCode] = [await createLinkCode(url), await createLinkCode(url)];
    const clock = mock.method(performance, "now", () => startMs + 59_000);
    t.after(() => clock.mock.restore());
    assert.equal((await login(url, code)).status, 200);
    clock.mock.mockImplementation(() => startMs + 120_000);
    assert.equal((await login(url, lateCode)).status, 401);
  });

  it("expires when 16 newer links exist", async (t) => {
    const { url } = await serveConsole(t, LOCKED_OPTIONS);
    const codes: string[] = [];
    for (let i = 0; i < 17; i += 1) codes.push(await createLinkCode(url));
    const [oldestCode, secondOldestCode] = codes;
    assert.equal((await login(url, oldestCode)).status, 401);
    assert.equal((await login(url, secondOldestCode)).status, 200);
  });

  it("works after 10 wrong codes from the same address, although further wrong codes get 429 for a minute", async (t) => {
    const { url } = await serveConsole(t, LOCKED_OPTIONS);
    const code = await createLinkCode(url);
    for (let i = 0; i < 10; i += 1) assert.equal((await login(url, `wrong-${i}`)).status, 401);
    const throttledResponse = await login(url, "wrong");
    assert.equal(throttledResponse.status, 429);
    assert.equal((throttledResponse.json() as { code: string }).code, "too_many_attempts");
    const retryAfterSeconds = Number(throttledResponse.headers["retry-after"]);
    assert.ok(retryAfterSeconds > 0 && retryAfterSeconds <= 60, String(retryAfterSeconds));
    const validResponse = await login(url, code);
    assert.deepEqual([validResponse.status, validResponse.json()], [200, { headers: { "X-Key": SECRET } }]);
    assert.equal((await login(url, code)).status, 429, "the link works once");
    const startMs = performance.now();
    const clock = mock.method(performance, "now", () => startMs + 61_000);
    t.after(() => clock.mock.restore());
    assert.equal((await login(url, "wrong")).status, 401);
  });

  it("does not appear in the log, nor does the secret that the link returns", async (t) => {
    const logLines: string[] = [];
    const logger = createLogger({ level: "debug", write: (line) => void logLines.push(line) });
    const { url } = await serveConsole(t, { ...LOCKED_OPTIONS, logger });
    const code = await createLinkCode(url);
    await login(url, `${code}x`);
    await login(url, code);
    await login(url, code);
    assert.equal(logLines.join("\n").includes(code), false);
    assert.equal(logLines.join("\n").includes(SECRET), false);
  });

  it("is the plain path if no headers are required", async (t) => {
    const { url } = await serveConsole(t);
    const response = await sendRawRequest(url, "/console/links", { method: "POST" });
    assert.deepEqual([response.status, response.json()], [200, { path: "/console" }]);
    assert.equal((await login(url, "x")).status, 401);
  });

  it("returns header values with non-ASCII characters in a form that fetch can send", async (t) => {
    const requiredHeaders = { "X-Key": "schlüssel-€-密", "X-Here": "" };
    const { url } = await serveConsole(t, { requiredHeaders });
    const encodedKey = Buffer.from("schlüssel-€-密", "utf8").toString("latin1");
    const response = await fetch(`${url}/console/links`, {
      method: "POST",
      headers: { "x-key": encodedKey, "x-here": "" },
    });
    const { path } = (await response.json()) as { path: string };
    const { headers } = (await login(url, path.split("=")[1])).json() as { headers: Record<string, string> };
    assert.equal((await fetch(`${url}/api/models`, { headers })).status, 200);
  });
});

describe("a console with required headers", () => {
  it("serves the page and its assets without the headers, and 401 for everything else", async (t) => {
    const { url } = await serveConsole(t, LOCKED_OPTIONS);
    for (const path of ["/console", "/console/", "/console/assets/main-ABC.js"])
      assert.equal((await sendRawRequest(url, path)).status, 200, path);
    for (const path of ["/api/models", "/api/sessions", "/console/x", "/consolex", "/console/links"])
      assert.equal((await sendRawRequest(url, path)).status, 401, path);
    for (const method of ["POST", "PUT", "DELETE"])
      assert.equal((await sendRawRequest(url, "/api/run", { method })).status, 401);
  });

  it("checks Host and Sec-Fetch headers of requests without the required headers", async (t) => {
    const { url } = await serveConsole(t, LOCKED_OPTIONS);
    for (const path of ["/console", "/console/assets/main-ABC.js"]) {
      assert.equal((await sendRawRequest(url, path, { headers: { host: "evil.example" } })).status, 403);
      const embedHeaders = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script" };
      assert.equal((await sendRawRequest(url, path, { headers: embedHeaders })).status, 403);
      // A proxy that adds the headers can use any host name.
      assert.equal(
        (await sendRawRequest(url, path, { headers: { ...KEY_HEADERS, host: "agent.example" } })).status,
        200,
      );
    }
  });

  it("accepts a navigation from another site to the page, but no frame or script of that site", async (t) => {
    for (const options of [LOCKED_OPTIONS, {}]) {
      const { url } = await serveConsole(t, options);
      const navigationHeaders = {
        "sec-fetch-site": "cross-site",
        "sec-fetch-mode": "navigate",
        "sec-fetch-dest": "document",
      };
      assert.equal((await sendRawRequest(url, "/console", { headers: navigationHeaders })).status, 200);
      assert.equal(
        (await sendRawRequest(url, "/", { headers: { ...navigationHeaders, accept: "text/html" } })).status,
        302,
      );
      for (const extraHeaders of [
        { "sec-fetch-dest": "iframe" },
        { "sec-fetch-dest": "frame" },
        { "sec-fetch-dest": "object" },
        { "sec-fetch-mode": "cors" },
        { origin: "https://evil.example" },
        { host: "evil.example" },
      ] as Record<string, string>[])
        assert.equal(
          (await sendRawRequest(url, "/console", { headers: { ...navigationHeaders, ...extraHeaders } })).status,
          403,
          JSON.stringify(extraHeaders),
        );
      assert.notEqual((await sendRawRequest(url, "/api/models", { headers: navigationHeaders })).status, 200);
    }
  });
});
