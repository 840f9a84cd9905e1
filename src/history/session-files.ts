import { newId, now } from "../base/ids.js";
import type {
  ChangeOrigin,
  FileChange,
  FileRecorder,
  FileState,
  RecordedChange,
  UndoMark,
} from "../ports/file-history.js";
import type { Logger } from "../ports/logger.js";
import { Journal, type ChangeLine, type StoredFileState, type PathChange, type JournalContents } from "./journal.js";
import { hashOf, ContentStore, type ContentLocation } from "./content-store.js";

/** An undo, recorded before it is applied. */
export interface UndoPlan {
  mark: UndoMark;
  /** Id of the undo. */
  undo: string;
  seq: number;
  folders: readonly string[];
  /** `before` is the current state. */
  steps: PathChange[];
}

/** The file history of one session, in its own folder. Reads and writes run one after another. */
export class SessionFiles implements AsyncDisposable {
  readonly #journal: Journal;
  readonly #contents: ContentStore;
  readonly #logger: Logger;
  #work: Promise<unknown> = Promise.resolve();
  #isFailureLogged = false;

  constructor(folder: string, limit: number, logger: Logger) {
    this.#journal = new Journal(folder);
    this.#contents = new ContentStore(folder, limit);
    this.#logger = logger;
  }

  keeper(place: ChangeOrigin): FileRecorder {
    return { record: (changes) => this.#record(place, changes) };
  }

  readJournal(): Promise<JournalContents> {
    return this.#enqueue(() => this.#journal.read());
  }

  /** Returns a stored content. Undefined if it was removed. */
  async content(hash: string, { contents }: JournalContents): Promise<Buffer | undefined> {
    const place = contents.get(hash);
    return place && this.#contents.read(place, hash);
  }

  /**
   * Records an undo before it is applied, with a copy of each current file from `contentOf`. Resolves with the id of
   * the change once everything is on disk.
   *
   * Rejects if the copies cannot be stored. The undo is then not recorded.
   */
  async begin(plan: UndoPlan, contentOf: (step: PathChange) => Promise<Buffer>): Promise<string> {
    const { mark, undo, seq, folders, steps } = plan;
    const change = newId();
    await this.#enqueue(async () => {
      const story = await this.#journal.read();
      const begun = { begun: mark };
      if (steps.length === 0) return this.#journal.add(begun, true);
      const has = await this.#storedHashes(story);
      const contents: Record<string, ContentLocation> = {};
      await this.#contents.addAll(async (add) => {
        for (const step of steps) {
          const { before } = step;
          if (before.kind === "file" && !contents[before.hash] && !has(before.hash))
            contents[before.hash] = await add(await contentOf(step));
        }
      });
      const line: ChangeLine = { change, run: "", call: "", undo: undo, seq, folders, at: now(), steps, contents };
      await this.#journal.add([begun, line], true);
    });
    return change;
  }

  async mark(mark: UndoMark | { readonly redone: string }): Promise<void> {
    await this.#enqueue(() => this.#journal.add("redone" in mark ? mark : { undone: mark, at: now() }, true));
  }

  /**
   * Records that a change was made. Not awaited: if the record is lost, the state before the change also counts as left
   * by this session.
   */
  done(change: string): void {
    this.#enqueue(() => this.#journal.add({ done: change }, false)).catch((error: unknown) =>
      this.#logger.debug("file change not confirmed in the history; undo accepts both states", { error }),
    );
  }

  /** Waits for the pending writes. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#work;
  }

  async #record(
    { runId, callId, seq, folders = [] }: ChangeOrigin,
    changes: readonly FileChange[],
  ): Promise<RecordedChange> {
    const change = newId();
    try {
      const isWhole = await this.#enqueue(async () => {
        const has = await this.#storedHashes(await this.#journal.read());
        const contents: Record<string, ContentLocation> = {};
        let isComplete = true;
        const steps: PathChange[] = [];
        for (const { path, before, after, createdFolders: made = 0 } of changes) {
          const was = toStoredState(before);
          if (was.kind === "file" && before.kind === "file") {
            if (before.content === undefined) isComplete = false;
            // An earlier copy may have been removed.
            else if (!contents[was.hash] && !has(was.hash))
              contents[was.hash] = await this.#contents.add(before.content);
          }
          steps.push({ path, before: was, after: toStoredState(after), made });
        }
        const line: ChangeLine = {
          ...{ change, run: runId, call: callId, undo: "", seq, folders, at: now(), steps, contents },
        };
        await this.#journal.add(line, true);
        return isComplete;
      });
      return { isRestorable: isWhole, commit: () => this.done(change) };
    } catch (error) {
      if (!this.#isFailureLogged) this.#logger.warn("file snapshot failed; the change cannot be undone", { error });
      this.#isFailureLogged = true;
      return { isRestorable: false, commit: () => undefined };
    }
  }

  async #storedHashes({ contents }: JournalContents): Promise<(hash: string) => boolean> {
    const packs = new Map((await this.#contents.packs()).map(({ pack, bytes }) => [pack, bytes]));
    return (hash) => {
      const place = contents.get(hash);
      return place !== undefined && (packs.get(place.pack) ?? -1) >= place.at + place.size;
    };
  }

  #enqueue<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#work.then(work);
    this.#work = result.catch(() => undefined);
    return result;
  }
}

/** Converts a state to its stored form, with a hash instead of the content. */
export function toStoredState(state: FileState): StoredFileState {
  if (state.kind !== "file") return state;
  const { content, mode, uid, gid } = state;
  return { kind: "file", hash: content === undefined ? "" : hashOf(content), mode, uid, gid };
}

/** Whether two states are equal to a user: the mode is ignored. Files that are too large are never equal. */
export function isSame(state: StoredFileState, otherState: StoredFileState): boolean {
  if (state.kind !== otherState.kind) return false;
  if (state.kind === "file") return state.hash !== "" && state.hash === (otherState as typeof state).hash;
  if (state.kind === "link") return state.target === (otherState as typeof state).target;
  return true;
}
