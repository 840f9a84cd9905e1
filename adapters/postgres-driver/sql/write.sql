-- Kinds of rows: i: an instruction that remains when the lease is released; f: id of a removed instruction; a: the
-- ask of the change (done: whether this change answered the ask). p_says: whether the change modifies messages.
CREATE FUNCTION @.write@v(p_id text, p_fence bigint, p_token uuid, p_sync boolean, p_release boolean, p_says boolean, p_change json)
RETURNS TABLE (kind text, seq bigint, idx integer, done boolean, tag text, body text, more text, gained text)
LANGUAGE plpgsql AS $$
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
      -- Another client may have created the session meanwhile.
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
