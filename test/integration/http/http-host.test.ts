import assert from "node:assert/strict";
import { once } from "node:events";
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer } from "node:net";
import { networkInterfaces } from "node:os";
import { it, type TestContext } from "node:test";
import type { Logger } from "gantry";
import { ListenError } from "gantry/plugin";
import { openHttpHost, type HttpHost, type HttpHostOptions, type HttpMount } from "gantry/http";
import { NO_OTHER_USER, requestAsUser } from "../../helpers/other-user.js";
import { exchangeText, sendRawRequest, openConnection } from "../../helpers/raw-http.js";

const ABORTED_SIGNAL = AbortSignal.abort();

function createMount(prefix: string, fields: Partial<HttpMount> = {}): HttpMount {
  return {
    prefix,
    fallback: false,
    authenticated: false,
    handler: (request, response) => void response.end(`${prefix} ${request.url}`),
    refuse: (_request, response, { status, message, headers }) =>
      void response
        .writeHead(status, { ...headers, "content-type": "application/json" })
        .end(JSON.stringify({ error: message })),
    ...fields,
  };
}

function openHost(t: TestContext, options: HttpHostOptions = {}): HttpHost {
  const host = openHttpHost({ port: 0, ...options });
  t.after(() => host.close(ABORTED_SIGNAL));
  return host;
}

it("the HTTP host serves the mount with the longest matching path prefix, or a JSON 404", async (t) => {
  const host = openHost(t);
  const url = await host.mount(createMount("/api"));
  assert.equal((await sendRawRequest(url, "/api")).text, "/api /api");
  const missingResponse = await sendRawRequest(url, "/other");
  assert.equal(missingResponse.status, 404);
  assert.deepEqual(missingResponse.json(), { error: "not found", code: "not_found" });
  await host.mount(createMount("/api/deep"));
  assert.equal((await sendRawRequest(url, "/api/deep/x?y=/")).text, "/api/deep /api/deep/x?y=/");
  assert.equal((await sendRawRequest(url, "/api/deeper")).text, "/api /api/deeper");
  assert.equal((await sendRawRequest(url, "/apix")).status, 404, "a prefix matches only complete path components");
  await host.mount(createMount("/"));
  assert.equal((await sendRawRequest(url, "/apix")).text, "/ /apix");
});

it("the HTTP host uses the default for a timeout that is explicitly undefined", async (t) => {
  const host = openHost(t, { headerTimeout: undefined, requestTimeout: undefined, keepAliveTimeout: undefined });
  const { status, headers } = await sendRawRequest(await host.mount(createMount("/a")), "/a", {
    headers: { Connection: "keep-alive" },
  });
  assert.equal(status, 200);
  assert.equal(headers["keep-alive"], "timeout=120");
});

it("the HTTP host opens one port for concurrent mounts and rejects a second mount at the same prefix", async (t) => {
  const host = openHost(t);
  const [urlA, urlB] = await Promise.all([host.mount(createMount("/a")), host.mount(createMount("/b"))]);
  assert.equal(urlA, urlB);
  await assert.rejects(host.mount(createMount("/a")), ListenError);
});

it("the HTTP host rejects a public address without authentication", async (t) => {
  for (const address of ["0.0.0.0", "::", ""]) {
    const host = openHost(t, { host: address });
    assert.equal(host.isLoopback, false);
    await assert.rejects(host.mount(createMount("/api")), (error: Error) => {
      assert.ok(error instanceof ListenError);
      assert.match(error.message, /: set requiredHeaders, or insecure: true, or bind to 127\.0\.0\.1$/);
      assert.doesNotMatch(error.message, /\n/);
      return true;
    });
  }
});

