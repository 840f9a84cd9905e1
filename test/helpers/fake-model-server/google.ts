import { argumentsText, textOf, type FakeCall, type FakeStep, type FakeUsage } from "./steps.js";
import {
  common,
  estimate,
  event,
  FUNCTION_NAME,
  isBase64,
  isObject,
  mint,
  minted,
  unknownKey,
  type FakeWire,
  type Frame,
  type Json,
  type WireRequest,
} from "./wire.js";

const PATH = /\/models\/([^/:]+):(streamGenerateContent|generateContent)$/;
const BODY = "contents systemInstruction tools toolConfig generationConfig safetySettings cachedContent labels".split(
  " ",
);
/** Google's documented value for a missing signature. */
const SKIP = "skip_thought_signature_validator";

function modelOf(path: string): string {
  return PATH.exec(path)?.[1] ?? "";
}

function partViolation(part: Json, model: string): string | undefined {
  if (!isObject(part)) return "part must be an object";
  const data = ["text", "inlineData", "functionCall", "functionResponse"].filter((key) => part[key] !== undefined);
  if (data.length !== 1) return "required oneof field 'data' must have one initialized field";
  if (part.text === "") return "part must have one initialized field: text is empty";
  if (
    part.inlineData !== undefined &&
    !(
      /^(image\/(png|jpeg|webp|gif)|application\/pdf)$/.test(part.inlineData.mimeType) && isBase64(part.inlineData.data)
    )
  )
    return `Unsupported MIME type: ${String(part.inlineData.mimeType)}`;
  if (part.thoughtSignature !== undefined && part.thoughtSignature !== SKIP) {
    const wrong = minted("google", model, part.thoughtSignature);
    if (wrong) return `Thought signature is not valid: ${wrong}`;
  }
  return undefined;
}

function contentsViolation(contents: Json[], model: string): string | undefined {
  let waiting: string[] = [];
  let turnStart = 0;
  for (const [index, content] of contents.entries()) {
    const at = `contents[${index}]`;
    if (content.role !== "user" && content.role !== "model") return `${at}: Please use a valid role: user, model.`;
    if (!Array.isArray(content.parts) || content.parts.length === 0) return `${at}.parts must not be empty`;
    for (const part of content.parts) {
      const wrong = partViolation(part, model);
      if (wrong) return `${at}: ${wrong}`;
    }
    const responses = content.parts.filter((part: Json) => part.functionResponse !== undefined);
    const calls = content.parts.filter((part: Json) => part.functionCall !== undefined);
    if (waiting.length > 0 && (content.role !== "user" || responses.length !== waiting.length))
      return `${at}: Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.`;
    if (waiting.length === 0 && responses.length > 0)
      return `${at}: Please ensure that function response turn comes immediately after a function call turn.`;
    for (const [part, { functionResponse }] of responses.entries()) {
      if (functionResponse.name !== waiting[part]) return `${at}: function response name must match its call`;
      if (!isObject(functionResponse.response)) return `${at}: function response must be a Struct`;
    }
    waiting = [];
    if (content.role === "user") {
      if (calls.length > 0) return `${at}: function calls are for the model`;
      if (responses.length === 0) turnStart = index;
    } else {
      if (index === 0)
        return "Please ensure that function call turn comes immediately after a user turn or after a function response turn.";
      for (const { functionCall } of calls) {
        if (!FUNCTION_NAME.test(String(functionCall.name)) || !isObject(functionCall.args))
          return `${at}: invalid function call`;
        waiting.push(functionCall.name);
      }
    }
  }
  if (waiting.length > 0)
    return "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.";
  if (contents.at(-1).role !== "user") return "Please ensure that the last content is of the user.";
  if (/gemini-3/.test(model)) {
    for (const content of contents.slice(turnStart)) {
      const first = content.parts.find((part: Json) => part.functionCall !== undefined);
      if (first !== undefined && first.thoughtSignature === undefined)
        return "Function call is missing a thought_signature in functionCall parts.";
    }
  }
  return undefined;
}

function usageOf(usage: FakeUsage): Json {
  const thoughts = usage.reasoning ?? 0;
  return {
    promptTokenCount: usage.input,
    cachedContentTokenCount: usage.cacheRead ?? 0,
    candidatesTokenCount: usage.output - thoughts,
    thoughtsTokenCount: thoughts,
    totalTokenCount: usage.input + usage.output,
  };
}

function finishOf(step: FakeStep): string {
  return step.finish === "length"
    ? "MAX_TOKENS"
    : step.finish === "content_filter" || step.finish === "refusal"
      ? "SAFETY"
      : "STOP";
}

