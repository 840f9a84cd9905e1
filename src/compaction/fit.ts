import { ATTACHMENT_BYTES, toTextPart, toolCalls } from "../conversation/messages.js";
import type { ModelMessage, Part } from "../ports/message.js";
import { cutMiddle } from "../base/cut-text.js";
import { BYTES_PER_TOKEN, bytesOfAll, cachedBytesOf } from "../models/estimate.js";
import { findCurrentPrompt, isSummary, groupUnits } from "./units.js";

/** Replaces a tool output that was cleared. */
export const CLEARED_NOTE = "[old tool output cleared to save room in the context window]";
const CUT_ARGUMENTS = JSON.stringify({ note: "arguments left out to save room in the context window" });

/** Outputs of at most this many bytes are not cleared. */
const MAX_UNCLEARED_BYTES = 200;
/** Minimum bytes that a shortened text keeps. */
const MIN_TEXT_BYTES = 120;
/** Maximum characters of a file name in the note that replaces the file. */
const MAX_FILENAME_CHARACTERS = 60;

/**
 * Makes messages fit a budget in tokens. Steps, in order, until they fit:
 *
 * - Clear old tool outputs.
 * - Cut large texts in the middle.
 * - Drop the oldest answers with their tool results.
 * - Cut everything.
 * - Drop the newest answer.
 *
 * The first user message, the current prompt and summaries are never dropped. The result exceeds the budget only if it
 * cannot be reduced further.
 */
export function fitMessages<M extends ModelMessage>(messages: readonly M[], budget: number): M[] {
  const fitter = new MessageFitter(messages, Math.max(0, budget) * BYTES_PER_TOKEN);
  const steps = [
    () => fitter.clearOldOutputs(),
    () => fitter.cutLargeTexts(),
    () => fitter.dropOldUnits(),
    () => fitter.cutAllTexts(),
  ];
  // Losing the newest answer is better than a request that the provider rejects.
  steps.push(() => fitter.dropLastUnit());
  for (const step of steps) {
    if (fitter.fits) break;
    step();
  }
  return fitter.fittedMessages;
}

/** Messages and their total size. Each step stops as soon as the messages fit. */
class MessageFitter<M extends ModelMessage> {
  readonly #maxBytes: number;
  readonly #protectedMessages: Set<M>;
  #units: M[][];
  #totalBytes: number;

  constructor(messages: readonly M[], bytes: number) {
    this.#maxBytes = bytes;
    this.#units = groupUnits(messages);
    this.#totalBytes = bytesOfAll(messages);
    const firstUserMessage = messages.find((message) => message.role === "user");
    const protectedMessages = [firstUserMessage, findCurrentPrompt(messages), ...messages.filter(isSummary)];
    this.#protectedMessages = new Set(protectedMessages.filter((message) => message !== undefined));
  }

  get fittedMessages(): M[] {
    return this.#units.flat();
  }

  get fits(): boolean {
    return this.#totalBytes <= this.#maxBytes;
  }

  /** Clears tool outputs, oldest first, except those that the model has not seen yet. */
  clearOldOutputs(): void {
    for (const unit of this.#units.slice(0, -1)) {
      this.#replaceMessages(unit, (message) =>
        message.role === "tool" && cachedBytesOf(message) > MAX_UNCLEARED_BYTES
          ? { ...message, parts: [{ type: "text", text: CLEARED_NOTE }] }
          : message,
      );
    }
  }

  /** Cuts large texts: the newest tool outputs share half of the budget, each user message may take a third. */
  cutLargeTexts(): void {
    const lastUnit = this.#units.at(-1) ?? [];
    const outputCount = lastUnit.filter((message) => message.role === "tool").length;
    const shareBytes = Math.floor(this.#maxBytes / 2 / Math.max(1, outputCount));
    this.#replaceMessages(lastUnit, (message) =>
      message.role === "tool" ? shortenMessage(message, shareBytes) : message,
    );
    for (const unit of this.#units) {
      this.#replaceMessages(unit, (message) =>
        message.role === "user" ? shortenMessage(message, Math.floor(this.#maxBytes / 3)) : message,
      );
    }
  }

  /** Drops complete units (see `groupUnits`), oldest first, but never the newest unit. */
  dropOldUnits(): void {
    for (let i = 0; i < this.#units.length - 1 && !this.fits;) {
      const unit = this.#units[i] ?? [];
      if (unit.some((message) => this.#isProtected(message))) i += 1;
      else {
        this.#units.splice(i, 1);
        this.#totalBytes -= bytesOfAll(unit);
      }
    }
  }

  /** Cuts all texts to a quarter of the budget, then to half of that, and so on, down to `MIN_TEXT_BYTES`. */
  cutAllTexts(): void {
    for (
      let capBytes = Math.floor(this.#maxBytes / 4);
      !this.fits && capBytes >= MIN_TEXT_BYTES;
      capBytes = Math.floor(capBytes / 2)
    ) {
      for (const unit of this.#units) this.#replaceMessages(unit, (message) => shortenMessage(message, capBytes));
    }
  }

  dropLastUnit(): void {
    const lastUnit = this.#units.at(-1);
    if (lastUnit && !this.fits && !lastUnit.some((message) => this.#isProtected(message))) {
      this.#units.pop();
      this.#totalBytes -= bytesOfAll(lastUnit);
    }
  }

  /** Replaces messages by index, because they become shorter copies. */
  #replaceMessages(unit: M[], change: (message: M) => M): void {
    for (const [i, message] of unit.entries()) {
      if (this.fits) return;
      const changedMessage = change(message);
      if (changedMessage === message) continue;
      this.#totalBytes += cachedBytesOf(changedMessage) - cachedBytesOf(message);
      unit[i] = changedMessage;
      if (this.#isProtected(message)) this.#protectedMessages.add(changedMessage);
    }
  }

  #isProtected(message: M): boolean {
    return this.#protectedMessages.has(message);
  }
}

/**
 * Shortens a message to about `bytes` bytes: long texts are cut in the middle, then images and files are replaced by
 * their names.
 */
export function shortenMessage<M extends ModelMessage>(message: M, bytes: number): M {
  if (cachedBytesOf(message) <= bytes) return message;
  const capBytes = Math.max(MIN_TEXT_BYTES, Math.floor(bytes / Math.max(1, message.parts.length)));
  const parts = message.parts.flatMap((part) => shortenPart(part, capBytes));
  if (parts.length === 0 && toolCalls(message).length === 0) parts.push({ type: "text", text: "[left out]" });
  const shortMessage = { ...message, parts };
  return cachedBytesOf(shortMessage) < cachedBytesOf(message) ? shortMessage : message;
}

function shortenPart(part: Part, capBytes: number): Part[] {
  switch (part.type) {
    case "text":
      return [Buffer.byteLength(part.text) <= capBytes ? part : { type: "text", text: cutMiddle(part.text, capBytes) }];
    case "reasoning":
      return Buffer.byteLength(part.text) <= capBytes ? [part] : [];
    case "tool_call":
      return [Buffer.byteLength(part.arguments) <= capBytes ? part : { ...part, arguments: CUT_ARGUMENTS }];
    case "image":
      return capBytes >= ATTACHMENT_BYTES ? [part] : [{ type: "text", text: "[image left out]" }];
    case "file": {
      const textPart = toTextPart(part);
      if (textPart) return shortenPart(textPart, capBytes);
      return capBytes >= ATTACHMENT_BYTES
        ? [part]
        : [{ type: "text", text: `[file ${part.filename.slice(0, MAX_FILENAME_CHARACTERS)} left out]` }];
    }
  }
}
