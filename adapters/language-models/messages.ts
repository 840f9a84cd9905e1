import { createHash } from "node:crypto";
import type { Part } from "gantry";
import {
  isRecord,
  parseJson,
  type ModelMessage,
  type ModelRequest,
  type OpaqueData,
  type ReasoningPart,
} from "gantry/plugin";
import { toMediaOrText, type InputKind, type Media } from "./files.js";
import type { Metadata, ModelPrompt } from "./language-model.js";

// Stored calls keep ids, names and arguments as the model wrote them. A provider rejects the whole history in every
// later request if one of them has an invalid form.

const MAX_NAME_CHARACTERS = 64;
/** Limits the work for a very long invalid name. */
const MAX_SCANNED_CHARACTERS = 1000;

/** Form of tool call ids. `plain`: 1 to 40 letters, digits, `_` and `-`; `short`: nine letters or digits. */
type IdForm = "any" | "plain" | "short";

/** Tool names have 1 to 64 letters, digits, `_` and `-`. `letter`: the first character is a letter or `_`. */
type NameForm = "plain" | "letter";

const ID_PATTERNS: Readonly<Record<IdForm, RegExp>> = {
  any: /^/,
  plain: /^[A-Za-z0-9_-]{1,40}$/,
  short: /^[A-Za-z0-9]{9}$/,
};
const NAME_PATTERNS: Readonly<Record<NameForm, RegExp>> = {
  plain: /^[A-Za-z0-9_-]{1,64}$/,
  letter: /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/,
};

/** Requirements of a wire on a conversation. */
export interface PromptRules {
  /** Name of the provider whose opaque fields may be sent. */
  readonly provider: string;
  /** Id of the model whose opaque fields may be sent. */
  readonly model: string;
  /** Input kinds that the model accepts. */
  readonly input: ReadonlySet<InputKind>;
  /** Position of images and PDFs of tool results: in the result, or in a user message after it. */
  readonly toolMedia: "inside" | "after";
  /** Required form of tool call ids. */
  readonly toolIds: IdForm;
  /** Required first character of tool names. */
  readonly toolNames: NameForm;
  /** Whether opaque fields of reasoning (`reasoning_details`) belong to the whole message instead of the part. */
  readonly reasoningOnMessage: boolean;
}

type PromptMessage = ModelPrompt[number];
type Content<Role extends PromptMessage["role"]> = Exclude<Extract<PromptMessage, { role: Role }>["content"], string>;
type UserContent = Content<"user">;
type AssistantContent = Content<"assistant">;
type ToolContent = Content<"tool">;
type ProviderOptions = NonNullable<PromptMessage["providerOptions"]>;

const NO_OUTPUT_TEXT = "(no output)";

/** A conversation up to an answer of the model, and its conversion. Later messages do not change the conversion. */
interface CachedPrefix {
  readonly system: string;
  readonly messages: readonly ModelMessage[];
  readonly prompt: ModelPrompt;
  /** Number of converted messages. */
  readonly messageCount: number;
  /** Number of prompt messages after the conversion. */
  readonly promptCount: number;
}

/**
 * Caches converted conversations, because each request repeats nearly all of the previous conversation.
 * Prompts share the cached messages, which must not be modified.
 */
export class PrefixCache {
  /** Prefixes by the rules of the conversion and by their first message. */
  readonly #prefixes = new Map<string, WeakMap<ModelMessage, CachedPrefix>>();

  /** The cached prefix of this conversation; undefined unless every message of the prefix is still the same object. */
  find({ system, messages }: Conversation, rules: PromptRules): CachedPrefix | undefined {
    const prefix = messages[0] && this.#getPrefixes(rules).get(messages[0]);
    if (prefix?.system !== system || prefix.messageCount > messages.length) return undefined;
    for (let i = 0; i < prefix.messageCount; i++) if (prefix.messages[i] !== messages[i]) return undefined;
    return prefix;
  }

  store(prefix: CachedPrefix, rules: PromptRules): void {
    const firstMessage = prefix.messages[0];
    if (firstMessage !== undefined && prefix.messageCount > 0) this.#getPrefixes(rules).set(firstMessage, prefix);
  }

  #getPrefixes({ provider, model, input, ...form }: PromptRules): WeakMap<ModelMessage, CachedPrefix> {
    const key = JSON.stringify([provider, model, ...input, form]);
    let prefixes = this.#prefixes.get(key);
    if (prefixes === undefined) this.#prefixes.set(key, (prefixes = new WeakMap()));
    return prefixes;
  }
}

