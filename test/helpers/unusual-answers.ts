import type { WireName } from "gantry/adapters/language-models";

/** The expected result of an answer. Usage is input, output, cache-read and reasoning tokens. */
export interface Expected {
  text: string;
  reasoning: string;
  calls: [name: string, args: string][];
  reason: string | null;
  usage: [number, number, number, number] | null;
}

/** An unusual answer that some server sends, and its meaning. */
export interface UnusualAnswer {
  name: string;
  body: string;
  type?: string;
  /** Default: the text "Hello", `stop`, no usage. */
  expected?: Partial<Expected>;
}

const data = (value: unknown): string => `data: ${typeof value === "string" ? value : JSON.stringify(value)}\n\n`;
const stream = (...values: unknown[]): string => values.map(data).join("");

const delta = (fields: object, choiceFields: object = {}, finish: string | null = null): object => ({
  id: "c",
  object: "chat.completion.chunk",
  choices: [{ index: 0, delta: fields, finish_reason: finish, ...choiceFields }],
});
const hello = [delta({ role: "assistant", content: "Hel" }), delta({ content: "lo" })];
const stop = delta({}, {}, "stop");
const counts = { prompt_tokens: 11, completion_tokens: 5, total_tokens: 16 };
const calling = (call: object): object => delta({ tool_calls: [call] });
const read: [string, string] = ["read", '{"path":"a"}'];
const called: Partial<Expected> = { text: "", calls: [read], reason: "tool_calls" };

const openai: UnusualAnswer[] = [
  { name: "choices that are null", body: stream({ choices: null }, ...hello, stop, "[DONE]") },
  { name: "a chunk with an error that is null", body: stream({ ...hello[0], error: null }, hello[1], stop, "[DONE]") },
  {
    name: "usage alone, without choices",
    body: stream(...hello, stop, { usage: counts }, "[DONE]"),
    expected: { usage: [11, 5, 0, 0] },
  },
  {
    name: "numbers as text",
    body: stream(...hello, stop, { choices: [], usage: { prompt_tokens: "11", completion_tokens: "5" } }, "[DONE]"),
    expected: { usage: [11, 5, 0, 0] },
  },
  {
    name: "a count left out",
    body: stream(
      ...hello,
      stop,
      { choices: [], usage: { completion_tokens: 5, prompt_tokens_details: null } },
      "[DONE]",
    ),
    expected: { usage: [0, 5, 0, 0] },
  },
  {
    name: "usage inside a choice",
    body: stream(...hello, delta({}, { usage: { ...counts, cached_tokens: 4 } }, "stop"), "[DONE]"),
    expected: { usage: [11, 5, 4, 0] },
  },
  {
    name: "usage under a vendor's key",
    body: stream(...hello, { ...stop, x_groq: { id: "r", usage: counts } }, "[DONE]"),
    expected: { usage: [11, 5, 0, 0] },
  },
  {
    name: "thoughts counted beside the rest",
    body: stream(
      ...hello,
      { ...stop, usage: { ...counts, total_tokens: 36, completion_tokens_details: { reasoning_tokens: 20 } } },
      "[DONE]",
    ),
    expected: { usage: [11, 25, 0, 20] },
  },
  { name: "no finish reason before [DONE]", body: stream(...hello, "[DONE]"), expected: { reason: null } },
  { name: "no [DONE] and no empty line at the end", body: stream(...hello, stop).trimEnd() },
  { name: "no empty lines between events", body: stream(...hello, stop, "[DONE]").replaceAll("\n\n", "\n") },
  { name: "lines that end with CR LF", body: stream(...hello, stop, "[DONE]").replaceAll("\n", "\r\n") },
  { name: "lines that end with CR", body: stream(...hello, stop, "[DONE]").replaceAll("\n", "\r") },
  {
    name: "comments, ids, words between the events and a byte order mark",
    body: `\ufeff: hi\n\nid: 1\nretry: 5\n\ndata: ping\n\ndata:\n\n${stream(...hello, stop, "[DONE]")}`,
  },
  {
    name: "arguments as an object",
    body: stream(calling({ index: 0, id: "c1", function: { name: "read", arguments: { path: "a" } } }), stop, "[DONE]"),
    expected: called,
  },
  {
    name: "a call with the index as text, null arguments, and its name at the end",
    body: stream(
      calling({ index: "0", id: "c1", function: { arguments: null } }),
      calling({ index: "0", function: { arguments: '{"path":' } }),
      calling({ index: "0", function: { name: "read", arguments: '"a"}' } }),
      stop,
      "[DONE]",
    ),
    expected: called,
  },
  {
    name: "calls that all count as the first",
    body: stream(
      calling({ index: 0, id: "c1", function: { name: "read", arguments: '{"path":"a"}' } }),
      calling({ index: 0, id: "c2", function: { name: "read", arguments: '{"path":"b"}' } }),
      stop,
      "[DONE]",
    ),
    expected: { ...called, calls: [read, ["read", '{"path":"b"}']] },
  },
  {
    name: "the form of calls before there were several",
    body: stream(
      delta({ function_call: { name: "read", arguments: '{"path"' } }),
      delta({ function_call: { arguments: ':"a"}' } }),
      delta({}, {}, "function_call"),
      "[DONE]",
    ),
    expected: called,
  },
  {
    name: "every field filled in with nothing",
    body: stream(
      delta({ content: "Hello", refusal: "", function_call: { name: "", arguments: "" }, tool_calls: [{}] }, {}, ""),
      stop,
      "[DONE]",
    ),
  },
  {
    name: "content in parts, and parts of unknown types",
    body: stream(
      delta({ content: [{ type: "thinking", thinking: [{ type: "text", text: "Hm." }] }] }),
      delta({
        content: [
          { type: "reference", ids: [1] },
          { type: "text", text: "Hello" },
        ],
      }),
      stop,
      "[DONE]",
    ),
    expected: { reasoning: "Hm." },
  },
  {
    name: "annotations without titles, unknown fields and roles",
    body: stream(
      delta({ role: "model", content: "Hello", annotations: [{ type: "url_citation", url_citation: {} }], x: 1 }),
      stop,
      "[DONE]",
    ),
  },
  {
    name: "a whole answer, called a stream",
    body: JSON.stringify({ choices: [{ message: { content: "Hello", tool_calls: null } }], usage: counts }),
    expected: { usage: [11, 5, 0, 0] },
  },
];

