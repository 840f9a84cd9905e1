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
  mint,
  minted,
  TOOL_NAME,
  unknownKey,
  type FakeWire,
  type Frame,
  type Json,
  type WireRequest,
} from "./wire.js";

const BODY = (
  "model input stream temperature top_p max_output_tokens tools tool_choice parallel_tool_calls store include instructions " +
  "prompt_cache_key reasoning text truncation metadata service_tier user"
).split(" ");

function contentViolation(content: Json, kinds: readonly string[]): string | undefined {
  if (typeof content === "string") return content === "" ? "empty content" : undefined;
  if (!Array.isArray(content) || content.length === 0) return "empty content";
  for (const part of content) {
    if (!kinds.includes(part?.type))
      return `Invalid value: '${String(part?.type)}'. Supported values are: ${kinds.join(", ")}`;
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

function inputViolation(input: Json[], model: string): string | undefined {
  const called = new Set<string>();
  let waiting: string[] = [];
  let reasoning: string | undefined;
  for (const [index, item] of input.entries()) {
    const at = `input[${index}]`;
    if (!isObject(item)) return `${at} must be an object`;
    const type = item.type ?? "message";
    const role = type === "message" ? item.role : undefined;
    // A reasoning item must be followed by an item of the same answer.
    if (reasoning !== undefined && type !== "reasoning" && type !== "function_call" && role !== "assistant")
      return `${at}: Item '${reasoning}' of type 'reasoning' was provided without its required following item.`;
    if (waiting.length > 0 && (role === "user" || role === "assistant" || type === "reasoning"))
      return `${at}: No tool output found for function call ${waiting[0]}.`;
    if (type !== "reasoning") reasoning = undefined;
    switch (type) {
      case "message": {
        if (role === "system" || role === "developer") {
          if (index !== 0) return `${at}: ${role} must be first`;
          const wrong = contentViolation(item.content, ["input_text"]);
          if (wrong) return `${at}: ${wrong}`;
        } else if (role === "user") {
          const wrong = contentViolation(item.content, ["input_text", "input_image", "input_file"]);
          if (wrong) return `${at}: ${wrong}`;
        } else if (role === "assistant") {
          const wrong = contentViolation(item.content, ["output_text", "refusal"]);
          if (wrong) return `${at}: ${wrong}`;
          if (item.id !== undefined && !String(item.id).startsWith("msg_"))
            return `${at}: Invalid 'id': Expected an ID that begins with 'msg'.`;
        } else return `${at}: unknown role '${String(role)}'`;
        break;
      }
      case "function_call":
        if (typeof item.call_id !== "string" || item.call_id === "" || item.call_id.length > 64)
          return `${at}: invalid call_id`;
        if (called.has(item.call_id)) return `${at}: duplicate call_id '${item.call_id}'`;
        if (item.id !== undefined && !String(item.id).startsWith("fc_"))
          return `${at}: Invalid 'id': Expected an ID that begins with 'fc'.`;
        if (!TOOL_NAME.test(String(item.name))) return `${at}: invalid name`;
        if (!isJsonObject(item.arguments)) return `${at}: arguments must be a JSON object`;
        called.add(item.call_id);
        waiting.push(item.call_id);
        break;
      case "function_call_output": {
        if (!waiting.includes(item.call_id))
          return `${at}: No tool call found for function call output with call_id ${String(item.call_id)}.`;
        waiting = waiting.filter((id) => id !== item.call_id);
        if (typeof item.output !== "string") {
          const wrong = contentViolation(item.output, ["input_text", "input_image", "input_file"]);
          if (wrong) return `${at}: ${wrong}`;
        }
        break;
      }
      case "reasoning": {
        if (!Array.isArray(item.summary)) return `${at}: summary is required`;
        const wrong =
          item.encrypted_content === undefined ? "missing" : minted("openai-responses", model, item.encrypted_content);
        if (wrong) return `${at}: The encrypted content could not be verified: ${wrong}`;
        if (item.id !== undefined && !String(item.id).startsWith("rs_"))
          return `${at}: Invalid 'id': Expected an ID that begins with 'rs'.`;
        reasoning = String(item.id ?? index);
        break;
      }
      default:
        return `${at}: Invalid value: '${String(type)}'`;
    }
  }
  if (reasoning !== undefined)
    return `Item '${reasoning}' of type 'reasoning' was provided without its required following item.`;
  if (waiting.length > 0) return `No tool output found for function call ${waiting[0]}.`;
  const last = input.at(-1);
  return last.type === "function_call_output" || last.role === "user"
    ? undefined
    : "the last item must be of a user or a tool's output";
}

function usageOf(usage: FakeUsage): Json {
  return {
    input_tokens: usage.input,
    input_tokens_details: { cached_tokens: usage.cacheRead ?? 0 },
    output_tokens: usage.output,
    output_tokens_details: { reasoning_tokens: usage.reasoning ?? 0 },
    total_tokens: usage.input + usage.output,
  };
}

function incomplete(step: FakeStep): string | undefined {
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

  violation({ body }, dialect) {
    if (!isObject(body)) return "the body must be an object";
    const extra = unknownKey(body, [...BODY, ...(dialect.body ?? [])]);
    if (extra !== undefined) return `Unknown parameter: '${extra}'.`;
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
        if (tool?.type !== "function" || !TOOL_NAME.test(String(tool.name)) || tool.parameters?.type !== "object")
          return "invalid tool";
        if (names.has(tool.name)) return `duplicate tool '${tool.name}'`;
        if (tool.strict !== false) return `tool '${tool.name}': strict schemas need every property in 'required'`;
        names.add(tool.name);
      }
    }
    return inputViolation(body.input, body.model);
  },

  facts: ({ body }) => ({
    model: String(body?.model),
    stream: body?.stream === true,
    tools: (Array.isArray(body?.tools) ? body.tools : []).map((tool: Json) => String(tool?.name)),
  }),

  *frames(step, request, ids): Generator<Frame> {
    const { model } = request.body;
    let sequence = 0;
    const send = (type: string, fields: Json): string => event({ type, sequence_number: sequence++, ...fields }, type);
    const response = { id: `resp_${ids()}`, object: "response", created_at: 1_700_000_000, model, output: [] };
    let opened = false;
    let output = 0;
    let message: { id: string; index: number; text: string } | undefined;
    const open = function* (): Generator<Frame> {
      if (opened) return;
      opened = true;
      yield send("response.created", { response: { ...response, status: "in_progress" } });
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
      yield send("response.output_item.done", { output_index: index, item });
    };
    const openMessage = function* (): Generator<Frame> {
      if (message !== undefined) return;
      message = { id: `msg_${ids()}`, index: output++, text: "" };
      yield send("response.output_item.added", {
        output_index: message.index,
        item: { type: "message", id: message.id, role: "assistant", content: [] },
      });
    };
    const startCall = (call: FakeCall, index: number): { item: Json; frame: string } => {
      const item = {
        type: "function_call",
        id: `fc_${ids()}`,
        call_id: call.id ?? `call_${ids()}`,
        name: call.name,
        arguments: "",
      };
      return { item, frame: send("response.output_item.added", { output_index: index, item }) };
    };
    const calls = function* (list: readonly FakeCall[]): Generator<Frame> {
      const open = list
        .map((call) => ({ call, index: output++ }))
        .map((entry) => ({ ...entry, ...startCall(entry.call, entry.index), pieces: argumentPieces(entry.call) }));
      for (const { frame } of open) yield frame;
      for (let turn = 0; open.some(({ pieces }) => turn < pieces.length); turn++) {
        for (const { item, index, pieces } of open) {
          if (turn < pieces.length)
            yield send("response.function_call_arguments.delta", {
              item_id: item.id,
              output_index: index,
              delta: pieces[turn],
            });
        }
      }
      for (const { item, index, call } of open) {
        yield send("response.output_item.done", {
          output_index: index,
          item: { ...item, arguments: argumentsText(call), status: "completed" },
        });
      }
    };

    for (const piece of step.say ?? []) {
      const frame = common(piece);
      if (frame !== undefined) {
        yield frame;
        continue;
      }
      if ("error" in piece) {
        yield send("error", {
          error: {
            type: piece.error.type ?? "server_error",
            code: piece.error.code ?? null,
            message: piece.error.message,
          },
        });
        continue;
      }
      yield* open();
      if ("text" in piece) {
        for (const text of textOf(piece.text)) {
          yield* openMessage();
          message!.text += text;
          yield send("response.output_text.delta", {
            item_id: message!.id,
            output_index: message!.index,
            content_index: 0,
            delta: text,
          });
        }
      } else if ("refusal" in piece) {
        yield* openMessage();
        yield send("response.refusal.delta", {
          item_id: message!.id,
          output_index: message!.index,
          content_index: 0,
          delta: piece.refusal,
        });
        yield send("response.refusal.done", {
          item_id: message!.id,
          output_index: message!.index,
          content_index: 0,
          refusal: piece.refusal,
        });
      } else if ("reasoning" in piece) {
        yield* closeMessage();
        const index = output++;
        const id = `rs_${ids()}`;
        const texts = textOf(piece.reasoning);
        yield send("response.output_item.added", {
          output_index: index,
          item: { type: "reasoning", id, summary: [], encrypted_content: null },
        });
        if (texts.some((text) => text !== "")) {
          yield send("response.reasoning_summary_part.added", { item_id: id, output_index: index, summary_index: 0 });
          for (const text of texts)
            yield send("response.reasoning_summary_text.delta", {
              item_id: id,
              output_index: index,
              summary_index: 0,
              delta: text,
            });
          yield send("response.reasoning_summary_part.done", { item_id: id, output_index: index, summary_index: 0 });
        }
        const encrypted = piece.signature ?? mint("openai-responses", model, ids());
        const summary = [{ type: "summary_text", text: texts.join("") }];
        yield send("response.output_item.done", {
          output_index: index,
          item: { type: "reasoning", id, summary, encrypted_content: encrypted },
        });
      } else if ("call" in piece) {
        yield* closeMessage();
        yield* calls([piece.call]);
      } else if ("calls" in piece) {
        yield* closeMessage();
        yield* calls(piece.calls);
      }
    }
    yield* open();
    yield* closeMessage();
    if (step.finish === "none") return;
    const reason = incomplete(step);
    const usage = step.usage === null ? {} : { usage: usageOf(step.usage ?? estimate(request, step)) };
    yield send(reason === undefined ? "response.completed" : "response.incomplete", {
      response: {
        ...response,
        status: reason === undefined ? "completed" : "incomplete",
        incomplete_details: reason === undefined ? null : { reason },
        ...usage,
      },
    });
  },

  completeAnswer: (step, request, ids) => ({
    id: `resp_${ids()}`,
    object: "response",
    created_at: 1_700_000_000,
    model: request.body.model,
    status: "completed",
    output: hasCall(step)
      ? []
      : [
          {
            type: "message",
            id: `msg_${ids()}`,
            role: "assistant",
            content: [{ type: "output_text", text: allText(step), annotations: [] }],
          },
        ],
    usage: usageOf(step.usage ?? estimate(request, step)),
  }),

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

function allText(step: FakeStep): string {
  return (step.say ?? []).flatMap((piece) => ("text" in piece ? textOf(piece.text) : [])).join("");
}
