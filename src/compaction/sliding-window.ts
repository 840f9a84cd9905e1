import { textOf } from "../conversation/messages.js";
import type { CompactionInput, CompactionStrategy } from "../ports/compaction-strategy.js";
import type { Message, ModelMessage } from "../ports/message.js";
import { fitMessages } from "./fit.js";
import { findCurrentPrompt, groupUnits, isSummary } from "./units.js";

/** Maximum characters of the first user message when it is older than the newest messages. */
const MAX_FIRST_MESSAGE_CHARACTERS = 2_000;
/** Limits of the note that replaces attachments. */
const MAX_FILENAME_CHARACTERS = 80;
const MAX_ATTACHMENT_NAMES = 10;
/** Marks a cut text. */
const CUT_MARK = " […]";
/** Informs the model that the conversation is incomplete. Added to the first user message. */
export const OMITTED_NOTE = "[Earlier messages of this conversation were left out to save room in the context window.]";

/** A conversation split into kept and dropped messages. */
export interface SlideResult {
  /** The first user message, and the current prompt if it is older than the newest messages. */
  prompts: Message[];
  /** Dropped messages, oldest first. */
  droppedMessages: Message[];
  /** Messages that stay unchanged, oldest first. */
  newestMessages: Message[];
}

/**
 * Keeps the first user message, a summary of an earlier compaction and the newest messages, then clears old tool
 * outputs. Calls no model.
 */
export class SlidingWindow implements CompactionStrategy {
  readonly name = "sliding-window";

  compact(input: CompactionInput, _signal: AbortSignal): Promise<ModelMessage[]> {
    const { prompts, newestMessages, droppedMessages } = slideWindow(input.messages, input.keepMessages);
    // A summary that an earlier compaction wrote is all that is left of its messages.
    const summaries = droppedMessages.filter(isSummary);
    const [firstPrompt = [], ...laterPrompts] = prompts;
    const keptMessages = [firstPrompt, summaries, laterPrompts, newestMessages].flat();
    const fittedMessages = fitMessages(keptMessages, input.budget);
    const firstUserMessage = fittedMessages.find((message) => message.role === "user");
    if (fittedMessages.length === input.messages.length) return Promise.resolve(fittedMessages);
    return Promise.resolve(
      fittedMessages.map((message) => (message === firstUserMessage ? addOmittedNote(message) : message)),
    );
  }
}

/** Splits a conversation at its newest `keepCount` messages, never between a tool call and its result. */
export function slideWindow(messages: readonly Message[], keepCount: number): SlideResult {
  const units = groupUnits(messages);
  let firstKeptIndex = units.length - 1;
  let messageCount = units[firstKeptIndex]?.length ?? 0;
  for (; firstKeptIndex > 0; firstKeptIndex -= 1) {
    messageCount += units[firstKeptIndex - 1]?.length ?? 0;
    if (messageCount > keepCount) break;
  }
  const newestMessages = units.slice(firstKeptIndex).flat();
  const olderMessages = units.slice(0, firstKeptIndex).flat();
  const firstPrompt = olderMessages.find((message) => message.role === "user");
  const latestPrompt = findCurrentPrompt(messages);
  const prompts: Message[] = [];
  // The current prompt is never shortened, not even if it is the first: it states the task of the model.
  if (firstPrompt) prompts.push(firstPrompt === latestPrompt ? firstPrompt : shortenFirstMessage(firstPrompt));
  if (latestPrompt && latestPrompt !== firstPrompt && olderMessages.includes(latestPrompt)) prompts.push(latestPrompt);
  return {
    prompts,
    newestMessages,
    droppedMessages: olderMessages.filter((message) => message !== firstPrompt && message !== latestPrompt),
  };
}

/**
 * Returns the first message without `OMITTED_NOTE`, in at most 2,000 characters, with the names of attachments instead
 * of their content.
 */
function shortenFirstMessage(message: Message): Message {
  const originalMessage = {
    ...message,
    parts: message.parts.filter((part) => part.type !== "text" || part.text !== OMITTED_NOTE),
  };
  const attachmentNames = originalMessage.parts.flatMap((part) =>
    part.type === "file"
      ? [part.filename.slice(0, MAX_FILENAME_CHARACTERS)]
      : part.type === "image"
        ? ["an image"]
        : [],
  );
  const text = textOf(originalMessage);
  if (
    text.length <= MAX_FIRST_MESSAGE_CHARACTERS &&
    attachmentNames.length === 0 &&
    originalMessage.parts.length === message.parts.length
  ) {
    return message;
  }
  const note =
    attachmentNames.length === 0
      ? ""
      : `\n[attached, now left out: ${attachmentNames.slice(0, MAX_ATTACHMENT_NAMES).join(", ")}]`;
  return {
    ...message,
    parts: [{ type: "text", text: shortenText(text, MAX_FIRST_MESSAGE_CHARACTERS - note.length) + note }],
  };
}

function shortenText(text: string, maxCharacters: number): string {
  if (text.length <= maxCharacters) return text;
  const shortText = text.slice(0, maxCharacters - CUT_MARK.length);
  // Do not split a surrogate pair.
  return `${/[\uD800-\uDBFF]$/.test(shortText) ? shortText.slice(0, -1) : shortText}${CUT_MARK}`;
}

function addOmittedNote(message: Message): Message {
  if (message.parts.some((part) => part.type === "text" && part.text === OMITTED_NOTE)) return message;
  return { ...message, parts: [...message.parts, { type: "text", text: OMITTED_NOTE }] };
}
