import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { Agent as KeepAlive, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer } from "node:net";
import { networkInterfaces } from "node:os";
import { it, type TestContext } from "node:test";
import type { Logger } from "gantry";
import { ListenError } from "gantry/plugin";
import { openHttpHost, type HttpHost, type HttpHostOptions, type HttpMount } from "gantry/http";
import { exchange, send, wire } from "../../helpers/http.js";

const ABORTED = AbortSignal.abort();

function mountAt(prefix: string, fields: Partial<HttpMount> = {}): HttpMount {
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

function open(t: TestContext, options: HttpHostOptions = {}): HttpHost {
  const host = openHttpHost({ port: 0, ...options });
  t.after(() => host.close(ABORTED));
  return host;
}

it("the HTTP host serves the mount with the longest matching path prefix, or a JSON 404", async (t) => {
  const host = open(t);
  const url = await host.mount(mountAt("/api"));
  assert.equal((await send(url, "/api")).text, "/api /api");
  const missing = await send(url, "/other");
  assert.equal(missing.status, 404);
  assert.deepEqual(missing.json(), { error: "not found", code: "not_found" });
  await host.mount(mountAt("/api/deep"));
  assert.equal((await send(url, "/api/deep/x?y=/")).text, "/api/deep /api/deep/x?y=/");
  assert.equal((await send(url, "/api/deeper")).text, "/api /api/deeper");
  assert.equal((await send(url, "/apix")).status, 404, "a prefix is whole path components");
  await host.mount(mountAt("/"));
  assert.equal((await send(url, "/apix")).text, "/ /apix");
});

it("the HTTP host opens one port for concurrent mounts and rejects a second mount at the same prefix", async (t) => {
  const host = open(t);
  const [a, b] = await Promise.all([host.mount(mountAt("/a")), host.mount(mountAt("/b"))]);
  assert.equal(a, b);
  await assert.rejects(host.mount(mountAt("/a")), ListenError);
});

it("the HTTP host rejects a public address without authentication", async (t) => {
  for (const address of ["0.0.0.0", "::", ""]) {
    const host = open(t, { host: address });
    assert.equal(host.loopback, false);
    await assert.rejects(host.mount(mountAt("/api")), (error: Error) => {
      assert.ok(error instanceof ListenError);
      assert.match(error.message, /: set requiredHeaders, or insecure: true, or bind to 127\.0\.0\.1$/);
      assert.doesNotMatch(error.message, /\n/);
      return true;
    });
  }
});

it("the HTTP host uses the remedy option in the error and the warning about missing authentication", async (t) => {
  const warnings: string[] = [];
  const none = () => undefined;
  const logger: Logger = { debug: none, info: none, error: none, warn: (text) => void warnings.push(text) };
  const remedy = ({ prefix }: HttpMount) => ({
    authenticate: `a key for ${prefix}`,
    listen: `give a key for ${prefix}`,
  });
  await assert.rejects(
    open(t, { host: "0.0.0.0", remedy }).mount(mountAt("/api")),
    /without authentication: give a key for \/api, or bind to 127\.0\.0\.1$/,
  );
  await open(t, { logger, remedy }).mount(mountAt("/api"));
  assert.match(warnings[0] ?? "", /; a key for \/api requires it$/);
});

it("the HTTP host binds to a public address with authentication or with insecure: true", async (t) => {
  for (const [options, fields] of [
    [{ host: "0.0.0.0" }, { authenticated: true }],
    [{ host: "0.0.0.0", insecure: true }, {}],
  ] as const) {
    const host = open(t, options);
    const url = await host.mount(mountAt("/api", fields));
    assert.match(url, /^http:\/\/0\.0\.0\.0:\d+$/);
    assert.equal(host.loopback, false);
    const port = new URL(url).port;
    assert.equal((await send(`http://127.0.0.1:${port}`, "/api")).status, 200);
    if (fields && "authenticated" in fields)
      await assert.rejects(host.mount(mountAt("/", { authenticated: false })), /without authentication/);
  }
});

it("the HTTP host warns once about mounts without authentication", async (t) => {
  const warnings: string[] = [];
  const none = () => undefined;
  const logger: Logger = { debug: none, info: none, error: none, warn: (text) => void warnings.push(text) };
  const host = open(t, { logger });
  await host.mount(mountAt("/a"));
  await host.mount(mountAt("/b"));
  assert.equal(warnings.length, 1);
  const safe = open(t, { logger });
  await safe.mount(mountAt("/a", { authenticated: true }));
  assert.equal(warnings.length, 1);
});

it("the HTTP host reports why it cannot listen, and can retry when the port is free", async (t) => {
  const blocker = createServer().listen(0, "127.0.0.1");
  await once(blocker, "listening");
  t.after(() => void blocker.close());
  const { port } = blocker.address() as { port: number };
  const busy = open(t, { port });
  await assert.rejects(busy.mount(mountAt("/api")), (error: Error) => {
    assert.ok(error instanceof ListenError);
    assert.match(error.message, new RegExp(`^cannot listen on http://127\\.0\\.0\\.1:${port}: the port is in use`));
    return true;
  });
  await assert.rejects(open(t, { host: "192.0.2.1", insecure: true }).mount(mountAt("/api")), /no such address/);
  await assert.rejects(open(t, { host: "no-such-host.invalid", insecure: true }).mount(mountAt("/api")), ListenError);
  // The port is free again, and the same host can retry.
  blocker.close();
  await once(blocker, "close");
  assert.match(await busy.mount(mountAt("/api")), new RegExp(`:${port}$`));
});

it(
  "the HTTP host treats ::1 as loopback and prints it in brackets",
  { skip: !hasIpv6() && "no IPv6 here" },
  async (t) => {
    const host = open(t, { host: "::1" });
    const url = await host.mount(mountAt("/api"));
    assert.match(url, /^http:\/\/\[::1\]:\d+$/);
    assert.equal(host.loopback, true);
    assert.equal((await send(url, "/api")).status, 200);
  },
);

it("the HTTP host prints localhost as configured and treats it as loopback", async (t) => {
  const host = open(t, { host: "localhost" });
  assert.match(await host.mount(mountAt("/api")), /^http:\/\/localhost:\d+$/);
  assert.equal(host.loopback, true);
});

const REFUSED_HOSTS = [
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
  // These addresses reach this machine or can be the target of a DNS name. A browser does not report the origin of such
  // a page.
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
  const host = open(t, { allowedHosts: ["box.lan"] });
  const url = await host.mount(mountAt("/"));
  for (const name of ACCEPTED_HOSTS) assert.equal(await statusWithHost(url, name), 200, name);
  for (const name of REFUSED_HOSTS) {
    const status = await statusWithHost(url, name);
    assert.ok(status === 403 || status === 400, `${JSON.stringify(name)} got ${status}`);
  }
  const refused = await send(url, "/", { headers: { host: "evil.example" } });
  assert.deepEqual([refused.status, refused.json()], [403, { error: "host not allowed" }]);
  const preflight = await send(url, "/", { method: "OPTIONS", headers: { host: "evil.example" } });
  assert.equal(preflight.status, 403);
});

