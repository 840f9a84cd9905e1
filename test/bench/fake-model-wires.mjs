// The fake model's answers in each wire protocol. `parseRequest` parses a request; the other functions render events of
// an answer.

const formatEvent = (data, event) => `${event ? `event: ${event}\n` : ""}data: ${JSON.stringify(data)}\n\n`;
/**
 * Returns a word of five characters: "hello", or a space and a hash of the index in base 36. Words rarely repeat,
 * because some agents stop an answer that repeats itself.
 */
const createWord = (index) =>
  index === 0 ? "hello" : ` ${(((index * 2654435761) >>> 0) % 1679616).toString(36).padStart(4, "z")}`;
const TITLE_PATTERN = /\btitle\b/i;

/** Reads the text of a message whose content is a string or parts. */
const readText = (content) =>
  typeof content === "string"
    ? content
    : (Array.isArray(content) ? content : []).map(({ text }) => text ?? "").join("\n");

/** Finds the prompt: the newest user message with text. `hasToolResult`: a tool result follows it. */
function findPrompt(messages, isUserMessage, isToolResult, readMessageText) {
  for (let index = messages.length - 1, hasToolResult = false; index >= 0; index--) {
    if (isToolResult(messages[index])) hasToolResult = true;
    else if (isUserMessage(messages[index])) return { prompt: readMessageText(messages[index]), hasToolResult };
  }
  return { prompt: "", hasToolResult: false };
}

const chat = {
  name: "chat",
  path: /\/chat\/completions$/,
  parseRequest({ messages, tools = [] }) {
    const system = messages.filter(({ role }) => role === "system" || role === "developer");
    return {
      ...findPrompt(
        messages,
        ({ role }) => role === "user",
        ({ role }) => role === "tool",
        ({ content }) => readText(content),
      ),
      tools: tools.map(({ function: { name, parameters } }) => ({ name, parameters })),
      isTitleRequest: tools.length === 0 && system.some(({ content }) => TITLE_PATTERN.test(readText(content))),
    };
  },
  renderChunk: (choices, fields) =>
    formatEvent({ id: "chat-1", object: "chat.completion.chunk", created: 1, model: "m1", choices, ...fields }),
  renderEnd(reason, tokens) {
    const usage = { prompt_tokens: 10, completion_tokens: tokens, total_tokens: 10 + tokens };
    return [
      this.renderChunk([{ index: 0, delta: {}, finish_reason: reason }]),
      this.renderChunk([], { usage }),
      "data: [DONE]\n\n",
    ];
  },
  renderText(tokens) {
    const createDelta = (content, index) => ({ ...(index === 0 ? { role: "assistant" } : {}), content });
    return [
      ...Array.from({ length: tokens }, (_, index) =>
        this.renderChunk([{ index: 0, delta: createDelta(createWord(index), index), finish_reason: null }]),
      ),
      ...this.renderEnd("stop", tokens),
    ];
  },
  renderCall({ name, arguments: values }) {
    const call = { index: 0, id: "call-1", type: "function", function: { name, arguments: JSON.stringify(values) } };
    const delta = { role: "assistant", content: null, tool_calls: [call] };
    return [this.renderChunk([{ index: 0, delta, finish_reason: null }]), ...this.renderEnd("tool_calls", 5)];
  },
};

const responses = {
  name: "responses",
  path: /\/responses$/,
  parseRequest({ input, tools = [], instructions = "" }) {
    const messages = typeof input === "string" ? [{ role: "user", content: input }] : input;
    return {
      ...findPrompt(
        messages,
        ({ role }) => role === "user",
        ({ type }) => /_output$/.test(type ?? ""),
        ({ content }) => readText(content),
      ),
      tools: tools.filter(({ name }) => name).map(({ name, parameters }) => ({ name, parameters })),
      isTitleRequest: tools.length === 0 && TITLE_PATTERN.test(instructions),
    };
  },
  renderEvents(item, deltas) {
    const response = { id: "resp-1", object: "response", created_at: 1, model: "m1" };
    const usage = { input_tokens: 10, output_tokens: 5, total_tokens: 15 };
    const details = { input_tokens_details: { cached_tokens: 0 }, output_tokens_details: { reasoning_tokens: 0 } };
    const renderEvent = (type, data) => formatEvent({ type, ...data }, type);
    return [
      renderEvent("response.created", { response: { ...response, status: "in_progress", output: [] } }),
      renderEvent("response.output_item.added", {
        output_index: 0,
        item: { ...item, status: "in_progress", content: [] },
      }),
      ...deltas.map((delta) =>
        renderEvent("response.output_text.delta", { item_id: item.id, output_index: 0, content_index: 0, delta }),
      ),
      renderEvent("response.output_item.done", { output_index: 0, item }),
      renderEvent("response.completed", {
        response: { ...response, status: "completed", output: [item], usage: { ...usage, ...details } },
      }),
    ];
  },
  renderText(tokens) {
    const deltas = Array.from({ length: tokens }, (_, index) => createWord(index));
    const content = [{ type: "output_text", text: deltas.join(""), annotations: [] }];
    return this.renderEvents({ id: "msg-1", type: "message", role: "assistant", status: "completed", content }, deltas);
  },
  renderCall({ name, arguments: values }) {
    const item = { id: "fc-1", type: "function_call", call_id: "call-1", name, arguments: JSON.stringify(values) };
    return this.renderEvents({ ...item, status: "completed" }, []);
  },
};

