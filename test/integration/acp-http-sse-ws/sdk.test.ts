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
import { call, say, startFakeModelServer } from "../../helpers/fake-model-server.js";
import { until } from "../../helpers/lab.js";
import { spawnGantry, startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp.js";

const { agent } = methods;

/** The stream of an unmodified client. Every message of the agent is validated. */
function checked(stream: Stream, profile: Profile, faults: unknown[]): Stream {
  const methodsById = new Map<string, string>();
  const readable = stream.readable.pipeThrough(
    new TransformStream({
      transform(message: Json, controller) {
        try {
          assertValidMessage(message, methodsById.get(JSON.stringify(message.id)), profile);
        } catch (error) {
          faults.push(error);
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
  const { readable: outgoing, writable } = recorder;
  outgoing.pipeTo(stream.writable).catch(() => undefined);
  return { readable, writable };
}

interface ConnectedClient {
  context: ClientContext;
  updates: SessionNotification[];
  text(sessionId: string, kind?: string): string;
}

/** Runs `work` with the official client on a stream. */
async function use(stream: Stream, profile: Profile, work: (client: ConnectedClient) => Promise<void>): Promise<void> {
  const faults: unknown[] = [];
  const updates: SessionNotification[] = [];
  const app = client({ name: "test" }).onNotification(
    methods.client.session.update,
    ({ params }) => void updates.push(params),
  );
  const text = (sessionId: string, kind = "agent_message_chunk") =>
    updates
      .filter((notification) => notification.sessionId === sessionId && notification.update.sessionUpdate === kind)
      .map(({ update }) => ("content" in update ? (update.content as Json).text : ""))
      .join("");
  await app.connectWith(checked(stream, profile, faults), async (context) => {
    const { protocolVersion } = await context.request(agent.initialize, {
      protocolVersion: 1,
      // Nothing is configured: only the client's name decides the profile.
      clientInfo: { name: profile === "official" ? "acpx" : "test", version: "1" },
      clientCapabilities: {},
    });
    assert.equal(protocolVersion, 1);
    await work({ context, updates, text });
  });
  if (faults.length > 0) throw faults[0];
}

const prompt = (text: string) => [{ type: "text" as const, text }];

function ask(context: ClientContext, sessionId: string, text: string, signal?: AbortSignal): Promise<PromptResponse> {
  const options = signal ? { cancellationSignal: signal } : {};
  return context.request<PromptResponse>(agent.session.prompt, { sessionId, prompt: prompt(text) }, options);
}

/**
 * Runs a new session, a prompt with a tool, a cancel, a list and a close. Returns the session id that the client
 * received.
 */
async function converse({ context, updates, text }: ConnectedClient, cwd: string, profile: Profile): Promise<string> {
  const { sessionId, configOptions } = await context.request(agent.session.new, { cwd, mcpServers: [] });
  assert.equal(configOptions?.[0]?.id, "model");
  const first = await ask(context, sessionId, "read it");
  assert.equal(first.stopReason, "end_turn");
  assert.equal(text(sessionId), "It says: hello");
  const statuses = updates
    .filter((notification) => notification.sessionId === sessionId)
    .flatMap(({ update }) => ("status" in update ? [update.status] : []));
  assert.deepEqual(
    statuses,
    profile === "official" ? ["pending", "in_progress", "completed"] : ["pending", "completed"],
  );
  const chunk = (from: number) =>
    until(() => updates.slice(from).some(({ update }) => update.sessionUpdate === "agent_message_chunk"));
  let from = updates.length;
  const second = ask(context, sessionId, "wait");
  await chunk(from);
  await context.notify(agent.session.cancel, { sessionId });
  assert.equal((await second).stopReason, "cancelled");
  from = updates.length;
  const abort = new AbortController();
  const third = ask(context, sessionId, "wait", abort.signal);
  await chunk(from);
  abort.abort();
  assert.equal((await third).stopReason, "cancelled");
  const { sessions } = await context.request(agent.session.list, { cwd });
  assert.ok(sessions.length > 0);
  await context.request(agent.session.close, { sessionId });
  return sessionId;
}

async function runConversation(t: TestContext, profile: Profile): Promise<void> {
  const model = await startFakeModelServer({
    aside: say("A title"),
    fallback: (request) => {
      const sentMessages = JSON.stringify(request.body.messages);
      const last = request.body.messages.at(-1);
      if (last.role === "tool") return say(["It says: ", "hello"]);
      // Checked first, because a prompt that was cancelled before its answer is sent together with the next prompt.
      if (JSON.stringify(last).includes("remember"))
        return say(sentMessages.includes("read it") ? "I know." : "I know nothing.");
      if (JSON.stringify(last).includes("wait")) return { say: [{ text: "Waiting" }, { stall: true }] };
      return call("read", { path: "note.txt" });
    },
  });
  t.after(() => model.close());
  const home = await tempDir(t);
  const project = await tempDir(t, { "note.txt": "hello" });
  const cwd = project.path;
  const entry = { id: "m1", name: "M 1", context_window: 128_000, max_output: 4000 };
  const options = {
    home: home.path,
    projectDir: cwd,
    config: {
      server: { port: 0 },
      providers: [{ name: "lab", driver: "openai", base_url: model.baseUrl, api_key: "x", models: [entry] }],
    },
  };
  const server = await startServer(t, { ...options, args: ["serve", "--acp"] });
  const url = `${server.url}/acp`;
  const sessionIds: string[] = [];
  const socket = () =>
    createWebSocketStream(url.replace("http", "ws"), { WebSocket: WebSocket as unknown as WebSocketConstructor });
  for (const stream of [createHttpStream(url), socket()]) {
    await use(
      stream,
      profile,
      async (connectedClient) => void sessionIds.push(await converse(connectedClient, cwd, profile)),
    );
  }
  const gantry = await spawnGantry(t, { ...options, args: ["serve", "--acp", "--stdio"] });
  // The stdout helper decodes text, which is converted back to bytes for the client.
  const bytes = Readable.toWeb(Readable.from(texts(gantry.child.stdout))) as ReadableStream<Uint8Array>;
  const stdio = ndJsonStream(Writable.toWeb(gantry.child.stdin) as WritableStream<Uint8Array>, bytes);
  await use(stdio, profile, async (connectedClient) => {
    const { context, text } = connectedClient;
    for (const sessionId of sessionIds) {
      await context.request(agent.session.load, { sessionId, cwd, mcpServers: [] });
      assert.match(text(sessionId, "user_message_chunk"), /^read it/);
      const { stopReason } = await ask(context, sessionId, "remember?");
      assert.equal(stopReason, "end_turn");
      assert.match(text(sessionId), /I know\.$/);
    }
    sessionIds.push(await converse(connectedClient, cwd, profile));
    await assert.rejects(
      context.request(agent.session.load, { sessionId: "missing", cwd, mcpServers: [] }),
      /session not found/,
    );
    await context.request(agent.session.delete, { sessionId: sessionIds[0]! });
  });
  gantry.child.stdin.end();
  assert.equal((await gantry.exited).code, 0);
  for (const stream of [createHttpStream(url), socket()]) {
    await use(stream, profile, async ({ context, text }) => {
      const sessionId = sessionIds[2]!;
      await context.request(agent.session.resume, { sessionId, cwd, mcpServers: [] });
      await ask(context, sessionId, "remember?");
      assert.equal(text(sessionId), "I know.");
      await assert.rejects(context.request(agent.session.load, { sessionId: sessionIds[0]!, cwd, mcpServers: [] }));
    });
  }
  assert.deepEqual(model.violations, []);
}

async function* texts(stream: AsyncIterable<string>): AsyncGenerator<Buffer> {
  for await (const text of stream) yield Buffer.from(text);
}

describe("the official ACP client, unmodified", () => {
  for (const profile of ["spec", "official"] satisfies Profile[])
    it(`creates, loads and resumes sessions across HTTP, WebSocket and stdio in the ${profile} profile`, (t) =>
      runConversation(t, profile));
});
