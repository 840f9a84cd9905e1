import { batch, signal, type ReadonlySignal } from "@preact/signals";
import type { GantryClient, ApiSession } from "gantry/client";

const PAGE_SIZE = 40;
/** Pause in typing after which the search starts, in ms. */
const TYPING_PAUSE_MS = 180;

/** The list of sessions: the newest ones, and older ones on scrolling. */
export class SessionBrowser {
  readonly #client: GantryClient;
  readonly #fail: (error: unknown) => void;
  readonly #sessions = signal<readonly ApiSession[]>([]);
  readonly #total = signal<number | undefined>(undefined);
  readonly #loading = signal(false);
  readonly #search = signal("");
  #typing: ReturnType<typeof setTimeout> | undefined;
  #request = new AbortController();

  constructor(client: GantryClient, fail: (error: unknown) => void) {
    this.#client = client;
    this.#fail = fail;
  }

  /** Loaded sessions, the most recently used first. */
  get sessions(): ReadonlySignal<readonly ApiSession[]> {
    return this.#sessions;
  }

  /** Total number of sessions; undefined before the first answer. */
  get total(): ReadonlySignal<number | undefined> {
    return this.#total;
  }

  get search(): ReadonlySignal<string> {
    return this.#search;
  }

  /** Searches for another text, once the user pauses typing. */
  find(search: string): void {
    this.#search.value = search;
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => void this.#reload(), TYPING_PAUSE_MS);
  }

  /** Loads the next page, if there is one. */
  async loadMore(): Promise<void> {
    const total = this.#total.peek();
    const have = this.#sessions.peek().length;
    if (this.#loading.peek() || (total !== undefined && have >= total)) return;
    // New sessions at the front shift the rest. The next page may overlap, but skips nothing.
    await this.#load(Math.floor(have / PAGE_SIZE) + 1);
  }

  /** Loads the newest page and keeps the other loaded sessions. `quiet`: a failure is not reported. */
  async refresh({ quiet = false } = {}): Promise<void> {
    if (!this.#loading.peek()) await this.#load(1, { quiet });
  }

  /** Renames a session. */
  async rename(id: string, title: string): Promise<void> {
    try {
      this.#put(await this.#client.sessions.update(id, { title }));
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Deletes a session with its messages. Returns whether it was deleted. */
  async remove(id: string): Promise<boolean> {
    try {
      await this.#client.sessions.delete(id);
    } catch (error) {
      this.#fail(error);
      return false;
    }
    this.drop(id);
    return true;
  }

  /** Removes a deleted session from the list. */
  drop(id: string): void {
    const remainingSessions = this.#sessions.peek().filter((session) => session.id !== id);
    if (remainingSessions.length === this.#sessions.peek().length) return;
    batch(() => {
      this.#sessions.value = remainingSessions;
      this.#total.value = Math.max(remainingSessions.length, (this.#total.peek() ?? 1) - 1);
    });
  }

  /** Updates a listed session with its state from another source. */
  update(session: ApiSession): void {
    const listedSession = this.#sessions.peek().find(({ id }) => id === session.id);
    if (!listedSession) return;
    const same =
      listedSession.title === session.title &&
      listedSession.updated_at === session.updated_at &&
      listedSession.run?.state === session.run?.state;
    if (!same) this.#put(session);
  }

  #put(session: ApiSession): void {
    const otherSessions = this.#sessions.peek().filter(({ id }) => id !== session.id);
    this.#sessions.value = [...otherSessions, session].sort(byUse);
  }

  async #reload(): Promise<void> {
    this.#request.abort();
    this.#request = new AbortController();
    await this.#load(1, { anew: true });
  }

  async #load(page: number, { anew = false, quiet = false } = {}): Promise<void> {
    const { signal } = this.#request;
    this.#loading.value = true;
    try {
      const search = this.#search.peek().trim();
      const answer = await this.#client.sessions.list({ page, size: PAGE_SIZE, ...(search && { search }) }, { signal });
      if (signal.aborted) return;
      batch(() => {
        this.#sessions.value = anew ? answer.sessions : this.#joined(answer.sessions, page);
        this.#total.value = answer.total;
      });
    } catch (error) {
      if (!signal.aborted && !quiet) this.#fail(error);
    } finally {
      if (!signal.aborted) this.#loading.value = false;
    }
  }

  /** Merges a loaded page into the list. Sessions missing from the first page, but newer than its end, were deleted. */
  #joined(came: readonly ApiSession[], page: number): ApiSession[] {
    const ids = new Set(came.map(({ id }) => id));
    const last = came.at(-1);
    const gone = (session: ApiSession) =>
      page === 1 && (came.length < PAGE_SIZE || (last !== undefined && byUse(session, last) < 0));
    const olderSessions = this.#sessions.peek().filter((session) => !ids.has(session.id) && !gone(session));
    return [...came, ...olderSessions].sort(byUse);
  }
}

function byUse(first: ApiSession, second: ApiSession): number {
  return first.updated_at < second.updated_at ? 1 : first.updated_at > second.updated_at ? -1 : 0;
}
