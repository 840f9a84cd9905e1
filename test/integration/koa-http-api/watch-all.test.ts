import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { callTools, type ScriptedChunk } from "gantry/testing";
import {
  GantryClient,
  NotFoundError,
  SessionMirror,
  UnauthorizedError,
  type ApiAsk,
  type ConnectionState,
  type WatchAll,
  type WatchedEvent,
} from "gantry/client";
import { echoTextTool } from "../../helpers/http-api-tools.js";
import { startApi } from "../../helpers/http-api.js";
import { createRandom, readSeed } from "../../helpers/random.js";
import { startScriptedProxy } from "../../helpers/scripted-proxy.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { TcpProxy } from "../../helpers/tcp-proxy.js";
import type { Hooks } from "../../helpers/temp-dir.js";

const SEED = readSeed();

/** Text chunks of one word each. After each chunk the provider waits 4 ms. */
const createWordChunks = (count: number): ScriptedChunk[] =>
  Array.from({ length: count }, (_, i): ScriptedChunk[] => [{ type: "text", block: "0", text: `w${i} ` }, 4]).flat();

/** Opens `client.watchAll`, which the test closes. */
async function openWatchAll(t: Hooks, client: GantryClient, options = {}): Promise<WatchAll> {
  const watchAll = await client.watchAll(options);
  t.after(() => watchAll.close());
  return watchAll;
}

/** Applies a session's events to a page in the background, until the returned function is called. */
function follow(watchAll: WatchAll, id: string, mirror: SessionMirror): () => Promise<void> {
  const controller = new AbortController();
  const following = (async () => {
    for await (const event of watchAll.watch(id, { after: mirror.cursor, signal: controller.signal }))
      mirror.apply(event);
  })();
  return () => {
    controller.abort();
    return following;
  };
}

const takeEvent = async (events: AsyncGenerator<WatchedEvent>): Promise<WatchedEvent> => {
  const { done, value } = await events.next();
  assert.ok(!done, "the watch ended");
  return value as WatchedEvent;
};

