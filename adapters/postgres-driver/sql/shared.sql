-- Functions that other functions call.

-- Returns the scope of a folder's total. A long path is hashed, because an index entry has a maximum size.
CREATE FUNCTION @.scope@v(p_dir text) RETURNS text STABLE LANGUAGE plpgsql AS $$
BEGIN
  IF octet_length(p_dir) <= 1000 THEN RETURN 'dir:' || p_dir; END IF;
  RETURN 'long:' || encode(sha256(convert_to(p_dir, getdatabaseencoding()::name)), 'hex');
END $$;

-- Adds p_by to the number of root sessions.
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

-- Inserts or replaces runs. p_new: whether each run must be new.
CREATE FUNCTION @.put_runs@v(p_chain bigint, p_fence bigint, p_runs json, p_new boolean)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  r record;
BEGIN
  FOR r IN SELECT * FROM json_to_recordset(p_runs)
    AS t (id text, key text, state text, started_at text, started_by text, named text, record text)
  LOOP
    IF NOT p_new THEN
      UPDATE @.runs o SET fence = p_fence, key = r.key, state = r.state, started_at = r.started_at,
        started_by = coalesce(r.started_by, ''), named = r.named,
        record = r.record WHERE o.id = r.id AND o.chain = p_chain;
      CONTINUE WHEN FOUND;
    END IF;
    INSERT INTO @.runs (chain, fence, id, key, state, started_at, started_by, named, record)
    VALUES (p_chain, p_fence, r.id, r.key, r.state, r.started_at, coalesce(r.started_by, ''), r.named, r.record) ON CONFLICT DO NOTHING;
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
