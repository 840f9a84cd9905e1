import { batch, signal, type ReadonlySignal } from "@preact/signals";
import type { GantryClient, ApiSession } from "gantry/client";
import { isWorktreeFolder } from "../projects/project-labels.js";

const PAGE_SIZE = 40;
/** Pause in typing after which the search starts, in ms. */
const TYPING_PAUSE_MS = 180;

/** The list of sessions. The newest page is loaded first, older pages on scrolling. */
export class SessionBrowser {
  readonly #client: GantryClient;
  readonly #reportError: (error: unknown) => void;
  readonly #sessions = signal<readonly ApiSession[]>([]);
  readonly #total = signal<number | undefined>(undefined);
  readonly #isLoading = signal(false);
  readonly #search = signal("");
  readonly #isArchive = signal(false);
  readonly #projectDir = signal("");
  readonly #projectDirs = signal<readonly string[]>([]);
  /** The last change of each session during a load, whose list can be older; undefined: the session was removed. */
  readonly #changesDuringLoad = new Map<string, ApiSession | undefined>();
  /** Whether the newest page must be loaded again after the current request. */
  #isOutdated = false;
  /** Whether the next page must be loaded after the current request. */
  #needsMore = false;
  #typingTimer: ReturnType<typeof setTimeout> | undefined;
  #requestController = new AbortController();

  constructor(client: GantryClient, reportError: (error: unknown) => void) {
    this.#client = client;
    this.#reportError = reportError;
  }

  /** Loaded sessions, the most recently used first. */
  get sessions(): ReadonlySignal<readonly ApiSession[]> {
    return this.#sessions;
  }

  /** Number of sessions that match the search; undefined before the first answer. */
  get total(): ReadonlySignal<number | undefined> {
    return this.#total;
  }

  /** The search text as typed. */
  get search(): ReadonlySignal<string> {
    return this.#search;
  }

  /** Whether the list shows the archived sessions instead of the others. */
  get isArchive(): ReadonlySignal<boolean> {
    return this.#isArchive;
  }

  /** The folder whose sessions are listed; `""` for all. */
  get projectDir(): ReadonlySignal<string> {
    return this.#projectDir;
  }

  /** The folders of the sessions that were loaded so far, without worktrees, in alphabetical order. */
  get projectDirs(): ReadonlySignal<readonly string[]> {
    return this.#projectDirs;
  }

  /** Shows the archived sessions, or the others again. */
  toggleArchive(): void {
    this.#showOthers(() => (this.#isArchive.value = !this.#isArchive.peek()));
  }

  /** Shows the sessions of a folder only; `""` shows all. */
  showProject(folder: string): void {
    this.#showOthers(() => (this.#projectDir.value = folder));
  }

