import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import { decodeSearchCursor, encodeSearchCursor, findSnippet, parseSearchText, toQueryTerms } from "gantry/plugin";
import type { Message } from "gantry";
import type { MessageMatch, MessageSearchPage, MessageSearchQuery, QueryTerm } from "gantry/plugin";
import { readMessage } from "./reads.js";
import type { MessageRow } from "./rows.js";
import { INDEX, FtsIndex } from "./search-index.js";
import type { SqlValue, Statements } from "./statements.js";
import { retryWhileBusy, type WriteQueue } from "./write-queue.js";

/** Maximum time for the index in one call, in ms. */
const MAX_INDEX_MS = 2000;
/** Index entries per read. More than the first read, because a filter may skip most entries. */
const ENTRIES_PER_READ = 512;

/** Searches with the index, after an update of the index. Like `SessionDriver.searchMessages`. */
export async function searchMessages(
  db: Statements,
  writeQueue: WriteQueue,
  query: MessageSearchQuery,
): Promise<MessageSearchPage> {
  const words = parseSearchText(query.text);
  const before = query.before === undefined ? [Number.MAX_SAFE_INTEGER] : decodeSearchCursor(query.before, [0]);
  if (words.length === 0 || query.limit <= 0) return { matches: [], isIncomplete: false };
  const index = new FtsIndex(db, writeQueue);
  const status = await index.update(Date.now() + MAX_INDEX_MS, query.signal);
  // Without the newest messages no page is correct: the caller asks for the same page again.
  if (!status.hasNewest) return { matches: [], next: query.before ?? encodeSearchCursor(before), isIncomplete: true };

  const expression = toExpression(toQueryTerms(words));
  const matches: MessageMatch[] = [];
  let lastEntry = before[0] ?? 0;
  for (let entryLimit = 2 * query.limit; ; entryLimit = ENTRIES_PER_READ) {
    query.signal?.throwIfAborted();
    const entries = await retryWhileBusy(() => readEntries(db, expression, lastEntry, entryLimit));
    for (const entry of entries) {
      lastEntry = entry;
      const row = await retryWhileBusy(() => readCandidate(db, entry, query));
      const snippet = row && findSnippet(row.message, words);
      if (!snippet) continue;
      const { id, seq, role, createdAt } = row.message;
      matches.push({ sessionId: row.root, title: row.title, messageId: id, seq, role, createdAt, ...snippet });
      if (matches.length >= query.limit) return { matches, next: encodeSearchCursor([entry]), isIncomplete: false };
    }
    if (entries.length < entryLimit) break;
    await yieldToEventLoop();
  }
  if (status.isComplete) return { matches, isIncomplete: false };
  return { matches, next: encodeSearchCursor([Math.min(lastEntry, status.low)]), isIncomplete: true };
}

interface CandidateRow extends MessageRow {
  root: string;
  title: string;
}

/** Reads the next entries of the index with these terms, newest first. */
function readEntries(db: Statements, expression: string, before: number, limit: number): number[] {
  const sql = `SELECT rowid AS n FROM ${INDEX} WHERE ${INDEX} MATCH ? AND rowid < ? ORDER BY rowid DESC LIMIT ?`;
  return db.all<{ n: number }>(sql, expression, before, limit).map(({ n }) => n);
}

/** Reads the message of an entry. Undefined if it was deleted or hidden, or if the filters of the query exclude it. */
function readCandidate(
  db: Statements,
  n: number,
  { projectDir, archived = "include", visibleTo }: MessageSearchQuery,
): { message: Message; root: string; title: string } | undefined {
  const values: SqlValue[] = [n, projectDir, visibleTo].filter((value) => value !== undefined);
  const sql = `SELECT m.*, o.id AS root, o.title FROM messages m JOIN sessions o ON o.n = m.chain
    WHERE m.n = ? AND m.cut = '' AND o.spawner IS NULL ${projectDir === undefined ? "" : "AND o.project_dir = ?"}
    ${visibleTo === undefined ? "" : "AND (o.owner = ? OR o.shared = 1)"}
    ${archived === "include" ? "" : `AND o.archived = ${archived === "only" ? 1 : 0}`}`;
  return db.readConsistently(() => {
    const row = db.get<CandidateRow>(sql, ...values);
    return row && { message: readMessage(db, row, row.root), root: row.root, title: row.title };
  });
}

/** Formats terms as an expression of FTS5. Terms have no quotes, because they consist of letters, digits and marks. */
function toExpression(terms: readonly QueryTerm[]): string {
  return terms.map(({ text, isPrefix }) => `"${text}"${isPrefix ? " *" : ""}`).join(" ");
}
