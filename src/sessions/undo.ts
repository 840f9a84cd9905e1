import { InputError, NothingToUndoError, PointNotFoundError, UndoConflictError } from "../ports/errors.js";
import { newId } from "../base/ids.js";
import type { ExpectedChange, FileHistory, RestoreRequest, UndoMark, UndoneFile } from "../ports/file-history.js";
import type { Message } from "../ports/message.js";
import type { Session, Snapshot } from "../ports/session.js";
import type { SessionDriver } from "../ports/session-driver.js";
import { headOf } from "./require-session.js";
import { restore, revert } from "./revert.js";

/** How far an undo goes, and what it does. */
export interface UndoOptions {
  /** Id of the message that is to be the last. Default: all that the last run did is undone, its prompt included. */
  to?: string | undefined;
  /** Change nothing, and say what would be. Default false. */
  dryRun?: boolean | undefined;
  /** Overwrite what somebody else changed since, too, and leave what cannot be brought back. Default false: then nothing is undone. */
  force?: boolean | undefined;
  /** What was said stays. Default false. */
  filesOnly?: boolean | undefined;
  /** Files stay as they are. Default false. */
  wordsOnly?: boolean | undefined;
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

/** Built-in tools that say which files they changed. */
const CHANGERS: ReadonlySet<string> = new Set(["write", "edit", "multiedit", "apply_patch", "delete"]);

/**
 * What was begun and never ended, by a crash, is gone on with where it is not told how far it goes. Rejects with
 * `InputError`, `PointNotFoundError`, `NothingToUndoError` or `UndoConflictError`.
 */
export async function undo(held: Held, options: UndoOptions): Promise<Undone> {
  const { store, history, session, fence } = held;
  const { dryRun = false, force = false, filesOnly = false, wordsOnly = false } = options;
  if (filesOnly && wordsOnly) throw new InputError("wordsOnly", "false where filesOnly is true");
  const { newest, snapshots } = await headOf(store, session.id);
  const seq = newest.lastSeq;
  const last = await history?.lastUndo(session.chain.root);
  const open = last?.isOpen === true && last.seq === seq ? last : undefined;
  const said = await store.messages(session.id, { scope: "chain" });
  const { point, to } = open && options.to === undefined ? open : await pointOf(store, session, said, options.to);
  const isEnd = (said.at(-1)?.id ?? "") === to;
  // It ended so far that only its mark is missing.
  const aside = open && isEnd ? snapshots.find(({ id }) => id === open.snapshotId) : undefined;
  const isRevert = !filesOnly && !isEnd;
  const snapshotId = isRevert ? newId() : (aside?.id ?? "");
  const begins: UndoMark = { id: open?.id ?? newId(), snapshotId, seq, point, to };
  const expected = changesTold(said, point);
  const request = {
    ...placeOf(session),
    behind: { seq: point },
    undo: begins.id,
    begins,
    expected,
    seq,
    dryRun,
    force,
  };
  // A helper's changes are kept for whoever asked for it.
  const asker = session.spawnedBy?.sessionId;
  const keeper = asker !== undefined && expected.length > 0 ? undefined : history;
  const why = asker === undefined ? "nobody keeps files here" : `it is undone with session ${asker}`;
  const files = wordsOnly ? [] : ((await keeper?.restore(request)) ?? unkept(expected, why, request));
  if (dryRun) return { files, snapshot: null, to };
  const snapshot = isRevert ? await revert(store, fence, session.id, to, snapshotId) : (aside ?? null);
  if (snapshot || files.length > 0 || open) await history?.mark(session.chain.root, begins);
  return { files, snapshot, to };
}

/** Take the last undo back, also one that was begun and never ended. Rejects as `undo`. */
export async function redo(held: Held, { dryRun = false, force = false }: UndoOptions): Promise<Undone> {
  const { store, history, session, fence } = held;
  const { newest, snapshots } = await headOf(store, session.id);
  const seq = newest.lastSeq;
  const last = await history?.lastUndo(session.chain.root);
  // What was said since would be put aside by it.
  if (!last || last.seq !== seq) throw new NothingToUndoError("there is no undo to take back");
  const { id, snapshotId, point, to } = last;
  const begins: UndoMark = { id, snapshotId, seq, point, to };
  const request = { ...placeOf(session), behind: { undo: id }, undo: newId(), begins, seq, dryRun, force };
  const files = (await history?.restore(request)) ?? [];
  if (!dryRun) {
    // Of one that did not come so far no words are aside.
    const isAside = snapshots.some((one) => one.id === snapshotId);
    if (isAside) await restore(store, fence, session.id, snapshotId);
    await history?.mark(session.chain.root, { redone: id });
  }
  const [end] = await store.messages(session.id, { scope: "chain", before: Number.MAX_SAFE_INTEGER, limit: 1 });
  return { files, snapshot: null, to: end?.id ?? "" };
}

/** What was changed behind a point, as the calls said that did it. */
function changesTold(said: readonly Message[], point: number): ExpectedChange[] {
  return said.flatMap(({ seq, role, name, failed, shown, toolCallId: callId }) =>
    seq <= point || role !== "tool" || failed || !CHANGERS.has(name)
      ? []
      : // A patch names files, too, that it left as they were.
        [...(shown?.diff ?? []), ...(name === "apply_patch" ? [] : (shown?.locations ?? []))].map(({ path }) => ({
          callId,
          path,
        })),
  );
}

/** Nobody keeps files: what was changed stays so, and is told. */
function unkept(
  expected: readonly ExpectedChange[],
  why: string,
  { dryRun, force }: Pick<RestoreRequest, "dryRun" | "force">,
): UndoneFile[] {
  const paths = [...new Set(expected.map(({ path }) => path))].sort();
  const files = paths.map((path): UndoneFile => ({ path, outcome: "lost", why }));
  if (files.length > 0 && !force && !dryRun) throw new UndoConflictError(files);
  return files;
}

function placeOf({ chain, projectDir }: Session): { sessionId: string; projectDir: string } {
  return { sessionId: chain.root, projectDir };
}

/** The `seq` behind which all is undone, and the message that is the last then. */
async function pointOf(
  store: SessionDriver,
  { chain }: Session,
  said: readonly Message[],
  wanted: string | undefined,
): Promise<{ point: number; to: string }> {
  const end = said.at(-1);
  if (wanted !== undefined) {
    const last = said.find((message) => message.id === wanted);
    if (!last) throw new PointNotFoundError("message");
    return { point: last.seq, to: last.id };
  }
  const runs = await store.runs({ sessionId: chain.root, limit: RUNS });
  // Of a run whose messages a revert has hidden nothing is left to be undone.
  const run = runs
    .map(({ run }) => run)
    .find(({ line, after }) => line === null && end !== undefined && after < end.seq);
  if (!run) throw new NothingToUndoError("there is no run to undo");
  return { point: run.after, to: said.findLast(({ seq }) => seq <= run.after)?.id ?? "" };
}
