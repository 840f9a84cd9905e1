import type { WireName } from "gantry/adapters/language-models";

/** The expected result of an answer. */
export interface ExpectedAnswer {
  text: string;
  reasoning: string;
  calls: [name: string, args: string][];
  /** Finish reason; null if the answer has none. */
  reason: string | null;
  /** Input, output, cache-read and reasoning tokens; null if the answer reports no usage. */
  usage: [number, number, number, number] | null;
}

/** An unusual answer that some server sends, and its meaning. */
export interface UnusualAnswer {
  name: string;
  body: string;
  /** Content type. Default: that of an event stream. */
  type?: string;
  /** Default: the text "Hello", `stop`, no usage. */
  expected?: Partial<ExpectedAnswer>;
}

const toDataLine = (value: unknown): string => `data: ${typeof value === "string" ? value : JSON.stringify(value)}\n\n`;
const createStream = (...values: unknown[]): string => values.map(toDataLine).join("");

const createDelta = (fields: object, choiceFields: object = {}, finishReason: string | null = null): object => ({
  id: "c",
  object: "chat.completion.chunk",
  choices: [{ index: 0, delta: fields, finish_reason: finishReason, ...choiceFields }],
});
const helloChunks = [createDelta({ role: "assistant", content: "Hel" }), createDelta({ content: "lo" })];
const stopChunk = createDelta({}, {}, "stop");
const usageCounts = { prompt_tokens: 11, completion_tokens: 5, total_tokens: 16 };
const createCallDelta = (call: object): object => createDelta({ tool_calls: [call] });
const readCall: [string, string] = ["read", '{"path":"a"}'];
const expectedReadCall: Partial<ExpectedAnswer> = { text: "", calls: [readCall], reason: "tool_calls" };

const openai: UnusualAnswer[] = [
  { name: "null choices", body: createStream({ choices: null }, ...helloChunks, stopChunk, "[DONE]") },
  {
    name: "a chunk with a null error",
    body: createStream({ ...helloChunks[0], error: null }, helloChunks[1], stopChunk, "[DONE]"),
  },
  {
    name: "a chunk with only usage",
    body: createStream(...helloChunks, stopChunk, { usage: usageCounts }, "[DONE]"),
    expected: { usage: [11, 5, 0, 0] },
  },
  {
    name: "token counts as text",
    body: createStream(
      ...helloChunks,
      stopChunk,
      { choices: [], usage: { prompt_tokens: "11", completion_tokens: "5" } },
      "[DONE]",
    ),
    expected: { usage: [11, 5, 0, 0] },
  },
  {
    name: "a missing token count",
    body: createStream(
      ...helloChunks,
      stopChunk,
      { choices: [], usage: { completion_tokens: 5, prompt_tokens_details: null } },
      "[DONE]",
    ),
    expected: { usage: [0, 5, 0, 0] },
  },
  {
    name: "usage inside a choice",
    body: createStream(
      ...helloChunks,
      createDelta({}, { usage: { ...usageCounts, cached_tokens: 4 } }, "stop"),
      "[DONE]",
    ),
    expected: { usage: [11, 5, 4, 0] },
  },
  {
    name: "usage under a vendor's key",
    body: createStream(...helloChunks, { ...stopChunk, x_groq: { id: "r", usage: usageCounts } }, "[DONE]"),
    expected: { usage: [11, 5, 0, 0] },
  },
  {
    name: "reasoning tokens that completion_tokens excludes",
    body: createStream(
      ...helloChunks,
      {
        ...stopChunk,
        usage: { ...usageCounts, total_tokens: 36, completion_tokens_details: { reasoning_tokens: 20 } },
      },
      "[DONE]",
    ),
    expected: { usage: [11, 25, 0, 20] },
  },
  { name: "no finish reason before [DONE]", body: createStream(...helloChunks, "[DONE]"), expected: { reason: null } },
  { name: "no [DONE] and no empty line at the end", body: createStream(...helloChunks, stopChunk).trimEnd() },
  {
    name: "no empty lines between events",
    body: createStream(...helloChunks, stopChunk, "[DONE]").replaceAll("\n\n", "\n"),
  },
  {
    name: "lines that end with CR LF",
    body: createStream(...helloChunks, stopChunk, "[DONE]").replaceAll("\n", "\r\n"),
  },
  { name: "lines that end with CR", body: createStream(...helloChunks, stopChunk, "[DONE]").replaceAll("\n", "\r") },
  {
    name: "comments, ids, text between the events, and a byte order mark",
    body: `\ufeff: hi\n\nid: 1\nretry: 5\n\ndata: ping\n\ndata:\n\n${createStream(...helloChunks, stopChunk, "[DONE]")}`,
  },
  {
    name: "arguments as an object",
    body: createStream(
      createCallDelta({ index: 0, id: "c1", function: { name: "read", arguments: { path: "a" } } }),
      stopChunk,
      "[DONE]",
    ),
    expected: expectedReadCall,
  },
  {
    name: "a call with its index as text, null arguments, and its name at the end",
    body: createStream(
      createCallDelta({ index: "0", id: "c1", function: { arguments: null } }),
      createCallDelta({ index: "0", function: { arguments: '{"path":' } }),
      createCallDelta({ index: "0", function: { name: "read", arguments: '"a"}' } }),
      stopChunk,
      "[DONE]",
    ),
    expected: expectedReadCall,
  },
  {
    name: "several calls with the index 0",
    body: createStream(
      createCallDelta({ index: 0, id: "c1", function: { name: "read", arguments: '{"path":"a"}' } }),
      createCallDelta({ index: 0, id: "c2", function: { name: "read", arguments: '{"path":"b"}' } }),
      stopChunk,
      "[DONE]",
    ),
    expected: { ...expectedReadCall, calls: [readCall, ["read", '{"path":"b"}']] },
  },
  {
    name: "the legacy function_call format",
    body: createStream(
      createDelta({ function_call: { name: "read", arguments: '{"path"' } }),
      createDelta({ function_call: { arguments: ':"a"}' } }),
      createDelta({}, {}, "function_call"),
      "[DONE]",
    ),
    expected: expectedReadCall,
  },
  {
    name: "empty values in all fields",
    body: createStream(
      createDelta(
        { content: "Hello", refusal: "", function_call: { name: "", arguments: "" }, tool_calls: [{}] },
        {},
        "",
      ),
      stopChunk,
      "[DONE]",
    ),
  },
  {
    name: "content as parts, with parts of unknown types",
    body: createStream(
      createDelta({ content: [{ type: "thinking", thinking: [{ type: "text", text: "Hm." }] }] }),
      createDelta({
        content: [
          { type: "reference", ids: [1] },
          { type: "text", text: "Hello" },
        ],
      }),
      stopChunk,
      "[DONE]",
    ),
    expected: { reasoning: "Hm." },
  },
  {
    name: "annotations without titles, unknown fields and unknown roles",
    body: createStream(
      createDelta({ role: "model", content: "Hello", annotations: [{ type: "url_citation", url_citation: {} }], x: 1 }),
      stopChunk,
      "[DONE]",
    ),
  },
  {
    name: "a complete answer with the content type of a stream",
    body: JSON.stringify({ choices: [{ message: { content: "Hello", tool_calls: null } }], usage: usageCounts }),
    expected: { usage: [11, 5, 0, 0] },
  },
];

