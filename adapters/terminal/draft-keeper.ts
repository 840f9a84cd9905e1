import type { UnsentTexts } from "./outbox.js";
import type { StateFiles } from "./state-files.js";

/** Unsent texts with their session; undefined before the first prompt. */
interface SessionTexts extends UnsentTexts {
  readonly sessionId: string | undefined;
}

/** Key of the texts that belong to no session yet. */
const NEW_SESSION_KEY = "new";

/**
 * Stores the unsent texts of the current session whenever they change. The files are loaded after the first frame.
 * Errors of the disk are ignored: the texts are then only in memory.
 */
export class DraftKeeper {
  readonly #files: Promise<StateFiles | undefined>;
  readonly #read: () => SessionTexts;
  #storedTexts: SessionTexts = { draft: "", entries: [], sessionId: undefined };
  /** Settles after all scheduled work. Never rejects. */
  #queue: Promise<void> = Promise.resolve();
  #isSaveScheduled = false;

  /** `files` resolves with undefined if nothing is stored. `read` returns the current texts. */
  constructor(files: Promise<StateFiles | undefined>, read: () => SessionTexts) {
    this.#files = files.catch(() => undefined);
    this.#read = read;
  }

  /**
   * Passes the texts that ended terminals have left for a session to `adopt`, and stores them as texts of this terminal.
   */
  load(sessionId: string | undefined, adopt: (texts: readonly UnsentTexts[]) => void): void {
    this.#enqueue(async (files) => {
      const { texts, release } = await files.take(sessionId ?? NEW_SESSION_KEY);
      adopt(texts);
      await this.#store(files);
      await release();
    });
  }

  /** Starts to store the texts if they have changed. */
  update(): void {
    const { draft, entries, sessionId } = this.#read();
    const stored = this.#storedTexts;
    if (draft !== stored.draft || entries !== stored.entries || sessionId !== stored.sessionId) void this.save();
  }

  /** Resolves when the current texts are on disk, or could not be stored. Never rejects. */
  save(): Promise<void> {
    if (!this.#isSaveScheduled) {
      this.#isSaveScheduled = true;
      this.#enqueue((files) => this.#store(files));
    }
    return this.#queue;
  }

  /** Stores the texts of the session that the terminal leaves. Call this after the change of the session. */
  leave(texts: SessionTexts): void {
    this.#enqueue(async (files) => {
      const nextTexts = this.#read();
      this.#storedTexts = nextTexts;
      const nextKey = nextTexts.sessionId ?? NEW_SESSION_KEY;
      await files.switchSession(texts.sessionId ?? NEW_SESSION_KEY, texts, nextKey, nextTexts);
    });
  }

  #enqueue(work: (files: StateFiles) => Promise<void>): void {
    this.#queue = this.#queue
      .then(async () => {
        const files = await this.#files;
        if (files) await work(files);
      })
      .catch(() => undefined);
  }

  async #store(files: StateFiles): Promise<void> {
    this.#isSaveScheduled = false;
    const texts = this.#read();
    const { sessionId: previousId } = this.#storedTexts;
    this.#storedTexts = texts;
    await files.write(texts.sessionId ?? NEW_SESSION_KEY, texts);
    // The first prompt has created the session: its texts are stored under the new id.
    if (previousId === undefined && texts.sessionId !== undefined) await files.remove(NEW_SESSION_KEY);
  }
}
