import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import { toIndexTerms } from "gantry/plugin";
import { toMessage } from "./rows.js";
import type { SchemaStore } from "./store.js";
import { encodeText } from "./text-encoding.js";

/**
 * Tables of the search index, created by the first search. They are no part of the schema's version: other versions of
 * gantry ignore them. A change of the terms or tables needs new names, so that two versions can share a schema.
 *
 * - `search_v1`: the terms of a message. The terms come from gantry's own words, because PostgreSQL's parser would keep
 *   paths and identifiers whole.
 * - `search_v1_chains`: `state`: version of the chain's row when the chain was indexed, null while messages are missing.
 *   `seq`: all messages up to this one are in the index.
 */
const CREATE_SQL = `
  SELECT pg_advisory_xact_lock(hashtextextended('gantry search ' || '@.', 0));
  CREATE TABLE IF NOT EXISTS @.search_v1 (
    chain bigint NOT NULL,
    seq bigint NOT NULL,
    finished boolean NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    terms tsvector NOT NULL,
    PRIMARY KEY (chain, seq)
  );
  CREATE INDEX IF NOT EXISTS search_v1_terms ON @.search_v1 USING gin (terms);
  CREATE INDEX IF NOT EXISTS search_v1_growing ON @.search_v1 (chain, seq) WHERE NOT finished;
  CREATE TABLE IF NOT EXISTS @.search_v1_chains (chain bigint PRIMARY KEY, state text, seq bigint NOT NULL)`;

/** Maximum numbers of chains and of messages per statement. */
const MAX_BATCH_CHAINS = 100;
const MAX_BATCH_MESSAGES = 200;
const MAX_BATCH_CHARACTERS = 100_000;
/** Maximum size of the terms of a message, below PostgreSQL's limit of 1 MiB. */
const MAX_TERMS_BYTES = 900_000;
const MAX_CHARACTER_BYTES = 4;

/**
 * Reads messages of chains that changed since they were indexed: new ones, and indexed ones that were unfinished. A row
 * without a message is a chain that needs only its new state. Values: numbers of chains and of rows.
 */
const CHANGES_SQL = `WITH changed AS (
    SELECT c.chain, c.xmin::text AS state, coalesce(x.seq, -1) AS last, o.spawner IS NOT NULL AS spawned
    FROM @.chains c JOIN @.sessions o ON o.chain = c.chain AND o.idx = 0
    LEFT JOIN @.search_v1_chains x ON x.chain = c.chain
    WHERE x.state IS DISTINCT FROM c.xmin::text ORDER BY c.chain DESC LIMIT $1)
  SELECT h.chain, h.state, h.last, m.seq, m.idx, m.finished AS done, m.body,
    CASE WHEN m.finished THEN NULL ELSE (SELECT '[' || string_agg(p.deltas, ',' ORDER BY p.n) || ']'
      FROM @.pieces p WHERE p.chain = m.chain AND p.seq = m.seq) END AS gained
  FROM changed h LEFT JOIN LATERAL (
    (SELECT g.* FROM @.search_v1 e JOIN @.messages g ON g.chain = e.chain AND g.seq = e.seq
      WHERE e.chain = h.chain AND NOT e.finished AND e.seq <= h.last)
    UNION ALL (SELECT n.* FROM @.messages n WHERE n.chain = h.chain AND n.seq > h.last AND NOT h.spawned
      ORDER BY n.seq LIMIT $2)
  ) m ON true ORDER BY h.chain DESC, m.seq LIMIT $2`;

/** Stores entries (the first five lists) and the states of their chains. Another process may have stored them too. */
const STORE_SQL = `WITH entries AS (
    INSERT INTO @.search_v1 AS s (chain, seq, finished, created_at, terms)
    SELECT e.chain, e.seq, e.finished, e.created_at, array_to_tsvector(string_to_array(e.terms, ' '))
    FROM unnest($1::bigint[], $2::bigint[], $3::boolean[], $4::text[], $5::text[])
      AS e (chain, seq, finished, created_at, terms)
    ON CONFLICT (chain, seq) DO UPDATE SET finished = excluded.finished, terms = excluded.terms)
  INSERT INTO @.search_v1_chains AS x (chain, state, seq)
  SELECT * FROM unnest($6::bigint[], $7::text[], $8::bigint[])
  ON CONFLICT (chain) DO UPDATE SET state = excluded.state, seq = greatest(x.seq, excluded.seq)`;

