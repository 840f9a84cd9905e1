import type { FilePart, ModelMessage, OpaqueData, Part, TextPart, ToolCallPart } from "../ports/message.js";

/** Result that a model reads for a call whose outcome was not recorded. */
export const INTERRUPTED = "[interrupted: outcome unknown]";

/** Follows an interrupted answer, so that the model continues it and roles alternate. */
export const CUT_OFF =
  "[Your answer was interrupted here. Continue exactly where it stopped, without repeating anything. Make a tool call that is still missing.]";

/** A call without a result, and the message that contains it. */
export interface DanglingCall {
  call: ToolCallPart;
  after: ModelMessage;
}

const NO_CALLS: readonly ToolCallPart[] = [];

export function toolCalls(message: ModelMessage): readonly ToolCallPart[] {
  // Most messages have no calls, and long conversations are read message by message.
  if (!message.parts.some(isCall)) return NO_CALLS;
  return message.parts.filter(isCall);
}

function isCall(part: Part): part is ToolCallPart {
  return part.type === "tool_call";
}

export function textOf(message: ModelMessage): string {
  return message.parts.map((part) => (part.type === "text" ? part.text : "")).join("");
}

/** Text of a message as users see it. For a slash command this is the typed text. */
export function typedText(message: ModelMessage): string {
  return message.parts.map((part) => (part.type === "text" ? (part.originalText ?? part.text) : "")).join("");
}

/** A tool message that answers `call`. */
export function toolMessage(call: Pick<ToolCallPart, "id" | "name">, text: string, failed: boolean): ModelMessage {
  return { role: "tool", parts: [{ type: "text", text }], toolCallId: call.id, name: call.name, failed };
}

/** Calls that no message answers. */
export function danglingCalls(messages: readonly ModelMessage[]): DanglingCall[] {
  const answeredIds = new Set<string>();
  for (const message of messages) if (message.role === "tool") answeredIds.add(message.toolCallId);
  const result: DanglingCall[] = [];
  for (const after of messages) {
    if (after.role !== "assistant") continue;
    for (const call of toolCalls(after)) if (!answeredIds.has(call.id)) result.push({ call, after });
  }
  return result;
}

/**
 * The same conversation in an order that every provider accepts:
 * - Each answer follows its call, in stored order.
 * - A call without an answer gets an answer that states the interruption.
 * - An answer without a call is omitted.
 * - An empty message is omitted.
 *
 * The function is idempotent.
 */
export function repairMessages(messages: readonly ModelMessage[]): ModelMessage[] {
  const answers = new Map<string, ModelMessage>();
  const positions = new Map<ModelMessage, number>();
  messages.forEach((message, position) => {
    if (message.role !== "tool" || answers.has(message.toolCallId)) return;
    answers.set(message.toolCallId, message);
    positions.set(message, position);
  });
  const result: ModelMessage[] = [];
  const seenCallIds = new Set<string>();
  for (const message of messages) {
    if (message.role === "tool" || message.parts.length === 0) continue;
    if (message.role !== "assistant" || !message.parts.some(isCall)) {
      result.push(message);
      continue;
    }
    // A repeated call id is a provider's error. The second call could never be paired with its answer.
    const parts = message.parts.filter((part) => {
      if (part.type !== "tool_call") return true;
      const isNew = !seenCallIds.has(part.id);
      seenCallIds.add(part.id);
      return isNew;
    });
    if (parts.length === 0) continue;
    result.push(parts.length === message.parts.length ? message : { ...message, parts });
    const calls = toolCalls({ ...message, parts });
    const callAnswers = calls.map((call) => answers.get(call.id));
    result.push(
      ...callAnswers.filter((m) => m !== undefined).sort((a, b) => (positions.get(a) ?? 0) - (positions.get(b) ?? 0)),
    );
    for (const [i, call] of calls.entries()) {
      if (callAnswers[i] === undefined) result.push(toolMessage(call, INTERRUPTED, true));
    }
  }
  return result;
}

/** Provider and model that receive the messages. Opaque fields are sent only to the pair that created them. */
type Pair = Readonly<{ provider: string; model: string }>;

/** A stored message. `finished` is false for an interrupted answer. */
type ConversationMessage = ModelMessage & { readonly finished?: boolean };

/** A message as the model reads it. */
interface PreparedMessage {
  readonly source: ConversationMessage;
  readonly message: ModelMessage;
  /** Whether the answer was interrupted. */
  readonly isInterrupted: boolean;
  /** Whether the message has content for a model. */
  readonly hasContent: boolean;
}

