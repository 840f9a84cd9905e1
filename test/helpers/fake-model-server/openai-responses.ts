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
  createSignature,
  findSignatureFault,
  TOOL_NAME_PATTERN,
  findUnknownKey,
  type FakeWire,
  type Frame,
  type Json,
  type WireRequest,
} from "./wire.js";

const BODY_FIELDS = (
  "model input stream temperature top_p max_output_tokens tools tool_choice parallel_tool_calls store include instructions " +
  "prompt_cache_key reasoning text truncation metadata service_tier user"
).split(" ");

function findContentViolation(content: Json, allowedTypes: readonly string[]): string | undefined {
  if (typeof content === "string") return content === "" ? "empty content" : undefined;
  if (!Array.isArray(content) || content.length === 0) return "empty content";
  for (const part of content) {
    if (!allowedTypes.includes(part?.type))
      return `Invalid value: '${String(part?.type)}'. Supported values are: ${allowedTypes.join(", ")}`;
    if (/text$/.test(part.type) && (typeof part.text !== "string" || part.text === "")) return "empty text";
    if (part.type === "input_image") {
      const match = /^data:image\/(png|jpeg|gif|webp);base64,(.*)$/s.exec(String(part.image_url));
      if (!match || !isBase64(match[2])) return "image_url must be a base64 data URL of png, jpeg, gif or webp";
    }
    if (part.type === "input_file") {
      const match = /^data:application\/pdf;base64,(.*)$/s.exec(String(part.file_data));
      if (!match || !isBase64(match[1]) || !part.filename)
        return "file_data must be a base64 data URL of a PDF, with a filename";
    }
  }
  return undefined;
}

function findInputViolation(input: Json[], model: string): string | undefined {
  const callIds = new Set<string>();
  let pendingCallIds: string[] = [];
  let openReasoningId: string | undefined;
  for (const [index, item] of input.entries()) {
    const location = `input[${index}]`;
    if (!isObject(item)) return `${location} must be an object`;
    const type = item.type ?? "message";
    const role = type === "message" ? item.role : undefined;
    // A reasoning item must be followed by an item of the same answer.
    if (openReasoningId !== undefined && type !== "reasoning" && type !== "function_call" && role !== "assistant")
      return `${location}: Item '${openReasoningId}' of type 'reasoning' was provided without its required following item.`;
    if (pendingCallIds.length > 0 && (role === "user" || role === "assistant" || type === "reasoning"))
      return `${location}: No tool output found for function call ${pendingCallIds[0]}.`;
    if (type !== "reasoning") openReasoningId = undefined;
    switch (type) {
      case "message": {
        if (role === "system" || role === "developer") {
          if (index !== 0) return `${location}: ${role} must be first`;
          const contentViolation = findContentViolation(item.content, ["input_text"]);
          if (contentViolation) return `${location}: ${contentViolation}`;
        } else if (role === "user") {
          const contentViolation = findContentViolation(item.content, ["input_text", "input_image", "input_file"]);
          if (contentViolation) return `${location}: ${contentViolation}`;
        } else if (role === "assistant") {
          const contentViolation = findContentViolation(item.content, ["output_text", "refusal"]);
          if (contentViolation) return `${location}: ${contentViolation}`;
          if (item.id !== undefined && !String(item.id).startsWith("msg_"))
            return `${location}: Invalid 'id': Expected an ID that begins with 'msg'.`;
        } else return `${location}: unknown role '${String(role)}'`;
        break;
      }
      case "function_call":
        if (typeof item.call_id !== "string" || item.call_id === "" || item.call_id.length > 64)
          return `${location}: invalid call_id`;
        if (callIds.has(item.call_id)) return `${location}: duplicate call_id '${item.call_id}'`;
        if (item.id !== undefined && !String(item.id).startsWith("fc_"))
          return `${location}: Invalid 'id': Expected an ID that begins with 'fc'.`;
        if (!TOOL_NAME_PATTERN.test(String(item.name))) return `${location}: invalid name`;
        if (!isJsonObject(item.arguments)) return `${location}: arguments must be a JSON object`;
        callIds.add(item.call_id);
        pendingCallIds.push(item.call_id);
        break;
      case "function_call_output": {
        if (!pendingCallIds.includes(item.call_id))
          return `${location}: No tool call found for function call output with call_id ${String(item.call_id)}.`;
        pendingCallIds = pendingCallIds.filter((id) => id !== item.call_id);
        if (typeof item.output !== "string") {
          const contentViolation = findContentViolation(item.output, ["input_text", "input_image", "input_file"]);
          if (contentViolation) return `${location}: ${contentViolation}`;
        }
        break;
      }
      case "reasoning": {
        if (!Array.isArray(item.summary)) return `${location}: summary is required`;
        const signatureFault =
          item.encrypted_content === undefined
            ? "missing"
            : findSignatureFault("openai-responses", model, item.encrypted_content);
        if (signatureFault) return `${location}: The encrypted content could not be verified: ${signatureFault}`;
        if (item.id !== undefined && !String(item.id).startsWith("rs_"))
          return `${location}: Invalid 'id': Expected an ID that begins with 'rs'.`;
        openReasoningId = String(item.id ?? index);
        break;
      }
      default:
        return `${location}: Invalid value: '${String(type)}'`;
    }
  }
  if (openReasoningId !== undefined)
    return `Item '${openReasoningId}' of type 'reasoning' was provided without its required following item.`;
  if (pendingCallIds.length > 0) return `No tool output found for function call ${pendingCallIds[0]}.`;
  const lastItem = input.at(-1);
  return lastItem.type === "function_call_output" || lastItem.role === "user"
    ? undefined
    : "the last item must be of a user or a tool's output";
}

