import assert from "node:assert/strict";
import { once } from "node:events";
import { Agent, createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTcpServer, type AddressInfo, type Socket } from "node:net";
import { describe, it, type TestContext } from "node:test";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { AiSdkProvider } from "gantry/adapters/language-models";
import { HttpConnections } from "../../../adapters/language-models/connections.js";
import type { ByteSource } from "../../../adapters/language-models/response-bytes.js";
import { pause, waitUntil } from "../../helpers/server-runs.js";
import { createRequest, readAnswer } from "../../helpers/model-requests.js";

const GET_OPTIONS = { method: "GET", headers: {} };
const neverAbortedSignal = new AbortController().signal;

interface TestServer {
  url: string;
  /** All connections opened by clients. */
  sockets: Socket[];
}

async function startServer(
  t: TestContext,
  respond: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<TestServer> {
  const sockets: Socket[] = [];
  const server = createServer((request, response) => void request.resume().on("end", () => respond(request, response)));
  server.on("connection", (socket: Socket) => sockets.push(socket)).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, sockets };
}

function openConnections(t: TestContext): HttpConnections {
  const httpConnections = new HttpConnections();
  t.after(() => httpConnections.close());
  return httpConnections;
}

/** Counts how often an HTTP client of this process keeps a connection alive for its next request. */
function countFreedSockets(t: TestContext): { count: number } {
  const agents = Agent.prototype as unknown as { keepSocketAlive(socket: Socket): boolean };
  const { mock } = t.mock.method(agents, "keepSocketAlive");
  return {
    get count() {
      return mock.callCount();
    },
  };
}

