// `@.` is the schema, and `@v` what tells these functions from those of other versions. What is refused raises SQLSTATEs of
// the class GN (`refusals.ts`) and undoes all of the call. Every change has a token, by which it is known when it is sent again
// because its answer was lost.

/** What the functions below share. */
const SHARED = `
  -- Originals that come and go.
  CREATE FUNCTION @.count@v(p_dir text, p_chain bigint, p_by integer) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO @.totals AS t (scope, shard, n) VALUES ('', p_chain % 32, p_by), ('dir:' || p_dir, p_chain % 32, p_by)
    ON CONFLICT (scope, shard) DO UPDATE SET n = t.n + excluded.n;
    IF p_by < 0 THEN
      DELETE FROM @.totals t WHERE t.scope = 'dir:' || p_dir AND t.shard = p_chain % 32 AND t.n = 0;
    END IF;
  END $$;

  -- p_new: none of them may be there yet.
  CREATE FUNCTION @.put_runs@v(p_chain bigint, p_fence bigint, p_runs json, p_new boolean)
  RETURNS void LANGUAGE plpgsql AS $$
  DECLARE
    r record;
  BEGIN
    FOR r IN SELECT * FROM json_to_recordset(p_runs)
      AS t (id text, key text, state text, started_at text, named text, record text)
    LOOP
      IF NOT p_new THEN
        UPDATE @.runs o SET fence = p_fence, key = r.key, state = r.state, started_at = r.started_at, named = r.named,
          record = r.record WHERE o.id = r.id AND o.chain = p_chain;
        CONTINUE WHEN FOUND;
      END IF;
      INSERT INTO @.runs (chain, fence, id, key, state, started_at, named, record)
      VALUES (p_chain, p_fence, r.id, r.key, r.state, r.started_at, r.named, r.record) ON CONFLICT DO NOTHING;
      IF NOT FOUND THEN
        RAISE EXCEPTION 'run key taken' USING ERRCODE = 'GN006', DETAIL = r.key;
      END IF;
    END LOOP;
  END $$;

  CREATE FUNCTION @.put_asks@v(p_chain bigint, p_asks json) RETURNS void LANGUAGE plpgsql AS $$
  DECLARE
    a record;
  BEGIN
    FOR a IN SELECT * FROM json_to_recordset(p_asks) AS t (id text, state text, created_at text, ask text) LOOP
      INSERT INTO @.asks AS o (chain, id, state, created_at, ask) VALUES (p_chain, a.id, a.state, a.created_at, a.ask)
      ON CONFLICT (id) DO UPDATE SET state = excluded.state, created_at = excluded.created_at, ask = excluded.ask
        WHERE o.chain = excluded.chain AND o.state <> 'answered';
      IF NOT FOUND AND EXISTS (SELECT FROM @.asks o WHERE o.id = a.id AND o.chain <> p_chain) THEN
        RAISE EXCEPTION 'ask exists' USING ERRCODE = 'GN001', DETAIL = a.id;
      END IF;
    END LOOP;
  END $$;
`;

