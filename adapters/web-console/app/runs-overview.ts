import { batch, signal, type ReadonlySignal } from "@preact/signals";
import type { GantryClient, ApiRun, ApiRunState } from "gantry/client";

/** Polling intervals in ms: during active runs, without active runs, and while the server is unavailable. */
const POLL_INTERVALS_MS = { busy: 2_000, idle: 6_000, unavailable: 10_000 };
const PAGE_SIZE = 50;
/** Maximum number of runs that are loaded for each active state, and of sessions that are loaded for their titles. */
const MAX_LISTED_ENTRIES = 100;
/** Maximum number of sessions that one poll requests separately for their titles. */
const MAX_TITLE_REQUESTS = 20;
const ACTIVE_STATES: readonly ApiRunState[] = ["running", "waiting", "queued"];

/** Runs of all sessions, polled while the page is visible. */
export class RunsOverview {
  readonly #client: GantryClient;
  readonly #reportError: (error: unknown) => void;
  readonly #closeController = new AbortController();
  readonly #runs = signal<readonly ApiRun[] | undefined>(undefined);
  readonly #titlesBySessionId = signal<ReadonlyMap<string, string>>(new Map());
  readonly #isUnavailable = signal(false);
  readonly #hasMore = signal(false);
  /** Runs of older pages, in their state at the time of loading. */
  #olderRuns: readonly ApiRun[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #currentPoll: Promise<void> | undefined;

  constructor(client: GantryClient, reportError: (error: unknown) => void) {
    this.#client = client;
    this.#reportError = reportError;
    const { signal } = this.#closeController;
    document.addEventListener("visibilitychange", () => void this.#poll(), { signal });
    void this.#poll();
  }

  /** Runs, newest first; undefined before the first answer. */
  get runs(): ReadonlySignal<readonly ApiRun[] | undefined> {
    return this.#runs;
  }

  /** Session titles by session id. */
  get titles(): ReadonlySignal<ReadonlyMap<string, string>> {
    return this.#titlesBySessionId;
  }

  /** Whether the last poll failed. */
  get isUnavailable(): ReadonlySignal<boolean> {
    return this.#isUnavailable;
  }

  /** Whether older runs can be loaded. */
  get hasMore(): ReadonlySignal<boolean> {
    return this.#hasMore;
  }

  readonly cancel = async (run: ApiRun): Promise<void> => {
    try {
      const endedRun = await this.#client.runs.cancel(run.id);
      this.#runs.value = this.#runs.peek()?.map((listedRun) => (listedRun.id === endedRun.id ? endedRun : listedRun));
    } catch (error) {
      this.#reportError(error);
    }
  };

  /** Loads a page of runs that are older than the oldest listed run that has ended. */
  async loadMore(): Promise<void> {
    const oldestEndedRun = this.#runs.peek()?.findLast(({ state }) => !ACTIVE_STATES.includes(state));
    if (!oldestEndedRun) return;
    try {
      const page = await this.#client.runs.list({ before: oldestEndedRun.id, size: PAGE_SIZE });
      this.#olderRuns = [...this.#olderRuns, ...page];
      this.#show(this.#runs.peek() ?? [], page.length === PAGE_SIZE);
      await this.#loadTitles(page);
    } catch (error) {
      this.#reportError(error);
    }
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#closeController.abort();
  }

  #poll(): Promise<void> {
    clearTimeout(this.#timer);
    if (document.visibilityState !== "visible") return Promise.resolve();
    return (this.#currentPoll ??= this.#load().finally(() => {
      this.#currentPoll = undefined;
      if (this.#closeController.signal.aborted) return;
      const isBusy = this.#runs.peek()?.some(({ state }) => ACTIVE_STATES.includes(state));
      const intervalMs = this.#isUnavailable.peek()
        ? POLL_INTERVALS_MS.unavailable
        : isBusy
          ? POLL_INTERVALS_MS.busy
          : POLL_INTERVALS_MS.idle;
      this.#timer = setTimeout(() => void this.#poll(), intervalMs);
    }));
  }

  async #load(): Promise<void> {
    const { signal } = this.#closeController;
    try {
      const isFirstLoad = this.#runs.peek() === undefined;
      const newestRuns = await this.#client.runs.list({ size: PAGE_SIZE }, { signal });
      // The newest runs may not contain a run that has been active for a long time.
      const isFull = newestRuns.length === PAGE_SIZE;
      const activeRunLists = isFull
        ? await Promise.all(
            ACTIVE_STATES.map((state) => this.#client.runs.list({ state, size: MAX_LISTED_ENTRIES }, { signal })),
          )
        : [];
      this.#show([...newestRuns, ...activeRunLists.flat()], isFirstLoad ? isFull : this.#hasMore.peek());
      this.#isUnavailable.value = false;
      await this.#loadTitles(this.#runs.peek() ?? []);
    } catch (error) {
      if (signal.aborted) return;
      if (!this.#isUnavailable.peek()) this.#reportError(error);
      this.#isUnavailable.value = true;
    }
  }

  /** Shows the runs, newest first. If a run was loaded twice, the later version is used. */
  #show(loadedRuns: readonly ApiRun[], hasMore: boolean): void {
    const runsById = new Map([...this.#olderRuns, ...loadedRuns].map((run) => [run.id, run]));
    const runs = [...runsById.values()].sort((first, second) => (first.id < second.id ? 1 : -1));
    batch(() => {
      this.#runs.value = runs;
      this.#hasMore.value = hasMore;
    });
  }

  /** Loads missing session titles. */
  async #loadTitles(runs: readonly ApiRun[]): Promise<void> {
    const { signal } = this.#closeController;
    const titles = new Map(this.#titlesBySessionId.peek());
    const previousCount = titles.size;
    const findMissingIds = () => [...new Set(runs.map(({ session_id: id }) => id))].filter((id) => !titles.has(id));
    if (findMissingIds().length > 0) {
      const { sessions } = await this.#client.sessions.list({ size: MAX_LISTED_ENTRIES }, { signal });
      for (const { id, title } of sessions) titles.set(id, title);
    }
    // One request at a time limits the load on the server.
    for (const id of findMissingIds().slice(0, MAX_TITLE_REQUESTS)) {
      const title = await this.#client.sessions.get(id, { signal }).then(
        (session) => session.title,
        () => "Deleted session",
      );
      titles.set(id, title);
    }
    if (titles.size !== previousCount) this.#titlesBySessionId.value = titles;
  }
}
