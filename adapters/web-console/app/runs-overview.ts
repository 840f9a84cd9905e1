import { batch, signal, type ReadonlySignal } from "@preact/signals";
import type { GantryClient, Run, RunState } from "gantry/client";

/** Milliseconds between two looks: while something goes on, and else. */
const LOOK = { busy: 2_000, idle: 6_000, lost: 10_000 };
const PAGE = 50;
const UNDER_WAY: readonly RunState[] = ["running", "waiting", "queued"];

/** Runs of all sessions, looked at now and then as long as the page is seen. */
export class RunsOverview {
  readonly #client: GantryClient;
  readonly #fail: (error: unknown) => void;
  readonly #closing = new AbortController();
  readonly #runs = signal<readonly Run[] | undefined>(undefined);
  readonly #titles = signal<ReadonlyMap<string, string>>(new Map());
  readonly #lost = signal(false);
  readonly #hasMore = signal(false);
  /** Runs before the newest page, as they were when they were loaded. */
  #older: readonly Run[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #looking: Promise<void> | undefined;

  constructor(client: GantryClient, fail: (error: unknown) => void) {
    this.#client = client;
    this.#fail = fail;
    const { signal } = this.#closing;
    document.addEventListener("visibilitychange", () => void this.#look(), { signal });
    void this.#look();
  }

  /** Newest first; undefined before the first answer. */
  get runs(): ReadonlySignal<readonly Run[] | undefined> {
    return this.#runs;
  }

  /** By the session's id. */
  get titles(): ReadonlySignal<ReadonlyMap<string, string>> {
    return this.#titles;
  }

  get lost(): ReadonlySignal<boolean> {
    return this.#lost;
  }

  get hasMore(): ReadonlySignal<boolean> {
    return this.#hasMore;
  }

  readonly cancel = async (run: Run): Promise<void> => {
    try {
      const ended = await this.#client.runs.cancel(run.id);
      this.#runs.value = this.#runs.peek()?.map((one) => (one.id === ended.id ? ended : one));
    } catch (error) {
      this.#fail(error);
    }
  };

  /** Load those before the last one. */
  async more(): Promise<void> {
    const last = this.#runs.peek()?.findLast(({ state }) => !UNDER_WAY.includes(state));
    if (!last) return;
    try {
      const page = await this.#client.runs.list({ before: last.id, size: PAGE });
      this.#older = [...this.#older, ...page];
      this.#show(this.#runs.peek() ?? [], page.length === PAGE);
      await this.#name(page);
    } catch (error) {
      this.#fail(error);
    }
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#closing.abort();
  }

  #look(): Promise<void> {
    clearTimeout(this.#timer);
    if (document.visibilityState !== "visible") return Promise.resolve();
    return (this.#looking ??= this.#load().finally(() => {
      this.#looking = undefined;
      if (this.#closing.signal.aborted) return;
      const isBusy = this.#runs.peek()?.some(({ state }) => UNDER_WAY.includes(state));
      const ms = this.#lost.peek() ? LOOK.lost : isBusy ? LOOK.busy : LOOK.idle;
      this.#timer = setTimeout(() => void this.#look(), ms);
    }));
  }

  async #load(): Promise<void> {
    const { signal } = this.#closing;
    try {
      const isFirst = this.#runs.peek() === undefined;
      const newest = await this.#client.runs.list({ size: PAGE }, { signal });
      // One that has gone on for long is not among the newest.
      const isFull = newest.length === PAGE;
      const others = isFull
        ? await Promise.all(UNDER_WAY.map((state) => this.#client.runs.list({ state, size: 100 }, { signal })))
        : [];
      this.#show([...newest, ...others.flat()], isFirst ? isFull : this.#hasMore.peek());
      this.#lost.value = false;
      await this.#name(this.#runs.peek() ?? []);
    } catch (error) {
      if (signal.aborted) return;
      if (!this.#lost.peek()) this.#fail(error);
      this.#lost.value = true;
    }
  }

  /** Newest first, each once, as it was told last. */
  #show(told: readonly Run[], hasMore: boolean): void {
    const byId = new Map([...this.#older, ...told].map((run) => [run.id, run]));
    const runs = [...byId.values()].sort((one, other) => (one.id < other.id ? 1 : -1));
    batch(() => {
      this.#runs.value = runs;
      this.#hasMore.value = hasMore;
    });
  }

  /** Find the titles of sessions that have none here yet. */
  async #name(runs: readonly Run[]): Promise<void> {
    const { signal } = this.#closing;
    const titles = new Map(this.#titles.peek());
    const before = titles.size;
    const lacks = () => [...new Set(runs.map(({ session_id: id }) => id))].filter((id) => !titles.has(id));
    if (lacks().length > 0) {
      const { sessions } = await this.#client.sessions.list({ size: 100 }, { signal });
      for (const { id, title } of sessions) titles.set(id, title);
    }
    // Few are so old; one at a time is gentle.
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
