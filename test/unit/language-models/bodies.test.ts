import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { describe, it, type TestContext } from "node:test";
import { gzipSync } from "node:zlib";
import { hasCode } from "gantry";
import type { ModelChunk } from "gantry/plugin";
import { AiSdkProvider, type AiSdkProviderOptions } from "gantry/adapters/language-models";
import { BODY_LIMITS, toBoundedResponse, readComplete } from "../../../adapters/language-models/bodies.js";
import type { HttpResponse } from "../../../adapters/language-models/connections.js";
import type { ByteSource } from "../../../adapters/language-models/response-bytes.js";
import { startFakeModelServer } from "../../helpers/fake-model-server.js";
import { createRequest, PDF, userMessage } from "../../helpers/model-requests.js";

const SMALL_LIMITS = { listBytes: 100, errorBytes: 10, eventBytes: 20, answerBytes: 60, structuralBytes: 5 };
const neverAbortedSignal = new AbortController().signal;

/** Returns a response whose body arrives in these pieces. `isReleased` returns whether the body was released. */
function createResponse(pieces: Iterable<string>, status = 200): { response: HttpResponse; isReleased: () => boolean } {
  const source = pieces[Symbol.iterator]();
  let isReleased = false;
  const body: ByteSource = {
    async next() {
      const { done, value } = source.next();
      return done === true ? undefined : Buffer.from(value);
    },
    release: () => void (isReleased = true),
  };
  const head = { url: "http://lab/", ok: status < 300, status, statusText: "", headers: {} };
  return { response: { ...head, body }, isReleased: () => isReleased };
}

async function readPieces(response: Response): Promise<string[]> {
  const decoder = new TextDecoder();
  const decodedPieces: string[] = [];
  for await (const piece of response.body as AsyncIterable<Uint8Array>) decodedPieces.push(decoder.decode(piece));
  return decodedPieces;
}

function* repeatForever(text: string): Generator<string> {
  for (;;) yield text;
}

const matchTooLargeError = (message: RegExp) => (error: unknown) =>
  hasCode(error, "provider") && error.kind === "too_large" && !error.retryable && message.test(error.message);

describe("a bounded response body", () => {
  it("passes whole events on, for any size of the pieces and for LF, CRLF and CR line ends", async () => {
    for (const lineEnd of ["\n", "\r\n", "\r"]) {
      const stream = ["data: one", "data: more", "", ": hm", "", "data: two", "", "rest"].join(lineEnd);
      for (let pieceSize = 1; pieceSize <= stream.length; pieceSize++) {
        const inputPieces = Array.from({ length: Math.ceil(stream.length / pieceSize) }, (_, i) =>
          stream.slice(i * pieceSize, (i + 1) * pieceSize),
        );
        const receivedPieces = await readPieces(
          toBoundedResponse(createResponse(inputPieces).response, "p", {
            ...SMALL_LIMITS,
            eventBytes: 100,
            answerBytes: 1000,
          }),
        );
        assert.equal(receivedPieces.join(""), stream, `${JSON.stringify(lineEnd)} in pieces of ${pieceSize}`);
        // Each piece except the last ends with a complete event. The second half of a CRLF can follow in the next piece.
        for (const piece of receivedPieces.slice(0, -1)) assert.match(piece, /(\n\n|\r\n\r\n|\r\r|\r\n\r|^\n)$/);
      }
    }
  });

  it("rejects an event or an answer over its limit as too_large, and releases the source", async () => {
    const longEvent = createResponse(repeatForever("x"));
    await assert.rejects(
      readPieces(toBoundedResponse(longEvent.response, "p", SMALL_LIMITS)),
      matchTooLargeError(/^p: too_large: an event.* of more than 20 bytes/),
    );
    assert.ok(longEvent.isReleased());
    const longAnswer = createResponse(repeatForever("data: 1\n\n"));
    await assert.rejects(
      readPieces(toBoundedResponse(longAnswer.response, "p", SMALL_LIMITS)),
      matchTooLargeError(/an answer of more than 60 bytes/),
    );
    assert.ok(longAnswer.isReleased());
  });

  it("counts the values of each event separately, and rejects an event with more than 5", async () => {
    const limits = { ...SMALL_LIMITS, eventBytes: 1000, answerBytes: 1000 };
    const smallEvent = "data: [1,2,{}]\n\n";
    assert.equal(
      (
        await readPieces(
          toBoundedResponse(
            createResponse([smallEvent, smallEvent, smallEvent.slice(0, 8), smallEvent.slice(8)]).response,
            "p",
            limits,
          ),
        )
      ).join(""),
      smallEvent.repeat(3),
    );
    for (const inputPieces of [["data: [[[", "[[[[\n\n"], [`${smallEvent}data: ,,,,,,\n\n${smallEvent}`]])
      await assert.rejects(
        readPieces(toBoundedResponse(createResponse(inputPieces).response, "p", limits)),
        matchTooLargeError(/an event of more than 5 values/),
      );
  });

  it("releases its source when its reader is cancelled", async () => {
    const source = createResponse(repeatForever("data: 1\n\n"));
    const reader = toBoundedResponse(source.response, "p").body!.getReader();
    await reader.read();
    await reader.cancel();
    assert.ok(source.isReleased());
  });

  it("keeps only the first bytes of an error response, up to the error limit", async () => {
    const source = createResponse(repeatForever("1234567"), 500);
    assert.deepEqual(
      [await toBoundedResponse(source.response, "p", SMALL_LIMITS).text(), source.isReleased()],
      ["1234567123", true],
    );
    const errorBody = await readComplete(createResponse(repeatForever("x"), 403).response, 5, "p", "a list");
    assert.deepEqual([errorBody.ok, errorBody.status, errorBody.text.length], [false, 403, BODY_LIMITS.errorBytes]);
  });

  it("readComplete rejects a body over its limit, and returns text and byte count of a smaller body", async () => {
    const source = createResponse(repeatForever("12345"));
    await assert.rejects(
      readComplete(source.response, 12, "p", "a list"),
      matchTooLargeError(/a list of more than 12 bytes/),
    );
    assert.ok(source.isReleased());
    const { text, bytes } = await readComplete(createResponse(["añ", "b"]).response, 12, "p", "a list");
    assert.deepEqual([text, bytes], ["añb", 4]);
  });
});

