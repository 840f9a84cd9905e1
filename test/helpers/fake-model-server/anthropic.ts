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
  toCommonFrame,
  estimateUsage,
  formatEvent,
  isBase64,
  isObject,
  createSignature,
  findSignatureFault,
  TOOL_NAME_PATTERN,
  findUnknownKey,
  type Dialect,
  type FakeWire,
  type Frame,
  type Json,
  type WireRequest,
} from "./wire.js";

const BODY_FIELDS =
  "model messages system max_tokens stream temperature top_p top_k tools tool_choice thinking output_config metadata stop_sequences service_tier".split(
    " ",
  );
const CALL_ID_PATTERN = /^[a-zA-Z0-9_-]+$/;

function findBlockViolation(block: Json, allowedTypes: readonly string[]): string | undefined {
  if (!isObject(block) || !allowedTypes.includes(block.type))
    return `Input tag '${String(block?.type)}' does not match any of: ${allowedTypes.join(", ")}`;
  if (block.type === "text" && (typeof block.text !== "string" || block.text.trim() === ""))
    return "text content blocks must contain non-whitespace text";
  if (
    block.type === "image" &&
    !(
      isObject(block.source) &&
      /^image\/(png|jpeg|gif|webp)$/.test(block.source.media_type) &&
      isBase64(block.source.data)
    )
  )
    return "image: invalid base64 data or media type";
  if (
    block.type === "document" &&
    !(isObject(block.source) && block.source.media_type === "application/pdf" && isBase64(block.source.data))
  )
    return "document: invalid PDF";
  return undefined;
}

function findMessagesViolation(
  messages: Json[],
  model: string,
  isThinking: boolean,
  dialect: Dialect,
): string | undefined {
  const ids = new Set<string>();
  let pendingCallIds: string[] = [];
  let lastUserIndex = -1;
  for (const [index, message] of messages.entries()) {
    const location = `messages.${index}`;
    const content: Json[] =
      typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content;
    if (!Array.isArray(content) || content.length === 0) return `${location}: all messages must have non-empty content`;
    if (message.role === "user") {
      let hasOtherBlocks = false;
      for (const [blockIndex, block] of content.entries()) {
        const blockViolation = findBlockViolation(block, ["text", "image", "document", "tool_result"]);
        if (blockViolation) return `${location}.content.${blockIndex}: ${blockViolation}`;
        if (block.type !== "tool_result") {
          hasOtherBlocks = true;
          continue;
        }
        if (hasOtherBlocks) return `${location}: tool_result blocks must come first`;
        if (!pendingCallIds.includes(block.tool_use_id))
          return `${location}.content.${blockIndex}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${String(block.tool_use_id)}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`;
        pendingCallIds = pendingCallIds.filter((id) => id !== block.tool_use_id);
        const resultBlocks = typeof block.content === "string" ? [] : (block.content ?? []);
        for (const entry of resultBlocks) {
          const entryViolation = findBlockViolation(entry, ["text", "image", "document"]);
          if (entryViolation) return `${location}.content.${blockIndex}: ${entryViolation}`;
        }
      }
      if (pendingCallIds.length > 0)
        return `${location}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${pendingCallIds.join(", ")}`;
      if (hasOtherBlocks) lastUserIndex = index;
    } else if (message.role === "assistant") {
      if (index === 0) return "messages: first message must use the user role";
      if (pendingCallIds.length > 0)
        return `${location}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${pendingCallIds.join(", ")}`;
      for (const [blockIndex, block] of content.entries()) {
        if (block.type === "thinking") {
          if (typeof block.thinking !== "string") return `${location}: thinking: Field required`;
          const signatureFault = findSignatureFault("anthropic", model, block.signature);
          if (signatureFault && dialect.acceptsUnsignedThinking !== true)
            return `${location}.content.${blockIndex}: Invalid \`signature\` in \`thinking\` block: ${signatureFault}`;
        } else if (block.type === "redacted_thinking") {
          const signatureFault = findSignatureFault("anthropic", model, block.data);
          if (signatureFault)
            return `${location}.content.${blockIndex}: Invalid \`data\` in \`redacted_thinking\` block: ${signatureFault}`;
        } else if (block.type === "tool_use") {
          if (!CALL_ID_PATTERN.test(String(block.id)))
            return `${location}.content.${blockIndex}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'`;
          if (ids.has(block.id)) return `${location}: \`tool_use\` ids must be unique`;
          if (!isObject(block.input))
            return `${location}.content.${blockIndex}.tool_use.input: Input should be a valid dictionary`;
          if (!TOOL_NAME_PATTERN.test(String(block.name))) return `${location}: invalid tool name`;
          ids.add(block.id);
          pendingCallIds.push(block.id);
        } else {
          const blockViolation = findBlockViolation(block, ["text", "thinking", "redacted_thinking", "tool_use"]);
          if (blockViolation) return `${location}.content.${blockIndex}: ${blockViolation}`;
        }
      }
      if (/thinking$/.test(content.at(-1).type))
        return `${location}: The final block in an assistant message cannot be \`thinking\`.`;
    } else return `${location}: role must be user or assistant`;
  }
  if (pendingCallIds.length > 0)
    return `\`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${pendingCallIds.join(", ")}`;
  if (messages.at(-1).role !== "user")
    return "This model does not support assistant message prefill. The conversation must end with a user message.";
  if (isThinking) {
    // Within a turn with tool calls, thinking blocks must be preserved, unless the model itself decides whether it
    // thinks.
    for (const message of messages.slice(lastUserIndex + 1)) {
      if (
        message.role === "assistant" &&
        message.content.some((block: Json) => block.type === "tool_use") &&
        !/thinking$/.test(message.content[0].type)
      )
        return "Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a thinking block.";
    }
  }
  return undefined;
}

