import { newId, now } from "../base/ids.js";
import type { ChangePlace, FileChange, FileKeeper, FileState, Keeping, UndoMark } from "../ports/file-history.js";
import type { Logger } from "../ports/logger.js";
import { Journal, type ChangeLine, type Known, type Step, type Story } from "./journal.js";
import { hashOf, KeptContents, type Place } from "./content-store.js";

/** An undo as it is noted before it is made. */
export interface Planned {
  mark: UndoMark;
  /** Of the one that this is. */
  undo: string;
  seq: number;
  folders: readonly string[];
  /** `before` is what is there now. */
  steps: Step[];
}

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

  keeper(place: ChangePlace): FileKeeper {
    return { keep: (changes) => this.#keep(place, changes) };
  }

  story(): Promise<Story> {
    return this.#next(() => this.#journal.story());
  }

  /** Undefined where it is gone. */
  async content(hash: string, { contents }: Story): Promise<Buffer | undefined> {
    const place = contents.get(hash);
    return place && this.#contents.read(place, hash);
  }

  /**
   * Note what an undo is about to do, with a copy of what is there, which `contentOf` gives. Resolves with the change's id
   * when the disk has all of it. Rejects where that cannot be; nothing is noted then.
   */
  async begin(plan: Planned, contentOf: (step: Step) => Promise<Buffer>): Promise<string> {
    const { mark, undo, seq, folders, steps } = plan;
    const change = newId();
    await this.#next(async () => {
      const story = await this.#journal.story();
      const begun = { begun: mark };
      if (steps.length === 0) return this.#journal.add(begun, true);
      const has = await this.#present(story);
      const contents: Record<string, Place> = {};
      await this.#contents.addAll(async (add) => {
        for (const step of steps) {
          const { before } = step;
          if (before.kind === "file" && !contents[before.hash] && !has(before.hash))
            contents[before.hash] = await add(await contentOf(step));
        }
      });
      const line: ChangeLine = { change, run: "", call: "", undo, seq, folders, at: now(), steps, contents };
      await this.#journal.add([begun, line], true);
    });
    return change;
  }

  async mark(mark: UndoMark | { readonly redone: string }): Promise<void> {
    await this.#next(() => this.#journal.add("redone" in mark ? mark : { undone: mark, at: now() }, true));
  }

  /** Not awaited by the tool: where it is lost, the state before counts as ours, too. */
  done(change: string): void {
    this.#next(() => this.#journal.add({ done: change }, false)).catch((error: unknown) =>
      this.#logger.debug("a change of a file was not noted as made", { error }),
    );
  }

  /** Nothing is being written any more. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#work;
  }

  async #keep({ runId, callId, seq, folders = [] }: ChangePlace, changes: readonly FileChange[]): Promise<Keeping> {
    const change = newId();
    try {
      const isWhole = await this.#next(async () => {
        const has = await this.#present(await this.#journal.story());
        const contents: Record<string, Place> = {};
        let whole = true;
        const steps: Step[] = [];
        for (const { path, before, after, made = 0 } of changes) {
          const was = knownOf(before);
          if (was.kind === "file" && before.kind === "file") {
            if (before.content === undefined) whole = false;
            // What was kept before may be gone by now.
            else if (!contents[was.hash] && !has(was.hash))
              contents[was.hash] = await this.#contents.add(before.content);
          }
          steps.push({ path, before: was, after: knownOf(after), made });
        }
        const line: ChangeLine = {
          ...{ change, run: runId, call: callId, undo: "", seq, folders, at: now(), steps, contents },
        };
        await this.#journal.add(line, true);
        return whole;
      });
      return { kept: isWhole, done: () => this.done(change) };
    } catch (error) {
      if (!this.#isTold) this.#logger.warn("what a file was could not be kept; its change cannot be undone", { error });
      this.#isTold = true;
      return { kept: false, done: () => undefined };
    }
  }

  async #present({ contents }: Story): Promise<(hash: string) => boolean> {
    const packs = new Map((await this.#contents.packs()).map(({ pack, bytes }) => [pack, bytes]));
    return (hash) => {
      const place = contents.get(hash);
      return place !== undefined && (packs.get(place.pack) ?? -1) >= place.at + place.size;
    };
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