it("the HTTP host on 0.0.0.0 accepts the machine's IPv4 addresses as Host, but no wildcard or foreign address", async (t) => {
  const host = open(t, { host: "0.0.0.0", insecure: true });
  const url = (await host.mount(mountAt("/"))).replace("0.0.0.0", "127.0.0.1");
  const ownAddresses = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  for (const { address, family } of ownAddresses)
    assert.equal(
      await statusWithHost(url, family === "IPv4" ? `${address}:80` : `[${address}]`),
      family === "IPv4" || address === "::1" ? 200 : 403,
    );
  for (const name of ["0.0.0.0", "[::]", "[::ffff:127.0.0.1]", "192.0.2.77", "evil.example"])
    assert.equal(await statusWithHost(url, name), 403, name);
});

it("a mount requires the headers of the port, unless it has its own headers or its own checks", async (t) => {
  const host = open(t, { requiredHeaders: { "X-Key": "k" } });
  const url = await host.mount(mountAt("/default", { upgrade: (_request, socket) => void socket.end("open") }));
  await host.mount(mountAt("/own", { requiredHeaders: { "X-Own": "o" } }));
  await host.mount(mountAt("/signed", { authenticated: true }));
  await host.mount(mountAt("/free", { hasOwnChecks: true }));
  const get = async (path: string, headers: Record<string, string> = {}) => (await send(url, path, { headers })).status;
  const refused = await send(url, "/default/x");
  assert.deepEqual([refused.status, refused.json()], [401, { error: "missing required header: X-Key" }]);
  assert.equal(await get("/default", { "x-key": "no" }), 401);
  assert.equal(await get("/default", { "x-key": "K" }), 200);
  assert.equal(
    await get("/default", { "x-key": "k", host: "evil.example" }),
    200,
    "an authenticated request may have any Host",
  );
  assert.equal((await send(url, "/default", { method: "OPTIONS" })).status, 200, "a preflight");
  assert.equal(await get("/own"), 401);
  assert.equal(await get("/own", { "x-own": "o" }), 200);
  assert.equal(await get("/signed"), 401);
  assert.equal(await get("/signed", { "x-key": "k" }), 200);
  assert.equal(await get("/free", { host: "evil.example", origin: "http://evil.example" }), 200);
  const socket = (key: string) =>
    exchange(
      url,
      `GET /default HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Key: ${key}\r\n\r\n`,
    );
  assert.match(await socket("no"), /^HTTP\/1\.1 401 /);
  assert.equal(await socket("k"), "open");
});