const createJsonAnswer = (value: object): Pick<UnusualAnswer, "body" | "type"> => ({
  body: JSON.stringify(value),
  type: "application/json",
});

const messageStart = { type: "message_start", message: { id: "m", role: "assistant", content: [] } };
const createBlockStart = (index: number, content_block: object): object => ({
  type: "content_block_start",
  index,
  content_block,
});
const createBlockDelta = (index: number, piece: object): object => ({
  type: "content_block_delta",
  index,
  delta: piece,
});
const textBlockEvents = [
  createBlockStart(0, { type: "text", text: "" }),
  createBlockDelta(0, { type: "text_delta", text: "Hello" }),
  { type: "content_block_stop", index: 0 },
];
const createMessageEnd = (stop_reason = "end_turn", usage: object = {}): object[] => [
  { type: "message_delta", delta: { stop_reason }, ...usage },
  { type: "message_stop" },
];

const anthropic: UnusualAnswer[] = [
  { name: "no usage", body: createStream(messageStart, ...textBlockEvents, ...createMessageEnd()) },
  {
    name: "no usage at the start, and counts as text",
    body: createStream(
      messageStart,
      ...textBlockEvents,
      ...createMessageEnd("end_turn", { usage: { input_tokens: "11", output_tokens: "5" } }),
    ),
    expected: { usage: [11, 5, 0, 0] },
  },
  {
    name: "zeros that follow the token counts",
    body: createStream(
      { ...messageStart, message: { usage: { input_tokens: 11, output_tokens: 1, cache_read_input_tokens: 4 } } },
      ...textBlockEvents,
      ...createMessageEnd("end_turn", { usage: { input_tokens: 0, output_tokens: 5, cache_read_input_tokens: null } }),
    ),
    expected: { usage: [15, 5, 4, 0] },
  },
  {
    name: "unknown events, blocks and deltas",
    body: createStream(
      messageStart,
      { type: "tomorrow", index: 0 },
      createBlockStart(7, { type: "hologram", data: "x" }),
      createBlockDelta(7, { type: "hologram_delta", data: "y" }),
      { type: "content_block_stop", index: 7 },
      ...textBlockEvents.slice(0, 2),
      createBlockDelta(0, { type: "sentiment_delta", value: 3 }),
      createBlockDelta(0, { type: "citations_delta", citation: { type: "unheard_of" } }),
      textBlockEvents[2],
      ...createMessageEnd(),
    ),
  },
  {
    name: "arguments as an object, in the block start or in a delta",
    body: createStream(
      messageStart,
      createBlockStart(0, { type: "tool_use", id: "t1", name: "read", input: { path: "a" } }),
      { type: "content_block_stop", index: 0 },
      createBlockStart(1, { type: "tool_use", id: "t2", name: "read", input: {} }),
      createBlockDelta(1, { type: "input_json_delta", partial_json: { path: "a" } }),
      ...createMessageEnd("tool_use"),
    ),
    expected: { ...expectedReadCall, calls: [readCall, readCall] },
  },
  {
    name: "blocks without a start, and types only in the event names",
    body: [createBlockDelta(0, { type: "text_delta", text: "Hello" }), ...createMessageEnd()]
      .map((event) => {
        const { type, ...eventFields } = event as { type: string };
        return `event: ${type}\ndata: ${JSON.stringify(eventFields)}\n\n`;
      })
      .join(""),
  },
  {
    name: "a repeated start event",
    body: createStream(messageStart, ...textBlockEvents, messageStart, ...createMessageEnd()),
  },
  {
    name: "a connection that closes after the stop reason",
    body: createStream(messageStart, ...textBlockEvents, createMessageEnd()[0]),
  },
  {
    name: "a complete answer without streaming",
    ...createJsonAnswer({
      type: "message",
      content: [
        { type: "thinking", thinking: "Hm.", signature: "s" },
        { type: "text", text: "Hello" },
      ],
      stop_reason: "end_turn",
      usage: { input_tokens: 11, output_tokens: 5 },
    }),
    expected: { reasoning: "Hm.", usage: [11, 5, 0, 0] },
  },
];

