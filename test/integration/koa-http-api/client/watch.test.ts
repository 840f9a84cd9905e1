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
import { createGate } from "../../../helpers/gate.js";
import { waitUntil } from "../../../helpers/server-runs.js";
import { TcpProxy } from "../../../helpers/tcp-proxy.js";
import { startApi } from "../../../helpers/http-api.js";

/** Number of offsets at which the response is cut. Set by the environment variable `PLACES`. Default 12. */
const CUT_COUNT = Number(process.env["PLACES"] ?? 12);

/** Text chunks of one word each. After each chunk the provider waits 4 ms. */
const createWordChunks = (count: number): ScriptedChunk[] =>
  Array.from({ length: count }, (_, i): ScriptedChunk[] => [{ type: "text", block: "0", text: `w${i} 🙂 ` }, 4]).flat();

/** Returns the next event that matches. */
async function waitForEvent(events: AsyncIterator<WatchedEvent>, matches: (event: WatchedEvent) => boolean) {
  for (;;) {
    const { done, value } = await events.next();
    assert.ok(!done, "the watch ended");
    if (matches(value)) return value;
  }
}

/** The client's `silenceMs`. No other timer has this delay, and no test lasts so long. */
const SILENCE_MS = 1_234_567;

/** Captures the client's silence timers, so that the test can fire them. */
function captureSilenceTimers(t: TestContext) {
  const originalTimers = { setTimeout, clearTimeout };
  const callbacksByTimer = new Map<unknown, () => void>();
  const counters = { started: 0 };
  t.mock.method(globalThis, "setTimeout", ((callback: () => void, ms?: number, ...args: []) => {
    // Time: the delay of the caller.
    const timer = originalTimers.setTimeout(callback, ms, ...args);
    if (ms === SILENCE_MS) {
      counters.started += 1;
      callbacksByTimer.set(timer, callback);
    }
    return timer;
  }) as typeof setTimeout);
  t.mock.method(globalThis, "clearTimeout", ((timer?: NodeJS.Timeout) => {
    callbacksByTimer.delete(timer);
    originalTimers.clearTimeout(timer);
  }) as typeof clearTimeout);
  return {
    callbacksByTimer,
    get startedCount() {
      return counters.started;
    },
    fire: () => {
      for (const callback of callbacksByTimer.values()) callback();
    },
  };
}

const isRunFinished = (event: WatchedEvent) => event.type === "state" && event.run?.state === "finished";

/** Creates a session with six messages. Returns its id and the messages. */
async function runThreeTurns(client: GantryClient): Promise<[string, ApiMessage[]]> {
  const { sessionId } = await client.run({ message: "m1" });
  for (const message of ["m2", "m3"]) await client.run({ message, session_id: sessionId });
  return [sessionId, await client.sessions.messages(sessionId)];
}

