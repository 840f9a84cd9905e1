import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { request, type IncomingMessage, type ServerResponse } from "node:http";
import { it } from "node:test";
import type { ScriptedChunk } from "gantry/testing";
import { EventPage, type WireEvent } from "../../helpers/event-page.js";
import { until } from "../../helpers/lab.js";
import { startApi } from "../../helpers/http-api.js";

/**
 * Number of runs after the run at which the sockets are full. Each event fits into the limit, including the end of a
 * message, which holds the whole message. The event at which the sockets become full is not known in advance.
 */
const MORE_RUNS = 20;
const WORDS = 20;
const WORD = 10_000;
const MAX_PENDING_BYTES = 256 * 1024;

it("a watcher that does not read delays no run, holds less than 256 KiB, and later receives every message", async (t) => {
  const words = Array.from({ length: WORDS }, (_, n): ScriptedChunk[] => {
    const chunk: ScriptedChunk = { type: "text", block: "0", text: `word ${n} `.padEnd(WORD, ".") };
    return n % 10 === 0 ? [chunk, 1] : [chunk];
  });
  const api = await startApi(t, { scripted: { fallback: words.flat() } });
  let runs = 0;
  const run = async () => {
    await (
      await api.agent.run({ message: "hi", sessionId: id })
    ).result;
    runs += 1;
  };
  const { id } = await api.agent.sessions.create();

  const responses: ServerResponse[] = [];
  let peakPendingBytes = 0;
  const recordResponse = (message: unknown) => {
    const { request: incomingRequest, response } = message as { request: IncomingMessage; response: ServerResponse };
    if (!incomingRequest.url?.endsWith("/events")) return;
    responses.push(response);
    const write = response.write.bind(response) as (piece: Uint8Array) => boolean;
    response.write = (piece: Uint8Array) => {
      const hasRoom = write(piece);
      if (response === responses[0]) peakPendingBytes = Math.max(peakPendingBytes, response.writableLength);
      return hasRoom;
    };
  };
  subscribe("http.server.request.start", recordResponse);
  t.after(() => void unsubscribe("http.server.request.start", recordResponse));

  const pages: EventPage[] = [];
  const watch = async (isSlow: boolean): Promise<IncomingMessage> => {
    const watchRequest = request(`${api.url}/api/sessions/${id}/events`, { agent: false }).end();
    t.after(() => void watchRequest.destroy());
    const [answer] = (await once(watchRequest, "response")) as [IncomingMessage];
    const page = new EventPage();
    pages.push(page);
    let incompleteBlock = "";
    answer.setEncoding("utf8").on("data", (text: string) => {
      const blocks = (incompleteBlock + text).split("\n\n");
      incompleteBlock = blocks.pop() ?? "";
      for (const block of blocks) if (!block.startsWith(":")) page.apply(eventOf(block));
    });
    if (isSlow) answer.pause();
    return answer;
  };
  const slow = await watch(true);
  await watch(false);
  while (!responses[0]?.writableNeedDrain) await run();
  for (let n = 0; n < MORE_RUNS; n += 1) await run();
  const isWhole = ({ messages }: EventPage) => messages.length === 2 * runs && messages.at(-1)?.["finished"] !== false;
  await until(() => isWhole(pages[1]!));
  assert.equal(responses.length, 2);
  assert.ok(responses[0]!.writableNeedDrain, "it is behind");
  assert.ok(peakPendingBytes < MAX_PENDING_BYTES, `${peakPendingBytes} bytes were kept for who does not read`);
  const expectedMessages = ((await api.send(`/api/sessions/${id}/messages`)).json() as { messages: unknown[] })
    .messages;
  assert.deepEqual(pages[1]?.messages, expectedMessages);
  assert.notDeepEqual(pages[0]?.messages, expectedMessages);
  slow.resume();
  await until(() => isWhole(pages[0]!));
  assert.deepEqual(pages[0]?.messages, expectedMessages);
});

function eventOf(block: string): WireEvent {
  const fields = new Map(
    block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]),
  );
  return { type: fields.get("event") ?? "", id: fields.get("id"), data: JSON.parse(fields.get("data") ?? "null") };
}
