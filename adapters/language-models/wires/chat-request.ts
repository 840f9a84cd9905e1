import type { ModelCallOptions, ModelPrompt } from "../language-model.js";
import { REASONING_PLACEHOLDER, type ReasoningEcho } from "../reasoning-echo.js";

type JsonFields = Record<string, unknown>;
type Message = ModelPrompt[number];
type Content<Role extends Message["role"]> = Extract<Message, { role: Role }>["content"][number];

/** Provider options that the AI SDK package consumes; others are copied into the body. */
const PACKAGE_OPTIONS = new Set(["user", "reasoningEffort", "textVerbosity", "strictJsonSchema"]);

/**
 * Builds a chat-completions request with a placeholder for the messages. The request with its messages equals the
 * output of `@ai-sdk/openai-compatible` byte for byte. That package is not used because loading it takes longer than
 * the rest of a process's first turn. `packageOptions`: the provider options of the package.
 */
export function createChatRequest(
  model: string,
  options: ModelCallOptions,
  packageOptions: JsonFields,
  includesUsage: boolean,
): JsonFields {
  const { tools, maxOutputTokens, temperature, responseFormat } = options;
  return {
    model,
    user: packageOptions.user,
    max_tokens: maxOutputTokens,
    temperature,
    response_format: responseFormat?.type === "json" ? toResponseFormat(responseFormat) : undefined,
    ...Object.fromEntries(Object.entries(packageOptions).filter(([name]) => !PACKAGE_OPTIONS.has(name))),
    reasoning_effort: packageOptions.reasoningEffort,
    verbosity: packageOptions.textVerbosity,
    messages: null,
    tools: tools?.flatMap((tool) => (tool.type === "function" ? [toFunctionTool(tool)] : [])),
    stream: true,
    stream_options: includesUsage ? { include_usage: true } : undefined,
  };
}

/** Not strict: strict mode rejects schemas with optional properties. */
function toResponseFormat({ name, schema }: Extract<ModelCallOptions["responseFormat"], { type: "json" }>): JsonFields {
  return { type: "json_schema", json_schema: { schema, strict: false, name } };
}

function toFunctionTool({
  name,
  description,
  inputSchema,
}: Extract<NonNullable<ModelCallOptions["tools"]>[number], { type: "function" }>): JsonFields {
  return { type: "function", function: { name, description, parameters: inputSchema } };
}

/** Inserts the messages, which are JSON text already. */
export function insertMessages(request: JsonFields, messages: string): string {
  // Concatenation with `+` does not copy the text yet.
  let requestText = "";
  for (const [name, value] of Object.entries(request)) {
    const text = name === "messages" ? messages : (JSON.stringify(value) as string | undefined);
    if (text !== undefined) requestText += `${requestText === "" ? "{" : ","}${JSON.stringify(name)}:${text}`;
  }
  return `${requestText}}`;
}

/** Serializes prompts to JSON. Reuses the texts of messages that an earlier prompt contained too. */
export class PromptSerializer {
  readonly #cachedTexts = new WeakMap<Message, { readonly text: string; readonly echo: ReasoningEcho }>();

  serialize(prompt: ModelPrompt, echo: ReasoningEcho): string {
    return `[${prompt.map((message) => this.#serializeMessage(message, echo)).join(",")}]`;
  }

  #serializeMessage(message: Message, echo: ReasoningEcho): string {
    const cachedText = this.#cachedTexts.get(message);
    if (cachedText?.echo === echo) return cachedText.text;
    const text = toWireMessages(message, echo)
      .map((wireMessage) => JSON.stringify(wireMessage))
      .join(",");
    // The prompt holds the files already; a text would hold a second copy.
    const hasFile = message.role === "user" && message.content.some(({ type }) => type === "file");
    if (!hasFile) this.#cachedTexts.set(message, { text, echo });
    return text;
  }
}

export function toChatMessages(prompt: ModelPrompt, echo: ReasoningEcho): JsonFields[] {
  return prompt.flatMap((message) => toWireMessages(message, echo));
}

function toWireMessages(message: Message, echo: ReasoningEcho): JsonFields[] {
  const wireFields = wireFieldsOf(message);
  switch (message.role) {
    case "system":
      return [{ role: "system", content: message.content, ...wireFields }];
    case "user": {
      const [firstPart, ...otherParts] = message.content;
      if (firstPart?.type === "text" && otherParts.length === 0)
        return [{ role: "user", content: firstPart.text, ...wireFieldsOf(firstPart) }];
      return [{ role: "user", content: message.content.map(toUserPart), ...wireFields }];
    }
    case "assistant":
      return [{ ...toAssistantMessage(message.content, echo, wireFields), ...wireFields }];
    case "tool":
      return message.content.flatMap((part) => (part.type === "tool-result" ? [toToolMessage(part)] : []));
  }
}

/** Fields of a message or part that only this wire uses. */
function wireFieldsOf({ providerOptions }: { providerOptions?: Message["providerOptions"] }): JsonFields {
  return providerOptions?.openaiCompatible ?? {};
}

function toUserPart(part: Content<"user">): JsonFields {
  if (part.type === "text") return { type: "text", text: part.text, ...wireFieldsOf(part) };
  const { mediaType, filename, data } = part;
  // All data is base64, see `files.ts`.
  const toDataUrl = (type: string): string => `data:${type};base64,${data as string}`;
  if (mediaType === "application/pdf")
    return {
      type: "file",
      file: { filename: filename ?? "document.pdf", file_data: toDataUrl(mediaType) },
      ...wireFieldsOf(part),
    };
  return {
    type: "image_url",
    image_url: { url: toDataUrl(mediaType === "image/*" ? "image/jpeg" : mediaType) },
    ...wireFieldsOf(part),
  };
}

function toAssistantMessage(
  content: readonly Content<"assistant">[],
  echo: ReasoningEcho,
  wireFields: JsonFields,
): JsonFields {
  let text = "";
  let reasoning = "";
  const calls: JsonFields[] = [];
  for (const part of content) {
    if (part.type === "text") text += part.text;
    else if (part.type === "reasoning") reasoning += part.text;
    else if (part.type === "tool-call") {
      const signature = part.providerOptions?.google?.thoughtSignature as string | undefined;
      calls.push({
        id: part.toolCallId,
        type: "function",
        function: { name: part.toolName, arguments: JSON.stringify(part.input) },
        ...wireFieldsOf(part),
        ...(signature ? { extra_content: { google: { thought_signature: signature } } } : {}),
      });
    }
  }
  // `reasoning_details` contain the same reasoning.
  if (echo === "tags" && reasoning !== "" && !("reasoning_details" in wireFields))
    text = `<think>${reasoning}</think>\n\n${text}`;
  return {
    role: "assistant",
    content: calls.length > 0 ? text || null : text,
    // Copilot takes its encrypted reasoning together with the text.
    ...("reasoning_opaque" in wireFields && reasoning !== "" ? { reasoning_text: reasoning } : {}),
    ...(echo === "field" ? { reasoning_content: reasoning || REASONING_PLACEHOLDER } : {}),
    tool_calls: calls.length > 0 ? calls : undefined,
  };
}

function toToolMessage(part: Extract<Content<"tool">, { type: "tool-result" }>): JsonFields {
  const { output } = part;
  const resultText =
    output.type === "text" || output.type === "error-text"
      ? output.value
      : "value" in output
        ? JSON.stringify(output.value)
        : "";
  return { role: "tool", tool_call_id: part.toolCallId, content: resultText, ...wireFieldsOf(part) };
}