async function readText(body: ByteSource): Promise<string> {
  const pieces: Buffer[] = [];
  for (let piece = await body.next(); piece !== undefined; piece = await body.next()) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

describe("a provider connection", () => {
  it("is reused for later requests, also after an answer was released before its last bytes", async (t) => {
    let sendRemainder = () => {};
    const server = await startServer(t, (request, response) => {
      response.write("told");
      if (request.url === "/whole") response.end();
      else sendRemainder = () => void response.end("more");
    });
    const network = openConnections(t);
    const freedSockets = countFreedSockets(t);
    for (let n = 0; n < 10; n++) {
      assert.equal(
        await readText((await network.send(`${server.url}whole`, GET_OPTIONS, neverAbortedSignal)).body),
        "told",
      );
      const { body } = await network.send(`${server.url}rest`, GET_OPTIONS, neverAbortedSignal);
      assert.equal(String(await body.next()), "told");
      body.release(true);
      // Sends the remainder after the release. Sent earlier, it would arrive together with the first bytes.
      sendRemainder();
      await waitUntil(() => freedSockets.count === 2 * (n + 1));
    }
    assert.equal(server.sockets.length, 1);
  });

  it("is closed if a released answer does not end", async (t) => {
    const server = await startServer(t, (request, response) => {
      response.write("told");
      if (request.url !== "/flood") return;
      const floodTimer = setInterval(() => response.write("x".repeat(60_000)), 5);
      response.on("close", () => clearInterval(floodTimer));
    });
    const network = openConnections(t);
    for (const [path, isFinished] of [
      ["flood", true],
      ["silent", true],
      ["silent", false],
    ] as const) {
      const { body } = await network.send(server.url + path, GET_OPTIONS, neverAbortedSignal);
      await body.next();
      const closed = once(server.sockets.at(-1)!, "close");
      body.release(isFinished);
      await closed;
    }
    assert.equal(server.sockets.length, 3);
  });

  it("is not used again after the server closed it", async (t) => {
    const server = await startServer(t, (_request, response) => void response.end("told"));
    const network = openConnections(t);
    for (let n = 0; n < 3; n++) {
      assert.equal(await readText((await network.send(server.url, GET_OPTIONS, neverAbortedSignal)).body), "told");
      const lastSocket = server.sockets.at(-1)!;
      const closed = once(lastSocket, "close");
      lastSocket.end();
      await closed;
    }
    assert.equal(server.sockets.length, 3);
  });

  it("is closed by an abort before, during or after the headers, which rejects with its reason", async (t) => {
    const server = await startServer(t, (request, response) => {
      if (request.url === "/told") response.write("told");
    });
    const network = openConnections(t);
    const abortReason = new Error("enough");
    await assert.rejects(network.send(server.url, GET_OPTIONS, AbortSignal.abort(abortReason)), abortReason);
    assert.equal(server.sockets.length, 0);
    const waitingController = new AbortController();
    const waitingRequest = network.send(server.url, GET_OPTIONS, waitingController.signal);
    await waitUntil(() => server.sockets.length > 0);
    let closed = once(server.sockets[0]!, "close");
    waitingController.abort(abortReason);
    await assert.rejects(waitingRequest, abortReason);
    await closed;
    const readingController = new AbortController();
    const { body } = await network.send(`${server.url}told`, GET_OPTIONS, readingController.signal);
    await body.next();
    const pendingRead = body.next();
    closed = once(server.sockets[1]!, "close");
    readingController.abort(abortReason);
    await assert.rejects(pendingRead, abortReason);
    await assert.rejects(body.next(), abortReason);
    await closed;
  });

  it("is terminated by close(), after which new requests are rejected", async (t) => {
    const server = await startServer(t, (_request, response) => void response.write("told"));
    const network = openConnections(t);
    const { body } = await network.send(server.url, GET_OPTIONS, neverAbortedSignal);
    await body.next();
    const terminatedRead = assert.rejects(body.next(), { name: "TypeError", message: "terminated" });
    await network.close();
    await terminatedRead;
    await assert.rejects(network.send(server.url, GET_OPTIONS, neverAbortedSignal), /the provider is closed/);
  });

  it("rejects with fetch's error and the cause ECONNREFUSED if the port is closed", async (t) => {
    const server = await startServer(t, () => undefined);
    const { port } = new URL(server.url);
    const freePortServer = createTcpServer().listen(0, "127.0.0.1");
    await once(freePortServer, "listening");
    const { port: closedPort } = freePortServer.address() as AddressInfo;
    freePortServer.close();
    await once(freePortServer, "close");
    assert.notEqual(Number(port), closedPort);
    await assert.rejects(
      openConnections(t).send(`http://127.0.0.1:${closedPort}/`, GET_OPTIONS, neverAbortedSignal),
      (error: Error) => {
        assert.deepEqual([error.name, error.message], ["TypeError", "fetch failed"]);
        return (error.cause as NodeJS.ErrnoException).code === "ECONNREFUSED";
      },
    );
  });
});

it("twenty calls of a provider use one connection", async (t) => {
  const event = { choices: [{ index: 0, delta: { content: "told" }, finish_reason: "stop" }] };
  const server = await startServer(t, (_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(`data: ${JSON.stringify(event)}\n\n`);
    // Servers end a response a moment after its last event.
    response.write("data: [DONE]\n\n");
    setImmediate(() => response.end());
  });
  const provider = new AiSdkProvider({ name: "lab", baseUrl: server.url });
  t.after(() => provider.close());
  const freedSockets = countFreedSockets(t);
  for (let n = 0; n < 20; n++) {
    assert.equal((await readAnswer(provider, createRequest())).text, "told");
    // The response ends a moment later, while the agent does other work.
    await waitUntil(() => freedSockets.count === n + 1);
  }
  assert.equal(server.sockets.length, 1);
});

describe("a response body", () => {
  const text = "añ 😀 ".repeat(50_000);

  it("arrives completely in each content coding and framing, including for a slow reader", async (t) => {
    const codings: Record<string, (text: string) => Buffer> = {
      identity: (content) => Buffer.from(content),
      gzip: gzipSync,
      deflate: deflateSync,
      br: brotliCompressSync,
      "gzip, br": (content) => brotliCompressSync(gzipSync(content)),
    };
    const server = await startServer(t, (request, response) => {
      const [coding, framing] = decodeURIComponent((request.url ?? "").slice(1)).split("/") as [string, string];
      const body = codings[coding]!(text);
      if (coding !== "identity") response.setHeader("content-encoding", coding);
      if (framing === "length") response.setHeader("content-length", body.length);
      if (framing === "close") response.setHeader("connection", "close");
      response.write(body.subarray(0, 7));
      response.end(body.subarray(7));
    });
    const network = openConnections(t);
    for (const coding of Object.keys(codings))
      for (const framing of ["chunked", "length", "close"]) {
        const { body } = await network.send(
          `${server.url}${encodeURIComponent(`${coding}/${framing}`)}`,
          GET_OPTIONS,
          neverAbortedSignal,
        );
        // Time: a slow reader. The text is the same without this delay.
        await pause(10);
        assert.equal(await readText(body), text, `${coding} ${framing}`);
      }
  });

  it("rejects with `terminated` if it ends before its length or within a chunk", async (t) => {
    const responses: Record<string, string> = {
      length: "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\ntold",
      chunk: "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\ntold\r\n9\r\nmo",
    };
    const server = createTcpServer((socket) =>
      socket
        .on("error", () => undefined)
        .once("data", (request) => socket.end(responses[/\/(\w+)/.exec(String(request))![1]!]!)),
    ).listen(0, "127.0.0.1");
    await once(server, "listening");
    t.after(() => server.close());
    const network = openConnections(t);
    for (const framing of Object.keys(responses)) {
      const { body } = await network.send(
        `http://127.0.0.1:${(server.address() as AddressInfo).port}/${framing}`,
        GET_OPTIONS,
        neverAbortedSignal,
      );
      await assert.rejects(readText(body), { name: "TypeError", message: "terminated" }, framing);
    }
  });

  it("is not buffered without limit for a slow reader: under 64 MB sent, under 2 MB held", async (t) => {
    let sentBytes = 0;
    const server = await startServer(t, (_request, response) => {
      const sendMore = (): void => {
        while (!response.destroyed && response.write("x".repeat(100_000))) sentBytes += 100_000;
      };
      response.on("drain", sendMore);
      sendMore();
    });
    const network = openConnections(t);
    const { body } = await network.send(server.url, GET_OPTIONS, neverAbortedSignal);
    await body.next();
    for (let previousSentBytes = -1; previousSentBytes !== sentBytes;) {
      previousSentBytes = sentBytes;
      // Time: the server sends until its client applies backpressure, which no event reports. A longer wait changes
      // nothing.
      await pause(200);
    }
    assert.ok(sentBytes < 64_000_000, String(sentBytes));
    const bufferedPiece = await body.next();
    assert.ok(bufferedPiece!.length < 2_000_000, String(bufferedPiece!.length));
    body.release();
  });
});
