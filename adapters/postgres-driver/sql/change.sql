-- Reverts, session fields, instructions and run keys. A cut is the snapshot that hides reverted messages.

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

-- Updates fields of a session and of its chain's first session.
CREATE FUNCTION @.set@v(p_chain bigint, p_idx integer, p_fields json) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  x record;
  v_dir text;
  v_shard integer;
  v_spawner text;
BEGIN
  SELECT * INTO x FROM json_to_record(p_fields) AS t (title text, search text, titled boolean, provider text, model text,
    reasoning_effort text, mode text, leave text, cuts text, project_dir text, archived boolean, shared boolean, updated_at text,
    prompt_tokens double precision, completion_tokens double precision, total_tokens double precision,
    cost double precision, first_seq bigint, last_seq bigint);
  IF x.project_dir IS NOT NULL THEN
    SELECT s.project_dir, o.shard, s.spawner INTO v_dir, v_shard, v_spawner
    FROM @.sessions s JOIN @.chains o ON o.chain = s.chain WHERE s.chain = p_chain AND s.idx = 0;
    IF v_dir <> x.project_dir AND v_spawner IS NULL THEN
      PERFORM @.count@v(v_dir, v_shard, -1), @.count@v(x.project_dir, v_shard, 1);
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
    archived = coalesce(x.archived, s.archived),
    shared = coalesce(x.shared, s.shared),
    updated_at = greatest(x.updated_at COLLATE "C", s.updated_at),
    prompt_tokens = s.prompt_tokens + coalesce(x.prompt_tokens, 0),
    completion_tokens = s.completion_tokens + coalesce(x.completion_tokens, 0),
    total_tokens = s.total_tokens + coalesce(x.total_tokens, 0),
    cost = s.cost + coalesce(x.cost, 0),
    first_seq = CASE WHEN s.idx = p_idx THEN least(x.first_seq, s.first_seq) ELSE s.first_seq END,
    last_seq = CASE WHEN s.idx = p_idx THEN greatest(x.last_seq, s.last_seq) ELSE s.last_seq END
  WHERE s.chain = p_chain AND s.idx = ANY (ARRAY[0, p_idx]);
END $$;

-- A removed instruction stays as a row with the token of the change that removed it, so that a repeated change reports
-- the instruction again. The next change of the chain's instructions deletes such rows.
CREATE FUNCTION @.change_instructions@v(p_chain bigint, p_token uuid, p_new json, p_removed json)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM @.instructions i WHERE i.chain = p_chain AND i.withdrawn IS NOT NULL;
  IF p_new IS NOT NULL THEN
    INSERT INTO @.instructions AS i (chain, id, instruction) VALUES (p_chain, p_new->>'id', p_new->>'instruction')
    ON CONFLICT (id) DO UPDATE SET chain = excluded.chain, n = DEFAULT, instruction = excluded.instruction, withdrawn = NULL
      WHERE i.withdrawn IS NOT NULL;
  END IF;
  UPDATE @.instructions i SET withdrawn = p_token WHERE i.chain = p_chain AND i.withdrawn IS NULL
    AND i.id IN (SELECT json_array_elements_text(p_removed));
END $$;

CREATE FUNCTION @.forget_keys@v(p_before text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  UPDATE @.runs r SET key = '', named = ''
  WHERE r.key <> '' AND r.started_at < p_before AND r.state NOT IN ('queued', 'running', 'waiting');
END $$;
