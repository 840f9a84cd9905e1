import type { Conversation } from "../conversation/conversation.js";
import type { Recorder } from "../conversation/recorder.js";
import { hasCode } from "../ports/errors.js";
import { newId, now } from "../base/ids.js";
import type { Message, ModelMessage } from "../ports/message.js";
import type { Session } from "../ports/session.js";
import { NO_USAGE } from "../conversation/usage.js";

/**
 * Starts the next session of the conversation's chain with `view`, and continues the conversation in it. The write is
 * atomic. Rejects with `LeaseLostError`, `SessionNotFoundError` (deleted in the meantime) or `StoreError`.
 */
export async function startFollowUp(
  recorder: Recorder,
  conversation: Conversation,
  view: readonly ModelMessage[],
): Promise<Session> {
  const { session } = conversation;
  const createdAt = now();
  for (let { index } = session.chain; ;) {
    index += 1;
    const id = newId();
    const nextSession: Session = {
      ...session,
      id,
      alias: "",
      chain: { root: session.chain.root, index },
      lastSeq: conversation.lastSeq,
      createdAt,
      updatedAt: createdAt,
      usage: NO_USAGE,
    };
    const messages = prepareView(view, conversation.messages, id);
    try {
      await recorder.createFollowUp(nextSession, messages);
    } catch (error) {
      // Sessions that a revert hid keep their index, so try the next one.
      if (hasCode(error, "session_exists") && error.sessionId === id) continue;
      throw error;
    }
    conversation.continueIn(nextSession, messages);
    return nextSession;
  }
}

/**
 * Prepares a view for storage. A kept message becomes a copy with the same id and `seq`; a new message gets a
 * new id and `seq`.
 */
function prepareView(view: readonly ModelMessage[], storedMessages: readonly Message[], sessionId: string): Message[] {
  const messagesById = new Map(storedMessages.map((message) => [message.id, message]));
  const origins = view.map((message) => {
    const id: unknown = (message as Partial<Message>).id;
    const origin = typeof id === "string" ? messagesById.get(id) : undefined;
    // Each id is used once; a repetition is a new message.
    if (origin) messagesById.delete(origin.id);
    return origin;
  });
  let seq = 0;
  return view.map(({ role, parts, toolCallId, name, failed }, i) => {
    const content = { role, parts, toolCallId, name, failed };
    const origin = origins[i];
    if (origin) {
      seq = origin.seq;
      return { ...origin, ...content };
    }
    // Use a seq in the gap that dropped messages leave, if there is one.
    const nextSeq = origins.slice(i).find((message) => message !== undefined)?.seq ?? Infinity;
    if (seq + 1 < nextSeq) seq += 1;
    return { ...content, id: newId(), sessionId, seq, createdAt: now(), finished: true };
  });
}
