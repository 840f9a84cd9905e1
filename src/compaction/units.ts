import { textOf } from "../conversation/messages.js";
import type { ModelMessage } from "../ports/message.js";

/** Marks the message that replaces dropped messages, and identifies such a message. */
export const SUMMARY_HEADER = "[Summary of the earlier conversation, which outgrew the context window]\n\n";

export function isSummary(message: ModelMessage): boolean {
  return message.role === "user" && textOf(message).startsWith(SUMMARY_HEADER);
}

/**
 * Groups messages into units that must stay together: an answer with the results of its calls. Any other message is a
 * unit of one message.
 */
export function groupUnits<M extends ModelMessage>(messages: readonly M[]): M[][] {
  const units: M[][] = [];
  for (const message of messages) {
    const lastUnit = units.at(-1);
    if (message.role === "tool" && lastUnit) lastUnit.push(message);
    else units.push([message]);
  }
  return units;
}

/** Returns the last message that a user wrote, which states the model's current task; undefined if there is none. */
export function findCurrentPrompt<M extends ModelMessage>(messages: readonly M[]): M | undefined {
  return messages.findLast((message) => message.role === "user" && !isSummary(message));
}
