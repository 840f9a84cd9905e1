import { RunKeyTakenError, SessionExistsError } from "../../ports/errors.js";
import type { Ask } from "../../ports/ask.js";
import type { RunRecord } from "../../ports/run.js";
import type { Session } from "../../ports/session.js";
import type { AskQuery, RunQuery, StoredRun } from "../../ports/session-queries.js";
import type { AnswerResult, SessionChange } from "../../ports/session-change.js";
import { compareNewestFirst } from "../newest-first.js";
import { isOpen } from "../stored-run.js";
import { isVisibleTo } from "../visible-to.js";
import { Chain, type Head } from "./chain.js";
import { keys } from "./keys.js";
import type { Transaction } from "./transaction.js";

/** A run, with the fence of its last write. */
export interface RunDocument {
  run: RunRecord;
  fence: number | null;
}

/** Owner of a run, an ask or an instruction: the id of its chain's original. */
interface Owner {
  root: string;
}

/** Owner of an idempotency key. `run`: id of the run with the key. */
interface KeyOwner extends Owner {
  run: string;
}

/**
 * Throws `RunKeyTakenError` if an id or a key belongs to another run. `root`: the chain of the runs; undefined if all
 * must be new.
 */
export async function checkRuns(tx: Transaction, root: string | undefined, runs: readonly RunRecord[]): Promise<void> {
  const idOwners = (await tx.getAll(runs.map(({ id }) => keys.runId(id)))) as (Owner | undefined)[];
  const keyOwners = (await tx.getAll(runs.map(({ idempotencyKey }) => keys.runKey(idempotencyKey)))) as (
    KeyOwner | undefined
  )[];
  const keysByRunId = new Map<string, string>();
  for (const [i, { id, idempotencyKey: key }] of runs.entries()) {
    if ((idOwners[i]?.root ?? root) !== root) throw new RunKeyTakenError(key);
    keysByRunId.set(id, key);
    if (key === "") continue;
    // A run that gets another key in this change releases its old key.
    const keyHolderIds = [...keysByRunId].filter(([, candidateKey]) => candidateKey === key).map(([runId]) => runId);
    const ownerRunId = keyOwners[i]?.run;
    if (ownerRunId !== undefined && !keysByRunId.has(ownerRunId)) keyHolderIds.push(ownerRunId);
    if (keyHolderIds.some((runId) => runId !== id)) throw new RunKeyTakenError(key);
  }
}

/** Stores runs of the chain by id. The caller must have checked the ids and keys. */
export async function putRuns(chain: Chain, runs: readonly RunRecord[], fence: number | null): Promise<void> {
  const { tx, root } = chain;
  for (const input of runs) {
    const run = { ...input, sessionId: root };
    const key = keys.run(root, run.id);
    await tx.getAll([key, keys.runId(run.id), keys.runKey(run.idempotencyKey)]);
    const storedDocument = await tx.get<RunDocument>(key);
    if (storedDocument && storedDocument.run.idempotencyKey !== run.idempotencyKey)
      await releaseKey(tx, root, storedDocument.run);
    if (!storedDocument) tx.set(keys.runId(run.id), root, { root } satisfies Owner);
    if (run.idempotencyKey !== "" && storedDocument?.run.idempotencyKey !== run.idempotencyKey)
      tx.set(keys.runKey(run.idempotencyKey), root, { root, run: run.id } satisfies KeyOwner);
    tx.set(key, root, { run, fence } satisfies RunDocument);
    const otherOpenIds = chain.head.open.filter((id) => id !== run.id);
    chain.head = { ...chain.head, open: isOpen(run) ? [...otherOpenIds, run.id] : otherOpenIds };
  }
}

/** Frees the key of a run, unless the key already belongs to another run. */
async function releaseKey(tx: Transaction, root: string, { id, idempotencyKey }: RunRecord): Promise<void> {
  if (idempotencyKey === "") return;
  const owner = await tx.get<KeyOwner>(keys.runKey(idempotencyKey));
  if (owner?.run === id) tx.delete(keys.runKey(idempotencyKey), root);
}

/** Reads the chain's runs without a stored end, newest first. */
export async function readUnfinishedRuns({ tx, root, head }: Chain): Promise<RunRecord[]> {
  const documents = (await tx.getAll(head.open.map((id) => keys.run(root, id)))) as RunDocument[];
  return documents.map(({ run }) => run).sort(compareByStart);
}

