import {
  splitArguments,
  getArgumentsText,
  hasCall,
  toChunks,
  type FakeCall,
  type FakeStep,
  type FakeUsage,
} from "./steps.js";
import {
  readBearerToken,
  toCommonFrame,
  estimateUsage,
  formatEvent,
  isBase64,
  isJsonObject,
  isObject,
  TOOL_NAME_PATTERN,
  findUnknownKey,
  type Dialect,
  type FakeWire,
  type Frame,
  type Json,
  type WireRequest,
} from "./wire.js";

const BODY_FIELDS = (
  "model messages stream stream_options temperature top_p max_tokens max_completion_tokens tools tool_choice " +
  "parallel_tool_calls reasoning_effort stop seed user response_format prompt_cache_key store n presence_penalty " +
  "frequency_penalty verbosity service_tier metadata"
).split(" ");

function findPartViolation(part: Json): string | undefined {
  if (!isObject(part)) return "a content part must be an object";
  if (part.type === "text") return typeof part.text === "string" && part.text !== "" ? undefined : "empty text part";
  if (part.type === "image_url") {
    const match = /^data:image\/(png|jpeg|gif|webp);base64,(.*)$/s.exec(String(part.image_url?.url));
    return match && isBase64(match[2]) ? undefined : "image_url must be a base64 data URL of png, jpeg, gif or webp";
  }
  if (part.type === "file") {
    const match = /^data:application\/pdf;base64,(.*)$/s.exec(String(part.file?.file_data));
    return match && isBase64(match[1]) ? undefined : "file must be a base64 data URL of a PDF";
  }
  return `unknown content part type '${String(part.type)}'`;
}

function hasText(content: Json): boolean {
  if (typeof content === "string") return content !== "";
  return (
    Array.isArray(content) && content.length > 0 && content.every((part) => part?.type === "text" && part.text !== "")
  );
}

function findMessageViolation(messages: Json[], dialect: Dialect): string | undefined {
  const ids = new Set<string>();
  let pendingCallIds: string[] = [];
  for (const [index, message] of messages.entries()) {
    const location = `messages[${index}]`;
    if (!isObject(message)) return `${location} must be an object`;
    const unknownField = findUnknownKey(message, [
      "role",
      "content",
      "name",
      "tool_calls",
      "tool_call_id",
      ...(dialect.message ?? []),
    ]);
    if (unknownField !== undefined) return `${location}: property '${unknownField}' is unsupported`;
    if (pendingCallIds.length > 0 && message.role !== "tool")
      return `${location}: an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id': ${pendingCallIds.join(", ")}`;
    switch (message.role) {
      case "system":
      case "developer":
        if (index !== 0) return `${location}: a ${message.role} message must be the first`;
        // Text, or text parts with cache marks, which routers accept.
        if (!hasText(message.content)) return `${location}: empty system message`;
        break;
      case "user": {
        if (Array.isArray(message.content)) {
          if (message.content.length === 0) return `${location}: empty content`;
          for (const part of message.content) {
            const partViolation = findPartViolation(part);
            if (partViolation !== undefined) return `${location}: ${partViolation}`;
          }
        } else if (typeof message.content !== "string" || message.content === "") return `${location}: empty content`;
        break;
      }
      case "assistant": {
        const calls = message.tool_calls;
        if (calls !== undefined && (!Array.isArray(calls) || calls.length === 0))
          return `${location}: tool_calls must not be empty`;
        if (message.content !== null && message.content !== undefined && typeof message.content !== "string")
          return `${location}: content must be a string or null`;
        if (calls === undefined && !message.content)
          return `${location}: an assistant message needs content or tool_calls`;
        for (const call of calls ?? []) {
          if (typeof call.id !== "string" || call.id === "") return `${location}: a tool call without id`;
          if (call.id.length > 40) return `${location}: tool call id too long (at most 40 characters)`;
          if (ids.has(call.id)) return `${location}: duplicate tool call id '${call.id}'`;
          ids.add(call.id);
          if (call.type !== "function") return `${location}: tool call type must be 'function'`;
          if (!TOOL_NAME_PATTERN.test(String(call.function?.name))) return `${location}: invalid function name`;
          if (!isJsonObject(call.function.arguments)) return `${location}: function.arguments must be a JSON object`;
          pendingCallIds.push(call.id);
        }
        break;
      }
      case "tool": {
        if (typeof message.content !== "string" && !hasText(message.content))
          return `${location}: tool content must be text`;
        if (!pendingCallIds.includes(message.tool_call_id))
          return ids.has(message.tool_call_id)
            ? `${location}: second result for tool call '${message.tool_call_id}'`
            : `${location}: messages with role 'tool' must be a response to a preceding message with 'tool_calls'`;
        pendingCallIds = pendingCallIds.filter((id) => id !== message.tool_call_id);
        break;
      }
      default:
        return `${location}: unknown role '${String(message.role)}'`;
    }
  }
  if (pendingCallIds.length > 0) return `tool calls without a result: ${pendingCallIds.join(", ")}`;
  const lastRole = messages.at(-1).role;
  return lastRole === "user" || lastRole === "tool"
    ? undefined
    : `the last message must be of user or tool, not ${lastRole}`;
}

