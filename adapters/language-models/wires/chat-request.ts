import type { CallOptions, Prompt } from "../language-model.js";

type Json = Record<string, unknown>;
type Message = Prompt[number];
type Content<Role extends Message["role"]> = Extract<Message, { role: Role }>["content"][number];

/**
 * Where the reasoning of earlier answers goes in a request. `field`: `reasoning_content` of every assistant message;
 * `tags`: `<think>` tags before its text.
 */
export type Echo = "field" | "tags" | "none";

/**
 * Sent as the reasoning of a message that has none which this model made: Kimi K2.5 and later refuse an empty text as missing
 * (https://github.com/theopenco/llmgateway/pull/2093), DeepSeek V4 some of the time.
 */
const NO_REASONING = " ";

/** What the package of the AI SDK keeps for itself of a provider's options; the rest goes into the body as it is. */
const NOT_SENT = new Set(["user", "reasoningEffort", "textVerbosity", "strictJsonSchema"]);

/**
 * A request for chat completions but for its messages, in whose place is nothing yet; with them, byte for byte as
 * `@ai-sdk/openai-compatible` writes it: loading that package takes longer than all else of a process's first turn.
 * `extra`: what it would take as the provider's options.
 */
export function chatRequest(model: string, options: CallOptions, extra: Json, usage: boolean): Json {
  const { tools, maxOutputTokens, temperature, responseFormat } = options;
  return {
    model,
    user: extra.user,
    max_tokens: maxOutputTokens,
    temperature,
    response_format: responseFormat?.type === "json" ? jsonOf(responseFormat) : undefined,
    ...Object.fromEntries(Object.entries(extra).filter(([name]) => !NOT_SENT.has(name))),
    reasoning_effort: extra.reasoningEffort,
    verbosity: extra.textVerbosity,
    messages: null,
    tools: tools?.flatMap((tool) => (tool.type === "function" ? [functionOf(tool)] : [])),
    stream: true,
    stream_options: usage ? { include_usage: true } : undefined,
  };
}

/** Not strictly, which would refuse schemas with optional properties. */
function jsonOf({ name, schema }: Extract<CallOptions["responseFormat"], { type: "json" }>): Json {
  return { type: "json_schema", json_schema: { schema, strict: false, name } };
}

function functionOf({
  name,
  description,
  inputSchema,
}: Extract<NonNullable<CallOptions["tools"]>[number], { type: "function" }>): Json {
  return { type: "function", function: { name, description, parameters: inputSchema } };
}

/** The request with its messages, which are JSON already. */
export function withMessages(request: Json, messages: string): string {
  // Put together by `+`, which copies nothing yet.
  let whole = "";
  for (const [name, value] of Object.entries(request)) {
    const text = name === "messages" ? messages : (JSON.stringify(value) as string | undefined);
    if (text !== undefined) whole += `${whole === "" ? "{" : ","}${JSON.stringify(name)}:${text}`;
  }
  return `${whole}}`;
}

/** Prompts as JSON, of which each shares with the one before it what was said earlier. */
export class ChatTexts {
  /** By their first message. */
  readonly #kept = new WeakMap<
    Message,
    { readonly prompt: Prompt; readonly echo: Echo; readonly texts: (string | undefined)[] }
  >();

  of(prompt: Prompt, echo: Echo): string {
    const [first] = prompt;
    if (first === undefined) return "[]";
    let kept = this.#kept.get(first);
    if (kept?.echo !== echo) kept = undefined;
    let same = 0;
    while (same < prompt.length && kept?.prompt[same] === prompt[same]) same++;
    const texts = kept?.texts.slice(0, same) ?? [];
    for (let i = same; i < prompt.length; i++) {
      const message = prompt[i]!;
      // A file is not kept a second time.
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

export function chatMessages(prompt: Prompt, echo: Echo): Json[] {
  return prompt.flatMap((message) => messagesOf(message, echo));
}

function messagesOf(message: Message, echo: Echo): Json[] {
  const own = ownOf(message);
  switch (message.role) {
    case "system":
      return [{ role: "system", content: message.content, ...own }];
    case "user": {
      const [first, ...more] = message.content;
      if (first?.type === "text" && more.length === 0) return [{ role: "user", content: first.text, ...ownOf(first) }];
      return [{ role: "user", content: message.content.map(userPart), ...own }];
    }
    case "assistant":
      // `reasoning_details` hold the same reasoning.
      return [{ ...assistant(message.content, echo === "tags" && "reasoning_details" in own ? "none" : echo), ...own }];
    case "tool":
      return message.content.flatMap((part) => (part.type === "tool-result" ? [toolResult(part)] : []));
  }
}

/** What a message or a part has to say to this wire alone. */
function ownOf({ providerOptions }: { providerOptions?: Message["providerOptions"] }): Json {
  return providerOptions?.openaiCompatible ?? {};
}

function userPart(part: Content<"user">): Json {
  if (part.type === "text") return { type: "text", text: part.text, ...ownOf(part) };
  const { mediaType, filename, data } = part;
  // Data are base64 all of them: `files.ts` knows nothing else.
  const url = (type: string): string => `data:${type};base64,${data as string}`;
  if (mediaType === "application/pdf")
    return { type: "file", file: { filename: filename ?? "document.pdf", file_data: url(mediaType) }, ...ownOf(part) };
  return {
    type: "image_url",
    image_url: { url: url(mediaType === "image/*" ? "image/jpeg" : mediaType) },
    ...ownOf(part),
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
        ...ownOf(part),
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
  const told =
    output.type === "text" || output.type === "error-text"
      ? output.value
      : "value" in output
        ? JSON.stringify(output.value)
        : "";
  return { role: "tool", tool_call_id: part.toolCallId, content: told, ...ownOf(part) };
}