type Conversation = Pick<ModelRequest, "system" | "messages">;

/** Converts a conversation for AI SDK packages. Equal messages always give equal bytes. */
export function toPrompt({ system, messages }: Conversation, rules: PromptRules, cache?: PrefixCache): ModelPrompt {
  const prefix = cache?.find({ system, messages }, rules);
  const prompt: ModelPrompt = prefix?.prompt.slice(0, prefix.promptCount) ?? [];
  let [messageCount, promptCount] = [prefix?.messageCount ?? 0, prompt.length];
  if (system !== "" && prefix === undefined) prompt.push({ role: "system", content: system });
  const addUser = (content: UserContent): void => {
    if (content.length === 0) return;
    const lastMessage = prompt.at(-1);
    // Templates of local models require alternating roles.
    if (lastMessage?.role === "user") lastMessage.content.push(...content);
    else prompt.push({ role: "user", content });
  };
  let toolMessages: ModelMessage[] = [];
  let callMessage = messages[messageCount - 1];
  const addResults = (): void => {
    if (toolMessages.length === 0) return;
    // Parallel tools end in any order, but Gemini matches results to calls by their order.
    if (toolMessages.length > 1) {
      const callIds = callIdsOf(callMessage);
      toolMessages.sort((a, b) => callIds.indexOf(a.toolCallId) - callIds.indexOf(b.toolCallId));
    }
    const convertedResults = toolMessages.map((message) => toToolContent(message, rules));
    prompt.push({ role: "tool", content: convertedResults.flatMap(({ result }) => result) });
    addUser(convertedResults.flatMap(({ mediaContent }) => mediaContent));
    toolMessages = [];
  };
  for (let i = messageCount; i < messages.length; i++) {
    const message = messages[i]!;
    if (message.role === "tool") {
      toolMessages.push(message);
      continue;
    }
    addResults();
    if (message.role === "assistant") {
      callMessage = message;
      const { content, providerOptions } = toAssistantContent(message, rules);
      if (content.length === 0) continue;
      prompt.push({ role: "assistant", content, providerOptions });
      [messageCount, promptCount] = [i + 1, prompt.length];
    } else {
      const content = toUserContent(message, rules);
      addUser(content.length > 0 ? content : [{ type: "text", text: "(empty message)" }]);
    }
  }
  addResults();
  cache?.store({ system, messages, prompt, messageCount, promptCount }, rules);
  return prompt;
}

function callIdsOf(message: ModelMessage | undefined): string[] {
  return message?.parts.flatMap((part) => (part.type === "tool_call" ? [part.id] : [])) ?? [];
}

function toUserContent(message: ModelMessage, rules: PromptRules): UserContent {
  const content: UserContent = [];
  for (const part of message.parts) {
    // Anthropic rejects texts that contain only white space.
    if (part.type === "text" && part.text.trim() !== "") content.push({ type: "text", text: part.text });
    else if (part.type === "image" || part.type === "file") content.push(toMediaPart(toMediaOrText(part, rules.input)));
  }
  return content;
}

function toMediaPart(mediaOrText: Media | string): UserContent[number] {
  if (typeof mediaOrText === "string") return { type: "text", text: mediaOrText };
  const { mediaType, filename, data } = mediaOrText;
  return { type: "file", mediaType, data, filename };
}

function toAssistantContent(
  message: ModelMessage,
  rules: PromptRules,
): { content: AssistantContent; providerOptions?: ProviderOptions } {
  const content: AssistantContent = [];
  let messageOptions: ProviderOptions | undefined;
  for (const part of message.parts) {
    const options = toOpaqueOptions(part, rules);
    if (part.type === "text") {
      if (part.text.trim() !== "") content.push({ type: "text", text: part.text, ...options });
    } else if (part.type === "tool_call") {
      const call = {
        toolCallId: toCallId(part.id, rules.toolIds),
        toolName: toToolName(part.name, rules.toolNames),
        input: parseArguments(part.arguments),
      };
      content.push({ type: "tool-call", ...call, ...options });
    } else if (part.type === "reasoning" && options !== undefined) {
      const belongsToMessage = rules.reasoningOnMessage && hasMessageFields(part);
      if (belongsToMessage) messageOptions = options.providerOptions;
      content.push({ type: "reasoning", text: part.text, ...(!belongsToMessage && options) });
    }
  }
  // Providers reject reasoning at the end of a message, which a cancel can leave.
  while (content.at(-1)?.type === "reasoning") content.pop();
  return content.length > 0 && messageOptions !== undefined
    ? { content, providerOptions: messageOptions }
    : { content };
}

