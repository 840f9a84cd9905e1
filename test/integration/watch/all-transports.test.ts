import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { Agent, builtinTools } from "gantry";
import { AiSdkProvider } from "gantry/adapters/language-models";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { SocketPeer } from "../../helpers/acp-http.js";
import type { AcpPeer, Json } from "../../helpers/acp-peer.js";
import { spawnAcpServer } from "../../helpers/acp-process.js";
import { EventPage, readSessionEvents, type WireMessage } from "../../helpers/event-page.js";
import { startFakeModelServer } from "../../helpers/fake-model-server.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";
import { joinTexts, WatchedPage } from "../../helpers/watched-page.js";

/** Whether to test all pairs of starting and acting clients. Otherwise each client starts once and acts once. */
const TEST_ALL_PAIRS = process.env["TRANSPORTS"] === "all";

/** A client of one session, over any transport. */
interface Client {
  name: string;
  /** Starts a run. Resolves when the run has started. */
  startRun(message: string): Promise<void>;
  /** Returns the text of the model that this client has received. */
  getAnswerText(): string;
  /** Whether this client knows that the newest of `runCount` runs is in this state. */
  hasState(state: "running" | "waiting" | "finished" | "cancelled", runCount: number): boolean;
  /** Allows the permission request as soon as this client has received it. */
  allow(): Promise<void>;
  /** Cancels the active run. */
  cancel(): Promise<void>;
  close(): Promise<unknown>;
  /** Whether this client has received everything that is stored. */
  hasAllStoredMessages(): Promise<boolean>;
}

/** Waits until `condition` returns true. A failure reports what the client has received. */
async function waitForCondition(
  condition: () => boolean | Promise<boolean>,
  describeState: () => string,
): Promise<void> {
  await waitUntil(condition).catch((error: unknown) => {
    throw new Error(`condition not met: ${describeState()}`, { cause: error });
  });
}

/** Connects a browser page, or a program in another language, to a server. */
function connectHttp(name: string, server: GantryServer, id: string): Client {
  const page = new EventPage();
  const abortController = new AbortController();
  const pageWatcher = (async () => {
    for await (const event of readSessionEvents(
      `${server.url}/api/sessions/${id}/events?can_answer=true`,
      {},
      abortController.signal,
    ))
      page.apply(event);
  })().catch((error: unknown) => assert.ok(abortController.signal.aborted, String(error)));
  const post = async (path: string, body: object) => {
    const response = await server.fetch(path, {
      method: "POST",
      headers: server.personHeaders,
      body: JSON.stringify(body),
    });
    assert.ok(response.ok, `${path}: ${response.status} ${await response.text()}`);
  };
  return {
    name,
    startRun: (message) => post("/api/run", { message, session_id: id, background: true }),
    getAnswerText: () =>
      page.messages.map(({ role, content }) => (role === "assistant" ? String(content) : "")).join(""),
    hasState: (state) => page.state?.run?.state === state,
    allow: async () => {
      await waitForCondition(
        () => page.state?.asks.length > 0,
        () => JSON.stringify(page.state),
      );
      await post(`/api/asks/${page.state.asks[0].id}`, { choice: "allow" });
    },
    cancel: () => post(`/api/sessions/${id}/cancel`, {}),
    close: () => (abortController.abort(), pageWatcher),
    hasAllStoredMessages: async () => {
      const messagesResponse = await server.fetch(`/api/sessions/${id}/messages`);
      return isDeepStrictEqual(
        page.messages,
        ((await messagesResponse.json()) as { messages: WireMessage[] }).messages,
      );
    },
  };
}

