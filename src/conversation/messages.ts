import type { FilePart, ModelMessage, Opaque, Part, TextPart, ToolCallPart } from "../ports/message.js";

/** Given to a model for a call whose end nobody saw. */
export const INTERRUPTED = "[interrupted: outcome unknown]";

/** Stands behind an answer that broke off, so that a model goes on with it and roles alternate. */
export const CUT_OFF =
  "[Your answer was cut off here. Go on exactly where it stopped, without repeating anything; a tool call that was not made yet is to be made.]";

/** A call without a result, and the message that made it. */
export interface DanglingCall {
  call: ToolCallPart;
  after: ModelMessage;
}

const NO_CALLS: readonly ToolCallPart[] = [];

export function callsOf(message: ModelMessage): readonly ToolCallPart[] {
  // Most messages have none, and long conversations are asked message by message.
  if (!message.parts.some(isCall)) return NO_CALLS;
  return message.parts.filter(isCall);
}

function isCall(part: Part): part is ToolCallPart {
  return part.type === "tool_call";
}

export function textOf(message: ModelMessage): string {
  return message.parts.map((part) => (part.type === "text" ? part.text : "")).join("");
}

/** What people are shown that a message says: of a command what was typed. */
export function typedText(message: ModelMessage): string {
  return message.parts.map((part) => (part.type === "text" ? (part.typed ?? part.text) : "")).join("");
}

/** A tool message that answers `call`. */
export function toolMessage(call: Pick<ToolCallPart, "id" | "name">, text: string, failed: boolean): ModelMessage {
  return { role: "tool", parts: [{ type: "text", text }], toolCallId: call.id, name: call.name, failed };
}

/** Calls that no later message answers. */
export function danglingCalls(messages: readonly ModelMessage[]): DanglingCall[] {
  const answered = new Set<string>();
  for (const message of messages) if (message.role === "tool") answered.add(message.toolCallId);
  const dangling: DanglingCall[] = [];
  for (const after of messages) {
    if (after.role !== "assistant") continue;
    for (const call of callsOf(after)) if (!answered.has(call.id)) dangling.push({ call, after });
  }
  return dangling;
}

/**
 * The same conversation in an order that every provider takes: each answer right behind its call, in the order stored;
 * a call without an answer gets one that says so, an answer without a call is left out, an empty message too.
 * Doing it twice changes nothing.
 */
export function repaired(messages: readonly ModelMessage[]): ModelMessage[] {
  const answers = new Map<string, ModelMessage>();
  const places = new Map<ModelMessage, number>();
  messages.forEach((message, place) => {
    if (message.role !== "tool" || answers.has(message.toolCallId)) return;
    answers.set(message.toolCallId, message);
    places.set(message, place);
  });
  const result: ModelMessage[] = [];
  const seen = new Set<string>();
  for (const message of messages) {
    if (message.role === "tool" || message.parts.length === 0) continue;
    if (message.role !== "assistant" || !message.parts.some(isCall)) {
      result.push(message);
      continue;
    }
    // A call id that came before is another provider's mistake; its second use could never be paired.
    const parts = message.parts.filter((part) => {
      if (part.type !== "tool_call") return true;
      const fresh = !seen.has(part.id);
      seen.add(part.id);
      return fresh;
    });
    if (parts.length === 0) continue;
    result.push(parts.length === message.parts.length ? message : { ...message, parts });
    const calls = callsOf({ ...message, parts });
    const found = calls.map((call) => answers.get(call.id));
    result.push(...found.filter((m) => m !== undefined).sort((a, b) => (places.get(a) ?? 0) - (places.get(b) ?? 0)));
    for (const [i, call] of calls.entries()) {
      if (found[i] === undefined) result.push(toolMessage(call, INTERRUPTED, true));
    }
  }
  return result;
}

/** Whom a model is asked as: opaque fields are given to the pair that made them alone. */
type Pair = Readonly<{ provider: string; model: string }>;

/** A message of a conversation; one that broke off is not finished. */
type SaidMessage = ModelMessage & { readonly finished?: boolean };

/** What a model is told of one message. */
interface Told {
  readonly said: SaidMessage;
  readonly message: ModelMessage;
  /** It broke off. */
  readonly broken: boolean;
  /** There is something in it for a model. */
  readonly says: boolean;
}

