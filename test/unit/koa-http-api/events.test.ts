import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { callTools, type ScriptedChunk, type ScriptedStep } from "gantry/testing";
import { EventPage, eventsOf } from "../../helpers/event-page.js";
import { gate, waitTool } from "../../helpers/gate.js";
import { until } from "../../helpers/lab.js";
import { randomOf, seedOf } from "../../helpers/random.js";
import { startApi, type Api } from "../../helpers/http-api.js";
import { echoTool, editTool, failTool } from "../../helpers/http-api-tools.js";

/** `ROUNDS=20` drops connections at the positions of 20 seeds. `SEED` is the first seed. */
const SEEDS = Array.from(
  { length: Number(process.env["ROUNDS"] ?? 1) },
  (
    (first) => (_, n) =>
      first + n
  )(seedOf()),
);
const words = (n: number): ScriptedChunk[] =>
  Array.from({ length: n }, (_, i): ScriptedChunk[] => [{ type: "text", block: "0", text: `w${i}\u2028 ` }, 3]).flat();

async function messagesOf({ send }: Api, id: string): Promise<unknown[]> {
  return ((await send(`/api/sessions/${id}/messages`)).json() as { messages: unknown[] }).messages;
}

/** Watches like `EventSource`, which reconnects automatically. `drop` decides when a connection is dropped. */
function watchSession(t: { after(run: () => unknown): void }, url: string, drop: () => boolean = () => false) {
  const page = new EventPage();
  const pageAbort = new AbortController();
  const done = (async () => {
    while (!pageAbort.signal.aborted && !page.deleted) {
      const connectionAbort = new AbortController();
      const end = () => connectionAbort.abort();
      pageAbort.signal.addEventListener("abort", end);
      try {
        for await (const event of eventsOf(
          url,
          page.lastId === "" ? {} : { "last-event-id": page.lastId },
          connectionAbort.signal,
        )) {
          page.apply(event);
          if (drop()) break;
        }
      } catch (error) {
        if (!pageAbort.signal.aborted) throw error;
      }
      connectionAbort.abort();
      pageAbort.signal.removeEventListener("abort", end);
    }
  })();
  const end = async () => {
    pageAbort.abort();
    await done;
  };
  t.after(end);
  return { page, end, done };
}

