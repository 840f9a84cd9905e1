import type { FilePart, ModelMessage, OpaqueData, Part, TextPart, ToolCallPart } from "../ports/message.js";

/** Result that a model reads for a call whose outcome was not recorded. */
export const INTERRUPTED_CALL_RESULT = "[interrupted: outcome unknown]";

/** Follows an interrupted answer, so that the model continues it and roles alternate. */
export const CONTINUE_INSTRUCTION =
  "[Your answer was interrupted here. Continue exactly where it stopped, without repeating anything. Make a tool call that is still missing.]";

/** Estimated bytes of an image or a binary file: about 1,500 tokens, whatever the size. */
export const ATTACHMENT_BYTES = 4_500;
/** Estimated bytes of a message or a tool call, besides its text. */
const OVERHEAD_BYTES = 16;

const NO_CALLS: readonly ToolCallPart[] = [];

export function toolCalls(message: ModelMessage): readonly ToolCallPart[] {
  // Most messages have no calls. They need no new array, even in a long conversation.
  if (!message.parts.some(isCall)) return NO_CALLS;
  return message.parts.filter(isCall);
}

function isCall(part: Part): part is ToolCallPart {
  return part.type === "tool_call";
}

export function textOf(message: ModelMessage): string {
  return message.parts.map((part) => (part.type === "text" ? part.text : "")).join("");
}

/** Returns the text of a message as users see the message. For a slash command this is the typed text. */
export function getDisplayText(message: ModelMessage): string {
  return message.parts.map((part) => (part.type === "text" ? (part.originalText ?? part.text) : "")).join("");
}

/** Creates a message that is no tool result. Its text, or its parts. */
export function createMessage(role: "user" | "assistant", content: string | Part[]): ModelMessage {
  const parts: Part[] = typeof content === "string" ? [{ type: "text", text: content }] : content;
  return { role, parts, toolCallId: "", name: "", failed: false };
}

export function createToolMessage(
  call: Pick<ToolCallPart, "id" | "name">,
  text: string,
  failed: boolean,
): ModelMessage {
  return { role: "tool", parts: [{ type: "text", text }], toolCallId: call.id, name: call.name, failed };
}

/** Finds the calls without a result. */
export function findDanglingCalls(messages: readonly ModelMessage[]): ToolCallPart[] {
  const callIdsWithResult = new Set<string>();
  for (const message of messages) if (message.role === "tool") callIdsWithResult.add(message.toolCallId);
  return messages.flatMap(toolCalls).filter(({ id }) => !callIdsWithResult.has(id));
}

/**
 * Returns the conversation in an order that every provider accepts:
 *
 * - The results of calls follow the message with the calls, in stored order.
 * - A call without a result gets a result that states the interruption.
 * - A result without a call is omitted.
 * - An empty message is omitted.
 *
 * The function is idempotent.
 */
export function repairMessages(messages: readonly ModelMessage[]): ModelMessage[] {
  const resultsByCallId = new Map<string, ModelMessage>();
  const indexesByResult = new Map<ModelMessage, number>();
  messages.forEach((message, index) => {
    if (message.role !== "tool" || resultsByCallId.has(message.toolCallId)) return;
    resultsByCallId.set(message.toolCallId, message);
    indexesByResult.set(message, index);
  });
  const repairedMessages: ModelMessage[] = [];
  const seenCallIds = new Set<string>();
  for (const message of messages) {
    if (message.role === "tool" || message.parts.length === 0) continue;
    if (message.role !== "assistant" || !message.parts.some(isCall)) {
      repairedMessages.push(message);
      continue;
    }
    // A repeated call id is a provider's error. The second call could never be paired with its result.
    const parts = message.parts.filter((part) => {
      if (part.type !== "tool_call") return true;
      const isNew = !seenCallIds.has(part.id);
      seenCallIds.add(part.id);
      return isNew;
    });
    if (parts.length === 0) continue;
    repairedMessages.push(parts.length === message.parts.length ? message : { ...message, parts });
    const calls = toolCalls({ ...message, parts });
    const results = calls.map((call) => resultsByCallId.get(call.id));
    repairedMessages.push(
      ...results
        .filter((m) => m !== undefined)
        .sort((a, b) => (indexesByResult.get(a) ?? 0) - (indexesByResult.get(b) ?? 0)),
    );
    for (const [i, call] of calls.entries()) {
      if (results[i] === undefined) repairedMessages.push(createToolMessage(call, INTERRUPTED_CALL_RESULT, true));
    }
  }
  return repairedMessages;
}

/** Provider and model that receive the messages. Opaque fields are sent only to the target that created them. */
type ModelTarget = Readonly<{ provider: string; model: string }>;

/** A stored message. `finished` is false for an interrupted answer. */
type ConversationMessage = ModelMessage & { readonly finished?: boolean };

/** A message as the model reads it. */
interface PreparedMessage {
  readonly source: ConversationMessage;
  readonly message: ModelMessage;
  readonly isInterrupted: boolean;
  readonly hasContent: boolean;
}

/** Model messages of a growing conversation. Each message is created once, as long as the target stays the same. */
export class ModelMessageCache {
  #target: ModelTarget = { provider: "", model: "" };
  #preparedMessages: PreparedMessage[] = [];