/** A session or a whole chain; `p_fresh` where its original is among what is given. */
const CREATE = `
  CREATE FUNCTION @.create@v(p_root text, p_fresh boolean, p_fence bigint, p_token uuid, p_sync boolean, p_chain json)
  RETURNS void LANGUAGE plpgsql AS $$
  DECLARE
    c @.chains%ROWTYPE;
    v_count integer;
    s record;
    x record;
  BEGIN
    IF NOT p_sync THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;
    SELECT * INTO x FROM json_to_record(p_chain)
      AS t (sessions json, messages json, views json, snapshots json, runs json, asks json, load boolean);
    IF p_fresh THEN
      LOOP
        SELECT o.* INTO c FROM @.chains o WHERE o.root = p_root FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO @.chains (root) VALUES (p_root) ON CONFLICT DO NOTHING RETURNING * INTO c;
        EXIT WHEN FOUND;
      END LOOP;
    ELSE
      SELECT o.* INTO c FROM @.chains o
      WHERE o.chain = (SELECT n.chain FROM @.names n WHERE n.name = p_root AND NOT n.alias) FOR UPDATE;
      IF NOT FOUND THEN
        RAISE EXCEPTION 'session not found' USING ERRCODE = 'GN002', DETAIL = p_root;
      END IF;
    END IF;
    IF p_token = ANY (c.tokens) THEN RETURN; END IF;

    FOR s IN SELECT * FROM json_to_recordset(x.sessions) AS t (id text, alias text, idx integer, project_dir text) LOOP
      INSERT INTO @.names (name, chain, idx, alias) VALUES (s.id, c.chain, s.idx, false) ON CONFLICT DO NOTHING;
      IF NOT FOUND THEN
        RAISE EXCEPTION 'session exists' USING ERRCODE = 'GN001', DETAIL = s.id;
      END IF;
      IF s.alias <> '' THEN
        INSERT INTO @.names (name, chain, idx, alias) VALUES (s.alias, c.chain, s.idx, true) ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
          RAISE EXCEPTION 'session exists' USING ERRCODE = 'GN001', DETAIL = s.alias;
        END IF;
      END IF;
      IF s.idx = 0 THEN PERFORM @.count@v(s.project_dir, c.chain, 1); END IF;
    END LOOP;
    IF p_fence <> c.fence OR (p_fence IS NOT NULL AND c.fence IS NULL) THEN
      RAISE EXCEPTION 'lease lost' USING ERRCODE = 'GN003', DETAIL = p_root;
    END IF;

    UPDATE @.chains o SET tokens = array_prepend(p_token, o.tokens[1:15]),
      last = CASE WHEN p_fence IS NULL THEN NULL ELSE o.last END WHERE o.chain = c.chain;
    INSERT INTO @.sessions (chain, last_seq, first_seq, prompt_tokens, completion_tokens, total_tokens, cost, idx, titled,
      id, alias, root, parent_id, project_dir, created_at, updated_at, cut, provider, model, reasoning_effort, mode, leave,
      cuts, title, search)
    SELECT c.chain, t.last_seq, t.first_seq, t.prompt_tokens, t.completion_tokens, t.total_tokens, t.cost, t.idx, t.titled,
      t.id, t.alias, t.root, t.parent_id, t.project_dir, t.created_at, t.updated_at, t.cut, t.provider, t.model,
      t.reasoning_effort, t.mode, t.leave, t.cuts, t.title, t.search
    FROM json_to_recordset(x.sessions) AS t (last_seq bigint, first_seq bigint, prompt_tokens bigint,
      completion_tokens bigint, total_tokens bigint, cost double precision, idx integer, titled boolean, id text, alias text,
      root text, parent_id text, project_dir text, created_at text, updated_at text, cut text, provider text, model text,
      reasoning_effort text, mode text, leave text, cuts text, title text, search text)
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count < json_array_length(x.sessions) THEN
      RAISE EXCEPTION 'index taken' USING ERRCODE = 'GN001', DETAIL = x.sessions->0->>'id';
    END IF;
    IF x.messages IS NOT NULL THEN
      INSERT INTO @.messages (chain, seq, idx, finished, cut, id, name, body, shown)
      SELECT c.chain, t.seq, t.idx, t.finished, t.cut, t.id, t.name, t.body, t.shown FROM json_to_recordset(x.messages)
        AS t (seq bigint, idx integer, finished boolean, cut text, id text, name text, body text, shown text);
    END IF;
    IF x.views IS NOT NULL THEN
      INSERT INTO @.views (chain, idx, messages)
      SELECT c.chain, t.idx, t.messages FROM json_to_recordset(x.views) AS t (idx integer, messages text);
    END IF;
    IF x.snapshots IS NOT NULL THEN
      FOR s IN SELECT * FROM json_to_recordset(x.snapshots) AS t (id text, after bigint, created_at text) LOOP
        INSERT INTO @.snapshots (chain, id, after, created_at) VALUES (c.chain, s.id, s.after, s.created_at);
      END LOOP;
    END IF;
    IF x.runs IS NOT NULL THEN PERFORM @.put_runs@v(c.chain, p_fence, x.runs, coalesce(x.load, false)); END IF;
    IF x.asks IS NOT NULL THEN PERFORM @.put_asks@v(c.chain, x.asks); END IF;
  END $$;
`;