it("a mount refuses other origins, except GET of public paths and sockets from allowedOrigins", async (t) => {
  const host = open(t);
  const url = await host.mount(
    mountAt("/default", {
      upgrade: (_request, socket) => void socket.end("open"),
      allowedOrigins: ["https://app.example"],
      publicPaths: ["/default/alive"],
    }),
  );
  const ask = async (path: string, method: string, origin: string) =>
    (await send(url, path, { method, headers: { origin, "content-type": "application/json" } })).status;
  for (const origin of ["http://evil.example", "null", "https://app.example"]) {
    assert.equal(await ask("/default", "GET", origin), 403);
    assert.equal(await ask("/default", "POST", origin), 403);
    assert.equal(await ask("/default/alive", "GET", origin), 200);
    assert.equal(await ask("/default/alive", "POST", origin), 403);
  }
  assert.equal(await ask("/default", "POST", "http://localhost:3000"), 200);
  const socket = async (origin: string) =>
    exchange(
      url,
      `GET /default HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nOrigin: ${origin}\r\nSec-Fetch-Site: cross-site\r\n\r\n`,
    );
  assert.match(await socket("http://evil.example"), /^HTTP\/1\.1 403 /);
  assert.equal(await socket("https://app.example"), "open");
  assert.equal(await socket("http://localhost:3000"), "open");
});

it("the HTTP host limits streams and counts a double release once", (t) => {
  const host = open(t, { streams: 2 });
  const [first, second] = [host.takeStream(), host.takeStream()];
  assert.ok(first && second);
  assert.equal(host.takeStream(), undefined);
  first();
  first();
  assert.ok(host.takeStream());
  assert.equal(host.takeStream(), undefined);
});

const CURL = `
  const { request } = require("node:http");
  request({ host: process.argv[1], port: process.argv[2], path: process.argv[3] ?? "/", family: Number(process.argv[4] ?? 0) }, (response) =>
    response.resume().on("end", () => process.stdout.write(String(response.statusCode)))).end();`;