describe("GET /api/sessions/{id}/events", () => {
  it("yields the same messages as GET messages, however often the connection drops", async (t) => {
    for (const seed of SEEDS) {
      t.diagnostic(`seed ${seed}`);
      const random = randomOf(seed);
      const think: ScriptedChunk = { type: "reasoning", block: "r", text: "Hm. " };
      const steps: ScriptedStep[] = [
        [think, think, ...words(10), ...callTools(["echo", { text: "x" }])],
        words(30),
        { chunks: words(5), fault: new Error("broke") },
        words(20),
      ];
      const api = await startApi(t, { steps, agent: { tools: [echoTool] } });
      const { id } = await api.agent.sessions.create();
      const { page, end } = watchSession(t, `${api.url}/api/sessions/${id}/events`, () => random() < 0.15);
      for (let n = 0; n < 3; n += 1) await api.run({ message: `m${n}`, session_id: id });
      const [, , third] = (await api.agent.sessions.messages(id)).map((message) => message.id);
      await api.agent.sessions.revert(id, third!);
      await api.run({ message: "again", session_id: id });
      const expectedMessages = await messagesOf(api, id);
      // The state is sent after the messages.
      const isThere = () => isDeepStrictEqual(page.messages, expectedMessages) && page.state.run.state === "finished";
      await until(isThere);
      await end();
    }
  });

  it("with follow=false sends the state and the messages, then ends", async (t) => {
    const api = await startApi(t, { steps: [words(3)] });
    const { headers } = await api.run({ message: "hi" });
    const id = String(headers["x-session-id"]);
    const page = new EventPage();
    const types: string[] = [];
    for await (const event of eventsOf(`${api.url}/api/sessions/${id}/events?follow=false`)) {
      types.push(event.type);
      page.apply(event);
    }
    assert.deepEqual(types, ["state", "message", "message"]);
    assert.deepEqual(page.messages, await messagesOf(api, id));
    assert.deepEqual(Object.keys(page.state), ["session", "run", "asks", "plan", "running_elsewhere"]);
    const laterTypes: string[] = [];
    for await (const { type } of eventsOf(`${api.url}/api/sessions/${id}/events?follow=false&after=${page.lastId}`))
      laterTypes.push(type);
    assert.deepEqual(laterTypes, ["state"]);
  });

  it("rejects unknown sessions, invalid cursors and parameters, but restarts on an invalid Last-Event-ID", async (t) => {
    const api = await startApi(t, { steps: [words(3)] });
    const { headers } = await api.run({ message: "hi" });
    const id = String(headers["x-session-id"]);
    const otherSessionId = (await api.agent.sessions.create()).id;
    const events = [];
    for await (const event of eventsOf(`${api.url}/api/sessions/${id}/events?follow=false`)) events.push(event);
    const cursor = String(events.at(-1)?.id);
    const [mark] = cursor.split("-");
    const path = `/api/sessions/${id}/events`;
    for (const [wrong, status, error] of [
      [`${path}?after=xyz`, 400, "invalid field: after"],
      [`${path}?after=${mark}-0.-1`, 400, "invalid field: after"],
      [`${path}?after=${mark}-0.99`, 400, "invalid field: after"],
      [`/api/sessions/${otherSessionId}/events?after=${cursor}`, 400, "invalid field: after"],
      [`${path}?after=${cursor}&after=${cursor}`, 400, "invalid query parameter: after"],
      [`${path}?follow=maybe`, 400, "invalid query parameter: follow"],
      ["/api/sessions/none/events", 404, "session not found"],
    ] as const) {
      const answer = await api.send(wrong);
      assert.equal(answer.status, status, wrong);
      assert.equal((answer.json() as { error: string }).error, error, wrong);
    }
    // An automatic reconnect is never rejected: the stream starts from the beginning.
    const lost = await api.send(`${path}?follow=false`, { headers: { "last-event-id": `${mark}-0.99` } });
    assert.match(lost.text, /event: rewind\nid: .*\ndata: \{"after":0\}/);
  });

  it("with after_seq starts after that message, resumes by cursor, and follows a revert to before it", async (t) => {
    const api = await startApi(t, { steps: ["one", "two", "three", "four"] });
    const { id } = await api.agent.sessions.create();
    for (let n = 0; n < 3; n += 1) await api.run({ message: `m${n}`, session_id: id });
    const path = `/api/sessions/${id}/events`;
    const readEvents = async (query: string, headers: Record<string, string> = {}) => {
      const [page, types] = [new EventPage(), [] as string[]];
      for await (const event of eventsOf(`${api.url}${path}?follow=false&${query}`, headers)) {
        types.push(event.type);
        page.apply(event);
      }
      return { page, types, seqs: page.messages.map(({ seq }) => seq) };
    };
    assert.deepEqual((await readEvents("after_seq=0")).seqs, [1, 2, 3, 4, 5, 6]);
    const last = await readEvents("after_seq=4");
    assert.deepEqual(last.types, ["state", "message", "message"]);
    assert.deepEqual(last.page.messages, (await messagesOf(api, id)).slice(4));
    assert.deepEqual((await readEvents("after_seq=6")).seqs, []);
    assert.deepEqual((await readEvents("after_seq=9999999999999999999999")).seqs, []);
    // The reader's cursor takes precedence, because `EventSource` reconnects with its original address.
    const first = (await readEvents("after_seq=5")).page.lastId;
    assert.deepEqual((await readEvents("after_seq=2", { "last-event-id": first })).types, ["state"]);
    assert.deepEqual((await readEvents(`after_seq=2&after=${first}`)).types, ["state"]);
    // A reader can reconnect to its start position before any event was sent. Other readers start without a position.
    assert.deepEqual((await readEvents("after_seq=6")).types, ["state"]);
    const at6 = (await readEvents("after_seq=6")).page.lastId;
    assert.notEqual(at6, "");
    for (const query of ["", "after_seq=0", `after=${at6}`]) {
      for await (const { id: eventId } of eventsOf(`${api.url}${path}?follow=false&${query}`)) {
        assert.equal(eventId, undefined, query);
        break;
      }
    }
    const { page, end } = watchSession(t, `${api.url}${path}?after_seq=4`);
    await until(() => page.messages.length === 2);
    const [, , third] = (await api.agent.sessions.messages(id)).map((message) => message.id);
    await api.agent.sessions.revert(id, third!);
    await api.run({ message: "again", session_id: id });
    // The reverted message itself stays, because it is before the requested range.
    const expectedMessages = (await messagesOf(api, id)).slice(3);
    await until(() => isDeepStrictEqual(page.messages, expectedMessages));
    await end();
    for (const wrong of ["-1", "x", "", "1&after_seq=2"]) {
      const { status, json } = await api.send(`${path}?follow=false&after_seq=${wrong}`);
      assert.deepEqual(
        [status, json()],
        [400, { error: "invalid query parameter: after_seq", code: "invalid_query" }],
        wrong,
      );
    }
  });

  it("sends failed, diff and locations of tool results, as GET messages does", async (t) => {
    const api = await startApi(t, {
      steps: [callTools(["edit", {}, "call_1"], ["echo", { nothing: 1 }, "call_2"], ["fail", {}, "call_3"]), "done"],
      agent: { tools: [editTool, echoTool, failTool] },
    });
    const { headers } = await api.run({ message: "hi" });
    const id = String(headers["x-session-id"]);
    const messages = (await messagesOf(api, id)) as Record<string, unknown>[];
    const shownOf = (callId: string) => {
      const message = messages.find((candidate) => candidate["tool_call_id"] === callId);
      return Object.fromEntries(["failed", "diff", "locations"].map((name) => [name, message?.[name]]));
    };
    assert.deepEqual(shownOf("call_1"), {
      failed: undefined,
      diff: [
        { path: "/p/new.txt", old_text: null, new_text: "new" },
        { path: "/p/old.txt", old_text: "old", new_text: "" },
      ],
      locations: [{ path: "/p/new.txt", line: 3 }],
    });
    assert.deepEqual(shownOf("call_3"), { failed: true, diff: undefined, locations: undefined });
    // Most results have none of these fields.
    for (const { tool_call_id, ...message } of messages)
      if (tool_call_id === "call_2" || message["role"] !== "tool")
        for (const name of ["failed", "diff", "locations"]) assert.equal(name in message, false, name);
    const page = new EventPage();
    for await (const event of eventsOf(`${api.url}/api/sessions/${id}/events?follow=false`)) page.apply(event);
    assert.deepEqual(page.messages, messages);
  });

  it("reports that the session was deleted, and ends", async (t) => {
    const api = await startApi(t, { steps: [words(3)] });
    const { headers } = await api.run({ message: "hi" });
    const id = String(headers["x-session-id"]);
    const { page, done } = watchSession(t, `${api.url}/api/sessions/${id}/events`);
    await until(() => page.state);
    await api.send(`/api/sessions/${id}`, { method: "DELETE" });
    await done;
    assert.equal(page.deleted, true);
  });
});

