// The fake model's answers in each wire protocol: `understand` parses a request; the other functions render the events
// of an answer.

const sse = (data, event) => `${event ? `event: ${event}\n` : ""}data: ${JSON.stringify(data)}\n\n`;
/** Words of five characters. They rarely repeat, because some agents stop an answer that repeats itself. */
const word = (index) =>
  index === 0 ? "hello" : ` ${(((index * 2654435761) >>> 0) % 1679616).toString(36).padStart(4, "z")}`;
const TITLE = /\btitle\b/i;

/** Text of a message whose content is a string or parts. */
const textOf = (content) =>
  typeof content === "string"
    ? content
    : (Array.isArray(content) ? content : []).map(({ text }) => text ?? "").join("\n");

/** The prompt is the newest user message with text. `answered`: a tool result follows it. */
function promptOf(messages, isPerson, isResult, text) {
  for (let at = messages.length - 1, answered = false; at >= 0; at--) {
    if (isResult(messages[at])) answered = true;
    else if (isPerson(messages[at])) return { prompt: text(messages[at]), answered };
  }
  return { prompt: "", answered: false };
}

const chat = {
  name: "chat",
  path: /\/chat\/completions$/,
  understand({ messages, tools = [] }) {
    const system = messages.filter(({ role }) => role === "system" || role === "developer");
    return {
      ...promptOf(
        messages,
        ({ role }) => role === "user",
        ({ role }) => role === "tool",
        ({ content }) => textOf(content),
      ),
      tools: tools.map(({ function: { name, parameters } }) => ({ name, parameters })),
      title: tools.length === 0 && system.some(({ content }) => TITLE.test(textOf(content))),
    };
  },
  chunk: (choices, more) =>
    sse({ id: "chat-1", object: "chat.completion.chunk", created: 1, model: "m1", choices, ...more }),
  end(reason, tokens) {
    const usage = { prompt_tokens: 10, completion_tokens: tokens, total_tokens: 10 + tokens };
    return [
      this.chunk([{ index: 0, delta: {}, finish_reason: reason }]),
      this.chunk([], { usage }),
      "data: [DONE]\n\n",
    ];
  },
  text(tokens) {
    const delta = (content, index) => ({ ...(index === 0 ? { role: "assistant" } : {}), content });
    return [
      ...Array.from({ length: tokens }, (_, index) =>
        this.chunk([{ index: 0, delta: delta(word(index), index), finish_reason: null }]),
      ),
      ...this.end("stop", tokens),
    ];
  },
  call({ name, arguments: values }) {
    const call = { index: 0, id: "call-1", type: "function", function: { name, arguments: JSON.stringify(values) } };
    const delta = { role: "assistant", content: null, tool_calls: [call] };
    return [this.chunk([{ index: 0, delta, finish_reason: null }]), ...this.end("tool_calls", 5)];
  },
};

const responses = {
  name: "responses",
  path: /\/responses$/,
  understand({ input, tools = [], instructions = "" }) {
    const messages = typeof input === "string" ? [{ role: "user", content: input }] : input;
    return {
      ...promptOf(
        messages,
        ({ role }) => role === "user",
        ({ type }) => /_output$/.test(type ?? ""),
        ({ content }) => textOf(content),
      ),
      tools: tools.filter(({ name }) => name).map(({ name, parameters }) => ({ name, parameters })),
      title: tools.length === 0 && TITLE.test(instructions),
    };
  },
  events(item, deltas) {
    const response = { id: "resp-1", object: "response", created_at: 1, model: "m1" };
    const usage = { input_tokens: 10, output_tokens: 5, total_tokens: 15 };
    const details = { input_tokens_details: { cached_tokens: 0 }, output_tokens_details: { reasoning_tokens: 0 } };
    const event = (type, data) => sse({ type, ...data }, type);
    return [
      event("response.created", { response: { ...response, status: "in_progress", output: [] } }),
      event("response.output_item.added", { output_index: 0, item: { ...item, status: "in_progress", content: [] } }),
      ...deltas.map((delta) =>
        event("response.output_text.delta", { item_id: item.id, output_index: 0, content_index: 0, delta }),
      ),
      event("response.output_item.done", { output_index: 0, item }),
      event("response.completed", {
        response: { ...response, status: "completed", output: [item], usage: { ...usage, ...details } },
      }),
    ];
  },
  text(tokens) {
    const deltas = Array.from({ length: tokens }, (_, index) => word(index));
    const content = [{ type: "output_text", text: deltas.join(""), annotations: [] }];
    return this.events({ id: "msg-1", type: "message", role: "assistant", status: "completed", content }, deltas);
  },
  call({ name, arguments: values }) {
    const item = { id: "fc-1", type: "function_call", call_id: "call-1", name, arguments: JSON.stringify(values) };
    return this.events({ ...item, status: "completed" }, []);
  },
};

const google = {
  name: "google",
  path: /:(stream)?generateContent$/i,
  streams: (pathname) => /stream/.test(pathname),
  understand({ contents, tools = [], systemInstruction }) {
    const declared = tools.flatMap(({ functionDeclarations = [] }) => functionDeclarations);
    return {
      ...promptOf(
        contents,
        ({ role, parts }) => role === "user" && parts.some(({ text }) => text),
        ({ parts }) => parts.some(({ functionResponse }) => functionResponse),
        ({ parts }) => textOf(parts),
      ),
      tools: declared.map(({ name, parameters, parametersJsonSchema }) => ({
        name,
        parameters: parametersJsonSchema ?? parameters,
      })),
      title: declared.length === 0 && TITLE.test(textOf(systemInstruction?.parts)),
    };
  },
  answer(parts, end) {
    const usageMetadata = { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 };
    const content = { role: "model", parts };
    return { candidates: [{ content, index: 0, ...(end ? { finishReason: "STOP" } : {}) }], usageMetadata };
  },
  text(tokens) {
    return Array.from({ length: tokens }, (_, index) =>
      sse(this.answer([{ text: word(index) }], index === tokens - 1)),
    );
  },
  call: ({ name, arguments: args }) => [sse(google.answer([{ functionCall: { name, args } }], true))],
  whole: ({ tokens = 1 }) => JSON.stringify(google.answer([{ text: "hello".repeat(Math.min(tokens, 1)) }], true)),
};

export const wires = [chat, responses, google];
