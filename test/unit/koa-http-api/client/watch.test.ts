import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { callTools, type ScriptedChunk } from "gantry/testing";
import {
  GantryClient,
  NotFoundError,
  SessionMirror,
  type ConnectionState,
  type ApiMessage,
  type WatchedEvent,
} from "gantry/client";
import { defineTool } from "gantry";
import { startScriptedProxy } from "../../../helpers/scripted-proxy.js";
import { gate } from "../../../helpers/gate.js";
import { until } from "../../../helpers/lab.js";
import { TcpProxy } from "../../../helpers/tcp-proxy.js";
import { startApi } from "../../../helpers/http-api.js";

/** `PLACES=32` cuts the response at more positions. */
const PLACES = Number(process.env["PLACES"] ?? 12);

const words = (n: number): ScriptedChunk[] =>
  Array.from({ length: n }, (_, i): ScriptedChunk[] => [{ type: "text", block: "0", text: `w${i} 🙂 ` }, 4]).flat();

/** The next event that matches. */
async function eventOf(events: AsyncIterator<WatchedEvent>, matches: (event: WatchedEvent) => boolean) {
  for (;;) {
    const { done, value } = await events.next();
    assert.ok(!done, "the watch ended");
    if (matches(value)) return value;
  }
}
/** A delay that no other timer uses, and longer than any test. */
const SILENCE_MS = 1_234_567;

/** Captures the client's silence timers, so that the test can fire them. */
function captureSilenceTimers(t: TestContext) {
  const real = { setTimeout, clearTimeout };
  const pending = new Map<unknown, () => void>();
  const state = { started: 0 };
  t.mock.method(globalThis, "setTimeout", ((run: () => void, ms?: number, ...args: []) => {
    // Time: the delay of the caller.
    const timer = real.setTimeout(run, ms, ...args);
    if (ms === SILENCE_MS) {
      state.started += 1;
      pending.set(timer, run);
    }
    return timer;
  }) as typeof setTimeout);
  t.mock.method(globalThis, "clearTimeout", ((timer?: NodeJS.Timeout) => {
    pending.delete(timer);
    real.clearTimeout(timer);
  }) as typeof clearTimeout);
  return {
    pending,
    get started() {
      return state.started;
    },
    fire: () => {
      for (const run of pending.values()) run();
    },
  };
}

const isOver = (event: WatchedEvent) => event.type === "state" && event.run?.state === "finished";

/** A session with six messages, and these messages. */
async function threeTurns(client: GantryClient): Promise<[string, ApiMessage[]]> {
  const { sessionId } = await client.run({ message: "m1" });
  for (const message of ["m2", "m3"]) await client.run({ message, session_id: sessionId });
  return [sessionId, await client.sessions.messages(sessionId)];
}

