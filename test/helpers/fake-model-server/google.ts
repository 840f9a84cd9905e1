import { getArgumentsText, toChunks, type FakeCall, type FakeStep, type FakeUsage } from "./steps.js";
import {
  toCommonFrame,
  estimateUsage,
  formatEvent,
  GEMINI_FUNCTION_NAME_PATTERN,
  isBase64,
  isObject,
  createSignature,
  findSignatureFault,
  findUnknownKey,
  type FakeWire,
  type Frame,
  type Json,
  type WireRequest,
} from "./wire.js";

const PATH_PATTERN = /\/models\/([^/:]+):(streamGenerateContent|generateContent)$/;
const BODY_FIELDS =
  "contents systemInstruction tools toolConfig generationConfig safetySettings cachedContent labels".split(" ");
/** Google's documented value for a missing signature. */
const SKIP_SIGNATURE = "skip_thought_signature_validator";

function readModelId(path: string): string {
  return PATH_PATTERN.exec(path)?.[1] ?? "";
}

function findPartViolation(part: Json, model: string): string | undefined {
  if (!isObject(part)) return "part must be an object";
  const dataFields = ["text", "inlineData", "functionCall", "functionResponse"].filter(
    (key) => part[key] !== undefined,
  );
  if (dataFields.length !== 1) return "required oneof field 'data' must have one initialized field";
  if (part.text === "") return "part must have one initialized field: text is empty";
  if (
    part.inlineData !== undefined &&
    !(
      /^(image\/(png|jpeg|webp|gif)|application\/pdf)$/.test(part.inlineData.mimeType) && isBase64(part.inlineData.data)
    )
  )
    return `Unsupported MIME type: ${String(part.inlineData.mimeType)}`;
  if (part.thoughtSignature !== undefined && part.thoughtSignature !== SKIP_SIGNATURE) {
    const signatureFault = findSignatureFault("google", model, part.thoughtSignature);
    if (signatureFault) return `Thought signature is not valid: ${signatureFault}`;
  }
  return undefined;
}

function findContentsViolation(contents: Json[], model: string): string | undefined {
  let pendingCallNames: string[] = [];
  let turnStartIndex = 0;
  for (const [index, content] of contents.entries()) {
    const location = `contents[${index}]`;
    if (content.role !== "user" && content.role !== "model")
      return `${location}: Please use a valid role: user, model.`;
    if (!Array.isArray(content.parts) || content.parts.length === 0) return `${location}.parts must not be empty`;
    for (const part of content.parts) {
      const partViolation = findPartViolation(part, model);
      if (partViolation) return `${location}: ${partViolation}`;
    }
    const responses = content.parts.filter((part: Json) => part.functionResponse !== undefined);
    const calls = content.parts.filter((part: Json) => part.functionCall !== undefined);
    if (pendingCallNames.length > 0 && (content.role !== "user" || responses.length !== pendingCallNames.length))
      return `${location}: Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.`;
    if (pendingCallNames.length === 0 && responses.length > 0)
      return `${location}: Please ensure that function response turn comes immediately after a function call turn.`;
    for (const [responseIndex, { functionResponse }] of responses.entries()) {
      if (functionResponse.name !== pendingCallNames[responseIndex])
        return `${location}: function response name must match its call`;
      if (!isObject(functionResponse.response)) return `${location}: function response must be a Struct`;
    }
    pendingCallNames = [];
    if (content.role === "user") {
      if (calls.length > 0) return `${location}: function calls are for the model`;
      if (responses.length === 0) turnStartIndex = index;
    } else {
      if (index === 0)
        return "Please ensure that function call turn comes immediately after a user turn or after a function response turn.";
      for (const { functionCall } of calls) {
        if (!GEMINI_FUNCTION_NAME_PATTERN.test(String(functionCall.name)) || !isObject(functionCall.args))
          return `${location}: invalid function call`;
        pendingCallNames.push(functionCall.name);
      }
    }
  }
  if (pendingCallNames.length > 0)
    return "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.";
  if (contents.at(-1).role !== "user") return "Please ensure that the last content is of the user.";
  if (/gemini-3/.test(model)) {
    for (const content of contents.slice(turnStartIndex)) {
      const firstCall = content.parts.find((part: Json) => part.functionCall !== undefined);
      if (firstCall !== undefined && firstCall.thoughtSignature === undefined)
        return "Function call is missing a thought_signature in functionCall parts.";
    }
  }
  return undefined;
}

function toWireUsage(usage: FakeUsage): Json {
  const thoughts = usage.reasoning ?? 0;
  return {
    promptTokenCount: usage.input,
    cachedContentTokenCount: usage.cacheRead ?? 0,
    candidatesTokenCount: usage.output - thoughts,
    thoughtsTokenCount: thoughts,
    totalTokenCount: usage.input + usage.output,
  };
}

function toFinishReason(step: FakeStep): string {
  return step.finish === "length"
    ? "MAX_TOKENS"
    : step.finish === "content_filter" || step.finish === "refusal"
      ? "SAFETY"
      : "STOP";
}