const jsonAnswer = (value: object): Pick<UnusualAnswer, "body" | "type"> => ({
  body: JSON.stringify(value),
  type: "application/json",
});

const started = { type: "message_start", message: { id: "m", role: "assistant", content: [] } };
const block = (index: number, content_block: object): object => ({ type: "content_block_start", index, content_block });
const grown = (index: number, piece: object): object => ({ type: "content_block_delta", index, delta: piece });
const textBlock = [
  block(0, { type: "text", text: "" }),
  grown(0, { type: "text_delta", text: "Hello" }),
  { type: "content_block_stop", index: 0 },
];
const ended = (stop_reason = "end_turn", usage: object = {}): object[] => [
  { type: "message_delta", delta: { stop_reason }, ...usage },
  { type: "message_stop" },
];

const anthropic: UnusualAnswer[] = [
  { name: "no usage at all", body: stream(started, ...textBlock, ...ended()) },
  {
    name: "no usage at the start, and counts as text",
    body: stream(started, ...textBlock, ...ended("end_turn", { usage: { input_tokens: "11", output_tokens: "5" } })),
    expected: { usage: [11, 5, 0, 0] },
  },
  {
    name: "zeros behind the counts",
    body: stream(
      { ...started, message: { usage: { input_tokens: 11, output_tokens: 1, cache_read_input_tokens: 4 } } },
      ...textBlock,
      ...ended("end_turn", { usage: { input_tokens: 0, output_tokens: 5, cache_read_input_tokens: null } }),
    ),
    expected: { usage: [15, 5, 4, 0] },
  },
  {
    name: "unknown events, blocks and deltas",
    body: stream(
      started,
      { type: "tomorrow", index: 0 },
      block(7, { type: "hologram", data: "x" }),
      grown(7, { type: "hologram_delta", data: "y" }),
      { type: "content_block_stop", index: 7 },
      ...textBlock.slice(0, 2),
      grown(0, { type: "sentiment_delta", value: 3 }),
      grown(0, { type: "citations_delta", citation: { type: "unheard_of" } }),
      textBlock[2],
      ...ended(),
    ),
  },
  {
    name: "arguments as an object, in the start or in a delta",
    body: stream(
      started,
      block(0, { type: "tool_use", id: "t1", name: "read", input: { path: "a" } }),
      { type: "content_block_stop", index: 0 },
      block(1, { type: "tool_use", id: "t2", name: "read", input: {} }),
      grown(1, { type: "input_json_delta", partial_json: { path: "a" } }),
      ...ended("tool_use"),
    ),
    expected: { ...called, calls: [read, read] },
  },
  {
    name: "blocks without a start, and types told by the event's name alone",
    body: [grown(0, { type: "text_delta", text: "Hello" }), ...ended()]
      .map((event) => {
        const { type, ...eventFields } = event as { type: string };
        return `event: ${type}\ndata: ${JSON.stringify(eventFields)}\n\n`;
      })
      .join(""),
  },
  { name: "a start that comes twice", body: stream(started, ...textBlock, started, ...ended()) },
  { name: "the connection closed behind the reason", body: stream(started, ...textBlock, ended()[0]) },
  {
    name: "a whole answer",
    ...jsonAnswer({
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

const candidate = (parts: unknown, candidateFields: object = {}): object => ({
  candidates: [{ content: { role: "model", parts }, index: 0, ...candidateFields }],
});
const done = { finishReason: "STOP" };

const google: UnusualAnswer[] = [
  {
    name: "parts of unknown kinds, unknown fields, no content, no parts, a candidate left out",
    body: stream(
      candidate([{ hologram: {} }, { text: "Hel", shade: 1 }]),
      { candidates: [{ index: 0 }] },
      { candidates: [{ content: {} }] },
      { candidates: null, tomorrow: true },
      candidate([{ text: "lo" }], done),
    ),
  },
  {
    name: "counts as text and left out, grounding without titles",
    body: stream({
      ...candidate([{ text: "Hello" }], { ...done, groundingMetadata: { groundingChunks: [{ web: {} }] } }),
      usageMetadata: { promptTokenCount: "11", thoughtsTokenCount: 5 },
    }),
    expected: { usage: [11, 5, 0, 5] },
  },
  {
    name: "arguments as text, and none",
    body: stream(
      candidate([{ functionCall: { name: "read", args: '{"path":"a"}' } }, { functionCall: { name: "list" } }], done),
    ),
    expected: { ...called, calls: [read, ["list", "{}"]] },
  },
  {
    name: "arguments value by value, with and without an end",
    body: stream(
      candidate([{ functionCall: { name: "edit", willContinue: true } }]),
      candidate([
        { functionCall: { partialArgs: [{ jsonPath: "$.at[0].path", stringValue: "a" }], willContinue: true } },
      ]),
      candidate([
        { functionCall: { partialArgs: [{ jsonPath: "$.at[0].path", stringValue: "b" }], willContinue: true } },
      ]),
      candidate([{ functionCall: { partialArgs: [{ jsonPath: "$.n", numberValue: 0.5 }], willContinue: true } }]),
      candidate([{ functionCall: {} }, { functionCall: { name: "list", willContinue: true } }]),
      candidate([{ functionCall: { partialArgs: [{ jsonPath: "$.__proto__", boolValue: true }] } }], done),
    ),
    expected: {
      ...called,
      calls: [
        ["edit", '{"at":[{"path":"ab"}],"n":0.5}'],
        ["list", '{"__proto__":true}'],
      ],
    },
  },
  { name: "chunks that a gateway wraps", body: stream({ response: candidate([{ text: "Hello" }], done) }) },
  {
    name: "a list of chunks instead of events",
    ...jsonAnswer([candidate([{ text: "Hel" }]), candidate([{ text: "lo" }], done)]),
  },
  { name: "a whole answer", ...jsonAnswer(candidate([{ text: "Hello" }], done)) },
];

const item = (output_index: number, value: object, state: "added" | "done"): object => ({
  type: `response.output_item.${state}`,
  output_index,
  item: value,
});
const spoken = (output_index: number, item_id: string, piece: string): object => ({
  type: "response.output_text.delta",
  output_index,
  item_id,
  content_index: 0,
  delta: piece,
});
const completed = (responseFields: object = {}): object => ({
  type: "response.completed",
  response: { id: "r", ...responseFields },
});
const message = (id: string): object => ({ type: "message", id, content: [{ type: "output_text", text: "Hello" }] });
const called0 = { type: "function_call", call_id: "c1", name: "read" };

const responses: UnusualAnswer[] = [
  {
    name: "thoughts of open models",
    body: stream(
      item(0, { type: "reasoning", id: "r1", summary: [] }, "added"),
      { type: "response.reasoning_text.delta", output_index: 0, item_id: "r1", content_index: 0, delta: "H" },
      { type: "response.reasoning_text.delta", output_index: 0, item_id: "r1", content_index: 0, delta: "m." },
      { type: "response.reasoning_text.done", output_index: 0, item_id: "r1", content_index: 0, text: "Hm." },
      item(0, { type: "reasoning", id: "r1", summary: [], content: [{ type: "reasoning_text", text: "Hm." }] }, "done"),
      spoken(1, "m1", "Hello"),
      completed(),
    ),
    expected: { reasoning: "Hm." },
  },
  {
    name: "another id with every event",
    body: stream(
      item(0, { type: "reasoning", id: "a" }, "added"),
      { type: "response.reasoning_summary_part.added", output_index: 0, item_id: "b", summary_index: 0 },
      { type: "response.reasoning_summary_text.delta", output_index: 0, item_id: "c", summary_index: 0, delta: "Hm." },
      { type: "response.reasoning_summary_part.done", output_index: 0, item_id: "d", summary_index: 0 },
      item(0, { type: "reasoning", id: "e", summary: [{ text: "Hm." }], encrypted_content: "x" }, "done"),
      item(1, { type: "message", id: "f", content: [] }, "added"),
      spoken(1, "g", "Hel"),
      spoken(1, "h", "lo"),
      item(1, message("i"), "done"),
      completed({ output: [{ type: "reasoning", id: "j", summary: [{ text: "Hm." }] }, message("k")] }),
    ),
    expected: { reasoning: "Hm." },
  },
  {
    name: "unknown events and items, annotations without titles, counts as text",
    body: stream(
      { type: "response.tomorrow", sequence_number: 0 },
      item(0, { type: "hologram_call", id: "x" }, "added"),
      { type: "response.hologram_call.delta", output_index: 0, delta: "y" },
      item(0, { type: "hologram_call", id: "x" }, "done"),
      spoken(1, "m1", "Hello"),
      { type: "response.output_text.annotation.added", item_id: "m1", annotation: { type: "url_citation" } },
      completed({ usage: { input_tokens: "11", output_tokens: 5 } }),
    ),
    expected: { usage: [11, 5, 0, 0] },
  },
  { name: "items without deltas", body: stream(item(0, message("m1"), "done"), completed()) },
  { name: "nothing but the end", body: stream(completed({ output: [message("m1")] })) },
  {
    name: "a call without places, its arguments as an object",
    body: stream(
      { type: "response.output_item.added", item: { ...called0, id: "f1", arguments: "" } },
      { type: "response.function_call_arguments.delta", item_id: "f1", delta: "{" },
      { type: "response.output_item.done", item: { ...called0, id: "f1", arguments: { path: "a" } } },
      completed({ output: [{ ...called0, id: "f1", arguments: '{"path":"a"}' }] }),
    ),
    expected: called,
  },
  {
    name: "a whole answer",
    ...jsonAnswer({ object: "response", output: [message("m1")], usage: { input_tokens: 11, output_tokens: 5 } }),
    expected: { usage: [11, 5, 0, 0] },
  },
];

export const UNUSUAL_ANSWERS: Readonly<Record<WireName, readonly UnusualAnswer[]>> = {
  openai,
  "openai-responses": responses,
  anthropic,
  google,
};
