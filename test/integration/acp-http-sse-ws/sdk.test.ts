import assert from "node:assert/strict";
import { Readable, Writable } from "node:stream";
import { describe, it, type TestContext } from "node:test";
import {
  client,
  methods,
  ndJsonStream,
  type ClientContext,
  type PromptResponse,
  type SessionNotification,
  type Stream,
} from "@agentclientprotocol/sdk";
import { createHttpStream } from "@agentclientprotocol/sdk/experimental/http-client";
import { createWebSocketStream, type WebSocketConstructor } from "@agentclientprotocol/sdk/experimental/ws-client";
import { WebSocket } from "ws";
import type { Profile } from "../../../adapters/acp-shared/index.js";
import type { Json } from "../../helpers/acp-peer.js";
import { assertValidMessage } from "../../helpers/acp-schema.js";
import { callStep, textStep, startFakeModelServer } from "../../helpers/fake-model-server.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { spawnGantry, startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

const { agent } = methods;

/** Wraps the stream of an unmodified client. Adds an error to `validationErrors` for each invalid agent message. */
function validateStream(stream: Stream, profile: Profile, validationErrors: unknown[]): Stream {
  const methodsById = new Map<string, string>();
  const readable = stream.readable.pipeThrough(
    new TransformStream({
      transform(message: Json, controller) {
        try {
          assertValidMessage(message, methodsById.get(JSON.stringify(message.id)), profile);
        } catch (error) {
          validationErrors.push(error);
        }
        controller.enqueue(message);
      },
    }),
  );
  const recorder = new TransformStream({
    transform(message: Json, controller) {
      if (message.method !== undefined && message.id !== undefined)
        methodsById.set(JSON.stringify(message.id), message.method);
      controller.enqueue(message);
    },
  });
  const { readable: outgoingMessages, writable } = recorder;
  outgoingMessages.pipeTo(stream.writable).catch(() => undefined);
  return { readable, writable };
}

interface ConnectedClient {
  context: ClientContext;
  updates: SessionNotification[];
  /** Returns the joined text of the updates of one kind. Default: `agent_message_chunk`. */
  getText(sessionId: string, kind?: string): string;
}

/** Runs `work` with the official client on a stream. Throws the first validation error after `work` has ended. */
async function runClient(
  stream: Stream,
  profile: Profile,
  work: (client: ConnectedClient) => Promise<void>,
): Promise<void> {
  const validationErrors: unknown[] = [];
  const updates: SessionNotification[] = [];
  const app = client({ name: "test" }).onNotification(
    methods.client.session.update,
    ({ params }) => void updates.push(params),
  );
  const getText = (sessionId: string, kind = "agent_message_chunk") =>
    updates
      .filter((notification) => notification.sessionId === sessionId && notification.update.sessionUpdate === kind)
      .map(({ update }) => ("content" in update ? (update.content as Json).text : ""))
      .join("");
  await app.connectWith(validateStream(stream, profile, validationErrors), async (context) => {
    const { protocolVersion } = await context.request(agent.initialize, {
      protocolVersion: 1,
      // The profile is not configured, so it depends only on the client's name.
      clientInfo: { name: profile === "official" ? "acpx" : "test", version: "1" },
      clientCapabilities: {},
    });
    assert.equal(protocolVersion, 1);
    await work({ context, updates, getText });
  });
  if (validationErrors.length > 0) throw validationErrors[0];
}

const createPrompt = (text: string) => [{ type: "text" as const, text }];

function sendPrompt(
  context: ClientContext,
  sessionId: string,
  text: string,
  signal?: AbortSignal,
): Promise<PromptResponse> {
  const options = signal ? { cancellationSignal: signal } : {};
  return context.request<PromptResponse>(agent.session.prompt, { sessionId, prompt: createPrompt(text) }, options);
}

/**
 * Runs a new session, a prompt with a tool, a cancel, a list and a close. Returns the session id that the client
 * received.
 */
async function runSteps(
  { context, updates, getText }: ConnectedClient,
  cwd: string,
  profile: Profile,
): Promise<string> {
  const { sessionId, configOptions } = await context.request(agent.session.new, { cwd, mcpServers: [] });
  assert.equal(configOptions?.[0]?.id, "model");
  const firstResult = await sendPrompt(context, sessionId, "read it");
  assert.equal(firstResult.stopReason, "end_turn");
  assert.equal(getText(sessionId), "It says: hello");
  const statuses = updates
    .filter((notification) => notification.sessionId === sessionId)
    .flatMap(({ update }) => ("status" in update ? [update.status] : []));
  assert.deepEqual(
    statuses,
    profile === "official" ? ["pending", "in_progress", "completed"] : ["pending", "completed"],
  );
  const waitForChunk = (startIndex: number) =>
    waitUntil(() => updates.slice(startIndex).some(({ update }) => update.sessionUpdate === "agent_message_chunk"));
  let updateCount = updates.length;
  const cancelledPrompt = sendPrompt(context, sessionId, "wait");
  await waitForChunk(updateCount);
  await context.notify(agent.session.cancel, { sessionId });
  assert.equal((await cancelledPrompt).stopReason, "cancelled");
  updateCount = updates.length;
  const abortController = new AbortController();
  const abortedPrompt = sendPrompt(context, sessionId, "wait", abortController.signal);
  await waitForChunk(updateCount);
  abortController.abort();
  assert.equal((await abortedPrompt).stopReason, "cancelled");
  const { sessions } = await context.request(agent.session.list, { cwd });
  assert.ok(sessions.length > 0);
  await context.request(agent.session.close, { sessionId });
  return sessionId;
}