describe("sessions.watch of GantryClient", () => {
  it("resumes at its cursor after each of three disconnects, without a gap or a repeated event", async (t) => {
    // Each part of the answer waits until the previous connection was cut, so that each connection has deltas to send.
    const parts = Array.from({ length: 4 }, gate);
    const answer = [...words(20), ...parts.flatMap((part) => [part.wait(), ...words(20)])];
    const api = await startApi(t, { steps: [answer, words(20)] });
    const proxy = await TcpProxy.before(t, api.url);
    const client = new GantryClient({ url: proxy.url(api.url) });
    const direct = new GantryClient({ url: api.url });
    const { session_id: id } = await direct.start({ message: "Talk" });
    const [page, states, cursors] = [new SessionMirror(), [] as ConnectionState[], [] as string[]];
    const events = client.sessions.watch(id, { onConnection: (state) => void states.push(state) });
    let deltaCharacters = 0;
    for await (const event of events) {
      page.apply(event);
      if (event.cursor !== undefined) cursors.push(event.cursor);
      if (event.type === "delta") deltaCharacters += event.content?.length ?? 0;
      if (event.type === "delta" && proxy.cuts < 3) proxy.cutAll();
      if (page.messages.length === 2) parts[proxy.cuts]?.open();
      // The first event of a connection is the current state. It arrives before the text up to that point.
      if (page.messages.length === 2 && page.messages[1]?.finished === undefined) break;
    }
    assert.equal(proxy.cuts, 3);
    const messages = await direct.sessions.messages(id);
    assert.deepEqual(page.messages, messages);
    assert.equal(new Set(cursors).size, cursors.length);
    assert.ok(deltaCharacters <= String(messages[1]?.content).length);
    const round = ["connecting", "open", "lost"];
    assert.deepEqual(states, [...round, ...round, ...round, "connecting", "open"]);
    assert.equal(page.cursor, cursors.at(-1));
    // A reader with the page continues from it.
    await direct.run({ message: "More", session_id: id });
    for await (const event of client.sessions.watch(id, { after: page.cursor })) {
      page.apply(event);
      if (page.messages.length === 4 && page.messages[3]?.finished === undefined) break;
    }
    assert.deepEqual(page.messages, await direct.sessions.messages(id));
  });

  it("retries after Retry-After, at most 300 s later, and rejects on 400, 401, 403 and 404", async (t) => {
    const api = await startApi(t);
    const { url, requests, next } = await startScriptedProxy(t, api.url);
    const { sessionId: id } = await new GantryClient({ url: api.url }).run({ message: "Hi" });
    const client = new GantryClient({ url });
    const lost: unknown[] = [];
    const onConnection = (state: ConnectionState, error?: Error) => void (state === "lost" && lost.push(error?.name));
    next({
      status: 503,
      headers: { "retry-after": "1" },
      body: '{"error":"too many streams","code":"too_many_streams"}',
    });
    next({ status: 429, body: '{"error":"too many requests","code":"too_many_requests"}' });
    next({ status: 502, headers: { "content-type": "text/html" }, body: "<h1>Bad gateway</h1>" });
    next({ status: 200, headers: { "content-type": "text/html" }, body: "<h1>Log in</h1>" });
    next({ status: 200, headers: { "content-type": "text/event-stream" }, body: "event: state\ndata: {no\n\n" });
    const events = client.sessions.watch(id, { onConnection });
    await eventOf(events, ({ type }) => type === "message");
    await events.return();
    assert.deepEqual(lost, ["UnavailableError", "ApiError", "ApiError", "ApiError", "ApiError"]);
    const [first, second] = requests.map(({ at }) => at);
    assert.ok((second ?? 0) - (first ?? 0) >= 990);

    // Longer than the maximum delay of a timer: an unlimited delay would fire at once, again and again.
    const { length } = requests;
    next({ status: 503, headers: { "retry-after": "9999999" }, body: "{}" });
    const stop = new AbortController();
    const timers = t.mock.method(globalThis, "setTimeout");
    const { length: losses } = lost;
    const far = client.sessions.watch(id, { signal: stop.signal, onConnection }).next();
    await until(() => lost.length > losses);
    const delays = timers.mock.calls.map(({ arguments: [, ms = 0] }) => ms);
    timers.mock.restore();
    assert.equal(Math.max(...delays), 300_000);
    assert.equal(requests.length, length + 1);
    stop.abort();
    await far;

    for (const status of [400, 401, 403, 404]) {
      next({ status, body: '{"error":"no","code":"no"}' });
      await assert.rejects(client.sessions.watch(id).next(), { status, code: "no" });
    }
    await assert.rejects(client.sessions.watch("none").next(), NotFoundError);
  });

  it("reconnects to a silent server; comments restart the silence timer, which is off while the reader is busy", async (t) => {
    const api = await startApi(t, { http: { heartbeatMs: 50 } });
    const { url, requests, next } = await startScriptedProxy(t, api.url);
    const { sessionId: id } = await new GantryClient({ url: api.url }).run({ message: "Hi" });
    const silence = captureSilenceTimers(t);
    const client = new GantryClient({ url, silenceMs: SILENCE_MS });
    const lost: unknown[] = [];
    let opened = 0;
    const onConnection = (state: ConnectionState, error?: Error) => {
      if (state === "open") opened += 1;
      if (state === "lost") lost.push(error?.message);
    };
    next("hang");
    next({ status: 200, headers: { "content-type": "text/event-stream" }, body: ": stream\n\n", hangs: true });
    const events = client.sessions.watch(id, { onConnection });
    const state = eventOf(events, ({ type }) => type === "state");
    // Silence before the headers, then after them. After them the comment can still be read, which restarts the timer.
    for (const isSilent of [() => requests.length === 1, () => opened === 1]) {
      const { length } = lost;
      await until(() => isSilent() && silence.pending.size > 0);
      await until(() => lost.length > length || (silence.fire(), false));
    }
    await state;
    assert.deepEqual(lost, ["the server sent nothing for too long", "the server sent nothing for too long"]);
    assert.equal(silence.pending.size, 0, "a reader that takes its time is not waited for");
    await eventOf(events, ({ type }) => type === "message");
    // Comments are sufficient: each restarts the timer.
    const rewindSeen = eventOf(events, ({ type }) => type === "rewind").catch(() => undefined);
    const { started } = silence;
    await until(() => silence.started > started + 5);
    assert.equal(silence.pending.size, 1);
    assert.deepEqual([lost.length, requests.length], [2, 3]);
    await api.agent.sessions.revert(id, (await client.sessions.messages(id))[1]?.id ?? "");
    await rewindSeen;
    await events.return();
  });

  it("with last starts at the last messages, and older messages can be added to the page", async (t) => {
    const api = await startApi(t);
    const { url, requests } = await startScriptedProxy(t, api.url);
    const client = new GantryClient({ url });
    const { sessionId: id } = await client.run({ message: "m1" });
    for (const message of ["m2", "m3", "m4"]) await client.run({ message, session_id: id });
    const page = new SessionMirror();
    const seqs = () => page.messages.map(({ seq }) => seq);
    const events = client.sessions.watch(id, { last: 3 });
    while (page.messages.length < 3) page.apply((await events.next()).value as WatchedEvent);
    assert.deepEqual(seqs(), [6, 7, 8]);
    const shown = page.messages;
    assert.equal(page.messages, shown);
    page.add(await client.sessions.messages(id, { before: 6, limit: 3 }));
    assert.deepEqual([seqs(), shown.length], [[3, 4, 5, 6, 7, 8], 3]);
    assert.equal(page.at(6), shown[0]);
    // Messages that a revert hides are removed, no matter how they were added.
    await api.agent.sessions.revert(id, page.at(5)?.id ?? "");
    await eventOf(events, (event) => (page.apply(event), event.type === "rewind"));
    assert.deepEqual(seqs(), [3, 4, 5]);
    await events.return();
    // A watch without `last` sends all messages.
    const fullPage = new SessionMirror();
    for await (const event of client.sessions.watch(id, { follow: false })) fullPage.apply(event);
    assert.deepEqual(fullPage.messages, await client.sessions.messages(id));
    assert.deepEqual(
      requests.filter(({ path }) => path.includes("/events")).map(({ path }) => path.split("?")[1]),
      ["after_seq=5", "follow=false"],
    );
    const empty = await api.agent.sessions.create();
    const none = client.sessions.watch(empty.id, { last: 50 });
    await none.next();
    await client.run({ message: "first", session_id: empty.id });
    assert.equal((await eventOf(none, ({ type }) => type === "message")).type, "message");
    await none.return();
  });

  it("with afterSeq, cut after any byte, delivers the rewind and the new messages exactly once", async (t) => {
    const api = await startApi(t);
    const direct = new GantryClient({ url: api.url });
    // The length of one complete response. The responses of the other sessions have the same length.
    const [id] = await threeTurns(direct);
    const length = (await (await fetch(`${api.url}/api/sessions/${id}/events?after_seq=6&follow=false`)).text()).length;
    const places = Array.from({ length: PLACES }, (_, n) => Math.round((n * (length + 600)) / (PLACES - 1)));
    const watchAcrossCut = async (bytes: number): Promise<string> => {
      const [session, messages] = await threeTurns(direct);
      const proxy = await TcpProxy.before(t, api.url);
      proxy.nextPasses = Math.max(1, bytes);
      const client = new GantryClient({ url: proxy.url(api.url) });
      const page = new SessionMirror();
      page.add(messages);
      const eventNames: string[] = [];
      let pendingChange: Promise<unknown> | undefined;
      const revertAndRun = async () => {
        // If everything passed through, cut when nothing more is sent.
        if (proxy.cuts === 0) proxy.cutAll();
        await api.agent.sessions.revert(session, messages[3]!.id);
        await direct.run({ message: "again", session_id: session });
      };
      const stop = new AbortController();
      const onConnection = (state: ConnectionState) => void (state === "lost" && (pendingChange ??= revertAndRun()));
      const options = { afterSeq: 6, signal: stop.signal, onConnection };
      for await (const event of client.sessions.watch(session, options)) {
        page.apply(event);
        // After the state no event is sent until something changes.
        if (event.type === "state") pendingChange ??= revertAndRun();
        if (event.type === "message") eventNames.push(`message ${event.message.seq}`);
        if (event.type === "rewind") eventNames.push(`cut ${event.after}`);
        if (page.messages.at(-1)?.seq === 8 && page.state?.run?.state === "finished") stop.abort();
      }
      await pendingChange;
      assert.deepEqual(page.messages, await direct.sessions.messages(session), `cut after ${bytes} bytes`);
      return eventNames.join(", ");
    };
    const all = new Set(await Promise.all(places.map(watchAcrossCut)));
    assert.deepEqual([...all], ["cut 4, message 7, message 8"]);
  });

  it("with afterSeq of a reverted message, sends a rewind to the last message in common", async (t) => {
    const api = await startApi(t);
    const client = new GantryClient({ url: api.url });
    const [id, messages] = await threeTurns(client);
    const eventsAfter = async (afterSeq: number): Promise<string[]> => {
      const events: string[] = [];
      for await (const event of client.sessions.watch(id, { afterSeq: afterSeq, follow: false }))
        if (event.type === "rewind") events.push(`cut ${event.after}`);
        else events.push(event.type === "message" ? `message ${event.message.seq}` : event.type);
      return events;
    };
    const snapshot = await api.agent.sessions.revert(id, messages[1]!.id);
    assert.deepEqual(await eventsAfter(6), ["state", "cut 2"]);
    assert.deepEqual(await eventsAfter(3), ["state", "cut 2"]);
    assert.deepEqual(await eventsAfter(2), ["state"]);
    await client.run({ message: "otherwise", session_id: id });
    assert.deepEqual(await eventsAfter(6), ["state", "cut 2", "message 7", "message 8"]);
    assert.deepEqual(await eventsAfter(7), ["state", "message 8"]);
    // A sequence number that never existed is after the end.
    assert.deepEqual(await eventsAfter(99), ["state", "cut 8"]);
    // Another branch, which forks before the reader's position.
    await api.agent.sessions.restore(id, snapshot.id);
    assert.deepEqual(await eventsAfter(8), ["state", "cut 2", "message 3", "message 4", "message 5", "message 6"]);
    assert.deepEqual(await eventsAfter(4), ["state", "message 5", "message 6"]);
  });

  it("with afterSeq of an unfinished message, completes that message", async (t) => {
    const answerGate = gate();
    const api = await startApi(t, { steps: [[...words(20), answerGate.wait(), ...words(20)]] });
    const client = new GantryClient({ url: api.url });
    const { session_id: id } = await client.start({ message: "Talk" });
    const page = new SessionMirror();
    while (page.messages.length < 2) page.add(await client.sessions.messages(id));
    assert.equal(page.messages[1]?.finished, false);
    for await (const event of client.sessions.watch(id, { afterSeq: 2 })) {
      page.apply(event);
      answerGate.open();
      if (isOver(event)) break;
    }
    assert.deepEqual(page.messages, await client.sessions.messages(id));
  });

  it("shows a running tool's output once across a reconnect, and clears it when the result arrives", async (t) => {
    const [printed, end] = [gate(), gate()];
    const tool = defineTool({
      name: "print",
      description: "Prints.",
      run: async (_, { progress }) => {
        progress?.("one\n");
        await printed.wait();
        progress?.("two\n");
        await end.wait();
        return "one\ntwo\n";
      },
    });
    const api = await startApi(t, { steps: [callTools(["print", {}, "call_1"]), "done"], agent: { tools: [tool] } });
    const proxy = await TcpProxy.before(t, api.url);
    const client = new GantryClient({ url: proxy.url(api.url) });
    const { session_id: id } = await new GantryClient({ url: api.url }).start({ message: "Print" });
    const page = new SessionMirror();
    const events = client.sessions.watch(id);
    const shown = (text: string | undefined) =>
      eventOf(events, (event) => (page.apply(event), page.progress.get("call_1") === text && event.type !== "state"));
    await shown("one\n");
    proxy.cutAll();
    printed.open();
    await shown("one\ntwo\n");
    end.open();
    await eventOf(events, (event) => (page.apply(event), isOver(event)));
    assert.deepEqual([page.progress.size, page.messages[2]?.content], [0, "one\ntwo\n"]);
    await events.return();
  });

  it("ends when the session is deleted, also during a disconnect, and when its signal aborts", async (t) => {
    const api = await startApi(t);
    const proxy = await TcpProxy.before(t, api.url);
    const direct = new GantryClient({ url: api.url });
    const client = new GantryClient({ url: proxy.url(api.url) });
    const typesOf = async (events: AsyncIterable<WatchedEvent>, started = () => {}) => {
      const types: string[] = [];
      for await (const { type } of events) {
        types.push(type);
        started();
      }
      return types;
    };
    for (const isAway of [false, true]) {
      const { sessionId: id } = await direct.run({ message: "Hi" });
      const [started, lost] = [gate(), gate()];
      const onConnection = (state: ConnectionState) => void (state === "lost" && lost.open());
      const types = typesOf(client.sessions.watch(id, { onConnection }), started.open);
      await started.wait();
      if (isAway) {
        proxy.cutAll();
        await lost.wait();
      }
      await direct.sessions.delete(id);
      assert.equal((await types).indexOf("deleted"), (await types).length - 1);
    }
    const { sessionId: id } = await direct.run({ message: "Hi" });
    const stop = new AbortController();
    const states: ConnectionState[] = [];
    const onConnection = (state: ConnectionState) => void states.push(state);
    for await (const event of client.sessions.watch(id, { signal: stop.signal, onConnection }))
      if (event.type === "message") stop.abort();
    assert.deepEqual(states, ["connecting", "open"]);
    // The signal also ends a watch that waits to reconnect, and a watch that has not started.
    const unreachableClient = new GantryClient({ url: "http://127.0.0.1:9" });
    const retryAbort = new AbortController();
    await typesOf(
      unreachableClient.sessions.watch(id, {
        signal: retryAbort.signal,
        onConnection: (s) => s === "lost" && retryAbort.abort(),
      }),
    );
    assert.deepEqual(await typesOf(client.sessions.watch(id, { signal: AbortSignal.abort() })), []);
  });
});
