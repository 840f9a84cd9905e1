import { PointNotFoundError, SessionExistsError, SessionNotFoundError } from "../../ports/errors.js";
import type { Message } from "../../ports/message.js";
import type { Instruction } from "../../ports/run.js";
import type { Session } from "../../ports/session.js";
import type { ChainHead, LeaseHead } from "../../ports/session-driver.js";
import type { SessionPage, SessionQuery } from "../../ports/session-queries.js";
import type { ChangeResult, SessionChange, SessionStart } from "../../ports/session-change.js";
import { addUsage } from "../../conversation/usage.js";
import { compareNewestFirst } from "../newest-first.js";
import { isVisibleTo } from "../visible-to.js";
import { Chain, type Link } from "./chain.js";
import { isShared, keys } from "./keys.js";
import { addMessages, checkGrowing, checkSeqs, revertChain, finishMessages } from "./messages.js";
import { appendText, readLastSeq, listMessageKeys, messagesOf, restoreChain } from "./messages.js";
import { answerAsk, checkAsks, checkRuns, putAsks, putRuns, listRecordKeys, readUnfinishedRuns } from "./runs.js";
import type { Transaction } from "./transaction.js";

/** The document of an alias. `id`: id of the session. */
interface AliasDocument {
  id: string;
}

/** Finds a session by id or alias; undefined if there is none. */
export async function findSession(tx: Transaction, id: string): Promise<Session | undefined> {
  const [session, aliasDocument] = await tx.getAll([keys.session(id), keys.alias(id)]);
  if (session || !aliasDocument) return session as Session | undefined;
  return tx.get<Session>(keys.session((aliasDocument as AliasDocument).id));
}

/** Throws `SessionExistsError` if the id or the alias is already in use. */
export async function checkNames(tx: Transaction, { id, alias }: Session): Promise<void> {
  for (const name of alias === "" ? [id] : [id, alias]) {
    const owners = await tx.getAll([keys.session(name), keys.alias(name)]);
    if (owners.some((owner) => owner !== undefined) || (name === alias && alias === id))
      throw new SessionExistsError(name);
  }
}

/** Stores a session. The caller must have checked the session's id and alias. */
export async function putSession(tx: Transaction, session: Session, view: readonly Message[]): Promise<void> {
  const { id, alias, chain } = session;
  tx.set(keys.session(id), chain.root, session);
  if (alias !== "") tx.set(keys.alias(alias), chain.root, { id } satisfies AliasDocument);
  if (view.length > 0) tx.set(keys.view(chain.root, id), chain.root, view);
}

/** Like `SessionDriver.create`. */
export async function createSession(tx: Transaction, start: SessionStart): Promise<void> {
  const { session, messages = [], view = [], run, fence = null } = start;
  const { id } = session;
  const { root, index } = session.chain;
  await checkNames(tx, session);
  const chain = await Chain.open(tx, root);
  if (root !== id && !chain.document) throw new SessionNotFoundError(root);
  chain.checkFence(fence);
  const { links, ...documentFields } = chain.document ?? { links: [], snapshots: [], hidden: [], growing: [] };
  if (links.some((link) => link.index === index)) throw new SessionExistsError(id);
  await checkSeqs(chain, messages);
  const runs = run ? [run] : [];
  await checkRuns(tx, root, runs);

  if (fence === null) chain.head = { ...chain.head, released: null };
  const link: Link = { id, index, cut: "", first: 0 };
  chain.document = { ...documentFields, links: [...links, link].sort((a, b) => a.index - b.index) };
  const lastSeq = Math.max(session.lastSeq, await addMessages(chain, id, messages));
  await putSession(tx, { ...session, lastSeq }, view);
  await putRuns(chain, runs, fence);
  chain.save();
}