describe("runs over HTTP", () => {
  it("are listed, read and cancelled, by run id or by session id", async (t) => {
    const open = gate();
    const api = await startApi(t, {
      steps: [callTools(["wait", {}]), callTools(["wait", {}]), "done"],
      agent: { tools: [waitTool(open)] },
    });
    for (const idKind of ["run", "session"]) {
      const answer = api.run({ message: "hi" });
      let run: { id: string; session_id: string; state: string } | undefined;
      while (!run) [run] = ((await api.send("/api/runs?state=running")).json() as { runs: [typeof run] }).runs;
      assert.deepEqual((await api.send(`/api/runs/${run.id}`)).json(), run);
      const path = idKind === "run" ? `/api/runs/${run.id}/cancel` : `/api/sessions/${run.session_id}/cancel`;
      const cancelled = (await api.send(path, { method: "POST" })).json() as { state: string; run: { state: string } };
      assert.equal((idKind === "run" ? cancelled : cancelled.run).state, "cancelled");
      const { status, headers } = await answer;
      assert.equal(status, 500);
      assert.equal(headers["x-run-id"], run.id);
    }
    const all = (await api.send("/api/runs?size=1")).json() as { runs: { id: string }[] };
    assert.equal(all.runs.length, 1);
    const next = (await api.send(`/api/runs?before=${all.runs[0]!.id}`)).json() as { runs: unknown[] };
    assert.equal(next.runs.length, 1);
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
      const answer = await api.send(path, { method });
      assert.equal(answer.status, status, path);
      assert.equal((answer.json() as { error: string }).error, error);
    }
    const { id } = await api.agent.sessions.create();
    assert.deepEqual((await api.send(`/api/sessions/${id}/cancel`, { method: "POST" })).json(), { run: null });
  });
});
