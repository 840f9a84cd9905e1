import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { callTools, type ScriptedChunk } from "gantry/testing";
import { ProviderError } from "gantry";
import type { ApiError } from "gantry/client";
import { DisconnectedError, GantryClient, type ApiAgentEvent } from "gantry/client";
import { startScriptedProxy } from "../../../helpers/scripted-proxy.js";
import { gate, waitTool } from "../../../helpers/gate.js";
import { startApi } from "../../../helpers/http-api.js";
import { echoTool } from "../../../helpers/http-api-tools.js";

async function all(events: AsyncIterable<ApiAgentEvent>): Promise<ApiAgentEvent[]> {
  const collectedEvents: ApiAgentEvent[] = [];
  for await (const event of events) collectedEvents.push(event);
  return collectedEvents;
}
const textOf = (events: readonly ApiAgentEvent[]) =>
  events.map((event) => (event.type === "token" ? (event.content ?? "") : "")).join("");

describe("a streamed run of GantryClient", () => {
  it("yields tool_call, tool_result, token and done, and its result is the done event", async (t) => {
    const steps = [callTools(["echo", { text: "x" }, "call_1"]), "One, two."];
    const api = await startApi(t, { steps, agent: { tools: [echoTool] } });
    const client = new GantryClient({ url: api.url });
    const stream = await client.stream({ message: "Go" });
    const events = await all(stream);
    assert.deepEqual(events.map(({ type }) => type), ["tool_call", "tool_result", "token", "done"]); // prettier-ignore
    assert.equal(textOf(events), "One, two.");
    assert.deepEqual(await stream.result, events.at(-1));
    assert.equal(stream.model, "scripted/scripted-1");
    assert.equal((await client.runs.get(stream.runId)).session_id, stream.sessionId);
  });

  it("resolves its result before, after and without reading of the events", async (t) => {
    const steps = Array.from({ length: 3 }, (_, n) => `Answer ${n}.`);
    const api = await startApi(t, { steps });
    const client = new GantryClient({ url: api.url });
    assert.equal((await (await client.stream({ message: "x" })).result).done, true);
    const before = await client.stream({ message: "x" });
    const result = before.result;
    assert.equal(textOf(await all(before)), "Answer 1.");
    assert.equal((await result).type, "done");
    const late = await client.stream({ message: "x" });
    await late.result;
    assert.equal(textOf(await all(late)), "Answer 2.");
  });

  it("rejects with the same error as a plain request when the run fails", async (t) => {
    const fault = new ProviderError("scripted", "bad_request", "no such thing");
    const api = await startApi(t, {
      scripted: { fallback: { chunks: [{ type: "text", block: "0", text: "So" }], fault } },
    });
    const client = new GantryClient({ url: api.url });
    const plain = (await client.run({ message: "x" }).catch((error: unknown) => error)) as ApiError;
    assert.deepEqual([plain.code, plain.status], ["provider", 500]);
    const stream = await client.stream({ message: "x" });
    let receivedText = "";
    const read = async () => {
      for await (const event of stream) if (event.type === "token") receivedText += event.content ?? "";
    };
    await assert.rejects(read(), { name: plain.name, code: plain.code, status: plain.status, message: plain.message });
    assert.equal(receivedText, "So");
    await assert.rejects(stream.result, { code: "provider" });
    const { url, next } = await startScriptedProxy(t, api.url);
    const shut = 'event: error\ndata: {"error":"server shutting down","code":"shutting_down"}\n\n';
    next({ status: 200, headers: { "content-type": "text/event-stream" }, body: shut });
    const stopped = await new GantryClient({ url }).stream({ message: "x" });
    await assert.rejects(stopped.result, { name: "UnavailableError", status: 503 });
  });

  it("rejects with DisconnectedError if the connection breaks, also within an event, and counts dropped tokens", async (t) => {
    const api = await startApi(t);
    const { url, next } = await startScriptedProxy(t, api.url);
    const client = new GantryClient({ url });
    const headers = { "content-type": "text/event-stream" };
    const token = 'event: agent\ndata: {"type":"token","agent_id":"a","agent_name":"b","content":"x"}\n\n';
    for (const [body, breaks] of [
      [token, true],
      [token, false],
      [`${token}event: done\ndata: {"ty`, false],
    ] as const) {
      // prettier-ignore
      next({ status: 200, headers, body, breaks });
      const stream = await client.stream({ message: "x" });
      await assert.rejects(all(stream), DisconnectedError);
      await assert.rejects(stream.result, { code: "disconnected", status: 0 });
    }
    next({
      status: 200,
      headers,
      body: ": 12 token events were dropped, this reader was too slow\n\nevent: done\ndata: {}\n\n",
    });
    const slow = await client.stream({ message: "x" });
    await slow.result;
    assert.equal(slow.dropped, 12);
  });

  it("settles with the done or error event that it received, even if the connection then breaks or hangs", async (t) => {
    const api = await startApi(t);
    const { url, next } = await startScriptedProxy(t, api.url);
    const client = new GantryClient({ url });
    const headers = { "content-type": "text/event-stream" };
    const done = 'event: done\ndata: {"type":"done","done":true}\n\n';
    const failed = 'event: error\ndata: {"error":"no such thing","code":"provider"}\n\n';
    for (const connectionFault of [{ breaks: true }, { hangs: true }]) {
      next({ status: 200, headers, body: done, ...connectionFault });
      const stream = await client.stream({ message: "x" });
      await all(stream);
      assert.equal((await stream.result).type, "done");
      next({ status: 200, headers, body: failed, ...connectionFault });
      const failedStream = await client.stream({ message: "x" });
      await assert.rejects(all(failedStream), { code: "provider", status: 500 });
      await assert.rejects(failedStream.result, { code: "provider" });
    }
  });

  it("is cancelled when its reader stops, closes it or aborts the signal", async (t) => {
    const leaveActions: ((
      stream: Awaited<ReturnType<GantryClient["stream"]>>,
      stop: AbortController,
    ) => Promise<unknown>)[] = [
      async (stream) => {
        for await (const event of stream) if (event.type === "tool_call") break;
        await assert.rejects(stream.result, DisconnectedError);
      },
      async (stream) => {
        const reading = all(stream);
        stream.close();
        stream.close();
        await assert.rejects(reading, { message: "the stream was closed" });
      },
      async (stream, stop) => {
        const reason = new Error("enough");
        const reading = all(stream);
        stop.abort(reason);
        await assert.rejects(reading, reason);
        await assert.rejects(stream.result, reason);
      },
    ];
    for (const leaveStream of leaveActions) {
      const open = gate();
      const api = await startApi(t, { steps: [callTools(["wait", {}])], agent: { tools: [waitTool(open)] } });
      const client = new GantryClient({ url: api.url });
      const stop = new AbortController();
      const stream = await client.stream({ message: "Wait" }, { signal: stop.signal });
      await open.reached;
      await leaveStream(stream, stop);
      for await (const event of client.sessions.watch(stream.sessionId))
        if (event.type === "state" && event.run?.state === "cancelled") break;
    }
  });

  it("reports dropped token events if, and only if, text is missing for a slow reader", async (t) => {
    const piece = "x".repeat(10_000);
    const many = Array.from({ length: 350 }, (_, n): ScriptedChunk[] => [
      { type: "text", block: "0", text: `${n}${piece}` },
      ...(n % 10 === 0 ? [1] : []),
    ]).flat();
    const api = await startApi(t, { steps: [many] });
    const client = new GantryClient({ url: api.url });
    const stream = await client.stream({ message: "Much" });
    for await (const event of client.sessions.watch(stream.sessionId, { afterSeq: 2 }))
      if (event.type === "state" && event.run?.state === "finished") break;
    const events = await all(stream);
    assert.equal(events.at(-1)?.type, "done");
    const [, answer] = await client.sessions.messages(stream.sessionId);
    const missing = String(answer?.content).length - textOf(events).length;
    assert.equal(missing > 0, stream.dropped > 0, `${missing} characters, ${stream.dropped} events`);
  });
});