/** Model messages of a growing conversation. Each is created once, as long as the pair stays the same. */
export class ModelMessageCache {
  #pair: Pair = { provider: "", model: "" };
  #preparedMessages: PreparedMessage[] = [];

  /** Returns one entry for each message. The array is valid until the next call. */
  prepare(messages: readonly ConversationMessage[], pair: Pair): readonly PreparedMessage[] {
    if (pair.provider !== this.#pair.provider || pair.model !== this.#pair.model) this.#preparedMessages = [];
    this.#pair = pair;
    const preparedMessages = this.#preparedMessages;
    preparedMessages.length = Math.min(preparedMessages.length, messages.length);
    messages.forEach((source, index) => {
      if (preparedMessages[index]?.source !== source) preparedMessages[index] = prepareMessage(source, pair);
    });
    return preparedMessages;
  }
}

function prepareMessage(source: ConversationMessage, pair: Pair): PreparedMessage {
  const message = toModelMessage(source, pair);
  const isInterrupted = message.role === "assistant" && source.finished === false;
  return { source, message, isInterrupted, hasContent: hasContent(message, isInterrupted) };
}

/**
 * A conversation as a model reads it: repaired, with attached text as text. Reasoning and opaque fields of other pairs
 * are omitted, and so is the reasoning of interrupted answers.
 */
export function modelView(
  messages: readonly ConversationMessage[],
  pair: Pair,
  cache: ModelMessageCache = new ModelMessageCache(),
): ModelMessage[] {
  const preparedMessages = cache.prepare(messages, pair);
  const visibleMessages: ModelMessage[] = [];
  let isAfterInterruption = false;
  for (const { message, isInterrupted, hasContent } of preparedMessages) {
    if (!hasContent) continue;
    // A user message that follows is a better instruction than the standard text.
    if (isAfterInterruption && message.role !== "user") visibleMessages.push(cutOffMessage());
    visibleMessages.push(message);
    isAfterInterruption = isInterrupted;
  }
  if (isAfterInterruption) visibleMessages.push(cutOffMessage());
  return repairMessages(visibleMessages);
}

function toModelMessage(message: ConversationMessage, pair: Pair): ModelMessage {
  const { role, toolCallId, name, failed } = message;
  const isFinished = message.finished !== false;
  const isUnchanged = message.parts.every(
    (part) => part.type === "image" || (part.type !== "file" && part.type !== "reasoning" && !part.opaque),
  );
  const parts = isUnchanged ? message.parts : message.parts.flatMap((part) => toModelParts(part, pair, isFinished));
  return { role, parts, toolCallId, name, failed };
}

function toModelParts(part: Part, pair: Pair, isFinished: boolean): Part[] {
  const isOfPair = (opaque: OpaqueData | undefined) =>
    opaque !== undefined && opaque.provider === pair.provider && opaque.model === pair.model;
  // Providers reject incomplete reasoning, and reasoning without the answer that it led to.
  if (part.type === "reasoning") return isFinished && isOfPair(part.opaque) ? [part] : [];
  if (part.type === "file") return [attachedText(part) ?? part];
  if ((part.type === "text" || part.type === "tool_call") && part.opaque && !isOfPair(part.opaque)) {
    const { opaque: _, ...partWithoutOpaque } = part;
    return [partWithoutOpaque];
  }
  return [part];
}

/** Providers reject an assistant message that contains only reasoning. */
function hasContent(message: ModelMessage, isInterrupted: boolean): boolean {
  if (message.role === "tool") return true;
  if (isInterrupted) return textOf(message).trim() !== "";
  return message.parts.some((part) => part.type !== "reasoning" && !isBlank(part));
}

function cutOffMessage(): ModelMessage {
  return { role: "user", parts: [{ type: "text", text: CUT_OFF }], toolCallId: "", name: "", failed: false };
}

function isBlank(part: Part): boolean {
  return part.type === "text" && part.text === "";
}

const textPartsByFile = new WeakMap<FilePart, TextPart | null>();

/** Returns a text part with the file's name if the file is valid UTF-8 without NUL, otherwise undefined. */
export function attachedText(file: FilePart): TextPart | undefined {
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

/** Bytes of a message as a model reads it, for estimates. An image counts as about 1,500 tokens whatever its size. */
export function bytesOf(message: ModelMessage): number {
  let bytes = 16;
  for (const part of message.parts) {
    if (part.type === "text" || part.type === "reasoning") bytes += Buffer.byteLength(part.text);
    else if (part.type === "tool_call") bytes += part.name.length + Buffer.byteLength(part.arguments) + 16;
    else if (part.type === "image") bytes += 4500;
    else bytes += attachedText(part) === undefined ? 4500 : (part.data.length * 3) / 4;
  }
  return bytes;
}
