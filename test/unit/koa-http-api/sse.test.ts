import assert from "node:assert/strict";
import { it } from "node:test";
import { ProviderError } from "gantry";
import { ToolError } from "gantry/plugin";
import { callTools, say, type ScriptedChunk } from "gantry/testing";
import { pause } from "../../helpers/server-runs.js";
import { parseSseEvents, openConnection } from "../../helpers/raw-http.js";
import { startApi } from "../../helpers/http-api.js";
import { echoTextTool } from "../../helpers/http-api-tools.js";

const USAGE = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
const DONE_EVENT = { type: "done", done: true, usage: USAGE };

function createRunRequest(body: unknown): string {
  const text = JSON.stringify(body);
  return `POST /api/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
}

it("a streamed run sends a character whole that the provider splits into halves", async (t) => {
  const chunks: ScriptedChunk[] = ["a\ud83d", "\ude42b\ud83d", "\ude42"].map((text) => ({
    type: "text",
    block: "0",
    text,
  }));
  const { postRun } = await startApi(t, { steps: [chunks] });
  const { text } = await postRun({ message: "hi", stream: true });
  const tokens = parseSseEvents(text).flatMap(({ data }) => (data.type === "token" ? [data.content as string] : []));
  assert.deepEqual([tokens.join(""), tokens.every((token) => token.isWellFormed())], ["a\u{1f642}b\u{1f642}", true]);
});

it("a streamed run sends its tokens and ends with both done events", async (t) => {
  const chunks: ScriptedChunk[] = ["Hel", "lo", "."].map((text) => ({ type: "text", block: "0", text }));
  const { postRun } = await startApi(t, { steps: [chunks] });
  const { status, headers, text } = await postRun({ message: "hi", stream: true });
  assert.equal(status, 200);
  assert.equal(headers["content-type"], "text/event-stream");
  assert.equal(headers["cache-control"], "no-cache");
  assert.equal(headers["x-accel-buffering"], "no");
  assert.equal(headers["access-control-allow-origin"], "*");
  assert.equal(headers["x-model"], "scripted/scripted-1");
  assert.match(String(headers["x-session-id"]), /^[0-9a-f-]{36}$/);
  assert.equal(headers["content-length"], undefined);
  assert.match(text, /^:[^\n]*\n\n/, "the stream starts with a comment");
  const events = parseSseEvents(text);
  const tokenEvents = events.filter(({ data }) => data.type === "token");
  assert.equal(tokenEvents.map(({ data }) => data.content as string).join(""), "Hello.");
  for (const { event, data } of tokenEvents) {
    assert.equal(event, "agent");
    assert.deepEqual(Object.keys(data).sort(), ["agent_id", "agent_name", "content", "type"]);
    assert.equal(data.agent_name, "orchestrator");
    assert.notEqual(data.agent_id, "");
  }
  assert.deepEqual(events.slice(-2), [
    { event: "agent", data: DONE_EVENT },
    { event: "done", data: DONE_EVENT },
  ]);
});

it("a streamed run sends reasoning, tool calls and results with exactly the documented fields", async (t) => {
  const { postRun } = await startApi(t, {
    steps: [[{ type: "reasoning", block: "r", text: "Hm." }, ...callTools(["echo", '{ "text":"a\\n" }'])], say("ok")],
    agent: { tools: [echoTextTool] },
  });
  const events = parseSseEvents((await postRun({ message: "hi", stream: true })).text).map(
    ({ event, data: { agent_id, ...data } }) => {
      assert.equal(agent_id !== undefined, data.type === "token");
      return { event, data };
    },
  );
  const usage = { prompt_tokens: 20, completion_tokens: 10, total_tokens: 30 };
  const callId = events[1]?.data["tool_call_id"];
  assert.match(String(callId), /./);
  assert.deepEqual(events, [
    { event: "agent", data: { type: "token", agent_name: "orchestrator", reasoning: "Hm." } },
    {
      event: "agent",
      data: { type: "tool_call", tool_call_id: callId, tool_name: "echo", tool_args: '{ "text":"a\\n" }' },
    },
    {
      event: "agent",
      data: { type: "tool_result", tool_call_id: callId, tool_name: "echo", tool_output: "echo: a\n" },
    },
    { event: "agent", data: { type: "token", agent_name: "orchestrator", content: "ok" } },
    { event: "agent", data: { type: "done", done: true, usage } },
    { event: "done", data: { type: "done", done: true, usage } },
  ]);
});

it("line breaks in a token's text create no additional SSE event", async (t) => {
  const text = "a\n\nevent: done\ndata: {}\r\n\r\nb\u2028c\u0085\u0000";
  const { postRun } = await startApi(t, { steps: [text] });
  const events = parseSseEvents((await postRun({ message: "hi", stream: true })).text);
  assert.deepEqual(
    events.map(({ event }) => event),
    ["agent", "agent", "done"],
  );
  assert.equal(events[0]?.data.content, text);
});

it("a stream sends its headers and its first comment before the first event", async (t) => {
  let releaseProvider: () => void = () => undefined;
  const providerGate = new Promise<void>((resolve) => (releaseProvider = resolve));
  const { url } = await startApi(t, {
    steps: [
      async () => {
        await providerGate;
        return [{ type: "text", block: "0", text: "one" }];
      },
    ],
  });
  const stream = (await openConnection(url)).write(createRunRequest({ message: "hi", stream: true }));
  await stream.waitForText(/\r\nX-Session-Id: [\s\S]*\r\n\r\n[\s\S]*: stream\n\n/i);
  assert.doesNotMatch(stream.receivedText, /event:/);
  releaseProvider();
  await stream.waitForText(/event: done/);
  stream.destroy();
});

it("a silent stream sends keep-alive comments", async (t) => {
  const { url } = await startApi(t, { steps: [{ hang: true }], http: { heartbeatMs: 20 } });
  const stream = (await openConnection(url)).write(createRunRequest({ message: "hi", stream: true }));
  await stream.waitForText(/(?:: keep-alive\n\n[\s\S]*){3}/);
  stream.destroy();
});

it("a failed run ends its stream with an error event and no done event", async (t) => {
  const fault = new ProviderError("scripted", "server", "it burns", { status: 500 });
  const { postRun, logLines } = await startApi(t, {
    steps: [{ chunks: [{ type: "text", block: "0", text: "Well" }], fault }],
  });
  const { status, text } = await postRun({ message: "hi", stream: true });
  assert.equal(status, 200);
  const events = parseSseEvents(text);
  assert.equal(events[0]?.data.content, "Well");
  assert.deepEqual(events.at(-1), { event: "error", data: { error: "scripted: 500: it burns", code: "provider" } });
  assert.ok(!events.some(({ event, data }) => event === "done" || data.type === "done"));
  assert.ok(!logLines.some((line) => line.startsWith("error")));
});

it("a finished stream keeps the connection open for the next request", async (t) => {
  const { url } = await startApi(t);
  const stream = (await openConnection(url)).write(createRunRequest({ message: "hi", stream: true }));
  await stream.waitForText(/event: done[\s\S]*\r\n0\r\n\r\n/);
  stream.write("GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await stream.waitForText(/"status":"ok"/);
  stream.destroy();
});

/** Answers after the grace period of slow readers (`GRACE_MS` of src/run/context/event-buffer.ts). */
async function answerAfterGracePeriod() {
  // Time: the timer of the grace period started earlier, so it fires first. The tokens are dropped one turn later.
  await pause(1_500);
  for (let turn = 0; turn < 2; turn += 1) await new Promise(setImmediate);
  return say("end");
}

it("a stream that is not read delays no run, loses only token events, and reports their count", async (t) => {
  const chunkText = "x".repeat(20_000);
  // The text is split into ten answers, because the length of one answer is limited.
  const floodChunks: ScriptedChunk[] = Array.from({ length: 200 }, () => ({
    type: "text",
    block: "0",
    text: chunkText,
  }));
  const floodAnswers = Array.from({ length: 10 }, () => [
    ...floodChunks.slice(1),
    ...callTools(["echo", { text: "a" }]),
  ]);
  const { url, postRun, agent } = await startApi(t, {
    steps: [...floodAnswers, answerAfterGracePeriod, say("quick")],
    providerOptions: { models: [{ id: "m", name: "m", ownedBy: "x", contextWindow: 1_000_000_000 }] },
    agent: { tools: [echoTextTool] },
  });
  const runFinished = new Promise<void>((resolve) => agent.on("run.finished", () => resolve()));
  const slowClient = await openConnection(url);
  slowClient.socket.pause();
  slowClient.write(createRunRequest({ message: "flood", stream: true }));
  await runFinished;
  assert.equal((await postRun({ message: "me" })).status, 200);
  slowClient.socket.resume();
  await slowClient.waitForText(/event: done\ndata: .*\n\n/);
  slowClient.destroy();
  const types = [...slowClient.receivedText.matchAll(/"type":"(\w+)"/g)].map(([, type]) => type);
  const tokenCount = types.filter((type) => type === "token").length;
  // The chunks of the ten answers, and the text "end".
  const sentTokenCount = 10 * 199 + 1;
  assert.ok(tokenCount < sentTokenCount, "some token events are dropped");
  assert.deepEqual(
    types.filter((type) => type !== "token"),
    [...floodAnswers.flatMap(() => ["tool_call", "tool_result"]), "done", "done"],
  );
  // Without dropped events the stream would have more than 40 million characters.
  assert.ok(slowClient.receivedText.length < 40_000_000, "dropped events are not buffered");
  const commentIndex = slowClient.receivedText.indexOf(`\n: ${sentTokenCount - tokenCount} token events were dropped`);
  assert.ok(
    commentIndex > 0 && commentIndex < slowClient.receivedText.indexOf('"type":"done"'),
    "the count of dropped events precedes the done event",
  );
});

it("a tool_result event includes its tool_call_id, and failed: true for a failed call", async (t) => {
  const failingTool = { ...echoTextTool, name: "broken", run: () => Promise.reject(new ToolError("it broke")) };
  const calls = callTools(["echo", { text: "a" }, "first"], ["broken", {}, "second"]);
  const { postRun } = await startApi(t, { steps: [calls, say("ok")], agent: { tools: [echoTextTool, failingTool] } });
  const results = parseSseEvents((await postRun({ message: "hi", stream: true })).text)
    .filter(({ data }) => data.type === "tool_result")
    .map(({ data }) => [data["tool_call_id"], data.tool_name, data["failed"]]);
  assert.deepEqual(results.sort(), [
    ["first", "echo", undefined],
    ["second", "broken", true],
  ]);
});

it("POST /api/run returns 503 over the stream limit, and ended or rejected streams free their slot", async (t) => {
  const { url, postRun, agent } = await startApi(t, {
    providerOptions: { fallback: "ok" },
    steps: [{ hang: true }],
    http: { streams: 1 },
  });
  const stream = (await openConnection(url)).write(createRunRequest({ message: "hi", stream: true }));
  await stream.waitForText(/: stream/);
  const response = await postRun({ message: "hi", stream: true });
  assert.deepEqual([response.status, response.json()], [503, { error: "too many streams", code: "too_many_streams" }]);
  assert.equal(response.headers["retry-after"], "1");
  assert.equal((await postRun({ message: "hi" })).status, 200, "plain requests are not limited");
  const runFailed = new Promise<void>((resolve) => agent.on("run.failed", () => resolve()));
  stream.destroy();
  await runFailed;
  assert.equal((await postRun({ message: "hi", stream: true })).status, 200);
  assert.equal((await postRun({ message: "", stream: true })).status, 400);
  assert.equal((await postRun({ message: "hi", stream: true, session_id: "nope" })).status, 404);
  assert.equal((await postRun({ message: "hi", stream: true })).status, 200, "rejected requests use no stream slot");
});
