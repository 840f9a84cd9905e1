import { batch, signal, type ReadonlySignal } from "@preact/signals";
import type { GantryClient, Session } from "gantry/client";

const PAGE = 40;
/** A pause in typing that is taken for its end, in milliseconds. */
const TYPED = 180;

/** The sessions of the list: the newest ones, and older ones as they are scrolled to. */
export class SessionList {
  readonly #client: GantryClient;
  readonly #fail: (error: unknown) => void;
  readonly #sessions = signal<readonly Session[]>([]);
  readonly #total = signal<number | undefined>(undefined);
  readonly #loading = signal(false);
  readonly #search = signal("");
  #typing: ReturnType<typeof setTimeout> | undefined;
  #asked = new AbortController();

  constructor(client: GantryClient, fail: (error: unknown) => void) {
    this.#client = client;
    this.#fail = fail;
  }

  /** The last used first; those that were loaded. */
  get sessions(): ReadonlySignal<readonly Session[]> {
    return this.#sessions;
  }

  /** How many there are; undefined before the first answer. */
  get total(): ReadonlySignal<number | undefined> {
    return this.#total;
  }

  get search(): ReadonlySignal<string> {
    return this.#search;
  }

  /** Search for another text, once nobody types any more. */
  find(search: string): void {
    this.#search.value = search;
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => void this.#reload(), TYPED);
  }

  /** Load the next page, where there is one. */
  async more(): Promise<void> {
    const total = this.#total.peek();
    const have = this.#sessions.peek().length;
    if (this.#loading.peek() || (total !== undefined && have >= total)) return;
    // What was added at the front since has moved the rest on: a page that overlaps loses nothing.
    await this.#load(Math.floor(have / PAGE) + 1);
  }

  /** Look for what is new. What was loaded of the rest stays. `quiet`: nobody asked for it, nor is told that it failed. */
  async refresh({ quiet = false } = {}): Promise<void> {
    if (!this.#loading.peek()) await this.#load(1, { quiet });
  }

  /** Give it another title. */
  async rename(id: string, title: string): Promise<void> {
    try {
      this.#put(await this.#client.sessions.update(id, { title }));
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Delete it with all that was said; true when it is gone. */
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

  /** It is gone. */
  drop(id: string): void {
    const left = this.#sessions.peek().filter((session) => session.id !== id);
    if (left.length === this.#sessions.peek().length) return;
    batch(() => {
      this.#sessions.value = left;
      this.#total.value = Math.max(left.length, (this.#total.peek() ?? 1) - 1);
    });
  }

  /** What is told of one of them elsewhere. */
  told(session: Session): void {
    const known = this.#sessions.peek().find(({ id }) => id === session.id);
    if (!known) return;
    const same =
      known.title === session.title &&
      known.updated_at === session.updated_at &&
      known.run?.state === session.run?.state;
    if (!same) this.#put(session);
  }

  #put(session: Session): void {
    const others = this.#sessions.peek().filter(({ id }) => id !== session.id);
    this.#sessions.value = [...others, session].sort(byUse);
  }

  async #reload(): Promise<void> {
    this.#asked.abort();
    this.#asked = new AbortController();
    await this.#load(1, { anew: true });
  }

  async #load(page: number, { anew = false, quiet = false } = {}): Promise<void> {
    const { signal } = this.#asked;
    this.#loading.value = true;
    try {
      const search = this.#search.peek().trim();
      const answer = await this.#client.sessions.list({ page, size: PAGE, ...(search && { search }) }, { signal });
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

  /** What came in place of what was known: of the first page, what is newer than its end and not in it is gone. */
  #joined(came: readonly Session[], page: number): Session[] {
    const ids = new Set(came.map(({ id }) => id));
    const last = came.at(-1);
    const gone = (session: Session) =>
      page === 1 && (came.length < PAGE || (last !== undefined && byUse(session, last) < 0));
    const kept = this.#sessions.peek().filter((session) => !ids.has(session.id) && !gone(session));
    return [...came, ...kept].sort(byUse);
  }
}

function byUse(one: Session, other: Session): number {
  return one.updated_at < other.updated_at ? 1 : one.updated_at > other.updated_at ? -1 : 0;
}
