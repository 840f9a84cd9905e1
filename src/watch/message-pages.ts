import type { StoredChange } from "../conversation/recorder.js";
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
  /**
   * Changes already computed for other readers of this page. Another page may have a newer state of the same message, and
   * the messages after it: with an older change, a reader would never get the rest of the message.
   */
  readonly changes: Map<string, PositionChange>;
}

/** Data cached for one version. */
interface VersionCache {
  readonly version: number;
  /** Pages read from the store, by their first `seq`. */
  readonly pages: Map<number, Promise<Page>>;
  /** Changes of the pages with messages of the active run. */
  readonly runChanges: Map<string, PositionChange>;
}

function createVersionCache(version: number): VersionCache {
  return { version, pages: new Map(), runChanges: new Map() };
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

  /** Returns the cache of the changes that readers of the active run's messages share at this version. */
  getRunChanges(version: number): Map<string, PositionChange> {
    return this.#getCache(version).runChanges;
  }

  /** Reads the stored messages from this `seq` on, at most a page. The query starts when `start` resolves. */
  read(seq: number, version: number, start: Promise<unknown>): Promise<Page> {
    const { pages } = this.#getCache(version);
    const page = pages.get(seq) ?? start.then(() => this.#query(seq));
    if (pages.size >= MAX_CACHED_PAGES) pages.clear();
    pages.set(seq, page);
    page.catch(() => pages.delete(seq));
    return page;
  }

  async #query(seq: number): Promise<Page> {
    const query = { scope: "chain", after: seq - 1, limit: PAGE_SIZE } as const;
    const messages = await this.#store.messages(this.#rootId, query);
    return { messages, hasMore: messages.length === PAGE_SIZE, changes: new Map() };
  }

  #getCache(version: number): VersionCache {
    if (this.#cache.version !== version) this.#cache = createVersionCache(version);
    return this.#cache;
  }
}

/** The messages that the active run of this process has stored, so that watchers need not read them from the store. */
export class RunMessages {
  /** All visible messages of the chain from this `seq` on are in `#messages`, as stored. */
  #fromSeq = Infinity;
  #messages: Message[] = [];

  /** Whether all visible messages from this `seq` on are here. */
  includesFrom(seq: number): boolean {
    return seq >= this.#fromSeq;
  }

  /** Returns at most `limit` messages, from this `seq` on, and whether more follow. */
  readPage(seq: number, limit: number): { messages: readonly Message[]; hasMore: boolean } {
    const index = this.#messages.findIndex((message) => message.seq >= seq);
    return {
      messages: index < 0 ? [] : this.#messages.slice(index, index + limit),
      hasMore: index >= 0 && index + limit < this.#messages.length,
    };
  }

  /** Applies a change that the run has stored. */
  apply({ add = [], append = [], finish = [] }: StoredChange): void {
    for (const message of add) {
      if (this.#messages.length === 0) this.#fromSeq = message.seq;
      this.#messages.push(
        message.finished ? message : { ...message, parts: message.parts.map((part) => ({ ...part })) },
      );
    }
    for (const { messageId, part, type, text } of append) {
      const parts = this.#messages.findLast(({ id }) => id === messageId)?.parts;
      const existingPart = parts?.[part];
      if (existingPart && "text" in existingPart) existingPart.text += text;
      else parts?.push({ type, text });
    }
    for (const finalMessage of finish) {
      const index = this.#messages.findLastIndex(({ id }) => id === finalMessage.id);
      const { seq, sessionId } = this.#messages[index] ?? finalMessage;
      if (index >= 0) this.#messages[index] = { ...finalMessage, seq, sessionId, finished: true };
    }
  }

  clear(): void {
    this.#fromSeq = Infinity;
    this.#messages = [];
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