it("the HTTP host uses the remedy option in the error and the warning about missing authentication", async (t) => {
  const warnings: string[] = [];
  const ignoreEntry = () => undefined;
  const logger: Logger = {
    debug: ignoreEntry,
    info: ignoreEntry,
    error: ignoreEntry,
    warn: (text) => void warnings.push(text),
  };
  const remedy = ({ prefix }: HttpMount) => ({
    authenticate: `a key for ${prefix}`,
    listen: `give a key for ${prefix}`,
  });
  await assert.rejects(
    openHost(t, { host: "0.0.0.0", remedy }).mount(createMount("/api")),
    /without authentication: give a key for \/api, or bind to 127\.0\.0\.1$/,
  );
  await openHost(t, { logger, remedy }).mount(createMount("/api"));
  assert.match(warnings[0] ?? "", /; a key for \/api requires it$/);
});

it("the HTTP host binds to a public address with authentication or with insecure: true", async (t) => {
  for (const [options, fields] of [
    [{ host: "0.0.0.0" }, { authenticated: true }],
    [{ host: "0.0.0.0", insecure: true }, {}],
  ] as const) {
    const host = openHost(t, options);
    const url = await host.mount(createMount("/api", fields));
    assert.match(url, /^http:\/\/0\.0\.0\.0:\d+$/);
    assert.equal(host.isLoopback, false);
    const port = new URL(url).port;
    assert.equal((await sendRawRequest(`http://127.0.0.1:${port}`, "/api")).status, 200);
    if (fields && "authenticated" in fields)
      await assert.rejects(host.mount(createMount("/", { authenticated: false })), /without authentication/);
  }
});

it("the HTTP host warns once about mounts without authentication", async (t) => {
  const warnings: string[] = [];
  const ignoreEntry = () => undefined;
  const logger: Logger = {
    debug: ignoreEntry,
    info: ignoreEntry,
    error: ignoreEntry,
    warn: (text) => void warnings.push(text),
  };
  const host = openHost(t, { logger });
  await host.mount(createMount("/a"));
  await host.mount(createMount("/b"));
  assert.equal(warnings.length, 1);
  const authenticatedHost = openHost(t, { logger });
  await authenticatedHost.mount(createMount("/a", { authenticated: true }));
  assert.equal(warnings.length, 1);
});

it("the HTTP host reports the cause if it cannot listen, and can retry when the port is free", async (t) => {
  const blockingServer = createServer().listen(0, "127.0.0.1");
  await once(blockingServer, "listening");
  t.after(() => void blockingServer.close());
  const { port } = blockingServer.address() as { port: number };
  const blockedHost = openHost(t, { port });
  await assert.rejects(blockedHost.mount(createMount("/api")), (error: Error) => {
    assert.ok(error instanceof ListenError);
    assert.match(error.message, new RegExp(`^cannot listen on http://127\\.0\\.0\\.1:${port}: the port is in use`));
    return true;
  });
  await assert.rejects(
    openHost(t, { host: "192.0.2.1", insecure: true }).mount(createMount("/api")),
    /no such address/,
  );
  await assert.rejects(
    openHost(t, { host: "no-such-host.invalid", insecure: true }).mount(createMount("/api")),
    ListenError,
  );
  // The same host can retry after the port is free.
  blockingServer.close();
  await once(blockingServer, "close");
  assert.match(await blockedHost.mount(createMount("/api")), new RegExp(`:${port}$`));
});

it(
  "the HTTP host treats ::1 as loopback and prints it in brackets",
  { skip: !hasIpv6() && "no IPv6 here" },
  async (t) => {
    const host = openHost(t, { host: "::1" });
    const url = await host.mount(createMount("/api"));
    assert.match(url, /^http:\/\/\[::1\]:\d+$/);
    assert.equal(host.isLoopback, true);
    assert.equal((await sendRawRequest(url, "/api")).status, 200);
  },
);

it("the HTTP host prints localhost as configured and treats it as loopback", async (t) => {
  const host = openHost(t, { host: "localhost" });
  assert.match(await host.mount(createMount("/api")), /^http:\/\/localhost:\d+$/);
  assert.equal(host.isLoopback, true);
});