it(
  "the HTTP host refuses other users' processes, except on public paths, with allowOtherUsers or authentication",
  { skip: noOtherUser() },
  async (t) => {
    const warnings: string[] = [];
    const none = () => undefined;
    const logger: Logger = { debug: none, info: none, error: none, warn: (text) => void warnings.push(text) };
    const upgrade: HttpMount["upgrade"] = (_request, socket) => void socket.end("open");
    const mount = mountAt("/", { publicPaths: ["/alive"], upgrade });
    const port = async (options: HttpHostOptions, fields: Partial<HttpMount> = {}) =>
      new URL(await open(t, { ...options, logger }).mount({ ...mount, ...fields })).port;
    const as = async (uid: number, ...args: string[]): Promise<number> => {
      const child = spawn(process.execPath, ["-e", CURL, ...args], {
        uid,
        stdio: ["ignore", "pipe", "inherit"],
        cwd: "/",
      });
      let text = "";
      child.stdout.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      await once(child, "close");
      return Number(text);
    };
    const [root, otherUid] = [0, 65_534];
    const closed = await port({});
    assert.equal(await as(root, "127.0.0.1", closed), 200);
    assert.equal(await as(otherUid, "127.0.0.1", closed), 403);
    assert.equal(await as(otherUid, "::ffff:127.0.0.1", closed), 403);
    assert.equal(await as(otherUid, "127.0.0.1", closed, "/alive"), 200);
    assert.deepEqual(
      warnings.filter((text) => text.includes("another user")).map((text) => /uid (\d+)/.exec(text)?.[1]),
      ["65534"],
      "logged once",
    );
    if (hasIpv6()) {
      const ipv6Port = await port({ host: "::1" });
      assert.equal(await as(root, "::1", ipv6Port), 200);
      assert.equal(await as(otherUid, "::1", ipv6Port), 403);
    }
    // A client without the headers is checked as if no headers were required.
    const locked = await port({ requiredHeaders: { "X-Key": "secret" } }, { browserPaths: ["/page", "/files/*"] });
    for (const path of ["/page", "/files/x"]) {
      assert.equal(await as(root, "127.0.0.1", locked, path), 200);
      assert.equal(await as(otherUid, "127.0.0.1", locked, path), 403);
    }
    for (const path of ["/page/", "/files", "/x"]) assert.equal(await as(root, "127.0.0.1", locked, path), 401);
    assert.equal(await as(otherUid, "127.0.0.1", await port({ allowOtherUsers: true })), 200);
    assert.equal(await as(otherUid, "127.0.0.1", await port({}, { authenticated: true })), 200);
  },
);

/** Why no other user can be tested here. False if it can. */
function noOtherUser(): string | false {
  if (process.platform !== "linux") return "only Linux tells users apart";
  return process.getuid?.() === 0 ? false : "only root can become another user";
}

it("an authenticated mount accepts any Host", async (t) => {
  const url = await open(t).mount(mountAt("/", { authenticated: true }));
  assert.equal(await statusWithHost(url, "evil.example"), 200);
});

