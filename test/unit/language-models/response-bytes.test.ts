import assert from "node:assert/strict";
import { once } from "node:events";
import { Agent, createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTcpServer, type AddressInfo, type Socket } from "node:net";
import { describe, it, type TestContext } from "node:test";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { AiSdkProvider } from "gantry/adapters/language-models";
import { HttpConnections } from "../../../adapters/language-models/connections.js";
import type { ByteSource } from "../../../adapters/language-models/response-bytes.js";
import { pause, until } from "../../helpers/lab.js";
import { ask, take } from "../../helpers/model-requests.js";

const GET = { method: "GET", headers: {} };
const never = new AbortController().signal;

interface Site {
  url: string;
  /** All connections that were opened. */
  sockets: Socket[];
}

async function site(
  t: TestContext,
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<Site> {
  const sockets: Socket[] = [];
  const server = createServer((request, response) => void request.resume().on("end", () => answer(request, response)));
  server.on("connection", (socket: Socket) => sockets.push(socket)).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, sockets };
}

function connections(t: TestContext): HttpConnections {
  const made = new HttpConnections();
  t.after(() => made.close());
  return made;
}

/** Counts the connections that clients of this process keep alive for their next request. */
function freedSockets(t: TestContext): { count: number } {
  const agents = Agent.prototype as unknown as { keepSocketAlive(socket: Socket): boolean };
  const { mock } = t.mock.method(agents, "keepSocketAlive");
  return {
    get count() {
      return mock.callCount();
    },
  };
}