const google = {
  name: "google",
  path: /:(stream)?generateContent$/i,
  isStream: (pathname) => /stream/.test(pathname),
  parseRequest({ contents, tools = [], systemInstruction }) {
    const declarations = tools.flatMap(({ functionDeclarations = [] }) => functionDeclarations);
    return {
      ...findPrompt(
        contents,
        ({ role, parts }) => role === "user" && parts.some(({ text }) => text),
        ({ parts }) => parts.some(({ functionResponse }) => functionResponse),
        ({ parts }) => readText(parts),
      ),
      tools: declarations.map(({ name, parameters, parametersJsonSchema }) => ({
        name,
        parameters: parametersJsonSchema ?? parameters,
      })),
      isTitleRequest: declarations.length === 0 && TITLE_PATTERN.test(readText(systemInstruction?.parts)),
    };
  },
  createResponse(parts, isLast) {
    const usageMetadata = { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 };
    const content = { role: "model", parts };
    return { candidates: [{ content, index: 0, ...(isLast ? { finishReason: "STOP" } : {}) }], usageMetadata };
  },
  renderText(tokens) {
    return Array.from({ length: tokens }, (_, index) =>
      formatEvent(this.createResponse([{ text: createWord(index) }], index === tokens - 1)),
    );
  },
  renderCall: ({ name, arguments: args }) => [
    formatEvent(google.createResponse([{ functionCall: { name, args } }], true)),
  ],
  renderComplete: ({ tokens = 1 }) =>
    JSON.stringify(google.createResponse([{ text: "hello".repeat(Math.min(tokens, 1)) }], true)),
};

const anthropic = {
  name: "anthropic",
  path: /\/messages$/,
  isStream: (_pathname, body) => JSON.parse(body).stream === true,
  parseRequest({ messages, tools = [], system = "" }) {
    const hasPart = ({ content }, type) => Array.isArray(content) && content.some((part) => part.type === type);
    return {
      ...findPrompt(
        messages,
        (message) => message.role === "user" && !hasPart(message, "tool_result"),
        (message) => hasPart(message, "tool_result"),
        ({ content }) => readText(content),
      ),
      tools: tools.map(({ name, input_schema: parameters }) => ({ name, parameters })),
      isTitleRequest: tools.length === 0 && TITLE_PATTERN.test(readText(system)),
    };
  },
  createMessage: (content) => ({
    ...{ id: "msg-1", type: "message", role: "assistant", model: "m1", content },
    ...{ stop_reason: null, stop_sequence: null, usage: { input_tokens: 10, output_tokens: 1 } },
  }),
  renderBlock(block, deltas, stopReason) {
    const renderEvent = (type, data) => formatEvent({ type, ...data }, type);
    return [
      renderEvent("message_start", { message: this.createMessage([]) }),
      renderEvent("content_block_start", { index: 0, content_block: block }),
      ...deltas.map((delta) => renderEvent("content_block_delta", { index: 0, delta })),
      renderEvent("content_block_stop", { index: 0 }),
      renderEvent("message_delta", {
        delta: { stop_reason: stopReason, stop_sequence: null },
        usage: { output_tokens: 5 },
      }),
      renderEvent("message_stop", {}),
    ];
  },
  renderText(tokens) {
    const deltas = Array.from({ length: tokens }, (_, index) => ({ type: "text_delta", text: createWord(index) }));
    return this.renderBlock({ type: "text", text: "" }, deltas, "end_turn");
  },
  renderCall({ name, arguments: values }) {
    const delta = { type: "input_json_delta", partial_json: JSON.stringify(values) };
    return this.renderBlock({ type: "tool_use", id: "call-1", name, input: {} }, [delta], "tool_use");
  },
  renderComplete: ({ tokens = 1 }) =>
    JSON.stringify({
      ...anthropic.createMessage([{ type: "text", text: "hello".repeat(Math.min(tokens, 1)) }]),
      stop_reason: "end_turn",
    }),
};

export const wires = [chat, responses, google, anthropic];
