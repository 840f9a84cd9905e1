import assert from "node:assert/strict";
import { describe, it, mock } from "node:test";
import { createLogger } from "gantry";
import { send, type RawRequest } from "../../helpers/http.js";
import { serveConsole } from "../../helpers/served-console.js";

const SECRET = "s3cret-of-the-test";
const LOCKED = { requiredHeaders: { "X-Key": SECRET } };
const KEY = { "x-key": SECRET };

const makeLink = async (url: string) => {
  const made = await send(url, "/console/links", { method: "POST", headers: KEY });
  assert.equal(made.status, 200, made.text);
  const { path } = made.json() as { path: string };
  const code = /^\/console#code=([\w-]{22})$/.exec(path)?.[1];
  assert.ok(code, path);
  return code;
};
const login = (url: string, code: unknown, options: RawRequest = {}) =>
  send(url, "/console/login", { body: JSON.stringify({ code }), ...options });

describe("a one-time link", () => {
  it("returns the required headers at its first use, and bad_link at the second", async (t) => {
    const { url } = await serveConsole(t, LOCKED);
    assert.equal((await send(url, "/api/models")).status, 401);
    const [first, second] = [await makeLink(url), await makeLink(url)];
    assert.notEqual(first, second);
    const answer = await login(url, first);
    assert.deepEqual([answer.status, answer.json()], [200, { headers: { "X-Key": SECRET } }]);
    assert.equal(answer.headers["cache-control"], "no-store");
    const { headers } = answer.json() as { headers: Record<string, string> };
    assert.equal((await send(url, "/api/models", { headers })).status, 200);
    const again = await login(url, first);
    assert.equal(again.status, 401);
    assert.equal((again.json() as { code: string }).code, "bad_link");
    assert.equal((await login(url, second)).status, 200, "the other link still works");
  });

  it("succeeds for exactly one of eight simultaneous logins", async (t) => {
    const { url } = await serveConsole(t, LOCKED);
    const code = await makeLink(url);
    const statuses = await Promise.all(Array.from({ length: 8 }, async () => (await login(url, code)).status));
    assert.deepEqual(statuses.sort(), [200, ...Array.from({ length: 7 }, () => 401)]);
  });

  it("is not created without the required headers, nor for a page of another site", async (t) => {
    const { url } = await serveConsole(t, LOCKED);
    const foreign = { origin: "https://evil.example", "sec-fetch-site": "cross-site" };
    for (const headers of [{}, { "x-key": "wrong" }, foreign, { host: "evil.example" }] as Record<string, string>[]) {
      const refused = await send(url, "/console/links", { method: "POST", headers });
      assert.equal(refused.status, headers === foreign ? 415 : 401, JSON.stringify(headers));
      assert.ok(!refused.text.includes("code="));
    }
    const json = { ...foreign, "content-type": "application/json" };
    assert.equal((await send(url, "/console/links", { method: "POST", headers: json })).status, 401);
  });

  it("is refused to other origins, other hosts and bodies that are not JSON, and stays usable", async (t) => {
    const { url } = await serveConsole(t, LOCKED);
    const code = await makeLink(url);
    const json = { "content-type": "application/json" };
    for (const [headers, status] of [
      [{ ...json, origin: "https://evil.example" }, 403],
      [{ ...json, origin: "null" }, 403],
      [{ ...json, "sec-fetch-site": "cross-site" }, 403],
      [{ ...json, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" }, 403],
      [{ ...json, host: "evil.example" }, 403],
      [{ ...json, host: "evil.example:80", origin: "http://evil.example:80" }, 403],
      [{ "content-type": "text/plain", "sec-fetch-site": "same-origin" }, 415],
      [{ "content-type": "application/x-www-form-urlencoded", origin: url }, 415],
    ] as const) {
      const refused = await login(url, code, { headers });
      assert.equal(refused.status, status, JSON.stringify(headers));
      assert.ok(!refused.text.includes(SECRET));
    }
    for (const body of ["", "x", "null", "[]", '{"code":1}', '{"code":["x"]}'])
      assert.equal((await send(url, "/console/login", { body })).status, 400, body);
    const long = await send(url, "/console/login", { body: JSON.stringify({ code: "x".repeat(2_000) }) });
    assert.equal(long.status, 413);
    const sameOriginHeaders = { ...json, origin: url, "sec-fetch-site": "same-origin" };
    assert.equal(
      (await login(url, code, { headers: sameOriginHeaders })).status,
      200,
      "no refused login used the link",
    );
  });

  it("is valid after 59 seconds and expired after 120 seconds", async (t) => {
    const { url } = await serveConsole(t, LOCKED);
    const began = performance.now();
    const [code, late] = [await makeLink(url), await makeLink(url)];
    const clock = mock.method(performance, "now", () => began + 59_000);
    t.after(() => clock.mock.restore());
    assert.equal((await login(url, code)).status, 200);
    clock.mock.mockImplementation(() => began + 120_000);
    assert.equal((await login(url, late)).status, 401);
  });

  it("expires when 16 newer links exist", async (t) => {
    const { url } = await serveConsole(t, LOCKED);
    const codes: string[] = [];
    for (let i = 0; i < 17; i += 1) codes.push(await makeLink(url));
    const [oldest, next] = codes;
    assert.equal((await login(url, oldest)).status, 401);
    assert.equal((await login(url, next)).status, 200);
  });

  it("works after 10 wrong codes of the same address, which then get 429 for a minute", async (t) => {
    const { url } = await serveConsole(t, LOCKED);
    const code = await makeLink(url);
    for (let i = 0; i < 10; i += 1) assert.equal((await login(url, `wrong-${i}`)).status, 401);
    const refused = await login(url, "wrong");
    assert.equal(refused.status, 429);
    assert.equal((refused.json() as { code: string }).code, "too_many_attempts");
    const wait = Number(refused.headers["retry-after"]);
    assert.ok(wait > 0 && wait <= 60, String(wait));
    const right = await login(url, code);
    assert.deepEqual([right.status, right.json()], [200, { headers: { "X-Key": SECRET } }]);
    assert.equal((await login(url, code)).status, 429, "the link works once");
    const began = performance.now();
    const clock = mock.method(performance, "now", () => began + 61_000);
    t.after(() => clock.mock.restore());
    assert.equal((await login(url, "wrong")).status, 401);
  });

  it("does not appear in the log, nor does the secret that it returns", async (t) => {
    const lines: string[] = [];
    const logger = createLogger({ level: "debug", write: (line) => void lines.push(line) });
    const { url } = await serveConsole(t, { ...LOCKED, logger });
    const code = await makeLink(url);
    await login(url, `${code}x`);
    await login(url, code);
    await login(url, code);
    assert.equal(lines.join("\n").includes(code), false);
    assert.equal(lines.join("\n").includes(SECRET), false);
  });

  it("is the plain path if no headers are required", async (t) => {
    const { url } = await serveConsole(t);
    const made = await send(url, "/console/links", { method: "POST" });
    assert.deepEqual([made.status, made.json()], [200, { path: "/console" }]);
    assert.equal((await login(url, "x")).status, 401);
  });

  it("returns header values with non-ASCII characters in a form that fetch can send", async (t) => {
    const requiredHeaders = { "X-Key": "schlüssel-€-密", "X-Here": "" };
    const { url } = await serveConsole(t, { requiredHeaders });
    const bytes = Buffer.from("schlüssel-€-密", "utf8").toString("latin1");
    const made = await fetch(`${url}/console/links`, { method: "POST", headers: { "x-key": bytes, "x-here": "" } });
    const { path } = (await made.json()) as { path: string };
    const { headers } = (await login(url, path.split("=")[1])).json() as { headers: Record<string, string> };
    assert.equal((await fetch(`${url}/api/models`, { headers })).status, 200);
  });
});

describe("a console with required headers", () => {
  it("serves the page and its assets without the headers, and 401 for everything else", async (t) => {
    const { url } = await serveConsole(t, LOCKED);
    for (const place of ["/console", "/console/", "/console/assets/main-ABC.js"])
      assert.equal((await send(url, place)).status, 200, place);
    for (const place of ["/api/models", "/api/sessions", "/console/x", "/consolex", "/console/links"])
      assert.equal((await send(url, place)).status, 401, place);
    for (const method of ["POST", "PUT", "DELETE"]) assert.equal((await send(url, "/api/run", { method })).status, 401);
  });

  it("checks Host and Sec-Fetch headers of requests without the required headers", async (t) => {
    const { url } = await serveConsole(t, LOCKED);
    for (const place of ["/console", "/console/assets/main-ABC.js"]) {
      assert.equal((await send(url, place, { headers: { host: "evil.example" } })).status, 403);
      const embedded = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script" };
      assert.equal((await send(url, place, { headers: embedded })).status, 403);
      // Through a proxy that adds the headers, under any host name.
      assert.equal((await send(url, place, { headers: { ...KEY, host: "agent.example" } })).status, 200);
    }
  });

  it("accepts a navigation from another site to the page, but no frame or script of that site", async (t) => {
    for (const options of [LOCKED, {}]) {
      const { url } = await serveConsole(t, options);
      const visit = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" };
      assert.equal((await send(url, "/console", { headers: visit })).status, 200);
      assert.equal((await send(url, "/", { headers: { ...visit, accept: "text/html" } })).status, 302);
      for (const extraHeaders of [
        { "sec-fetch-dest": "iframe" },
        { "sec-fetch-dest": "frame" },
        { "sec-fetch-dest": "object" },
        { "sec-fetch-mode": "cors" },
        { origin: "https://evil.example" },
        { host: "evil.example" },
      ] as Record<string, string>[])
        assert.equal(
          (await send(url, "/console", { headers: { ...visit, ...extraHeaders } })).status,
          403,
          JSON.stringify(extraHeaders),
        );
      assert.notEqual((await send(url, "/api/models", { headers: visit })).status, 200);
    }
  });
});
