import { setImmediate as breath } from "node:timers/promises";
import type { Message } from "../ports/message.js";
import type { Session } from "../ports/session.js";
import type { ChainHead, SessionDriver } from "../ports/session-driver.js";

/** Messages that are read at once. */
const PAGE = 1_000;

/**
 * What a run goes on from; for whoever holds the chain's lease, so that what was said stays as it is meanwhile. A long
 * conversation is read in pages, and others have their turn between two. `original`: as it was before the lease was taken.
 */
export async function readHead(
  store: SessionDriver,
  original: Session,
  wanted: { messages: boolean },
): Promise<ChainHead | undefined> {
  const { root } = original.chain;
  if (!wanted.messages || original.lastSeq <= PAGE) return store.head(root, wanted);
  const head = await store.head(root, { messages: false });
  // Not every store leaves them out.
  if (!head || head.messages.length > 0) return head;
  // A follow-up begins with a view, which the head alone tells; it was made to be short.
  if (head.newest.chain.index > 0) return store.head(root);
  const messages: Message[] = [];
  for (let after = 0; ; after = messages.at(-1)?.seq ?? after) {
    const page = await store.messages(root, { after, limit: PAGE });
    messages.push(...page);
    if (page.length < PAGE) return { ...head, messages };
    await breath();
  }
}