/** Gemini's generateContent. */
export const google: FakeWire = {
  name: "google",
  matches: (path) => PATH.test(path),

  violation({ body, path }, dialect) {
    if (!isObject(body)) return "the body must be an object";
    const extra = unknownKey(body, [...BODY, ...(dialect.body ?? [])]);
    if (extra !== undefined) return `Invalid JSON payload received. Unknown name "${extra}": Cannot find field.`;
    if (!Array.isArray(body.contents) || body.contents.length === 0) return "contents is not specified";
    for (const part of body.systemInstruction?.parts ?? []) if (!part.text) return "system_instruction: empty text";
    const model = modelOf(path);
    const thinking = body.generationConfig?.thinkingConfig;
    if (thinking?.thinkingLevel !== undefined && !/gemini-3/.test(model))
      return "Thinking level is not supported for this model.";
    if (thinking?.thinkingBudget !== undefined && !/gemini-2\.5/.test(model))
      return "Thinking budget is not supported for this model.";
    const names = new Set<string>();
    for (const { functionDeclarations } of body.tools ?? []) {
      for (const { name, parameters } of functionDeclarations ?? []) {
        if (!FUNCTION_NAME.test(String(name)) || names.has(name))
          return `Duplicate or invalid function declaration found: ${String(name)}`;
        names.add(name);
        if (parameters !== undefined && /"(\$ref|\$schema|\$defs|const)":/.test(JSON.stringify(parameters)))
          return "Unknown name in function_declarations.parameters";
      }
    }
    return contentsViolation(body.contents, model);
  },

  facts: ({ body, path }) => ({
    model: modelOf(path),
    stream: path.endsWith(":streamGenerateContent"),
    tools: (Array.isArray(body?.tools) ? body.tools : []).flatMap((tool: Json) =>
      (tool.functionDeclarations ?? []).map(({ name }: Json) => String(name)),
    ),
  }),

  *frames(step, request, ids): Generator<Frame> {
    const model = modelOf(request.path);
    const usage = step.usage === null ? undefined : usageOf(step.usage ?? estimate(request, step));
    const chunk = (parts: Json[], candidateFields: Json = {}): string =>
      event({
        candidates: [{ content: { parts, role: "model" }, index: 0, ...candidateFields }],
        modelVersion: model,
        responseId: "r1",
      });
    let signed = false;
    const callPart = (call: FakeCall): Json => {
      // One signature for all calls of an answer, on the first of them.
      const signature =
        call.signature ?? (signed || !/gemini-(2\.5|3)/.test(model) ? undefined : mint("google", model, ids()));
      signed = true;
      const functionCall = {
        name: call.name,
        args: objectOf(call),
        ...(/gemini-3/.test(model) ? { id: call.id ?? ids() } : {}),
      };
      return { functionCall, ...(signature === undefined ? {} : { thoughtSignature: signature }) };
    };
    for (const piece of step.say ?? []) {
      const frame = common(piece);
      if (frame !== undefined) yield frame;
      else if ("open" in piece)
        yield event({ usageMetadata: { promptTokenCount: 1 }, modelVersion: model, responseId: "r1" });
      else if ("text" in piece) for (const text of textOf(piece.text)) yield chunk([{ text }]);
      else if ("refusal" in piece) yield chunk([{ text: piece.refusal }]);
      else if ("reasoning" in piece) {
        for (const text of textOf(piece.reasoning)) yield chunk([{ text, thought: true }]);
      } else if ("call" in piece) yield chunk([callPart(piece.call)]);
      else if ("calls" in piece) yield chunk(piece.calls.map(callPart));
      else if ("error" in piece) yield event(google.error(500, piece.error));
    }
    if (step.finish === "none") return;
    yield event({
      candidates: [{ content: { parts: [{ text: "" }], role: "model" }, finishReason: finishOf(step), index: 0 }],
      ...(usage === undefined ? {} : { usageMetadata: usage }),
    });
  },

  completeAnswer(step, request, ids) {
    const frames = [...google.frames(step, request, ids, {})].filter(
      (frame): frame is string => typeof frame === "string",
    );
    const chunks = frames.map((frame) => JSON.parse(frame.slice("data: ".length)) as Json);
    const parts = chunks
      .flatMap((entry) => entry.candidates?.[0]?.content?.parts ?? [])
      .filter((part: Json) => part.text !== "");
    return {
      ...chunks.at(-1),
      candidates: [{ content: { parts, role: "model" }, finishReason: finishOf(step), index: 0 }],
    };
  },

  error: (status, fault) => ({
    error: {
      code: fault.code === undefined ? status : Number(fault.code),
      message: fault.message,
      status: fault.type ?? STATUS[status] ?? "INTERNAL",
    },
  }),

  key: ({ headers }: Pick<WireRequest, "headers">) =>
    typeof headers["x-goog-api-key"] === "string" ? headers["x-goog-api-key"] : undefined,
};

const STATUS: Readonly<Record<number, string>> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  429: "RESOURCE_EXHAUSTED",
  503: "UNAVAILABLE",
};

/** This wire sends arguments as objects; other text is put into one. */
function objectOf(call: FakeCall): Json {
  const text = argumentsText(call);
  try {
    const value = JSON.parse(text === "" ? "{}" : text) as Json;
    if (isObject(value)) return value;
  } catch {
    // Text that is not an object cannot be sent on this wire.
  }
  return { value: text };
}
