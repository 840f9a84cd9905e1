-- Each read sees one point in time, because stable functions use the snapshot of the calling statement. The columns of a
-- row depend on its kind. gained: text that was appended to an unfinished message after it was stored.

CREATE FUNCTION @.get@v(p_id text) RETURNS text STABLE LANGUAGE plpgsql AS $$
BEGIN
  RETURN (SELECT row_to_json(s)::text FROM @.names n JOIN @.sessions s ON s.chain = n.chain AND s.idx = n.idx
    WHERE n.name = p_id);
END $$;

-- The newest sessions of a folder. A function, because each new run reads this list and a function is planned only once.
CREATE FUNCTION @.of_dir@v(p_dir text, p_limit bigint) RETURNS TABLE (total bigint, body text) STABLE LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY SELECT t.total, row_to_json(p)::text
    FROM (SELECT coalesce(sum(o.n), 0)::bigint AS total FROM @.totals o WHERE o.scope = @.scope@v(p_dir)) t
    LEFT JOIN (SELECT s.* FROM @.sessions s WHERE s.idx = 0 AND s.spawner IS NULL AND left(s.project_dir, 200) = left(p_dir, 200)
        AND s.project_dir = p_dir
      ORDER BY s.updated_at DESC, s.id DESC LIMIT p_limit) p ON true
    ORDER BY p.updated_at DESC, p.id DESC;
END $$;

-- Kinds: s: the first session, and the newest session if it is another session; v: view of the newest session;
-- m: messages; r: unfinished runs; p: snapshots.
CREATE FUNCTION @.head@v(p_chain bigint, p_messages boolean)
RETURNS TABLE (kind text, seq bigint, idx integer, done boolean, tag text, body text, more text, gained text)
STABLE LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_idx integer;
  v_first bigint;
BEGIN
  SELECT s.idx, s.first_seq INTO v_idx, v_first FROM @.sessions s
  WHERE s.chain = p_chain AND s.cut = '' ORDER BY s.idx DESC LIMIT 1;
  IF NOT FOUND THEN RETURN; END IF;
  RETURN QUERY SELECT 's', 0::bigint, s.idx, false, '', row_to_json(s)::text, NULL::text, NULL::text
    FROM @.sessions s WHERE s.chain = p_chain AND s.idx = ANY (ARRAY[0, v_idx]);
  RETURN QUERY SELECT 'r', 0::bigint, 0, false, r.key, r.record, r.named, NULL::text FROM @.runs r
    WHERE r.chain = p_chain AND r.state IN ('queued', 'running', 'waiting') ORDER BY r.started_at DESC, r.id DESC;
  RETURN QUERY SELECT 'p', p.after, 0, false, p.id, p.created_at, NULL::text, NULL::text
    FROM @.snapshots p WHERE p.chain = p_chain ORDER BY p.n;
  IF p_messages THEN
    RETURN QUERY SELECT 'v', 0::bigint, w.idx, false, '', w.messages, NULL::text, NULL::text
      FROM @.views w WHERE w.chain = p_chain AND w.idx = v_idx;
    RETURN QUERY SELECT 'm', m.seq, m.idx, m.finished, '', m.body, '',
      CASE WHEN m.finished THEN NULL ELSE (SELECT '[' || string_agg(p.deltas, ',' ORDER BY p.n) || ']'
        FROM @.pieces p WHERE p.chain = m.chain AND p.seq = m.seq) END
      FROM @.messages m WHERE m.chain = p_chain AND m.seq >= v_first AND m.idx = v_idx AND m.cut = '' ORDER BY m.seq;
  END IF;
END $$;

-- tag: id of the message's session. p_whole: whether to read the whole chain. p_last: whether to read the last messages
-- first. p_hidden: the snapshot that hides the messages; null for visible messages.
CREATE FUNCTION @.messages@v(p_id text, p_whole boolean, p_after bigint, p_before bigint, p_limit bigint, p_last boolean,
  p_hidden text, p_tool text)
RETURNS TABLE (kind text, seq bigint, idx integer, done boolean, tag text, body text, more text, gained text)
STABLE LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_chain bigint;
  v_idx integer;
  v_from bigint;
