import { batch, signal, type ReadonlySignal } from "@preact/signals";
import type { GantryClient, ApiRun, ApiRunState } from "gantry/client";

/** Polling intervals in ms: during active runs, without active runs, and while the server is unavailable. */
const POLL_INTERVALS_MS = { busy: 2_000, idle: 6_000, lost: 10_000 };
const PAGE_SIZE = 50;
const ACTIVE_STATES: readonly ApiRunState[] = ["running", "waiting", "queued"];

/** Runs of all sessions, polled while the page is visible. */
export class RunsOverview {
  readonly #client: GantryClient;
  readonly #fail: (error: unknown) => void;
  readonly #closing = new AbortController();
  readonly #runs = signal<readonly ApiRun[] | undefined>(undefined);
  readonly #titles = signal<ReadonlyMap<string, string>>(new Map());
  readonly #lost = signal(false);
  readonly #hasMore = signal(false);
  /** Runs of older pages, in the state in which they were loaded. */
  #older: readonly ApiRun[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #polling: Promise<void> | undefined;

  constructor(client: GantryClient, fail: (error: unknown) => void) {
    this.#client = client;
    this.#fail = fail;
    const { signal } = this.#closing;
    document.addEventListener("visibilitychange", () => void this.#poll(), { signal });
    void this.#poll();
  }

  /** Newest first; undefined before the first answer. */
  get runs(): ReadonlySignal<readonly ApiRun[] | undefined> {
    return this.#runs;
  }

  /** Session titles by session id. */
  get titles(): ReadonlySignal<ReadonlyMap<string, string>> {
    return this.#titles;
  }

  get lost(): ReadonlySignal<boolean> {
    return this.#lost;
  }

  get hasMore(): ReadonlySignal<boolean> {
    return this.#hasMore;
  }

  readonly cancel = async (run: ApiRun): Promise<void> => {
    try {
      const ended = await this.#client.runs.cancel(run.id);
      this.#runs.value = this.#runs.peek()?.map((listedRun) => (listedRun.id === ended.id ? ended : listedRun));
    } catch (error) {
      this.#fail(error);
    }
  };

  /** Loads the page of runs before the oldest ended one. */
  async loadMore(): Promise<void> {
    const last = this.#runs.peek()?.findLast(({ state }) => !ACTIVE_STATES.includes(state));
    if (!last) return;
    try {
      const page = await this.#client.runs.list({ before: last.id, size: PAGE_SIZE });
      this.#older = [...this.#older, ...page];
      this.#show(this.#runs.peek() ?? [], page.length === PAGE_SIZE);
      await this.#loadTitles(page);
    } catch (error) {
      this.#fail(error);
    }
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#closing.abort();
  }

  #poll(): Promise<void> {
    clearTimeout(this.#timer);
    if (document.visibilityState !== "visible") return Promise.resolve();
    return (this.#polling ??= this.#load().finally(() => {
      this.#polling = undefined;
      if (this.#closing.signal.aborted) return;
      const isBusy = this.#runs.peek()?.some(({ state }) => ACTIVE_STATES.includes(state));
      const ms = this.#lost.peek() ? POLL_INTERVALS_MS.lost : isBusy ? POLL_INTERVALS_MS.busy : POLL_INTERVALS_MS.idle;
      this.#timer = setTimeout(() => void this.#poll(), ms);
    }));
  }

  async #load(): Promise<void> {
    const { signal } = this.#closing;
    try {
      const isFirst = this.#runs.peek() === undefined;
      const newest = await this.#client.runs.list({ size: PAGE_SIZE }, { signal });
      // A run that has been active for long is not among the newest.
      const isFull = newest.length === PAGE_SIZE;
      const activeRunLists = isFull
        ? await Promise.all(ACTIVE_STATES.map((state) => this.#client.runs.list({ state, size: 100 }, { signal })))
        : [];
      this.#show([...newest, ...activeRunLists.flat()], isFirst ? isFull : this.#hasMore.peek());
      this.#lost.value = false;
      await this.#loadTitles(this.#runs.peek() ?? []);
    } catch (error) {
      if (signal.aborted) return;
      if (!this.#lost.peek()) this.#fail(error);
      this.#lost.value = true;
    }
  }

  /** Shows the runs, newest first. The latest version of each run wins. */
  #show(loadedRuns: readonly ApiRun[], hasMore: boolean): void {
    const byId = new Map([...this.#older, ...loadedRuns].map((run) => [run.id, run]));
    const runs = [...byId.values()].sort((first, second) => (first.id < second.id ? 1 : -1));
    batch(() => {
      this.#runs.value = runs;
      this.#hasMore.value = hasMore;
    });
  }

  /** Loads missing session titles. */
  async #loadTitles(runs: readonly ApiRun[]): Promise<void> {
    const { signal } = this.#closing;
    const titles = new Map(this.#titles.peek());
    const before = titles.size;
    const lacks = () => [...new Set(runs.map(({ session_id: id }) => id))].filter((id) => !titles.has(id));
    if (lacks().length > 0) {
      const { sessions } = await this.#client.sessions.list({ size: 100 }, { signal });
      for (const { id, title } of sessions) titles.set(id, title);
    }
    // Requests one session at a time, at most 20, to limit the load on the server.
    for (const id of lacks().slice(0, 20)) {
      const title = await this.#client.sessions.get(id, { signal }).then(
        (session) => session.title,
        () => "Deleted session",
      );
      titles.set(id, title);
    }
    if (titles.size !== before) this.#titles.value = titles;
  }
}