const REJECTED_HOSTS = [
  "evil.example",
  "127.evil.com",
  "127.0.0.1.evil.com",
  "localhost.evil.com",
  "evil.com#localhost",
  "evil.com:80@127.0.0.1",
  "localhost@evil.com",
  "notlocalhost",
  "xlocalhost:80",
  "[::1].evil.com",
  "[::1",
  "[evil.com]",
  "127.1",
  "0x7f000001",
  "2130706433",
  "localhost:80:80",
  "localhost:abc",
  "localhost,evil.com",
  "",
  ".",
  "..localhost",
  "lo\u0000calhost",
  // These addresses reach this machine or can be the target of a DNS name. Browsers treat requests from a page at such
  // an address as same-origin and send no Origin header with GET, so only the Host check can reject the requests.
  "0.0.0.0",
  "[::]:80",
  "[::FFFF:127.0.0.1]",
  "[::ffff:7f00:1]",
  "192.168.1.7",
  "[2001:db8::1]:443",
];
const ACCEPTED_HOSTS = [
  "localhost",
  "LOCALHOST:1",
  "localhost.:80",
  "app.localhost",
  "127.0.0.1",
  "127.8.9.10:99",
  "[::1]:80",
  "[0:0:0:0:0:0:0:1]:80",
  "box.lan",
  "BOX.LAN:8080",
];

it("the HTTP host accepts only loopback names, loopback addresses and allowedHosts as Host", async (t) => {
  const host = openHost(t, { allowedHosts: ["box.lan"] });
  const url = await host.mount(createMount("/"));
  for (const name of ACCEPTED_HOSTS) assert.equal(await getStatusForHost(url, name), 200, name);
  for (const name of REJECTED_HOSTS) {
    const status = await getStatusForHost(url, name);
    assert.ok(status === 403 || status === 400, `${JSON.stringify(name)} got ${status}`);
  }
  const rejection = await sendRawRequest(url, "/", { headers: { host: "evil.example" } });
  assert.deepEqual([rejection.status, rejection.json()], [403, { error: "host not allowed" }]);
  const preflight = await sendRawRequest(url, "/", { method: "OPTIONS", headers: { host: "evil.example" } });
  assert.equal(preflight.status, 403);
});

it("the HTTP host on 0.0.0.0 accepts the machine's IPv4 addresses as Host, but no wildcard or foreign address", async (t) => {
  const host = openHost(t, { host: "0.0.0.0", insecure: true });
  const url = (await host.mount(createMount("/"))).replace("0.0.0.0", "127.0.0.1");
  const ownAddresses = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  for (const { address, family } of ownAddresses)
    assert.equal(
      await getStatusForHost(url, family === "IPv4" ? `${address}:80` : `[${address}]`),
      family === "IPv4" || address === "::1" ? 200 : 403,
    );
  for (const name of ["0.0.0.0", "[::]", "[::ffff:127.0.0.1]", "192.0.2.77", "evil.example"])
    assert.equal(await getStatusForHost(url, name), 403, name);
});

it("a mount requires the host's requiredHeaders, unless it has its own headers or checks", async (t) => {
  const host = openHost(t, { requiredHeaders: { "X-Key": "k" } });
  const url = await host.mount(createMount("/default", { upgrade: (_request, socket) => void socket.end("open") }));
  await host.mount(createMount("/own", { requiredHeaders: { "X-Own": "o" } }));
  await host.mount(createMount("/signed", { authenticated: true }));
  await host.mount(createMount("/free", { hasOwnChecks: true }));
  const getStatus = async (path: string, headers: Record<string, string> = {}) =>
    (await sendRawRequest(url, path, { headers })).status;
  const rejection = await sendRawRequest(url, "/default/x");
  assert.deepEqual([rejection.status, rejection.json()], [401, { error: "missing required header: X-Key" }]);
  assert.equal(await getStatus("/default", { "x-key": "no" }), 401);
  assert.equal(
    await getStatus("/default", { "x-key": "K" }),
    200,
    "the value of a required header is compared without case",
  );
  assert.equal(
    await getStatus("/default", { "x-key": "k", host: "evil.example" }),
    200,
    "an authenticated request can have any Host",
  );
  assert.equal(
    (await sendRawRequest(url, "/default", { method: "OPTIONS" })).status,
    200,
    "a preflight needs no authentication",
  );
  assert.equal(await getStatus("/own"), 401);
  assert.equal(await getStatus("/own", { "x-own": "o" }), 200);
  assert.equal(await getStatus("/signed"), 401);
  assert.equal(await getStatus("/signed", { "x-key": "k" }), 200);
  assert.equal(await getStatus("/free", { host: "evil.example", origin: "http://evil.example" }), 200);
  const openSocket = (key: string) =>
    exchangeText(
      url,
      `GET /default HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Key: ${key}\r\n\r\n`,
    );
  assert.match(await openSocket("no"), /^HTTP\/1\.1 401 /);
  assert.equal(await openSocket("k"), "open");
});