function toWireUsage(usage: FakeUsage): Json {
  return {
    input_tokens: usage.input,
    input_tokens_details: { cached_tokens: usage.cacheRead ?? 0 },
    output_tokens: usage.output,
    output_tokens_details: { reasoning_tokens: usage.reasoning ?? 0 },
    total_tokens: usage.input + usage.output,
  };
}

function toIncompleteReason(step: FakeStep): string | undefined {
  return step.finish === "length"
    ? "max_output_tokens"
    : step.finish === "content_filter"
      ? "content_filter"
      : undefined;
}

/** OpenAI's Responses API. */
export const openaiResponses: FakeWire = {
  name: "openai-responses",
  matches: (path) => path.endsWith("/responses"),

  findViolation({ body }, dialect) {
    if (!isObject(body)) return "the body must be an object";
    const unknownField = findUnknownKey(body, [...BODY_FIELDS, ...(dialect.body ?? [])]);
    if (unknownField !== undefined) return `Unknown parameter: '${unknownField}'.`;
    if (typeof body.model !== "string" || body.model === "") return "Missing required parameter: 'model'.";
    if (!Array.isArray(body.input) || body.input.length === 0) return "input must not be empty";
    if (body.store !== false) return "this organization keeps nothing: store must be false";
    if (
      body.max_output_tokens !== undefined &&
      !(Number.isInteger(body.max_output_tokens) && body.max_output_tokens >= 16)
    )
      return "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16.";
    if (/^(o\d|gpt-[5-9])/.test(body.model)) {
      if (body.temperature !== undefined)
        return "Unsupported parameter: 'temperature' is not supported with this model.";
    } else if (body.reasoning !== undefined)
      return "Unsupported parameter: 'reasoning.effort' is not supported with this model.";
    if (body.tools !== undefined) {
      const names = new Set<string>();
      for (const tool of body.tools) {
        if (tool?.type === "web_search" && Object.keys(tool).length === 1) continue;
        if (
          tool?.type !== "function" ||
          !TOOL_NAME_PATTERN.test(String(tool.name)) ||
          tool.parameters?.type !== "object"
        )
          return "invalid tool";
        if (names.has(tool.name)) return `duplicate tool '${tool.name}'`;
        if (tool.strict !== false) return `tool '${tool.name}': strict schemas need every property in 'required'`;
        names.add(tool.name);
      }
    }
    return findInputViolation(body.input, body.model);
  },

  readFacts: ({ body }) => ({
    model: String(body?.model),
    stream: body?.stream === true,
    tools: (Array.isArray(body?.tools) ? body.tools : []).map((tool: Json) => String(tool?.name ?? tool?.type)),
  }),

  *createFrames(step, request, createId): Generator<Frame> {
    const { model } = request.body;
    let sequence = 0;
    const createEvent = (type: string, fields: Json): string =>
      formatEvent({ type, sequence_number: sequence++, ...fields }, type);
    const response = { id: `resp_${createId()}`, object: "response", created_at: 1_700_000_000, model, output: [] };
    let isOpened = false;
    let outputCount = 0;
    let message: { id: string; index: number; text: string } | undefined;
    const createOpening = function* (): Generator<Frame> {
      if (isOpened) return;
      isOpened = true;
      yield createEvent("response.created", { response: { ...response, status: "in_progress" } });
    };
    const closeMessage = function* (): Generator<Frame> {
      if (message === undefined) return;
      const { id, index, text } = message;
      message = undefined;
      const item = {
        type: "message",
        id,
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", text, annotations: [] }],
      };
      yield createEvent("response.output_item.done", { output_index: index, item });
    };
    const openMessage = function* (): Generator<Frame> {
      if (message !== undefined) return;
      message = { id: `msg_${createId()}`, index: outputCount++, text: "" };
      yield createEvent("response.output_item.added", {
        output_index: message.index,
        item: { type: "message", id: message.id, role: "assistant", content: [] },
      });
    };
    const startCall = (call: FakeCall, index: number): { item: Json; frame: string } => {
      const item = {
        type: "function_call",
        id: `fc_${createId()}`,
        call_id: call.id ?? `call_${createId()}`,
        name: call.name,
        arguments: "",
      };
      return { item, frame: createEvent("response.output_item.added", { output_index: index, item }) };
    };
    const createCalls = function* (calls: readonly FakeCall[]): Generator<Frame> {
      const openCalls = calls
        .map((call) => ({ call, index: outputCount++ }))
        .map((entry) => ({ ...entry, ...startCall(entry.call, entry.index), pieces: splitArguments(entry.call) }));
      for (const { frame } of openCalls) yield frame;
      for (let deltaIndex = 0; openCalls.some(({ pieces }) => deltaIndex < pieces.length); deltaIndex++) {
        for (const { item, index, pieces } of openCalls) {
          if (deltaIndex < pieces.length)
            yield createEvent("response.function_call_arguments.delta", {
              item_id: item.id,
              output_index: index,
              delta: pieces[deltaIndex],
            });
        }
      }
      for (const { item, index, call } of openCalls) {
        yield createEvent("response.output_item.done", {
          output_index: index,
          item: { ...item, arguments: getArgumentsText(call), status: "completed" },
        });
      }
    };

    for (const piece of step.say ?? []) {
      const frame = toCommonFrame(piece);
      if (frame !== undefined) {
        yield frame;
        continue;
      }
      if ("error" in piece) {
        yield createEvent("error", {
          error: {
            type: piece.error.type ?? "server_error",
            code: piece.error.code ?? null,
            message: piece.error.message,
          },
        });
        continue;
      }
      yield* createOpening();
      if ("text" in piece) {
        for (const text of toChunks(piece.text)) {
          yield* openMessage();
          message!.text += text;
          yield createEvent("response.output_text.delta", {
            item_id: message!.id,
            output_index: message!.index,
            content_index: 0,
            delta: text,
          });
        }
      } else if ("refusal" in piece) {
        yield* openMessage();
        yield createEvent("response.refusal.delta", {
          item_id: message!.id,
          output_index: message!.index,
          content_index: 0,
          delta: piece.refusal,
        });
        yield createEvent("response.refusal.done", {
          item_id: message!.id,
          output_index: message!.index,
          content_index: 0,
          refusal: piece.refusal,
        });
      } else if ("reasoning" in piece) {
        yield* closeMessage();
        const index = outputCount++;
        const id = `rs_${createId()}`;
        const texts = toChunks(piece.reasoning);
        yield createEvent("response.output_item.added", {
          output_index: index,
          item: { type: "reasoning", id, summary: [], encrypted_content: null },
        });
        if (texts.some((text) => text !== "")) {
          yield createEvent("response.reasoning_summary_part.added", {
            item_id: id,
            output_index: index,
            summary_index: 0,
          });
          for (const text of texts)
            yield createEvent("response.reasoning_summary_text.delta", {
              item_id: id,
              output_index: index,
              summary_index: 0,
              delta: text,
            });
          yield createEvent("response.reasoning_summary_part.done", {
            item_id: id,
            output_index: index,
            summary_index: 0,
          });
        }
        const encryptedContent = piece.signature ?? createSignature("openai-responses", model, createId());
        const summary = [{ type: "summary_text", text: texts.join("") }];
        yield createEvent("response.output_item.done", {
          output_index: index,
          item: { type: "reasoning", id, summary, encrypted_content: encryptedContent },
        });
      } else if ("call" in piece) {
        yield* closeMessage();
        yield* createCalls([piece.call]);
      } else if ("calls" in piece) {
        yield* closeMessage();
        yield* createCalls(piece.calls);
      }
    }
    yield* createOpening();
    yield* closeMessage();
    if (step.finish === "none") return;
    const reason = toIncompleteReason(step);
    const usage = step.usage === null ? {} : { usage: toWireUsage(step.usage ?? estimateUsage(request, step)) };
    yield createEvent(reason === undefined ? "response.completed" : "response.incomplete", {
      response: {
        ...response,
        status: reason === undefined ? "completed" : "incomplete",
        incomplete_details: reason === undefined ? null : { reason },
        ...usage,
      },
    });
  },

  createCompleteAnswer: (step, request, createId) => ({
    id: `resp_${createId()}`,
    object: "response",
    created_at: 1_700_000_000,
    model: request.body.model,
    status: "completed",
    output: hasCall(step)
      ? []
      : [
          {
            type: "message",
            id: `msg_${createId()}`,
            role: "assistant",
            content: [{ type: "output_text", text: joinText(step), annotations: [] }],
          },
        ],
    usage: toWireUsage(step.usage ?? estimateUsage(request, step)),
  }),

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

function joinText(step: FakeStep): string {
  return (step.say ?? []).flatMap((piece) => ("text" in piece ? toChunks(piece.text) : [])).join("");
}
