import { PARTS } from "./functions-read.js";

// `@.` is the schema, and `@v` what tells these functions from those of other versions. What is refused raises SQLSTATEs of
// the class GN (`refusals.ts`) and undoes all of the call. Every change has a token, by which it is known when it is sent again
// because its answer was lost.

/** What the functions below share. */
const SHARED = `
  -- Of a folder's total. An index has no room for a long one.
  CREATE FUNCTION @.scope@v(p_dir text) RETURNS text STABLE LANGUAGE plpgsql AS $$
  BEGIN
    IF octet_length(p_dir) <= 1000 THEN RETURN 'dir:' || p_dir; END IF;
    RETURN 'long:' || encode(sha256(convert_to(p_dir, getdatabaseencoding()::name)), 'hex');
  END $$;

  -- Originals that come and go.
  CREATE FUNCTION @.count@v(p_dir text, p_shard integer, p_by integer) RETURNS void LANGUAGE plpgsql AS $$
  DECLARE
    v_scope text := @.scope@v(p_dir);
  BEGIN
    INSERT INTO @.totals AS t (scope, shard, n) VALUES ('', p_shard, p_by), (v_scope, p_shard, p_by)
    ON CONFLICT (scope, shard) DO UPDATE SET n = t.n + excluded.n;
    IF p_by < 0 THEN
      DELETE FROM @.totals t WHERE t.scope = v_scope AND t.shard = p_shard AND t.n = 0;
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
    v_shard integer := pg_backend_pid() % 32;
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

    FOR s IN SELECT * FROM json_to_recordset(x.sessions) AS t (id text, alias text, idx integer, project_dir text, spawner text) LOOP
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
      IF s.idx = 0 AND s.spawner IS NULL THEN PERFORM @.count@v(s.project_dir, v_shard, 1); END IF;
    END LOOP;
    IF p_fence <> c.fence OR (p_fence IS NOT NULL AND c.fence IS NULL) THEN
      RAISE EXCEPTION 'lease lost' USING ERRCODE = 'GN003', DETAIL = p_root;
    END IF;

    UPDATE @.chains o SET tokens = array_prepend(p_token, o.tokens[1:15]),
      last = CASE WHEN p_fence IS NULL THEN NULL ELSE o.last END,
      shard = CASE WHEN p_fresh THEN v_shard ELSE o.shard END WHERE o.chain = c.chain;
    INSERT INTO @.sessions (chain, last_seq, first_seq, prompt_tokens, completion_tokens, total_tokens, cost, idx, titled,
      id, alias, root, parent_id, project_dir, created_at, updated_at, cut, provider, model, reasoning_effort, mode, leave,
      cuts, title, search, spawner, spawner_run, spawner_call)
    SELECT c.chain, t.last_seq, t.first_seq, t.prompt_tokens, t.completion_tokens, t.total_tokens, t.cost, t.idx, t.titled,
      t.id, t.alias, t.root, t.parent_id, t.project_dir, t.created_at, t.updated_at, t.cut, t.provider, t.model,
      t.reasoning_effort, t.mode, t.leave, t.cuts, t.title, t.search, t.spawner, t.spawner_run, t.spawner_call
    FROM json_to_recordset(x.sessions) AS t (last_seq bigint, first_seq bigint, prompt_tokens double precision,
      completion_tokens double precision, total_tokens double precision, cost double precision, idx integer,
      titled boolean, id text, alias text, root text, parent_id text, project_dir text, created_at text, updated_at text,
      cut text, provider text, model text, reasoning_effort text, mode text, leave text, cuts text, title text, search text,
      spawner text, spawner_run text, spawner_call text)
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

/** Its rows: i: an instruction that is left where the lease was given back; f: the id of a removed one; a: the answered ask. */
const WRITE = `
  CREATE FUNCTION @.write@v(p_id text, p_fence bigint, p_token uuid, p_sync boolean, p_release boolean, p_says boolean, p_change json)
  RETURNS ${PARTS} LANGUAGE plpgsql AS $$
  #variable_conflict use_column
  DECLARE
    v_chain bigint;
    v_root text;
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
      RETURNING o.chain, o.root, n.idx INTO v_chain, v_root, v_idx;
      EXIT WHEN FOUND;
      SELECT o.chain, o.root, p_token = ANY (o.tokens) AS done INTO c
      FROM @.names n JOIN @.chains o ON o.chain = n.chain WHERE n.name = p_id AND NOT n.alias;
      IF NOT FOUND THEN
        SELECT o.chain INTO v_chain FROM @.chains o WHERE o.root = p_id AND o.fence = p_fence AND p_release AND p_change::text = '{}'
        FOR UPDATE;
        IF NOT FOUND THEN
          RAISE EXCEPTION 'session not found' USING ERRCODE = 'GN002', DETAIL = p_id;
        END IF;
        -- It may have been created meanwhile.
        CONTINUE WHEN EXISTS (SELECT FROM @.sessions s WHERE s.chain = v_chain);
        DELETE FROM @.chains o WHERE o.chain = v_chain;
        RETURN;
      END IF;
      v_done := c.done;
      v_chain := c.chain;
      v_root := c.root;
      EXIT WHEN v_done;
      IF p_fence IS NOT NULL THEN
        RAISE EXCEPTION 'lease lost' USING ERRCODE = 'GN003', DETAIL = c.root;
      END IF;
    END LOOP;

    SELECT * INTO x FROM json_to_record(p_change) AS t (fields json, cut json, restore text, add json, append json,
      finish json, runs json, asks json, answer json, instruct json, followed json);
    IF NOT v_done THEN
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
      IF x.answer IS NOT NULL THEN
        UPDATE @.asks a SET state = 'answered', answered = x.answer->>'answered', token = p_token
        WHERE a.chain = v_chain AND a.id = x.answer->>'id' AND a.state = 'open';
      END IF;
      IF x.instruct IS NOT NULL OR x.followed IS NOT NULL THEN
        PERFORM @.change_instructions@v(v_chain, p_token, x.instruct, x.followed);
      END IF;
    END IF;
    IF x.answer IS NOT NULL THEN
      RETURN QUERY SELECT 'a', 0::bigint, 0, coalesce(a.token = p_token, false), a.state, a.ask, a.answered, v_root
        FROM @.asks a WHERE a.chain = v_chain AND a.id = x.answer->>'id';
    END IF;
    IF x.followed IS NOT NULL THEN
      RETURN QUERY SELECT 'f', 0::bigint, 0, false, i.id, '', NULL::text, NULL::text
        FROM @.instructions i WHERE i.chain = v_chain AND i.withdrawn = p_token;
    END IF;
    IF p_release THEN
      RETURN QUERY SELECT 'i', 0::bigint, 0, false, v_root, i.instruction, NULL::text, NULL::text
        FROM @.instructions i WHERE i.chain = v_chain AND i.withdrawn IS NULL ORDER BY i.n;
    END IF;
  END $$;
`;

/** Functions that make sessions and write to them. */
export const WRITES = SHARED + CREATE + WRITE;
