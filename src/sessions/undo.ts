import { NothingToUndoError, PointNotFoundError, UndoConflictError } from "../ports/errors.js";
import { newId } from "../base/ids.js";
import type { FileHistory, UndoneFile } from "../ports/file-history.js";
import type { Session, Snapshot } from "../ports/session.js";
import type { SessionDriver } from "../ports/session-driver.js";
import { restore, revert } from "./revert.js";

/** How far an undo goes, and what it does. */
export interface UndoOptions {
  /** Id of the message that is to be the last. Default: all that the last run did is undone, its prompt included. */
  to?: string;
  /** Change nothing, and say what would be. Default false. */
  dryRun?: boolean;
  /** Overwrite what somebody else changed since, too. Default false: then nothing is undone. */
  force?: boolean;
  /** What was said stays. Default false. */
  filesOnly?: boolean;
}

/** What an undo did, or would do. */
export interface Undone {
  /** Each path that is not as it was, in order. */
  files: readonly UndoneFile[];
  /** What was said and is put aside now, for `restore`; null where that is nothing. */
  snapshot: Snapshot | null;
  /** Id of the message that is the last; `""`: none is left. */
  to: string;
}

/** What is needed to undo, under the chain's lease. */
interface Held {
  store: SessionDriver;
  history: FileHistory | undefined;
  session: Session;
  fence: number;
}

/** Runs that are looked at to find the last that can be seen. */
const RUNS = 100;

/** Rejects with `PointNotFoundError`, `NothingToUndoError` or `UndoConflictError`. */
export async function undo(held: Held, options: UndoOptions): Promise<Undone> {
  const { store, history, session, fence } = held;
  const { dryRun = false, force = false, filesOnly = false } = options;
  const { point, to, isEnd } = await pointOf(store, session, options.to);
  const id = newId();
  const seq = await lastSeq(store, session);
  const request = { ...placeOf(session), behind: { seq: point }, undo: id, seq, dryRun, force };
  const files = (await history?.restore(request)) ?? [];
  if (dryRun) return { files, snapshot: null, to };
  refuseConflicts(files);
  const snapshot = filesOnly || isEnd ? null : await revert(store, fence, session.id, to);
  if (snapshot || files.length > 0)
    await history?.mark(session.chain.root, { id, snapshotId: snapshot?.id ?? "", seq });
  return { files, snapshot, to };
}

/** Take the last undo back. Rejects as `undo`. */
export async function redo(held: Held, { dryRun = false, force = false }: UndoOptions): Promise<Undone> {
  const { store, history, session, fence } = held;
  const seq = await lastSeq(store, session);
  const last = await history?.lastUndo(session.chain.root);
  // What was said since would be put aside by it.
  if (!last || last.seq !== seq) throw new NothingToUndoError("there is no undo to take back");
  const request = { ...placeOf(session), behind: { undo: last.id }, undo: newId(), seq, dryRun, force };
  const files = (await history?.restore(request)) ?? [];
  if (!dryRun) {
    refuseConflicts(files);
    if (last.snapshotId !== "") await restore(store, fence, session.id, last.snapshotId);
    await history?.mark(session.chain.root, { redone: last.id });
  }
  const [end] = await store.messages(session.id, { scope: "chain", before: Number.MAX_SAFE_INTEGER, limit: 1 });
  return { files, snapshot: null, to: end?.id ?? "" };
}

function placeOf({ chain, projectDir }: Session): { sessionId: string; projectDir: string } {
  return { sessionId: chain.root, projectDir };
}

function refuseConflicts(files: readonly UndoneFile[]): void {
  if (files.some(({ outcome }) => outcome === "conflict")) throw new UndoConflictError(files);
}

/** The `seq` behind which all is undone, and the message that is the last then. */
async function pointOf(
  store: SessionDriver,
  { id, chain }: Session,
  wanted: string | undefined,
): Promise<{ point: number; to: string; isEnd: boolean }> {
  const said = await store.messages(id, { scope: "chain" });
  const end = said.at(-1);
  if (wanted !== undefined) {
    const last = said.find((message) => message.id === wanted);
    if (!last) throw new PointNotFoundError("message");
    return { point: last.seq, to: last.id, isEnd: last === end };
  }
  const runs = await store.runs({ sessionId: chain.root, limit: RUNS });
  // Of a run whose messages a revert has hidden nothing is left to be undone.
  const run = runs
    .map(({ run }) => run)
    .find(({ line, after }) => line === null && end !== undefined && after < end.seq);
  if (!run) throw new NothingToUndoError("there is no run to undo");
  return { point: run.after, to: said.findLast(({ seq }) => seq <= run.after)?.id ?? "", isEnd: false };
}

async function lastSeq(store: SessionDriver, { chain, lastSeq }: Session): Promise<number> {
  return (await store.newest(chain.root))?.lastSeq ?? lastSeq;
}
