import type { Message } from "../../ports/message.js";
import type { Session } from "../../ports/session.js";
import type { ChainData } from "../../ports/session-driver.js";
import { SessionExistsError } from "../../ports/errors.js";
import { Chain, type ChainDocument, type HiddenMessages } from "./chain.js";
import { keys } from "./keys.js";
import { addMessages, addToRanges, readAllMessages, findHidingSnapshot } from "./messages.js";
import { asksOf, checkAsks, checkRuns, putAsks, putRuns, runsOf } from "./runs.js";
import { checkNames, putSession } from "./sessions.js";
import type { Transaction } from "./transaction.js";

/** Like `SessionDriver.dump`. */
export async function dumpChain(tx: Transaction, id: string): Promise<ChainData | undefined> {
  const chain = await Chain.findBySession(tx, id);
  if (!chain) return undefined;
  const { root, content } = chain;
  const messages = new Map<string, { message: Message; hiddenBy: string }[]>(
    content.links.map((link) => [link.id, []]),
  );
  for (const message of await readAllMessages(chain))
    messages.get(message.sessionId)?.push({ message, hiddenBy: findHidingSnapshot(content, message.seq) });
  const sessions: ChainData["sessions"] = [];
  for (const { id: sessionId, cut } of content.links) {
    const [session, view] = await tx.getAll([keys.session(sessionId), keys.view(root, sessionId)]);
    const sessionMessages = messages.get(sessionId) ?? [];
    sessions.push({
      session: session as Session,
      hiddenBy: cut,
      view: (view as Message[] | undefined) ?? [],
      messages: sessionMessages,
    });
  }
  const runs = (await runsOf(chain)).map(({ run }) => run);
  return { sessions, snapshots: [...content.snapshots], runs, asks: await asksOf(chain) };
}

/** Like `SessionDriver.load`. */
export async function loadChain(tx: Transaction, { sessions, snapshots, runs, asks }: ChainData): Promise<void> {
  const root = sessions[0]?.session.id ?? "";
  for (const { session } of sessions) await checkNames(tx, session);
  await checkRuns(tx, undefined, runs);
  const chain = await Chain.open(tx, root);
  if (chain.document) throw new SessionExistsError(root);
  await checkAsks(chain, asks);
  chain.document = createChainDocument({ sessions, snapshots, runs, asks });
  const addedMessages = sessions.flatMap(({ session, messages }) =>
    messages.map(({ message }) => [session.id, message] as const),
  );
  // Sorted by `seq`, so that segments are filled in order.
  addedMessages.sort(([, a], [, b]) => a.seq - b.seq);
  for (const [sessionId, message] of addedMessages) await addMessages(chain, sessionId, [message]);
  for (const { session, view } of sessions) await putSession(tx, session, view);
  await putRuns(chain, runs, null);
  await putAsks(chain, asks);
  chain.save();
}

/** Creates the document of a chain without messages; `addMessages` adds them. */
function createChainDocument({ sessions, snapshots }: ChainData): ChainDocument {
  const hiddenSeqsBySnapshot = new Map<string, number[]>();
  for (const { messages } of sessions)
    for (const { message, hiddenBy } of messages)
      if (hiddenBy !== "")
        hiddenSeqsBySnapshot.set(hiddenBy, [...(hiddenSeqsBySnapshot.get(hiddenBy) ?? []), message.seq]);
  const hidden = [...hiddenSeqsBySnapshot].map(([id, hiddenSeqs]): HiddenMessages => {
    const ranges: [number, number][] = [];
    for (const seq of hiddenSeqs.sort((a, b) => a - b)) addToRanges(ranges, seq);
    return { id, ranges };
  });
  const links = sessions.map(({ session, hiddenBy }) => ({
    id: session.id,
    index: session.chain.index,
    cut: hiddenBy,
    first: 0,
  }));
  return { links, snapshots, hidden, growing: [] };
}