const createCandidate = (parts: unknown, candidateFields: object = {}): object => ({
  candidates: [{ content: { role: "model", parts }, index: 0, ...candidateFields }],
});
const stopFields = { finishReason: "STOP" };

const google: UnusualAnswer[] = [
  {
    name: "parts of unknown kinds, unknown fields, missing content, missing parts, missing candidates",
    body: createStream(
      createCandidate([{ hologram: {} }, { text: "Hel", shade: 1 }]),
      { candidates: [{ index: 0 }] },
      { candidates: [{ content: {} }] },
      { candidates: null, tomorrow: true },
      createCandidate([{ text: "lo" }], stopFields),
    ),
  },
  {
    name: "token counts as text, missing token counts, grounding without titles",
    body: createStream({
      ...createCandidate([{ text: "Hello" }], { ...stopFields, groundingMetadata: { groundingChunks: [{ web: {} }] } }),
      usageMetadata: { promptTokenCount: "11", thoughtsTokenCount: 5 },
    }),
    expected: { usage: [11, 5, 0, 5] },
  },
  {
    name: "arguments as text, and missing arguments",
    body: createStream(
      createCandidate(
        [{ functionCall: { name: "read", args: '{"path":"a"}' } }, { functionCall: { name: "list" } }],
        stopFields,
      ),
    ),
    expected: { ...expectedReadCall, calls: [readCall, ["list", "{}"]] },
  },
  {
    name: "arguments sent value by value, with and without an end",
    body: createStream(
      createCandidate([{ functionCall: { name: "edit", willContinue: true } }]),
      createCandidate([
        { functionCall: { partialArgs: [{ jsonPath: "$.at[0].path", stringValue: "a" }], willContinue: true } },
      ]),
      createCandidate([
        { functionCall: { partialArgs: [{ jsonPath: "$.at[0].path", stringValue: "b" }], willContinue: true } },
      ]),
      createCandidate([{ functionCall: { partialArgs: [{ jsonPath: "$.n", numberValue: 0.5 }], willContinue: true } }]),
      createCandidate([{ functionCall: {} }, { functionCall: { name: "list", willContinue: true } }]),
      createCandidate([{ functionCall: { partialArgs: [{ jsonPath: "$.__proto__", boolValue: true }] } }], stopFields),
    ),
    expected: {
      ...expectedReadCall,
      calls: [
        ["edit", '{"at":[{"path":"ab"}],"n":0.5}'],
        ["list", '{"__proto__":true}'],
      ],
    },
  },
  {
    name: "chunks wrapped by a gateway",
    body: createStream({ response: createCandidate([{ text: "Hello" }], stopFields) }),
  },
  {
    name: "a list of chunks instead of events",
    ...createJsonAnswer([createCandidate([{ text: "Hel" }]), createCandidate([{ text: "lo" }], stopFields)]),
  },
  {
    name: "a complete answer without streaming",
    ...createJsonAnswer(createCandidate([{ text: "Hello" }], stopFields)),
  },
];

