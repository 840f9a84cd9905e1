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
  /** Content that was never in a file: the result of an undo of single lines. */
  newContent?: Buffer | undefined;
}

/** The file history of one session, in its own folder. Reads and writes run one after another. */
export class SessionFiles implements AsyncDisposable {
  readonly #journal: Journal;
  readonly #contents: ContentStore;
  readonly #logger: Logger;
  #lastWork: Promise<unknown> = Promise.resolve();
  #hasLoggedFailure = false;

  constructor(folder: string, maxBytes: number, logger: Logger) {
    this.#journal = new Journal(folder);
    this.#contents = new ContentStore(folder, maxBytes);
    this.#logger = logger;
  }

  createRecorder(origin: ChangeOrigin): FileRecorder {
    return { record: (changes) => this.#record(origin, changes) };
  }

  readJournal(): Promise<JournalContents> {
    return this.#enqueue(() => this.#journal.read());
  }

  /** Returns a stored content. Undefined if the content was removed. */
  async readContent(hash: string, { contents }: JournalContents): Promise<Buffer | undefined> {
    const location = contents.get(hash);
    return location && this.#contents.read(location, hash);
  }

  /**
   * Records an undo before it is applied, with a copy of each current file from `readCurrentContent`. Resolves with the
   * id of the change once everything is on disk.
   *
   * Rejects if the copies cannot be stored. The undo is then not recorded.
   */
  async recordUndo(plan: UndoPlan, readCurrentContent: (step: PathChange) => Promise<Buffer>): Promise<string> {
    const { mark, undo, seq, folders, steps, newContent } = plan;
    const change = newId();
    await this.#enqueue(async () => {
      const journal = await this.#journal.read();
      const begunLine = { begun: mark };
      if (steps.length === 0) return this.#journal.add(begunLine, true);
      const isStored = await this.#createHashLookup(journal);
      const contents: Record<string, ContentLocation> = {};
      await this.#contents.addAll(async (add) => {
        for (const step of steps) {
          const { before } = step;
          if (before.kind === "file" && !contents[before.hash] && !isStored(before.hash))
            contents[before.hash] = await add(await readCurrentContent(step));
        }
        if (newContent) contents[hashOf(newContent)] = await add(newContent);
      });
      const line: ChangeLine = { change, run: "", call: "", undo, seq, folders, at: now(), steps, contents };
      await this.#journal.add([begunLine, line], true);
    });
    return change;
  }

  async recordMark(mark: UndoMark | { readonly redone: string }): Promise<void> {
    await this.#enqueue(() => this.#journal.add("redone" in mark ? mark : { undone: mark, at: now() }, true));
  }

  /**
   * Records that a change was made. Not awaited: if the record is lost, the state before the change also counts as left
   * by this session.
   */
  confirmChange(change: string): void {
    this.#enqueue(() => this.#journal.add({ done: change }, false)).catch((error: unknown) =>
      this.#logger.debug("file change not confirmed in the history; undo accepts both states", { error }),
    );
  }

  /** Waits for the pending writes. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#lastWork;
  }

  async #record(
    { runId, callId, seq, folders = [] }: ChangeOrigin,
    changes: readonly FileChange[],
  ): Promise<RecordedChange> {
    const change = newId();
    try {
      const isComplete = await this.#enqueue(async () => {
        const isStored = await this.#createHashLookup(await this.#journal.read());
        const contents: Record<string, ContentLocation> = {};
        let isComplete = true;
        const steps: PathChange[] = [];
        for (const { path, before, after, createdFolders: made = 0 } of changes) {
          const storedOldState = toStoredState(before);
          if (storedOldState.kind === "file" && before.kind === "file") {
            if (before.content === undefined) isComplete = false;
            // An earlier copy may have been removed.
            else if (!contents[storedOldState.hash] && !isStored(storedOldState.hash))
              contents[storedOldState.hash] = await this.#contents.add(before.content);
          }
          steps.push({ path, before: storedOldState, after: toStoredState(after), made });
        }
        const line: ChangeLine = {
          ...{ change, run: runId, call: callId, undo: "", seq, folders, at: now(), steps, contents },
        };
        await this.#journal.add(line, true);
        return isComplete;
      });
      return { isRestorable: isComplete, commit: () => this.confirmChange(change) };
    } catch (error) {
      if (!this.#hasLoggedFailure) this.#logger.warn("file snapshot failed; the change cannot be undone", { error });
      this.#hasLoggedFailure = true;
      return { isRestorable: false, commit: () => undefined };
    }
  }

  async #createHashLookup({ contents }: JournalContents): Promise<(hash: string) => boolean> {
    const packs = new Map((await this.#contents.listPacks()).map(({ pack, bytes }) => [pack, bytes]));
    return (hash) => {
      const location = contents.get(hash);
      return location !== undefined && (packs.get(location.pack) ?? -1) >= location.at + location.size;
    };
  }

  #enqueue<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#lastWork.then(work);
    this.#lastWork = result.catch(() => undefined);
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
