import { PointNotFoundError } from "../ports/errors.js";
import { newId, now } from "../base/ids.js";
import type { Message, Part } from "../ports/message.js";
import type { Session } from "../ports/session.js";
import type { SessionDriver } from "../ports/session-driver.js";
import { NO_USAGE } from "../conversation/usage.js";

/**
 * Creates a new original with the chain's conversation up to and including a message. `owner`: the user to whom it
 * belongs. Rejects with `PointNotFoundError`.
 */
export async function fork(
  store: SessionDriver,
  source: Session,
  messageId: string,
  owner: string | undefined,
): Promise<Session> {
  const chainMessages = await store.messages(source.id, { scope: "chain" });
  const lastIndex = chainMessages.findIndex((message) => message.id === messageId);
  if (lastIndex === -1) throw new PointNotFoundError("message");
  const {
    archived: _archived,
    owner: _owner,
    shared: _shared,
    ...original
  } = (await store.get(source.chain.root)) ?? source;
  const id = newId();
  const createdAt = now(store);
  const messages = copyMessages(chainMessages.slice(0, lastIndex + 1), id);
  const session: Session = {
    ...original,
    id,
    alias: "",
    parentId: original.id,
    ...(owner !== undefined && { owner }),
    // A fork of a subagent's conversation belongs to the person who made it.
    spawnedBy: null,
    chain: { root: id, index: 0 },
    lastSeq: messages.length,
    createdAt,
    updatedAt: createdAt,
    usage: NO_USAGE,
    // The permissions were granted for the other session.
    permissionGrants: [],
    rewinds: [],
  };
  await store.create({ session, messages });
  return session;
}

/** Copies messages, with new ids and `seq`. If a call id occurs twice in the chain, the later call gets a new id. */
function copyMessages(messages: readonly Message[], sessionId: string): Message[] {
  const usedCallIds = new Set<string>();
  /** New call ids by original id, for the most recent calls. */
  const newCallIds = new Map<string, string>();
  return messages.map((message, i) => {
    const parts = message.parts.map((part): Part => {
      if (part.type !== "tool_call") return part;
      newCallIds.delete(part.id);
      if (!usedCallIds.has(part.id)) {
        usedCallIds.add(part.id);
        return part;
      }
      const id = `call_${newId().replaceAll("-", "")}`;
      newCallIds.set(part.id, id);
      return { ...part, id };
    });
    const toolCallId = newCallIds.get(message.toolCallId) ?? message.toolCallId;
    return { ...message, parts, toolCallId, id: newId(), sessionId, seq: i + 1 };
  });
}