/** Tells the instructions that are left where the lease is given back. */
const WRITE = `
  CREATE FUNCTION @.write@v(p_id text, p_fence bigint, p_token uuid, p_sync boolean, p_release boolean, p_says boolean, p_change json)
  RETURNS TABLE (root text, instruction text) LANGUAGE plpgsql AS $$
  #variable_conflict use_column
  DECLARE
    v_chain bigint;
    v_idx integer;
    v_dir text;
    v_count integer;
    v_done boolean := false;
    c record;
    x record;
  BEGIN
    IF NOT p_sync THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;
    LOOP
      UPDATE @.chains o SET tokens = array_prepend(p_token, o.tokens[1:15]),
        fence = CASE WHEN p_release THEN NULL ELSE o.fence END,
        last = CASE WHEN p_says AND p_fence IS NULL THEN NULL ELSE o.last END
      FROM @.names n
      WHERE n.name = p_id AND NOT n.alias AND o.chain = n.chain
        AND (p_fence IS NULL OR o.fence = p_fence) AND p_token <> ALL (o.tokens)
      RETURNING o.chain, n.idx INTO v_chain, v_idx;
      EXIT WHEN FOUND;
      SELECT o.chain, o.root, p_token = ANY (o.tokens) AS done INTO c
      FROM @.names n JOIN @.chains o ON o.chain = n.chain WHERE n.name = p_id AND NOT n.alias;
      IF NOT FOUND THEN
        RAISE EXCEPTION 'session not found' USING ERRCODE = 'GN002', DETAIL = p_id;
      END IF;
      v_done := c.done;
      v_chain := c.chain;
      EXIT WHEN v_done;
      IF p_fence IS NOT NULL THEN
        RAISE EXCEPTION 'lease lost' USING ERRCODE = 'GN003', DETAIL = c.root;
      END IF;
    END LOOP;

    IF NOT v_done THEN
      SELECT * INTO x FROM json_to_record(p_change) AS t (fields json, cut json, restore text, add json, append json,
        finish json, runs json, asks json, followed json);
      IF x.cut IS NOT NULL THEN PERFORM @.cut@v(v_chain, v_idx, x.cut); END IF;
      IF x.restore IS NOT NULL THEN PERFORM @.restore@v(v_chain, x.restore); END IF;
      IF x.cut IS NOT NULL OR x.restore IS NOT NULL THEN
        UPDATE @.sessions s SET last_seq = greatest(s.last_seq,
          (SELECT m.seq FROM @.messages m WHERE m.chain = v_chain ORDER BY m.seq DESC LIMIT 1))
        WHERE s.chain = v_chain AND s.idx =
          (SELECT n.idx FROM @.sessions n WHERE n.chain = v_chain AND n.cut = '' ORDER BY n.idx DESC LIMIT 1);
      END IF;
      IF x.fields IS NOT NULL THEN PERFORM @.set@v(v_chain, v_idx, x.fields); END IF;
      IF x.add IS NOT NULL THEN
        INSERT INTO @.messages (chain, seq, idx, finished, id, name, body, shown)
        SELECT v_chain, t.seq, v_idx, t.finished, t.id, t.name, t.body, t.shown FROM json_to_recordset(x.add)
          AS t (seq bigint, finished boolean, id text, name text, body text, shown text);
      END IF;
      IF x.append IS NOT NULL THEN
        INSERT INTO @.pieces (chain, seq, deltas)
        SELECT v_chain, m.seq, t.deltas FROM json_to_recordset(x.append) AS t (id text, deltas text)
          JOIN @.messages m ON m.chain = v_chain AND m.id = t.id AND NOT m.finished;
        GET DIAGNOSTICS v_count = ROW_COUNT;
        IF v_count < json_array_length(x.append) THEN
          RAISE EXCEPTION 'message not found' USING ERRCODE = 'GN005';
        END IF;
      END IF;
      IF x.finish IS NOT NULL THEN
        WITH finished AS (
          UPDATE @.messages m SET finished = true, name = t.name, body = t.body, shown = t.shown
          FROM json_to_recordset(x.finish) AS t (id text, name text, body text, shown text)
          WHERE m.chain = v_chain AND m.id = t.id AND NOT m.finished RETURNING m.seq
        ), gone AS (
          DELETE FROM @.pieces p USING finished f WHERE p.chain = v_chain AND p.seq = f.seq
        )
        SELECT count(*) INTO v_count FROM finished;
        IF v_count < json_array_length(x.finish) THEN
          RAISE EXCEPTION 'message not found' USING ERRCODE = 'GN005';
        END IF;
      END IF;
      IF x.runs IS NOT NULL THEN PERFORM @.put_runs@v(v_chain, p_fence, x.runs, false); END IF;
      IF x.asks IS NOT NULL THEN PERFORM @.put_asks@v(v_chain, x.asks); END IF;
      IF x.followed IS NOT NULL THEN
        DELETE FROM @.instructions i WHERE i.chain = v_chain AND i.id IN (SELECT json_array_elements_text(x.followed));
      END IF;
    END IF;
    IF p_release THEN
      RETURN QUERY SELECT o.root, i.instruction FROM @.instructions i JOIN @.chains o ON o.chain = i.chain
        WHERE i.chain = v_chain AND i.withdrawn IS NULL ORDER BY i.n;
    END IF;
  END $$;
`;