/** Connects a program that has its own agent on the store. */
function connectSdk(agent: Agent, id: string): Client {
  const page = new WatchedPage();
  const abortController = new AbortController();
  const sessionWatcher = (async () => {
    for await (const event of agent.sessions.watch(id, { canAnswer: true, signal: abortController.signal }))
      page.apply(event);
  })();
  const pendingRuns: Promise<unknown>[] = [];
  return {
    name: "sdk",
    startRun: async (message) => {
      const { result } = await agent.run({ message, sessionId: id });
      pendingRuns.push(result.catch(() => undefined));
    },
    getAnswerText: () =>
      page.messages
        .flatMap(({ role, parts }) => (role === "assistant" ? parts : []))
        .map((part) => (part.type === "text" ? part.text : ""))
        .join(""),
    hasState: (state) => page.state?.run?.state === state,
    allow: async () => {
      await waitForCondition(
        () => (page.state?.asks.length ?? 0) > 0,
        () => JSON.stringify(page.state),
      );
      await agent.asks.answer(page.state?.asks[0]?.id ?? "", { choice: "allow" });
    },
    cancel: async () => {
      const [run] = await agent.runs.list({ sessionId: id, states: ["running", "waiting"] });
      // The call waits up to 5 s for the other process. The state is checked for all clients later.
      await agent.runs.cancel(run?.id ?? "");
    },
    close: async () => {
      abortController.abort();
      await sessionWatcher;
      await agent.close();
      await Promise.all(pendingRuns);
    },
    hasAllStoredMessages: async () =>
      isDeepStrictEqual(page.messages, (await agent.sessions.messages(id)).map(joinTexts)),
  };
}

/** Connects an editor. ACP sends the permission requests of a run, and the usage at the end of a run. */
async function connectAcp(name: string, peer: AcpPeer, server: GantryServer, id: string, cwd: string): Promise<Client> {
  peer.profile = "official";
  // `allow` answers the request.
  peer.onRequest = () => undefined;
  const answeredIds = new Set<unknown>();
  /** The open permission request that this client has received. */
  const findOpenRequest = (): Json => {
    const cancelledIds = peer.receivedMessages
      .filter(({ method }) => method === "$/cancel_request")
      .map(({ params }) => params.requestId);
    return peer.receivedMessages.findLast(
      ({ method, id }) => method === "session/request_permission" && !cancelledIds.includes(id) && !answeredIds.has(id),
    );
  };
  await peer.initialize({ clientInfo: { name: "zed", version: "1" } });
  await peer.request("session/load", { sessionId: id, cwd, mcpServers: [] });
  const countEndedRuns = () => peer.getUpdates().filter(({ sessionUpdate }) => sessionUpdate === "usage_update").length;
  const initialEndCount = countEndedRuns();
  const pendingPrompts: Promise<unknown>[] = [];
  return {
    name,
    startRun: async (message) => void pendingPrompts.push(peer.prompt(id, message)),
    getAnswerText: () => peer.getText(),
    hasState: (state, runCount) => {
      if (state === "waiting") return findOpenRequest() !== undefined;
      return (
        findOpenRequest() === undefined &&
        countEndedRuns() - initialEndCount === (state === "running" ? runCount - 1 : runCount)
      );
    },
    allow: async () => {
      await waitForCondition(
        () => findOpenRequest() !== undefined,
        () => JSON.stringify(peer.receivedMessages.slice(-5)),
      );
      const { id, params } = findOpenRequest();
      const { optionId } = params.options.find(({ kind }: Json) => kind === "allow_once");
      answeredIds.add(id);
      peer.send({ jsonrpc: "2.0", id, result: { outcome: { outcome: "selected", optionId } } });
    },
    cancel: async () => peer.notify("session/cancel", { sessionId: id }),
    close: async () => {
      await Promise.all(pendingPrompts);
      peer.assertNoValidationErrors();
    },
    hasAllStoredMessages: async () => {
      const messagesResponse = await server.fetch(`/api/sessions/${id}/messages`);
      const { messages } = (await messagesResponse.json()) as { messages: WireMessage[] };
      return peer.getText() === messages.map((m) => (m.role === "assistant" ? String(m.content) : "")).join("");
    },
  };
}