/** Reads all runs of a chain, newest first. */
export async function runsOf({ tx, root }: Chain): Promise<RunDocument[]> {
  const entries = await tx.scan<RunDocument>(keys.runsOf(root));
  return entries.map(([, run]) => run).sort((a, b) => compareByStart(a.run, b.run));
}

const compareByStart = (a: RunRecord, b: RunRecord): number => compareNewestFirst(a.startedAt, a.id, b.startedAt, b.id);

/** Like `SessionDriver.runs`. */
export async function listRuns(tx: Transaction, query: RunQuery): Promise<StoredRun[]> {
  const { states, idempotencyKey, startedBy, visibleTo, limit, before } = query;
  const documents = await filterVisible(tx, await findRuns(tx, query), ({ run }) => run.sessionId, visibleTo);
  const matchingDocuments = documents.filter(
    ({ run }) =>
      (!states || states.includes(run.state)) &&
      (idempotencyKey === undefined || run.idempotencyKey === idempotencyKey) &&
      (startedBy === undefined || run.user === startedBy) &&
      (!before || compareNewestFirst(before.startedAt, before.id, run.startedAt, run.id) < 0),
  );
  const page = matchingDocuments.sort((a, b) => compareByStart(a.run, b.run)).slice(0, limit);
  return withHolders(tx, page);
}

async function findRuns(
  tx: Transaction,
  { id, sessionId, idempotencyKey, visibleTo }: RunQuery,
): Promise<RunDocument[]> {
  const chain = sessionId === undefined ? undefined : await Chain.findBySession(tx, sessionId);
  if (sessionId !== undefined && !chain) return [];
  if (id !== undefined) return findRun(tx, id, chain);
  if (idempotencyKey !== undefined) {
    const owner = await tx.get<KeyOwner>(keys.runKey(idempotencyKey));
    return owner ? findRun(tx, owner.run, chain) : [];
  }
  if (chain) return runsOf(chain);
  // The scan includes the heads, so that a run and its holder are read at one moment.
  return scanRecords<RunDocument>(tx, keys.allRuns, [keys.allHeads, ...sessionPrefixes(visibleTo)]);
}

/** Prefixes of the sessions that `filterVisible` needs. */
function sessionPrefixes(visibleTo: string | undefined): string[] {
  return visibleTo === undefined ? [] : [keys.allSessions];
}

/** Reads all documents with a prefix, and caches the documents with the other prefixes as of the same moment. */
async function scanRecords<T>(tx: Transaction, prefix: string, cachedPrefixes: readonly string[]): Promise<T[]> {
  const records: T[] = [];
  for (const [key, value] of await tx.scan<unknown>(prefix, ...cachedPrefixes))
    if (key.startsWith(prefix)) records.push(value as T);
    else tx.cacheScanned(key, value);
  return records;
}

/** Filters records by the first sessions of their chains. */
async function filterVisible<T>(
  tx: Transaction,
  records: readonly T[],
  rootOf: (record: T) => string,
  visibleTo: string | undefined,
): Promise<T[]> {
  if (visibleTo === undefined) return [...records];
  const originals = (await tx.getAll(records.map((record) => keys.session(rootOf(record))))) as (Session | undefined)[];
  return records.filter((_, i) => isVisibleTo(originals[i] ?? {}, visibleTo));
}

async function findRun(tx: Transaction, id: string, chain: Chain | undefined): Promise<RunDocument[]> {
  const owner = await tx.get<Owner>(keys.runId(id));
  if (!owner || (chain && owner.root !== chain.root)) return [];
  const [, run] = await tx.getAll([keys.head(owner.root), keys.run(owner.root, id)]);
  return run ? [run as RunDocument] : [];
}

async function withHolders(tx: Transaction, runs: readonly RunDocument[]): Promise<StoredRun[]> {
  const heads = (await tx.getAll(runs.map(({ run }) => keys.head(run.sessionId)))) as (Head | undefined)[];
  return runs.map(({ run, fence }, i) => {
    const lease = heads[i]?.lease;
    const isHeld = lease?.fence === fence && Date.parse(lease?.expiresAt ?? "") > Date.now();
    return { run, holder: isHeld && lease ? lease.holder : null };
  });
}

