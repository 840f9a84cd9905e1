import {
  argumentPieces,
  argumentsText,
  hasCall,
  textOf,
  type FakeCall,
  type FakeStep,
  type FakeUsage,
} from "./steps.js";
import {
  bearer,
  common,
  estimate,
  event,
  isBase64,
  isJsonObject,
  isObject,
  TOOL_NAME,
  unknownKey,
  type Dialect,
  type FakeWire,
  type Frame,
  type Json,
  type WireRequest,
} from "./wire.js";

const BODY = (
  "model messages stream stream_options temperature top_p max_tokens max_completion_tokens tools tool_choice " +
  "parallel_tool_calls reasoning_effort stop seed user response_format prompt_cache_key store n presence_penalty " +
  "frequency_penalty verbosity service_tier metadata"
).split(" ");

function userPart(part: Json): string | undefined {
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

function messageViolation(messages: Json[], dialect: Dialect): string | undefined {
  const ids = new Set<string>();
  let waiting: string[] = [];
  for (const [index, message] of messages.entries()) {
    const at = `messages[${index}]`;
    if (!isObject(message)) return `${at} must be an object`;
    const extra = unknownKey(message, [
      "role",
      "content",
      "name",
      "tool_calls",
      "tool_call_id",
      ...(dialect.message ?? []),
    ]);
    if (extra !== undefined) return `${at}: property '${extra}' is unsupported`;
    if (waiting.length > 0 && message.role !== "tool")
      return `${at}: an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id': ${waiting.join(", ")}`;
    switch (message.role) {
      case "system":
      case "developer":
        if (index !== 0) return `${at}: a ${message.role} message must be the first`;
        // Text, or text parts with cache marks, which routers accept.
        if (!hasText(message.content)) return `${at}: empty system message`;
        break;
      case "user": {
        if (Array.isArray(message.content)) {
          if (message.content.length === 0) return `${at}: empty content`;
          for (const part of message.content) {
            const wrong = userPart(part);
            if (wrong !== undefined) return `${at}: ${wrong}`;
          }
        } else if (typeof message.content !== "string" || message.content === "") return `${at}: empty content`;
        break;
      }
      case "assistant": {
        const calls = message.tool_calls;
        if (calls !== undefined && (!Array.isArray(calls) || calls.length === 0))
          return `${at}: tool_calls must not be empty`;
        if (message.content !== null && message.content !== undefined && typeof message.content !== "string")
          return `${at}: content must be a string or null`;
        if (calls === undefined && !message.content) return `${at}: an assistant message needs content or tool_calls`;
        for (const call of calls ?? []) {
          if (typeof call.id !== "string" || call.id === "") return `${at}: a tool call without id`;
          if (call.id.length > 40) return `${at}: tool call id too long (at most 40 characters)`;
          if (ids.has(call.id)) return `${at}: duplicate tool call id '${call.id}'`;
          ids.add(call.id);
          if (call.type !== "function") return `${at}: tool call type must be 'function'`;
          if (!TOOL_NAME.test(String(call.function?.name))) return `${at}: invalid function name`;
          if (!isJsonObject(call.function.arguments)) return `${at}: function.arguments must be a JSON object`;
          waiting.push(call.id);
        }
        break;
      }
      case "tool": {
        if (typeof message.content !== "string" && !hasText(message.content)) return `${at}: tool content must be text`;
        if (!waiting.includes(message.tool_call_id))
          return ids.has(message.tool_call_id)
            ? `${at}: second result for tool call '${message.tool_call_id}'`
            : `${at}: messages with role 'tool' must be a response to a preceding message with 'tool_calls'`;
        waiting = waiting.filter((id) => id !== message.tool_call_id);
        break;
      }
      default:
        return `${at}: unknown role '${String(message.role)}'`;
    }
  }
  if (waiting.length > 0) return `tool calls without a result: ${waiting.join(", ")}`;
  const last = messages.at(-1).role;
  return last === "user" || last === "tool" ? undefined : `the last message must be of user or tool, not ${last}`;
}

function toolsViolation(body: Json): string | undefined {
  if (body.tools === undefined) return body.tool_choice === undefined ? undefined : "tool_choice without tools";
  if (!Array.isArray(body.tools) || body.tools.length === 0) return "tools must not be empty";
  const names = new Set<string>();
  for (const tool of body.tools) {
    const name = tool?.function?.name;
    if (tool?.type !== "function" || !TOOL_NAME.test(String(name))) return "invalid tool";
    if (names.has(name)) return `tool names must be unique: '${name}'`;
    names.add(name);
    if (tool.function.parameters?.type !== "object") return `tool '${name}': parameters must be of type object`;
  }
  return undefined;
}

function usageOf(usage: FakeUsage): Json {
  return {
    prompt_tokens: usage.input,
    completion_tokens: usage.output,
    total_tokens: usage.input + usage.output,
    prompt_tokens_details: { cached_tokens: usage.cacheRead ?? 0 },
    completion_tokens_details: { reasoning_tokens: usage.reasoning ?? 0 },
    ...(usage.cost === undefined ? {} : { cost: usage.cost }),
  };
}

function finishOf(step: FakeStep): string {
  if (step.finish === "refusal") return "stop";
  return step.finish ?? (hasCall(step) ? "tool_calls" : "stop");
}

/** OpenAI's chat completions. */
export const openaiChat: FakeWire = {
  name: "openai",
  matches: (path) => path.endsWith("/chat/completions"),

  violation({ body }, dialect) {
    if (!isObject(body)) return "the body must be an object";
    const extra = unknownKey(body, [...BODY, ...(dialect.body ?? [])]);
    if (extra !== undefined) return `Unrecognized request argument supplied: ${extra}`;
    if (typeof body.model !== "string" || body.model === "") return "you must provide a model parameter";
    if (!Array.isArray(body.messages) || body.messages.length === 0) return "messages must not be empty";
    if (body.stream_options !== undefined && body.stream !== true) return "stream_options needs stream: true";
    for (const key of ["max_tokens", "max_completion_tokens"]) {
      if (body[key] !== undefined && !(Number.isInteger(body[key]) && body[key] > 0))
        return `${key} must be a positive integer`;
    }
    return messageViolation(body.messages, dialect) ?? toolsViolation(body);
  },

  facts: ({ body }) => ({
    model: String(body?.model),
    stream: body?.stream === true,
    tools: (Array.isArray(body?.tools) ? body.tools : []).map((tool: Json) => String(tool?.function?.name)),
  }),

  *frames(step, request, ids, dialect): Generator<Frame> {
    const base = {
      id: `chatcmpl-${ids()}`,
      object: "chat.completion.chunk",
      created: 1_700_000_000,
      model: request.body.model,
    };
    const delta = (value: Json, finish: string | null = null): string =>
      event({ ...base, choices: [{ index: 0, delta: value, finish_reason: finish }] });
    let opened = false;
    let calls = 0;
    const open = function* (): Generator<Frame> {
      if (opened) return;
      opened = true;
      yield delta({ role: "assistant", content: "" });
    };
    const startCall = (call: FakeCall, index: number): string =>
      delta({
        tool_calls: [
          {
            index,
            id: call.id ?? `call_${ids()}`,
            type: "function",
            function: { name: call.name, arguments: "" },
            ...(call.signature === undefined
              ? {}
              : { extra_content: { google: { thought_signature: call.signature } } }),
          },
        ],
      });
    const growCall = (text: string, index: number): string =>
      delta({ tool_calls: [{ index, function: { arguments: text } }] });

    for (const piece of step.say ?? []) {
      const frame = common(piece);
      if (frame !== undefined) {
        yield frame;
        continue;
      }
      yield* open();
      if ("text" in piece) for (const text of textOf(piece.text)) yield delta({ content: text });
      else if ("reasoning" in piece)
        for (const text of textOf(piece.reasoning)) yield delta({ reasoning_content: text });
      else if ("refusal" in piece) yield delta({ content: piece.refusal, refusal: piece.refusal });
      else if ("call" in piece && dialect.wholeCalls === true) {
        const { id = `call_${ids()}`, name } = piece.call;
        yield delta({
          tool_calls: [
            { index: calls++, id, type: "function", function: { name, arguments: argumentsText(piece.call) } },
          ],
        });
      } else if ("call" in piece) {
        const index = calls++;
        yield startCall(piece.call, index);
        for (const text of argumentPieces(piece.call)) yield growCall(text, index);
      } else if ("calls" in piece) {
        const first = calls;
        calls += piece.calls.length;
        for (const [offset, call] of piece.calls.entries()) yield startCall(call, first + offset);
        const pieces = piece.calls.map(argumentPieces);
        for (let turn = 0; pieces.some((list) => turn < list.length); turn++) {
          for (const [offset, list] of pieces.entries()) {
            if (turn < list.length) yield growCall(list[turn]!, first + offset);
          }
        }
      } else if ("error" in piece) yield event(openaiChat.error(500, piece.error));
    }
    yield* open();
    if (step.finish !== "none") yield delta({}, finishOf(step));
    if (step.usage !== null && (dialect.usageAlways === true || request.body.stream_options?.include_usage === true))
      yield event({ ...base, choices: [], usage: usageOf(step.usage ?? estimate(request, step)) });
    yield "data: [DONE]\n\n";
  },

  completeAnswer(step, request, ids) {
    let content = "";
    let reasoning = "";
    const calls: Json[] = [];
    const add = (call: FakeCall): void => {
      const args = argumentsText(call);
      calls.push({ id: call.id ?? `call_${ids()}`, type: "function", function: { name: call.name, arguments: args } });
    };
    for (const piece of step.say ?? []) {
      if ("text" in piece) content += textOf(piece.text).join("");
      else if ("reasoning" in piece) reasoning += textOf(piece.reasoning).join("");
      else if ("refusal" in piece) content += piece.refusal;
      else if ("call" in piece) add(piece.call);
      else if ("calls" in piece) piece.calls.forEach(add);
    }
    return {
      id: `chatcmpl-${ids()}`,
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
          finish_reason: finishOf(step),
        },
      ],
      ...(step.usage === null ? {} : { usage: usageOf(step.usage ?? estimate(request, step)) }),
    };
  },

  error: (status, fault) => ({
    error: {
      message: fault.message,
      type:
        fault.type ?? (status === 429 ? "rate_limit_error" : status >= 500 ? "server_error" : "invalid_request_error"),
      param: null,
      code: fault.code ?? null,
    },
  }),

  key: (request: Pick<WireRequest, "headers">) => bearer(request),
};