async function startSite(
  t: TestContext,
  respond: (request: IncomingMessage, response: ServerResponse, body: string) => void,
): Promise<{ url: string; requests: IncomingMessage[] }> {
  const requests: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    requests.push(request);
    let body = "";
    request.on("data", (part: Buffer) => (body += part.toString()));
    request.on("end", () => respond(request, response, body));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests };
}

function createProvider(t: TestContext, options: Partial<AiSdkProviderOptions>): AiSdkProvider {
  const provider = new AiSdkProvider({ name: "lab", apiKey: "key-0123456789", ...options });
  t.after(() => provider.close());
  return provider;
}

async function readAnswerText(provider: AiSdkProvider): Promise<string> {
  let text = "";
  for await (const chunk of provider.stream(createRequest(), neverAbortedSignal) as AsyncIterable<ModelChunk>)
    if (chunk.type === "text") text += chunk.text;
  return text;
}

const WIRES = ["openai", "openai-responses", "anthropic", "google"] as const;

describe("HTTP redirects of a model provider", () => {
  it("a redirect to another origin is rejected and names the target host, which receives no request, on any wire", async (t) => {
    const redirectTarget = await startSite(t, (_request, response) => void response.end("{}"));
    const target = `${redirectTarget.url}/v1/x`;
    for (const status of [301, 302, 303, 307, 308]) {
      const redirectSite = await startSite(
        t,
        (_request, response) => void response.writeHead(status, { location: target }).end(),
      );
      for (const driver of WIRES) {
        const provider = createProvider(t, {
          driver,
          baseUrl: `${redirectSite.url}/v1`,
          headers: { "x-secret": "value-0123456789" },
        });
        const expectedMessage = new RegExp(
          `^lab: ${status}: 127.0.0.1:\\d+ redirects to ${new URL(target).host}, which gets`,
        );
        const isRedirectError = (error: unknown) =>
          hasCode(error, "provider") && !error.retryable && expectedMessage.test(error.message);
        await assert.rejects(readAnswerText(provider), isRedirectError, driver);
        await assert.rejects(provider.models(neverAbortedSignal), isRedirectError, driver);
      }
    }
    assert.equal(redirectTarget.requests.length, 0);
  });

  it("the error of a redirect does not contain an API key that is part of the target host", async (t) => {
    const redirectSite = await startSite(
      t,
      (_request, response) => void response.writeHead(307, { location: "http://key-0123456789.example/" }).end(),
    );
    await assert.rejects(
      readAnswerText(createProvider(t, { baseUrl: redirectSite.url })),
      (error: Error) => !error.message.includes("0123456789"),
    );
  });

  it("a 307 within the origin is followed with its body; endless redirects and a 302 for a POST are rejected", async (t) => {
    const models = await startFakeModelServer({ fallback: { say: [{ text: "moved" }] } });
    t.after(() => models.close());
    const proxy = await startSite(t, (request, response, body) => {
      const path = request.url ?? "";
      if (path.startsWith("/old/")) response.writeHead(307, { location: path.replace("/old/", "/new/") }).end();
      else if (path.startsWith("/round/")) response.writeHead(308, { location: path }).end();
      else if (path.startsWith("/lost/")) response.writeHead(302, { location: "/new/chat/completions" }).end();
      else {
        const { method = "", headers } = request;
        const forwarded = { "content-type": "application/json", authorization: headers.authorization ?? "" };
        void fetch(`${models.url}${path.replace("/new/", "/v1/")}`, {
          method,
          headers: forwarded,
          ...(method === "POST" ? { body } : {}),
        }).then(async (modelResponse) => {
          const type = modelResponse.headers.get("content-type") ?? "";
          response.writeHead(modelResponse.status, { "content-type": type }).end(await modelResponse.text());
        });
      }
    });
    const redirectedProvider = createProvider(t, { baseUrl: `${proxy.url}/old` });
    assert.equal(await readAnswerText(redirectedProvider), "moved");
    assert.deepEqual(
      (await redirectedProvider.models(neverAbortedSignal)).map(({ id }) => id),
      ["m1"],
    );
    assert.equal(models.requests[0]!.headers.authorization, "Bearer key-0123456789");
    await assert.rejects(readAnswerText(createProvider(t, { baseUrl: `${proxy.url}/round` })), /redirects without end/);
    await assert.rejects(
      readAnswerText(createProvider(t, { baseUrl: `${proxy.url}/lost` })),
      /to a GET page; check base_url/,
    );
  });
});

