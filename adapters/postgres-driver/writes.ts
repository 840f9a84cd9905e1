import { randomUUID } from "node:crypto";
import type {
  AnswerResult,
  ChainData,
  ChangeResult,
  LeaseHolder,
  Instruction,
  Lease,
  LeaseConflict,
  LeaseOptions,
  AcquiredLease,
  SessionChange,
  SessionStart,
} from "gantry/plugin";
import { LONG_STATEMENT_SECONDS } from "./call-batcher.js";
import { toLeaseHead } from "./reads.js";
import {
  toAsk,
  toInstruction,
  toAnswerRow,
  toAskRow,
  toFieldsRow,
  toMessageRow,
  toRunRow,
  toSessionRow,
  toSnapshotRow,
  toDeltaRows,
} from "./rows.js";
import type { ReadRow } from "./rows.js";
import type { SchemaStore } from "./store.js";
import { encodeText, decodeText } from "./text-encoding.js";

/** A change whose data is already encoded, so that the caller may modify its input. */
export type PreparedChange<T> = (store: SchemaStore) => Promise<T>;

/** Maximum number of messages that one statement deletes. */
const MAX_DELETED_MESSAGES = 5000;

/** Converts a list. Undefined for an empty list, so that the database function skips the list. */
function mapRows<T>(list: readonly T[] | undefined, toRow: (item: T) => unknown): unknown[] | undefined {
  return list && list.length > 0 ? list.map(toRow) : undefined;
}

export function createSession(start: SessionStart, isFullyDurable: boolean): PreparedChange<void> {
  const { session, messages = [], view = [], run, fence = null, sync = true } = start;
  const sessionData = {
    session,
    hiddenBy: "",
    view: [...view],
    messages: messages.map((message) => ({ message, hiddenBy: "" })),
  };
  const chainRows = toChainRows({ sessions: [sessionData], snapshots: [], runs: run ? [run] : [], asks: [] });
  const { root } = session.chain;
  return prepareCreate(root, root === session.id, fence, isFullyDurable && sync, chainRows);
}

export function loadChain(chain: ChainData, isFullyDurable: boolean): PreparedChange<void> {
  const root = chain.sessions[0]?.session.id ?? "";
  return prepareCreate(root, true, null, isFullyDurable, { ...toChainRows(chain), load: true });
}

function toChainRows({ sessions, snapshots, runs, asks }: ChainData): Record<string, unknown> {
  const messages = sessions.flatMap((data) =>
    data.messages.map(({ message, hiddenBy }) => ({
      ...toMessageRow(message),
      idx: data.session.chain.index,
      cut: encodeText(hiddenBy),
    })),
  );
  const views = sessions.filter(({ view }) => view.length > 0);
  return {
    sessions: sessions.map(({ session, hiddenBy, messages: sessionMessages }) =>
      toSessionRow(
        session,
        sessionMessages.map(({ message }) => message.seq),
        hiddenBy,
      ),
    ),
    messages: mapRows(messages, (row) => row),
    views: mapRows(views, ({ session, view }) => ({ idx: session.chain.index, messages: JSON.stringify(view) })),
    snapshots: mapRows(snapshots, toSnapshotRow),
    runs: mapRows(runs, toRunRow),
    asks: mapRows(asks, toAskRow),
  };
}

function prepareCreate(
  root: string,
  isNewChain: boolean,
  fence: number | null,
  needsSync: boolean,
  chainRows: Record<string, unknown>,
): PreparedChange<void> {
  const fields = {
    call: "create",
    id: encodeText(root),
    fresh: isNewChain,
    fence,
    token: randomUUID(),
    sync: needsSync,
    change: chainRows,
  };
  const call = { json: encodeFields(fields), needsSync, isReadOnly: false };
  return async (store) => void (await store.call(call));
}

/** Encodes the fields as JSON, without the braces. */
function encodeFields(fields: Record<string, unknown>): string {
  return JSON.stringify(fields).slice(1, -1);
}

