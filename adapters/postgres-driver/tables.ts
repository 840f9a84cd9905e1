/** Maximum size of an owner in an index. Longer owners are hashed, because an index entry has a maximum size. */
export const MAX_INDEXED_BYTES = 200;

/**
 * The condition of the sessions in lists by reader. As a `CASE`, PostgreSQL cannot derive from it the condition of another
 * index, whose scan would read the sessions of all users.
 */
export const READER_LIST_CONDITION = "CASE WHEN idx = 0 AND spawner IS NULL THEN reader <> '' END";

const createHash = (text: string): string => `encode(sha256(convert_to(${text}, getdatabaseencoding()::name)), 'hex')`;

/** The scopes of `totals` that count a session for its readers: in all folders, and in its folder. */
const createReaderScopes = (session: string): string => {
  const [start, end] = [`'reader:' || ${session}.archived::integer || ':'`, `':' || ${session}.reader`];
  return `CASE WHEN ${session}.reader <> '' THEN
      ARRAY[${start} || ${end}, ${start} || ${createHash(`${session}.project_dir`)} || ${end}] END`;
};

/** The value of the column `reader` of version 4, by the name of the row of a chain's first session. */
const createReaderValue = (session: string): string =>
  `CASE WHEN ${session}.shared THEN 'shared' WHEN ${session}.owner = '' THEN ''
      WHEN octet_length(${session}.owner) <= 1000 THEN 'owner:' || ${session}.owner
      ELSE 'long:' || encode(sha256(convert_to(${session}.owner, getdatabaseencoding()::name)), 'hex') END`;

/** The column `reader` of a table with rows of chains, its indexes, and the trigger for new rows. */
const createReader = (table: string, time: string): string =>
  `ALTER TABLE @.${table} ADD COLUMN reader text COLLATE "C" NOT NULL DEFAULT '';
  CREATE INDEX ${table}_of_reader ON @.${table} (reader, ${time}, id) WHERE reader <> '';
  CREATE INDEX ${table}_of_reader_state ON @.${table} (reader, state, ${time}, id) WHERE reader <> '';
  CREATE TRIGGER ${table}_reader BEFORE INSERT ON @.${table} FOR EACH ROW EXECUTE FUNCTION @.set_reader();`;

/**
 * The migration with index `i` moves the tables from version `i` to `i + 1`; `@.` is the schema. Never change a
 * released migration. A new migration must let servers of the previous version keep working.
 */
