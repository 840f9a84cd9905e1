import assert from "node:assert/strict";
import { it } from "node:test";
import { exchange, type RawRequest } from "../../helpers/http.js";
import { startServer } from "../../helpers/server.js";
import { startApi } from "../../helpers/http-api.js";

/** Every route, with its status for an authorized client. */
const ROUTES: [method: string, path: string, status: number, body?: string][] = [
  ["GET", "/api/health", 200],
  ["GET", "/api/ready", 200],
  ["GET", "/api/models", 200],
  ["GET", "/api/openapi.json", 200],
  ["POST", "/api/run", 200, '{"message":"hi"}'],
  ["GET", "/api/sessions", 200],
  ["GET", "/api/sessions/x", 404],
  ["GET", "/api/sessions/x/messages", 404],
  ["DELETE", "/api/sessions/x", 404],
  ["PATCH", "/api/sessions/x", 404, '{"title":"t"}'],
  ["GET", "/api/sessions/x/events", 404],
  ["POST", "/api/sessions/x/cancel", 404, "{}"],
  ["POST", "/api/sessions/x/steer", 404, '{"message":"hi"}'],
  ["GET", "/api/runs", 200],
  ["GET", "/api/runs/x", 404],
  ["POST", "/api/runs/x/cancel", 404, "{}"],
  ["GET", "/api/asks", 200],
  ["GET", "/api/asks/x", 404],
  ["POST", "/api/asks/x", 404, "{}"],
  ["GET", "/api/nope", 404],
  ["PATCH", "/api/run", 405],
];
const JSON_TYPE = { "content-type": "application/json" };

const CORS = {
  "access-control-allow-origin": "*",
  "access-control-allow-methods": "GET, POST, PUT, DELETE, OPTIONS",
};

it("every response has CORS headers, including errors and refusals", async (t) => {
  const { send, run } = await startApi(t, { http: { maxBodyBytes: 100 } });
  const answers = [
    ...(await Promise.all(ROUTES.map(([method, path, , body]) => send(path, { method, ...(body ? { body } : {}) })))),
    await run("x".repeat(200)),
    await run("{"),
    await send("/api/health", { headers: { host: "evil.example" } }),
    await send("/api/health", { headers: { "sec-fetch-site": "cross-site" } }),
  ];
  for (const { status, headers } of answers) {
    for (const [name, value] of Object.entries(CORS)) assert.equal(headers[name], value, `${status} ${name}`);
    assert.equal(headers["access-control-allow-headers"], "Content-Type, Authorization");
    assert.match(String(headers["access-control-expose-headers"]), /\bX-Session-Id\b/);
    assert.equal(headers["access-control-allow-credentials"], undefined);
    assert.equal(headers["access-control-allow-private-network"], undefined);
  }
});

