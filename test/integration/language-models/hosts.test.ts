// Presets of clouds and subscriptions. Each front checks addresses, headers and credentials as the host does, and
// forwards the request to the fake model server, which checks the rest.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { crc32 } from "node:zlib";
import { hasCode } from "gantry";
import { AiSdkProvider, type AiSdkProviderOptions } from "gantry/adapters/language-models";
import { importOptionalPackage } from "../../../adapters/language-models/optional-package.js";
import { startFakeModelServer } from "../../helpers/fake-model-server.js";
import {
  createModel,
  createRequest,
  readAnswer,
  readTool,
  toolResultMessage,
  userMessage,
} from "../../helpers/model-requests.js";
import { makeTempDir } from "../../helpers/temp-dir.js";

interface Forwarding {
  path: string;
  /** Converts the answer of the model server. */
  encode?: (answer: string) => { type: string; body: Buffer };
  headers?: Record<string, string>;
  body?: string;
}

/** An answer of the front itself; bytes are a binary event stream. */
interface Refusal {
  status: number;
  answer: unknown;
}

type Front = (request: IncomingMessage, body: string) => Forwarding | Refusal;

const EVENT_STREAM_TYPE = "application/vnd.amazon.eventstream";
const PROJECT_PATH = "/v1/projects/p/locations/global";

const refuse = (status: number, message: string): Refusal => ({ status, answer: { error: { code: status, message } } });

function toMessagesRequest(model: string, fields: Record<string, unknown>, beta: string): Forwarding {
  const headers = { "anthropic-version": "2023-06-01", "anthropic-beta": beta };
  return { path: "/v1/messages", headers, body: JSON.stringify({ model, ...fields }) };
}