const CHANGES = `
  CREATE FUNCTION @.cut@v(p_chain bigint, p_idx integer, p_cut json) RETURNS void LANGUAGE plpgsql AS $$
  DECLARE
    x record;
  BEGIN
    SELECT * INTO x FROM json_to_record(p_cut) AS t (id text, after bigint, created_at text);
    UPDATE @.messages m SET cut = x.id WHERE m.chain = p_chain AND m.seq > x.after AND m.cut = '';
    UPDATE @.sessions s SET cut = x.id WHERE s.chain = p_chain AND s.idx > p_idx AND s.cut = '';
    INSERT INTO @.snapshots (chain, id, after, created_at) VALUES (p_chain, x.id, x.after, x.created_at);
  END $$;

  CREATE FUNCTION @.restore@v(p_chain bigint, p_id text) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    DELETE FROM @.snapshots p WHERE p.chain = p_chain AND p.id = p_id;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'snapshot not found' USING ERRCODE = 'GN004';
    END IF;
    UPDATE @.messages m SET cut = '' WHERE m.chain = p_chain AND m.cut = p_id AND m.cut <> '';
    UPDATE @.sessions s SET cut = '' WHERE s.chain = p_chain AND s.cut = p_id;
  END $$;

  -- Of the session itself, and of its chain's original.
  CREATE FUNCTION @.set@v(p_chain bigint, p_idx integer, p_fields json) RETURNS void LANGUAGE plpgsql AS $$
  DECLARE
    x record;
    v_dir text;
  BEGIN
    SELECT * INTO x FROM json_to_record(p_fields) AS t (title text, search text, titled boolean, provider text, model text,
      reasoning_effort text, mode text, leave text, cuts text, project_dir text, updated_at text, prompt_tokens bigint,
      completion_tokens bigint, total_tokens bigint, cost double precision, first_seq bigint, last_seq bigint);
    IF x.project_dir IS NOT NULL THEN
      SELECT s.project_dir INTO v_dir FROM @.sessions s WHERE s.chain = p_chain AND s.idx = 0;
      IF v_dir <> x.project_dir THEN
        PERFORM @.count@v(v_dir, p_chain, -1), @.count@v(x.project_dir, p_chain, 1);
      END IF;
    END IF;
    UPDATE @.sessions s SET
      title = coalesce(x.title, s.title),
      search = coalesce(x.search, s.search),
      titled = coalesce(x.titled, s.titled),
      provider = coalesce(x.provider, s.provider),
      model = coalesce(x.model, s.model),
      reasoning_effort = coalesce(x.reasoning_effort, s.reasoning_effort),
      mode = coalesce(x.mode, s.mode),
      leave = coalesce(x.leave, s.leave),
      cuts = coalesce(x.cuts, s.cuts),
      project_dir = coalesce(x.project_dir, s.project_dir),
      updated_at = greatest(x.updated_at COLLATE "C", s.updated_at),
      prompt_tokens = s.prompt_tokens + coalesce(x.prompt_tokens, 0),
      completion_tokens = s.completion_tokens + coalesce(x.completion_tokens, 0),
      total_tokens = s.total_tokens + coalesce(x.total_tokens, 0),
      cost = s.cost + coalesce(x.cost, 0),
      first_seq = CASE WHEN s.idx = p_idx THEN least(x.first_seq, s.first_seq) ELSE s.first_seq END,
      last_seq = CASE WHEN s.idx = p_idx THEN greatest(x.last_seq, s.last_seq) ELSE s.last_seq END
    WHERE s.chain = p_chain AND s.idx = ANY (ARRAY[0, p_idx]);
  END $$;

  CREATE FUNCTION @.answer@v(p_id text, p_token uuid, p_answered text)
  RETURNS TABLE (root text, state text, ask text, answered text, counts boolean) LANGUAGE plpgsql AS $$
  #variable_conflict use_column
  BEGIN
    UPDATE @.asks a SET state = 'answered', answered = p_answered, token = p_token WHERE a.id = p_id AND a.state = 'open';
    RETURN QUERY SELECT c.root, a.state, a.ask, a.answered, coalesce(a.token = p_token, false)
      FROM @.asks a JOIN @.chains c ON c.chain = a.chain WHERE a.id = p_id;
  END $$;

  -- The chain is changed too, so that this and a run's last write have an order.
  CREATE FUNCTION @.instruct@v(p_session text, p_token uuid, p_id text, p_instruction text)
  RETURNS void LANGUAGE plpgsql AS $$
  DECLARE
    v_chain bigint;
  BEGIN
    UPDATE @.chains o SET tokens = array_prepend(p_token, o.tokens[1:15]) FROM @.names n
    WHERE n.name = p_session AND NOT n.alias AND o.chain = n.chain AND p_token <> ALL (o.tokens)
    RETURNING o.chain INTO v_chain;
    IF NOT FOUND THEN
      IF EXISTS (SELECT FROM @.names n JOIN @.chains o ON o.chain = n.chain
        WHERE n.name = p_session AND NOT n.alias AND p_token = ANY (o.tokens)) THEN RETURN; END IF;
      RAISE EXCEPTION 'session not found' USING ERRCODE = 'GN002', DETAIL = p_session;
    END IF;
    DELETE FROM @.instructions i WHERE i.chain = v_chain AND i.withdrawn IS NOT NULL;
    INSERT INTO @.instructions (chain, id, instruction) VALUES (v_chain, p_id, p_instruction) ON CONFLICT DO NOTHING;
  END $$;

  -- The chain is had first: a write that gives its lease back tells what is left as of one moment with this.
  CREATE FUNCTION @.withdraw@v(p_id text, p_token uuid) RETURNS boolean LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM FROM @.chains o WHERE o.chain = (SELECT i.chain FROM @.instructions i WHERE i.id = p_id) FOR UPDATE;
    UPDATE @.instructions i SET withdrawn = p_token WHERE i.id = p_id AND i.withdrawn IS NULL;
    RETURN FOUND OR EXISTS (SELECT FROM @.instructions i WHERE i.id = p_id AND i.withdrawn = p_token);
  END $$;

  CREATE FUNCTION @.forget_keys@v(p_before text) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE @.runs r SET key = '', named = ''
    WHERE r.key <> '' AND r.started_at < p_before AND r.state NOT IN ('queued', 'running', 'waiting');
  END $$;
`;

