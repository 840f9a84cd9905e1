import type { Ask } from "../ports/ask.js";
import type { AskQuery, RunQuery, SessionQuery } from "../ports/session-driver.js";
import type { RunRecord } from "../ports/run.js";
import type { Session } from "../ports/session.js";
import type { StoredSession } from "./memory-chain.js";
import { newestFirst, Sorted } from "./sorted.js";
import { isOpen } from "./stored-run.js";

/** Sessions by id; the originals among them also in the order of lists: all and those of each folder, and the helpers of each. */
export class StoredSessions extends Map<string, StoredSession> {
  readonly #all = originals();
  readonly #byFolder = new Map<string, Sorted<Session>>();
  readonly #bySpawner = new Map<string, Sorted<Session>>();

  override set(id: string, stored: StoredSession): this {
    this.delete(id);
    super.set(id, stored);
    this.#add(stored.session);
    return this;
  }

  override delete(id: string): boolean {
    const session = this.get(id)?.session;
    if (session) this.#remove(session);
    return super.delete(id);
  }

  /** Change fields of one, of which a list may look at any. */
  change(session: Session, change: () => void): void {
    this.#remove(session);
    change();
    this.#add(session);
  }

  /** As `SessionDriver.list`, of the store's own objects. */
  list({ projectDir, spawnedBy, search: text = "", emptyBefore, before, offset = 0, limit }: SessionQuery): {
    sessions: Session[];
    total: number;
  } {
    const sorted =
      spawnedBy !== undefined
        ? this.#bySpawner.get(spawnedBy)
        : projectDir === undefined
          ? this.#all
          : this.#byFolder.get(projectDir);
    if (!sorted) return { sessions: [], total: 0 };
    let { items } = sorted;
    if (emptyBefore !== undefined) {
      const early = items.slice(
        0,
        sorted.count(({ updatedAt }) => updatedAt < emptyBefore),
      );
      items = early.filter(({ lastSeq }) => lastSeq === 0);
    }
    if (spawnedBy !== undefined && projectDir !== undefined)
      items = items.filter((session) => session.projectDir === projectDir);
    const search = text.toLowerCase();
    if (search !== "") items = items.filter(({ title }) => title.toLowerCase().includes(search));
    const isBehind = ({ updatedAt, id }: Session): boolean =>
      before === undefined || newestFirst(before.updatedAt, before.id, updatedAt, id) < 0;
    const behind = items === sorted.items ? sorted.count(isBehind) : items.filter(isBehind).length;
    const end = Math.max(0, behind - offset);
    return { sessions: items.slice(Math.max(0, end - limit), end).reverse(), total: items.length };
  }

  #add(session: Session): void {
    if (session.chain.root !== session.id) return;
    const { spawnedBy, projectDir } = session;
    if (spawnedBy) return addTo(this.#bySpawner, spawnedBy.sessionId, session);
    this.#all.add(session);
    addTo(this.#byFolder, projectDir, session);
  }

  #remove(session: Session): void {
    if (session.chain.root !== session.id) return;
    const { spawnedBy, projectDir } = session;
    if (spawnedBy) return removeFrom(this.#bySpawner, spawnedBy.sessionId, session);
    this.#all.remove(session);
    removeFrom(this.#byFolder, projectDir, session);
  }
}

function addTo(lists: Map<string, Sorted<Session>>, key: string, session: Session): void {
  const list = lists.get(key) ?? originals();
  lists.set(key, list);
  list.add(session);
}

function removeFrom(lists: Map<string, Sorted<Session>>, key: string, session: Session): void {
  const list = lists.get(key);
  list?.remove(session);
  if (list?.items.length === 0) lists.delete(key);
}

/** A run as it is stored, with the fence under which it was last written. */
export interface StoredFence {
  run: RunRecord;
  fence: number | null;
}

/** Runs by id; also by key, by chain and in the order of lists. */
export class StoredRuns extends Map<string, StoredFence> {
  readonly #byKey = new Map<string, string>();
  readonly #all = runs();
  readonly #byRoot = new Map<string, { all: Sorted<StoredFence>; open: Set<StoredFence> }>();

  override set(id: string, stored: StoredFence): this {
    this.delete(id);
    super.set(id, stored);
    const { key, sessionId } = stored.run;
    const chain = this.#byRoot.get(sessionId) ?? { all: runs(), open: new Set() };
    this.#byRoot.set(sessionId, chain);
    this.#all.add(stored);
    chain.all.add(stored);
    if (isOpen(stored.run)) chain.open.add(stored);
    if (key !== "") this.#byKey.set(key, id);
    return this;
  }

  override delete(id: string): boolean {
    const stored = this.get(id);
    if (stored) {
      const { key, sessionId } = stored.run;
      const chain = this.#byRoot.get(sessionId);
      this.#all.remove(stored);
      chain?.all.remove(stored);
      chain?.open.delete(stored);
      if (chain?.all.items.length === 0) this.#byRoot.delete(sessionId);
      if (this.#byKey.get(key) === id) this.#byKey.delete(key);
    }
    return super.delete(id);
  }

  /** The id of the run with this key. */
  withKey(key: string): string | undefined {
    return this.#byKey.get(key);
  }

  /** Those that have a key. */
  withKeys(): StoredFence[] {
    return [...this.#byKey.values()].flatMap((id) => this.get(id) ?? []);
  }

  /** Of the chain with this original, those that are not stored as ended; newest first. */
  unfinished(root: string): RunRecord[] {
    const open = [...(this.#byRoot.get(root)?.open ?? [])].map(({ run }) => run);
    return open.sort((a, b) => newestFirst(a.startedAt, a.id, b.startedAt, b.id));
  }

  /** As `SessionDriver.runs`, of the store's own objects; `root` is an original's id. */
  list(root: string | undefined, { states, key, limit, before }: Omit<RunQuery, "sessionId">): StoredFence[] {
    const sorted = root === undefined ? this.#all : this.#byRoot.get(root)?.all;
    if (!sorted) return [];
    if (key !== undefined && !this.#byKey.has(key)) return [];
    const found: StoredFence[] = [];
    let at = sorted.items.length;
    if (before) at = sorted.count(({ run }) => newestFirst(before.startedAt, before.id, run.startedAt, run.id) < 0);
    while (at > 0 && found.length < limit) {
      const stored = sorted.items[--at] as StoredFence;
      if ((!states || states.includes(stored.run.state)) && (key === undefined || stored.run.key === key))
        found.push(stored);
    }
    return found;
  }
}

/** Asks by id. There are few of them: lists look through all. */
export class StoredAsks extends Map<string, Ask> {
  /** As `SessionDriver.asks`, of the store's own objects; `root` is an original's id. */
  list(root: string | undefined, { open = false, limit, before }: Omit<AskQuery, "sessionId">): Ask[] {
    return [...this.values()]
      .filter((ask) => (root === undefined || ask.sessionId === root) && (!open || ask.state === "open"))
      .sort((a, b) => newestFirst(a.createdAt, a.id, b.createdAt, b.id))
      .filter(({ createdAt, id }) => !before || newestFirst(before.createdAt, before.id, createdAt, id) < 0)
      .slice(0, limit);
  }
}

const originals = (): Sorted<Session> => new Sorted((a, b) => newestFirst(b.updatedAt, b.id, a.updatedAt, a.id));
const runs = (): Sorted<StoredFence> =>
  new Sorted((a, b) => newestFirst(b.run.startedAt, b.run.id, a.run.startedAt, a.run.id));
