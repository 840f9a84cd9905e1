import { setImmediate as breath } from "node:timers/promises";
import type { Message } from "../ports/message.js";
import type { Session } from "../ports/session.js";
import type { LeaseHead, LeaseOptions, SessionDriver } from "../ports/session-driver.js";

/** Messages that are read at once. */
const PAGE = 1_000;

export type HeadWanted = NonNullable<LeaseOptions["head"]>;

/**
 * What is wanted with the lease of a chain, by its original as it was before. `known`: as `HeadWanted`. The messages of a
 * long conversation come by themselves.
 */
export function headWith(original: Session, known: number | undefined): HeadWanted {
  return { messages: original.lastSeq <= PAGE, ...(known !== undefined && { known }) };
}

/**
 * The messages of a head that was told with the lease, those too that were left out: `wanted` and `previous` say whether.
 * For whoever holds the lease, so that what was said stays as it is meanwhile. A long conversation is read in pages, and
 * others have their turn between two.
 */
export async function messagesOf(
  store: SessionDriver,
  head: LeaseHead,
  wanted: HeadWanted | undefined,
  previous: number | undefined,
): Promise<Message[]> {
  const isKnown = wanted?.known !== undefined && wanted.known === previous;
  // Not every store leaves them out.
  if (head.messages.length > 0 || (wanted?.messages === true && !isKnown)) return head.messages;
  const { root } = head.original.chain;
  // A follow-up begins with a view, which the head alone tells; it was made to be short.
  if (head.newest.chain.index > 0) return (await store.head(root))?.messages ?? [];
  const messages: Message[] = [];
  for (let after = 0; ; after = messages.at(-1)?.seq ?? after) {
    const page = await store.messages(root, { after, limit: PAGE });
    messages.push(...page);
    if (page.length < PAGE) return messages;
    await breath();
  }
}

/** The session that a run goes on in. The original's fields are the chain's: a revert may have made an earlier follow-up the newest again. */
export function goingOn({ original, newest }: LeaseHead): Session {
  const { title, titled, provider, model, reasoningEffort, mode, leave, cuts, projectDir } = original;
  return { ...newest, title, titled, provider, model, reasoningEffort, mode, leave, cuts, projectDir };
}