export function changeSession(
  id: string,
  change: SessionChange,
  isFullyDurable: boolean,
): PreparedChange<ChangeResult> {
  const { fence, sync, set, usage, add = [], append = [], finish = [], revert, restore, release = false } = change;
  const { answer, instruct } = change;
  const changesFields = set || usage || add.length > 0;
  const seqs = add.map(({ seq }) => seq);
  const changesMessages =
    add.length + append.length + finish.length > 0 || revert !== undefined || restore !== undefined;
  const content = {
    fields: changesFields ? toFieldsRow(set ?? {}, usage, seqs) : undefined,
    cut: revert && toSnapshotRow(revert),
    restore: restore === undefined ? undefined : encodeText(restore),
    add: mapRows(add, toMessageRow),
    append: mapRows(toDeltaRows(append), (row) => row),
    finish: mapRows(finish, toMessageRow),
    runs: mapRows(change.runs, toRunRow),
    asks: mapRows(change.asks, toAskRow),
  };
  const requests = {
    answer: answer && toAnswerRow(answer),
    instruct: instruct && { id: encodeText(instruct.id), instruction: JSON.stringify(instruct) },
    followed: mapRows(change.consumedInstructions, encodeText),
  };
  // A change of data waits for an unreachable server. A change that only releases, answers or instructs fails at once.
  const isPatient = Object.values(content).some((value) => value !== undefined);
  const needsSync = isFullyDurable && sync;
  const json = encodeFields({
    call: "write",
    id: encodeText(id),
    fence,
    token: randomUUID(),
    sync: needsSync,
    release: release && fence !== null,
    says: changesMessages,
    change: { ...content, ...requests },
  });
  const call = { json, needsSync, isReadOnly: false, isPatient };
  return async (store) => toChangeResult(await store.call(call));
}

/** Parses the result of the database function `write`. */
function toChangeResult(rows: readonly ReadRow[]): ChangeResult {
  const instructions: Instruction[] = [];
  const consumedInstructions: string[] = [];
  let answer: AnswerResult | undefined;
  for (const { kind, done, tag, body, more, gained } of rows)
    if (kind === "i") instructions.push(toInstruction({ root: tag, instruction: body }));
    else if (kind === "f") consumedInstructions.push(decodeText(tag));
    else answer = { ask: toAsk({ root: gained ?? "", state: tag, ask: body, answered: more ?? "" }), isAccepted: done };
  return { instructions, consumedInstructions, ...(answer && { answer }) };
}

export function takeLease(
  id: string,
  holder: LeaseHolder,
  ttlMs: number,
  { fenceToReplace, head }: LeaseOptions = {},
): PreparedChange<AcquiredLease | LeaseConflict> {
  const json = encodeFields({
    call: "lease",
    id: encodeText(id),
    holder_id: encodeText(holder.id),
    holder: JSON.stringify(holder),
    ttl: Math.round(ttlMs),
    replacing: fenceToReplace,
    head: head !== undefined,
    messages: head?.messages ?? false,
    known: head?.cachedFence,
  });
  return async (store) => toLease(await store.call({ json, needsSync: false, isReadOnly: false }), head !== undefined);
}

/** Parses the result of the database function `lease`. */
function toLease(rows: readonly ReadRow[], includesHead: boolean): AcquiredLease | LeaseConflict {
  const [leaseRow, ...headRows] = rows;
  if (!leaseRow) throw new Error("the database returned no lease");
  const lease: Lease = {
    rootId: decodeText(leaseRow.tag),
    holder: JSON.parse(leaseRow.body) as LeaseHolder,
    fence: Number(leaseRow.seq),
    expiresAt: new Date(Number(leaseRow.more)).toISOString(),
  };
  if (leaseRow.kind === "h") return { heldBy: lease };
  const previous = leaseRow.gained === null ? {} : { previous: Number(leaseRow.gained) };
  const currentHead = includesHead ? toLeaseHead(headRows) : undefined;
  return { ...lease, ...previous, ...(currentHead && { head: currentHead }) };
}

export function forgetKeys(startedBefore: string): PreparedChange<void> {
  return async (store) =>
    void (await store.change("SELECT @.forget_keys@v($1)", [encodeText(startedBefore)], LONG_STATEMENT_SECONDS));
}

/** Deletes chains, and completes deletes that another process started and did not finish. */
export function deleteChains(ids: readonly string[]): PreparedChange<void> {
  let remainingIds = ids.map(encodeText);
  return async (store) => {
    for (;;) {
      const chains = await store.change<{ chain: string }>(
        "SELECT * FROM @.delete@v($1, $2)",
        [remainingIds, MAX_DELETED_MESSAGES],
        LONG_STATEMENT_SECONDS,
      );
      if (chains.length === 0) return;
      for (const { chain } of chains)
        await store.change("SELECT @.sweep@v($1, $2)", [chain, MAX_DELETED_MESSAGES], LONG_STATEMENT_SECONDS);
      remainingIds = [];
    }
  };
}
