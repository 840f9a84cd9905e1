import type { Message } from "../ports/message.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { PositionChange, StreamPosition } from "./stream-position.js";

/** Maximum messages of a page. */
export const PAGE_SIZE = 50;
/** Maximum cached pages for readers of the same messages. */
const MAX_CACHED_PAGES = 4;
/** Maximum cached changes for readers at the same position. */
const MAX_CACHED_CHANGES = 64;

/** Consecutive messages of a chain at one version of its tail. */
export interface Page {
  readonly messages: readonly Message[];
  /** Whether more messages may follow. */
  readonly hasMore: boolean;
  /** Changes already computed for other readers. At another version the same position may need other changes. */
  readonly changes: Map<string, PositionChange>;
}

/** Data cached for one version. */
interface VersionCache {
  readonly version: number;
  readonly pages: Map<number, Promise<Message[]>>;
  readonly changes: Map<string, PositionChange>;
}

function createVersionCache(version: number): VersionCache {
  return { version, pages: new Map(), changes: new Map() };
}

/** The pages of a chain, cached at its current version, so that many readers cause one query. */
export class MessagePages {
  readonly #rootId: string;
  readonly #store: SessionDriver;
  #cache: VersionCache = createVersionCache(-1);

  constructor(rootId: string, store: SessionDriver) {
    this.#rootId = rootId;
    this.#store = store;
  }

  clear(): void {
    this.#cache = createVersionCache(-1);
  }

  /** Returns the cache of the changes that readers of this version share. */
  getChanges(version: number): Map<string, PositionChange> {
    return this.#getCache(version).changes;
  }

  /** Reads the stored messages from this `seq` on, at most a page. The query starts when `start` resolves. */
  async read(seq: number, version: number, start: Promise<unknown>): Promise<Page> {
    const { pages, changes } = this.#getCache(version);
    const query = { scope: "chain", after: seq - 1, limit: PAGE_SIZE } as const;
    const page = pages.get(seq) ?? start.then(() => this.#store.messages(this.#rootId, query));
    if (pages.size >= MAX_CACHED_PAGES) pages.clear();
    pages.set(seq, page);
    page.catch(() => pages.delete(seq));
    const messages = await page;
    return { messages, hasMore: messages.length === PAGE_SIZE, changes };
  }

  #getCache(version: number): VersionCache {
    if (this.#cache.version !== version) this.#cache = createVersionCache(version);
    return this.#cache;
  }
}

/**
 * Returns the change for a reader at a position, from a message of a page. Cached for readers at that position.
 * `isGrowing`: see `StreamPosition.createEvents`.
 */
export function getPositionChange(
  position: StreamPosition,
  message: Message,
  { changes }: Page,
  isGrowing: boolean,
): PositionChange {
  const key = `${message.seq} ${position.key}`;
  let change = changes.get(key);
  if (!change) {
    if (changes.size >= MAX_CACHED_CHANGES) changes.clear();
    change = position.createEvents(message, isGrowing);
    changes.set(key, change);
  }
  return change;
}