it("OPTIONS returns 204 on any path without authentication", async (t) => {
  const { send, url } = await startApi(t, {
    http: { requiredHeaders: { "X-Key": "k" }, headers: { "X-Custom": "1" } },
  });
  const preflight = {
    origin: "https://app.example",
    "access-control-request-method": "POST",
    "access-control-request-headers": "content-type, x-custom",
    "access-control-request-private-network": "true",
    "sec-fetch-site": "cross-site",
  };
  for (const path of ["/api/run", "/api/sessions/x", "/api/nope", "/", "/other"]) {
    const { status, headers, text } = await send(path, { method: "OPTIONS", headers: preflight });
    assert.deepEqual([status, text], [204, ""], path);
    assert.equal(headers["access-control-allow-origin"], "*");
    assert.equal(headers["access-control-allow-headers"], "Content-Type, Authorization, X-Custom");
    assert.equal(headers["access-control-allow-private-network"], undefined);
    assert.equal(headers["content-type"], undefined);
  }
  assert.match(
    await exchange(url, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
    /^HTTP\/1\.1 204 /,
  );
});

it("a preflight lists PATCH, Idempotency-Key and Last-Event-ID only if it requests them", async (t) => {
  const { send } = await startApi(t, { http: { headers: { "X-Mine": "1" } } });
  const lists = async (headers: Record<string, string>) => {
    const answer = await send("/api/run", { method: "OPTIONS", headers });
    assert.equal(answer.status, 204);
    return ["methods", "headers"].map((what) => answer.headers[`access-control-allow-${what}`]);
  };
  const old = ["GET, POST, PUT, DELETE, OPTIONS", "Content-Type, Authorization, X-Mine"];
  const wide = "Content-Type, Authorization, Idempotency-Key, Last-Event-ID, X-Mine";
  const method = "access-control-request-method";
  const names = "access-control-request-headers";
  assert.deepEqual(await lists({}), old);
  assert.deepEqual(await lists({ [method]: "POST", [names]: "content-type" }), old);
  assert.deepEqual(await lists({ [method]: "PATCH" }), ["GET, POST, PUT, PATCH, DELETE, OPTIONS", old[1]]);
  assert.deepEqual(await lists({ [method]: "POST", [names]: "content-type,idempotency-key" }), [old[0], wide]);
  assert.deepEqual(await lists({ [method]: "GET", [names]: "Last-Event-ID" }), [old[0], wide]);
  assert.match(String((await send("/api/health")).headers["access-control-expose-headers"]), /\bX-Run-Id\b/);
});

it("a preflight lists a required header only if it requests that header and the headers authenticate clients", async (t) => {
  const requestHeaders = "access-control-request-headers";
  const listed = async (send: Awaited<ReturnType<typeof startApi>>["send"], names?: string) => {
    const headers = { origin: "http://127.0.0.1:9", "access-control-request-method": "POST" };
    const answer = await send("/api/run", {
      method: "OPTIONS",
      headers: { ...headers, ...(names && { [requestHeaders]: names }) },
    });
    assert.ok(!JSON.stringify([answer.headers, answer.text]).includes("secret"));
    return answer.headers["access-control-allow-headers"];
  };
  const requiredHeaders = { "X-Key": "secret", Authorization: "Bearer secret", "X-Client": "" };
  const { send } = await startApi(t, { http: { requiredHeaders, headers: { "X-Mine": "1" } } });
  // A header is listed only if the request names it, so that other clients learn nothing.
  for (const names of [undefined, "content-type", "x-ke", "x-key-2, my-x-key", "authorization"])
    assert.equal(await listed(send, names), "Content-Type, Authorization, X-Mine", names);
  assert.equal(await listed(send, "content-type,x-key"), "Content-Type, Authorization, X-Key, X-Mine");
  assert.equal(await listed(send, "X-CLIENT , x-key"), "Content-Type, Authorization, X-Key, X-Client, X-Mine");
  assert.equal(
    await listed(send, "authorization,idempotency-key,x-key"),
    "Content-Type, Authorization, Idempotency-Key, Last-Event-ID, X-Key, X-Mine",
  );
  // A header with any value authenticates no client, and can serve to keep pages out.
  const open = await startApi(t, { http: { requiredHeaders: { "X-Client": "" } } });
  assert.equal(await listed(open.send, "x-client"), "Content-Type, Authorization");
});

it("a preflight lists the API's own required headers instead of those of the port", async (t) => {
  for (const [apiOptions, allowed] of [
    [{}, "Content-Type, Authorization, X-Port"],
    [{ required_headers: { "X-Own": "k" } }, "Content-Type, Authorization, X-Own"],
  ] as const) {
    const server = await startServer(t, {
      config: {
        server: { required_headers: { "X-Port": "k" }, transports: [{ transport: "koa-http-api", ...apiOptions }] },
      },
    });
    const { status, headers } = await server.fetch("/api/run", {
      method: "OPTIONS",
      headers: { "access-control-request-method": "POST", "access-control-request-headers": "x-own,x-port" },
    });
    assert.deepEqual([status, headers.get("access-control-allow-headers")], [204, allowed]);
  }
});

it("server.headers are on every response", async (t) => {
  const { send, run } = await startApi(t, { http: { headers: { "X-Served-By": "gantry", "X-Other": "" } } });
  for (const answer of [
    await send("/api/health"),
    await send("/nope"),
    await run("{"),
    await run({ message: "hi", stream: true }),
    await send("/", { method: "OPTIONS" }),
  ])
    assert.equal(answer.headers["x-served-by"], "gantry");
});

type Vector = [name: string, headers: Record<string, string | string[]>, error: string | undefined];
const KEY = "Bearer Sécret-1";
const missing = (name: string) => `missing required header: ${name}`;
const invalid = (name: string) => `invalid header: ${name}`;
const good = { authorization: "Bearer S\u00e9cret-1", "x-tenant": "Blue", "x-trace": "any" };

const VECTORS: Vector[] = [
  ["all headers valid", good, undefined],
  ["names in another case", { AUTHORIZATION: good.authorization, "X-TENANT": "Blue", "X-Trace": "1" }, undefined],
  ["a value in upper case", { ...good, "x-tenant": "BLUE" }, undefined],
  ["a value in lower case", { ...good, "x-tenant": "blue" }, undefined],
  ["the key in another ASCII case", { ...good, authorization: "bEARER S\u00e9CRET-1" }, undefined],
  ["the key in UTF-8 bytes", { ...good, authorization: Buffer.from(KEY, "utf8").toString("latin1") }, undefined],
  ["white space around a value", { ...good, "x-tenant": "  Blue\t" }, undefined],
  ["an empty value for a header with any value", { ...good, "x-trace": "" }, undefined],
  ["the same header twice, the same value", { ...good, "x-tenant": ["Blue", "Blue"] }, undefined],
  ["the same header twice, in another case", { ...good, "x-tenant": ["Blue", "bLUE"] }, undefined],
  ["further headers", { ...good, "x-more": "1" }, undefined],
  ["no headers", {}, missing("Authorization")],
  ["all but the first", { "x-tenant": "Blue", "x-trace": "1" }, missing("Authorization")],
  ["all but the second", { authorization: good.authorization, "x-trace": "1" }, missing("X-Tenant")],
  ["all but the third", { authorization: good.authorization, "x-tenant": "Blue" }, missing("X-Trace")],
  ["an empty key", { ...good, authorization: "" }, invalid("Authorization")],
  ["another key", { ...good, authorization: "Bearer other" }, invalid("Authorization")],
  ["a prefix of the key", { ...good, authorization: "Bearer S\u00e9cret-" }, invalid("Authorization")],
  ["the key and more", { ...good, authorization: "Bearer S\u00e9cret-11" }, invalid("Authorization")],
  ["the key without its scheme", { ...good, authorization: "S\u00e9cret-1" }, invalid("Authorization")],
  ["the key with two spaces", { ...good, authorization: "Bearer  S\u00e9cret-1" }, invalid("Authorization")],
  ["the key in another non-ASCII case", { ...good, authorization: "Bearer S\u00c9cret-1" }, invalid("Authorization")],
  ["the key without its accent", { ...good, authorization: "Bearer Secret-1" }, invalid("Authorization")],
  ["the key in quotes", { ...good, authorization: `"${good.authorization}"` }, invalid("Authorization")],
  ["two keys, the first valid", { ...good, authorization: [good.authorization, "x"] }, invalid("Authorization")],
  ["two keys, the second valid", { ...good, authorization: ["x", good.authorization] }, invalid("Authorization")],
  ["two tenants, one valid", { ...good, "x-tenant": ["Blue", "Red"] }, invalid("X-Tenant")],
  ["two tenants in one line", { ...good, "x-tenant": "Blue, Blue" }, invalid("X-Tenant")],
  ["two different values for a header with any value", { ...good, "x-trace": ["1", "2"] }, invalid("X-Trace")],
  ["a very long key", { ...good, authorization: "x".repeat(8000) }, invalid("Authorization")],
  ["first wrong, second missing", { authorization: "x", "x-trace": "1" }, invalid("Authorization")],
  ["first missing, second wrong", { "x-tenant": "Red", "x-trace": "1" }, missing("Authorization")],
  ["second wrong, third missing", { authorization: good.authorization, "x-tenant": "Red" }, invalid("X-Tenant")],
  ["a key in the query", {}, missing("Authorization")],
  ["a name with a dash in place of an underscore", { ...good, "x-tenant": [], x_tenant: "Blue" }, missing("X-Tenant")],
];

it("header authentication returns 200 or 401 with the name of the first wrong header for each vector", async (t) => {
  const api = await startApi(t, {
    http: { requiredHeaders: { Authorization: KEY, "X-Tenant": "Blue", "X-Trace": "" } },
  });
  assert.ok(VECTORS.length >= 30);
  for (const [name, headers, error] of VECTORS) {
    const answer = await api.send("/api/health?authorization=Bearer+x", { headers });
    assert.equal(answer.status, error === undefined ? 200 : 401, name);
    if (error !== undefined) assert.deepEqual(answer.json(), { error, code: "unauthorized" }, name);
  }
});

it("authentication applies to every route before any other check", async (t) => {
  const { send, provider } = await startApi(t, { http: { requiredHeaders: { "X-Key": "k" }, maxBodyBytes: 50 } });
  for (const [method, path, status, body] of ROUTES) {
    const options: RawRequest = { method, ...(body ? { body } : {}) };
    const refused = await send(path, options);
    assert.deepEqual(
      [refused.status, method === "HEAD" || refused.json()],
      [401, { error: "missing required header: X-Key", code: "unauthorized" }],
    );
    assert.equal((await send(path, { ...options, headers: { "x-key": "K" } })).status, status, `${method} ${path}`);
  }
  assert.equal((await send("/api/run", { body: "x".repeat(100) })).status, 401);
  assert.equal((await send("/api/health", { method: "HEAD" })).status, 401);
  assert.equal(provider.requests.length, 1);
});

const PAGES: Record<string, string>[] = [
  { "sec-fetch-site": "cross-site", origin: "https://evil.example" },
  { "sec-fetch-site": "cross-site", origin: "null" },
  { "sec-fetch-site": "cross-site" },
  { "sec-fetch-site": "Cross-Site", origin: "https://localhost.evil.example" },
  { "sec-fetch-site": "cross-site", origin: "http://127.0.0.1.evil.example" },
  { "sec-fetch-site": "cross-site", origin: "http://localhost@evil.example" },
  { "sec-fetch-site": "cross-site", origin: "http://evil.example/?http://localhost" },
  { "sec-fetch-site": "cross-site", origin: "https://evil.example, http://localhost" },
  // Browsers send no fetch metadata to untrusted addresses, and old browsers never send it.
  { origin: "https://evil.example" },
  { origin: "http://evil.example" },
  { origin: "null" },
  { origin: "http://[::ffff:127.0.0.1]:3000" },
  { origin: "http://0.0.0.0:3000" },
  { origin: "http://192.0.2.1" },
  { origin: "moz-extension://0b0b0b0b" },
  { origin: "https://evil.example", "sec-fetch-site": "same-origin" },
  { origin: "https://evil.example", "sec-fetch-site": "none" },
];

it("every route except /api/health refuses pages of other sites with 403 cross_site", async (t) => {
  const { send, provider } = await startApi(t);
  for (const page of PAGES) {
    for (const [method, path, , body] of ROUTES) {
      if (path === "/api/health") continue;
      const { status, json } = await send(path, {
        method,
        headers: { ...page, ...JSON_TYPE },
        ...(body ? { body } : {}),
      });
      assert.deepEqual(
        [status, json()],
        [403, { error: "cross-site request refused", code: "cross_site" }],
        `${method} ${path} ${JSON.stringify(page)}`,
      );
    }
  }
  assert.equal(provider.requests.length, 0);
});

it("GET /api/health answers any page, but checks Host, and POST is refused", async (t) => {
  const { send } = await startApi(t);
  for (const page of PAGES) assert.equal((await send("/api/health", { headers: page })).status, 200);
  assert.equal((await send("/api/health", { method: "POST", headers: { ...PAGES[0], ...JSON_TYPE } })).status, 403);
  assert.equal((await send("/api/health", { headers: { host: "evil.example" } })).status, 403);
});

it("allowLoopbackPages: false refuses pages of other ports of this machine", async (t) => {
  const { send, url } = await startApi(t, { host: { allowLoopbackPages: false } });
  const ownHeaders = { origin: new URL(url).origin, host: new URL(url).host };
  const get = async (headers: Record<string, string>) => (await send("/api/sessions", { headers })).status;
  assert.equal(await get({}), 200);
  assert.equal(await get(ownHeaders), 200);
  assert.equal(await get({ "sec-fetch-site": "none" }), 200);
  assert.equal(await get({ ...ownHeaders, "sec-fetch-site": "same-origin" }), 200);
  for (const page of [
    { origin: "http://localhost:3000" },
    { origin: "http://127.0.0.1:3000", "sec-fetch-site": "same-site" },
    { "sec-fetch-site": "same-site" },
    { "sec-fetch-site": "cross-site" },
  ] as Record<string, string>[])
    assert.equal(await get(page), 403, JSON.stringify(page));
});

it("a required header without a value does not replace the Host and Origin checks or allow a public address", async (t) => {
  for (const value of ["", "  "]) {
    const { send } = await startApi(t, { http: { requiredHeaders: { Authorization: value } } });
    const ask = async (headers: Record<string, string>) => (await send("/api/sessions", { headers })).status;
    assert.equal(await ask({ authorization: "x" }), 200);
    assert.equal(await ask({}), 401);
    assert.equal(await ask({ authorization: "x", host: "evil.example" }), 403);
    assert.equal(await ask({ authorization: "x", origin: "https://evil.example" }), 403);
    await assert.rejects(
      startApi(t, { http: { requiredHeaders: { Authorization: value } }, host: { host: "0.0.0.0" } }),
      /without authentication/,
    );
  }
});

it("a malformed request gets a JSON error with CORS headers and server.headers", async (t) => {
  const { url } = await startApi(t, { host: { headerTimeout: 0.2 }, http: { headers: { "X-Served-By": "gantry" } } });
  for (const [status, text] of [
    [400, "no http\r\n\r\n"],
    [400, "GET api HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"],
    [408, "GET / HTTP/1.1\r\nHost: local"],
    [431, `GET / HTTP/1.1\r\nX: ${"x".repeat(20_000)}\r\n\r\n`],
  ] as const) {
    const answer = await exchange(url, text);
    assert.match(answer, new RegExp(`^HTTP/1\\.1 ${status} `));
    assert.match(answer, /\r\nAccess-Control-Allow-Origin: \*\r\n/);
    assert.match(answer, /\r\nX-Served-By: gantry\r\n/);
    assert.match(answer, /\{"error":"[^"]+","code":"[a-z_]+"\}$/);
  }
});

it("a cross-site request is refused before its body is read", async (t) => {
  const { url } = await startApi(t);
  const answer = exchange(
    url,
    "POST /api/run HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nSec-Fetch-Site: cross-site\r\nContent-Length: 1000000\r\n\r\n{",
  );
  assert.match(await answer, /^HTTP\/1\.1 403 /);
});

it("POST /api/run serves native programs, pages of this machine, and authenticated or allowed pages", async (t) => {
  const json = { body: '{"message":"hi"}' };
  const acceptedHeaders: Record<string, string>[] = [
    {},
    { "sec-fetch-mode": "cors" },
    { ...JSON_TYPE, "sec-fetch-site": "cross-site", origin: "http://localhost:3000" },
    { ...JSON_TYPE, "sec-fetch-site": "cross-site", origin: "http://127.0.0.1:3000" },
    { ...JSON_TYPE, "sec-fetch-site": "cross-site", origin: "http://[::1]:3000" },
    { ...JSON_TYPE, "sec-fetch-site": "same-origin", origin: "http://localhost" },
    { ...JSON_TYPE, "sec-fetch-site": "same-site" },
    { ...JSON_TYPE, "sec-fetch-site": "none" },
    { ...JSON_TYPE, origin: "http://localhost:3000" },
  ];
  const open = await startApi(t);
  for (const headers of acceptedHeaders)
    assert.equal((await open.send("/api/run", { ...json, headers })).status, 200, JSON.stringify(headers));
  const page = { ...JSON_TYPE, "sec-fetch-site": "cross-site", origin: "https://app.example" };
  const allowed = await startApi(t, { host: { allowCrossSite: true } });
  assert.equal((await allowed.send("/api/run", { ...json, headers: page })).status, 200);
  const keyed = await startApi(t, { http: { requiredHeaders: { "X-Key": "k" } } });
  assert.equal((await keyed.send("/api/run", { ...json, headers: { ...page, "x-key": "k" } })).status, 200);
  assert.equal((await keyed.send("/api/run", { ...json, headers: page })).status, 401);
});

it("a POST of a browser needs a JSON content type, even with authentication", async (t) => {
  const { send, provider } = await startApi(t, { http: { requiredHeaders: { "X-Key": "k" } } });
  const post = (headers: Record<string, string>) =>
    send("/api/run", { body: '{"message":"hi"}', headers: { "x-key": "k", ...headers } });
  const browsers: Record<string, string>[] = [
    { origin: "http://localhost:3000" },
    { "sec-fetch-site": "same-origin" },
    { origin: "null" },
  ];
  for (const browser of browsers) {
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "multipart/form-data",
      "text/plain; application/json",
      "application/jsonp",
    ]) {
      const { status, json } = await post({ ...browser, "content-type": type });
      assert.deepEqual(
        [status, json()],
        [415, { error: "content type must be application/json", code: "unsupported_media_type" }],
        type,
      );
    }
    assert.equal((await post(browser)).status, 415, "no content type");
  }
  assert.equal(provider.requests.length, 0);
  for (const type of ["application/json", "Application/JSON; charset=utf-8", "application/vnd.x+json"])
    assert.equal((await post({ origin: "http://localhost", "content-type": type })).status, 200, type);
});
