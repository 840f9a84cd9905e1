import type { FakeStep } from "./fake-model-server.js";

const longText = "word ".repeat(800);
const textChunk = (delta: object): string => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`;
const callChunk = (index: string, args: string, name?: string): string =>
  `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":${index},${name === undefined ? "" : `"id":"c${index}","type":"function",`}"function":{${name === undefined ? "" : `"name":"${name}",`}"arguments":${JSON.stringify(args)}}}]}}]}\n\n`;
const STREAM_END = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n';

/** Answers of a faulty or malicious provider on the chat-completions wire, larger than any memory. */
export const UNTRUSTED_ANSWERS = {
  "endless JSON": { flood: { type: "application/json", head: '{"choices":"', piece: "x".repeat(4096) } },
  "endless JSON in gzip": {
    flood: { type: "application/json", head: '{"choices":"', piece: "x".repeat(4096), gzip: true },
  },
  "an event without a line feed": { flood: { head: "data: ", piece: "x".repeat(4096) } },
  "an event without a line feed in gzip": { flood: { head: "data: ", piece: "x".repeat(4096), gzip: true } },
  "an event without an end": { flood: { piece: "data: xxxxxxxxxxxxxxxxxxxxxxxx\n" } },
  "plain text without an end": { flood: { type: "text/plain", piece: "x".repeat(4096) } },
  "an event of millions of values": { flood: { head: "data: ", piece: "[[[[" } },
  "an error in gzip": { status: 400, flood: { type: "application/json", piece: "x".repeat(4096), gzip: true } },
  "an endless error": { status: 400, flood: { type: "text/plain", head: "no ", piece: "x".repeat(4096) } },
  "endless tokens": { flood: { piece: textChunk({ content: longText }) } },
  "endless thoughts": { flood: { piece: textChunk({ reasoning_content: longText }) } },
  "endless arguments": {
    flood: { head: callChunk("0", '{"path":"', "read"), piece: callChunk("0", longText) },
  },
  "5,000 calls": { flood: { piece: callChunk("%d", '{"path":"a-%d"}', "read"), times: 5000, tail: STREAM_END } },
} satisfies Record<string, FakeStep>;

/** Model listings of a faulty or malicious provider. */
export const UNTRUSTED_LISTINGS = {
  "an endless list": { flood: { type: "application/json", head: '{"data":"', piece: "x".repeat(4096) } },
  "an endless list in gzip": {
    flood: { type: "application/json", head: '{"data":"', piece: "x".repeat(4096), gzip: true },
  },
  "an endless refusal in gzip": {
    status: 403,
    flood: { type: "application/json", head: '{"error":"', piece: "x".repeat(4096), gzip: true },
  },
  "a list of millions of values": { flood: { type: "application/json", head: '{"data":[{}', piece: ",{}" } },
  "200,000 models": {
    flood: {
      type: "application/json",
      head: '{"data":[{"id":"first"}',
      piece: ',{"id":"m-%d"}',
      times: 200_000,
      tail: "]}",
    },
  },
} satisfies Record<string, FakeStep>;
