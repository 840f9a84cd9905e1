import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { callTools, type ScriptedChunk, type ScriptedStep } from "gantry/testing";
import { EventPage, readSessionEvents } from "../../helpers/event-page.js";
import { createGate, createWaitTool } from "../../helpers/gate.js";
import { waitUntil } from "../../helpers/server-runs.js";
import type { Hooks } from "../../helpers/temp-dir.js";
import { createRandom, readSeed } from "../../helpers/random.js";
import { startApi, type TestApi } from "../../helpers/http-api.js";
import { echoTextTool, editTool, failTool } from "../../helpers/http-api-tools.js";

/** Decides when connections drop. Set by the environment variable `SEED`. `ROUNDS=20` repeats the test with 20 seeds. */
const FIRST_SEED = readSeed();
const SEEDS = Array.from({ length: Number(process.env["ROUNDS"] ?? 1) }, (_, seedIndex) => FIRST_SEED + seedIndex);

/** Text chunks of one word each. After each chunk the provider waits 3 ms. */
const createWordChunks = (wordCount: number): ScriptedChunk[] =>
  Array.from({ length: wordCount }, (_, i): ScriptedChunk[] => [
    { type: "text", block: "0", text: `w${i}\u2028 ` },
    3,
  ]).flat();

async function readMessages({ send }: TestApi, id: string): Promise<unknown[]> {
  return ((await send(`/api/sessions/${id}/messages`)).json() as { messages: unknown[] }).messages;
}

/** Watches a session and reconnects automatically, like `EventSource`. `shouldDrop` decides after each event. */
function watchSession(t: Hooks, url: string, shouldDrop: () => boolean = () => false) {
  const page = new EventPage();
  const pageAbort = new AbortController();
  const watchPromise = (async () => {
    while (!pageAbort.signal.aborted && !page.isDeleted) {
      const connectionAbort = new AbortController();
      const abortConnection = () => connectionAbort.abort();
      pageAbort.signal.addEventListener("abort", abortConnection);
      try {
        for await (const event of readSessionEvents(
          url,
          page.lastId === "" ? {} : { "last-event-id": page.lastId },
          connectionAbort.signal,
        )) {
          page.apply(event);
          if (shouldDrop()) break;
        }
      } catch (error) {
        if (!pageAbort.signal.aborted) throw error;
      }
      connectionAbort.abort();
      pageAbort.signal.removeEventListener("abort", abortConnection);
    }
  })();
  const stopWatching = async () => {
    pageAbort.abort();
    await watchPromise;
  };
  t.after(stopWatching);
  return { page, stopWatching, watchPromise };
}