describe("parameters and headers that AI SDK packages add", () => {
  it("a request to another host than Anthropic's has no anthropic-beta header, except a configured one", async (t) => {
    const models = await startFakeModelServer();
    t.after(() => models.close());
    const getSentBetaHeader = async (options: Partial<AiSdkProviderOptions>): Promise<unknown> => {
      const provider = createProvider(t, { driver: "anthropic", baseUrl: models.baseUrl, ...options });
      const pdf = { type: "file" as const, mediaType: "application/pdf", filename: "a.pdf", data: PDF };
      const model = { id: "claude-sonnet-4-5", name: "c", ownedBy: "x", input: ["text", "pdf"] as ("text" | "pdf")[] };
      let answerText = "";
      for await (const chunk of provider.stream(
        createRequest({ model, messages: [userMessage(pdf, "hm")] }),
        neverAbortedSignal,
      ))
        if (chunk.type === "text") answerText += chunk.text;
      assert.equal(answerText, "OK.");
      return models.requests.at(-1)!.headers["anthropic-beta"];
    };
    assert.equal(await getSentBetaHeader({}), undefined);
    assert.equal(await getSentBetaHeader({ headers: { "Anthropic-Beta": "mine-2026" } }), "mine-2026");
  });

  it("a request asks for reasoning only if the model has reasoning: true, on any wire", async (t) => {
    const models = await startFakeModelServer();
    t.after(() => models.close());
    for (const driver of WIRES) {
      const baseUrl = driver === "google" ? `${models.url}/v1beta` : models.baseUrl;
      const provider = createProvider(t, { driver, baseUrl });
      for (const [reasoning, isReasoningExpected] of [
        [false, false],
        [true, true],
      ] as const) {
        const request = createRequest();
        const modelIds = {
          openai: "gpt-5",
          "openai-responses": "gpt-5",
          anthropic: "claude-sonnet-4-5",
          google: "gemini-3-pro",
        };
        const model = { ...request.model, id: modelIds[driver], reasoning };
        for await (const chunk of provider.stream({ ...request, model, effort: "high" }, neverAbortedSignal))
          void chunk;
        const requestBody = JSON.stringify(models.requests.at(-1)!.body);
        assert.equal(
          /effort|"thinking|thinkingConfig/.test(requestBody),
          isReasoningExpected,
          `${driver} ${String(reasoning)}: ${requestBody}`,
        );
      }
    }
  });
});

describe("a compressed response body", () => {
  it("is limited by its decompressed size", async (t) => {
    const compressedBody = gzipSync(Buffer.alloc(BODY_LIMITS.listBytes + 1, "x"));
    const site = await startSite(
      t,
      (_request, response) =>
        void response
          .writeHead(200, { "content-type": "application/json", "content-encoding": "gzip" })
          .end(compressedBody),
    );
    await assert.rejects(
      createProvider(t, { baseUrl: site.url }).models(neverAbortedSignal),
      matchTooLargeError(/a list of models of more than 16 MB/),
    );
    await assert.rejects(
      readAnswerText(createProvider(t, { baseUrl: site.url })),
      matchTooLargeError(/a body without events, of more than 8 MB/),
    );
  });
});