/** Like `SessionDriver.forgetKeys`. */
export async function forgetKeys(tx: Transaction, before: string): Promise<void> {
  for (const [key, { root, run: id }] of await tx.scan<KeyOwner>(keys.allRunKeys)) {
    const owner = await tx.get<KeyOwner>(key);
    if (owner?.run !== id) continue;
    const chain = await Chain.open(tx, root);
    const storedDocument = await tx.get<RunDocument>(keys.run(root, id));
    if (!storedDocument || storedDocument.run.startedAt >= before || isOpen(storedDocument.run)) continue;
    tx.delete(key, root);
    const run = { ...storedDocument.run, idempotencyKey: "", fingerprint: "", answer: null };
    tx.set(keys.run(root, id), root, { ...storedDocument, run } satisfies RunDocument);
    chain.save();
  }
}

/** Throws `SessionExistsError` if an id belongs to an ask of another chain. */
export async function checkAsks({ tx, root }: Chain, asks: readonly Ask[]): Promise<void> {
  const owners = (await tx.getAll(asks.map(({ id }) => keys.askId(id)))) as (Owner | undefined)[];
  for (const [i, { id }] of asks.entries()) if ((owners[i]?.root ?? root) !== root) throw new SessionExistsError(id);
}

/** Stores asks of the chain by id. An answered ask stays unchanged. */
export async function putAsks({ tx, root }: Chain, asks: readonly Ask[]): Promise<void> {
  for (const ask of asks) {
    const key = keys.ask(root, ask.id);
    const [owner, storedAsk] = await tx.getAll([keys.askId(ask.id), key]);
    if (!owner) tx.set(keys.askId(ask.id), root, { root } satisfies Owner);
    if ((storedAsk as Ask | undefined)?.state !== "answered") tx.set(key, root, { ...ask, sessionId: root });
  }
}

/** Like `SessionChange.answer`. */
export async function answerAsk(
  { tx, root }: Chain,
  { askId, ...answerFields }: NonNullable<SessionChange["answer"]>,
): Promise<AnswerResult | undefined> {
  const key = keys.ask(root, askId);
  const ask = await tx.get<Ask>(key);
  if (ask?.state !== "open") return ask && { ask, isAccepted: false };
  const answeredAsk: Ask = { ...ask, ...answerFields, state: "answered" };
  tx.set(key, root, answeredAsk);
  return { ask: answeredAsk, isAccepted: true };
}

/** Reads all asks of a chain, newest first. */
export async function asksOf({ tx, root }: Chain): Promise<Ask[]> {
  const entries = await tx.scan<Ask>(keys.asksOf(root));
  return entries.map(([, ask]) => ask).sort(compareByCreation);
}

const compareByCreation = (a: Ask, b: Ask): number => compareNewestFirst(a.createdAt, a.id, b.createdAt, b.id);

/** Like `SessionDriver.asks`. */
export async function listAsks(tx: Transaction, query: AskQuery): Promise<Ask[]> {
  const { open = false, visibleTo, limit, before } = query;
  const asks = await filterVisible(tx, await findAsks(tx, query), ({ sessionId }) => sessionId, visibleTo);
  return asks
    .filter((ask) => !open || ask.state === "open")
    .filter(({ createdAt, id }) => !before || compareNewestFirst(before.createdAt, before.id, createdAt, id) < 0)
    .sort(compareByCreation)
    .slice(0, limit);
}

async function findAsks(tx: Transaction, { id, sessionId, visibleTo }: AskQuery): Promise<Ask[]> {
  const chain = sessionId === undefined ? undefined : await Chain.findBySession(tx, sessionId);
  if (sessionId !== undefined && !chain) return [];
  if (id !== undefined) {
    const owner = await tx.get<Owner>(keys.askId(id));
    if (!owner || (chain && owner.root !== chain.root)) return [];
    const [, ask] = await tx.getAll([keys.head(owner.root), keys.ask(owner.root, id)]);
    return ask ? [ask as Ask] : [];
  }
  return chain ? asksOf(chain) : scanRecords<Ask>(tx, keys.allAsks, sessionPrefixes(visibleTo));
}

/** Lists the keys of the documents for the runs, asks and instructions of a chain. */
export async function listRecordKeys(chain: Chain): Promise<string[]> {
  const { root, head } = chain;
  const runs = (await runsOf(chain)).flatMap(({ run: { id, idempotencyKey } }) => [
    keys.run(root, id),
    keys.runId(id),
    ...(idempotencyKey === "" ? [] : [keys.runKey(idempotencyKey)]),
  ]);
  const asks = (await asksOf(chain)).flatMap(({ id }) => [keys.ask(root, id), keys.askId(id)]);
  return [...runs, ...asks, ...head.instructions.map(({ id }) => keys.instructionId(id))];
}
