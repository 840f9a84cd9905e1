import { decodeSearchCursor, encodeSearchCursor, findSnippet, parseSearchText, toQueryTerms } from "gantry/plugin";
import { scanMessages } from "gantry/plugin";
import type { MessageMatch, MessageSearchPage, MessageSearchQuery, QueryTerm, SessionDriver } from "gantry/plugin";
import type { ParameterValue } from "./connections.js";
import { errorCode } from "./errors.js";
import { toMessage } from "./rows.js";
import { TsvectorIndex } from "./search-index.js";
import type { SchemaStore } from "./store.js";
import { decodeText, encodeText } from "./text-encoding.js";

/** Maximum time for the index in one call, in ms. */
const MAX_INDEX_MS = 2000;
const MIN_ENTRIES_PER_READ = 50;
const INSUFFICIENT_PRIVILEGE_CODE = "42501";

/** Position of an entry of the index. */
type Position = readonly [createdAt: string, chain: number, seq: number];

/** Position before the newest entry: greater than every timestamp. */
const START: Position = ["~", 0, 0];

interface CandidateRow {
  chain: string;
  created_at: string;
  seq: string;
  idx: number;
  done: boolean;
  body: string;
  gained: string | null;
  root: string;
  title: string;
}

/**
 * Searches with the index, after an update of the index. Without the privilege to create the index, reads all messages.
 * Like `SessionDriver.searchMessages`.
 */
export async function searchMessages(
  driver: SessionDriver,
  store: SchemaStore,
  query: MessageSearchQuery,
): Promise<MessageSearchPage> {
  try {
    return await searchIndex(store, query);
  } catch (error) {
    if (errorCode(error) !== INSUFFICIENT_PRIVILEGE_CODE) throw error;
    return scanMessages(driver, query);
  }
}

async function searchIndex(store: SchemaStore, query: MessageSearchQuery): Promise<MessageSearchPage> {
  const words = parseSearchText(query.text);
  if (words.length === 0 || query.limit <= 0) return { matches: [], isIncomplete: false };
  query.signal?.throwIfAborted();
  const index = new TsvectorIndex(store);
  await index.create();
  const isIndexComplete = await index.update(Date.now() + MAX_INDEX_MS, query.signal);
  let before = query.before === undefined ? START : decodeSearchCursor<Position>(query.before, START);
  // The order of the index is not the order of the results: the caller asks for the same page again.
  if (!isIndexComplete) return { matches: [], next: query.before ?? encodeSearchCursor(before), isIncomplete: true };

  const expression = toExpression(toQueryTerms(words));
  const matches: MessageMatch[] = [];
  const entryLimit = Math.max(MIN_ENTRIES_PER_READ, query.limit);
  for (;;) {
    query.signal?.throwIfAborted();
    const { sql, values } = buildSearchStatement(query, expression, before, entryLimit);
    const rows = await store.read<CandidateRow>(sql, values);
    for (const row of rows) {
      before = [row.created_at, Number(row.chain), Number(row.seq)];
      const { id, seq, role, createdAt, parts } = toMessage({ ...row, kind: "m", tag: "", more: null }, "");
      const snippet = findSnippet({ parts }, words);
      if (!snippet) continue;
      const session = { sessionId: decodeText(row.root), title: decodeText(row.title) };
      matches.push({ ...session, messageId: id, seq, role, createdAt, ...snippet });
      if (matches.length >= query.limit) return { matches, next: encodeSearchCursor(before), isIncomplete: false };
    }
    if (rows.length < entryLimit) return { matches, isIncomplete: false };
  }
}

/** Builds the statement of a page of entries with visible messages, newest first, and its values. */
function buildSearchStatement(
  { projectDir, archived = "include", visibleTo }: MessageSearchQuery,
  expression: string,
  before: Position,
  limit: number,
): { sql: string; values: ParameterValue[] } {
  const values: ParameterValue[] = [expression, ...before, limit];
  const conditions = ["o.spawner IS NULL", "m.cut = ''"];
  if (projectDir !== undefined) conditions.push(`o.project_dir = $${values.push(encodeText(projectDir))}`);
  if (archived !== "include") conditions.push(archived === "only" ? "o.archived" : "NOT o.archived");
  if (visibleTo !== undefined) conditions.push(`(o.owner = $${values.push(encodeText(visibleTo))} OR o.shared)`);
  // The inner query sorts rows without the bodies of messages.
  const sql = `SELECT s.chain, s.created_at, s.seq, m.idx, m.finished AS done, m.body, o.id AS root, o.title,
      CASE WHEN m.finished THEN NULL ELSE (SELECT '[' || string_agg(p.deltas, ',' ORDER BY p.n) || ']'
        FROM @.pieces p WHERE p.chain = m.chain AND p.seq = m.seq) END AS gained
    FROM (SELECT s.chain, s.created_at, s.seq FROM @.search_v1 s
        JOIN @.messages m ON m.chain = s.chain AND m.seq = s.seq
        JOIN @.sessions o ON o.chain = s.chain AND o.idx = 0
      WHERE s.terms @@ $1::tsquery AND (s.created_at, s.chain, s.seq) < ($2::text COLLATE "C", $3::bigint, $4::bigint)
        AND ${conditions.join(" AND ")}
      ORDER BY s.created_at DESC, s.chain DESC, s.seq DESC LIMIT $5) s
    JOIN @.messages m ON m.chain = s.chain AND m.seq = s.seq
    JOIN @.sessions o ON o.chain = s.chain AND o.idx = 0
    ORDER BY s.created_at DESC, s.chain DESC, s.seq DESC`;
  return { sql, values };
}

/** Formats terms as a `tsquery`. Terms need no escapes, because they consist of letters, digits and marks. */
function toExpression(terms: readonly QueryTerm[]): string {
  return terms.map(({ text, isPrefix }) => `'${text}'${isPrefix ? ":*" : ""}`).join(" & ");
}
