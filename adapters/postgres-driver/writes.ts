import { randomUUID } from "node:crypto";
import type { Ask } from "gantry";
import type {
  AskAnswered,
  ChainData,
  Holder,
  Instruction,
  Lease,
  LeaseHeld,
  LeaseOptions,
  LeaseTaken,
  SessionChange,
  SessionStart,
} from "gantry/plugin";
import { LONG } from "./calls.js";
import { headOf } from "./reads.js";
import {
  askOf,
  instructionOf,
  rowOfAsk,
  rowOfFields,
  rowOfMessage,
  rowOfRun,
  rowOfSession,
  rowOfSnapshot,
  rowsOfDeltas,
} from "./rows.js";
import type { AskRow, Part } from "./rows.js";
import type { Store } from "./store.js";
import { stored, told } from "./texts.js";

/** A change, ready to be sent: what it was made of may become another meanwhile. */
export type Work<T> = (store: Store) => Promise<T>;

/** Most messages that one statement deletes. */
const SWEEP = 5000;

/** Undefined for an empty list: a function of the database then does nothing about it. */
function rowsOf<T>(list: readonly T[] | undefined, row: (one: T) => unknown): unknown[] | undefined {
  return list && list.length > 0 ? list.map(row) : undefined;
}

export function createSession(start: SessionStart, full: boolean): Work<void> {
  const { session, messages = [], view = [], run, fence = null, sync = true } = start;
  const data = { session, cut: "", view: [...view], messages: messages.map((message) => ({ message, cut: "" })) };
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
    data.messages.map(({ message, cut }) => ({
      ...rowOfMessage(message),
      idx: data.session.chain.index,
      cut: stored(cut),
    })),
  );
  const views = sessions.filter(({ view }) => view.length > 0);
  return {
    sessions: sessions.map(({ session, cut, messages: said }) =>
      rowOfSession(
        session,
        said.map(({ message }) => message.seq),
        cut,
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
  const fields = { call: "create", id: stored(root), fresh, fence, token: randomUUID(), sync, change: chain };
  const call = { text: fieldsOf(fields), sync, reads: false };
  return async (store) => void (await store.call(call));
}

/** As JSON, without the braces. */
function fieldsOf(fields: Record<string, unknown>): string {
  return JSON.stringify(fields).slice(1, -1);
}

/** Tells the instructions that are left where the lease was given back. */
export function changeSession(id: string, change: SessionChange, full: boolean): Work<Instruction[]> {
  const { fence, sync, set, usage, add = [], append = [], finish = [], cut, restore, release = false } = change;
  const fields = set || usage || add.length > 0;
  const seqs = add.map(({ seq }) => seq);
  const says = add.length + append.length + finish.length > 0 || cut !== undefined || restore !== undefined;
  const rows = {
    fields: fields ? rowOfFields(set ?? {}, usage, seqs) : undefined,
    cut: cut && rowOfSnapshot(cut),
    restore: restore === undefined ? undefined : stored(restore),
    add: rowsOf(add, rowOfMessage),
    append: rowsOf(rowsOfDeltas(append), (row) => row),
    finish: rowsOf(finish, rowOfMessage),
    runs: rowsOf(change.runs, rowOfRun),
    asks: rowsOf(change.asks, rowOfAsk),
    followed: rowsOf(change.followed, stored),
  };
  const text = fieldsOf({
    call: "write",
    id: stored(id),
    fence,
    token: randomUUID(),
    sync: full && sync,
    release: release && fence !== null,
    says,
    change: rows,
  });
  const call = { text, sync: full && sync, reads: false, patient: true };
  return async (store) =>
    (await store.call(call)).map(({ tag, body }) => instructionOf({ root: tag, instruction: body }));
}

export function takeLease(
  id: string,
  holder: Holder,
  ttlMs: number,
  { replacing, head }: LeaseOptions = {},
): Work<LeaseTaken | LeaseHeld> {
  const text = fieldsOf({
    call: "lease",
    id: stored(id),
    holder_id: stored(holder.id),
    holder: JSON.stringify(holder),
    ttl: Math.round(ttlMs),
    replacing,
    head: head !== undefined,
    messages: head?.messages ?? false,
    known: head?.known,
  });
  return async (store) => leaseOf(await store.call({ text, sync: false, reads: false }), head !== undefined);
}

/** What `lease` of the database told. */
function leaseOf(rows: readonly Part[], isWanted: boolean): LeaseTaken | LeaseHeld {
  const [first, ...parts] = rows;
  if (!first) throw new Error("the database told nothing of the lease");
  const lease: Lease = {
    rootId: told(first.tag),
    holder: JSON.parse(first.body) as Holder,
    fence: Number(first.seq),
    expiresAt: new Date(Number(first.more)).toISOString(),
  };
  if (first.kind === "h") return { heldBy: lease };
  const previous = first.gained === null ? {} : { previous: Number(first.gained) };
  const found = isWanted ? headOf(parts) : undefined;
  return { ...lease, ...previous, ...(found && { head: found }) };
}

export function releaseLease({ rootId, fence }: Lease): Work<void> {
  const text = fieldsOf({ call: "release", id: stored(rootId), fence });
  return async (store) => void (await store.call({ text, sync: false, reads: false }));
}

export function answerAsk(
  id: string,
  { reply, answeredBy, closedAt }: AskAnswered,
): Work<{ ask: Ask; counts: boolean } | undefined> {
  const values = [stored(id), randomUUID(), JSON.stringify({ reply, answeredBy, closedAt })];
  return async (store) => {
    const [row] = await store.change<AskRow & { counts: boolean }>("SELECT * FROM @.answer@v($1, $2, $3)", values);
    return row && { ask: askOf(row), counts: row.counts };
  };
}

export function instructRun(instruction: Instruction): Work<void> {
  const values = [stored(instruction.sessionId), randomUUID(), stored(instruction.id), JSON.stringify(instruction)];
  return async (store) => void (await store.change("SELECT @.instruct@v($1, $2, $3, $4)", values));
}

export function withdrawInstruction(id: string): Work<boolean> {
  const values = [stored(id), randomUUID()];
  return async (store) => {
    const [row] = await store.change<{ done: boolean }>("SELECT @.withdraw@v($1, $2) AS done", values);
    return row?.done ?? false;
  };
}

export function forgetKeys(before: string): Work<void> {
  return async (store) => void (await store.change("SELECT @.forget_keys@v($1)", [stored(before)], LONG));
}

/** With what others began to delete and did not end. */
export function deleteChains(ids: readonly string[]): Work<void> {
  let given = ids.map(stored);
  return async (store) => {
    for (;;) {
      const chains = await store.change<{ chain: string }>("SELECT * FROM @.delete@v($1, $2)", [given, SWEEP], LONG);
      if (chains.length === 0) return;
      for (const { chain } of chains) await store.change("SELECT @.sweep@v($1, $2)", [chain, SWEEP], LONG);
      given = [];
    }
  };
}