  /** Sets the search text and loads the matching sessions after a pause in typing. */
  setSearch(search: string): void {
    this.#search.value = search;
    clearTimeout(this.#typingTimer);
    this.#typingTimer = setTimeout(() => void this.#reload(), TYPING_PAUSE_MS);
  }

  /** Loads the next page, if there is one. */
  async loadMore(): Promise<void> {
    const total = this.#total.peek();
    const loadedCount = this.#sessions.peek().length;
    if (total !== undefined && loadedCount >= total) return;
    if (this.#isLoading.peek()) {
      this.#needsMore = true;
      return;
    }
    // New sessions at the front move older sessions back. The next page may then overlap, but skips no session.
    await this.#load(Math.floor(loadedCount / PAGE_SIZE) + 1);
  }

  /** Loads the newest page and keeps the other loaded sessions. `quiet`: a failure is not reported. */
  async refresh({ quiet = false } = {}): Promise<void> {
    if (this.#isLoading.peek()) this.#isOutdated = true;
    else await this.#load(1, { quiet });
  }

  /** Renames a session. Reports an error. */
  async rename(id: string, title: string): Promise<void> {
    try {
      this.#put(await this.#client.sessions.update(id, { title }));
    } catch (error) {
      this.#reportError(error);
    }
  }

  /** Moves a session to the archive or back. Cancels its runs first. Reports an error. */
  async setArchived(id: string, archived: boolean): Promise<void> {
    try {
      this.update(await this.#client.sessions.update(id, { archived }));
    } catch (error) {
      this.#reportError(error);
    }
  }

  /** Deletes a session with its messages. Reports an error. Resolves with whether the session was deleted. */
  async deleteSession(id: string): Promise<boolean> {
    try {
      await this.#client.sessions.delete(id);
    } catch (error) {
      this.#reportError(error);
      return false;
    }
    this.removeFromList(id);
    return true;
  }

  /** Removes a session that was deleted, archived or brought back from the list. */
  removeFromList(id: string): void {
    if (this.#isLoading.peek()) this.#changesDuringLoad.set(id, undefined);
    const remainingSessions = this.#sessions.peek().filter((session) => session.id !== id);
    if (remainingSessions.length === this.#sessions.peek().length) return;
    batch(() => {
      this.#sessions.value = remainingSessions;
      this.#total.value = Math.max(remainingSessions.length, (this.#total.peek() ?? 1) - 1);
    });
  }

  /** Updates a session, or adds it to the list if it belongs to the loaded part. */
  apply(session: ApiSession): void {
    if (this.#isLoading.peek()) this.#changesDuringLoad.set(session.id, session);
    const sessions = this.#sessions.peek();
    if (sessions.some(({ id }) => id === session.id)) return this.update(session);
    const total = this.#total.peek();
    const lastSession = sessions.at(-1);
    this.#addProjectDirs([session]);
    const projectDir = this.#projectDir.peek();
    if (projectDir !== "" && session.project_dir !== projectDir) return;
    // The server decides whether a session matches a search.
    if (total === undefined || this.#search.peek() !== "" || (session.archived === true) !== this.#isArchive.peek())
      return;
    if (sessions.length < total && (!lastSession || compareByUse(session, lastSession) > 0)) return;
    batch(() => {
      this.#put(session);
      this.#total.value = total + 1;
    });
  }

  /** Updates a listed session with its state from another request. Ignores sessions that are not listed. */
  update(session: ApiSession): void {
    const listedSession = this.#sessions.peek().find(({ id }) => id === session.id);
    if (!listedSession) return;
    if ((session.archived === true) !== this.#isArchive.peek()) {
      this.removeFromList(session.id);
      return;
    }
    const isSame =
      listedSession.title === session.title &&
      listedSession.updated_at === session.updated_at &&
      listedSession.run?.state === session.run?.state;
    if (!isSame) this.#put(session);
  }

  #put(session: ApiSession): void {
    const otherSessions = this.#sessions.peek().filter(({ id }) => id !== session.id);
    this.#sessions.value = [...otherSessions, session].sort(compareByUse);
  }

  #addProjectDirs(sessions: readonly ApiSession[]): void {
    const previousDirs = this.#projectDirs.peek();
    const folders = sessions.map(({ project_dir: folder }) => folder).filter((folder) => !isWorktreeFolder(folder));
    const projectDirs = new Set([...previousDirs, ...folders]);
    if (projectDirs.size > previousDirs.length) this.#projectDirs.value = [...projectDirs].sort();
  }

  /** Replaces the list after `change` has changed what it contains. */
  #showOthers(change: () => void): void {
    batch(() => {
      change();
      this.#sessions.value = [];
      this.#total.value = undefined;
    });
    void this.#reload();
  }

  async #reload(): Promise<void> {
    this.#requestController.abort();
    this.#requestController = new AbortController();
    this.#isOutdated = this.#needsMore = false;
    this.#changesDuringLoad.clear();
    await this.#load(1, { replacesList: true });
  }

  async #load(page: number, { replacesList = false, quiet = false } = {}): Promise<void> {
    const { signal } = this.#requestController;
    this.#isLoading.value = true;
    try {
      const search = this.#search.peek().trim();
      const projectDir = this.#projectDir.peek();
      const filter = {
        ...(search && { search }),
        ...(projectDir && { projectDir }),
        ...(this.#isArchive.peek() && { archived: "only" as const }),
      };
      const loadedPage = await this.#client.sessions.list({ page, size: PAGE_SIZE, ...filter }, { signal });
      if (signal.aborted) return;
      batch(() => {
        this.#sessions.value = replacesList ? loadedPage.sessions : this.#mergePage(loadedPage.sessions, page);
        this.#total.value = loadedPage.total;
        this.#addProjectDirs(loadedPage.sessions);
        for (const [id, session] of this.#changesDuringLoad)
          if (session) this.apply(session);
          else this.removeFromList(id);
      });
    } catch (error) {
      if (!signal.aborted && !quiet) this.#reportError(error);
    }
    if (signal.aborted) return;
    this.#isLoading.value = false;
    this.#changesDuringLoad.clear();
    await this.#loadPending();
  }

  /** Starts the loads that were requested during another one. */
  async #loadPending(): Promise<void> {
    const [isOutdated, needsMore] = [this.#isOutdated, this.#needsMore];
    this.#isOutdated = this.#needsMore = false;
    if (isOutdated) await this.refresh({ quiet: true });
    if (needsMore) await this.loadMore();
  }

  /**
   * Merges a loaded page into the list. Removes listed sessions that belong on the first page but are missing from it:
   * they were deleted.
   */
  #mergePage(loadedSessions: readonly ApiSession[], page: number): ApiSession[] {
    const ids = new Set(loadedSessions.map(({ id }) => id));
    const lastSession = loadedSessions.at(-1);
    const isDeleted = (session: ApiSession) =>
      page === 1 &&
      (loadedSessions.length < PAGE_SIZE || (lastSession !== undefined && compareByUse(session, lastSession) < 0));
    const otherListedSessions = this.#sessions.peek().filter((session) => !ids.has(session.id) && !isDeleted(session));
    return [...loadedSessions, ...otherListedSessions].sort(compareByUse);
  }
}

function compareByUse(first: ApiSession, second: ApiSession): number {
  return first.updated_at < second.updated_at ? 1 : first.updated_at > second.updated_at ? -1 : 0;
}
