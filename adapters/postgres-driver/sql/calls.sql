-- Executes several calls in one statement. With more than one call, lock waits are short, because a call that waits for
-- another client's chain delays all calls.
CREATE FUNCTION @.calls@v(p_calls json)
RETURNS TABLE (n integer, kind text, seq bigint, idx integer, done boolean, tag text, body text, more text, gained text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  c record;
BEGIN
  IF json_array_length(p_calls) > 1 THEN PERFORM set_config('lock_timeout', '100ms', true); END IF;
  FOR c IN SELECT * FROM json_to_recordset(p_calls) AS t (n integer, call text, id text, fence bigint, token uuid,
    sync boolean, release boolean, says boolean, fresh boolean, change json, holder_id text, holder text, ttl bigint,
    replacing bigint, head boolean, messages boolean, known bigint)
  LOOP
    CASE c.call
      WHEN 'get' THEN
        RETURN QUERY SELECT c.n, 's', 0::bigint, 0, false, '', g.body, NULL::text, NULL::text
          FROM @.get@v(c.id) AS g (body) WHERE g.body IS NOT NULL;
      WHEN 'lease' THEN
        RETURN QUERY SELECT c.n, l.* FROM @.lease@v(c.id, c.holder_id, c.holder, c.ttl, c.replacing, c.head, c.messages,
          c.known) l;
      WHEN 'write' THEN
        RETURN QUERY SELECT c.n, w.* FROM @.write@v(c.id, c.fence, c.token, c.sync, c.release, c.says, c.change) w;
      WHEN 'create' THEN
        PERFORM @.create@v(c.id, c.fresh, c.fence, c.token, c.sync, c.change);
    END CASE;
  END LOOP;
END $$;