it("a mount rejects origins that are not loopback, except for GET of public paths and sockets from allowedOrigins", async (t) => {
  const host = openHost(t);
  const url = await host.mount(
    createMount("/default", {
      upgrade: (_request, socket) => void socket.end("open"),
      allowedOrigins: ["https://app.example"],
      publicPaths: ["/default/alive"],
    }),
  );
  const getStatus = async (path: string, method: string, origin: string) =>
    (await sendRawRequest(url, path, { method, headers: { origin, "content-type": "application/json" } })).status;
  for (const origin of ["http://evil.example", "null", "https://app.example"]) {
    assert.equal(await getStatus("/default", "GET", origin), 403);
    assert.equal(await getStatus("/default", "POST", origin), 403);
    assert.equal(await getStatus("/default/alive", "GET", origin), 200);
    assert.equal(await getStatus("/default/alive", "POST", origin), 403);
  }
  assert.equal(await getStatus("/default", "POST", "http://localhost:3000"), 200);
  const openSocket = async (origin: string) =>
    exchangeText(
      url,
      `GET /default HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nOrigin: ${origin}\r\nSec-Fetch-Site: cross-site\r\n\r\n`,
    );
  assert.match(await openSocket("http://evil.example"), /^HTTP\/1\.1 403 /);
  assert.equal(await openSocket("https://app.example"), "open");
  assert.equal(await openSocket("http://localhost:3000"), "open");
});

it("the HTTP host limits streams and counts a double release once", (t) => {
  const host = openHost(t, { streams: 2 });
  const [releaseFirst, releaseSecond] = [host.reserveStreamSlot(), host.reserveStreamSlot()];
  assert.ok(releaseFirst && releaseSecond);
  assert.equal(host.reserveStreamSlot(), undefined);
  releaseFirst();
  releaseFirst();
  assert.ok(host.reserveStreamSlot());
  assert.equal(host.reserveStreamSlot(), undefined);
});

