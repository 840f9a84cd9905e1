import { textOf } from "../conversation/messages.js";
import type { CompactionInput, CompactionStrategy } from "../ports/compaction-strategy.js";
import type { Message, ModelMessage } from "../ports/message.js";
import { fitMessages } from "./fit.js";
import { currentPrompt, unitsOf } from "./units.js";

/** Maximum characters of the first user message when it is older than the newest messages. */
const MAX_FIRST_MESSAGE_CHARACTERS = 2_000;
/** Informs the model that it does not see the whole conversation. */
export const OMITTED_NOTE = "[Earlier messages of this conversation were left out to save room in the context window.]";

/** A conversation split into kept and dropped messages. */
export interface SlideResult {
  /** The first user message, and the current prompt if it is older than the newest messages. */
  prompts: Message[];
  /** Dropped messages, oldest first. */
  dropped: Message[];
  newest: Message[];
}

/** Keeps the first user message and the newest messages, then clears old tool outputs. Calls no model. */
export class SlidingWindow implements CompactionStrategy {
  readonly name = "sliding-window";

  compact(input: CompactionInput, _signal: AbortSignal): Promise<ModelMessage[]> {
    const { prompts, newest } = slideWindow(input.messages, input.keepMessages);
    const fittedMessages = fitMessages([...prompts, ...newest], input.budget);
    const firstUserMessage = fittedMessages.find((message) => message.role === "user");
    if (fittedMessages.length === input.messages.length) return Promise.resolve(fittedMessages);
    return Promise.resolve(
      fittedMessages.map((message) => (message === firstUserMessage ? withOmittedNote(message) : message)),
    );
  }
}

/** Splits a conversation at its newest `keepCount` messages, never between a tool call and its result. */
export function slideWindow(messages: readonly Message[], keepCount: number): SlideResult {
  const units = unitsOf(messages);
  let firstKept = units.length - 1;
  let messageCount = units[firstKept]?.length ?? 0;
  for (; firstKept > 0; firstKept -= 1) {
    messageCount += units[firstKept - 1]?.length ?? 0;
    if (messageCount > keepCount) break;
  }
  const newest = units.slice(firstKept).flat();
  const olderMessages = units.slice(0, firstKept).flat();
  const firstPrompt = olderMessages.find((message) => message.role === "user");
  const latestPrompt = currentPrompt(messages);
  const prompts: Message[] = [];
  // The current prompt is never shortened, not even if it is the first: it states the task of the model.
  if (firstPrompt) prompts.push(firstPrompt === latestPrompt ? firstPrompt : shortenFirstMessage(firstPrompt));
  if (latestPrompt && latestPrompt !== firstPrompt && olderMessages.includes(latestPrompt)) prompts.push(latestPrompt);
  return {
    prompts,
    newest,
    dropped: olderMessages.filter((message) => message !== firstPrompt && message !== latestPrompt),
  };
}

/**
 * The first message without the omission note, in at most 2,000 characters, with attachments replaced by their names.
 */
function shortenFirstMessage(message: Message): Message {
  const original = {
    ...message,
    parts: message.parts.filter((part) => part.type !== "text" || part.text !== OMITTED_NOTE),
  };
  const names = original.parts.flatMap((part) =>
    part.type === "file" ? [part.filename.slice(0, 80)] : part.type === "image" ? ["an image"] : [],
  );
  const text = textOf(original);
  if (
    text.length <= MAX_FIRST_MESSAGE_CHARACTERS &&
    names.length === 0 &&
    original.parts.length === message.parts.length
  ) {
    return message;
  }
  const note = names.length === 0 ? "" : `\n[attached, now left out: ${names.slice(0, 10).join(", ")}]`;
  return {
    ...message,
    parts: [{ type: "text", text: shortenText(text, MAX_FIRST_MESSAGE_CHARACTERS - note.length) + note }],
  };
}

function shortenText(text: string, characters: number): string {
  if (text.length <= characters) return text;
  const head = text.slice(0, characters - 4);
  // Do not split a surrogate pair.
  return `${/[\uD800-\uDBFF]$/.test(head) ? head.slice(0, -1) : head} […]`;
}

function withOmittedNote(message: Message): Message {
  if (message.parts.some((part) => part.type === "text" && part.text === OMITTED_NOTE)) return message;
  return { ...message, parts: [...message.parts, { type: "text", text: OMITTED_NOTE }] };
}
