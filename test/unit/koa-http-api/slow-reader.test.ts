import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { request, type IncomingMessage, type ServerResponse } from "node:http";
import { it } from "node:test";
import type { ScriptedChunk } from "gantry/testing";
import { EventPage, type WireEvent } from "../../helpers/event-page.js";
import { waitUntil } from "../../helpers/server-runs.js";
import { startApi } from "../../helpers/http-api.js";

/** Number of runs after the slow watcher's socket is full. The event that fills the socket varies. */
const EXTRA_RUN_COUNT = 20;
/** An answer of 200,000 characters. The event that ends a message repeats the whole text and must fit into the limit. */
const CHUNK_COUNT = 20;
const CHUNK_CHARACTERS = 10_000;
const MAX_PENDING_BYTES = 256 * 1024;

it("a watcher that does not read delays no run, buffers less than 256 KiB, and later receives every message", async (t) => {
  const chunks = Array.from({ length: CHUNK_COUNT }, (_, n): ScriptedChunk[] => {
    const chunk: ScriptedChunk = { type: "text", block: "0", text: `word ${n} `.padEnd(CHUNK_CHARACTERS, ".") };
    return n % 10 === 0 ? [chunk, 1] : [chunk];
  });
  const api = await startApi(t, { providerOptions: { fallback: chunks.flat() } });
  let finishedRunCount = 0;
  const runPrompt = async () => {
    await (
      await api.agent.run({ message: "hi", sessionId: id })
    ).result;
    finishedRunCount += 1;
  };
  const { id } = await api.agent.sessions.create();

  const responses: ServerResponse[] = [];
  let peakPendingBytes = 0;
  const captureWatchResponse = (message: unknown) => {
    const { request: incomingRequest, response } = message as { request: IncomingMessage; response: ServerResponse };
    if (!incomingRequest.url?.endsWith("/events")) return;
    responses.push(response);
    const originalWrite = response.write.bind(response) as (bytes: Uint8Array) => boolean;
    response.write = (bytes: Uint8Array) => {
      const canWriteMore = originalWrite(bytes);
      if (response === responses[0]) peakPendingBytes = Math.max(peakPendingBytes, response.writableLength);
      return canWriteMore;
    };
  };
  subscribe("http.server.request.start", captureWatchResponse);
  t.after(() => void unsubscribe("http.server.request.start", captureWatchResponse));

  const pages: EventPage[] = [];
  const openWatcher = async (isSlow: boolean): Promise<IncomingMessage> => {
    const watchRequest = request(`${api.url}/api/sessions/${id}/events`, { agent: false }).end();
    t.after(() => void watchRequest.destroy());
    const [response] = (await once(watchRequest, "response")) as [IncomingMessage];
    const page = new EventPage();
    pages.push(page);
    let incompleteBlock = "";
    response.setEncoding("utf8").on("data", (text: string) => {
      const blocks = (incompleteBlock + text).split("\n\n");
      incompleteBlock = blocks.pop() ?? "";
      for (const block of blocks) if (!block.startsWith(":")) page.apply(parseEvent(block));
    });
    if (isSlow) response.pause();
    return response;
  };
  const slowResponse = await openWatcher(true);
  await openWatcher(false);
  while (!responses[0]?.writableNeedDrain) await runPrompt();
  for (let n = 0; n < EXTRA_RUN_COUNT; n += 1) await runPrompt();
  const isComplete = ({ messages }: EventPage) =>
    messages.length === 2 * finishedRunCount && messages.at(-1)?.["finished"] !== false;
  await waitUntil(() => isComplete(pages[1]!));
  assert.equal(responses.length, 2);
  assert.ok(responses[0]!.writableNeedDrain, "the slow watcher's socket is full");
  assert.ok(peakPendingBytes < MAX_PENDING_BYTES, `${peakPendingBytes} bytes are buffered for the slow watcher`);
  const expectedMessages = ((await api.send(`/api/sessions/${id}/messages`)).json() as { messages: unknown[] })
    .messages;
  assert.deepEqual(pages[1]?.messages, expectedMessages);
  assert.notDeepEqual(pages[0]?.messages, expectedMessages);
  slowResponse.resume();
  await waitUntil(() => isComplete(pages[0]!));
  assert.deepEqual(pages[0]?.messages, expectedMessages);
});

function parseEvent(block: string): WireEvent {
  const fields = new Map(
    block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]),
  );
  return { type: fields.get("event") ?? "", id: fields.get("id"), data: JSON.parse(fields.get("data") ?? "null") };
}