function findToolsViolation(body: Json): string | undefined {
  if (body.tools === undefined) return body.tool_choice === undefined ? undefined : "tool_choice without tools";
  if (!Array.isArray(body.tools) || body.tools.length === 0) return "tools must not be empty";
  const names = new Set<string>();
  for (const tool of body.tools) {
    const name = tool?.function?.name;
    if (tool?.type !== "function" || !TOOL_NAME_PATTERN.test(String(name))) return "invalid tool";
    if (names.has(name)) return `tool names must be unique: '${name}'`;
    names.add(name);
    if (tool.function.parameters?.type !== "object") return `tool '${name}': parameters must be of type object`;
  }
  return undefined;
}

function toWireUsage(usage: FakeUsage): Json {
  return {
    prompt_tokens: usage.input,
    completion_tokens: usage.output,
    total_tokens: usage.input + usage.output,
    prompt_tokens_details: { cached_tokens: usage.cacheRead ?? 0 },
    completion_tokens_details: { reasoning_tokens: usage.reasoning ?? 0 },
    ...(usage.cost === undefined ? {} : { cost: usage.cost }),
  };
}

function toFinishReason(step: FakeStep): string {
  if (step.finish === "refusal") return "stop";
  return step.finish ?? (hasCall(step) ? "tool_calls" : "stop");
}

