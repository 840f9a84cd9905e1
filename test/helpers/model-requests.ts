import type { Message, Part } from "gantry";
import type {
  Model,
  ModelChunk,
  ModelMessage,
  ModelProvider,
  ModelRequest,
  ReasoningPart,
  TextPart,
  ToolSpec,
} from "gantry/plugin";

/** Creates a user message. A string is a text part. */
export const userMessage = (...parts: (string | Part)[]): ModelMessage => ({
  role: "user",
  parts: parts.map((part) => (typeof part === "string" ? { type: "text", text: part } : part)),
  toolCallId: "",
  name: "",
  failed: false,
});

export const assistantMessage = (...parts: (string | Part)[]): ModelMessage => ({
  ...userMessage(...parts),
  role: "assistant",
});

export const toolResultMessage = (
  toolCallId: string,
  name: string,
  parts: string | Part[],
  failed = false,
): ModelMessage => ({
  role: "tool",
  parts: typeof parts === "string" ? [{ type: "text", text: parts }] : parts,
  toolCallId,
  name,
  failed,
});

export const toolCallPart = (id: string, name: string, args: unknown): Part => ({
  type: "tool_call",
  id,
  name,
  arguments: typeof args === "string" ? args : JSON.stringify(args),
});

export const readTool: ToolSpec = {
  name: "read",
  description: "Read a file.",
  inputSchema: {
    type: "object",
    properties: { path: { type: "string" } },
    required: ["path"],
    additionalProperties: false,
  },
  kind: "read",
  parallel: true,
  needsPermission: false,
};

export const writeTool: ToolSpec = {
  ...readTool,
  name: "write",
  description: "Write a file.",
  kind: "edit",
  parallel: false,
};

export const createModel = (fields: Partial<Model> = {}): Model => ({
  id: "m1",
  name: "M 1",
  ownedBy: "test",
  ...fields,
});

export function createRequest(fields: Partial<ModelRequest> = {}): ModelRequest {
  return {
    model: createModel(),
    system: "You are a test.",
    messages: [userMessage("Hello")],
    tools: [],
    effort: "",
    cacheKey: "session-1",
    ...fields,
  };
}

/** A complete answer. */
export interface CompleteAnswer {
  chunks: ModelChunk[];
  text: string;
  reasoning: string;
  calls: Extract<ModelChunk, { type: "tool_call" }>[];
  finish: Extract<ModelChunk, { type: "finish" }>;
  /** The answer as the kernel would store it. */
  message: ModelMessage;
}

export function readAnswer(
  provider: ModelProvider,
  request: ModelRequest,
  signal = new AbortController().signal,
): Promise<CompleteAnswer> {
  return collectAnswer(provider.stream(request, signal), provider.name, request.model.id);
}

/** Collects an answer from chunks of any source. */
export async function collectAnswer(
  answer: AsyncIterable<ModelChunk>,
  provider: string,
  modelId: string,
): Promise<CompleteAnswer> {
  const chunks: ModelChunk[] = [];
  for await (const chunk of answer) chunks.push(chunk);
  const lastChunk = chunks.at(-1);
  if (lastChunk?.type !== "finish" || chunks.filter(({ type }) => type === "finish").length !== 1) {
    throw new Error(`finish must come once and last: ${JSON.stringify(chunks.map(({ type }) => type))}`);
  }
  const parts: Part[] = [];
  const blocks = new Map<string, TextPart | ReasoningPart>();
  const toOpaque = (data: unknown): { opaque: NonNullable<Extract<Part, { type: "text" }>["opaque"]> } => ({
    opaque: { provider, model: modelId, data },
  });
  for (const chunk of chunks) {
    if (chunk.type === "text" || chunk.type === "reasoning") {
      const newPart: TextPart | ReasoningPart = { type: chunk.type, text: "" } as TextPart | ReasoningPart;
      const part = blocks.get(chunk.block) ?? newPart;
      if (part === newPart) {
        blocks.set(chunk.block, part);
        parts.push(part);
      }
      part.text += chunk.text;
      if (chunk.opaque !== undefined) Object.assign(part, toOpaque(chunk.opaque));
    } else if (chunk.type === "tool_call") {
      const { id, name, arguments: args, opaque } = chunk;
      parts.push({ type: "tool_call", id, name, arguments: args, ...(opaque === undefined ? {} : toOpaque(opaque)) });
    }
  }
  const joinChunks = (type: "text" | "reasoning"): string =>
    chunks.map((chunk) => (chunk.type === type ? (chunk as { text: string }).text : "")).join("");
  return {
    chunks,
    text: joinChunks("text"),
    reasoning: joinChunks("reasoning"),
    calls: chunks.filter((chunk): chunk is Extract<ModelChunk, { type: "tool_call" }> => chunk.type === "tool_call"),
    finish: lastChunk,
    message: { ...userMessage(), role: "assistant", parts },
  };
}

/** A stored message in the form in which the kernel passes it to a provider. */
export function toModelMessage({ role, parts, toolCallId, name, failed }: Message): ModelMessage {
  return { role, parts, toolCallId, name, failed };
}

/** A PNG of 1 x 1 pixel, and a minimal PDF, in base64. */
export const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
export const PDF = Buffer.from("%PDF-1.4\n1 0 obj<<>>endobj\ntrailer<<>>\n%%EOF").toString("base64");