it("the HTTP host rejects requests without a Host header or with two of them", async (t) => {
  const url = await open(t).mount(mountAt("/"));
  assert.match(
    await exchange(url, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n"),
    /^HTTP\/1\.1 400 [\s\S]*missing host header/,
  );
  assert.match(
    await exchange(url, "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.com\r\nConnection: close\r\n\r\n"),
    /^HTTP\/1\.1 400 [\s\S]*more than one host header/,
  );
  assert.match(await exchange(url, "GET / HTTP/1.0\r\n\r\n"), /^HTTP\/1\.1 403 [\s\S]*host not allowed/);
});

it("the HTTP host checks the host of an absolute request target and serves its path", async (t) => {
  const url = await open(t).mount(mountAt("/api"));
  const get = (target: string) =>
    exchange(url, `GET ${target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
  assert.match(await get("http://localhost:1/api/x?y"), /^HTTP\/1\.1 200 [\s\S]*\/api \/api\/x\?y/);
  assert.match(await get("http://evil.example/api"), /^HTTP\/1\.1 403 /);
  assert.match(await get("api"), /^HTTP\/1\.1 400 /);
});

it("the HTTP host answers invalid HTTP with 400 and oversized headers with 431, in JSON", async (t) => {
  const url = await open(t).mount(mountAt("/"));
  const bad = await exchange(url, "this is no http\r\n\r\n");
  assert.match(
    bad,
    /^HTTP\/1\.1 400 Bad Request\r\nContent-Type: application\/json\r\n[\s\S]*\{"error":"bad request","code":"bad_request"\}$/,
  );
  const long = await exchange(url, `GET / HTTP/1.1\r\nHost: localhost\r\nX: ${"x".repeat(20_000)}\r\n\r\n`);
  assert.match(long, /^HTTP\/1\.1 431 [\s\S]*\{"error":"request headers too large","code":"headers_too_large"\}$/);
});

it("the HTTP host ends slow headers and slow bodies with 408", async (t) => {
  const host = open(t, { headerTimeout: 0.2, requestTimeout: 0.4 });
  const url = await host.mount(
    mountAt("/", { handler: (request, response) => void request.resume().on("end", () => response.end("whole")) }),
  );
  assert.match(await exchange(url, "GET / HTTP/1.1\r\nHost: local"), /^HTTP\/1\.1 408 [\s\S]*request timed out/);
  assert.match(
    await exchange(url, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc"),
    /^HTTP\/1\.1 408 [\s\S]*request timed out/,
  );
  assert.equal((await send(url, "/", { body: "abc" })).text, "whole", "a fast body is served");
});

it("the HTTP host closes an idle keep-alive connection", async (t) => {
  const url = await open(t, { keepAliveTimeout: 0.1 }).mount(mountAt("/"));
  const text = await exchange(url, "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n");
  assert.match(text, /^HTTP\/1\.1 200 /);
});

it("the HTTP host answers 503 above the connection limit, and 200 after a client disconnects", async (t) => {
  const url = await open(t, { connections: 2 }).mount(mountAt("/"));
  const first = await wire(url);
  const second = await wire(url);
  first.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await first.until(/200 OK/);
  const refused = await exchange(url, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  assert.match(refused, /^HTTP\/1\.1 503 [\s\S]*retry-after: 1[\s\S]*too many connections/i);
  second.destroy();
  // The server notices the disconnect a moment later.
  for (;;) if ((await send(url, "/")).status === 200) break;
  first.destroy();
});

it("an upgrade without a handler gets 404 for websocket and a plain HTTP response for h2c", async (t) => {
  const host = open(t);
  const url = await host.mount(mountAt("/"));
  const upgrade = (protocol: string, headers = "") =>
    exchange(
      url,
      `GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n${headers}\r\n`,
    );
  assert.match(await upgrade("websocket"), /^HTTP\/1\.1 404 [\s\S]*not found/);
  assert.match(await upgrade("h2c"), /^HTTP\/1\.1 200 [\s\S]*\/ \/x/);
});

it("a mount receives WebSockets after the Host check, and an aborted close() destroys them", async (t) => {
  const host = open(t);
  const url = await host.mount(
    mountAt("/", { upgrade: (_request, socket) => void socket.write("HTTP/1.1 101 Switching Protocols\r\n\r\nhello") }),
  );
  const ask = (name: string) => `GET / HTTP/1.1\r\nHost: ${name}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`;
  assert.match(await exchange(url, ask("evil.example")), /^HTTP\/1\.1 403 [\s\S]*host not allowed/);
  const socket = (await wire(url)).write(ask("localhost"));
  await socket.until(/hello/);
  const patience = new AbortController();
  const closed = host.close(patience.signal);
  assert.equal(socket.socket.closed, false, "its owner can still send a close frame");
  patience.abort();
  await closed;
  await socket.closed;
});

it("the HTTP host sends 100 Continue only for an accepted request", async (t) => {
  const url = await open(t).mount(
    mountAt("/", { handler: (request, response) => void request.resume().on("end", () => response.end("whole")) }),
  );
  const ask = (name: string) =>
    `POST / HTTP/1.1\r\nHost: ${name}\r\nExpect: 100-continue\r\nContent-Length: 3\r\nConnection: close\r\n\r\n`;
  const accepted = (await wire(url)).write(ask("localhost"));
  await accepted.until(/100 Continue/);
  accepted.write("abc");
  await accepted.until(/200 OK[\s\S]*whole/);
  const refused = (await wire(url)).write(ask("evil.example"));
  assert.match((await refused.until(/^HTTP\/1\.1 (\d+)/))[0], /403/);
  refused.destroy();
});

it("the HTTP host answers 500 without details when a handler throws, and keeps serving", async (t) => {
  const url = await open(t).mount(
    mountAt("/", {
      handler: () => {
        throw new Error("secret detail");
      },
    }),
  );
  for (let i = 0; i < 2; i++) {
    const { status, text } = await send(url, "/");
    assert.deepEqual([status, text], [500, '{"error":"internal error","code":"internal"}']);
  }
});

it("refuseNew() and close() refuse new requests, close idle connections, finish responses and free the port", async (t) => {
  const waiting: ServerResponse[] = [];
  const arrived: (() => void)[] = [];
  const handler = (request: IncomingMessage, response: ServerResponse) => {
    if (request.url !== "/slow") response.end("quick");
    else {
      waiting.push(response);
      arrived.shift()?.();
    }
  };
  const host = open(t);
  const url = await host.mount(mountAt("/", { handler }));
  const idle = (await wire(url)).write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await idle.until(/quick/);
  const silent = await wire(url);
  const slowArrived = new Promise<void>((resolve) => arrived.push(resolve));
  const slow = (await wire(url)).write("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await slowArrived;

  host.refuseNew();
  const refused = await send(url, "/");
  assert.deepEqual([refused.status, refused.json()], [503, { error: "server shutting down" }]);
  assert.equal(refused.headers["retry-after"], "1");
  idle.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await idle.until(/503 [\s\S]*server shutting down/);

  const closed = host.close(new AbortController().signal);
  await Promise.all([idle.closed, silent.closed]);
  assert.equal(slow.socket.closed, false);
  waiting[0]?.end("late but whole");
  await slow.until(/late but whole/);
  await Promise.all([closed, slow.closed]);
  await assert.rejects(send(url, "/"), { code: "ECONNREFUSED" });
  await assert.rejects(host.mount(mountAt("/x")), ListenError);
});

it("close() with an aborted signal destroys open connections, also as a second call", async (t) => {
  const host = open(t);
  const url = await host.mount(mountAt("/", { handler: (_request, response) => void response.write("forever") }));
  const connection = (await wire(url)).write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await connection.until(/forever/);
  const first = host.close(new AbortController().signal);
  await Promise.all([host.close(ABORTED), first, connection.closed]);
});

it("close() resolves for a host that never opened its port", async () => {
  await openHttpHost({ port: 0 }).close(ABORTED);
});

it("a keep-alive client can send a request after one with a body of 300,000 bytes was refused", async (t) => {
  const url = await open(t).mount(mountAt("/"));
  const agent = new KeepAlive({ keepAlive: true, maxSockets: 1 });
  t.after(() => agent.destroy());
  const { hostname, port } = new URL(url);
  const post = async (host: string) => {
    const request = httpRequest({ hostname, port, path: "/", method: "POST", headers: { host }, agent });
    request.end("x".repeat(300_000));
    const [response] = (await once(request, "response")) as [IncomingMessage];
    response.resume();
    await once(response, "end");
    return response.statusCode;
  };
  assert.equal(await post("evil.example"), 403);
  assert.equal(await post("localhost"), 200);
});

/** The status for a raw request with this Host header. 0: no answer. */
async function statusWithHost(url: string, host: string): Promise<number> {
  const text = await exchange(url, `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
  return Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1] ?? 0);
}

function hasIpv6(): boolean {
  return Object.values(networkInterfaces()).some((list) => list?.some(({ address }) => address === "::1"));
}