BEGIN
  SELECT s.chain, s.idx, CASE WHEN p_whole THEN p_after + 1 ELSE greatest(s.first_seq, p_after + 1) END
  INTO v_chain, v_idx, v_from FROM @.names n JOIN @.sessions s ON s.chain = n.chain AND s.idx = n.idx
  WHERE n.name = p_id AND NOT n.alias;
  IF NOT FOUND OR v_from IS NULL THEN RETURN; END IF;
  IF p_hidden IS NOT NULL THEN
    RETURN QUERY SELECT 'm', m.seq, m.idx, m.finished, s.id, m.body, m.shown,
      CASE WHEN m.finished THEN NULL ELSE (SELECT '[' || string_agg(p.deltas, ',' ORDER BY p.n) || ']'
        FROM @.pieces p WHERE p.chain = m.chain AND p.seq = m.seq) END
      FROM @.messages m JOIN @.sessions s ON s.chain = m.chain AND s.idx = m.idx
      WHERE m.chain = v_chain AND m.cut = p_hidden AND m.cut <> '' AND m.seq >= v_from AND m.seq < p_before
        AND (p_whole OR m.idx = v_idx) AND (p_tool IS NULL OR m.name = p_tool)
      ORDER BY m.seq LIMIT p_limit;
  ELSIF p_last THEN
    RETURN QUERY SELECT 'm', m.seq, m.idx, m.finished, s.id, m.body, m.shown,
      CASE WHEN m.finished THEN NULL ELSE (SELECT '[' || string_agg(p.deltas, ',' ORDER BY p.n) || ']'
        FROM @.pieces p WHERE p.chain = m.chain AND p.seq = m.seq) END
      FROM @.messages m JOIN @.sessions s ON s.chain = m.chain AND s.idx = m.idx
      WHERE m.chain = v_chain AND m.cut = '' AND m.seq >= v_from AND m.seq < p_before
        AND (p_whole OR m.idx = v_idx) AND (p_tool IS NULL OR m.name = p_tool)
      ORDER BY m.seq DESC LIMIT p_limit;
  ELSE
    RETURN QUERY SELECT 'm', m.seq, m.idx, m.finished, s.id, m.body, m.shown,
      CASE WHEN m.finished THEN NULL ELSE (SELECT '[' || string_agg(p.deltas, ',' ORDER BY p.n) || ']'
        FROM @.pieces p WHERE p.chain = m.chain AND p.seq = m.seq) END
      FROM @.messages m JOIN @.sessions s ON s.chain = m.chain AND s.idx = m.idx
      WHERE m.chain = v_chain AND m.cut = '' AND m.seq >= v_from AND m.seq < p_before
        AND (p_whole OR m.idx = v_idx) AND (p_tool IS NULL OR m.name = p_tool)
      ORDER BY m.seq LIMIT p_limit;
  END IF;
END $$;

-- The kernel polls with this function, because a function is planned only once.
CREATE FUNCTION @.run@v(p_id text) RETURNS TABLE (record text, named text, key text, root text, holder text)
STABLE LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT r.record, r.named, r.key, c.root,
      CASE WHEN c.fence = r.fence AND c.expires > floor(extract(epoch FROM clock_timestamp()) * 1000) THEN c.holder END
    FROM @.runs r JOIN @.chains c ON c.chain = r.chain WHERE r.id = p_id;
END $$;

-- Kinds: s: sessions; v: views; m: messages; p: snapshots; r: runs; a: asks. tag of s and m: the snapshot that hides the
-- row.
CREATE FUNCTION @.dump@v(p_id text)
RETURNS TABLE (kind text, seq bigint, idx integer, done boolean, tag text, body text, more text, gained text)
STABLE LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_chain bigint;
BEGIN
  SELECT n.chain INTO v_chain FROM @.names n WHERE n.name = p_id AND NOT n.alias;
  IF NOT FOUND THEN RETURN; END IF;
  RETURN QUERY SELECT 's', 0::bigint, s.idx, false, s.cut, row_to_json(s)::text, NULL::text, NULL::text
    FROM @.sessions s WHERE s.chain = v_chain ORDER BY s.idx;
  RETURN QUERY SELECT 'v', 0::bigint, w.idx, false, '', w.messages, NULL::text, NULL::text
    FROM @.views w WHERE w.chain = v_chain;
  RETURN QUERY SELECT 'm', m.seq, m.idx, m.finished, m.cut, m.body, m.shown,
    CASE WHEN m.finished THEN NULL ELSE (SELECT '[' || string_agg(p.deltas, ',' ORDER BY p.n) || ']'
      FROM @.pieces p WHERE p.chain = m.chain AND p.seq = m.seq) END
    FROM @.messages m WHERE m.chain = v_chain ORDER BY m.seq;
  RETURN QUERY SELECT 'p', p.after, 0, false, p.id, p.created_at, NULL::text, NULL::text
    FROM @.snapshots p WHERE p.chain = v_chain ORDER BY p.n;
  RETURN QUERY SELECT 'r', 0::bigint, 0, false, r.key, r.record, r.named, NULL::text
    FROM @.runs r WHERE r.chain = v_chain ORDER BY r.started_at DESC, r.id DESC;
  RETURN QUERY SELECT 'a', 0::bigint, 0, false, a.state, a.ask, a.answered, NULL::text
    FROM @.asks a WHERE a.chain = v_chain ORDER BY a.created_at DESC, a.id DESC;
END $$;