function countCacheMarks(value: Json): number {
  if (Array.isArray(value)) return value.reduce((sum: number, entry) => sum + countCacheMarks(entry), 0);
  if (!isObject(value)) return 0;
  return (
    (value.cache_control === undefined ? 0 : 1) +
    Object.values(value).reduce((sum: number, entry) => sum + countCacheMarks(entry), 0)
  );
}

function toStopReason(step: FakeStep): string {
  switch (step.finish) {
    case "length":
      return "max_tokens";
    case "content_filter":
    case "refusal":
      return "refusal";
    case "stop":
      return "end_turn";
    case "tool_calls":
      return "tool_use";
    default:
      return hasCall(step) ? "tool_use" : "end_turn";
  }
}

function toWireUsage(usage: FakeUsage): Json {
  const cacheReadTokens = usage.cacheRead ?? 0;
  const cacheWriteTokens = usage.cacheWrite ?? 0;
  return {
    input_tokens: usage.input - cacheReadTokens - cacheWriteTokens,
    cache_read_input_tokens: cacheReadTokens,
    cache_creation_input_tokens: cacheWriteTokens,
    output_tokens: 1,
  };
}

/** Anthropic's Messages API. */
export const anthropic: FakeWire = {
  name: "anthropic",
  matches: (path) => path.endsWith("/messages"),

  findViolation({ body, headers }, dialect) {
    if (headers["anthropic-version"] === undefined) return "anthropic-version: header is required";
    if (!isObject(body)) return "the body must be an object";
    const unknownField = findUnknownKey(body, [...BODY_FIELDS, ...(dialect.body ?? [])]);
    if (unknownField !== undefined) return `${unknownField}: Extra inputs are not permitted`;
    if (!Number.isInteger(body.max_tokens) || body.max_tokens < 1) return "max_tokens: Field required";
    if (!Array.isArray(body.messages) || body.messages.length === 0)
      return "messages: at least one message is required";
    if (body.system !== undefined && typeof body.system !== "string") {
      for (const block of body.system) {
        const blockViolation = findBlockViolation(block, ["text"]);
        if (blockViolation) return `system: ${blockViolation}`;
      }
    }
    if (countCacheMarks(body) > 4) return "A maximum of 4 blocks with cache_control may be provided.";
    const { thinking } = body;
    const model = String(body.model);
    if (thinking?.type === "enabled" && /claude-(opus-4-[78]|[a-z]+-5)/.test(model))
      return '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.';
    if (thinking?.type === "adaptive" && /claude-([a-z]+-4(-5)?(-\d{8})?$|3)/.test(model))
      return "adaptive thinking is not supported on this model";
    if (thinking?.type === "disabled" && /claude-([a-z]+-5-5|fable-5)/.test(model))
      return '"thinking.type.disabled" is not supported for this model.';
    if (thinking?.type === "enabled") {
      if (!(thinking.budget_tokens >= 1024))
        return "thinking.budget_tokens: Input should be greater than or equal to 1024";
      if (thinking.budget_tokens >= body.max_tokens)
        return "`max_tokens` must be greater than `thinking.budget_tokens`";
      if (body.temperature !== undefined && body.temperature !== 1)
        return "`temperature` may only be set to 1 when thinking is enabled";
    }
    const names = new Set<string>();
    for (const tool of body.tools ?? []) {
      if (tool?.type === "web_search_20250305" && tool.name === "web_search") {
        if (findUnknownKey(tool, ["type", "name", "max_uses"]) !== undefined) return "tools: invalid web search";
        continue;
      }
      if (!TOOL_NAME_PATTERN.test(String(tool?.name)) || tool.input_schema?.type !== "object")
        return "tools: invalid tool";
      if (names.has(tool.name)) return "tools: Tool names must be unique.";
      names.add(tool.name);
    }
    return findMessagesViolation(body.messages, body.model, thinking?.type === "enabled", dialect);
  },

  readFacts: ({ body }) => ({
    model: String(body?.model),
    stream: body?.stream === true,
    tools: (Array.isArray(body?.tools) ? body.tools : []).map((tool: Json) => String(tool?.name)),
  }),

  *createFrames(step, request, createId): Generator<Frame> {
    const { model } = request.body;
    const usage = step.usage === null ? undefined : (step.usage ?? estimateUsage(request, step));
    const createEvent = (type: string, fields: Json): string => formatEvent({ type, ...fields }, type);
    let isOpened = false;
    let index = 0;
    let isTextOpen = false;
    const createOpening = function* (): Generator<Frame> {
      if (isOpened) return;
      isOpened = true;
      const message = {
        id: `msg_${createId()}`,
        type: "message",
        role: "assistant",
        model,
        content: [],
        stop_reason: null,
        stop_sequence: null,
      };
      yield createEvent("message_start", {
        message: {
          ...message,
          usage: usage === undefined ? { input_tokens: 0, output_tokens: 0 } : toWireUsage(usage),
        },
      });
      yield createEvent("ping", {});
    };
    const closeText = function* (): Generator<Frame> {
      if (!isTextOpen) return;
      isTextOpen = false;
      yield createEvent("content_block_stop", { index: index++ });
    };
    const createCall = function* (entry: FakeCall): Generator<Frame> {
      yield* closeText();
      const block = { type: "tool_use", id: entry.id ?? `toolu_${createId()}`, name: entry.name, input: {} };
      yield createEvent("content_block_start", { index, content_block: block });
      for (const text of splitArguments(entry))
        yield createEvent("content_block_delta", { index, delta: { type: "input_json_delta", partial_json: text } });
      yield createEvent("content_block_stop", { index: index++ });
    };
    const createText = function* (chunk: string): Generator<Frame> {
      if (!isTextOpen) {
        isTextOpen = true;
        yield createEvent("content_block_start", { index, content_block: { type: "text", text: "" } });
      }
      yield createEvent("content_block_delta", { index, delta: { type: "text_delta", text: chunk } });
    };

    for (const piece of step.say ?? []) {
      const frame = toCommonFrame(piece);
      if (frame !== undefined) {
        yield frame;
        continue;
      }
      if ("error" in piece) {
        yield formatEvent(anthropic.createError(500, piece.error), "error");
        continue;
      }
      yield* createOpening();
      if ("text" in piece) for (const chunk of toChunks(piece.text)) yield* createText(chunk);
      else if ("refusal" in piece) yield* createText(piece.refusal);
      else if ("reasoning" in piece) {
        yield* closeText();
        const signature = piece.signature ?? createSignature("anthropic", model, createId());
        if (piece.redacted === true) {
          yield createEvent("content_block_start", {
            index,
            content_block: { type: "redacted_thinking", data: signature },
          });
        } else {
          yield createEvent("content_block_start", {
            index,
            content_block: { type: "thinking", thinking: "", signature: "" },
          });
          for (const thinking of toChunks(piece.reasoning))
            yield createEvent("content_block_delta", { index, delta: { type: "thinking_delta", thinking } });
          yield createEvent("content_block_delta", { index, delta: { type: "signature_delta", signature } });
        }
        yield createEvent("content_block_stop", { index: index++ });
      } else if ("call" in piece) yield* createCall(piece.call);
      // On this wire, blocks are sent one after the other.
      else if ("calls" in piece) for (const entry of piece.calls) yield* createCall(entry);
    }
    yield* createOpening();
    yield* closeText();
    if (step.finish === "none") return;
    const outputUsage =
      usage === undefined
        ? { output_tokens: 0 }
        : {
            output_tokens: usage.output,
            ...(usage.reasoning === undefined ? {} : { output_tokens_details: { thinking_tokens: usage.reasoning } }),
          };
    yield createEvent("message_delta", {
      delta: { stop_reason: toStopReason(step), stop_sequence: null },
      usage: outputUsage,
    });
    yield createEvent("message_stop", {});
  },

  createCompleteAnswer(step, request, createId) {
    const content: Json[] = [];
    const addCall = (entry: FakeCall): void => {
      content.push({
        type: "tool_use",
        id: entry.id ?? `toolu_${createId()}`,
        name: entry.name,
        input: JSON.parse(getArgumentsText(entry)) as Json,
      });
    };
    for (const piece of step.say ?? []) {
      if ("text" in piece) content.push({ type: "text", text: toChunks(piece.text).join("") });
      else if ("call" in piece) addCall(piece.call);
      else if ("calls" in piece) piece.calls.forEach(addCall);
    }
    const usage = step.usage ?? estimateUsage(request, step);
    return {
      id: `msg_${createId()}`,
      type: "message",
      role: "assistant",
      model: request.body.model,
      content,
      stop_reason: toStopReason(step),
      stop_sequence: null,
      usage: { ...toWireUsage(usage), output_tokens: usage.output },
    };
  },

  createError: (status, fault) => ({
    type: "error",
    error: {
      type: fault.type ?? ERROR_TYPES[status] ?? (status >= 500 ? "api_error" : "invalid_request_error"),
      message: fault.message,
    },
  }),

  readApiKey: ({ headers }: Pick<WireRequest, "headers">) =>
    typeof headers["x-api-key"] === "string" ? headers["x-api-key"] : undefined,
};

const ERROR_TYPES: Readonly<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  529: "overloaded_error",
};