async function all(body: ByteSource): Promise<string> {
  const pieces: Buffer[] = [];
  for (let piece = await body.next(); piece !== undefined; piece = await body.next()) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

describe("a provider connection", () => {
  it("is reused for later requests, also after an answer was released before its last bytes", async (t) => {
    let sendRest = () => {};
    const lab = await site(t, (request, response) => {
      response.write("told");
      if (request.url === "/whole") response.end();
      else sendRest = () => void response.end("more");
    });
    const network = connections(t);
    const freed = freedSockets(t);
    for (let n = 0; n < 10; n++) {
      assert.equal(await all((await network.send(`${lab.url}whole`, GET, never)).body), "told");
      const { body } = await network.send(`${lab.url}rest`, GET, never);
      assert.equal(String(await body.next()), "told");
      body.release(true);
      // Sent only now: sent earlier, the rest would arrive together with the beginning.
      sendRest();
      await until(() => freed.count === 2 * (n + 1));
    }
    assert.equal(lab.sockets.length, 1);
  });

  it("is closed if a released answer does not end", async (t) => {
    const lab = await site(t, (request, response) => {
      response.write("told");
      if (request.url !== "/flood") return;
      const flood = setInterval(() => response.write("x".repeat(60_000)), 5);
      response.on("close", () => clearInterval(flood));
    });
    const network = connections(t);
    for (const [path, over] of [
      ["flood", true],
      ["silent", true],
      ["silent", false],
    ] as const) {
      const { body } = await network.send(lab.url + path, GET, never);
      await body.next();
      const closed = once(lab.sockets.at(-1)!, "close");
      body.release(over);
      await closed;
    }
    assert.equal(lab.sockets.length, 3);
  });

  it("is not used again after the server closed it", async (t) => {
    const lab = await site(t, (_request, response) => void response.end("told"));
    const network = connections(t);
    for (let n = 0; n < 3; n++) {
      assert.equal(await all((await network.send(lab.url, GET, never)).body), "told");
      const last = lab.sockets.at(-1)!;
      const closed = once(last, "close");
      last.end();
      await closed;
    }
    assert.equal(lab.sockets.length, 3);
  });

  it("is closed by an abort before, during or after the headers, which rejects with its reason", async (t) => {
    const lab = await site(t, (request, response) => {
      if (request.url === "/told") response.write("told");
    });
    const network = connections(t);
    const reason = new Error("enough");
    await assert.rejects(network.send(lab.url, GET, AbortSignal.abort(reason)), reason);
    assert.equal(lab.sockets.length, 0);
    const waiting = new AbortController();
    const waitingRequest = network.send(lab.url, GET, waiting.signal);
    await until(() => lab.sockets.length > 0);
    let closed = once(lab.sockets[0]!, "close");
    waiting.abort(reason);
    await assert.rejects(waitingRequest, reason);
    await closed;
    const reading = new AbortController();
    const { body } = await network.send(`${lab.url}told`, GET, reading.signal);
    await body.next();
    const next = body.next();
    closed = once(lab.sockets[1]!, "close");
    reading.abort(reason);
    await assert.rejects(next, reason);
    await assert.rejects(body.next(), reason);
    await closed;
  });

  it("is terminated by close(), after which new requests are rejected", async (t) => {
    const lab = await site(t, (_request, response) => void response.write("told"));
    const network = connections(t);
    const { body } = await network.send(lab.url, GET, never);
    await body.next();
    const ended = assert.rejects(body.next(), { name: "TypeError", message: "terminated" });
    await network.close();
    await ended;
    await assert.rejects(network.send(lab.url, GET, never), /the provider is closed/);
  });

  it("rejects with fetch's error and the cause ECONNREFUSED if the port is closed", async (t) => {
    const lab = await site(t, () => undefined);
    const { port } = new URL(lab.url);
    const free = createTcpServer().listen(0, "127.0.0.1");
    await once(free, "listening");
    const { port: closed } = free.address() as AddressInfo;
    free.close();
    await once(free, "close");
    assert.notEqual(Number(port), closed);
    await assert.rejects(connections(t).send(`http://127.0.0.1:${closed}/`, GET, never), (error: Error) => {
      assert.deepEqual([error.name, error.message], ["TypeError", "fetch failed"]);
      return (error.cause as NodeJS.ErrnoException).code === "ECONNREFUSED";
    });
  });
});

it("twenty calls of a provider use one connection", async (t) => {
  const event = { choices: [{ index: 0, delta: { content: "told" }, finish_reason: "stop" }] };
  const lab = await site(t, (_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(`data: ${JSON.stringify(event)}\n\n`);
    // Servers end a response a moment after its last event.
    response.write("data: [DONE]\n\n");
    setImmediate(() => response.end());
  });
  const provider = new AiSdkProvider({ name: "lab", baseUrl: lab.url });
  t.after(() => provider.close());
  const freed = freedSockets(t);
  for (let n = 0; n < 20; n++) {
    assert.equal((await take(provider, ask())).text, "told");
    // The response ends a moment later, while the agent does other work.
    await until(() => freed.count === n + 1);
  }
  assert.equal(lab.sockets.length, 1);
});

describe("a response body", () => {
  const text = "añ 😀 ".repeat(50_000);

  it("arrives completely in each content coding and framing, also if its reader is slow", async (t) => {
    const codings: Record<string, (text: string) => Buffer> = {
      identity: (plain) => Buffer.from(plain),
      gzip: gzipSync,
      deflate: deflateSync,
      br: brotliCompressSync,
      "gzip, br": (plain) => brotliCompressSync(gzipSync(plain)),
    };
    const lab = await site(t, (request, response) => {
      const [coding, form] = decodeURIComponent((request.url ?? "").slice(1)).split("/") as [string, string];
      const body = codings[coding]!(text);
      if (coding !== "identity") response.setHeader("content-encoding", coding);
      if (form === "length") response.setHeader("content-length", body.length);
      if (form === "close") response.setHeader("connection", "close");
      response.write(body.subarray(0, 7));
      response.end(body.subarray(7));
    });
    const network = connections(t);
    for (const coding of Object.keys(codings))
      for (const form of ["chunked", "length", "close"]) {
        const { body } = await network.send(`${lab.url}${encodeURIComponent(`${coding}/${form}`)}`, GET, never);
        // Time: a slow reader. The text is the same without this delay.
        await pause(10);
        assert.equal(await all(body), text, `${coding} ${form}`);
      }
  });

  it("rejects with `terminated` if it ends before its length or within a chunk", async (t) => {
    const answers: Record<string, string> = {
      length: "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\ntold",
      chunk: "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\ntold\r\n9\r\nmo",
    };
    const server = createTcpServer((socket) =>
      socket
        .on("error", () => undefined)
        .once("data", (sent) => socket.end(answers[/\/(\w+)/.exec(String(sent))![1]!]!)),
    ).listen(0, "127.0.0.1");
    await once(server, "listening");
    t.after(() => server.close());
    const network = connections(t);
    for (const form of Object.keys(answers)) {
      const { body } = await network.send(
        `http://127.0.0.1:${(server.address() as AddressInfo).port}/${form}`,
        GET,
        never,
      );
      await assert.rejects(all(body), { name: "TypeError", message: "terminated" }, form);
    }
  });

  it("is not buffered without limit for a slow reader: under 64 MB sent, under 2 MB held", async (t) => {
    let sent = 0;
    const lab = await site(t, (_request, response) => {
      const sendMore = (): void => {
        while (!response.destroyed && response.write("x".repeat(100_000))) sent += 100_000;
      };
      response.on("drain", sendMore);
      sendMore();
    });
    const network = connections(t);
    const { body } = await network.send(lab.url, GET, never);
    await body.next();
    for (let before = -1; before !== sent;) {
      before = sent;
      // Time: the server sends until its client applies backpressure, which no event reports. A longer wait changes
      // nothing.
      await pause(200);
    }
    assert.ok(sent < 64_000_000, String(sent));
    const held = await body.next();
    assert.ok(held!.length < 2_000_000, String(held!.length));
    body.release();
  });
});
