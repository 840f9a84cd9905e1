import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import type { Message } from "../ports/message.js";
import type { Session } from "../ports/session.js";
import type { LeaseHead, LeaseOptions, SessionDriver } from "../ports/session-driver.js";

/** Messages that one query reads. */
const PAGE_SIZE = 1_000;

export type HeadRequest = NonNullable<LeaseOptions["head"]>;

/**
 * Returns the head options for acquiring the lease of a chain. `firstSession` is the chain's first session, as read
 * before. The messages of a long conversation are not requested; `loadMessages` reads them.
 */
export function createHeadRequest(firstSession: Session, cachedFence: number | undefined): HeadRequest {
  return {
    messages: firstSession.lastSeq <= PAGE_SIZE,
    ...(cachedFence !== undefined && { cachedFence }),
  };
}

/**
 * Returns the messages of the head that was returned with the lease, including messages that were not requested.
 * `headRequest` and `previousFence` show whether messages are missing. The caller must hold the lease, so that the
 * messages cannot change.
 *
 * A long conversation is read in pages. Other tasks can run between two pages.
 */
export async function loadMessages(
  store: SessionDriver,
  head: LeaseHead,
  headRequest: HeadRequest | undefined,
  previousFence: number | undefined,
): Promise<Message[]> {
  const isCached = headRequest?.cachedFence !== undefined && headRequest.cachedFence === previousFence;
  // Some stores return the messages although they were not requested.
  if (head.messages.length > 0 || (headRequest?.messages === true && !isCached)) return head.messages;
  const { root } = head.root.chain;
  // A follow-up session starts with a view, which only the head contains. A view is short by design.
  if (head.newest.chain.index > 0) return (await store.head(root))?.messages ?? [];
  const messages: Message[] = [];
  for (let after = 0; ; after = messages.at(-1)?.seq ?? after) {
    const page = await store.messages(root, { after, limit: PAGE_SIZE });
    messages.push(...page);
    if (page.length < PAGE_SIZE) return messages;
    await yieldToEventLoop();
  }
}