/** What a model is told of each message of a conversation that grows: made once for each, as long as the pair is the same. */
export class ToldMessages {
  #pair: Pair = { provider: "", model: "" };
  #told: Told[] = [];

  /** One for each; good until it is asked again. */
  of(messages: readonly SaidMessage[], pair: Pair): readonly Told[] {
    if (pair.provider !== this.#pair.provider || pair.model !== this.#pair.model) this.#told = [];
    this.#pair = pair;
    const told = this.#told;
    told.length = Math.min(told.length, messages.length);
    messages.forEach((said, at) => {
      if (told[at]?.said !== said) told[at] = toldAs(said, pair);
    });
    return told;
  }
}

function toldAs(said: SaidMessage, pair: Pair): Told {
  const message = toldOf(said, pair);
  const broken = message.role === "assistant" && said.finished === false;
  return { said, message, broken, says: saysSomething(message, broken) };
}

/**
 * What a model sees of a conversation: repaired, reasoning and opaque fields of other pairs and of answers that broke
 * off left out, attached text shown as text.
 */
export function modelView(
  messages: readonly SaidMessage[],
  pair: Pair,
  memory: ToldMessages = new ToldMessages(),
): ModelMessage[] {
  const told = memory.of(messages, pair);
  const joined: ModelMessage[] = [];
  let cut = false;
  for (const { message, broken, says } of told) {
    if (!says) continue;
    // What a person said next says more than we could.
    if (cut && message.role !== "user") joined.push(cutOff());
    joined.push(message);
    cut = broken;
  }
  if (cut) joined.push(cutOff());
  return repaired(joined);
}

function toldOf(message: SaidMessage, pair: Pair): ModelMessage {
  const { role, toolCallId, name, failed } = message;
  const whole = message.finished !== false;
  const asItIs = message.parts.every(
    (part) => part.type === "image" || (part.type !== "file" && part.type !== "reasoning" && !part.opaque),
  );
  const parts = asItIs ? message.parts : message.parts.flatMap((part) => toldPart(part, pair, whole));
  return { role, parts, toolCallId, name, failed };
}

function toldPart(part: Part, pair: Pair, whole: boolean): Part[] {
  const mine = (opaque: Opaque | undefined) =>
    opaque !== undefined && opaque.provider === pair.provider && opaque.model === pair.model;
  // Providers refuse half a thought, and one that is not followed by what it led to.
  if (part.type === "reasoning") return whole && mine(part.opaque) ? [part] : [];
  if (part.type === "file") return [attachedText(part) ?? part];
  if ((part.type === "text" || part.type === "tool_call") && part.opaque && !mine(part.opaque)) {
    const { opaque: _, ...rest } = part;
    return [rest];
  }
  return [part];
}

/** Reasoning alone is no answer: providers refuse an assistant message with nothing else in it. */
function saysSomething(message: ModelMessage, broken: boolean): boolean {
  if (message.role === "tool") return true;
  if (broken) return textOf(message).trim() !== "";
  return message.parts.some((part) => part.type !== "reasoning" && !isBlank(part));
}

function cutOff(): ModelMessage {
  return { role: "user", parts: [{ type: "text", text: CUT_OFF }], toolCallId: "", name: "", failed: false };
}

function isBlank(part: Part): boolean {
  return part.type === "text" && part.text === "";
}

const shownText = new WeakMap<FilePart, TextPart | null>();

/** A file that is valid UTF-8 without NUL as text that names it; anything else undefined. */
export function attachedText(file: FilePart): TextPart | undefined {
  const known = shownText.get(file);
  if (known !== undefined) return known ?? undefined;
  let part: TextPart | null = null;
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Buffer.from(file.data, "base64"));
    if (!text.includes("\0")) {
      const name = file.filename.replace(/["<>\r\n]/g, "_");
      part = { type: "text", text: `<file name="${name}">\n${text}${text.endsWith("\n") ? "" : "\n"}</file>` };
    }
  } catch {
    // Not UTF-8: stays a file.
  }
  shownText.set(file, part);
  return part ?? undefined;
}

/** Bytes of a message as a model reads it, for estimates; an image counts as about 1,500 tokens whatever its size. */
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