/** Chains whole. Their messages go piece by piece: tells chains of which some are left, whoever deleted them. */
const DELETE = `
  CREATE FUNCTION @.sweep@v(p_chain bigint, p_limit integer) RETURNS void LANGUAGE plpgsql AS $$
  DECLARE
    v_count integer;
  BEGIN
    DELETE FROM @.messages m WHERE m.chain = p_chain AND m.seq = ANY (ARRAY
      (SELECT o.seq FROM @.messages o WHERE o.chain = p_chain ORDER BY o.seq LIMIT p_limit));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count < p_limit THEN
      DELETE FROM @.pieces p WHERE p.chain = p_chain;
      DELETE FROM @.remains r WHERE r.chain = p_chain;
    END IF;
  END $$;

  CREATE FUNCTION @.delete@v(p_ids text[], p_limit integer) RETURNS TABLE (chain bigint) LANGUAGE plpgsql AS $$
  #variable_conflict use_column
  DECLARE
    v_chains bigint[];
    v_chain bigint;
    v_dir text;
  BEGIN
    v_chains := ARRAY(SELECT o.chain FROM @.chains o WHERE o.chain IN
      (SELECT n.chain FROM @.names n WHERE n.name = ANY (p_ids) AND NOT n.alias) ORDER BY o.chain FOR UPDATE);
    FOREACH v_chain IN ARRAY v_chains LOOP
      SELECT s.project_dir INTO v_dir FROM @.sessions s WHERE s.chain = v_chain AND s.idx = 0;
      IF FOUND THEN PERFORM @.count@v(v_dir, v_chain, -1); END IF;
      DELETE FROM @.names n USING @.sessions s WHERE s.chain = v_chain AND n.name IN (s.id, s.alias) AND n.chain = v_chain;
      DELETE FROM @.sessions s WHERE s.chain = v_chain;
      DELETE FROM @.views w WHERE w.chain = v_chain;
      DELETE FROM @.snapshots p WHERE p.chain = v_chain;
      DELETE FROM @.runs r WHERE r.chain = v_chain;
      DELETE FROM @.asks a WHERE a.chain = v_chain;
      DELETE FROM @.instructions i WHERE i.chain = v_chain;
      DELETE FROM @.chains o WHERE o.chain = v_chain;
      INSERT INTO @.remains (chain) VALUES (v_chain);
      PERFORM @.sweep@v(v_chain, p_limit);
    END LOOP;
    RETURN QUERY SELECT r.chain FROM @.remains r ORDER BY r.chain LIMIT 100;
  END $$;
`;

