import { textOf } from "../conversation/messages.js";
import type { ModelMessage } from "../ports/message.js";

/** Begins the message that stands for what was left out; also how such a message is known again. */
export const SUMMARY_HEAD = "[Summary of the earlier conversation, which outgrew the context window]\n\n";

export function isSummary(message: ModelMessage): boolean {
  return message.role === "user" && textOf(message).startsWith(SUMMARY_HEAD);
}

/** What stays or goes together: an answer with the results of its calls, any other message alone. */
export function unitsOf<M extends ModelMessage>(messages: readonly M[]): M[][] {
  const units: M[][] = [];
  for (const message of messages) {
    const last = units.at(-1);
    if (message.role === "tool" && last) last.push(message);
    else units.push([message]);
  }
  return units;
}

/** The user's message that is worked on: the last one that a user wrote. */
export function currentPrompt<M extends ModelMessage>(messages: readonly M[]): M | undefined {
  return messages.findLast((message) => message.role === "user" && !isSummary(message));
}