  /** Returns one entry for each message. The array is valid until the next call. */
  prepare(messages: readonly ConversationMessage[], target: ModelTarget): readonly PreparedMessage[] {
    if (target.provider !== this.#target.provider || target.model !== this.#target.model) this.#preparedMessages = [];
    this.#target = target;
    const preparedMessages = this.#preparedMessages;
    preparedMessages.length = Math.min(preparedMessages.length, messages.length);
    messages.forEach((source, index) => {
      if (preparedMessages[index]?.source !== source) preparedMessages[index] = prepareMessage(source, target);
    });
    return preparedMessages;
  }
}

function prepareMessage(source: ConversationMessage, target: ModelTarget): PreparedMessage {
  const message = toModelMessage(source, target);
  const isInterrupted = message.role === "assistant" && source.finished === false;
  return { source, message, isInterrupted, hasContent: hasContent(message, isInterrupted) };
}

/**
 * Returns a conversation as a model reads it: repaired, with attached text files as text. Reasoning and opaque fields
 * of other targets are omitted. The reasoning of interrupted answers is also omitted.
 */
export function toModelView(
  messages: readonly ConversationMessage[],
  target: ModelTarget,
  cache: ModelMessageCache = new ModelMessageCache(),
): ModelMessage[] {
  const preparedMessages = cache.prepare(messages, target);
  const visibleMessages: ModelMessage[] = [];
  let isAfterInterruption = false;
  for (const { message, isInterrupted, hasContent } of preparedMessages) {
    if (!hasContent) continue;
    // A user message that follows is a better instruction than the standard text.
    if (isAfterInterruption && message.role !== "user")
      visibleMessages.push(createMessage("user", CONTINUE_INSTRUCTION));
    visibleMessages.push(message);
    isAfterInterruption = isInterrupted;
  }
  if (isAfterInterruption) visibleMessages.push(createMessage("user", CONTINUE_INSTRUCTION));
  return repairMessages(visibleMessages);
}

function toModelMessage(message: ConversationMessage, target: ModelTarget): ModelMessage {
  const { role, toolCallId, name, failed } = message;
  const isFinished = message.finished !== false;
  const isUnchanged = message.parts.every(
    (part) => part.type === "image" || (part.type !== "file" && part.type !== "reasoning" && !part.opaque),
  );
  const parts = isUnchanged ? message.parts : message.parts.flatMap((part) => toModelParts(part, target, isFinished));
  return { role, parts, toolCallId, name, failed };
}

function toModelParts(part: Part, target: ModelTarget, isFinished: boolean): Part[] {
  const isOfTarget = (opaque: OpaqueData | undefined) =>
    opaque !== undefined && opaque.provider === target.provider && opaque.model === target.model;
  // Providers reject incomplete reasoning, and reasoning without the answer that it led to.
  if (part.type === "reasoning") return isFinished && isOfTarget(part.opaque) ? [part] : [];
  if (part.type === "file") return [toTextPart(part) ?? part];
  if ((part.type === "text" || part.type === "tool_call") && part.opaque && !isOfTarget(part.opaque)) {
    const { opaque: _, ...partWithoutOpaque } = part;
    return [partWithoutOpaque];
  }
  return [part];
}

/** Whether a message has content that providers accept. They reject an answer that contains only reasoning. */
function hasContent(message: ModelMessage, isInterrupted: boolean): boolean {
  if (message.role === "tool") return true;
  if (isInterrupted) return textOf(message).trim() !== "";
  return message.parts.some((part) => part.type !== "reasoning" && !isBlank(part));
}

function isBlank(part: Part): boolean {
  return part.type === "text" && part.text === "";
}

/** Results of `toTextPart`; null for a file that is not text. */
const textPartsByFile = new WeakMap<FilePart, TextPart | null>();

/** Returns a text part with the file's name if the file is valid UTF-8 without NUL, otherwise undefined. */
export function toTextPart(file: FilePart): TextPart | undefined {
  const cachedPart = textPartsByFile.get(file);
  if (cachedPart !== undefined) return cachedPart ?? undefined;
  let part: TextPart | null = null;
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Buffer.from(file.data, "base64"));
    if (!text.includes("\0")) {
      const name = file.filename.replace(/["<>\r\n]/g, "_");
      part = { type: "text", text: `<file name="${name}">\n${text}${text.endsWith("\n") ? "" : "\n"}</file>` };
    }
  } catch {
    // Not UTF-8: the part stays a file.
  }
  textPartsByFile.set(file, part);
  return part ?? undefined;
}

/** Estimates the bytes of a message as a model reads it. */
export function bytesOf(message: ModelMessage): number {
  let bytes = OVERHEAD_BYTES;
  for (const part of message.parts) {
    if (part.type === "text" || part.type === "reasoning") bytes += Buffer.byteLength(part.text);
    else if (part.type === "tool_call") bytes += part.name.length + Buffer.byteLength(part.arguments) + OVERHEAD_BYTES;
    else if (part.type === "image") bytes += ATTACHMENT_BYTES;
    else bytes += toTextPart(part) === undefined ? ATTACHMENT_BYTES : (part.data.length * 3) / 4;
  }
  return bytes;
}
