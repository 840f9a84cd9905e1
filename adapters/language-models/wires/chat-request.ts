import type { ModelCallOptions, ModelPrompt } from "../language-model.js";

type Json = Record<string, unknown>;
type Message = ModelPrompt[number];
type Content<Role extends Message["role"]> = Extract<Message, { role: Role }>["content"][number];

/**
 * Position of earlier reasoning in a request. `field`: `reasoning_content` of every assistant message; `tags`:
 * `<think>` tags before its text.
 */
export type Echo = "field" | "tags" | "none";

/**
 * Sent for messages without reasoning of this model. Kimi K2.5 and later reject an empty text as missing
 * (https://github.com/theopenco/llmgateway/pull/2093), and DeepSeek V4 sometimes does.
 */
const NO_REASONING = " ";

/** Provider options that the AI SDK package consumes; others are copied into the body. */
const PACKAGE_OPTIONS = new Set(["user", "reasoningEffort", "textVerbosity", "strictJsonSchema"]);

/**
 * Builds a chat-completions request with a placeholder for the messages. With messages it equals the output of
 * `@ai-sdk/openai-compatible` byte for byte. That package is not used because loading it takes longer than the rest of
 * a process's first turn. `extra`: the provider options of the package.
 */
export function chatRequest(model: string, options: ModelCallOptions, extra: Json, usage: boolean): Json {
  const { tools, maxOutputTokens, temperature, responseFormat } = options;
  return {
    model,
    user: extra.user,
    max_tokens: maxOutputTokens,
    temperature,
    response_format: responseFormat?.type === "json" ? jsonOf(responseFormat) : undefined,
    ...Object.fromEntries(Object.entries(extra).filter(([name]) => !PACKAGE_OPTIONS.has(name))),
    reasoning_effort: extra.reasoningEffort,
    verbosity: extra.textVerbosity,
    messages: null,
    tools: tools?.flatMap((tool) => (tool.type === "function" ? [functionOf(tool)] : [])),
    stream: true,
    stream_options: usage ? { include_usage: true } : undefined,
  };
}

/** Not strict: strict mode rejects schemas with optional properties. */
function jsonOf({ name, schema }: Extract<ModelCallOptions["responseFormat"], { type: "json" }>): Json {
  return { type: "json_schema", json_schema: { schema, strict: false, name } };
}

function functionOf({
  name,
  description,
  inputSchema,
}: Extract<NonNullable<ModelCallOptions["tools"]>[number], { type: "function" }>): Json {
  return { type: "function", function: { name, description, parameters: inputSchema } };
}

/** Inserts the messages, which are JSON text already. */
export function withMessages(request: Json, messages: string): string {
  // Concatenation with `+` does not copy the text yet.
  let requestText = "";
  for (const [name, value] of Object.entries(request)) {
    const text = name === "messages" ? messages : (JSON.stringify(value) as string | undefined);
    if (text !== undefined) requestText += `${requestText === "" ? "{" : ","}${JSON.stringify(name)}:${text}`;
  }
  return `${requestText}}`;
}

/** Serializes prompts to JSON; reuses the text of messages that the previous prompt contains too. */
export class ChatTexts {
  /** The last prompt by its first message. */
  readonly #kept = new WeakMap<
    Message,
    { readonly prompt: ModelPrompt; readonly echo: Echo; readonly texts: (string | undefined)[] }
  >();

  of(prompt: ModelPrompt, echo: Echo): string {
    const [first] = prompt;
    if (first === undefined) return "[]";
    let cachedPrompt = this.#kept.get(first);
    if (cachedPrompt?.echo !== echo) cachedPrompt = undefined;
    let same = 0;
    while (same < prompt.length && cachedPrompt?.prompt[same] === prompt[same]) same++;
    const texts = cachedPrompt?.texts.slice(0, same) ?? [];
    for (let i = same; i < prompt.length; i++) {
      const message = prompt[i]!;
      // Files are not cached a second time.
      const hasFile = message.role === "user" && message.content.some(({ type }) => type === "file");
      texts.push(hasFile ? undefined : textOf(message, echo));
    }
    this.#kept.set(first, { prompt, echo, texts });
    return `[${texts.map((text, i) => text ?? textOf(prompt[i]!, echo)).join(",")}]`;
  }
}

function textOf(message: Message, echo: Echo): string {
  return chatMessages([message], echo)
    .map((each) => JSON.stringify(each))
    .join(",");
}

export function chatMessages(prompt: ModelPrompt, echo: Echo): Json[] {
  return prompt.flatMap((message) => messagesOf(message, echo));
}

function messagesOf(message: Message, echo: Echo): Json[] {
  const wireFields = wireFieldsOf(message);
  switch (message.role) {
    case "system":
      return [{ role: "system", content: message.content, ...wireFields }];
    case "user": {
      const [first, ...otherParts] = message.content;
      if (first?.type === "text" && otherParts.length === 0)
        return [{ role: "user", content: first.text, ...wireFieldsOf(first) }];
      return [{ role: "user", content: message.content.map(userPart), ...wireFields }];
    }
    case "assistant":
      // `reasoning_details` contain the same reasoning.
      return [
        {
          ...assistant(message.content, echo === "tags" && "reasoning_details" in wireFields ? "none" : echo),
          ...wireFields,
        },
      ];
    case "tool":
      return message.content.flatMap((part) => (part.type === "tool-result" ? [toolResult(part)] : []));
  }
}

/** Fields of a message or part that only this wire uses. */
function wireFieldsOf({ providerOptions }: { providerOptions?: Message["providerOptions"] }): Json {
  return providerOptions?.openaiCompatible ?? {};
}

function userPart(part: Content<"user">): Json {
  if (part.type === "text") return { type: "text", text: part.text, ...wireFieldsOf(part) };
  const { mediaType, filename, data } = part;
  // All data is base64, see `files.ts`.
  const url = (type: string): string => `data:${type};base64,${data as string}`;
  if (mediaType === "application/pdf")
    return {
      type: "file",
      file: { filename: filename ?? "document.pdf", file_data: url(mediaType) },
      ...wireFieldsOf(part),
    };
  return {
    type: "image_url",
    image_url: { url: url(mediaType === "image/*" ? "image/jpeg" : mediaType) },
    ...wireFieldsOf(part),
  };
}

function assistant(content: readonly Content<"assistant">[], echo: Echo): Json {
  let text = "";
  let reasoning = "";
  const calls: Json[] = [];
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
  if (echo === "tags" && reasoning !== "") text = `<think>${reasoning}</think>\n\n${text}`;
  return {
    role: "assistant",
    content: calls.length > 0 ? text || null : text,
    ...(echo === "field" ? { reasoning_content: reasoning || NO_REASONING } : {}),
    tool_calls: calls.length > 0 ? calls : undefined,
  };
}

function toolResult(part: Extract<Content<"tool">, { type: "tool-result" }>): Json {
  const { output } = part;
  const resultText =
    output.type === "text" || output.type === "error-text"
      ? output.value
      : "value" in output
        ? JSON.stringify(output.value)
        : "";
  return { role: "tool", tool_call_id: part.toolCallId, content: resultText, ...wireFieldsOf(part) };
}