describe("sessions.watch of GantryClient", () => {
  it("resumes at its cursor after each of three disconnects, without a missing or repeated event", async (t) => {
    // Each part of the answer waits until the previous connection is cut, so that each connection sends deltas.
    const partGates = Array.from({ length: 4 }, createGate);
    const answerChunks = [
      ...createWordChunks(20),
      ...partGates.flatMap((partGate) => [partGate.wait(), ...createWordChunks(20)]),
    ];
    const api = await startApi(t, { steps: [answerChunks, createWordChunks(20)] });
    const proxy = await TcpProxy.startBefore(t, api.url);
    const client = new GantryClient({ url: proxy.toProxyUrl(api.url) });
    const directClient = new GantryClient({ url: api.url });
    const { session_id: id } = await directClient.start({ message: "Talk" });
    const [page, states, cursors] = [new SessionMirror(), [] as ConnectionState[], [] as string[]];
    const events = client.sessions.watch(id, { onConnection: (state) => void states.push(state) });
    let deltaCharacters = 0;
    for await (const event of events) {
      page.apply(event);
      if (event.cursor !== undefined) cursors.push(event.cursor);
      if (event.type === "delta") deltaCharacters += event.content?.length ?? 0;
      if (event.type === "delta" && proxy.cutCount < 3) proxy.cutAll();
      if (page.messages.length === 2) partGates[proxy.cutCount]?.open();
      // The first event of a connection is the current state. It arrives before the text up to that point.
      if (page.messages.length === 2 && page.messages[1]?.finished === undefined) break;
    }
    assert.equal(proxy.cutCount, 3);
    const messages = await directClient.sessions.messages(id);
    assert.deepEqual(page.messages, messages);
    assert.equal(new Set(cursors).size, cursors.length);
    assert.ok(deltaCharacters <= String(messages[1]?.content).length);
    const lostStates = ["connecting", "open", "lost"];
    assert.deepEqual(states, [...lostStates, ...lostStates, ...lostStates, "connecting", "open"]);
    assert.equal(page.cursor, cursors.at(-1));
    // A new watch continues from the cursor of the page.
    await directClient.run({ message: "More", session_id: id });
    for await (const event of client.sessions.watch(id, { after: page.cursor })) {
      page.apply(event);
      if (page.messages.length === 4 && page.messages[3]?.finished === undefined) break;
    }
    assert.deepEqual(page.messages, await directClient.sessions.messages(id));
  });

  it("retries after the delay of Retry-After, at most 300 s, and rejects on 400, 401, 403 and 404", async (t) => {
    const api = await startApi(t);
    const { url, requests, respondNext } = await startScriptedProxy(t, api.url);
    const { sessionId: id } = await new GantryClient({ url: api.url }).run({ message: "Hi" });
    const client = new GantryClient({ url });
    const lostErrors: unknown[] = [];
    const onConnection = (state: ConnectionState, error?: Error) =>
      void (state === "lost" && lostErrors.push(error?.name));
    respondNext({
      status: 503,
      headers: { "retry-after": "1" },
      body: '{"error":"too many streams","code":"too_many_streams"}',
    });
    respondNext({ status: 429, body: '{"error":"too many requests","code":"too_many_requests"}' });
    respondNext({ status: 502, headers: { "content-type": "text/html" }, body: "<h1>Bad gateway</h1>" });
    respondNext({ status: 200, headers: { "content-type": "text/html" }, body: "<h1>Log in</h1>" });
    respondNext({ status: 200, headers: { "content-type": "text/event-stream" }, body: "event: state\ndata: {no\n\n" });
    const events = client.sessions.watch(id, { onConnection });
    await waitForEvent(events, ({ type }) => type === "message");
    await events.return();
    assert.deepEqual(lostErrors, ["UnavailableError", "ApiError", "ApiError", "ApiError", "ApiError"]);
    const [firstRequestMs, secondRequestMs] = requests.map(({ receivedAtMs }) => receivedAtMs);
    // `Retry-After` is 1 s. A timer may fire some milliseconds early.
    assert.ok((secondRequestMs ?? 0) - (firstRequestMs ?? 0) >= 990);

    // This delay exceeds the maximum of a timer. Without a limit the timer would fire at once and repeatedly.
    const { length: requestCount } = requests;
    respondNext({ status: 503, headers: { "retry-after": "9999999" }, body: "{}" });
    const watchAbort = new AbortController();
    const timers = t.mock.method(globalThis, "setTimeout");
    const { length: lostCount } = lostErrors;
    const delayedEvent = client.sessions.watch(id, { signal: watchAbort.signal, onConnection }).next();
    await waitUntil(() => lostErrors.length > lostCount);
    const delays = timers.mock.calls.map(({ arguments: [, ms = 0] }) => ms);
    timers.mock.restore();
    assert.equal(Math.max(...delays), 300_000);
    assert.equal(requests.length, requestCount + 1);
    watchAbort.abort();
    await delayedEvent;

    for (const status of [400, 401, 403, 404]) {
      respondNext({ status, body: '{"error":"no","code":"no"}' });
      await assert.rejects(client.sessions.watch(id).next(), { status, code: "no" });
    }
    await assert.rejects(client.sessions.watch("none").next(), NotFoundError);
  });

  it("reconnects to a silent server; comments restart the silence timer; a busy reader stops it", async (t) => {
    const api = await startApi(t, { http: { heartbeatMs: 50 } });
    const { url, requests, respondNext } = await startScriptedProxy(t, api.url);
    const { sessionId: id } = await new GantryClient({ url: api.url }).run({ message: "Hi" });
    const silenceTimers = captureSilenceTimers(t);
    const client = new GantryClient({ url, silenceMs: SILENCE_MS });
    const lostErrors: unknown[] = [];
    let openCount = 0;
    const onConnection = (state: ConnectionState, error?: Error) => {
      if (state === "open") openCount += 1;
      if (state === "lost") lostErrors.push(error?.message);
    };
    respondNext("hang");
    respondNext({
      status: 200,
      headers: { "content-type": "text/event-stream" },
      body: ": stream\n\n",
      staysOpen: true,
    });
    const events = client.sessions.watch(id, { onConnection });
    const stateEvent = waitForEvent(events, ({ type }) => type === "state");
    // The server is silent before the headers, then after the first comment, which restarts the timer.
    for (const isSilent of [() => requests.length === 1, () => openCount === 1]) {
      const { length: lostCount } = lostErrors;
      await waitUntil(() => isSilent() && silenceTimers.callbacksByTimer.size > 0);
      await waitUntil(() => lostErrors.length > lostCount || (silenceTimers.fire(), false));
    }
    await stateEvent;
    assert.deepEqual(lostErrors, ["the server sent nothing for too long", "the server sent nothing for too long"]);
    assert.equal(silenceTimers.callbacksByTimer.size, 0, "no silence timer runs while the reader is busy");
    await waitForEvent(events, ({ type }) => type === "message");
    // Each comment restarts the timer.
    const rewindEvent = waitForEvent(events, ({ type }) => type === "rewind").catch(() => undefined);
    const { startedCount: previousStartedCount } = silenceTimers;
    await waitUntil(() => silenceTimers.startedCount > previousStartedCount + 5);
    assert.equal(silenceTimers.callbacksByTimer.size, 1);
    assert.deepEqual([lostErrors.length, requests.length], [2, 3]);
    await api.agent.sessions.revert(id, (await client.sessions.messages(id))[1]?.id ?? "");
    await rewindEvent;
    await events.return();
  });

  it("starts at the last messages with last, and older messages can be added to the page", async (t) => {
    const api = await startApi(t);
    const { url, requests } = await startScriptedProxy(t, api.url);
    const client = new GantryClient({ url });
    const { sessionId: id } = await client.run({ message: "m1" });
    for (const message of ["m2", "m3", "m4"]) await client.run({ message, session_id: id });
    const page = new SessionMirror();
    const getSeqs = () => page.messages.map(({ seq }) => seq);
    const events = client.sessions.watch(id, { last: 3 });
    while (page.messages.length < 3) page.apply((await events.next()).value as WatchedEvent);
    assert.deepEqual(getSeqs(), [6, 7, 8]);
    const initialMessages = page.messages;
    assert.equal(page.messages, initialMessages);
    page.add(await client.sessions.messages(id, { before: 6, limit: 3 }));
    assert.deepEqual([getSeqs(), initialMessages.length], [[3, 4, 5, 6, 7, 8], 3]);
    assert.equal(page.at(6), initialMessages[0]);
    // A revert removes hidden messages from the page, including manually added messages.
    await api.agent.sessions.revert(id, page.at(5)?.id ?? "");
    await waitForEvent(events, (event) => (page.apply(event), event.type === "rewind"));
    assert.deepEqual(getSeqs(), [3, 4, 5]);
    await events.return();
    // A watch without `last` sends all messages.
    const fullPage = new SessionMirror();
    for await (const event of client.sessions.watch(id, { follow: false })) fullPage.apply(event);
    assert.deepEqual(fullPage.messages, await client.sessions.messages(id));
    assert.deepEqual(
      requests.filter(({ path }) => path.includes("/events")).map(({ path }) => path.split("?")[1]),
      ["after_seq=5", "follow=false"],
    );
    const emptySession = await api.agent.sessions.create();
    const emptyWatch = client.sessions.watch(emptySession.id, { last: 50 });
    await emptyWatch.next();
    await client.run({ message: "first", session_id: emptySession.id });
    assert.equal((await waitForEvent(emptyWatch, ({ type }) => type === "message")).type, "message");
    await emptyWatch.return();
  });

  it("delivers the rewind and the new messages once with afterSeq, after a cut at any byte", async (t) => {
    const api = await startApi(t);
    const directClient = new GantryClient({ url: api.url });
    // The responses of all sessions have the same length.
    const [id] = await runThreeTurns(directClient);
    const body = await (await fetch(`${api.url}/api/sessions/${id}/events?after_seq=6&follow=false`)).text();
    // 600 bytes more than the body, because the proxy also counts the bytes of the response headers.
    const cutOffsets = Array.from({ length: CUT_COUNT }, (_, n) =>
      Math.round((n * (body.length + 600)) / (CUT_COUNT - 1)),
    );
    const watchAcrossCut = async (bytes: number): Promise<string> => {
      const [watchedSessionId, messages] = await runThreeTurns(directClient);
      const proxy = await TcpProxy.startBefore(t, api.url);
      proxy.nextAnswerBytes = Math.max(1, bytes);
      const client = new GantryClient({ url: proxy.toProxyUrl(api.url) });
      const page = new SessionMirror();
      page.add(messages);
      const eventLabels: string[] = [];
      let pendingChange: Promise<unknown> | undefined;
      const revertAndRun = async () => {
        // If the proxy has not cut yet, cut the connection now, while the server sends nothing.
        if (proxy.cutCount === 0) proxy.cutAll();
        await api.agent.sessions.revert(watchedSessionId, messages[3]!.id);
        await directClient.run({ message: "again", session_id: watchedSessionId });
      };
      const watchAbort = new AbortController();
      const onConnection = (state: ConnectionState) => void (state === "lost" && (pendingChange ??= revertAndRun()));
      const options = { afterSeq: 6, signal: watchAbort.signal, onConnection };
      for await (const event of client.sessions.watch(watchedSessionId, options)) {
        page.apply(event);
        // After the state event the server sends nothing until the session changes.
        if (event.type === "state") pendingChange ??= revertAndRun();
        if (event.type === "message") eventLabels.push(`message ${event.message.seq}`);
        if (event.type === "rewind") eventLabels.push(`rewind ${event.after}`);
        if (page.messages.at(-1)?.seq === 8 && page.state?.run?.state === "finished") watchAbort.abort();
      }
      await pendingChange;
      assert.deepEqual(
        page.messages,
        await directClient.sessions.messages(watchedSessionId),
        `cut after ${bytes} bytes`,
      );
      return eventLabels.join(", ");
    };
    const eventSequences = new Set(await Promise.all(cutOffsets.map(watchAcrossCut)));
    assert.deepEqual([...eventSequences], ["rewind 4, message 7, message 8"]);
  });

  it("sends a rewind to the last common message with afterSeq of a reverted message", async (t) => {
    const api = await startApi(t);
    const client = new GantryClient({ url: api.url });
    const [id, messages] = await runThreeTurns(client);
    const readLabels = async (afterSeq: number): Promise<string[]> => {
      const eventLabels: string[] = [];
      for await (const event of client.sessions.watch(id, { afterSeq, follow: false }))
        if (event.type === "rewind") eventLabels.push(`rewind ${event.after}`);
        else eventLabels.push(event.type === "message" ? `message ${event.message.seq}` : event.type);
      return eventLabels;
    };
    const snapshot = await api.agent.sessions.revert(id, messages[1]!.id);
    assert.deepEqual(await readLabels(6), ["state", "rewind 2"]);
    assert.deepEqual(await readLabels(3), ["state", "rewind 2"]);
    assert.deepEqual(await readLabels(2), ["state"]);
    await client.run({ message: "otherwise", session_id: id });
    assert.deepEqual(await readLabels(6), ["state", "rewind 2", "message 7", "message 8"]);
    assert.deepEqual(await readLabels(7), ["state", "message 8"]);
    // A sequence number beyond the last message rewinds to the last message.
    assert.deepEqual(await readLabels(99), ["state", "rewind 8"]);
    // The restored branch forks at message 2, before the reader's position.
    await api.agent.sessions.restore(id, snapshot.id);
    assert.deepEqual(await readLabels(8), ["state", "rewind 2", "message 3", "message 4", "message 5", "message 6"]);
    assert.deepEqual(await readLabels(4), ["state", "message 5", "message 6"]);
  });

  it("completes an unfinished message with afterSeq of that message", async (t) => {
    const answerGate = createGate();
    const api = await startApi(t, { steps: [[...createWordChunks(20), answerGate.wait(), ...createWordChunks(20)]] });
    const client = new GantryClient({ url: api.url });
    const { session_id: id } = await client.start({ message: "Talk" });
    const page = new SessionMirror();
    while (page.messages.length < 2) page.add(await client.sessions.messages(id));
    assert.equal(page.messages[1]?.finished, false);
    for await (const event of client.sessions.watch(id, { afterSeq: 2 })) {
      page.apply(event);
      answerGate.open();
      if (isRunFinished(event)) break;
    }
    assert.deepEqual(page.messages, await client.sessions.messages(id));
  });

  it("shows a running tool's output once across a reconnect, and clears it when the result arrives", async (t) => {
    const [firstOutputRead, toolEnd] = [createGate(), createGate()];
    const tool = defineTool({
      name: "print",
      description: "Prints.",
      run: async (_, { progress }) => {
        progress?.("one\n");
        await firstOutputRead.wait();
        progress?.("two\n");
        await toolEnd.wait();
        return "one\ntwo\n";
      },
    });
    const api = await startApi(t, { steps: [callTools(["print", {}, "call_1"]), "done"], agent: { tools: [tool] } });
    const proxy = await TcpProxy.startBefore(t, api.url);
    const client = new GantryClient({ url: proxy.toProxyUrl(api.url) });
    const { session_id: id } = await new GantryClient({ url: api.url }).start({ message: "Print" });
    const page = new SessionMirror();
    const events = client.sessions.watch(id);
    const waitForOutput = (text: string | undefined) =>
      waitForEvent(
        events,
        (event) => (page.apply(event), page.progress.get("call_1") === text && event.type !== "state"),
      );
    await waitForOutput("one\n");
    proxy.cutAll();
    firstOutputRead.open();
    await waitForOutput("one\ntwo\n");
    toolEnd.open();
    await waitForEvent(events, (event) => (page.apply(event), isRunFinished(event)));
    assert.deepEqual([page.progress.size, page.messages[2]?.content], [0, "one\ntwo\n"]);
    await events.return();
  });

  it("ends when the session is deleted, also during a disconnect, and when its signal aborts", async (t) => {
    const api = await startApi(t);
    const proxy = await TcpProxy.startBefore(t, api.url);
    const directClient = new GantryClient({ url: api.url });
    const client = new GantryClient({ url: proxy.toProxyUrl(api.url) });
    const readTypes = async (events: AsyncIterable<WatchedEvent>, onEvent = () => {}) => {
      const types: string[] = [];
      for await (const { type } of events) {
        types.push(type);
        onEvent();
      }
      return types;
    };
    for (const isDisconnected of [false, true]) {
      const { sessionId: id } = await directClient.run({ message: "Hi" });
      const [firstEventReceived, connectionLost] = [createGate(), createGate()];
      const onConnection = (state: ConnectionState) => void (state === "lost" && connectionLost.open());
      const types = readTypes(client.sessions.watch(id, { onConnection }), firstEventReceived.open);
      await firstEventReceived.wait();
      if (isDisconnected) {
        proxy.cutAll();
        await connectionLost.wait();
      }
      await directClient.sessions.delete(id);
      assert.equal((await types).indexOf("deleted"), (await types).length - 1);
    }
    const { sessionId: id } = await directClient.run({ message: "Hi" });
    const watchAbort = new AbortController();
    const states: ConnectionState[] = [];
    const onConnection = (state: ConnectionState) => void states.push(state);
    for await (const event of client.sessions.watch(id, { signal: watchAbort.signal, onConnection }))
      if (event.type === "message") watchAbort.abort();
    assert.deepEqual(states, ["connecting", "open"]);
    // The signal also ends a watch that waits to reconnect, and a watch that has not started.
    const unreachableClient = new GantryClient({ url: "http://127.0.0.1:9" });
    const retryAbort = new AbortController();
    await readTypes(
      unreachableClient.sessions.watch(id, {
        signal: retryAbort.signal,
        onConnection: (state) => state === "lost" && retryAbort.abort(),
      }),
    );
    assert.deepEqual(await readTypes(client.sessions.watch(id, { signal: AbortSignal.abort() })), []);
  });
});
