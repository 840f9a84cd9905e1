-- Takes or renews the lease of a chain. Kind of the first row: l: the caller has the lease (gained: the previous fence, if
-- known); h: another holder has the lease. p_replacing: fence of another holder's lease that the caller may replace.
-- p_known: fence up to which the caller has cached the messages.
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
    -- The time in microseconds is greater than all earlier fences, also after a crash lost the latest leases or the chain
    -- was deleted.
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