/** Gemini's generateContent. */
export const google: FakeWire = {
  name: "google",
  matches: (path) => PATH_PATTERN.test(path),

  findViolation({ body, path }, dialect) {
    if (!isObject(body)) return "the body must be an object";
    const unknownField = findUnknownKey(body, [...BODY_FIELDS, ...(dialect.body ?? [])]);
    if (unknownField !== undefined)
      return `Invalid JSON payload received. Unknown name "${unknownField}": Cannot find field.`;
    if (!Array.isArray(body.contents) || body.contents.length === 0) return "contents is not specified";
    for (const part of body.systemInstruction?.parts ?? []) if (!part.text) return "system_instruction: empty text";
    const model = readModelId(path);
    const thinking = body.generationConfig?.thinkingConfig;
    if (thinking?.thinkingLevel !== undefined && !/gemini-3/.test(model))
      return "Thinking level is not supported for this model.";
    if (thinking?.thinkingBudget !== undefined && !/gemini-2\.5/.test(model))
      return "Thinking budget is not supported for this model.";
    const names = new Set<string>();
    for (const { functionDeclarations } of body.tools ?? []) {
      for (const { name, parameters } of functionDeclarations ?? []) {
        if (!GEMINI_FUNCTION_NAME_PATTERN.test(String(name)) || names.has(name))
          return `Duplicate or invalid function declaration found: ${String(name)}`;
        names.add(name);
        if (parameters !== undefined && /"(\$ref|\$schema|\$defs|const)":/.test(JSON.stringify(parameters)))
          return "Unknown name in function_declarations.parameters";
      }
    }
    return findContentsViolation(body.contents, model);
  },

  readFacts: ({ body, path }) => ({
    model: readModelId(path),
    stream: path.endsWith(":streamGenerateContent"),
    tools: (Array.isArray(body?.tools) ? body.tools : []).flatMap((tool: Json) =>
      (tool.functionDeclarations ?? (tool.googleSearch ? [{ name: "google_search" }] : [])).map(({ name }: Json) =>
        String(name),
      ),
    ),
  }),

  *createFrames(step, request, createId): Generator<Frame> {
    const model = readModelId(request.path);
    const usage = step.usage === null ? undefined : toWireUsage(step.usage ?? estimateUsage(request, step));
    const createChunk = (parts: Json[], candidateFields: Json = {}): string =>
      formatEvent({
        candidates: [{ content: { parts, role: "model" }, index: 0, ...candidateFields }],
        modelVersion: model,
        responseId: "r1",
      });
    let isSigned = false;
    const createCallPart = (call: FakeCall): Json => {
      // The first call of an answer has the signature of all calls of the answer.
      const signature =
        call.signature ??
        (isSigned || !/gemini-(2\.5|3)/.test(model) ? undefined : createSignature("google", model, createId()));
      isSigned = true;
      const functionCall = {
        name: call.name,
        args: toArgumentsObject(call),
        ...(/gemini-3/.test(model) ? { id: call.id ?? createId() } : {}),
      };
      return { functionCall, ...(signature === undefined ? {} : { thoughtSignature: signature }) };
    };
    for (const piece of step.say ?? []) {
      const frame = toCommonFrame(piece);
      if (frame !== undefined) yield frame;
      else if ("open" in piece)
        yield formatEvent({ usageMetadata: { promptTokenCount: 1 }, modelVersion: model, responseId: "r1" });
      else if ("text" in piece) for (const text of toChunks(piece.text)) yield createChunk([{ text }]);
      else if ("refusal" in piece) yield createChunk([{ text: piece.refusal }]);
      else if ("reasoning" in piece) {
        for (const text of toChunks(piece.reasoning)) yield createChunk([{ text, thought: true }]);
      } else if ("call" in piece) yield createChunk([createCallPart(piece.call)]);
      else if ("calls" in piece) yield createChunk(piece.calls.map(createCallPart));
      else if ("error" in piece) yield formatEvent(google.createError(500, piece.error));
    }
    if (step.finish === "none") return;
    yield formatEvent({
      candidates: [{ content: { parts: [{ text: "" }], role: "model" }, finishReason: toFinishReason(step), index: 0 }],
      ...(usage === undefined ? {} : { usageMetadata: usage }),
    });
  },

  createCompleteAnswer(step, request, createId) {
    const frames = [...google.createFrames(step, request, createId, {})].filter(
      (frame): frame is string => typeof frame === "string",
    );
    const chunks = frames.map((frame) => JSON.parse(frame.slice("data: ".length)) as Json);
    const parts = chunks
      .flatMap((entry) => entry.candidates?.[0]?.content?.parts ?? [])
      .filter((part: Json) => part.text !== "");
    return {
      ...chunks.at(-1),
      candidates: [{ content: { parts, role: "model" }, finishReason: toFinishReason(step), index: 0 }],
    };
  },

  createError: (status, fault) => ({
    error: {
      code: fault.code === undefined ? status : Number(fault.code),
      message: fault.message,
      status: fault.type ?? STATUS_NAMES[status] ?? "INTERNAL",
    },
  }),

  readApiKey: ({ headers }: Pick<WireRequest, "headers">) =>
    typeof headers["x-goog-api-key"] === "string" ? headers["x-goog-api-key"] : undefined,
};

const STATUS_NAMES: Readonly<Record<number, string>> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  429: "RESOURCE_EXHAUSTED",
  503: "UNAVAILABLE",
};

/** This wire sends arguments as objects: a text that is not a JSON object becomes `{ value: text }`. */
function toArgumentsObject(call: FakeCall): Json {
  const text = getArgumentsText(call);
  try {
    const value = JSON.parse(text === "" ? "{}" : text) as Json;
    if (isObject(value)) return value;
  } catch {
    // The text is not JSON.
  }
  return { value: text };
}
