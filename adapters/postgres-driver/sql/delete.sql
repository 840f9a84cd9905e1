-- Deletes a batch of remaining messages of a deleted chain.
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

-- Deletes chains, and at most p_limit messages of each chain. Returns the chains with remaining messages, including chains
-- that other clients deleted.
CREATE FUNCTION @.delete@v(p_ids text[], p_limit integer) RETURNS TABLE (chain bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_chains bigint[];
  v_chain bigint;
  v_shard integer;
  v_dir text;
  v_spawner text;
BEGIN
  v_chains := ARRAY(SELECT o.chain FROM @.chains o WHERE o.chain IN
    (SELECT n.chain FROM @.names n WHERE n.name = ANY (p_ids) AND NOT n.alias) ORDER BY o.chain FOR UPDATE);
  FOREACH v_chain IN ARRAY v_chains LOOP
    SELECT s.project_dir, o.shard, s.spawner INTO v_dir, v_shard, v_spawner
    FROM @.sessions s JOIN @.chains o ON o.chain = s.chain WHERE s.chain = v_chain AND s.idx = 0;
    IF FOUND AND v_spawner IS NULL THEN PERFORM @.count@v(v_dir, v_shard, -1); END IF;
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
