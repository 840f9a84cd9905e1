import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { Agent, MemoryDriver } from "gantry";
import { callTools, ScriptedProvider, type ScriptedChunk } from "gantry/testing";
import { EventPage, readSessionEvents, type WireEvent } from "../../helpers/event-page.js";
import { createGate, createWaitTool } from "../../helpers/gate.js";
import { startApi, type TestApi } from "../../helpers/http-api.js";
import { withOutages } from "../../helpers/outages.mjs";
import { createRandom, readSeed } from "../../helpers/random.js";
import { waitUntil } from "../../helpers/server-runs.js";
import type { Hooks } from "../../helpers/temp-dir.js";

const SEED = readSeed();

/** Text chunks of one word each. After each chunk the provider waits 3 ms. */
const createWordChunks = (wordCount: number): ScriptedChunk[] =>
  Array.from({ length: wordCount }, (_, i): ScriptedChunk[] => [
    { type: "text", block: "0", text: `w${i}  ` },
    3,
  ]).flat();

async function readMessages({ send }: TestApi, id: string): Promise<unknown[]> {
  return ((await send(`/api/sessions/${id}/messages`)).json() as { messages: unknown[] }).messages;
}

/** Reads one connection in the background, until the test ends or `stop` is called. */
function openStream(t: Hooks, url: string) {
  const controller = new AbortController();
  const events: WireEvent[] = [];
  const end = (async () => {
    try {
      for await (const event of readSessionEvents(url, {}, controller.signal)) events.push(event);
    } catch (error) {
      // The server may end before this connection. The conditions of the test find missing events.
      if (error instanceof assert.AssertionError) throw error;
    }
  })();
  const stop = () => {
    controller.abort();
    return end;
  };
  t.after(stop);
  const findLast = (type: string) => events.findLast((event) => event.type === type);
  return { events, stop, end, findLast };
}