/** OpenAI's chat completions. */
export const openaiChat: FakeWire = {
  name: "openai",
  matches: (path) => path.endsWith("/chat/completions"),

  findViolation({ body }, dialect) {
    if (!isObject(body)) return "the body must be an object";
    const unknownField = findUnknownKey(body, [...BODY_FIELDS, ...(dialect.body ?? [])]);
    if (unknownField !== undefined) return `Unrecognized request argument supplied: ${unknownField}`;
    if (typeof body.model !== "string" || body.model === "") return "you must provide a model parameter";
    if (!Array.isArray(body.messages) || body.messages.length === 0) return "messages must not be empty";
    if (body.stream_options !== undefined && body.stream !== true) return "stream_options needs stream: true";
    for (const key of ["max_tokens", "max_completion_tokens"]) {
      if (body[key] !== undefined && !(Number.isInteger(body[key]) && body[key] > 0))
        return `${key} must be a positive integer`;
    }
    return findMessageViolation(body.messages, dialect) ?? findToolsViolation(body);
  },

  readFacts: ({ body }) => ({
    model: String(body?.model),
    stream: body?.stream === true,
    tools: (Array.isArray(body?.tools) ? body.tools : []).map((tool: Json) => String(tool?.function?.name)),
  }),

  *createFrames(step, request, createId, dialect): Generator<Frame> {
    const chunkFields = {
      id: `chatcmpl-${createId()}`,
      object: "chat.completion.chunk",
      created: 1_700_000_000,
      model: request.body.model,
    };
    const createDelta = (value: Json, finishReason: string | null = null): string =>
      formatEvent({ ...chunkFields, choices: [{ index: 0, delta: value, finish_reason: finishReason }] });
    let isOpened = false;
    let callCount = 0;
    const createOpening = function* (): Generator<Frame> {
      if (isOpened) return;
      isOpened = true;
      yield createDelta({ role: "assistant", content: "" });
    };
    const createCallStart = (call: FakeCall, index: number): string =>
      createDelta({
        tool_calls: [
          {
            index,
            id: call.id ?? `call_${createId()}`,
            type: "function",
            function: { name: call.name, arguments: "" },
            ...(call.signature === undefined
              ? {}
              : { extra_content: { google: { thought_signature: call.signature } } }),
          },
        ],
      });
    const createArgumentsDelta = (text: string, index: number): string =>
      createDelta({ tool_calls: [{ index, function: { arguments: text } }] });

    for (const piece of step.say ?? []) {
      const frame = toCommonFrame(piece);
      if (frame !== undefined) {
        yield frame;
        continue;
      }
      yield* createOpening();
      if ("text" in piece) for (const text of toChunks(piece.text)) yield createDelta({ content: text });
      else if ("reasoning" in piece)
        for (const text of toChunks(piece.reasoning)) yield createDelta({ reasoning_content: text });
      else if ("refusal" in piece) yield createDelta({ content: piece.refusal, refusal: piece.refusal });
      else if ("call" in piece && dialect.wholeCalls === true) {
        const { id = `call_${createId()}`, name } = piece.call;
        yield createDelta({
          tool_calls: [
            { index: callCount++, id, type: "function", function: { name, arguments: getArgumentsText(piece.call) } },
          ],
        });
      } else if ("call" in piece) {
        const index = callCount++;
        yield createCallStart(piece.call, index);
        for (const text of splitArguments(piece.call)) yield createArgumentsDelta(text, index);
      } else if ("calls" in piece) {
        const firstIndex = callCount;
        callCount += piece.calls.length;
        for (const [offset, call] of piece.calls.entries()) yield createCallStart(call, firstIndex + offset);
        const deltasByCall = piece.calls.map(splitArguments);
        for (let deltaIndex = 0; deltasByCall.some((deltas) => deltaIndex < deltas.length); deltaIndex++) {
          for (const [offset, deltas] of deltasByCall.entries()) {
            if (deltaIndex < deltas.length) yield createArgumentsDelta(deltas[deltaIndex]!, firstIndex + offset);
          }
        }
      } else if ("error" in piece) yield formatEvent(openaiChat.createError(500, piece.error));
    }
    yield* createOpening();
    if (step.finish !== "none") yield createDelta({}, toFinishReason(step));
    if (step.usage !== null && (dialect.usageAlways === true || request.body.stream_options?.include_usage === true))
      yield formatEvent({
        ...chunkFields,
        choices: [],
        usage: toWireUsage(step.usage ?? estimateUsage(request, step)),
      });
    yield "data: [DONE]\n\n";
  },

  createCompleteAnswer(step, request, createId) {
    let content = "";
    let reasoning = "";
    const calls: Json[] = [];
    const addCall = (call: FakeCall): void => {
      const args = getArgumentsText(call);
      const id = call.id ?? `call_${createId()}`;
      calls.push({ id, type: "function", function: { name: call.name, arguments: args } });
    };
    for (const piece of step.say ?? []) {
      if ("text" in piece) content += toChunks(piece.text).join("");
      else if ("reasoning" in piece) reasoning += toChunks(piece.reasoning).join("");
      else if ("refusal" in piece) content += piece.refusal;
      else if ("call" in piece) addCall(piece.call);
      else if ("calls" in piece) piece.calls.forEach(addCall);
    }
    return {
      id: `chatcmpl-${createId()}`,
      object: "chat.completion",
      created: 1_700_000_000,
      model: request.body.model,
      choices: [
        {
          index: 0,
          message: {
            role: "assistant",
            content: content === "" && calls.length > 0 ? null : content,
            ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
            ...(calls.length === 0 ? {} : { tool_calls: calls }),
          },
          finish_reason: toFinishReason(step),
        },
      ],
      ...(step.usage === null ? {} : { usage: toWireUsage(step.usage ?? estimateUsage(request, step)) }),
    };
  },

  createError: (status, fault) => ({
    error: {
      message: fault.message,
      type:
        fault.type ?? (status === 429 ? "rate_limit_error" : status >= 500 ? "server_error" : "invalid_request_error"),
      param: null,
      code: fault.code ?? null,
    },
  }),

  readApiKey: (request: Pick<WireRequest, "headers">) => readBearerToken(request),
};