/** What a lease is, and who has it. */
const LEASE = `
  -- Its first row says which: l was had (gained: the fence before it, where that is known), h is held by another.
  CREATE FUNCTION @.lease@v(p_id text, p_holder_id text, p_holder text, p_ttl bigint, p_replacing bigint, p_head boolean,
    p_messages boolean, p_known bigint)
  RETURNS TABLE (kind text, seq bigint, idx integer, done boolean, tag text, body text, more text, gained text)
  LANGUAGE plpgsql AS $$
  #variable_conflict use_column
  DECLARE
    c @.chains%ROWTYPE;
    v_now bigint;
    v_fence bigint;
    v_last bigint;
    v_mine boolean;
  BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    LOOP
      SELECT o.* INTO c FROM @.chains o
      WHERE o.chain = (SELECT n.chain FROM @.names n WHERE n.name = p_id AND NOT n.alias) FOR UPDATE;
      EXIT WHEN FOUND;
      SELECT o.* INTO c FROM @.chains o WHERE o.root = p_id FOR UPDATE;
      EXIT WHEN FOUND;
      INSERT INTO @.chains (root) VALUES (p_id) ON CONFLICT DO NOTHING RETURNING * INTO c;
      EXIT WHEN FOUND;
    END LOOP;
    v_now := floor(extract(epoch FROM clock_timestamp()) * 1000);
    v_mine := c.fence IS NOT NULL AND c.holder_id = p_holder_id;
    IF c.fence IS NOT NULL AND NOT v_mine AND c.expires > v_now AND c.fence IS DISTINCT FROM p_replacing THEN
      RETURN QUERY SELECT 'h', c.fence, 0, false, c.root, c.holder, c.expires::text, NULL::text;
      RETURN;
    END IF;
    IF v_mine THEN
      v_fence := c.fence;
    ELSE
      -- The time, in microseconds: it was never had before, also where a crash took the last leases, or the chain was deleted.
      v_fence := greatest(c.fence + 1, c.last + 1, floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
      v_last := c.last;
    END IF;
    UPDATE @.chains o SET fence = v_fence, holder_id = p_holder_id, holder = p_holder, expires = v_now + p_ttl,
      last = CASE WHEN v_mine THEN o.last ELSE v_fence END WHERE o.chain = c.chain;
    RETURN QUERY SELECT 'l', v_fence, 0, false, c.root, p_holder, (v_now + p_ttl)::text, v_last::text;
    IF p_head THEN
      RETURN QUERY SELECT * FROM @.head@v(c.chain, p_messages AND (p_known IS NULL OR v_last IS DISTINCT FROM p_known));
    END IF;
  END $$;

  CREATE FUNCTION @.release@v(p_root text, p_fence bigint) RETURNS void LANGUAGE plpgsql AS $$
  DECLARE
    v_chain bigint;
  BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE @.chains o SET fence = NULL WHERE o.root = p_root AND o.fence = p_fence RETURNING o.chain INTO v_chain;
    IF FOUND THEN
      -- Of a session that never came.
      DELETE FROM @.chains o WHERE o.chain = v_chain AND NOT EXISTS (SELECT FROM @.sessions s WHERE s.chain = v_chain);
    END IF;
  END $$;
`;

/** Functions that change something. */
export const WRITES = SHARED + CREATE + CHANGES + WRITE + DELETE + LEASE;
