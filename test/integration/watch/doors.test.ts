import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { Agent, builtinTools } from "gantry";
import { AiSdkProvider } from "gantry/adapters/language-models";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { SocketPeer } from "../../helpers/acp-http.js";
import type { AcpPeer, Json } from "../../helpers/acp-peer.js";
import { spawnAcp } from "../../helpers/acp-process.js";
import { EventPage, eventsOf, type WireMessage } from "../../helpers/event-page.js";
import { startFakeModelServer } from "../../helpers/fake-model-server.js";
import { until as holds } from "../../helpers/lab.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { tempDir, type Hooks } from "../../helpers/temp.js";
import { comparable, WatchedPage } from "../../helpers/watched-page.js";

/** Whether to test all pairs of starting and acting clients. Otherwise each client does each once. */
const PAIRS = process.env["DOORS"] === "all";

/** A client of one session, over any transport. */
interface Door {
  name: string;
  /** Starts a run. Resolves when it has started. */
  begin(message: string): Promise<void>;
  /** The text of the model, as this client received it. */
  answerText(): string;
  /** Whether this client knows that the newest of `runs` runs is in this state. */
  stands(state: "running" | "waiting" | "finished" | "cancelled", runs: number): boolean;
  /** Allows the permission request as soon as this client has received it. */
  allow(): Promise<void>;
  /** Cancels the active run. */
  cancel(): Promise<void>;
  close(): Promise<unknown>;
  /** Whether this client has received everything that is stored. */
  hasAll(): Promise<boolean>;
}

/** Waits until `isSo` returns true. A failure reports what the client has received. */
async function until(isSo: () => boolean | Promise<boolean>, describe: () => string): Promise<void> {
  await holds(isSo).catch((error: unknown) => {
    throw new Error(`in vain: ${describe()}`, { cause: error });
  });
}

/** A browser page, or a program in another language, connected to a server. */
function httpDoor(name: string, server: GantryServer, id: string): Door {
  const page = new EventPage();
  const over = new AbortController();
  const watching = (async () => {
    for await (const event of eventsOf(`${server.url}/api/sessions/${id}/events?can_answer=true`, {}, over.signal))
      page.apply(event);
  })().catch((error: unknown) => assert.ok(over.signal.aborted, String(error)));
  const post = async (path: string, body: object) => {
    const answer = await server.fetch(path, {
      method: "POST",
      headers: server.personHeaders,
      body: JSON.stringify(body),
    });
    assert.ok(answer.ok, `${path}: ${answer.status} ${await answer.text()}`);
  };
  return {
    name,
    begin: (message) => post("/api/run", { message, session_id: id, background: true }),
    answerText: () => page.messages.map(({ role, content }) => (role === "assistant" ? String(content) : "")).join(""),
    stands: (state) => page.state?.run?.state === state,
    allow: async () => {
      await until(
        () => page.state?.asks.length > 0,
        () => JSON.stringify(page.state),
      );
      await post(`/api/asks/${page.state.asks[0].id}`, { choice: "allow" });
    },
    cancel: () => post(`/api/sessions/${id}/cancel`, {}),
    close: () => (over.abort(), watching),
    hasAll: async () => {
      const answer = await server.fetch(`/api/sessions/${id}/messages`);
      return isDeepStrictEqual(page.messages, ((await answer.json()) as { messages: WireMessage[] }).messages);
    },
  };
}

