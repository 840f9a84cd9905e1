import type { Message } from "../ports/message.js";

/** Selects messages like a `MessageQuery`. */
export function selectPage(
  messages: readonly Message[],
  page: { after?: number | undefined; before?: number | undefined; limit?: number | undefined },
): Message[] {
  const { after = -Infinity, before = Infinity, limit = Infinity } = page;
  const matchingMessages = messages.filter((message) => message.seq > after && message.seq < before);
  return page.before !== undefined && page.after === undefined
    ? matchingMessages.slice(-limit)
    : matchingMessages.slice(0, limit);
}
