import { newId, now } from "../base/ids.js";
import type { ChangePlace, FileChange, FileKeeper, FileState, Keeping, UndoMark } from "../ports/file-history.js";
import type { Logger } from "../ports/logger.js";
import { Journal, type ChangeLine, type Known, type Step, type Story } from "./journal.js";
import { hashOf, KeptContents, type Place } from "./kept-contents.js";

/** Where a change is noted: in a run, or in an undo. */
export type Noted = ChangePlace & { readonly undo: string };

/** What is kept of one session's files, in a folder of its own. One writes at a time. */
export class SessionFiles implements AsyncDisposable {
  readonly #journal: Journal;
  readonly #contents: KeptContents;
  readonly #logger: Logger;
  #work: Promise<unknown> = Promise.resolve();
  #isTold = false;

  constructor(folder: string, limit: number, logger: Logger) {
    this.#journal = new Journal(folder);
    this.#contents = new KeptContents(folder, limit);
    this.#logger = logger;
  }

  keeper(noted: Noted): FileKeeper {
    return { keep: (changes) => this.#keep(noted, changes) };
  }

  story(): Promise<Story> {
    return this.#next(() => this.#journal.story());
  }

  /** Undefined where it is gone. */
  async content(hash: string): Promise<Buffer | undefined> {
    const place = (await this.story()).contents.get(hash);
    return place && this.#contents.read(place, hash);
  }

  async mark(mark: UndoMark | { readonly redone: string }): Promise<void> {
    const line =
      "redone" in mark
        ? { redone: mark.redone }
        : { undone: mark.id, snapshot: mark.snapshotId, seq: mark.seq, at: now() };
    await this.#next(() => this.#journal.add(line, true));
  }

  /** Nothing is being written any more. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#work;
  }

  async #keep({ runId, callId, undo, seq, folders = [] }: Noted, changes: readonly FileChange[]): Promise<Keeping> {
    const change = newId();
    try {
      const isWhole = await this.#next(async () => {
        const { contents: known } = await this.#journal.story();
        const contents: Record<string, Place> = {};
        let whole = true;
        const steps: Step[] = [];
        for (const { path, before, after, made = 0 } of changes) {
          const was = knownOf(before);
          if (was.kind === "file" && before.kind === "file") {
            if (before.content === undefined) whole = false;
            // What was kept before may be gone by now.
            else if (!(await this.#has(was.hash, { ...Object.fromEntries(known), ...contents })))
              contents[was.hash] = await this.#contents.add(before.content);
          }
          steps.push({ path, before: was, after: knownOf(after), made });
        }
        const line: ChangeLine = { change, run: runId, call: callId, undo, seq, folders, at: now(), steps, contents };
        await this.#journal.add(line, true);
        return whole;
      });
      return { kept: isWhole, done: () => this.#done(change) };
    } catch (error) {
      if (!this.#isTold) this.#logger.warn("what a file was could not be kept; its change cannot be undone", { error });
      this.#isTold = true;
      return { kept: false, done: () => undefined };
    }
  }

  async #has(hash: string, known: Record<string, Place>): Promise<boolean> {
    const place = known[hash];
    if (!place) return false;
    return (await this.#contents.packs()).some(
      ({ pack, bytes }) => pack === place.pack && bytes >= place.at + place.size,
    );
  }

  #done(change: string): void {
    // Not awaited by the tool: where it is lost, the state before counts as ours, too.
    this.#next(() => this.#journal.add({ done: change }, false)).catch((error: unknown) =>
      this.#logger.debug("a change of a file was not noted as made", { error }),
    );
  }

  #next<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#work.then(work);
    this.#work = mine.catch(() => undefined);
    return mine;
  }
}

/** As it is noted. */
export function knownOf(state: FileState): Known {
  if (state.kind !== "file") return state;
  const { content, mode, uid, gid } = state;
  return { kind: "file", hash: content === undefined ? "" : hashOf(content), mode, uid, gid };
}

/** Whether they are alike for who looks at a path. What is too large is like nothing. */
export function isSame(one: Known, other: Known): boolean {
  if (one.kind !== other.kind) return false;
  if (one.kind === "file") return one.hash !== "" && one.hash === (other as typeof one).hash;
  if (one.kind === "link") return one.target === (other as typeof one).target;
  return true;
}
