import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { callTools, type ScriptedChunk } from "gantry/testing";
import { ProviderError } from "gantry";
import type { ApiError } from "gantry/client";
import { DisconnectedError, GantryClient, type ApiAgentEvent } from "gantry/client";
import { startScriptedProxy } from "../../../helpers/scripted-proxy.js";
import { createGate, createWaitTool } from "../../../helpers/gate.js";
import { startApi } from "../../../helpers/http-api.js";
import { echoTextTool } from "../../../helpers/http-api-tools.js";

async function collectEvents(events: AsyncIterable<ApiAgentEvent>): Promise<ApiAgentEvent[]> {
  const collectedEvents: ApiAgentEvent[] = [];
  for await (const event of events) collectedEvents.push(event);
  return collectedEvents;
}
const getText = (events: readonly ApiAgentEvent[]) =>
  events.map((event) => (event.type === "token" ? (event.content ?? "") : "")).join("");

describe("a streamed run of GantryClient", () => {
  it("yields tool_call, tool_result, token and done events, and its result is the done event", async (t) => {
    const steps = [callTools(["echo", { text: "x" }, "call_1"]), "One, two."];
    const api = await startApi(t, { steps, agent: { tools: [echoTextTool] } });
    const client = new GantryClient({ url: api.url });
    const stream = await client.stream({ message: "Go" });
    const events = await collectEvents(stream);
    assert.deepEqual(events.map(({ type }) => type), ["tool_call", "tool_result", "token", "done"]); // prettier-ignore
    assert.equal(getText(events), "One, two.");
    assert.deepEqual(await stream.result, events.at(-1));
    assert.equal(stream.model, "scripted/scripted-1");
    assert.equal((await client.runs.get(stream.runId)).session_id, stream.sessionId);
  });

  it("resolves its result whether its events are read before the result, after the result or not at all", async (t) => {
    const steps = Array.from({ length: 3 }, (_, n) => `Answer ${n}.`);
    const api = await startApi(t, { steps });
    const client = new GantryClient({ url: api.url });
    assert.equal((await (await client.stream({ message: "x" })).result).done, true);
    const secondStream = await client.stream({ message: "x" });
    const result = secondStream.result;
    assert.equal(getText(await collectEvents(secondStream)), "Answer 1.");
    assert.equal((await result).type, "done");
    const thirdStream = await client.stream({ message: "x" });
    await thirdStream.result;
    assert.equal(getText(await collectEvents(thirdStream)), "Answer 2.");
  });

  it("rejects with the same error as a plain request when the run fails", async (t) => {
    const fault = new ProviderError("scripted", "bad_request", "no such thing");
    const api = await startApi(t, {
      providerOptions: { fallback: { chunks: [{ type: "text", block: "0", text: "So" }], fault } },
    });
    const client = new GantryClient({ url: api.url });
    const plainError = (await client.run({ message: "x" }).catch((error: unknown) => error)) as ApiError;
    assert.deepEqual([plainError.code, plainError.status], ["provider", 500]);
    const stream = await client.stream({ message: "x" });
    let receivedText = "";
    const readStream = async () => {
      for await (const event of stream) if (event.type === "token") receivedText += event.content ?? "";
    };
    await assert.rejects(readStream(), {
      name: plainError.name,
      code: plainError.code,
      status: plainError.status,
      message: plainError.message,
    });
    assert.equal(receivedText, "So");
    await assert.rejects(stream.result, { code: "provider" });
    const { url, respondNext } = await startScriptedProxy(t, api.url);
    const shutdownEvent = 'event: error\ndata: {"error":"server shutting down","code":"shutting_down"}\n\n';
    respondNext({ status: 200, headers: { "content-type": "text/event-stream" }, body: shutdownEvent });
    const stoppedStream = await new GantryClient({ url }).stream({ message: "x" });
    await assert.rejects(stoppedStream.result, { name: "UnavailableError", status: 503 });
  });

  it("rejects with DisconnectedError if the connection breaks, and reads the count of dropped tokens", async (t) => {
    const api = await startApi(t);
    const { url, respondNext } = await startScriptedProxy(t, api.url);
    const client = new GantryClient({ url });
    const headers = { "content-type": "text/event-stream" };
    const tokenEvent = 'event: agent\ndata: {"type":"token","agent_id":"a","agent_name":"b","content":"x"}\n\n';
    for (const [body, breaksConnection] of [
      [tokenEvent, true],
      [tokenEvent, false],
      [`${tokenEvent}event: done\ndata: {"ty`, false],
    ] as const) {
      // prettier-ignore
      respondNext({ status: 200, headers, body, breaksConnection });
      const stream = await client.stream({ message: "x" });
      await assert.rejects(collectEvents(stream), DisconnectedError);
      await assert.rejects(stream.result, { code: "disconnected", status: 0 });
    }
    respondNext({
      status: 200,
      headers,
      body: ": 12 token events were dropped, this reader was too slow\n\nevent: done\ndata: {}\n\n",
    });
    const slowStream = await client.stream({ message: "x" });
    await slowStream.result;
    assert.equal(slowStream.dropped, 12);
  });

  it("settles with a received done or error event, even if the connection then breaks or hangs", async (t) => {
    const api = await startApi(t);
    const { url, respondNext } = await startScriptedProxy(t, api.url);
    const client = new GantryClient({ url });
    const headers = { "content-type": "text/event-stream" };
    const doneEvent = 'event: done\ndata: {"type":"done","done":true}\n\n';
    const errorEvent = 'event: error\ndata: {"error":"no such thing","code":"provider"}\n\n';
    for (const connectionFault of [{ breaksConnection: true }, { staysOpen: true }]) {
      respondNext({ status: 200, headers, body: doneEvent, ...connectionFault });
      const stream = await client.stream({ message: "x" });
      await collectEvents(stream);
      assert.equal((await stream.result).type, "done");
      respondNext({ status: 200, headers, body: errorEvent, ...connectionFault });
      const failedStream = await client.stream({ message: "x" });
      await assert.rejects(collectEvents(failedStream), { code: "provider", status: 500 });
      await assert.rejects(failedStream.result, { code: "provider" });
    }
  });

  it("is cancelled when its reader stops reading, closes the stream or aborts the signal", async (t) => {
    const stopActions: ((
      stream: Awaited<ReturnType<GantryClient["stream"]>>,
      runAbort: AbortController,
    ) => Promise<unknown>)[] = [
      async (stream) => {
        for await (const event of stream) if (event.type === "tool_call") break;
        await assert.rejects(stream.result, DisconnectedError);
      },
      async (stream) => {
        const readPromise = collectEvents(stream);
        stream.close();
        stream.close();
        await assert.rejects(readPromise, { message: "the stream was closed" });
      },
      async (stream, runAbort) => {
        const reason = new Error("enough");
        const readPromise = collectEvents(stream);
        runAbort.abort(reason);
        await assert.rejects(readPromise, reason);
        await assert.rejects(stream.result, reason);
      },
    ];
    for (const stopStream of stopActions) {
      const toolGate = createGate();
      const api = await startApi(t, { steps: [callTools(["wait", {}])], agent: { tools: [createWaitTool(toolGate)] } });
      const client = new GantryClient({ url: api.url });
      const runAbort = new AbortController();
      const stream = await client.stream({ message: "Wait" }, { signal: runAbort.signal });
      await toolGate.firstWait;
      await stopStream(stream, runAbort);
      for await (const event of client.sessions.watch(stream.sessionId))
        if (event.type === "state" && event.run?.state === "cancelled") break;
    }
  });

  it("reports dropped token events to a slow reader if and only if text is missing", async (t) => {
    // The answer of 3.5 MB exceeds the buffers of a reader that does not read. Every tenth chunk waits 1 ms.
    const padding = "x".repeat(10_000);
    const chunks = Array.from({ length: 350 }, (_, n): ScriptedChunk[] => [
      { type: "text", block: "0", text: `${n}${padding}` },
      ...(n % 10 === 0 ? [1] : []),
    ]).flat();
    const api = await startApi(t, { steps: [chunks] });
    const client = new GantryClient({ url: api.url });
    const stream = await client.stream({ message: "Much" });
    for await (const event of client.sessions.watch(stream.sessionId, { afterSeq: 2 }))
      if (event.type === "state" && event.run?.state === "finished") break;
    const events = await collectEvents(stream);
    assert.equal(events.at(-1)?.type, "done");
    const [, answerMessage] = await client.sessions.messages(stream.sessionId);
    const missingCharacters = String(answerMessage?.content).length - getText(events).length;
    assert.equal(
      missingCharacters > 0,
      stream.dropped > 0,
      `${missingCharacters} characters, ${stream.dropped} events`,
    );
  });
});