/** Like `SessionDriver.write`. */
export async function writeChange(tx: Transaction, id: string, change: SessionChange): Promise<ChangeResult> {
  const chain = await Chain.findBySession(tx, id);
  const session = await tx.get<Session>(keys.session(id));
  if (!chain || !session) return releaseUncreatedChain(tx, id, change);
  await checkChange(chain, change);

  const { add = [], append = [], finish = [], revert, restore, runs = [], asks = [], fence } = change;
  const changesMessages =
    add.length + append.length + finish.length > 0 || revert !== undefined || restore !== undefined;
  if (changesMessages && fence === null) chain.head = { ...chain.head, released: null };
  if (revert) await revertChain(chain, session, revert);
  if (restore !== undefined) restoreChain(chain, restore);
  if (revert || restore !== undefined) await raiseLastSeq(chain);
  const lastSeq = await addMessages(chain, id, add);
  await appendText(chain, append);
  await finishMessages(chain, finish);
  await setSessionFields(tx, new Set([id, chain.root]), change);
  if (lastSeq > 0) await raiseSessionLastSeq(tx, id, lastSeq);
  await putRuns(chain, runs, fence);
  await putAsks(chain, asks);
  const answer = change.answer && (await answerAsk(chain, change.answer));
  if (change.instruct) await addInstruction(chain, change.instruct);
  const consumedInstructions = await removeInstructions(chain, change.consumedInstructions ?? []);
  const isReleased = change.release === true && fence !== null && chain.release(fence);
  // A change that only appends text writes only the document of that text, so that a token costs little.
  const isOnlyText = Object.keys(change).every((field) => field === "append" || field === "fence" || field === "sync");
  if (!isOnlyText || chain.isChanged) chain.save();
  const instructions = isReleased ? [...chain.head.instructions] : [];
  return { instructions, consumedInstructions, ...(answer && { answer }) };
}

/** Releases the lease of a chain that was never created. Throws `SessionNotFoundError` for any other change. */
async function releaseUncreatedChain(tx: Transaction, id: string, change: SessionChange): Promise<ChangeResult> {
  const chain = await Chain.open(tx, id);
  const { fence, sync: _, release, ...otherFields } = change;
  const isOnlyRelease = Object.values(otherFields).every(
    (value) => value === undefined || (Array.isArray(value) && value.length === 0),
  );
  if (!release || !isOnlyRelease || fence === null || !chain.release(fence)) throw new SessionNotFoundError(id);
  chain.save();
  return { instructions: [], consumedInstructions: [] };
}

/** Makes all checks that can reject a change. Rejects like `SessionDriver.write`. */
async function checkChange(chain: Chain, change: SessionChange): Promise<void> {
  const { add = [], restore, runs = [], asks = [] } = change;
  chain.checkFence(change.fence);
  if (restore !== undefined && !chain.content.snapshots.some((snapshot) => snapshot.id === restore))
    throw new PointNotFoundError("snapshot");
  await checkSeqs(chain, add);
  checkGrowing(chain, change);
  await checkRuns(chain.tx, chain.root, runs);
  await checkAsks(chain, asks);
}

/** Raises the newest session's `lastSeq` to the chain's greatest, so that no hidden `seq` is reused. */
async function raiseLastSeq(chain: Chain): Promise<void> {
  if (chain.newest) await raiseSessionLastSeq(chain.tx, chain.newest.id, await readLastSeq(chain));
}

async function raiseSessionLastSeq(tx: Transaction, id: string, lastSeq: number): Promise<void> {
  const session = await tx.get<Session>(keys.session(id));
  if (session && session.lastSeq < lastSeq) tx.set(keys.session(id), session.chain.root, { ...session, lastSeq });
}

async function setSessionFields(
  tx: Transaction,
  ids: ReadonlySet<string>,
  { set, usage }: SessionChange,
): Promise<void> {
  if (!set && !usage) return;
  const { updatedAt = "", ...fields } = set ?? {};
  const changedFields = Object.entries(fields).filter(([, value]) => value !== undefined);
  for (const id of ids) {
    const session = await tx.get<Session>(keys.session(id));
    if (!session) continue;
    tx.set(keys.session(id), session.chain.root, {
      ...session,
      ...Object.fromEntries(changedFields),
      updatedAt: updatedAt > session.updatedAt ? updatedAt : session.updatedAt,
      usage: usage ? addUsage(session.usage, usage) : session.usage,
    });
  }
}

async function addInstruction(chain: Chain, instruction: Instruction): Promise<void> {
  const { tx, root } = chain;
  const key = keys.instructionId(instruction.id);
  if (await tx.get(key)) return;
  tx.set(key, root, { root });
  chain.head = { ...chain.head, instructions: [...chain.head.instructions, { ...instruction, sessionId: root }] };
}