/** Whether the opaque data of a part are fields of its message. */
function hasMessageFields(part: ReasoningPart): boolean {
  return (part.opaque?.data as Metadata | undefined)?.openaiCompatible !== undefined;
}

/**
 * Opaque data of a part as provider options. Undefined for data of another provider or model, which may be rejected.
 */
function toOpaqueOptions(
  part: Part & { opaque?: OpaqueData },
  rules: PromptRules,
): { providerOptions: ProviderOptions } | undefined {
  const { opaque } = part;
  if (opaque === undefined || opaque.provider !== rules.provider || opaque.model !== rules.model) return undefined;
  if (typeof opaque.data !== "object" || opaque.data === null) return undefined;
  const options = opaque.data as ProviderOptions;
  // Gemini over chat completions: the package reads a signature under another name than it reports.
  const signature = options.gantry?.thoughtSignature;
  return {
    providerOptions: signature === undefined ? options : { ...options, google: { thoughtSignature: signature } },
  };
}

function toToolContent(message: ModelMessage, rules: PromptRules): { result: ToolContent; mediaContent: UserContent } {
  const media: Media[] = [];
  const lines: string[] = [];
  for (const part of message.parts) {
    if (part.type === "text") {
      if (part.text !== "") lines.push(part.text);
    } else if (part.type === "image" || part.type === "file") {
      const mediaOrText = toMediaOrText(part, rules.input);
      if (typeof mediaOrText === "string") lines.push(mediaOrText);
      else media.push(mediaOrText);
    }
  }
  const text = lines.some((line) => line.trim() !== "") ? lines.join("\n") : "";
  const toolName = toToolName(message.name, rules.toolNames);
  const resultFields = {
    type: "tool-result" as const,
    toolCallId: toCallId(message.toolCallId, rules.toolIds),
    toolName,
  };
  if (media.length === 0 || rules.toolMedia === "after") {
    const mediaContent: UserContent = media.map(toMediaPart);
    // Names the tool, so that the model knows the origin of the file.
    const note = `${media.length === 1 ? "The file" : `The ${media.length} files`} that \`${toolName}\` returned:`;
    if (media.length > 0) mediaContent.unshift({ type: "text", text: note });
    const value = text !== "" ? text : media.length > 0 ? "(see the next user message)" : NO_OUTPUT_TEXT;
    return {
      result: [{ ...resultFields, output: { type: message.failed ? "error-text" : "text", value } }],
      mediaContent,
    };
  }
  const output: Extract<ToolContent[number], { type: "tool-result" }>["output"] & { type: "content" } = {
    type: "content",
    value: [],
  };
  if (text !== "") output.value.push({ type: "text", text });
  for (const { kind, mediaType, data, filename } of media) {
    if (kind === "image") output.value.push({ type: "image-data", mediaType, data });
    else output.value.push({ type: "file-data", mediaType, data, filename: filename ?? "document.pdf" });
  }
  return { result: [{ ...resultFields, output }], mediaContent: [] };
}

/** Converts an id without this form, such as an id of another provider. Equal ids give equal results. */
function toCallId(id: string, form: IdForm): string {
  if (ID_PATTERNS[form].test(id)) return id;
  const hash = createHash("sha256").update(id).digest("hex");
  // 24 digits, so that the id with its prefix fits the 40 characters of `plain`.
  return form === "short" ? hash.slice(0, 9) : `call_${hash.slice(0, 24)}`;
}

/** Converts an invalid tool name to this form. Equal names give equal results. */
function toToolName(name: string, form: NameForm): string {
  if (NAME_PATTERNS[form].test(name)) return name;
  // A call with an invalid name fails; its result quotes the name and lists the valid names.
  const sanitizedName = name.slice(0, MAX_SCANNED_CHARACTERS).replace(/[^A-Za-z0-9_-]+/g, "_");
  return (/^[A-Za-z_]/.test(sanitizedName) ? sanitizedName : `_${sanitizedName}`).slice(0, MAX_NAME_CHARACTERS);
}

/**
 * The arguments of a call as an object; `{ invalid_arguments: text }` for any other or deeply nested value, because
 * providers reject a history with such arguments.
 */
function parseArguments(text: string): Record<string, unknown> {
  if (text.trim() === "") return {};
  try {
    const value = parseJson(text);
    if (isRecord(value)) return value;
  } catch {
    // The result of this call already names the error for the model.
  }
  return { invalid_arguments: text };
}
