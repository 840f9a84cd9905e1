import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createServer, request, type IncomingMessage } from "node:http";
import { connect, createServer as createTcpServer, type AddressInfo, type LookupFunction, type Socket } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, it, type TestContext } from "node:test";
import { FilteringProxy, type ConnectHost, type RefusedConnection } from "../../../src/http/filtering-proxy.js";
import { parseHostRules } from "../../../src/tools/shell/sandbox/command-network.js";
import { connectPublic } from "../../../src/tools/shell/sandbox/public-connection.js";
import { tempDir } from "../../helpers/temp-dir.js";

/** Starts a server that answers with the method, URL, `Host` header and body of a request. */
async function startTarget(t: TestContext): Promise<{ port: number; requests: IncomingMessage[] }> {
  const requests: IncomingMessage[] = [];
  const server = createServer((received, response) => {
    requests.push(received);
    void text(received).then((body) =>
      response.end(`${received.method} ${received.url} ${received.headers.host} ${body}`),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  return { port: (server.address() as AddressInfo).port, requests };
}

async function startProxy(t: TestContext, hosts: readonly string[], connectHost: ConnectHost) {
  const folder = await tempDir(t);
  const socketPath = join(folder.path, "proxy.sock");
  const refusals: RefusedConnection[] = [];
  const proxy = await FilteringProxy.listen(socketPath, {
    rules: parseHostRules(hosts),
    connect: connectHost,
    onRefused: (refusal) => refusals.push(refusal),
  });
  t.after(() => proxy.close());
  return { proxy, socketPath, refusals };
}

/** Connects every allowed host to a port of loopback. */
const connectTo =
  (port: number): ConnectHost =>
  async () => {
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    await once(socket, "connect");
    return socket;
  };

async function send(socketPath: string, url: string, { method = "GET", headers = {}, body = "" } = {}) {
  const outgoing = request({ socketPath, path: url, method, headers: { host: "ignored.example", ...headers } });
  outgoing.end(body);
  const [response] = (await once(outgoing, "response")) as [IncomingMessage];
  return { status: response.statusCode, headers: response.headers, body: await text(response) };
}

/** Sends CONNECT. Resolves with the status line, and the socket after it. */
async function openTunnel(socketPath: string, target: string): Promise<{ answer: string; socket: Socket }> {
  const socket = connect(socketPath);
  socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`);
  let answer = "";
  while (!answer.includes("\r\n\r\n")) answer += String(((await once(socket, "data")) as [Buffer])[0]);
  return { answer, socket };
}

describe("the filtering proxy", () => {
  it("forwards plain requests to a listed host, with the host of the URL and without proxy headers", async (t) => {
    const { port, requests } = await startTarget(t);
    const { socketPath, refusals } = await startProxy(t, ["good.example"], connectTo(port));
    const headers = { "proxy-authorization": "secret", "x-hop": "1", connection: "x-hop", "x-kept": "2" };
    const { status, body } = await send(socketPath, "http://GOOD.example/a?b=1", {
      method: "POST",
      headers,
      body: "data",
    });
    assert.deepEqual([status, body], [200, "POST /a?b=1 good.example data"]);
    const received = requests[0]?.headers ?? {};
    assert.deepEqual(
      [received["x-kept"], received["x-hop"], received["proxy-authorization"]],
      ["2", undefined, undefined],
    );
    assert.deepEqual(refusals, []);
  });

  it("tunnels to a listed host, in both directions", async (t) => {
    const { port } = await startTarget(t);
    const { socketPath } = await startProxy(t, ["good.example"], connectTo(port));
    const { answer, socket } = await openTunnel(socketPath, "good.example:443");
    assert.match(answer, /^HTTP\/1\.1 200 /);
    socket.end("GET /tunnel HTTP/1.1\r\nHost: good.example\r\nConnection: close\r\n\r\n");
    assert.match(await text(socket), /GET \/tunnel good\.example/);
  });

  it("refuses other hosts, ports and addresses with the key of the config, and connects to none", async (t) => {
    let connections = 0;
    const connectHost = () => Promise.reject(new Error(`connection ${++connections}`));
    const { socketPath, refusals } = await startProxy(t, ["good.example", "*.wild.example"], connectHost);
    const targets = ["evil.example:443", "good.example:22", "wild.example:443", "127.0.0.1:443", "169.254.169.254:80"];
    for (const target of [...targets, "[::1]:443"]) {
      const { answer, socket } = await openTunnel(socketPath, target);
      assert.match(answer, /^HTTP\/1\.1 403 Forbidden\r\n/, target);
      assert.match(answer + (await text(socket)), /tools\.bash\.network does not list it/);
      socket.destroy();
    }
    const plain = await send(socketPath, "http://evil.example/");
    assert.equal(plain.status, 403);
    assert.match(plain.body, /connection to evil\.example:80 refused: tools\.bash\.network does not list it/);
    assert.equal(connections, 0);
    assert.deepEqual(
      refusals.map(({ target }) => target),
      [...targets, "[::1]:443", "evil.example:80"],
    );
  });

  it("rejects requests that are not for a proxy", async (t) => {
    const { socketPath } = await startProxy(t, ["good.example"], connectPublic);
    for (const url of ["/", "https://good.example/", "http://user@good.example/", "ftp://good.example/"])
      assert.equal((await send(socketPath, url)).status, 400, url);
    const { answer, socket } = await openTunnel(socketPath, "evil.example@good.example:443");
    assert.match(answer, /^HTTP\/1\.1 400 /);
    socket.destroy();
  });

  it("refuses a listed name and a listed address that are not public", async (t) => {
    const { port } = await startTarget(t);
    const hosts = ["localhost", "127.0.0.1", "169.254.169.254", `localhost:${port}`];
    const { socketPath, refusals } = await startProxy(t, hosts, connectPublic);
    for (const url of [`http://localhost:${port}/`, "http://127.0.0.1/", "http://169.254.169.254/latest/meta-data/"]) {
      const { status, body } = await send(socketPath, url);
      assert.equal(status, 403, url);
      assert.match(body, /its address is not on the public internet, which tools\.bash\.network requires/);
    }
    assert.deepEqual(new Set(refusals.map(({ reason }) => reason)), new Set(["private"]));
  });

  it("checks the address of the connection, whatever the lookup returned", async (t) => {
    const { port } = await startTarget(t);
    const lookup: LookupFunction = (_host, options, callback) =>
      options.all === true ? callback(null, [{ address: "127.0.0.1", family: 4 }]) : callback(null, "127.0.0.1", 4);
    assert.equal(await connectPublic({ host: "rebound.example", port }, lookup), undefined);
  });

  it("answers 502 if the host cannot be reached", async (t) => {
    const connectHost = () => Promise.reject(Object.assign(new Error("no host"), { code: "ENOTFOUND" }));
    const { socketPath } = await startProxy(t, ["good.example"], connectHost);
    const { status, body } = await send(socketPath, "http://good.example/");
    assert.deepEqual([status, body], [502, "gantry: the connection failed: ENOTFOUND\n"]);
  });

  it("closes open tunnels and removes its socket when it is closed", async (t) => {
    const server = createTcpServer((socket) => socket.on("error", () => undefined).resume());
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    t.after(() => server.close());
    const port = (server.address() as AddressInfo).port;
    const { proxy, socketPath } = await startProxy(t, ["good.example"], connectTo(port));
    const { socket } = await openTunnel(socketPath, "good.example:443");
    const closed = once(socket, "close");
    await proxy.close();
    await closed;
    assert.equal(existsSync(socketPath), false);
  });
});