describe("GET /api/events", () => {
  it("yields the same messages as GET messages, although connections drop and the watched sessions change", async (t) => {
    t.diagnostic(`seed ${SEED}`);
    const random = createRandom(SEED);
    const api = await startApi(t, { providerOptions: { fallback: createWordChunks(12) } });
    const ids = await Promise.all(Array.from({ length: 3 }, async () => (await api.agent.sessions.create()).id));
    const pages = new Map(ids.map((id) => [id, new EventPage()]));
    const positions = new Map<string, string>();
    const controller = new AbortController();
    const watch = async () => {
      while (!controller.signal.aborted) {
        // A random part of the sessions, each at its position.
        const watchedIds = ids.filter(() => random() < 0.7);
        const query = new URLSearchParams(watchedIds.map((id): [string, string] => ["watch", positions.get(id) ?? id]));
        const url = `${api.url}/api/events?${query.toString()}`;
        for await (const event of readSessionEvents(url, {}, controller.signal)) {
          const { watch, session_id: id, ...data } = event.data;
          if (watch !== undefined) {
            assert.equal(watchedIds[watch], id);
            if (event.id !== undefined) positions.set(id, event.id);
            pages.get(id)?.apply({ ...event, data });
          }
          if (random() < 0.1) break;
        }
      }
    };
    const watching = watch().catch((error: unknown) => {
      if (!controller.signal.aborted) throw error;
    });
    for (let round = 0; round < 2; round += 1)
      await Promise.all(ids.map((id) => api.postRun({ message: `m${round}`, session_id: id })));
    const [, , thirdMessageId] = (await api.agent.sessions.messages(ids[0]!)).map(({ id }) => id);
    await api.agent.sessions.revert(ids[0]!, thirdMessageId!);
    await api.postRun({ message: "again", session_id: ids[0] });
    const expectedMessages = await Promise.all(ids.map((id) => readMessages(api, id)));
    const areComplete = () =>
      ids.every(
        (id, n) =>
          isDeepStrictEqual(pages.get(id)?.messages, expectedMessages[n]) &&
          pages.get(id)?.state.run.state === "finished",
      );
    // Each title causes events, so that connections drop although no run is active.
    await waitUntil(async () => areComplete() || !(await api.agent.sessions.update(ids[1]!, { title: `${random()}` })));
    controller.abort();
    await watching;
  });

  it("accepts a seq as position, and two watches of one session", async (t) => {
    const api = await startApi(t, { steps: ["one", "two"] });
    const { id } = await api.agent.sessions.create();
    for (const message of ["m1", "m2"]) await api.postRun({ message, session_id: id });
    const { events } = openStream(t, `${api.url}/api/events?watch=${id}@2&watch=${id}@&watch=${id}@4`);
    const getSeqs = (watch: number) =>
      events
        .filter(({ type, data }) => type === "message" && data.watch === watch)
        .map(({ data }) => data.message.seq as number);
    await waitUntil(() => getSeqs(0).length === 2 && getSeqs(1).length === 4);
    assert.deepEqual([getSeqs(0), getSeqs(1), getSeqs(2)], [[3, 4], [1, 2, 3, 4], []]);
    const cursors = events.filter(({ id: eventId }) => eventId !== undefined).map(({ id: eventId }) => eventId!);
    for (const cursor of cursors) assert.ok(cursor.startsWith(`${id}@`), cursor);
  });

  it("reports unknown sessions, invalid positions and deletions as events of the session", async (t) => {
    const api = await startApi(t, { steps: ["one"] });
    const [first, second] = [await api.agent.sessions.create(), await api.agent.sessions.create()];
    await api.postRun({ message: "hi", session_id: second.id });
    const query = `watch=none&watch=${first.id}@x-y&watch=${first.id}&watch=${second.id}&watch=%00`;
    const { events } = openStream(t, `${api.url}/api/events?${query}`);
    const find = (watch: number, type: string) =>
      events.find((event) => event.data.watch === watch && event.type === type)?.data;
    await waitUntil(() => find(3, "message") && find(2, "state") && find(4, "watch_failed"));
    await waitUntil(() => find(0, "watch_failed") && find(1, "watch_failed"));
    assert.deepEqual(find(0, "watch_failed"), {
      ...{ session_id: "none", watch: 0, status: 404 },
      ...{ error: "session not found", code: "session_not_found" },
    });
    assert.deepEqual([find(1, "watch_failed").status, find(1, "watch_failed").code], [400, "invalid_field"]);
    await api.agent.sessions.delete(first.id);
    await waitUntil(() => find(2, "deleted"));
    await api.postRun({ message: "more", session_id: second.id });
    await waitUntil(() => events.some(({ type, data }) => type === "message" && data.message.seq === 4));
  });

  for (const failure of ["fail", "full"] as const)
    it(`waits while calls of the store ${failure === "full" ? "find the disk full" : "fail"}`, async (t) => {
      let state: "" | typeof failure = "";
      let failedCalls = 0;
      const getState = () => {
        if (state !== "") failedCalls += 1;
        return state;
      };
      const api = await startApi(t, { agent: { driver: withOutages(new MemoryDriver(), getState) } });
      const { id } = await api.agent.sessions.create();
      state = failure;
      const { events, findLast } = openStream(t, `${api.url}/api/events?watch=${id}`);
      await waitUntil(() => failedCalls > 0);
      state = "";
      await waitUntil(() => findLast("state"));
      assert.equal(findLast("watch_failed"), undefined, JSON.stringify(events));
    });

  it("sends all open questions first and after each change, and makes its client one that answers", async (t) => {
    const permissions = { name: "strict", judge: () => ({ action: "ask", reason: "it costs" }) as const };
    const gate = createGate();
    gate.open();
    const api = await startApi(t, {
      steps: [callTools(["wait", {}]), "end"],
      agent: { tools: [createWaitTool(gate)], permissions, unattended: "reject" },
    });
    const watcher = openStream(t, `${api.url}/api/events`);
    await waitUntil(() => watcher.findLast("asks"));
    assert.deepEqual(watcher.findLast("asks")?.data, { asks: [] });
    // Without a client that answers, the question is decided at once.
    const { sessionId } = await api.agent.run({ message: "hi" }).then(async (run) => (await run.result, run));
    assert.equal((await api.agent.asks.list({ open: true })).length, 0);
    const answering = openStream(t, `${api.url}/api/events?can_answer=true`);
    await waitUntil(() => answering.findLast("asks"));
    api.provider.push(callTools(["wait", {}]), "end");
    const run = await api.agent.run({ message: "again", sessionId });
    await waitUntil(() => answering.findLast("asks")?.data.asks.length === 1);
    const [ask] = answering.findLast("asks")?.data.asks;
    assert.deepEqual([ask.tool, ask.session_id, ask.state], ["wait", sessionId, "open"]);
    await api.agent.asks.answer(ask.id, { choice: "allow" });
    await run.result;
    await waitUntil(() => answering.findLast("asks")?.data.asks.length === 0);
    await waitUntil(() => watcher.findLast("asks")?.data.asks.length === 0);
  });

  it("sends sessions of the list that were created, changed or deleted, or created by another process", async (t) => {
    const api = await startApi(t, { steps: ["one"] });
    const { events, findLast } = openStream(t, `${api.url}/api/events`);
    await waitUntil(() => findLast("asks"));
    const { headers } = await api.postRun({ message: "hi" });
    const id = String(headers["x-session-id"]);
    const isIdle = () => findLast("session")?.data.session.id === id && !findLast("session")?.data.session.run;
    await waitUntil(isIdle);
    await api.agent.sessions.update(id, { title: "A title" });
    await waitUntil(() => findLast("session")?.data.session.title === "A title");
    // An agent without a common bus, as of another process of the store.
    const otherAgent = new Agent({ providers: [new ScriptedProvider([])], driver: api.driver });
    const otherSession = await otherAgent.sessions.create();
    await waitUntil(() => findLast("session")?.data.session.id === otherSession.id);
    await api.agent.sessions.update(otherSession.id, { archived: true });
    await waitUntil(() => findLast("session")?.data.session.archived === true);
    await api.agent.sessions.delete(id);
    await waitUntil(() => findLast("session_removed")?.data.session_id === id);
    assert.ok(events.every(({ type }) => ["asks", "session", "session_removed"].includes(type)));
  });

  it("rejects more than 64 watches and invalid parameters, and needs a stream slot", async (t) => {
    const api = await startApi(t, { http: { streams: 1 } });
    const watches = Array.from({ length: 65 }, (_, n) => `watch=s${n}`).join("&");
    for (const query of [watches, "can_answer=maybe"]) {
      const { status, json } = await api.send(`/api/events?${query}`);
      const [name] = query.split("=");
      assert.deepEqual([status, json()], [400, { error: `invalid query parameter: ${name}`, code: "invalid_query" }]);
    }
    assert.equal((await api.send("/api/events", { method: "HEAD" })).status, 200);
    const { findLast, stop } = openStream(t, `${api.url}/api/events`);
    await waitUntil(() => findLast("asks"));
    assert.equal((await api.send("/api/events")).status, 503);
    await stop();
    const openAgain = async () => {
      const { status, body } = await fetch(`${api.url}/api/events`);
      await body?.cancel();
      return status === 200;
    };
    await waitUntil(openAgain);
  });
});