/** A program with its own agent on the store. */
function sdkDoor(agent: Agent, id: string): Door {
  const page = new WatchedPage();
  const over = new AbortController();
  const watching = (async () => {
    for await (const event of agent.sessions.watch(id, { canAnswer: true, signal: over.signal })) page.apply(event);
  })();
  const runs: Promise<unknown>[] = [];
  return {
    name: "sdk",
    begin: async (message) => {
      const { result } = await agent.run({ message, sessionId: id });
      runs.push(result.catch(() => undefined));
    },
    answerText: () =>
      page.messages
        .flatMap(({ role, parts }) => (role === "assistant" ? parts : []))
        .map((part) => (part.type === "text" ? part.text : ""))
        .join(""),
    stands: (state) => page.state?.run?.state === state,
    allow: async () => {
      await until(
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
      over.abort();
      await watching;
      await agent.close();
      await Promise.all(runs);
    },
    hasAll: async () => isDeepStrictEqual(page.messages, (await agent.sessions.messages(id)).map(comparable)),
  };
}

/** An editor. It receives a run's permission requests, and its usage at the end. */
async function acpDoor(name: string, peer: AcpPeer, id: string, cwd: string): Promise<Door> {
  peer.profile = "official";
  // `allow` answers the request.
  peer.onRequest = () => undefined;
  const answered = new Set<unknown>();
  /** The open permission request that this client has received. */
  const open = (): Json => {
    const gone = peer.received
      .filter(({ method }) => method === "$/cancel_request")
      .map(({ params }) => params.requestId);
    return peer.received.findLast(
      ({ method, id }) => method === "session/request_permission" && !gone.includes(id) && !answered.has(id),
    );
  };
  await peer.initialize({ clientInfo: { name: "zed", version: "1" } });
  await peer.request("session/load", { sessionId: id, cwd, mcpServers: [] });
  const ends = () => peer.updates().filter(({ sessionUpdate }) => sessionUpdate === "usage_update").length;
  const before = ends();
  const prompts: Promise<unknown>[] = [];
  return {
    name,
    begin: async (message) => void prompts.push(peer.prompt(id, message)),
    answerText: () => peer.text(),
    stands: (state, runs) => {
      if (state === "waiting") return open() !== undefined;
      return open() === undefined && ends() - before === (state === "running" ? runs - 1 : runs);
    },
    allow: async () => {
      await until(
        () => open() !== undefined,
        () => JSON.stringify(peer.received.slice(-5)),
      );
      const { id, params } = open();
      const { optionId } = params.options.find(({ kind }: Json) => kind === "allow_once");
      answered.add(id);
      peer.send({ jsonrpc: "2.0", id, result: { outcome: { outcome: "selected", optionId } } });
    },
    cancel: async () => peer.notify("session/cancel", { sessionId: id }),
    close: async () => {
      await Promise.all(prompts);
      peer.assertClean();
    },
    hasAll: async () => true,
  };
}

/** Two servers and this process on one store, with a client on each transport of one session. */
async function openDoors(hooks: Hooks) {
  const doors: Door[] = [];
  // Runs before the servers stop.
  hooks.after(async () => void (await Promise.all(doors.map((door) => door.close()))));
  const model = await startFakeModelServer({ aside: { say: [{ text: "A title" }] } });
  hooks.after(() => model.close());
  const [home, folder] = [await tempDir(hooks), await tempDir(hooks)];
  const config = {
    server: { transports: ["koa-http-api", "acp-http-sse-ws"] },
    providers: [{ name: "fake", driver: "openai", base_url: model.baseUrl, api_key: "k", models: [{ id: "m1" }] }],
  };
  const start = () => startServer(hooks, { home: home.path, projectDir: folder.path, config });
  const first = await start();
  const second = await start();
  const agent = new Agent({
    providers: [new AiSdkProvider({ name: "fake", baseUrl: model.baseUrl, apiKey: "k" })],
    driver: new SqliteDriver({ path: home.at("sessions.db") }),
    tools: builtinTools(),
    projectDir: folder.path,
  });
  const { id } = await agent.sessions.create();
  await agent.sessions.update(id, { mode: "ask" });
  const socket = new SocketPeer(`${first.url}/acp`);
  await socket.opened();
  const { peer } = await spawnAcp(hooks, { home: home.path, projectDir: folder.path, config });
  doors.push(
    httpDoor("http", first, id),
    httpDoor("http at another server", second, id),
    sdkDoor(agent, id),
    await acpDoor("acp over a socket", socket, id, folder.path),
    await acpDoor("acp over stdio", peer, id, folder.path),
  );
  /** Waits until `what` is true for every client. */
  const all = async (what: (door: Door) => boolean | Promise<boolean>) => {
    for (const door of doors)
      await until(
        () => what(door),
        () => `${door.name} was told ${door.answerText().slice(-200)}`,
      );
  };
  const pairs = doors.flatMap((starter, at) =>
    doors.map((actor, behind) => ({ starter, other: actor, isNext: behind === (at + 1) % doors.length })),
  );
  return { model, all, folder, pairs: pairs.filter(({ isNext }) => PAIRS || isNext) };
}

describe("one session, and somebody at each of its doors", () => {
  it("all see the run that any of them begins, and any of them allows what it asks", async (t) => {
    const { model, all, folder, pairs } = await openDoors(t);
    let [expectedText, runs] = ["", 0];
    for (const { starter, other: actor } of pairs) {
      const name = `${starter.name}, ${actor.name}`;
      const call = { name: "write", arguments: { filePath: `${name}.txt`, content: name } };
      model.enqueue({ say: [{ text: [`${name}: `, "I write. "] }, { gate: name }, { call }] });
      model.enqueue({ say: [{ text: "Written. " }] });
      runs += 1;
      await starter.begin(name);
      expectedText += `${name}: I write. `;
      await all((door) => door.answerText() === expectedText && door.stands("running", runs));
      model.open(name);
      await all((door) => door.stands("waiting", runs));
      await actor.allow();
      expectedText += "Written. ";
      await all((door) => door.answerText() === expectedText && door.stands("finished", runs));
      assert.equal(await folder.read(`${name}.txt`), name);
    }
    await all((door) => door.hasAll());
  });

  it("any of them cancels the run of any, and all are told", async (t) => {
    const { model, all, pairs } = await openDoors(t);
    let [expectedText, runs] = ["", 0];
    for (const { starter, other: actor } of pairs) {
      // ACP reports no usage for a run without cost, so a tool call comes first.
      model.enqueue({ say: [{ call: { name: "list", arguments: {} } }] });
      model.enqueue({ say: [{ text: "For ever. " }, { stall: true }] });
      runs += 1;
      await starter.begin("Go on for ever.");
      expectedText += "For ever. ";
      await all((door) => door.answerText() === expectedText && door.stands("running", runs));
      await actor.cancel();
      await all((door) => door.stands("cancelled", runs));
    }
    await all((door) => door.hasAll());
  });
});