describe("watchAll of GantryClient", () => {
  it("builds the pages of all sessions, although connections break and sessions are added and removed", async (t) => {
    t.diagnostic(`seed ${SEED}`);
    const random = createRandom(SEED);
    const api = await startApi(t, { providerOptions: { fallback: createWordChunks(30) } });
    const proxy = await TcpProxy.startBefore(t, api.url);
    // A cut in the moment of a connect can leave Node's fetch waiting until this limit.
    const client = new GantryClient({ url: proxy.toProxyUrl(api.url), silenceMs: 2_000 });
    const watchAll = await openWatchAll(t, client);
    const directClient = new GantryClient({ url: api.url });
    const ids = await Promise.all(Array.from({ length: 3 }, async () => (await api.agent.sessions.create()).id));
    // Two readers of each session, as two windows that show it.
    const pages = [...ids, ...ids].map((id) => ({ id, mirror: new SessionMirror() }));
    const stops = pages.map(({ id, mirror }) => follow(watchAll, id, mirror));
    const state = { isRunning: true };
    const disturb = async () => {
      while (state.isRunning) {
        const index = Math.floor(random() * pages.length);
        const { id, mirror } = pages[index]!;
        if (random() < 0.1) proxy.cutAll();
        await stops[index]!();
        // Time: lets events arrive between two disturbances.
        await new Promise((resolve) => setTimeout(resolve, random() * 60));
        stops[index] = follow(watchAll, id, mirror);
      }
    };
    const disturbing = disturb();
    for (let round = 0; round < 2; round += 1)
      await Promise.all(ids.map((id) => directClient.run({ message: `m${round}`, session_id: id })));
    state.isRunning = false;
    await disturbing;
    for (const { id, mirror } of pages) {
      const messages = await directClient.sessions.messages(id);
      await waitUntil(() => isDeepStrictEqual(mirror.messages, messages) && mirror.state?.run?.state === "finished");
      assert.equal(JSON.stringify(mirror.messages), JSON.stringify(messages));
    }
    t.diagnostic(`${proxy.cutCount} cuts`);
    for (const stop of stops) await stop();
  });

  it("uses one connection for sessions added together, and another connection instead of the first for changes", async (t) => {
    const api = await startApi(t);
    const { url, requests } = await startScriptedProxy(t, api.url);
    const client = new GantryClient({ url });
    const asks: (readonly ApiAsk[])[] = [];
    const states: ConnectionState[] = [];
    const sessionIds: string[] = [];
    const ids = await Promise.all(Array.from({ length: 70 }, async () => (await api.agent.sessions.create()).id));
    const watchAll = await openWatchAll(t, client, {
      onAsks: (list: readonly ApiAsk[]) => asks.push(list),
      onConnection: (state: ConnectionState) => states.push(state),
      onSession: ({ id }: { id: string }) => sessionIds.push(id),
      onSessionRemoved: (id: string) => sessionIds.push(`removed ${id}`),
    });
    const watches = ids.slice(0, 20).map((id) => watchAll.watch(id));
    const firstEvents = await Promise.all(watches.map(takeEvent));
    assert.ok(firstEvents.every(({ type, first }) => type === "state" && first));
    assert.deepEqual([requests.length, states], [1, ["open"]]);
    await waitUntil(() => watchAll.asks);
    assert.deepEqual([watchAll.asks, asks], [[], [[]]]);
    // A watch that ends and another that begins at the same time cause one connection.
    await watches[0]!.return();
    const nextWatch = watchAll.watch(ids[20]!);
    await takeEvent(nextWatch);
    assert.equal(requests.length, 2);
    assert.equal(new URL(requests[1]!.path, url).searchParams.getAll("watch").length, 20);
    assert.deepEqual(states, ["open"], "a replaced connection is not reported as lost");
    // A connection has at most 64 sessions.
    const moreWatches = ids.slice(21).map((id) => watchAll.watch(id));
    await Promise.all(moreWatches.map(takeEvent));
    assert.equal(requests.length, 4);
    await api.agent.sessions.delete(ids[69]!);
    await waitUntil(() => sessionIds.includes(`removed ${ids[69]}`));
    assert.equal((await takeEvent(moreWatches.at(-1)!)).type, "deleted");
    assert.equal((await moreWatches.at(-1)!.next()).done, true);
    watchAll.close();
    for (const watch of [...watches, nextWatch, ...moreWatches]) assert.equal((await watch.next()).done, true);
    assert.equal((await watchAll.watch(ids[1]!).next()).done, true);
  });

  it("throws for an unknown session without an effect on others, and for a refusal that a retry does not change", async (t) => {
    const api = await startApi(t);
    const { url, requests, respondNext } = await startScriptedProxy(t, api.url);
    const client = new GantryClient({ url });
    const { id } = await api.agent.sessions.create();
    const lostErrors: unknown[] = [];
    const onConnection = (state: ConnectionState, error?: Error) =>
      void (state === "lost" && lostErrors.push(error?.name));
    respondNext({ status: 503, body: '{"error":"too many streams","code":"too_many_streams"}' });
    const watchAll = await openWatchAll(t, client, { onConnection });
    const states: ConnectionState[] = [];
    const watch = watchAll.watch(id, { onConnection: (state) => states.push(state) });
    const unknownWatch = watchAll.watch("none");
    await Promise.all([takeEvent(watch), assert.rejects(unknownWatch.next(), NotFoundError)]);
    assert.deepEqual([lostErrors, states], [["UnavailableError"], ["connecting", "lost", "connecting", "open"]]);
    await client.run({ message: "hi", session_id: id });
    while ((await takeEvent(watch)).type !== "message") continue;
    // The next connection is refused: all watches throw. A later watch connects again.
    respondNext({ status: 401, body: '{"error":"no","code":"unauthorized"}' });
    const refusedWatch = watchAll.watch(id);
    await assert.rejects(refusedWatch.next(), UnauthorizedError);
    const drain = async () => {
      for await (const event of watch) assert.ok(event);
    };
    await assert.rejects(drain(), UnauthorizedError);
    const requestCount = requests.length;
    assert.equal((await takeEvent(watchAll.watch(id))).type, "state");
    assert.equal(requests.length, requestCount + 1);
  });

  it("keeps at most 1,000 events for a slow reader, which later receives all, while other readers do not wait", async (t) => {
    const calls = Array.from({ length: 110 }, (_, n) => ["echo", { text: `${n}` }, `call-${n}`] as const);
    const steps = Array.from({ length: 10 }, () => callTools(...calls));
    const api = await startApi(t, { steps: [...steps, "done"], agent: { tools: [echoTextTool] } });
    const client = new GantryClient({ url: api.url });
    const watchAll = await openWatchAll(t, client);
    const { id } = await api.agent.sessions.create();
    const [slowMirror, fastMirror] = [new SessionMirror(), new SessionMirror()];
    const slowWatch = watchAll.watch(id);
    slowMirror.apply(await takeEvent(slowWatch));
    const stopFast = follow(watchAll, id, fastMirror);
    await client.run({ message: "hi", session_id: id });
    const messages = await client.sessions.messages(id);
    assert.ok(messages.length > 1_100, String(messages.length));
    await waitUntil(() => isDeepStrictEqual(fastMirror.messages, messages));
    let repeatedFirstEvents = 0;
    while (slowMirror.messages.length < messages.length || slowMirror.messages.at(-1)?.finished === false) {
      const event = await takeEvent(slowWatch);
      if (event.first) repeatedFirstEvents += 1;
      slowMirror.apply(event);
    }
    assert.deepEqual(slowMirror.messages, messages);
    assert.ok(repeatedFirstEvents > 0, "the events beyond the limit came over another connection");
    await slowWatch.return();
    await stopFast();
  });
});