/** Returns the ids of the removed instructions. */
async function removeInstructions(chain: Chain, ids: readonly string[]): Promise<string[]> {
  const removedInstructions = chain.head.instructions.filter(({ id }) => ids.includes(id));
  if (removedInstructions.length === 0) return [];
  await chain.tx.getAll(removedInstructions.map(({ id }) => keys.instructionId(id)));
  for (const { id } of removedInstructions) chain.tx.delete(keys.instructionId(id), chain.root);
  const instructions = chain.head.instructions.filter(({ id }) => !ids.includes(id));
  chain.head = { ...chain.head, instructions };
  return removedInstructions.map(({ id }) => id);
}

/** Like `SessionDriver.head`. */
export async function readHead(tx: Transaction, id: string, needsMessages: boolean): Promise<ChainHead | undefined> {
  const head = await readLeaseHead(tx, id, needsMessages);
  const chain = head && (await Chain.findBySession(tx, head.root.id));
  return chain && { ...head, snapshots: [...chain.content.snapshots] };
}

/** Reads the head without snapshots, for a lease; undefined for an unknown session. */
export async function readLeaseHead(
  tx: Transaction,
  id: string,
  needsMessages: boolean,
): Promise<LeaseHead | undefined> {
  const session = await findSession(tx, id);
  const chain = session && (await Chain.findBySession(tx, session.id));
  const link = chain?.newest;
  if (!link) return undefined;
  const { root } = chain;
  const documentKeys = [
    keys.session(root),
    keys.session(link.id),
    ...(needsMessages ? [keys.view(root, link.id)] : []),
  ];
  const [original, newest, view] = await tx.getAll(documentKeys);
  const sessionMessages = needsMessages ? await messagesOf(chain, link, {}) : [];
  return {
    root: original as Session,
    newest: newest as Session,
    messages: needsMessages ? [...((view as Message[] | undefined) ?? []), ...sessionMessages] : [],
    unfinished: await readUnfinishedRuns(chain),
  };
}

/** Deletes the chain of a session. Does nothing for an unknown session. */
export async function deleteChain(tx: Transaction, id: string): Promise<void> {
  const chain = await Chain.findBySession(tx, id);
  if (!chain) return;
  const { root, content } = chain;
  const documentKeys = [keys.head(root), keys.chain(root), keys.segments(root), ...listMessageKeys(chain)];
  for (const link of content.links) {
    const session = await tx.get<Session>(keys.session(link.id));
    documentKeys.push(keys.session(link.id), keys.view(root, link.id));
    if (session && session.alias !== "") documentKeys.push(keys.alias(session.alias));
  }
  documentKeys.push(...(await listRecordKeys(chain)));
  // Documents that name the owner of an id must be read before they are written.
  await tx.getAll(documentKeys.filter((key) => isShared(key)));
  for (const key of documentKeys) tx.delete(key, root);
}

/** Like `SessionDriver.list`. */
export async function listSessions(tx: Transaction, query: SessionQuery): Promise<SessionPage> {
  const { projectDir, spawnedBy, emptyBefore, archived = "include", visibleTo, before, offset = 0, limit } = query;
  const search = (query.search ?? "").toLowerCase();
  const sessions = (await tx.scan<Session>(keys.allSessions)).map(([, session]) => session);
  const matchingSessions = sessions.filter(
    (session) =>
      session.chain.root === session.id &&
      session.spawnedBy?.sessionId === spawnedBy &&
      (projectDir === undefined || session.projectDir === projectDir) &&
      (archived === "include" || (session.archived === true) === (archived === "only")) &&
      isVisibleTo(session, visibleTo) &&
      (emptyBefore === undefined || (session.lastSeq === 0 && session.updatedAt < emptyBefore)) &&
      (search === "" || session.title.toLowerCase().includes(search)),
  );
  const sortedSessions = matchingSessions
    .filter(({ updatedAt, id }) => !before || compareNewestFirst(before.updatedAt, before.id, updatedAt, id) < 0)
    .sort((a, b) => compareNewestFirst(a.updatedAt, a.id, b.updatedAt, b.id));
  return { sessions: sortedSessions.slice(offset, offset + limit), total: matchingSessions.length };
}
