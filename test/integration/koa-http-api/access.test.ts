import assert from "node:assert/strict";
import { it } from "node:test";
import { exchangeText, type RawRequest } from "../../helpers/raw-http.js";
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
const JSON_HEADERS = { "content-type": "application/json" };

const CORS_HEADERS = {
  "access-control-allow-origin": "*",
  "access-control-allow-methods": "GET, POST, PUT, DELETE, OPTIONS",
};

it("every response has CORS headers, including errors and rejections", async (t) => {
  const { send, postRun } = await startApi(t, { http: { maxBodyBytes: 100 } });
  const responses = [
    ...(await Promise.all(ROUTES.map(([method, path, , body]) => send(path, { method, ...(body ? { body } : {}) })))),
    await postRun("x".repeat(200)),
    await postRun("{"),
    await send("/api/health", { headers: { host: "evil.example" } }),
    await send("/api/health", { headers: { "sec-fetch-site": "cross-site" } }),
  ];
  for (const { status, headers } of responses) {
    for (const [name, value] of Object.entries(CORS_HEADERS)) assert.equal(headers[name], value, `${status} ${name}`);
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
    await exchangeText(url, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
    /^HTTP\/1\.1 204 /,
  );
});

it("a preflight response lists PATCH, Idempotency-Key and Last-Event-ID only if the request names them", async (t) => {
  const { send } = await startApi(t, { http: { headers: { "X-Mine": "1" } } });
  const requestPreflight = async (headers: Record<string, string>) => {
    const response = await send("/api/run", { method: "OPTIONS", headers });
    assert.equal(response.status, 204);
    return ["methods", "headers"].map((headerName) => response.headers[`access-control-allow-${headerName}`]);
  };
  const defaultLists = ["GET, POST, PUT, DELETE, OPTIONS", "Content-Type, Authorization, X-Mine"];
  const headersWithKey = "Content-Type, Authorization, Idempotency-Key, Last-Event-ID, X-Mine";
  const methodField = "access-control-request-method";
  const headersField = "access-control-request-headers";
  assert.deepEqual(await requestPreflight({}), defaultLists);
  assert.deepEqual(await requestPreflight({ [methodField]: "POST", [headersField]: "content-type" }), defaultLists);
  assert.deepEqual(await requestPreflight({ [methodField]: "PATCH" }), [
    "GET, POST, PUT, PATCH, DELETE, OPTIONS",
    defaultLists[1],
  ]);
  assert.deepEqual(await requestPreflight({ [methodField]: "POST", [headersField]: "content-type,idempotency-key" }), [
    defaultLists[0],
    headersWithKey,
  ]);
  assert.deepEqual(await requestPreflight({ [methodField]: "GET", [headersField]: "Last-Event-ID" }), [
    defaultLists[0],
    headersWithKey,
  ]);
  assert.match(String((await send("/api/health")).headers["access-control-expose-headers"]), /\bX-Run-Id\b/);
});

it("a preflight response lists a required header only if the request names it and the required headers authenticate", async (t) => {
  const requestHeaders = "access-control-request-headers";
  const getListedHeaders = async (send: Awaited<ReturnType<typeof startApi>>["send"], requestedNames?: string) => {
    const headers = { origin: "http://127.0.0.1:9", "access-control-request-method": "POST" };
    const response = await send("/api/run", {
      method: "OPTIONS",
      headers: { ...headers, ...(requestedNames && { [requestHeaders]: requestedNames }) },
    });
    assert.ok(!JSON.stringify([response.headers, response.text]).includes("secret"));
    return response.headers["access-control-allow-headers"];
  };
  const requiredHeaders = { "X-Key": "secret", Authorization: "Bearer secret", "X-Client": "" };
  const { send } = await startApi(t, { http: { requiredHeaders, headers: { "X-Mine": "1" } } });
  // A header is listed only if the request names it, so that responses do not reveal required headers.
  for (const requestedNames of [undefined, "content-type", "x-ke", "x-key-2, my-x-key", "authorization"])
    assert.equal(await getListedHeaders(send, requestedNames), "Content-Type, Authorization, X-Mine", requestedNames);
  assert.equal(await getListedHeaders(send, "content-type,x-key"), "Content-Type, Authorization, X-Key, X-Mine");
  assert.equal(
    await getListedHeaders(send, "X-CLIENT , x-key"),
    "Content-Type, Authorization, X-Key, X-Client, X-Mine",
  );
  assert.equal(
    await getListedHeaders(send, "authorization,idempotency-key,x-key"),
    "Content-Type, Authorization, Idempotency-Key, Last-Event-ID, X-Key, X-Mine",
  );
  // A header that accepts any value does not authenticate clients, so it is not listed.
  const anyValueApi = await startApi(t, { http: { requiredHeaders: { "X-Client": "" } } });
  assert.equal(await getListedHeaders(anyValueApi.send, "x-client"), "Content-Type, Authorization");
});

it("a preflight response lists the API's own required headers instead of the port's headers", async (t) => {
  for (const [apiOptions, allowedHeaders] of [
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
    assert.deepEqual([status, headers.get("access-control-allow-headers")], [204, allowedHeaders]);
  }
});

it("every response has the server.headers", async (t) => {
  const { send, postRun } = await startApi(t, { http: { headers: { "X-Served-By": "gantry", "X-Other": "" } } });
  for (const response of [
    await send("/api/health"),
    await send("/nope"),
    await postRun("{"),
    await postRun({ message: "hi", stream: true }),
    await send("/", { method: "OPTIONS" }),
  ])
    assert.equal(response.headers["x-served-by"], "gantry");
});

type AuthCase = [name: string, headers: Record<string, string | string[]>, error: string | undefined];
const AUTH_VALUE = "Bearer Sécret-1";
const missingHeaderError = (name: string) => `missing required header: ${name}`;
const invalidHeaderError = (name: string) => `invalid header: ${name}`;
const VALID_HEADERS = { authorization: "Bearer S\u00e9cret-1", "x-tenant": "Blue", "x-trace": "any" };

/** The first, second and third header are Authorization, X-Tenant and X-Trace. Status 200 if the error is undefined. */
const AUTH_CASES: AuthCase[] = [
  ["all headers valid", VALID_HEADERS, undefined],
  [
    "names in another case",
    { AUTHORIZATION: VALID_HEADERS.authorization, "X-TENANT": "Blue", "X-Trace": "1" },
    undefined,
  ],
  ["a value in upper case", { ...VALID_HEADERS, "x-tenant": "BLUE" }, undefined],
  ["a value in lower case", { ...VALID_HEADERS, "x-tenant": "blue" }, undefined],
  ["the key in another ASCII case", { ...VALID_HEADERS, authorization: "bEARER S\u00e9CRET-1" }, undefined],
  [
    "the key in UTF-8 bytes",
    { ...VALID_HEADERS, authorization: Buffer.from(AUTH_VALUE, "utf8").toString("latin1") },
    undefined,
  ],
  ["white space around a value", { ...VALID_HEADERS, "x-tenant": "  Blue\t" }, undefined],
  ["an empty value for a header with any value", { ...VALID_HEADERS, "x-trace": "" }, undefined],
  ["the same header twice, the same value", { ...VALID_HEADERS, "x-tenant": ["Blue", "Blue"] }, undefined],
  ["the same header twice, in another case", { ...VALID_HEADERS, "x-tenant": ["Blue", "bLUE"] }, undefined],
  ["further headers", { ...VALID_HEADERS, "x-more": "1" }, undefined],
  ["no headers", {}, missingHeaderError("Authorization")],
  ["all but the first", { "x-tenant": "Blue", "x-trace": "1" }, missingHeaderError("Authorization")],
  [
    "all but the second",
    { authorization: VALID_HEADERS.authorization, "x-trace": "1" },
    missingHeaderError("X-Tenant"),
  ],
  [
    "all but the third",
    { authorization: VALID_HEADERS.authorization, "x-tenant": "Blue" },
    missingHeaderError("X-Trace"),
  ],
  ["an empty key", { ...VALID_HEADERS, authorization: "" }, invalidHeaderError("Authorization")],
  ["another key", { ...VALID_HEADERS, authorization: "Bearer other" }, invalidHeaderError("Authorization")],
  [
    "a prefix of the key",
    { ...VALID_HEADERS, authorization: "Bearer S\u00e9cret-" },
    invalidHeaderError("Authorization"),
  ],
  [
    "the key and more",
    { ...VALID_HEADERS, authorization: "Bearer S\u00e9cret-11" },
    invalidHeaderError("Authorization"),
  ],
  [
    "the key without its scheme",
    { ...VALID_HEADERS, authorization: "S\u00e9cret-1" },
    invalidHeaderError("Authorization"),
  ],
  [
    "the key with two spaces",
    { ...VALID_HEADERS, authorization: "Bearer  S\u00e9cret-1" },
    invalidHeaderError("Authorization"),
  ],
  [
    "the key in another non-ASCII case",
    { ...VALID_HEADERS, authorization: "Bearer S\u00c9cret-1" },
    invalidHeaderError("Authorization"),
  ],
  [
    "the key without its accent",
    { ...VALID_HEADERS, authorization: "Bearer Secret-1" },
    invalidHeaderError("Authorization"),
  ],
  [
    "the key in quotes",
    { ...VALID_HEADERS, authorization: `"${VALID_HEADERS.authorization}"` },
    invalidHeaderError("Authorization"),
  ],
  [
    "two keys, the first valid",
    { ...VALID_HEADERS, authorization: [VALID_HEADERS.authorization, "x"] },
    invalidHeaderError("Authorization"),
  ],
  [
    "two keys, the second valid",
    { ...VALID_HEADERS, authorization: ["x", VALID_HEADERS.authorization] },
    invalidHeaderError("Authorization"),
  ],
  ["two tenants, one valid", { ...VALID_HEADERS, "x-tenant": ["Blue", "Red"] }, invalidHeaderError("X-Tenant")],
  ["two tenants in one line", { ...VALID_HEADERS, "x-tenant": "Blue, Blue" }, invalidHeaderError("X-Tenant")],
  [
    "two different values for a header with any value",
    { ...VALID_HEADERS, "x-trace": ["1", "2"] },
    invalidHeaderError("X-Trace"),
  ],
  ["a very long key", { ...VALID_HEADERS, authorization: "x".repeat(8000) }, invalidHeaderError("Authorization")],
  ["first wrong, second missing", { authorization: "x", "x-trace": "1" }, invalidHeaderError("Authorization")],
  ["first missing, second wrong", { "x-tenant": "Red", "x-trace": "1" }, missingHeaderError("Authorization")],
  [
    "second wrong, third missing",
    { authorization: VALID_HEADERS.authorization, "x-tenant": "Red" },
    invalidHeaderError("X-Tenant"),
  ],
  ["a key in the query", {}, missingHeaderError("Authorization")],
  [
    "a name with a dash in place of an underscore",
    { ...VALID_HEADERS, "x-tenant": [], x_tenant: "Blue" },
    missingHeaderError("X-Tenant"),
  ],
];

it("header authentication returns 200, or 401 with the name of the first invalid header", async (t) => {
  const api = await startApi(t, {
    http: { requiredHeaders: { Authorization: AUTH_VALUE, "X-Tenant": "Blue", "X-Trace": "" } },
  });
  assert.ok(AUTH_CASES.length >= 30);
  for (const [name, headers, error] of AUTH_CASES) {
    const response = await api.send("/api/health?authorization=Bearer+x", { headers });
    assert.equal(response.status, error === undefined ? 200 : 401, name);
    if (error !== undefined) assert.deepEqual(response.json(), { error, code: "unauthorized" }, name);
  }
});

it("authentication applies to every route before any other check", async (t) => {
  const { send, provider } = await startApi(t, { http: { requiredHeaders: { "X-Key": "k" }, maxBodyBytes: 50 } });
  for (const [method, path, status, body] of ROUTES) {
    const options: RawRequest = { method, ...(body ? { body } : {}) };
    const rejection = await send(path, options);
    assert.deepEqual(
      [rejection.status, method === "HEAD" || rejection.json()],
      [401, { error: "missing required header: X-Key", code: "unauthorized" }],
    );
    assert.equal((await send(path, { ...options, headers: { "x-key": "K" } })).status, status, `${method} ${path}`);
  }
  assert.equal((await send("/api/run", { body: "x".repeat(100) })).status, 401);
  assert.equal((await send("/api/health", { method: "HEAD" })).status, 401);
  assert.equal(provider.requests.length, 1);
});

const FOREIGN_PAGE_HEADERS: Record<string, string>[] = [
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

it("every route except /api/health rejects pages of other sites with 403 cross_site", async (t) => {
  const { send, provider } = await startApi(t);
  for (const pageHeaders of FOREIGN_PAGE_HEADERS) {
    for (const [method, path, , body] of ROUTES) {
      if (path === "/api/health") continue;
      const { status, json } = await send(path, {
        method,
        headers: { ...pageHeaders, ...JSON_HEADERS },
        ...(body ? { body } : {}),
      });
      assert.deepEqual(
        [status, json()],
        [403, { error: "cross-site request refused", code: "cross_site" }],
        `${method} ${path} ${JSON.stringify(pageHeaders)}`,
      );
    }
  }
  assert.equal(provider.requests.length, 0);
});

it("GET /api/health accepts any page but checks Host, and POST is rejected", async (t) => {
  const { send } = await startApi(t);
  for (const pageHeaders of FOREIGN_PAGE_HEADERS)
    assert.equal((await send("/api/health", { headers: pageHeaders })).status, 200);
  assert.equal(
    (await send("/api/health", { method: "POST", headers: { ...FOREIGN_PAGE_HEADERS[0], ...JSON_HEADERS } })).status,
    403,
  );
  assert.equal((await send("/api/health", { headers: { host: "evil.example" } })).status, 403);
});

it("allowLoopbackPages: false rejects pages of other ports of this machine", async (t) => {
  const { send, url } = await startApi(t, { host: { allowLoopbackPages: false } });
  const ownHeaders = { origin: new URL(url).origin, host: new URL(url).host };
  const getStatus = async (headers: Record<string, string>) => (await send("/api/sessions", { headers })).status;
  assert.equal(await getStatus({}), 200);
  assert.equal(await getStatus(ownHeaders), 200);
  assert.equal(await getStatus({ "sec-fetch-site": "none" }), 200);
  assert.equal(await getStatus({ ...ownHeaders, "sec-fetch-site": "same-origin" }), 200);
  for (const pageHeaders of [
    { origin: "http://localhost:3000" },
    { origin: "http://127.0.0.1:3000", "sec-fetch-site": "same-site" },
    { "sec-fetch-site": "same-site" },
    { "sec-fetch-site": "cross-site" },
  ] as Record<string, string>[])
    assert.equal(await getStatus(pageHeaders), 403, JSON.stringify(pageHeaders));
});

it("a required header without a value does not replace the Host and Origin checks or allow a public address", async (t) => {
  for (const value of ["", "  "]) {
    const { send } = await startApi(t, { http: { requiredHeaders: { Authorization: value } } });
    const getStatus = async (headers: Record<string, string>) => (await send("/api/sessions", { headers })).status;
    assert.equal(await getStatus({ authorization: "x" }), 200);
    assert.equal(await getStatus({}), 401);
    assert.equal(await getStatus({ authorization: "x", host: "evil.example" }), 403);
    assert.equal(await getStatus({ authorization: "x", origin: "https://evil.example" }), 403);
    await assert.rejects(
      startApi(t, { http: { requiredHeaders: { Authorization: value } }, host: { host: "0.0.0.0" } }),
      /without authentication/,
    );
  }
});

it("a malformed request receives a JSON error with CORS headers and server.headers", async (t) => {
  const { url } = await startApi(t, { host: { headerTimeout: 0.2 }, http: { headers: { "X-Served-By": "gantry" } } });
  for (const [status, text] of [
    [400, "no http\r\n\r\n"],
    [400, "GET api HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"],
    [408, "GET / HTTP/1.1\r\nHost: local"],
    [431, `GET / HTTP/1.1\r\nX: ${"x".repeat(20_000)}\r\n\r\n`],
  ] as const) {
    const responseText = await exchangeText(url, text);
    assert.match(responseText, new RegExp(`^HTTP/1\\.1 ${status} `));
    assert.match(responseText, /\r\nAccess-Control-Allow-Origin: \*\r\n/);
    assert.match(responseText, /\r\nX-Served-By: gantry\r\n/);
    assert.match(responseText, /\{"error":"[^"]+","code":"[a-z_]+"\}$/);
  }
});

it("a cross-site request is rejected before its body is read", async (t) => {
  const { url } = await startApi(t);
  const pendingResponse = exchangeText(
    url,
    "POST /api/run HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nSec-Fetch-Site: cross-site\r\nContent-Length: 1000000\r\n\r\n{",
  );
  assert.match(await pendingResponse, /^HTTP\/1\.1 403 /);
});

it("POST /api/run accepts native programs, pages of this machine, and authenticated or allowed pages", async (t) => {
  const requestBody = { body: '{"message":"hi"}' };
  const acceptedHeaders: Record<string, string>[] = [
    {},
    { "sec-fetch-mode": "cors" },
    { ...JSON_HEADERS, "sec-fetch-site": "cross-site", origin: "http://localhost:3000" },
    { ...JSON_HEADERS, "sec-fetch-site": "cross-site", origin: "http://127.0.0.1:3000" },
    { ...JSON_HEADERS, "sec-fetch-site": "cross-site", origin: "http://[::1]:3000" },
    { ...JSON_HEADERS, "sec-fetch-site": "same-origin", origin: "http://localhost" },
    { ...JSON_HEADERS, "sec-fetch-site": "same-site" },
    { ...JSON_HEADERS, "sec-fetch-site": "none" },
    { ...JSON_HEADERS, origin: "http://localhost:3000" },
  ];
  const unprotectedApi = await startApi(t);
  for (const headers of acceptedHeaders)
    assert.equal(
      (await unprotectedApi.send("/api/run", { ...requestBody, headers })).status,
      200,
      JSON.stringify(headers),
    );
  const pageHeaders = { ...JSON_HEADERS, "sec-fetch-site": "cross-site", origin: "https://app.example" };
  const crossSiteApi = await startApi(t, { host: { allowCrossSite: true } });
  assert.equal((await crossSiteApi.send("/api/run", { ...requestBody, headers: pageHeaders })).status, 200);
  const protectedApi = await startApi(t, { http: { requiredHeaders: { "X-Key": "k" } } });
  assert.equal(
    (await protectedApi.send("/api/run", { ...requestBody, headers: { ...pageHeaders, "x-key": "k" } })).status,
    200,
  );
  assert.equal((await protectedApi.send("/api/run", { ...requestBody, headers: pageHeaders })).status, 401);
});

it("a browser's POST needs a JSON content type, even with authentication", async (t) => {
  const { send, provider } = await startApi(t, { http: { requiredHeaders: { "X-Key": "k" } } });
  const sendRun = (headers: Record<string, string>) =>
    send("/api/run", { body: '{"message":"hi"}', headers: { "x-key": "k", ...headers } });
  const browserHeaders: Record<string, string>[] = [
    { origin: "http://localhost:3000" },
    { "sec-fetch-site": "same-origin" },
    { origin: "null" },
  ];
  for (const pageHeaders of browserHeaders) {
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "multipart/form-data",
      "text/plain; application/json",
      "application/jsonp",
    ]) {
      const { status, json } = await sendRun({ ...pageHeaders, "content-type": type });
      assert.deepEqual(
        [status, json()],
        [415, { error: "content type must be application/json", code: "unsupported_media_type" }],
        type,
      );
    }
    assert.equal((await sendRun(pageHeaders)).status, 415, "no content type");
  }
  assert.equal(provider.requests.length, 0);
  for (const type of ["application/json", "Application/JSON; charset=utf-8", "application/vnd.x+json"])
    assert.equal((await sendRun({ origin: "http://localhost", "content-type": type })).status, 200, type);
});