const createItem = (output_index: number, value: object, state: "added" | "done"): object => ({
  type: `response.output_item.${state}`,
  output_index,
  item: value,
});
const createTextDelta = (output_index: number, item_id: string, piece: string): object => ({
  type: "response.output_text.delta",
  output_index,
  item_id,
  content_index: 0,
  delta: piece,
});
const createCompletion = (responseFields: object = {}): object => ({
  type: "response.completed",
  response: { id: "r", ...responseFields },
});
const createMessageItem = (id: string): object => ({
  type: "message",
  id,
  content: [{ type: "output_text", text: "Hello" }],
});
const readCallItem = { type: "function_call", call_id: "c1", name: "read" };

const responses: UnusualAnswer[] = [
  {
    name: "reasoning text of open models",
    body: createStream(
      createItem(0, { type: "reasoning", id: "r1", summary: [] }, "added"),
      { type: "response.reasoning_text.delta", output_index: 0, item_id: "r1", content_index: 0, delta: "H" },
      { type: "response.reasoning_text.delta", output_index: 0, item_id: "r1", content_index: 0, delta: "m." },
      { type: "response.reasoning_text.done", output_index: 0, item_id: "r1", content_index: 0, text: "Hm." },
      createItem(
        0,
        { type: "reasoning", id: "r1", summary: [], content: [{ type: "reasoning_text", text: "Hm." }] },
        "done",
      ),
      createTextDelta(1, "m1", "Hello"),
      createCompletion(),
    ),
    expected: { reasoning: "Hm." },
  },
  {
    name: "a different id in each event",
    body: createStream(
      createItem(0, { type: "reasoning", id: "a" }, "added"),
      { type: "response.reasoning_summary_part.added", output_index: 0, item_id: "b", summary_index: 0 },
      { type: "response.reasoning_summary_text.delta", output_index: 0, item_id: "c", summary_index: 0, delta: "Hm." },
      { type: "response.reasoning_summary_part.done", output_index: 0, item_id: "d", summary_index: 0 },
      createItem(0, { type: "reasoning", id: "e", summary: [{ text: "Hm." }], encrypted_content: "x" }, "done"),
      createItem(1, { type: "message", id: "f", content: [] }, "added"),
      createTextDelta(1, "g", "Hel"),
      createTextDelta(1, "h", "lo"),
      createItem(1, createMessageItem("i"), "done"),
      createCompletion({
        output: [{ type: "reasoning", id: "j", summary: [{ text: "Hm." }] }, createMessageItem("k")],
      }),
    ),
    expected: { reasoning: "Hm." },
  },
  {
    name: "unknown events and items, annotations without titles, token counts as text",
    body: createStream(
      { type: "response.tomorrow", sequence_number: 0 },
      createItem(0, { type: "hologram_call", id: "x" }, "added"),
      { type: "response.hologram_call.delta", output_index: 0, delta: "y" },
      createItem(0, { type: "hologram_call", id: "x" }, "done"),
      createTextDelta(1, "m1", "Hello"),
      { type: "response.output_text.annotation.added", item_id: "m1", annotation: { type: "url_citation" } },
      createCompletion({ usage: { input_tokens: "11", output_tokens: 5 } }),
    ),
    expected: { usage: [11, 5, 0, 0] },
  },
  {
    name: "items without deltas",
    body: createStream(createItem(0, createMessageItem("m1"), "done"), createCompletion()),
  },
  { name: "only the completion event", body: createStream(createCompletion({ output: [createMessageItem("m1")] })) },
  {
    name: "a call without output indexes, with its arguments as an object",
    body: createStream(
      { type: "response.output_item.added", item: { ...readCallItem, id: "f1", arguments: "" } },
      { type: "response.function_call_arguments.delta", item_id: "f1", delta: "{" },
      { type: "response.output_item.done", item: { ...readCallItem, id: "f1", arguments: { path: "a" } } },
      createCompletion({ output: [{ ...readCallItem, id: "f1", arguments: '{"path":"a"}' }] }),
    ),
    expected: expectedReadCall,
  },
  {
    name: "a complete answer without streaming",
    ...createJsonAnswer({
      object: "response",
      output: [createMessageItem("m1")],
      usage: { input_tokens: 11, output_tokens: 5 },
    }),
    expected: { usage: [11, 5, 0, 0] },
  },
];

export const UNUSUAL_ANSWERS: Readonly<Record<WireName, readonly UnusualAnswer[]>> = {
  openai,
  "openai-responses": responses,
  anthropic,
  google,
};
