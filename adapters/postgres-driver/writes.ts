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
import { leaseHeadOf } from "./reads.js";
import {
  askOf,
  instructionOf,
  rowOfAnswer,
  rowOfAsk,
  rowOfFields,
  rowOfMessage,
  rowOfRun,
  rowOfSession,
  rowOfSnapshot,
  rowsOfDeltas,
} from "./rows.js";
import type { ReadRow } from "./rows.js";
import type { SchemaStore } from "./store.js";
import { encodeText, decodeText } from "./text-encoding.js";

/** A change whose data is already copied, so that the caller may modify its input. */
export type Work<T> = (store: SchemaStore) => Promise<T>;

/** Maximum number of messages that one statement deletes. */
const MAX_DELETED_MESSAGES = 5000;

/** Undefined for an empty list, so that the database function skips it. */
function rowsOf<T>(list: readonly T[] | undefined, row: (item: T) => unknown): unknown[] | undefined {
  return list && list.length > 0 ? list.map(row) : undefined;
}

export function createSession(start: SessionStart, full: boolean): Work<void> {
  const { session, messages = [], view = [], run, fence = null, sync = true } = start;
  const data = {
    session,
    hiddenBy: "",
    view: [...view],
    messages: messages.map((message) => ({ message, hiddenBy: "" })),
  };
  const chain = chainOf({ sessions: [data], snapshots: [], runs: run ? [run] : [], asks: [] });
  const { root } = session.chain;
  return create(root, root === session.id, fence, full && sync, chain);
}

export function loadChain(chain: ChainData, full: boolean): Work<void> {
  const root = chain.sessions[0]?.session.id ?? "";
  return create(root, true, null, full, { ...chainOf(chain), load: true });
}

function chainOf({ sessions, snapshots, runs, asks }: ChainData): Record<string, unknown> {
  const messages = sessions.flatMap((data) =>
    data.messages.map(({ message, hiddenBy }) => ({
      ...rowOfMessage(message),
      idx: data.session.chain.index,
      cut: encodeText(hiddenBy),
    })),
  );
  const views = sessions.filter(({ view }) => view.length > 0);
  return {
    sessions: sessions.map(({ session, hiddenBy, messages: sessionMessages }) =>
      rowOfSession(
        session,
        sessionMessages.map(({ message }) => message.seq),
        hiddenBy,
      ),
    ),
    messages: rowsOf(messages, (row) => row),
    views: rowsOf(views, ({ session, view }) => ({ idx: session.chain.index, messages: JSON.stringify(view) })),
    snapshots: rowsOf(snapshots, rowOfSnapshot),
    runs: rowsOf(runs, rowOfRun),
    asks: rowsOf(asks, rowOfAsk),
  };
}

function create(
  root: string,
  fresh: boolean,
  fence: number | null,
  sync: boolean,
  chain: Record<string, unknown>,
): Work<void> {
  const fields = { call: "create", id: encodeText(root), fresh, fence, token: randomUUID(), sync, change: chain };
  const call = { text: fieldsOf(fields), sync, isReadOnly: false };
  return async (store) => void (await store.call(call));
}

/** Encodes the fields as JSON, without the braces. */
function fieldsOf(fields: Record<string, unknown>): string {
  return JSON.stringify(fields).slice(1, -1);
}

export function changeSession(id: string, change: SessionChange, full: boolean): Work<ChangeResult> {
  const { fence, sync, set, usage, add = [], append = [], finish = [], revert, restore, release = false } = change;
  const { answer, instruct } = change;
  const fields = set || usage || add.length > 0;
  const seqs = add.map(({ seq }) => seq);
  const changesMessages =
    add.length + append.length + finish.length > 0 || revert !== undefined || restore !== undefined;
  const content = {
    fields: fields ? rowOfFields(set ?? {}, usage, seqs) : undefined,
    cut: revert && rowOfSnapshot(revert),
    restore: restore === undefined ? undefined : encodeText(restore),
    add: rowsOf(add, rowOfMessage),
    append: rowsOf(rowsOfDeltas(append), (row) => row),
    finish: rowsOf(finish, rowOfMessage),
    runs: rowsOf(change.runs, rowOfRun),
    asks: rowsOf(change.asks, rowOfAsk),
  };
  const requests = {
    answer: answer && rowOfAnswer(answer),
    instruct: instruct && { id: encodeText(instruct.id), instruction: JSON.stringify(instruct) },
    followed: rowsOf(change.consumedInstructions, encodeText),
  };
  // A run waits for a server that is away. A caller that only releases, answers or instructs gets the error at once.
  const patient = Object.values(content).some((value) => value !== undefined);
  const text = fieldsOf({
    call: "write",
    id: encodeText(id),
    fence,
    token: randomUUID(),
    sync: full && sync,
    release: release && fence !== null,
    says: changesMessages,
    change: { ...content, ...requests },
  });
  const call = { text, sync: full && sync, isReadOnly: false, patient };
  return async (store) => resultOf(await store.call(call));
}

/** Parses the result of the database function `write`. */
function resultOf(parts: readonly ReadRow[]): ChangeResult {
  const instructions: Instruction[] = [];
  const consumedInstructions: string[] = [];
  let answer: AnswerResult | undefined;
  for (const { kind, done, tag, body, more, gained } of parts)
    if (kind === "i") instructions.push(instructionOf({ root: tag, instruction: body }));
    else if (kind === "f") consumedInstructions.push(decodeText(tag));
    else answer = { ask: askOf({ root: gained ?? "", state: tag, ask: body, answered: more ?? "" }), isAccepted: done };
  return { instructions, consumedInstructions, ...(answer && { answer }) };
}

export function takeLease(
  id: string,
  holder: LeaseHolder,
  ttlMs: number,
  { fenceToReplace, head }: LeaseOptions = {},
): Work<AcquiredLease | LeaseConflict> {
  const text = fieldsOf({
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
  return async (store) => leaseOf(await store.call({ text, sync: false, isReadOnly: false }), head !== undefined);
}

/** Parses the result of the database function `lease`. */
function leaseOf(rows: readonly ReadRow[], isWanted: boolean): AcquiredLease | LeaseConflict {
  const [first, ...parts] = rows;
  if (!first) throw new Error("the database returned no lease");
  const lease: Lease = {
    rootId: decodeText(first.tag),
    holder: JSON.parse(first.body) as LeaseHolder,
    fence: Number(first.seq),
    expiresAt: new Date(Number(first.more)).toISOString(),
  };
  if (first.kind === "h") return { heldBy: lease };
  const previous = first.gained === null ? {} : { previous: Number(first.gained) };
  const currentHead = isWanted ? leaseHeadOf(parts) : undefined;
  return { ...lease, ...previous, ...(currentHead && { head: currentHead }) };
}

export function forgetKeys(before: string): Work<void> {
  return async (store) =>
    void (await store.change("SELECT @.forget_keys@v($1)", [encodeText(before)], LONG_STATEMENT_SECONDS));
}

/** Deletes chains, and completes deletes that another process started and did not finish. */
export function deleteChains(ids: readonly string[]): Work<void> {
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