describe("GET /api/sessions/{id}/events", () => {
  it("yields the same messages as GET messages although the connection drops", async (t) => {
    for (const seed of SEEDS) {
      t.diagnostic(`seed ${seed}`);
      const random = createRandom(seed);
      const reasoningChunk: ScriptedChunk = { type: "reasoning", block: "r", text: "Hm. " };
      const steps: ScriptedStep[] = [
        [reasoningChunk, reasoningChunk, ...createWordChunks(10), ...callTools(["echo", { text: "x" }])],
        createWordChunks(30),
        { chunks: createWordChunks(5), fault: new Error("broke") },
        createWordChunks(20),
      ];
      const api = await startApi(t, { steps, agent: { tools: [echoTextTool] } });
      const { id } = await api.agent.sessions.create();
      const { page, stopWatching } = watchSession(t, `${api.url}/api/sessions/${id}/events`, () => random() < 0.15);
      for (let runNumber = 0; runNumber < 3; runNumber += 1)
        await api.postRun({ message: `m${runNumber}`, session_id: id });
      const [, , thirdMessageId] = (await api.agent.sessions.messages(id)).map((message) => message.id);
      await api.agent.sessions.revert(id, thirdMessageId!);
      await api.postRun({ message: "again", session_id: id });
      const expectedMessages = await readMessages(api, id);
      // The server sends the final state after the messages.
      const isPageComplete = () =>
        isDeepStrictEqual(page.messages, expectedMessages) && page.state.run.state === "finished";
      await waitUntil(isPageComplete);
      await stopWatching();
    }
  });

  it("sends the state and the messages, then ends, with follow=false", async (t) => {
    const api = await startApi(t, { steps: [createWordChunks(3)] });
    const { headers } = await api.postRun({ message: "hi" });
    const id = String(headers["x-session-id"]);
    const page = new EventPage();
    const types: string[] = [];
    for await (const event of readSessionEvents(`${api.url}/api/sessions/${id}/events?follow=false`)) {
      types.push(event.type);
      page.apply(event);
    }
    assert.deepEqual(types, ["state", "message", "message"]);
    assert.deepEqual(page.messages, await readMessages(api, id));
    assert.deepEqual(Object.keys(page.state), ["session", "run", "asks", "plan", "running_elsewhere"]);
    const laterTypes: string[] = [];
    for await (const { type } of readSessionEvents(
      `${api.url}/api/sessions/${id}/events?follow=false&after=${page.lastId}`,
    ))
      laterTypes.push(type);
    assert.deepEqual(laterTypes, ["state"]);
  });

  it("rejects unknown sessions, invalid cursors and parameters, but restarts the stream on an invalid Last-Event-ID", async (t) => {
    const api = await startApi(t, { steps: [createWordChunks(3)] });
    const { headers } = await api.postRun({ message: "hi" });
    const id = String(headers["x-session-id"]);
    const otherSessionId = (await api.agent.sessions.create()).id;
    const events = [];
    for await (const event of readSessionEvents(`${api.url}/api/sessions/${id}/events?follow=false`))
      events.push(event);
    const cursor = String(events.at(-1)?.id);
    const [cursorPrefix] = cursor.split("-");
    const path = `/api/sessions/${id}/events`;
    for (const [invalidPath, status, error] of [
      [`${path}?after=xyz`, 400, "invalid field: after"],
      [`${path}?after=${cursorPrefix}-0.-1`, 400, "invalid field: after"],
      [`${path}?after=${cursorPrefix}-0.99`, 400, "invalid field: after"],
      [`/api/sessions/${otherSessionId}/events?after=${cursor}`, 400, "invalid field: after"],
      [`${path}?after=${cursor}&after=${cursor}`, 400, "invalid query parameter: after"],
      [`${path}?follow=maybe`, 400, "invalid query parameter: follow"],
      ["/api/sessions/none/events", 404, "session not found"],
    ] as const) {
      const response = await api.send(invalidPath);
      assert.equal(response.status, status, invalidPath);
      assert.equal((response.json() as { error: string }).error, error, invalidPath);
    }
    // An automatic reconnect is never rejected: the stream starts from the beginning.
    const response = await api.send(`${path}?follow=false`, { headers: { "last-event-id": `${cursorPrefix}-0.99` } });
    assert.match(response.text, /event: rewind\nid: .*\ndata: \{"after":0\}/);
  });

  it("starts after the message of after_seq, resumes by cursor, and follows a revert of earlier messages", async (t) => {
    const api = await startApi(t, { steps: ["one", "two", "three", "four"] });
    const { id } = await api.agent.sessions.create();
    for (let runNumber = 0; runNumber < 3; runNumber += 1)
      await api.postRun({ message: `m${runNumber}`, session_id: id });
    const path = `/api/sessions/${id}/events`;
    const readEvents = async (query: string, headers: Record<string, string> = {}) => {
      const [page, types] = [new EventPage(), [] as string[]];
      for await (const event of readSessionEvents(`${api.url}${path}?follow=false&${query}`, headers)) {
        types.push(event.type);
        page.apply(event);
      }
      return { page, types, seqs: page.messages.map(({ seq }) => seq) };
    };
    assert.deepEqual((await readEvents("after_seq=0")).seqs, [1, 2, 3, 4, 5, 6]);
    const lastTwo = await readEvents("after_seq=4");
    assert.deepEqual(lastTwo.types, ["state", "message", "message"]);
    assert.deepEqual(lastTwo.page.messages, (await readMessages(api, id)).slice(4));
    assert.deepEqual((await readEvents("after_seq=6")).seqs, []);
    assert.deepEqual((await readEvents("after_seq=9999999999999999999999")).seqs, []);
    // The reader's cursor takes precedence, because `EventSource` reconnects with its original address.
    const firstCursor = (await readEvents("after_seq=5")).page.lastId;
    assert.deepEqual((await readEvents("after_seq=2", { "last-event-id": firstCursor })).types, ["state"]);
    assert.deepEqual((await readEvents(`after_seq=2&after=${firstCursor}`)).types, ["state"]);
    // With `after_seq`, even the first event has an id, so that a reader without messages can resume. Other queries send
    // the first event without an id.
    assert.deepEqual((await readEvents("after_seq=6")).types, ["state"]);
    const startCursor = (await readEvents("after_seq=6")).page.lastId;
    assert.notEqual(startCursor, "");
    for (const query of ["", "after_seq=0", `after=${startCursor}`]) {
      for await (const { id: eventId } of readSessionEvents(`${api.url}${path}?follow=false&${query}`)) {
        assert.equal(eventId, undefined, query);
        break;
      }
    }
    const { page, stopWatching } = watchSession(t, `${api.url}${path}?after_seq=4`);
    await waitUntil(() => page.messages.length === 2);
    const [, , thirdMessageId] = (await api.agent.sessions.messages(id)).map((message) => message.id);
    await api.agent.sessions.revert(id, thirdMessageId!);
    await api.postRun({ message: "again", session_id: id });
    // The revert keeps messages 1 to 3. They are before the requested range.
    const expectedMessages = (await readMessages(api, id)).slice(3);
    await waitUntil(() => isDeepStrictEqual(page.messages, expectedMessages));
    await stopWatching();
    for (const invalidQuery of ["-1", "x", "", "1&after_seq=2"]) {
      const { status, json } = await api.send(`${path}?follow=false&after_seq=${invalidQuery}`);
      assert.deepEqual(
        [status, json()],
        [400, { error: "invalid query parameter: after_seq", code: "invalid_query" }],
        invalidQuery,
      );
    }
  });

  it("sends failed, diff and locations of tool results, as GET messages does", async (t) => {
    const api = await startApi(t, {
      steps: [callTools(["edit", {}, "call_1"], ["echo", { nothing: 1 }, "call_2"], ["fail", {}, "call_3"]), "done"],
      agent: { tools: [editTool, echoTextTool, failTool] },
    });
    const { headers } = await api.postRun({ message: "hi" });
    const id = String(headers["x-session-id"]);
    const messages = (await readMessages(api, id)) as Record<string, unknown>[];
    const getResultFields = (callId: string) => {
      const message = messages.find((candidate) => candidate["tool_call_id"] === callId);
      return Object.fromEntries(["failed", "diff", "locations"].map((name) => [name, message?.[name]]));
    };
    assert.deepEqual(getResultFields("call_1"), {
      failed: undefined,
      diff: [
        { path: "/p/new.txt", old_text: null, new_text: "new" },
        { path: "/p/old.txt", old_text: "old", new_text: "" },
      ],
      locations: [{ path: "/p/new.txt", line: 3 }],
    });
    assert.deepEqual(getResultFields("call_3"), { failed: true, diff: undefined, locations: undefined });
    // Most results have none of these fields.
    for (const { tool_call_id, ...message } of messages)
      if (tool_call_id === "call_2" || message["role"] !== "tool")
        for (const name of ["failed", "diff", "locations"]) assert.equal(name in message, false, name);
    const page = new EventPage();
    for await (const event of readSessionEvents(`${api.url}/api/sessions/${id}/events?follow=false`)) page.apply(event);
    assert.deepEqual(page.messages, messages);
  });

  it("reports that the session was deleted, and ends", async (t) => {
    const api = await startApi(t, { steps: [createWordChunks(3)] });
    const { headers } = await api.postRun({ message: "hi" });
    const id = String(headers["x-session-id"]);
    const { page, watchPromise } = watchSession(t, `${api.url}/api/sessions/${id}/events`);
    await waitUntil(() => page.state);
    await api.send(`/api/sessions/${id}`, { method: "DELETE" });
    await watchPromise;
    assert.equal(page.isDeleted, true);
  });
});

