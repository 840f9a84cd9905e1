import assert from "node:assert/strict";
import { it } from "node:test";
import { ProviderError } from "gantry";
import { ToolError } from "gantry/plugin";
import { callTools, say, type ScriptedChunk } from "gantry/testing";
import { pause } from "../../helpers/lab.js";
import { sseEvents, wire } from "../../helpers/http.js";
import { startApi } from "../../helpers/http-api.js";
import { echoTool } from "../../helpers/http-api-tools.js";

const USAGE = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
const DONE = { type: "done", done: true, usage: USAGE };

function post(body: unknown): string {
  const text = JSON.stringify(body);
  return `POST /api/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
}

it("a streamed run sends its tokens and ends with both done events", async (t) => {
  const chunks: ScriptedChunk[] = ["Hel", "lo", "."].map((text) => ({ type: "text", block: "0", text }));
  const { run } = await startApi(t, { steps: [chunks] });
  const { status, headers, text } = await run({ message: "hi", stream: true });
  assert.equal(status, 200);
  assert.equal(headers["content-type"], "text/event-stream");
  assert.equal(headers["cache-control"], "no-cache");
  assert.equal(headers["x-accel-buffering"], "no");
  assert.equal(headers["access-control-allow-origin"], "*");
  assert.equal(headers["x-model"], "scripted/scripted-1");
  assert.match(String(headers["x-session-id"]), /^[0-9a-f-]{36}$/);
  assert.equal(headers["content-length"], undefined);
  assert.match(text, /^:[^\n]*\n\n/, "it begins with a comment");
  const events = sseEvents(text);
  const tokens = events.filter(({ data }) => data.type === "token");
  assert.equal(tokens.map(({ data }) => data.content as string).join(""), "Hello.");
  for (const { event, data } of tokens) {
    assert.equal(event, "agent");
    assert.deepEqual(Object.keys(data).sort(), ["agent_id", "agent_name", "content", "type"]);
    assert.equal(data.agent_name, "orchestrator");
    assert.notEqual(data.agent_id, "");
  }
  assert.deepEqual(events.slice(-2), [
    { event: "agent", data: DONE },
    { event: "done", data: DONE },
  ]);
});

it("a streamed run sends reasoning, tool calls and results with exactly the documented fields", async (t) => {
  const { run } = await startApi(t, {
    steps: [[{ type: "reasoning", block: "r", text: "Hm." }, ...callTools(["echo", '{ "text":"a\\n" }'])], say("ok")],
    agent: { tools: [echoTool] },
  });
  const events = sseEvents((await run({ message: "hi", stream: true })).text).map(
    ({ event, data: { agent_id, ...data } }) => {
      assert.equal(agent_id !== undefined, data.type === "token");
      return { event, data };
    },
  );
  const usage = { prompt_tokens: 20, completion_tokens: 10, total_tokens: 30 };
  const id = events[1]?.data["tool_call_id"];
  assert.match(String(id), /./);
  assert.deepEqual(events, [
    { event: "agent", data: { type: "token", agent_name: "orchestrator", reasoning: "Hm." } },
    {
      event: "agent",
      data: { type: "tool_call", tool_call_id: id, tool_name: "echo", tool_args: '{ "text":"a\\n" }' },
    },
    { event: "agent", data: { type: "tool_result", tool_call_id: id, tool_name: "echo", tool_output: "echo: a\n" } },
    { event: "agent", data: { type: "token", agent_name: "orchestrator", content: "ok" } },
    { event: "agent", data: { type: "done", done: true, usage } },
    { event: "done", data: { type: "done", done: true, usage } },
  ]);
});

it("line breaks in a token's text create no further SSE event", async (t) => {
  const text = "a\n\nevent: done\ndata: {}\r\n\r\nb\u2028c\u0085\u0000";
  const { run } = await startApi(t, { steps: [text] });
  const events = sseEvents((await run({ message: "hi", stream: true })).text);
  assert.deepEqual(
    events.map(({ event }) => event),
    ["agent", "agent", "done"],
  );
  assert.equal(events[0]?.data.content, text);
});

it("a stream sends its headers and its first comment before the first event", async (t) => {
  let release: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => (release = resolve));
  const { url } = await startApi(t, {
    steps: [
      async () => {
        await gate;
        return [{ type: "text", block: "0", text: "one" }];
      },
    ],
  });
  const stream = (await wire(url)).write(post({ message: "hi", stream: true }));
  await stream.until(/\r\nX-Session-Id: [\s\S]*\r\n\r\n[\s\S]*: stream\n\n/i);
  assert.doesNotMatch(stream.received, /event:/);
  release();
  await stream.until(/event: done/);
  stream.destroy();
});

it("a silent stream sends keep-alive comments", async (t) => {
  const { url } = await startApi(t, { steps: [{ hang: true }], http: { heartbeatMs: 20 } });
  const stream = (await wire(url)).write(post({ message: "hi", stream: true }));
  await stream.until(/(?:: keep-alive\n\n[\s\S]*){3}/);
  stream.destroy();
});

it("a failed run ends its stream with an error event and no done event", async (t) => {
  const fault = new ProviderError("scripted", "server", "it burns", { status: 500 });
  const { run, log } = await startApi(t, { steps: [{ chunks: [{ type: "text", block: "0", text: "Well" }], fault }] });
  const { status, text } = await run({ message: "hi", stream: true });
  assert.equal(status, 200);
  const events = sseEvents(text);
  assert.equal(events[0]?.data.content, "Well");
  assert.deepEqual(events.at(-1), { event: "error", data: { error: "scripted: 500: it burns", code: "provider" } });
  assert.ok(!events.some(({ event, data }) => event === "done" || data.type === "done"));
  assert.ok(!log.some((line) => line.startsWith("error")));
});

it("a finished stream keeps the connection open for the next request", async (t) => {
  const { url } = await startApi(t);
  const stream = (await wire(url)).write(post({ message: "hi", stream: true }));
  await stream.until(/event: done[\s\S]*\r\n0\r\n\r\n/);
  stream.write("GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await stream.until(/"status":"ok"/);
  stream.destroy();
});

/** An answer after the second in which a slow reader may catch up (`GRACE_MS` of src/run/context/event-buffer.ts). */
async function afterGrace() {
  // Time: the timer of that second was set before this timer, so it fires first. Its tokens are dropped one turn later.
  await pause(1_500);
  for (let turn = 0; turn < 2; turn += 1) await new Promise(setImmediate);
  return say("end");
}

it("a stream that is not read delays no run, loses only token events, and reports their number", async (t) => {
  const big = "x".repeat(20_000);
  // Split into ten answers, because one answer is limited in length.
  const flood: ScriptedChunk[] = Array.from({ length: 200 }, () => ({ type: "text", block: "0", text: big }));
  const answers = Array.from({ length: 10 }, () => [...flood.slice(1), ...callTools(["echo", { text: "a" }])]);
  const { url, run, agent } = await startApi(t, {
    steps: [...answers, afterGrace, say("quick")],
    scripted: { models: [{ id: "m", name: "m", ownedBy: "x", contextWindow: 1_000_000_000 }] },
    agent: { tools: [echoTool] },
  });
  const finished = new Promise<void>((resolve) => agent.on("run.finished", () => resolve()));
  const slow = await wire(url);
  slow.socket.pause();
  slow.write(post({ message: "flood", stream: true }));
  await finished;
  assert.equal((await run({ message: "me" })).status, 200);
  slow.socket.resume();
  await slow.until(/event: done\ndata: .*\n\n/);
  slow.destroy();
  const types = [...slow.received.matchAll(/"type":"(\w+)"/g)].map(([, type]) => type);
  const tokens = types.filter((type) => type === "token").length;
  assert.ok(tokens < 1991, "some were dropped");
  assert.deepEqual(
    types.filter((type) => type !== "token"),
    [...answers.flatMap(() => ["tool_call", "tool_result"]), "done", "done"],
  );
  assert.ok(slow.received.length < 40_000_000, "what was dropped was not kept");
  const commentIndex = slow.received.indexOf(`\n: ${1991 - tokens} token events were dropped`);
  assert.ok(commentIndex > 0 && commentIndex < slow.received.indexOf('"type":"done"'), "how many, before the end");
});

it("a tool_result event names its tool_call_id, and failed for a failed call", async (t) => {
  const broken = { ...echoTool, name: "broken", run: () => Promise.reject(new ToolError("it broke")) };
  const calls = callTools(["echo", { text: "a" }, "first"], ["broken", {}, "second"]);
  const { run } = await startApi(t, { steps: [calls, say("ok")], agent: { tools: [echoTool, broken] } });
  const results = sseEvents((await run({ message: "hi", stream: true })).text)
    .filter(({ data }) => data.type === "tool_result")
    .map(({ data }) => [data["tool_call_id"], data.tool_name, data["failed"]]);
  assert.deepEqual(results.sort(), [
    ["first", "echo", undefined],
    ["second", "broken", true],
  ]);
});

it("POST /api/run returns 503 over the stream limit, and ended or rejected streams free their slot", async (t) => {
  const { url, run, agent } = await startApi(t, {
    scripted: { fallback: "ok" },
    steps: [{ hang: true }],
    http: { streams: 1 },
  });
  const stream = (await wire(url)).write(post({ message: "hi", stream: true }));
  await stream.until(/: stream/);
  const refused = await run({ message: "hi", stream: true });
  assert.deepEqual([refused.status, refused.json()], [503, { error: "too many streams", code: "too_many_streams" }]);
  assert.equal(refused.headers["retry-after"], "1");
  assert.equal((await run({ message: "hi" })).status, 200, "others are served");
  const failed = new Promise<void>((resolve) => agent.on("run.failed", () => resolve()));
  stream.destroy();
  await failed;
  assert.equal((await run({ message: "hi", stream: true })).status, 200);
  assert.equal((await run({ message: "", stream: true })).status, 400);
  assert.equal((await run({ message: "hi", stream: true, session_id: "nope" })).status, 404);
  assert.equal((await run({ message: "hi", stream: true })).status, 200, "errors take no place");
});
