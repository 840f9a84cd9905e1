-- Creates a session or a complete chain. p_fresh: whether p_chain contains the chain's first session.
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
    cuts, title, search, spawner, spawner_run, spawner_call, archived, owner, shared)
  SELECT c.chain, t.last_seq, t.first_seq, t.prompt_tokens, t.completion_tokens, t.total_tokens, t.cost, t.idx, t.titled,
    t.id, t.alias, t.root, t.parent_id, t.project_dir, t.created_at, t.updated_at, t.cut, t.provider, t.model,
    t.reasoning_effort, t.mode, t.leave, t.cuts, t.title, t.search, t.spawner, t.spawner_run, t.spawner_call,
    coalesce(t.archived, false), coalesce(t.owner, ''), coalesce(t.shared, false)
  FROM json_to_recordset(x.sessions) AS t (last_seq bigint, first_seq bigint, prompt_tokens double precision,
    completion_tokens double precision, total_tokens double precision, cost double precision, idx integer,
    titled boolean, id text, alias text, root text, parent_id text, project_dir text, created_at text, updated_at text,
    cut text, provider text, model text, reasoning_effort text, mode text, leave text, cuts text, title text, search text,
    spawner text, spawner_run text, spawner_call text, archived boolean, owner text, shared boolean)
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