it(
  "the HTTP host rejects other users' processes, except on public paths, with allowOtherUsers or authentication",
  { skip: NO_OTHER_USER },
  async (t) => {
    const warnings: string[] = [];
    const ignoreEntry = () => undefined;
    const logger: Logger = {
      debug: ignoreEntry,
      info: ignoreEntry,
      error: ignoreEntry,
      warn: (text) => void warnings.push(text),
    };
    const upgrade: HttpMount["upgrade"] = (_request, socket) => void socket.end("open");
    const mount = createMount("/", { publicPaths: ["/alive"], upgrade });
    const startHost = async (options: HttpHostOptions, fields: Partial<HttpMount> = {}) =>
      new URL(await openHost(t, { ...options, logger }).mount({ ...mount, ...fields })).port;
    const [rootUid, otherUid] = [0, 65_534];
    const defaultPort = await startHost({});
    assert.equal(await requestAsUser(rootUid, "127.0.0.1", defaultPort), 200);
    assert.equal(await requestAsUser(otherUid, "127.0.0.1", defaultPort), 403);
    assert.equal(await requestAsUser(otherUid, "::ffff:127.0.0.1", defaultPort), 403);
    assert.equal(await requestAsUser(otherUid, "127.0.0.1", defaultPort, "/alive"), 200);
    assert.deepEqual(
      warnings.filter((text) => text.includes("another user")).map((text) => /uid (\d+)/.exec(text)?.[1]),
      ["65534"],
      "the rejection is logged once",
    );
    if (hasIpv6()) {
      const ipv6Port = await startHost({ host: "::1" });
      assert.equal(await requestAsUser(rootUid, "::1", ipv6Port), 200);
      assert.equal(await requestAsUser(otherUid, "::1", ipv6Port), 403);
    }
    // On browser paths a client without the headers is checked as if no headers were required.
    const protectedPort = await startHost(
      { requiredHeaders: { "X-Key": "secret" } },
      { browserPaths: ["/page", "/files/*"] },
    );
    for (const path of ["/page", "/files/x"]) {
      assert.equal(await requestAsUser(rootUid, "127.0.0.1", protectedPort, path), 200);
      assert.equal(await requestAsUser(otherUid, "127.0.0.1", protectedPort, path), 403);
    }
    for (const path of ["/page/", "/files", "/x"])
      assert.equal(await requestAsUser(rootUid, "127.0.0.1", protectedPort, path), 401);
    assert.equal(await requestAsUser(otherUid, "127.0.0.1", await startHost({ allowOtherUsers: true })), 200);
    assert.equal(await requestAsUser(otherUid, "127.0.0.1", await startHost({}, { authenticated: true })), 200);
  },
);

it("an authenticated mount accepts any Host", async (t) => {
  const url = await openHost(t).mount(createMount("/", { authenticated: true }));
  assert.equal(await getStatusForHost(url, "evil.example"), 200);
});