/** Starts two servers and an agent on one store, and connects a client to one session over each transport. */
async function connectClients(hooks: Hooks) {
  const clients: Client[] = [];
  // Runs before the servers stop.
  hooks.after(async () => void (await Promise.all(clients.map((client) => client.close()))));
  const model = await startFakeModelServer({ toolFreeAnswer: { say: [{ text: "A title" }] } });
  hooks.after(() => model.close());
  const [home, folder] = [await tempDir(hooks), await tempDir(hooks)];
  const config = {
    server: { transports: ["koa-http-api", "acp-http-sse-ws"] },
    providers: [{ name: "fake", driver: "openai", base_url: model.baseUrl, api_key: "k", models: [{ id: "m1" }] }],
  };
  const startInstance = () => startServer(hooks, { home: home.path, projectDir: folder.path, config });
  const firstServer = await startInstance();
  const secondServer = await startInstance();
  const agent = new Agent({
    providers: [new AiSdkProvider({ name: "fake", baseUrl: model.baseUrl, apiKey: "k" })],
    driver: new SqliteDriver({ path: home.at("sessions.db") }),
    tools: builtinTools(),
    projectDir: folder.path,
  });
  const { id } = await agent.sessions.create();
  await agent.sessions.update(id, { mode: "ask" });
  const socket = new SocketPeer(`${firstServer.url}/acp`);
  await socket.waitUntilOpen();
  const { peer } = await spawnAcpServer(hooks, { home: home.path, projectDir: folder.path, config });
  clients.push(
    connectHttp("http", firstServer, id),
    connectHttp("http at another server", secondServer, id),
    connectSdk(agent, id),
    await connectAcp("acp over a socket", socket, firstServer, id, folder.path),
    await connectAcp("acp over stdio", peer, firstServer, id, folder.path),
  );
  /** Waits until `condition` is true for every client. */
  const waitForAll = async (condition: (client: Client) => boolean | Promise<boolean>) => {
    for (const client of clients)
      await waitForCondition(
        () => condition(client),
        () => `${client.name} received ${client.getAnswerText().slice(-200)}`,
      );
  };
  const pairs = clients.flatMap((starter, starterIndex) =>
    clients.map((actor, actorIndex) => ({
      starter,
      actor,
      isNext: actorIndex === (starterIndex + 1) % clients.length,
    })),
  );
  return { model, waitForAll, folder, pairs: pairs.filter(({ isNext }) => TEST_ALL_PAIRS || isNext) };
}

describe("clients of one session on every transport", () => {
  it("all see a run that any client starts, and any client can allow its permission request", async (t) => {
    const { model, waitForAll, folder, pairs } = await connectClients(t);
    let [expectedText, runCount] = ["", 0];
    for (const { starter, actor } of pairs) {
      const name = `${starter.name}, ${actor.name}`;
      const call = { name: "write", arguments: { filePath: `${name}.txt`, content: name } };
      model.enqueue({ say: [{ text: [`${name}: `, "I write. "] }, { gate: name }, { call }] });
      model.enqueue({ say: [{ text: "Written. " }] });
      runCount += 1;
      await starter.startRun(name);
      expectedText += `${name}: I write. `;
      await waitForAll((client) => client.getAnswerText() === expectedText && client.hasState("running", runCount));
      model.openGate(name);
      await waitForAll((client) => client.hasState("waiting", runCount));
      await actor.allow();
      expectedText += "Written. ";
      await waitForAll((client) => client.getAnswerText() === expectedText && client.hasState("finished", runCount));
      assert.equal(await folder.read(`${name}.txt`), name);
    }
    await waitForAll((client) => client.hasAllStoredMessages());
  });

  it("all see that any client cancels a run of another client", async (t) => {
    const { model, waitForAll, pairs } = await connectClients(t);
    let [expectedText, runCount] = ["", 0];
    for (const { starter, actor } of pairs) {
      // ACP reports no usage for a run without cost, so a tool call comes first.
      model.enqueue({ say: [{ call: { name: "list", arguments: {} } }] });
      model.enqueue({ say: [{ text: "For ever. " }, { stall: true }] });
      runCount += 1;
      await starter.startRun("Go on for ever.");
      expectedText += "For ever. ";
      await waitForAll((client) => client.getAnswerText() === expectedText && client.hasState("running", runCount));
      await actor.cancel();
      await waitForAll((client) => client.hasState("cancelled", runCount));
    }
    await waitForAll((client) => client.hasAllStoredMessages());
  });
});