export const MIGRATIONS: readonly string[] = [
  `
  -- One row for each chain, including chains with a lease but no session yet. Every change of a chain updates this row first,
  -- so changes are serialized. fence: of the current lease, null without one. last: fence of the previous lease; null if
  -- messages may have changed without a lease. expires: ms since 1970, by the clock of the database server. tokens: of the
  -- most recent changes. shard: row of the totals that counts the chain.
  CREATE TABLE @.chains (
    chain bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    expires bigint NOT NULL DEFAULT 0,
    shard integer NOT NULL DEFAULT 0,
    fence bigint,
    last bigint,
    root text COLLATE "C" NOT NULL UNIQUE,
    holder_id text COLLATE "C" NOT NULL DEFAULT '',
    holder text COLLATE "C" NOT NULL DEFAULT '',
    tokens uuid[] NOT NULL DEFAULT '{}'
  ) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05);

  -- Session ids and aliases share one namespace.
  CREATE TABLE @.names (
    name text COLLATE "C" PRIMARY KEY,
    chain bigint NOT NULL,
    idx integer NOT NULL,
    alias boolean NOT NULL
  );

  -- Token counts are doubles, because a model may report any JavaScript number. search: the title in lower case, by the rules
  -- of JavaScript. first_seq: seq of the session's first message, null without messages.
  CREATE TABLE @.sessions (
    chain bigint NOT NULL,
    last_seq bigint NOT NULL,
    first_seq bigint,
    prompt_tokens double precision NOT NULL,
    completion_tokens double precision NOT NULL,
    total_tokens double precision NOT NULL,
    cost double precision NOT NULL,
    idx integer NOT NULL,
    titled boolean NOT NULL,
    empty boolean GENERATED ALWAYS AS (last_seq = 0) STORED,
    id text COLLATE "C" NOT NULL,
    alias text COLLATE "C" NOT NULL,
    root text COLLATE "C" NOT NULL,
    parent_id text COLLATE "C" NOT NULL,
    project_dir text COLLATE "C" NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    updated_at text COLLATE "C" NOT NULL,
    cut text COLLATE "C" NOT NULL DEFAULT '',
    provider text COLLATE "C" NOT NULL,
    model text COLLATE "C" NOT NULL,
    reasoning_effort text COLLATE "C" NOT NULL,
    mode text COLLATE "C" NOT NULL,
    leave text COLLATE "C" NOT NULL,
    cuts text COLLATE "C" NOT NULL,
    title text COLLATE "C" NOT NULL,
    search text COLLATE "C" NOT NULL,
    PRIMARY KEY (chain, idx)
  ) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
  CREATE INDEX sessions_all ON @.sessions (updated_at, id) WHERE idx = 0;
  -- Only the start of a long path, because an index entry has a maximum size.
  CREATE INDEX sessions_of_dir ON @.sessions (left(project_dir, 200), updated_at, id) WHERE idx = 0;
  CREATE INDEX sessions_empty ON @.sessions (updated_at, id) WHERE idx = 0 AND empty;

  -- idx: of the message's session. shown: the displayed part of a tool result. body: all other fields as JSON.
  CREATE TABLE @.messages (
    chain bigint NOT NULL,
    seq bigint NOT NULL,
    idx integer NOT NULL,
    finished boolean NOT NULL,
    cut text COLLATE "C" NOT NULL DEFAULT '',
    id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    body text COLLATE "C" NOT NULL,
    shown text COLLATE "C" NOT NULL,
    PRIMARY KEY (chain, seq)
  ) WITH (fillfactor = 90);
  CREATE INDEX messages_growing ON @.messages (chain, id) WHERE NOT finished;
  CREATE INDEX messages_cut ON @.messages (chain, cut, seq) WHERE cut <> '';

  -- Text appended to unfinished messages, in order of n. deltas: JSON list of [part, type, text].
  CREATE TABLE @.pieces (
    chain bigint NOT NULL,
    seq bigint NOT NULL,
    n bigint GENERATED ALWAYS AS IDENTITY,
    deltas text COLLATE "C" NOT NULL,
    PRIMARY KEY (chain, seq, n)
  ) WITH (autovacuum_vacuum_scale_factor = 0.05);

  CREATE TABLE @.views (
    chain bigint NOT NULL,
    idx integer NOT NULL,
    messages text COLLATE "C" NOT NULL,
    PRIMARY KEY (chain, idx)
  );

  CREATE TABLE @.snapshots (
    chain bigint NOT NULL,
    after bigint NOT NULL,
    n bigint GENERATED ALWAYS AS IDENTITY,
    id text COLLATE "C" NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    PRIMARY KEY (chain, id)
  );

  -- fence: of the lease of the last write. named: the fields that a repeated request with the key needs, as JSON. record: all
  -- other fields, as JSON.
  CREATE TABLE @.runs (
    chain bigint NOT NULL,
    fence bigint,
    id text COLLATE "C" PRIMARY KEY,
    key text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    started_at text COLLATE "C" NOT NULL,
    named text COLLATE "C" NOT NULL,
    record text COLLATE "C" NOT NULL
  ) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
  CREATE UNIQUE INDEX runs_key ON @.runs (key) WHERE key <> '';
  CREATE INDEX runs_with_key ON @.runs (started_at) WHERE key <> '';
  CREATE INDEX runs_all ON @.runs (started_at, id);
  CREATE INDEX runs_of_state ON @.runs (state, started_at, id);
  CREATE INDEX runs_of_chain ON @.runs (chain, started_at, id);
  CREATE INDEX runs_open ON @.runs (chain) WHERE state IN ('queued', 'running', 'waiting');

  -- ask: as created, as JSON. answered: fields that the answer changed, as JSON. token: of the answer's change.
  CREATE TABLE @.asks (
    chain bigint NOT NULL,
    token uuid,
    id text COLLATE "C" PRIMARY KEY,
    state text COLLATE "C" NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    ask text COLLATE "C" NOT NULL,
    answered text COLLATE "C" NOT NULL DEFAULT ''
  );
  CREATE INDEX asks_all ON @.asks (created_at, id);
  CREATE INDEX asks_of_chain ON @.asks (chain, created_at, id);
  CREATE INDEX asks_open ON @.asks (created_at, id) WHERE state = 'open';
  CREATE INDEX asks_open_of_chain ON @.asks (chain) WHERE state = 'open';

  CREATE TABLE @.instructions (
    chain bigint NOT NULL,
    n bigint GENERATED ALWAYS AS IDENTITY,
    -- Token of the change that removed the instruction. The next change deletes the row.
    withdrawn uuid,
    id text COLLATE "C" PRIMARY KEY,
    instruction text COLLATE "C" NOT NULL
  );
  CREATE INDEX instructions_of_chain ON @.instructions (chain, n);

  -- Number of root sessions: in total (scope '') and by folder (a hash for a long path). The sum is spread over several rows,
  -- so that clients that create sessions at the same time do not wait for each other. A connection uses one row.
  CREATE TABLE @.totals (
    scope text COLLATE "C" NOT NULL,
    shard integer NOT NULL,
    n bigint NOT NULL,
    PRIMARY KEY (scope, shard)
  ) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0.05);

  -- Deleted chains with remaining messages. Large chains are deleted in batches.
  CREATE TABLE @.remains (chain bigint PRIMARY KEY);
  `,
  `
  -- The tool call that created a subagent session: root session, run and call. Null for all other sessions. Lists and totals
  -- contain only the others.
  ALTER TABLE @.sessions ADD COLUMN spawner text COLLATE "C";
  ALTER TABLE @.sessions ADD COLUMN spawner_run text COLLATE "C";
  ALTER TABLE @.sessions ADD COLUMN spawner_call text COLLATE "C";
  DROP INDEX @.sessions_all;
  DROP INDEX @.sessions_of_dir;
  DROP INDEX @.sessions_empty;
  CREATE INDEX sessions_all ON @.sessions (updated_at, id) WHERE idx = 0 AND spawner IS NULL;
  CREATE INDEX sessions_of_dir ON @.sessions (left(project_dir, 200), updated_at, id) WHERE idx = 0 AND spawner IS NULL;
  CREATE INDEX sessions_empty ON @.sessions (updated_at, id) WHERE idx = 0 AND spawner IS NULL AND empty;
  -- Only the start of the id: an imported id can be longer than an index entry.
  CREATE INDEX sessions_spawned ON @.sessions (left(spawner, 200), updated_at, id) WHERE idx = 0 AND spawner IS NOT NULL;
  `,
  `
  ALTER TABLE @.sessions ADD COLUMN archived boolean NOT NULL DEFAULT false;
  DROP INDEX @.sessions_all;
  DROP INDEX @.sessions_of_dir;
  CREATE INDEX sessions_all ON @.sessions (updated_at, id, archived) WHERE idx = 0 AND spawner IS NULL;
  CREATE INDEX sessions_of_dir ON @.sessions (left(project_dir, 200), updated_at, id, archived) WHERE idx = 0 AND spawner IS NULL;
  CREATE INDEX sessions_archived ON @.sessions (updated_at, id) WHERE idx = 0 AND spawner IS NULL AND archived;
  `,
  `
  -- owner: empty without an owner. Servers of the previous version create sessions without owners. The indexes contain only
  -- sessions with an owner, or shared ones; only the start of an owner, because an index entry has a maximum size.
  ALTER TABLE @.sessions ADD COLUMN owner text COLLATE "C" NOT NULL DEFAULT '';
  ALTER TABLE @.sessions ADD COLUMN shared boolean NOT NULL DEFAULT false;
  CREATE INDEX sessions_of_owner ON @.sessions (left(owner, 200), updated_at, id) WHERE idx = 0 AND spawner IS NULL AND owner <> '';
  CREATE INDEX sessions_shared ON @.sessions (updated_at, id) WHERE idx = 0 AND spawner IS NULL AND shared;

  -- reader of runs and asks: 'shared' in a shared chain, else 'owner:' and the owner (a hash of a long one), else empty.
  -- Triggers keep it, so that it is also correct after changes by servers of the previous version.
  CREATE FUNCTION @.set_reader() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    NEW.reader := coalesce(
      (SELECT ${createReaderValue("s")} FROM @.sessions s WHERE s.chain = NEW.chain AND s.idx = 0), '');
    RETURN NEW;
  END $$;
  CREATE FUNCTION @.update_readers() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    UPDATE @.runs r SET reader = ${createReaderValue("NEW")} WHERE r.chain = NEW.chain;
    UPDATE @.asks a SET reader = ${createReaderValue("NEW")} WHERE a.chain = NEW.chain;
    RETURN NULL;
  END $$;
  ${createReader("runs", "started_at")}
  ${createReader("asks", "created_at")}
  CREATE TRIGGER sessions_readers AFTER UPDATE OF shared ON @.sessions FOR EACH ROW
  WHEN (NEW.idx = 0 AND NEW.shared <> OLD.shared) EXECUTE FUNCTION @.update_readers();
  `,
  `
  -- Sessions have a reader too. Runs and asks have that of their chain's first session. Triggers keep it and the totals by
  -- reader, so that both are also correct after changes by servers of the previous version.
  DROP INDEX @.sessions_of_owner;
  DROP INDEX @.sessions_shared;
  ALTER TABLE @.sessions ADD COLUMN reader text COLLATE "C" NOT NULL DEFAULT '';
  CREATE INDEX sessions_of_reader ON @.sessions (reader, archived, updated_at, id) WHERE ${READER_LIST_CONDITION};
  CREATE INDEX sessions_of_reader_dir ON @.sessions (reader, left(project_dir, 200), archived, updated_at, id)
  WHERE ${READER_LIST_CONDITION};

  CREATE FUNCTION @.set_session_reader() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    NEW.reader := CASE WHEN NEW.shared THEN 'shared' WHEN NEW.owner = '' THEN ''
      WHEN octet_length(NEW.owner) <= ${MAX_INDEXED_BYTES} THEN 'owner:' || NEW.owner
      ELSE 'long:' || ${createHash("NEW.owner")} END;
    RETURN NEW;
  END $$;
  CREATE OR REPLACE FUNCTION @.set_reader() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    NEW.reader := coalesce((SELECT s.reader FROM @.sessions s WHERE s.chain = NEW.chain AND s.idx = 0), '');
    RETURN NEW;
  END $$;
  CREATE OR REPLACE FUNCTION @.update_readers() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    UPDATE @.runs r SET reader = NEW.reader WHERE r.chain = NEW.chain;
    UPDATE @.asks a SET reader = NEW.reader WHERE a.chain = NEW.chain;
    RETURN NULL;
  END $$;
  CREATE FUNCTION @.count_readers() RETURNS trigger LANGUAGE plpgsql AS $$
  DECLARE
    v_shard integer := (SELECT c.shard FROM @.chains c WHERE c.chain = coalesce(NEW.chain, OLD.chain));
    v_old text[] := ${createReaderScopes("OLD")};
    v_new text[] := ${createReaderScopes("NEW")};
  BEGIN
    INSERT INTO @.totals AS t (scope, shard, n) SELECT c.scope, v_shard, sum(c.n)
    FROM (SELECT unnest(v_old) AS scope, -1 AS n UNION ALL SELECT unnest(v_new), 1) c
    GROUP BY c.scope HAVING sum(c.n) <> 0 ORDER BY c.scope
    ON CONFLICT (scope, shard) DO UPDATE SET n = t.n + excluded.n;
    DELETE FROM @.totals t WHERE t.scope = ANY (v_old) AND t.shard = v_shard AND t.n = 0;
    RETURN NULL;
  END $$;
  -- started_by: the user who started the run, in the form of reader; empty without a user.
  ALTER TABLE @.runs ADD COLUMN started_by text COLLATE "C" NOT NULL DEFAULT '';
  CREATE INDEX runs_of_user ON @.runs (started_by, started_at, id) WHERE started_by <> '';
  CREATE TRIGGER sessions_reader BEFORE INSERT ON @.sessions FOR EACH ROW EXECUTE FUNCTION @.set_session_reader();
  -- Every write of a session names the column shared. The condition calls the function only if the reader changes.
  CREATE TRIGGER sessions_reader_changed BEFORE UPDATE OF shared ON @.sessions FOR EACH ROW
  WHEN (NEW.shared <> OLD.shared OR (NEW.reader = '' AND (NEW.shared OR NEW.owner <> '')))
  EXECUTE FUNCTION @.set_session_reader();
  DROP TRIGGER sessions_readers ON @.sessions;
  CREATE TRIGGER sessions_readers AFTER UPDATE OF shared ON @.sessions FOR EACH ROW
  WHEN (NEW.idx = 0 AND NEW.reader <> OLD.reader) EXECUTE FUNCTION @.update_readers();
  CREATE TRIGGER sessions_inserted AFTER INSERT ON @.sessions FOR EACH ROW
  WHEN (NEW.idx = 0 AND NEW.spawner IS NULL AND NEW.reader <> '') EXECUTE FUNCTION @.count_readers();
  CREATE TRIGGER sessions_deleted AFTER DELETE ON @.sessions FOR EACH ROW
  WHEN (OLD.idx = 0 AND OLD.spawner IS NULL AND OLD.reader <> '') EXECUTE FUNCTION @.count_readers();
  CREATE TRIGGER sessions_moved AFTER UPDATE OF shared, archived, project_dir ON @.sessions FOR EACH ROW
  WHEN (NEW.idx = 0 AND NEW.spawner IS NULL
    AND (NEW.reader, NEW.archived, NEW.project_dir) <> (OLD.reader, OLD.archived, OLD.project_dir))
  EXECUTE FUNCTION @.count_readers();
  -- Sets the readers of existing sessions, runs and asks, and counts them.
  UPDATE @.sessions SET shared = shared WHERE owner <> '' OR shared;
  `,
];

/** Version of the tables that this code reads and writes. */
export const SCHEMA_VERSION = MIGRATIONS.length;