it("the HTTP host rejects requests without a Host header or with two Host headers", async (t) => {
  const url = await openHost(t).mount(createMount("/"));
  assert.match(
    await exchangeText(url, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n"),
    /^HTTP\/1\.1 400 [\s\S]*missing host header/,
  );
  assert.match(
    await exchangeText(url, "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.com\r\nConnection: close\r\n\r\n"),
    /^HTTP\/1\.1 400 [\s\S]*more than one host header/,
  );
  assert.match(await exchangeText(url, "GET / HTTP/1.0\r\n\r\n"), /^HTTP\/1\.1 403 [\s\S]*host not allowed/);
});

it("the HTTP host checks the host of an absolute request target and serves its path", async (t) => {
  const url = await openHost(t).mount(createMount("/api"));
  const requestTarget = (target: string) =>
    exchangeText(url, `GET ${target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
  assert.match(await requestTarget("http://localhost:1/api/x?y"), /^HTTP\/1\.1 200 [\s\S]*\/api \/api\/x\?y/);
  assert.match(await requestTarget("http://evil.example/api"), /^HTTP\/1\.1 403 /);
  assert.match(await requestTarget("api"), /^HTTP\/1\.1 400 /);
});

it("the HTTP host returns 400 for invalid HTTP and 431 for oversized headers, in JSON", async (t) => {
  const url = await openHost(t).mount(createMount("/"));
  const badRequestResponse = await exchangeText(url, "this is no http\r\n\r\n");
  assert.match(
    badRequestResponse,
    /^HTTP\/1\.1 400 Bad Request\r\nContent-Type: application\/json\r\n[\s\S]*\{"error":"bad request","code":"bad_request"\}$/,
  );
  const longHeaderResponse = await exchangeText(
    url,
    `GET / HTTP/1.1\r\nHost: localhost\r\nX: ${"x".repeat(20_000)}\r\n\r\n`,
  );
  assert.match(
    longHeaderResponse,
    /^HTTP\/1\.1 431 [\s\S]*\{"error":"request headers too large","code":"headers_too_large"\}$/,
  );
});

it("the HTTP host ends slow headers and slow bodies with 408", async (t) => {
  const host = openHost(t, { headerTimeout: 0.2, requestTimeout: 0.4 });
  const url = await host.mount(
    createMount("/", { handler: (request, response) => void request.resume().on("end", () => response.end("whole")) }),
  );
  assert.match(await exchangeText(url, "GET / HTTP/1.1\r\nHost: local"), /^HTTP\/1\.1 408 [\s\S]*request timed out/);
  assert.match(
    await exchangeText(url, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc"),
    /^HTTP\/1\.1 408 [\s\S]*request timed out/,
  );
  assert.equal((await sendRawRequest(url, "/", { body: "abc" })).text, "whole", "a fast body is accepted");
});

it("the HTTP host closes an idle keep-alive connection", async (t) => {
  const url = await openHost(t, { keepAliveTimeout: 0.1 }).mount(createMount("/"));
  const text = await exchangeText(url, "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n");
  assert.match(text, /^HTTP\/1\.1 200 /);
});

it("the HTTP host returns 503 above the connection limit, and 200 after a client disconnects", async (t) => {
  const url = await openHost(t, { connections: 2 }).mount(createMount("/"));
  const firstConnection = await openConnection(url);
  const secondConnection = await openConnection(url);
  firstConnection.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await firstConnection.waitForText(/200 OK/);
  const rejectionText = await exchangeText(url, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  assert.match(rejectionText, /^HTTP\/1\.1 503 [\s\S]*retry-after: 1[\s\S]*too many connections/i);
  secondConnection.destroy();
  // The server detects the disconnect with a delay.
  for (;;) if ((await sendRawRequest(url, "/")).status === 200) break;
  firstConnection.destroy();
});

it("an upgrade without a handler receives 404 for websocket and a plain HTTP response for h2c", async (t) => {
  const host = openHost(t);
  const url = await host.mount(createMount("/"));
  const requestUpgrade = (protocol: string, headers = "") =>
    exchangeText(
      url,
      `GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n${headers}\r\n`,
    );
  assert.match(await requestUpgrade("websocket"), /^HTTP\/1\.1 404 [\s\S]*not found/);
  assert.match(await requestUpgrade("h2c"), /^HTTP\/1\.1 200 [\s\S]*\/ \/x/);
});

it("a mount receives WebSockets after the Host check, and an aborted close() destroys them", async (t) => {
  const host = openHost(t);
  const url = await host.mount(
    createMount("/", {
      upgrade: (_request, socket) => void socket.write("HTTP/1.1 101 Switching Protocols\r\n\r\nhello"),
    }),
  );
  const createUpgradeRequest = (name: string) =>
    `GET / HTTP/1.1\r\nHost: ${name}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`;
  assert.match(
    await exchangeText(url, createUpgradeRequest("evil.example")),
    /^HTTP\/1\.1 403 [\s\S]*host not allowed/,
  );
  const upgradedConnection = (await openConnection(url)).write(createUpgradeRequest("localhost"));
  await upgradedConnection.waitForText(/hello/);
  const closeAbort = new AbortController();
  const closePromise = host.close(closeAbort.signal);
  assert.equal(upgradedConnection.socket.closed, false, "the mount can still send a close frame");
  closeAbort.abort();
  await closePromise;
  await upgradedConnection.closed;
});

it("the HTTP host sends 100 Continue only for an accepted request", async (t) => {
  const url = await openHost(t).mount(
    createMount("/", { handler: (request, response) => void request.resume().on("end", () => response.end("whole")) }),
  );
  const createPostRequest = (name: string) =>
    `POST / HTTP/1.1\r\nHost: ${name}\r\nExpect: 100-continue\r\nContent-Length: 3\r\nConnection: close\r\n\r\n`;
  const acceptedConnection = (await openConnection(url)).write(createPostRequest("localhost"));
  await acceptedConnection.waitForText(/100 Continue/);
  acceptedConnection.write("abc");
  await acceptedConnection.waitForText(/200 OK[\s\S]*whole/);
  const rejectedConnection = (await openConnection(url)).write(createPostRequest("evil.example"));
  assert.match((await rejectedConnection.waitForText(/^HTTP\/1\.1 (\d+)/))[0], /403/);
  rejectedConnection.destroy();
});

it("the HTTP host returns 500 without details when a handler throws, and keeps serving", async (t) => {
  const url = await openHost(t).mount(
    createMount("/", {
      handler: () => {
        throw new Error("secret detail");
      },
    }),
  );
  for (let i = 0; i < 2; i++) {
    const { status, text } = await sendRawRequest(url, "/");
    assert.deepEqual([status, text], [500, '{"error":"internal error","code":"internal"}']);
  }
});

it("stopAccepting() and close() reject new requests, close idle connections and finish responses", async (t) => {
  const slowResponses: ServerResponse[] = [];
  const arrivalCallbacks: (() => void)[] = [];
  const handler = (request: IncomingMessage, response: ServerResponse) => {
    if (request.url !== "/slow") response.end("quick");
    else {
      slowResponses.push(response);
      arrivalCallbacks.shift()?.();
    }
  };
  const host = openHost(t);
  const url = await host.mount(createMount("/", { handler }));
  const idleConnection = (await openConnection(url)).write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await idleConnection.waitForText(/quick/);
  const silentConnection = await openConnection(url);
  const slowRequestArrived = new Promise<void>((resolve) => arrivalCallbacks.push(resolve));
  const slowConnection = (await openConnection(url)).write("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await slowRequestArrived;

  host.stopAccepting();
  const rejection = await sendRawRequest(url, "/");
  assert.deepEqual([rejection.status, rejection.json()], [503, { error: "server shutting down" }]);
  assert.equal(rejection.headers["retry-after"], "1");
  idleConnection.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await idleConnection.waitForText(/503 [\s\S]*server shutting down/);

  const closePromise = host.close(new AbortController().signal);
  await Promise.all([idleConnection.closed, silentConnection.closed]);
  assert.equal(slowConnection.socket.closed, false);
  slowResponses[0]?.end("late but whole");
  await slowConnection.waitForText(/late but whole/);
  await Promise.all([closePromise, slowConnection.closed]);
  await assert.rejects(sendRawRequest(url, "/"), { code: "ECONNREFUSED" });
  await assert.rejects(host.mount(createMount("/x")), ListenError);
});

it("close() with an aborted signal destroys open connections, also if an earlier close() still waits", async (t) => {
  const host = openHost(t);
  const url = await host.mount(createMount("/", { handler: (_request, response) => void response.write("forever") }));
  const connection = (await openConnection(url)).write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await connection.waitForText(/forever/);
  const firstClose = host.close(new AbortController().signal);
  await Promise.all([host.close(ABORTED_SIGNAL), firstClose, connection.closed]);
});

it("close() resolves for a host that never opened its port", async () => {
  await openHttpHost({ port: 0 }).close(ABORTED_SIGNAL);
});

it("a keep-alive client can send a request after a rejected request with a body of 300,000 bytes", async (t) => {
  const url = await openHost(t).mount(createMount("/"));
  const agent = new HttpAgent({ keepAlive: true, maxSockets: 1 });
  t.after(() => agent.destroy());
  const { hostname, port } = new URL(url);
  const postBody = async (host: string) => {
    const request = httpRequest({ hostname, port, path: "/", method: "POST", headers: { host }, agent });
    request.end("x".repeat(300_000));
    const [response] = (await once(request, "response")) as [IncomingMessage];
    response.resume();
    await once(response, "end");
    return response.statusCode;
  };
  assert.equal(await postBody("evil.example"), 403);
  assert.equal(await postBody("localhost"), 200);
});

/** Returns the status of a raw request with this Host header, or 0 without a response. */
async function getStatusForHost(url: string, host: string): Promise<number> {
  const text = await exchangeText(url, `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
  return Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1] ?? 0);
}

function hasIpv6(): boolean {
  return Object.values(networkInterfaces()).some((list) => list?.some(({ address }) => address === "::1"));
}