/** A message to index; without one, `seq` is null. `last`: the last indexed `seq` of the chain. */
interface MessageRow {
  chain: string;
  state: string;
  last: string;
  seq: string | null;
  idx: number;
  done: boolean;
  body: string;
  gained: string | null;
}

interface Entry {
  chain: string;
  seq: number;
  isFinished: boolean;
  createdAt: string;
  terms: string;
}

/**
 * Index of the words of all messages. Writers do not maintain it: each search first adds the messages of the chains that
 * changed since the last search. Several processes may update the index at once, because each statement replaces the
 * entries that it writes.
 */
export class TsvectorIndex {
  readonly #store: SchemaStore;

  constructor(store: SchemaStore) {
    this.#store = store;
  }

  /** Creates the tables unless they exist. Rejects if the role may not create tables. */
  async create(): Promise<void> {
    const [row] = await this.#store.read<{ exists: boolean }>(
      "SELECT to_regclass('@.search_v1_chains') IS NOT NULL AS exists",
      [],
    );
    if (!row?.exists) await this.#store.change(CREATE_SQL, []);
  }

  /**
   * Adds messages, newest chain first, until `deadlineMs` (ms since the epoch). Resolves with whether the index is
   * complete. Makes at least one step. Rejects with the signal's reason.
   */
  async update(deadlineMs: number, signal: AbortSignal | undefined): Promise<boolean> {
    await this.#removeDeletedChains();
    while (await this.#addChanges()) {
      await yieldToEventLoop();
      signal?.throwIfAborted();
      if (Date.now() >= deadlineMs) return false;
    }
    return true;
  }

  /** Removes the entries of deleted chains. Ids of chains are never used again. */
  async #removeDeletedChains(): Promise<void> {
    const sql = `WITH deleted AS (
        DELETE FROM @.search_v1_chains x WHERE NOT EXISTS (SELECT FROM @.chains c WHERE c.chain = x.chain) RETURNING x.chain)
      DELETE FROM @.search_v1 s USING deleted d WHERE s.chain = d.chain`;
    await this.#store.change(sql, []);
  }

  /** Indexes a batch of messages of changed chains. Resolves with whether there may be more. */
  async #addChanges(): Promise<boolean> {
    const rows = await this.#store.read<MessageRow>(CHANGES_SQL, [MAX_BATCH_CHAINS, MAX_BATCH_MESSAGES]);
    if (rows.length === 0) return false;
    const entries: Entry[] = [];
    const states = new Map<string, { state: string | null; seq: number }>();
    let characters = 0;
    let readCount = 0;
    for (const row of rows) {
      if (characters >= MAX_BATCH_CHARACTERS) break;
      readCount++;
      const seq = Number(row.seq ?? row.last);
      states.set(row.chain, { state: row.state, seq });
      if (row.seq === null) continue;
      const { createdAt, parts } = toMessage({ ...row, seq: row.seq, kind: "m", tag: "", more: null }, "");
      const terms = joinTerms(toIndexTerms({ parts }));
      entries.push({ chain: row.chain, seq, isFinished: row.done, createdAt: encodeText(createdAt), terms });
      characters += terms.length;
    }
    // The last chain may have further messages.
    const lastState = states.get(rows[readCount - 1]?.chain ?? "");
    if (lastState && (readCount < rows.length || rows.length === MAX_BATCH_MESSAGES)) lastState.state = null;
    await this.#store.change(STORE_SQL, [
      entries.map(({ chain }) => chain),
      entries.map(({ seq }) => seq),
      entries.map(({ isFinished }) => isFinished),
      entries.map(({ createdAt }) => createdAt),
      entries.map(({ terms }) => terms),
      [...states.keys()],
      [...states.values()].map(({ state }) => state),
      [...states.values()].map(({ seq }) => seq),
    ]);
    return true;
  }
}

/** Joins terms with spaces, up to the maximum size. */
function joinTerms(terms: readonly string[]): string {
  const text = terms.join(" ");
  if (Buffer.byteLength(text) <= MAX_TERMS_BYTES) return text;
  const start = text.slice(0, MAX_TERMS_BYTES / MAX_CHARACTER_BYTES);
  return start.slice(0, start.lastIndexOf(" "));
}