describe("runs over HTTP", () => {
  it("are listed, read and cancelled, by run id or by session id", async (t) => {
    const toolGate = createGate();
    const api = await startApi(t, {
      steps: [callTools(["wait", {}]), callTools(["wait", {}]), "done"],
      agent: { tools: [createWaitTool(toolGate)] },
    });
    for (const idKind of ["run", "session"]) {
      const response = api.postRun({ message: "hi" });
      let run: { id: string; session_id: string; state: string } | undefined;
      while (!run) [run] = ((await api.send("/api/runs?state=running")).json() as { runs: [typeof run] }).runs;
      assert.deepEqual((await api.send(`/api/runs/${run.id}`)).json(), run);
      const path = idKind === "run" ? `/api/runs/${run.id}/cancel` : `/api/sessions/${run.session_id}/cancel`;
      const cancelResult = (await api.send(path, { method: "POST" })).json() as {
        state: string;
        run: { state: string };
      };
      assert.equal((idKind === "run" ? cancelResult : cancelResult.run).state, "cancelled");
      const { status, headers } = await response;
      assert.equal(status, 500);
      assert.equal(headers["x-run-id"], run.id);
    }
    const firstPage = (await api.send("/api/runs?size=1")).json() as { runs: { id: string }[] };
    assert.equal(firstPage.runs.length, 1);
    const nextPage = (await api.send(`/api/runs?before=${firstPage.runs[0]!.id}`)).json() as { runs: unknown[] };
    assert.equal(nextPage.runs.length, 1);
  });

  it("return 404 for unknown ids and 400 for invalid query parameters", async (t) => {
    const api = await startApi(t);
    for (const [path, method, status, error] of [
      ["/api/runs/none", "GET", 404, "run not found"],
      ["/api/runs/none/cancel", "POST", 404, "run not found"],
      ["/api/sessions/none/cancel", "POST", 404, "session not found"],
      ["/api/runs?state=dancing", "GET", 400, "invalid query parameter: state"],
      ["/api/runs?before=none", "GET", 400, "invalid query parameter: before"],
      ["/api/runs?session_id=none", "GET", 404, "session not found"],
    ] as const) {
      const response = await api.send(path, { method });
      assert.equal(response.status, status, path);
      assert.equal((response.json() as { error: string }).error, error);
    }
    const { id } = await api.agent.sessions.create();
    assert.deepEqual((await api.send(`/api/sessions/${id}/cancel`, { method: "POST" })).json(), { run: null });
  });
});