/** Starts a front and a model server behind it. */
async function startFront(t: TestContext, front: Front) {
  const models = await startFakeModelServer({
    dialect: { message: ["reasoning_text", "reasoning_opaque", "copilot_cache_control"] },
  });
  const requests: { method: string; url: string; headers: IncomingMessage["headers"]; body: string }[] = [];
  const server = createServer((request, response) => {
    void (async () => {
      let body = "";
      for await (const piece of request.setEncoding("utf8")) body += piece as string;
      const { method = "", url = "", headers } = request;
      requests.push({ method, url, headers, body });
      const decision = front(request, body);
      if ("status" in decision) {
        const isBinary = Buffer.isBuffer(decision.answer);
        response.writeHead(decision.status, { "content-type": isBinary ? EVENT_STREAM_TYPE : "application/json" });
        response.end(isBinary ? decision.answer : JSON.stringify(decision.answer));
        return;
      }
      const answer = await fetch(`${models.url}${decision.path}`, {
        method,
        headers: { "content-type": "application/json", ...decision.headers },
        ...(method === "POST" && { body: decision.body ?? body }),
      });
      const text = await answer.text();
      const encoded = answer.ok ? decision.encode?.(text) : undefined;
      response.writeHead(answer.status, { "content-type": encoded?.type ?? answer.headers.get("content-type") ?? "" });
      response.end(encoded?.body ?? text);
    })();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(async () => {
    server.closeAllConnections();
    server.close();
    assert.deepEqual(models.violations, []);
    await models.close();
  });
  return { models, requests, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

function createProvider(t: TestContext, options: AiSdkProviderOptions): AiSdkProvider {
  const provider = new AiSdkProvider(options, undefined, process.cwd());
  t.after(() => provider.close());
  return provider;
}

/** Vertex AI: https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/use-claude */
const createVertexFront =
  (token: string): Front =>
  (request, body) => {
    if (request.headers.authorization !== `Bearer ${token}`) return refuse(401, "invalid credentials");
    for (const name of ["x-api-key", "x-goog-api-key", "anthropic-version"])
      if (request.headers[name] !== undefined) return refuse(400, `unexpected header ${name}`);
    const [, publisher, action] =
      new RegExp(`^${PROJECT_PATH}/publishers/(google|anthropic)/models/(.+)$`).exec(request.url ?? "") ?? [];
    if (publisher === "google") return { path: `/v1beta/models/${action}`, headers: { "x-goog-api-key": "x" } };
    const [, model] = /^(.+):streamRawPredict$/.exec(action ?? "") ?? [];
    const { anthropic_version: version, ...fields } = JSON.parse(body) as Record<string, unknown>;
    if (publisher !== "anthropic" || model === undefined) return refuse(404, "not found");
    if (version !== "vertex-2023-10-16" || "model" in fields) return refuse(400, "invalid body");
    return toMessagesRequest(model, fields, String(request.headers["anthropic-beta"] ?? ""));
  };

describe("Google Vertex AI", () => {
  it("gets Claude's requests with cache marks, thinking and interleaved thinking, and no prompt with a wrong token", async (t) => {
    const front = await startFront(t, createVertexFront("token-1"));
    const options = { preset: "vertex-anthropic", baseUrl: `${front.url}${PROJECT_PATH}`, apiKey: "token-1" };
    const provider = createProvider(t, options);
    front.models.enqueue({
      say: [{ reasoning: "Hm." }, { call: { id: "c1", name: "read", arguments: { path: "a" } } }],
    });
    const model = createModel({ id: "claude-sonnet-4-5@20250929", reasoning: true });
    const { message } = await readAnswer(provider, createRequest({ model, tools: [readTool] }));
    const messages = [userMessage("Hello"), message, toolResultMessage("c1", "read", "A")];
    const answer = await readAnswer(provider, createRequest({ model, tools: [readTool], messages }));
    assert.equal(answer.text, "OK.");
    const { body, headers } = front.models.requests.at(-1)!;
    assert.equal(body.thinking.type, "enabled");
    assert.equal(body.messages[1].content[0].type, "thinking");
    assert.deepEqual(body.tools.at(-1).cache_control, { type: "ephemeral" });
    assert.equal(headers["anthropic-beta"], "interleaved-thinking-2025-05-14");
    const rejectedProvider = createProvider(t, { ...options, apiKey: "token-2" });
    await assert.rejects(
      readAnswer(rejectedProvider, createRequest({ model })),
      (error) => hasCode(error, "provider") && error.kind === "authentication",
    );
    assert.equal(front.models.requests.length, 2);
  });

  it("gets Gemini's requests with a token of google-auth-library, which is requested once", async (t) => {
    const folder = await makeTempDir();
    t.after(() => folder.remove());
    let exchanges = 0;
    const vertexFront = createVertexFront("token-3");
    const front = await startFront(t, (request, body) => {
      if (request.url !== "/token") return vertexFront(request, body);
      exchanges += 1;
      const { subject_token: subjectToken } = Object.fromEntries(new URLSearchParams(body));
      if (subjectToken !== "subject") return refuse(400, "invalid subject token");
      return {
        status: 200,
        answer: {
          ...{ access_token: "token-3", expires_in: 3600, token_type: "Bearer" },
          issued_token_type: "urn:ietf:params:oauth:token-type:access_token",
        },
      };
    });
    await writeFile(join(folder.path, "subject"), "subject");
    const credentialsFile = join(folder.path, "credentials.json");
    await writeFile(
      credentialsFile,
      JSON.stringify({
        type: "external_account",
        audience: "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/p",
        subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
        token_url: `${front.url}/token`,
        credential_source: { file: join(folder.path, "subject") },
      }),
    );
    process.env["GOOGLE_APPLICATION_CREDENTIALS"] = credentialsFile;
    t.after(() => void delete process.env["GOOGLE_APPLICATION_CREDENTIALS"]);
    const provider = createProvider(t, { preset: "vertex", baseUrl: `${front.url}${PROJECT_PATH}` });
    const models = await provider.models(new AbortController().signal);
    assert.ok(models.some(({ id }) => id === "gemini-2.5-pro"));
    for (const effort of ["", "high"] as const) {
      const model = createModel({ id: "gemini-3-pro-preview", reasoning: true });
      assert.equal((await readAnswer(provider, createRequest({ model, effort }))).text, "OK.");
    }
    assert.equal(exchanges, 1);
    assert.equal(front.models.requests.at(-1)!.body.generationConfig.thinkingConfig.thinkingLevel, "high");
  });
});

/** A frame of the binary event stream of AWS: lengths, checksum, headers, payload, checksum. */
function createFrame(eventType: string, payload: unknown): Buffer {
  const encodeHeader = (name: string, value: string) => {
    const valueLength = Buffer.alloc(2);
    valueLength.writeUInt16BE(value.length);
    // Type 7 is a text.
    return Buffer.concat([
      Buffer.from([name.length]),
      Buffer.from(name),
      Buffer.from([7]),
      valueLength,
      Buffer.from(value),
    ]);
  };
  const headers = Buffer.concat([encodeHeader(":event-type", eventType), encodeHeader(":message-type", "event")]);
  const body = Buffer.from(JSON.stringify(payload));
  const frame = Buffer.alloc(12 + headers.length + body.length + 4);
  frame.writeUInt32BE(frame.length, 0);
  frame.writeUInt32BE(headers.length, 4);
  frame.writeUInt32BE(crc32(frame.subarray(0, 8)), 8);
  headers.copy(frame, 12);
  body.copy(frame, 12 + headers.length);
  frame.writeUInt32BE(crc32(frame.subarray(0, frame.length - 4)), frame.length - 4);
  return frame;
}

/** Amazon Bedrock: Claude by InvokeModelWithResponseStream, other models by ConverseStream. */
const createBedrockFront =
  (isAuthorized: (headers: IncomingMessage["headers"]) => boolean): Front =>
  ({ url = "", headers }, body) => {
    if (!isAuthorized(headers)) return { status: 403, answer: { message: "The security token is invalid." } };
    const [, encodedModel = "", action] = /^\/model\/([^/]+)\/([a-z-]+)$/.exec(url) ?? [];
    const model = decodeURIComponent(encodedModel);
    const fields = JSON.parse(body) as Record<string, unknown>;
    if (action === "converse-stream" && !model.includes("anthropic")) {
      const events: [string, unknown][] = [
        ["messageStart", { role: "assistant" }],
        ["contentBlockDelta", { contentBlockIndex: 0, delta: { text: "Converse." } }],
        ["contentBlockStop", { contentBlockIndex: 0 }],
        ["messageStop", { stopReason: "end_turn" }],
        ["metadata", { usage: { inputTokens: 10, outputTokens: 2, totalTokens: 12, cacheReadInputTokens: 4 } }],
      ];
      return { status: 200, answer: Buffer.concat(events.map(([type, payload]) => createFrame(type, payload))) };
    }
    const { anthropic_version: version, anthropic_beta: betas = [], ...messageFields } = fields;
    if (action !== "invoke-with-response-stream") return { status: 404, answer: { message: "unknown operation" } };
    if (version !== "bedrock-2023-05-31" || "model" in fields || "stream" in fields)
      return { status: 400, answer: { message: "invalid body" } };
    const encode = (text: string) => {
      const events = text.split("\n").filter((line) => line.startsWith("data: "));
      const toBytes = (line: string) => Buffer.from(line.slice("data: ".length)).toString("base64");
      const frames = events.map((line) => createFrame("chunk", { bytes: toBytes(line) }));
      return { type: EVENT_STREAM_TYPE, body: Buffer.concat(frames) };
    };
    return { ...toMessagesRequest(model, { stream: true, ...messageFields }, (betas as string[]).join(",")), encode };
  };

describe("Amazon Bedrock", () => {
  const claudeId = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";

  it("gets Claude's requests with cache marks, thinking and interleaved thinking, by a bearer token", async (t) => {
    const front = await startFront(
      t,
      createBedrockFront(({ authorization }) => authorization === "Bearer aws-token"),
    );
    const options = { preset: "bedrock", baseUrl: front.url, apiKey: "aws-token" };
    const provider = createProvider(t, options);
    front.models.enqueue({
      say: [{ reasoning: "Hm." }, { call: { id: "c1", name: "read", arguments: { path: "a" } } }],
    });
    const model = createModel({ id: claudeId, reasoning: true });
    const { message, calls } = await readAnswer(provider, createRequest({ model, tools: [readTool] }));
    assert.equal(calls.length, 1);
    const messages = [userMessage("Hello"), message, toolResultMessage("c1", "read", "A")];
    const answer = await readAnswer(provider, createRequest({ model, tools: [readTool], messages }));
    assert.equal(answer.text, "OK.");
    assert.ok(answer.finish.usage.inputTokens > 0);
    const { body, headers } = front.models.requests.at(-1)!;
    assert.deepEqual([body.thinking.type, body.messages[1].content[0].type], ["enabled", "thinking"]);
    assert.deepEqual(body.tools.at(-1).cache_control, { type: "ephemeral" });
    assert.deepEqual(body.system.at(-1).cache_control, { type: "ephemeral" });
    assert.match(String(headers["anthropic-beta"]), /interleaved-thinking-2025-05-14/);
    await assert.rejects(
      readAnswer(createProvider(t, { ...options, apiKey: "wrong-token" }), createRequest({ model })),
      (error) => hasCode(error, "provider") && error.kind === "permission" && !error.message.includes("wrong-token"),
    );
  });

  it("signs with the credentials of the environment, and never sends its bearer token to another server", async (t) => {
    const variables = {
      ...{ AWS_REGION: "eu-central-1", AWS_ACCESS_KEY_ID: "AKIDEXAMPLE", AWS_SECRET_ACCESS_KEY: "secret-access-key" },
      ...{ AWS_SESSION_TOKEN: "session", AWS_BEARER_TOKEN_BEDROCK: "token-for-aws-only" },
    };
    Object.assign(process.env, variables);
    t.after(() => Object.keys(variables).forEach((name) => delete process.env[name]));
    const pattern =
      /^AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE\/\d{8}\/eu-central-1\/bedrock\/aws4_request, SignedHeaders=\S+, Signature=[0-9a-f]{64}$/;
    const front = await startFront(
      t,
      createBedrockFront(
        ({ authorization = "", "x-amz-security-token": session }) =>
          pattern.test(authorization) && session === "session",
      ),
    );
    const provider = createProvider(t, { preset: "bedrock", baseUrl: front.url });
    const answer = await readAnswer(provider, createRequest({ model: createModel({ id: claudeId }) }));
    assert.equal(answer.text, "OK.");
    assert.ok(!JSON.stringify(front.requests).includes("token-for-aws-only"));
    assert.ok(!JSON.stringify(front.requests).includes("secret-access-key"));
  });

  it("gets the requests of other models by Converse, with cache points and an effort", async (t) => {
    const front = await startFront(
      t,
      createBedrockFront(({ authorization }) => authorization === "Bearer aws-token"),
    );
    const provider = createProvider(t, { preset: "bedrock", baseUrl: front.url, apiKey: "aws-token" });
    const model = createModel({ id: "us.amazon.nova-2-lite-v1:0", reasoning: true });
    const { text, finish } = await readAnswer(provider, createRequest({ model, effort: "high", tools: [readTool] }));
    assert.deepEqual([text, finish.usage.cacheReadTokens], ["Converse.", 4]);
    // The front has checked the form of the body.
    // eslint-disable-next-line @typescript-eslint/no-explicit-any
    const body = JSON.parse(front.requests[0]!.body) as Record<string, any>;
    assert.deepEqual(body["system"].at(-1), { cachePoint: { type: "default" } });
    assert.deepEqual(body["messages"].at(-1).content.at(-1), { cachePoint: { type: "default" } });
    assert.equal(body["additionalModelRequestFields"].reasoningConfig.maxReasoningEffort, "high");
  });

  it("names the command that installs a missing package", async () => {
    await assert.rejects(
      importOptionalPackage("@gantry-tests/no-such-package", "no-such-package@1", "bedrock", "/etc/gantry"),
      /^ProviderError: bedrock: protocol: this provider needs a package: run "npm install no-such-package@1" in \/etc\/gantry$/,
    );
  });
});

describe("GitHub Copilot", () => {
  /** `expiresInSeconds`: lifetime of the tokens of the exchange. */
  const createCopilotFront = (expiresInSeconds: number): { front: Front; exchangeCount: () => number } => {
    let exchanges = 0;
    const front: Front = ({ url, headers }) => {
      if (url === "/copilot_internal/v2/token") {
        if (headers.authorization !== "token ghu_editor") return refuse(404, "Not Found");
        exchanges += 1;
        const expiresAt = Math.floor(Date.now() / 1000) + expiresInSeconds;
        const endpoints = { api: "https://copilot.example.com" };
        return { status: 200, answer: { token: `tid=${exchanges}`, expires_at: expiresAt, endpoints } };
      }
      const isKnownToken =
        headers.authorization === `Bearer tid=${exchanges}` || /pat_1$/.test(headers.authorization ?? "");
      if (!isKnownToken) return refuse(401, "unauthorized: token expired");
      if (headers["editor-version"] === undefined) return refuse(400, "missing Editor-Version header for IDE auth");
      return { path: `/v1${url}` };
    };
    return { front, exchangeCount: () => exchanges };
  };

  it("gets a short-lived token for an editor's token, which is replaced before it expires", async (t) => {
    for (const [lifetime, expectedExchanges] of [
      [1500, 1],
      [30, 3],
    ] as const) {
      const { front, exchangeCount } = createCopilotFront(lifetime);
      const { url, models, requests } = await startFront(t, front);
      const provider = createProvider(t, { preset: "copilot", baseUrl: url, apiKey: "ghu_editor" });
      models.models = [
        {
          ...{ id: "claude-sonnet-4.5", name: "Claude Sonnet 4.5" },
          capabilities: {
            type: "chat",
            limits: { max_prompt_tokens: 128_000, max_context_window_tokens: 144_000, max_output_tokens: 16_000 },
            supports: { vision: true, tool_calls: true },
          },
        },
        { id: "text-embedding-3-small", capabilities: { type: "embeddings" } },
      ];
      const [model, ...otherModels] = await provider.models(new AbortController().signal);
      assert.deepEqual(otherModels, []);
      assert.deepEqual(
        [model?.id, model?.contextWindow, model?.maxOutput, model?.input],
        ["claude-sonnet-4.5", 128_000, 16_000, ["text", "image"]],
      );
      const { message } = await readAnswer(provider, createRequest({ model: model! }));
      const messages = [userMessage("Hello"), message, userMessage("And?")];
      await readAnswer(provider, createRequest({ model: model!, messages }));
      assert.equal(exchangeCount(), expectedExchanges);
      assert.ok(requests.every(({ body }) => !body.includes("ghu_editor")));
    }
  });

  it("uses other tokens directly, marks the initiator and the cache, and returns Claude's encrypted reasoning", async (t) => {
    const { front, exchangeCount } = createCopilotFront(1500);
    const { url, models, requests } = await startFront(t, front);
    const provider = createProvider(t, { preset: "copilot", baseUrl: url, apiKey: "github_pat_1" });
    const delta = { reasoning_text: "Because.", reasoning_opaque: "OPAQUE" };
    models.enqueue({
      say: [
        { raw: `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n` },
        { call: { id: "c1", name: "read", arguments: { path: "a" } } },
      ],
    });
    const model = createModel({ id: "claude-sonnet-4.5" });
    const { message } = await readAnswer(provider, createRequest({ model, tools: [readTool] }));
    const messages = [userMessage("Hello"), message, toolResultMessage("c1", "read", "A")];
    await readAnswer(provider, createRequest({ model, tools: [readTool], messages }));
    const { body } = models.requests.at(-1)!;
    assert.deepEqual(
      [body.messages[2].reasoning_text, body.messages[2].reasoning_opaque, body.messages[2].content],
      ["Because.", "OPAQUE", null],
    );
    assert.deepEqual(body.messages[0].copilot_cache_control, { type: "ephemeral" });
    assert.deepEqual(
      requests.map(({ headers }) => headers["x-initiator"]),
      ["user", "agent"],
    );
    assert.equal(exchangeCount(), 0);
    // Another model does not get the reasoning.
    await readAnswer(provider, createRequest({ model: createModel({ id: "claude-opus-4.6" }), messages }));
    assert.equal(models.requests.at(-1)!.body.messages[2].reasoning_opaque, undefined);
  });
});
