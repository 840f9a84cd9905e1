import { textOf } from "../conversation/messages.js";
import type { ModelMessage } from "../ports/message.js";

/** Marks the message that replaces dropped messages, and identifies such a message. */
export const SUMMARY_HEAD = "[Summary of the earlier conversation, which outgrew the context window]\n\n";

export function isSummary(message: ModelMessage): boolean {
  return message.role === "user" && textOf(message).startsWith(SUMMARY_HEAD);
}

/**
 * Groups messages that must stay together: an answer with the results of its calls. Any other message is a group of its
 * own.
 */
export function unitsOf<M extends ModelMessage>(messages: readonly M[]): M[][] {
  const units: M[][] = [];
  for (const message of messages) {
    const lastUnit = units.at(-1);
    if (message.role === "tool" && lastUnit) lastUnit.push(message);
    else units.push([message]);
  }
  return units;
}

/** The last message that a user wrote, which the model is working on. */
export function currentPrompt<M extends ModelMessage>(messages: readonly M[]): M | undefined {
  return messages.findLast((message) => message.role === "user" && !isSummary(message));
}
