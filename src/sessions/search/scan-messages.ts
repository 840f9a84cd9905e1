import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import type { SessionDriver } from "../../ports/session-driver.js";
import type { MessageMatch, MessageSearchPage, MessageSearchQuery } from "../../ports/session-queries.js";
import type { Session } from "../../ports/session.js";
import { decodeSearchCursor, encodeSearchCursor } from "./cursor.js";
import { isVisibleTo } from "../visible-to.js";
import { findSnippet, parseSearchText, type QueryWord } from "./message-search.js";

/** Maximum time of a call, in ms. */
const MAX_SCAN_MS = 2000;
const SESSIONS_PER_PAGE = 100;
const MESSAGES_PER_PAGE = 100;

/** Position after a match: the session with its `updatedAt`, and the `seq` of the message; 0 after the session. */
type Position = readonly [updatedAt: string, sessionId: string, seq: number];

/**
 * Searches a store without an index: reads the messages of the sessions, newest session first, for a limited time.
 * Rejects like `SessionDriver.searchMessages`.
 */
export async function scanMessages(driver: SessionDriver, query: MessageSearchQuery): Promise<MessageSearchPage> {
  const words = parseSearchText(query.text);
  const before = query.before === undefined ? undefined : decodeSearchCursor<Position>(query.before, ["", "", 0]);
  if (words.length === 0 || query.limit <= 0) return { matches: [], isIncomplete: false };
  return new Scan(driver, query, words).run(before);
}

/** One call of `scanMessages`. */
class Scan {
  readonly #driver: SessionDriver;
  readonly #query: MessageSearchQuery;
  readonly #words: readonly QueryWord[];
  readonly #matches: MessageMatch[] = [];
  readonly #deadlineMs = Date.now() + MAX_SCAN_MS;

  constructor(driver: SessionDriver, query: MessageSearchQuery, words: readonly QueryWord[]) {
    this.#driver = driver;
    this.#query = query;
    this.#words = words;
  }

  async run(before: Position | undefined): Promise<MessageSearchPage> {
    let end = before && before[2] > 0 ? await this.#continueSession(before) : undefined;
    let lastSession = before && { updatedAt: before[0], id: before[1] };
    while (!end) {
      const { projectDir, archived, visibleTo } = this.#query;
      const { sessions } = await this.#driver.list({
        limit: SESSIONS_PER_PAGE,
        ...(projectDir !== undefined && { projectDir }),
        ...(archived !== undefined && { archived }),
        ...(visibleTo !== undefined && { visibleTo }),
        ...(lastSession && { before: lastSession }),
      });
      for (const session of sessions) {
        end = await this.#scanSession(session, Number.MAX_SAFE_INTEGER);
        if (end) break;
        lastSession = { updatedAt: session.updatedAt, id: session.id };
      }
      if (end || sessions.length < SESSIONS_PER_PAGE) break;
    }
    const isIncomplete = this.#matches.length < this.#query.limit && end !== undefined;
    return { matches: this.#matches, ...(end && { next: encodeSearchCursor(end) }), isIncomplete };
  }

  /** Continues in the session of the last match, unless the session was deleted or hidden from the user meanwhile. */
  async #continueSession([updatedAt, id, seq]: Position): Promise<Position | undefined> {
    const session = await this.#driver.get(id);
    if (session?.id !== id || !isVisibleTo(session, this.#query.visibleTo)) return undefined;
    return this.#scanSession({ ...session, updatedAt }, seq);
  }

  /** Adds the matches of a session, newest first. Returns the position at which the page or the time ended. */
  async #scanSession({ id, title, updatedAt }: Session, beforeSeq: number): Promise<Position | undefined> {
    for (let before = beforeSeq; ;) {
      this.#query.signal?.throwIfAborted();
      if (Date.now() >= this.#deadlineMs) return [updatedAt, id, before];
      const messages = await this.#driver.messages(id, { scope: "chain", before, limit: MESSAGES_PER_PAGE });
      // A driver in memory never waits, and would block the process.
      await yieldToEventLoop();
      for (const message of messages.toReversed()) {
        const snippet = findSnippet(message, this.#words);
        if (!snippet) continue;
        const { id: messageId, seq, role, createdAt } = message;
        this.#matches.push({ sessionId: id, title, messageId, seq, role, createdAt, ...snippet });
        if (this.#matches.length >= this.#query.limit) return [updatedAt, id, seq];
      }
      const [firstMessage] = messages;
      if (messages.length < MESSAGES_PER_PAGE || !firstMessage) return undefined;
      before = firstMessage.seq;
    }
  }
}
