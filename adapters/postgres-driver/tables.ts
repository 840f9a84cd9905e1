/**
 * Each migration moves the tables from the version of its index to the next; `@.` is the schema. Never change a
 * released migration. A new one must let servers of the previous version keep working.
 */
export const MIGRATIONS: readonly string[] = [
  `
  -- One row a chain, also of one that has a lease and no session yet: whoever changes a chain changes this row first, and so
  -- has it alone. fence: of its lease, null when nobody has it; last: of the one it had last, null where that tells nothing
  -- of what was said since; expires: ms since 1970, by this server's clock; tokens: of the changes made last; shard: of the
  -- totals that it is counted in.
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

  -- Ids and aliases, which are one namespace.
  CREATE TABLE @.names (
    name text COLLATE "C" PRIMARY KEY,
    chain bigint NOT NULL,
    idx integer NOT NULL,
    alias boolean NOT NULL
  );

  -- Tokens are what JavaScript calls numbers: a model may tell any. search: the title in lower case, as JavaScript has it. first_seq: where what was said in it begins; null where nothing was.
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
  -- Not the whole of a long folder, for which an index has no room.
  CREATE INDEX sessions_of_dir ON @.sessions (left(project_dir, 200), updated_at, id) WHERE idx = 0;
  CREATE INDEX sessions_empty ON @.sessions (updated_at, id) WHERE idx = 0 AND empty;

  -- idx: of the session that it was said in. body: all else of it, as JSON, but for what was shown of it.
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

  -- What growing messages gained, in order of n: deltas is a JSON list of [part, type, text].
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

  -- fence: of the lease under which it was last written. named: what it keeps for its key, as JSON; record: all else, as JSON.
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

  -- ask: as it was put, as JSON. answered: what its answer changed of it, as JSON; token: of that change.
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
    -- Of the call that took it back: it is gone then, and its row goes with the next.
    withdrawn uuid,
    id text COLLATE "C" PRIMARY KEY,
    instruction text COLLATE "C" NOT NULL
  );
  CREATE INDEX instructions_of_chain ON @.instructions (chain, n);

  -- How many originals there are: in all (scope ''), and of a folder, a long one by its hash. Spread over rows that are added up, so that those who
  -- begin sessions at the same time do not wait for each other: a connection has one, whatever it makes in one transaction.
  CREATE TABLE @.totals (
    scope text COLLATE "C" NOT NULL,
    shard integer NOT NULL,
    n bigint NOT NULL,
    PRIMARY KEY (scope, shard)
  ) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0.05);

  -- Chains that are deleted, and of which messages are left: large ones go piece by piece.
  CREATE TABLE @.remains (chain bigint PRIMARY KEY);
  `,
  `
  -- The call that a helper's session was made for: id of the asking chain's original, of the run, of the call. Null of all
  -- others, which lists and totals are of.
  ALTER TABLE @.sessions ADD COLUMN spawner text COLLATE "C";
  ALTER TABLE @.sessions ADD COLUMN spawner_run text COLLATE "C";
  ALTER TABLE @.sessions ADD COLUMN spawner_call text COLLATE "C";
  DROP INDEX @.sessions_all;
  DROP INDEX @.sessions_of_dir;
  DROP INDEX @.sessions_empty;
  CREATE INDEX sessions_all ON @.sessions (updated_at, id) WHERE idx = 0 AND spawner IS NULL;
  CREATE INDEX sessions_of_dir ON @.sessions (left(project_dir, 200), updated_at, id) WHERE idx = 0 AND spawner IS NULL;
  CREATE INDEX sessions_empty ON @.sessions (updated_at, id) WHERE idx = 0 AND spawner IS NULL AND empty;
  -- By the beginning of an id that may be anything, for which an index has no room.
  CREATE INDEX sessions_spawned ON @.sessions (left(spawner, 200), updated_at, id) WHERE idx = 0 AND spawner IS NOT NULL;
  `,
];

/** Version of the tables that this code reads and writes. */
export const SCHEMA_VERSION = MIGRATIONS.length;