async function runConversation(t: TestContext, profile: Profile): Promise<void> {
  const model = await startFakeModelServer({
    toolFreeAnswer: textStep("A title"),
    fallback: (request) => {
      const sentMessages = JSON.stringify(request.body.messages);
      const lastMessage = request.body.messages.at(-1);
      if (lastMessage.role === "tool") return textStep(["It says: ", "hello"]);
      // This check is first, because a cancelled prompt without an answer is sent together with the next prompt.
      if (JSON.stringify(lastMessage).includes("remember"))
        return textStep(sentMessages.includes("read it") ? "I know." : "I know nothing.");
      if (JSON.stringify(lastMessage).includes("wait")) return { say: [{ text: "Waiting" }, { stall: true }] };
      return callStep("read", { path: "note.txt" });
    },
  });
  t.after(() => model.close());
  const home = await tempDir(t);
  const project = await tempDir(t, { "note.txt": "hello" });
  const cwd = project.path;
  const modelEntry = { id: "m1", name: "M 1", context_window: 128_000, max_output: 4000 };
  const options = {
    home: home.path,
    projectDir: cwd,
    config: {
      server: { port: 0 },
      providers: [{ name: "lab", driver: "openai", base_url: model.baseUrl, api_key: "x", models: [modelEntry] }],
    },
  };
  const server = await startServer(t, { ...options, args: ["serve", "--acp"] });
  const url = `${server.url}/acp`;
  const sessionIds: string[] = [];
  // Opened one after the other, because the server closes a connection that is not used soon.
  const streamFactories = [
    () => createHttpStream(url),
    () => createWebSocketStream(url.replace("http", "ws"), { WebSocket: WebSocket as unknown as WebSocketConstructor }),
  ];
  for (const createStream of streamFactories) {
    await runClient(
      createStream(),
      profile,
      async (connectedClient) => void sessionIds.push(await runSteps(connectedClient, cwd, profile)),
    );
  }
  const gantry = await spawnGantry(t, { ...options, args: ["serve", "--acp", "--stdio"] });
  // The test helper decodes stdout to text, which the client needs as bytes.
  const stdoutBytes = Readable.toWeb(Readable.from(encodeTexts(gantry.child.stdout))) as ReadableStream<Uint8Array>;
  const stdioStream = ndJsonStream(Writable.toWeb(gantry.child.stdin) as WritableStream<Uint8Array>, stdoutBytes);
  await runClient(stdioStream, profile, async (connectedClient) => {
    const { context, getText } = connectedClient;
    for (const sessionId of sessionIds) {
      await context.request(agent.session.load, { sessionId, cwd, mcpServers: [] });
      assert.match(getText(sessionId, "user_message_chunk"), /^read it/);
      const { stopReason } = await sendPrompt(context, sessionId, "remember?");
      assert.equal(stopReason, "end_turn");
      assert.match(getText(sessionId), /I know\.$/);
    }
    sessionIds.push(await runSteps(connectedClient, cwd, profile));
    await assert.rejects(
      context.request(agent.session.load, { sessionId: "missing", cwd, mcpServers: [] }),
      /session not found/,
    );
    await context.request(agent.session.delete, { sessionId: sessionIds[0]! });
  });
  gantry.child.stdin.end();
  assert.equal((await gantry.exited).code, 0);
  for (const createStream of streamFactories) {
    await runClient(createStream(), profile, async ({ context, getText }) => {
      const sessionId = sessionIds[2]!;
      await context.request(agent.session.resume, { sessionId, cwd, mcpServers: [] });
      await sendPrompt(context, sessionId, "remember?");
      assert.equal(getText(sessionId), "I know.");
      await assert.rejects(context.request(agent.session.load, { sessionId: sessionIds[0]!, cwd, mcpServers: [] }));
    });
  }
  assert.deepEqual(model.violations, []);
}

async function* encodeTexts(stream: AsyncIterable<string>): AsyncGenerator<Buffer> {
  for await (const text of stream) yield Buffer.from(text);
}

describe("the official ACP client, unmodified", () => {
  for (const profile of ["spec", "official"] satisfies Profile[])
    it(`creates, loads and resumes sessions across HTTP, WebSocket and stdio in the ${profile} profile`, (t) =>
      runConversation(t, profile));
});
