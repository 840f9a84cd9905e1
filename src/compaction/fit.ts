import { attachedText, toolCalls } from "../conversation/messages.js";
import type { ModelMessage, Part } from "../ports/message.js";
import { cutMiddle } from "../base/cut-text.js";
import { BYTES_PER_TOKEN, bytesOfAll, cachedBytesOf } from "../models/estimate.js";
import { currentPrompt, isSummary, unitsOf } from "./units.js";

/** Replaces a tool output that was cleared. */
export const CLEARED_NOTE = "[old tool output cleared to save room in the context window]";
const CUT_ARGUMENTS = JSON.stringify({ note: "arguments left out to save room in the context window" });

/** Outputs of at most this many bytes are not cleared. */
const MAX_UNCLEARED_BYTES = 200;
/** Minimum bytes that a shortened text keeps. */
const MIN_TEXT_BYTES = 120;

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
export function fit<M extends ModelMessage>(messages: readonly M[], budget: number): M[] {
  const room = new MessageFitter(messages, Math.max(0, budget) * BYTES_PER_TOKEN);
  const steps = [() => room.clearOld(), () => room.cutLarge(), () => room.dropOld(), () => room.cutAll()];
  // Losing the newest answer is better than a request that the provider rejects.
  steps.push(() => room.dropLast());
  for (const step of steps) {
    if (room.fits) break;
    step();
  }
  return room.all;
}

/** Messages and their total size. Each step stops as soon as they fit. */
class MessageFitter<M extends ModelMessage> {
  readonly #bytes: number;
  readonly #protected: Set<M>;
  #units: M[][];
  #total: number;

  constructor(messages: readonly M[], bytes: number) {
    this.#bytes = bytes;
    this.#units = unitsOf(messages);
    this.#total = bytesOfAll(messages);
    const first = messages.find((message) => message.role === "user");
    const protectedMessages = [first, currentPrompt(messages), ...messages.filter(isSummary)];
    this.#protected = new Set(protectedMessages.filter((message) => message !== undefined));
  }

  get all(): M[] {
    return this.#units.flat();
  }

  get fits(): boolean {
    return this.#total <= this.#bytes;
  }

  /** Clears tool outputs, oldest first, except those that the model has not seen yet. */
  clearOld(): void {
    for (const unit of this.#units.slice(0, -1)) {
      this.#change(unit, (message) =>
        message.role === "tool" && cachedBytesOf(message) > MAX_UNCLEARED_BYTES
          ? { ...message, parts: [{ type: "text", text: CLEARED_NOTE }] }
          : message,
      );
    }
  }

  /** The newest outputs share half of the budget; each user message may take a third. */
  cutLarge(): void {
    const last = this.#units.at(-1) ?? [];
    const outputs = last.filter((message) => message.role === "tool").length;
    const share = Math.floor(this.#bytes / 2 / Math.max(1, outputs));
    this.#change(last, (message) => (message.role === "tool" ? shortened(message, share) : message));
    for (const unit of this.#units) {
      this.#change(unit, (message) =>
        message.role === "user" ? shortened(message, Math.floor(this.#bytes / 3)) : message,
      );
    }
  }

  /** Drops whole answers, oldest first, but never the newest unit. */
  dropOld(): void {
    for (let i = 0; i < this.#units.length - 1 && !this.fits;) {
      const unit = this.#units[i] ?? [];
      if (unit.some((message) => this.#isProtected(message))) i += 1;
      else {
        this.#units.splice(i, 1);
        this.#total -= bytesOfAll(unit);
      }
    }
  }

  cutAll(): void {
    for (let cap = Math.floor(this.#bytes / 4); !this.fits && cap >= MIN_TEXT_BYTES; cap = Math.floor(cap / 2)) {
      for (const unit of this.#units) this.#change(unit, (message) => shortened(message, cap));
    }
  }

  dropLast(): void {
    const last = this.#units.at(-1);
    if (last && !this.fits && !last.some((message) => this.#isProtected(message))) {
      this.#units.pop();
      this.#total -= bytesOfAll(last);
    }
  }

  /** Replaces messages by index, because they become shorter copies. */
  #change(unit: M[], change: (message: M) => M): void {
    for (const [i, message] of unit.entries()) {
      if (this.fits) return;
      const changed = change(message);
      if (changed === message) continue;
      this.#total += cachedBytesOf(changed) - cachedBytesOf(message);
      unit[i] = changed;
      if (this.#isProtected(message)) this.#protected.add(changed);
    }
  }

  #isProtected(message: M): boolean {
    return this.#protected.has(message);
  }
}

/**
 * Shortens a message to about `bytes`: long texts are cut in the middle, then images and files are replaced by their
 * names.
 */
export function shortened<M extends ModelMessage>(message: M, bytes: number): M {
  if (cachedBytesOf(message) <= bytes) return message;
  const cap = Math.max(MIN_TEXT_BYTES, Math.floor(bytes / Math.max(1, message.parts.length)));
  const parts = message.parts.flatMap((part) => shortPart(part, cap));
  if (parts.length === 0 && toolCalls(message).length === 0) parts.push({ type: "text", text: "[left out]" });
  const shorter = { ...message, parts };
  return cachedBytesOf(shorter) < cachedBytesOf(message) ? shorter : message;
}

function shortPart(part: Part, cap: number): Part[] {
  switch (part.type) {
    case "text":
      return [Buffer.byteLength(part.text) <= cap ? part : { type: "text", text: cutMiddle(part.text, cap) }];
    case "reasoning":
      return Buffer.byteLength(part.text) <= cap ? [part] : [];
    case "tool_call":
      return [Buffer.byteLength(part.arguments) <= cap ? part : { ...part, arguments: CUT_ARGUMENTS }];
    case "image":
      return cap >= 4500 ? [part] : [{ type: "text", text: "[image left out]" }];
    case "file": {
      const shown = attachedText(part);
      if (shown) return shortPart(shown, cap);
      return cap >= 4500 ? [part] : [{ type: "text", text: `[file ${part.filename.slice(0, 60)} left out]` }];
    }
  }
}
