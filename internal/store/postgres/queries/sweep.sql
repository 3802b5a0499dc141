-- Claims, to be reaped, rows whose lease has expired or whose session is not present; a detached row depends on no
-- session.
--
-- A session that is not present itself takes none, nor one whose idea of the time (@now) differs by more than @tolerance
-- (microseconds): the clock may have jumped, and then every session looks dead. Nor does it take rows of another session
-- whose TTL is longer than the time since the last jump (@calm): that one may be alive. So may one that is not present,
-- because the clock may have jumped twice unseen: it is spared unless it has left, or has written no heartbeat since the one
-- in @silent_seen, which the sweeping session has known for that session's whole TTL (@silent). Only running rows are looked
-- at, all of them: there are as many as there are slots. Of two sweeps one gets a row; SKIP LOCKED spares the other the
-- wait, and a row that an application has locked is left for later.
--
-- The hold lasts @length (microseconds), and depends on the session's presence as any other does. No documents are
-- needed.
WITH present AS MATERIALIZED (
    SELECT a.session FROM {schema}.agent AS a WHERE {is_present of=a.}
), spared AS MATERIALIZED (
    SELECT a.session FROM {schema}.agent AS a
    WHERE a.session <> @session AND a.present_until - a.seen_at > @calm::bigint * interval '1 microsecond'
), dead AS MATERIALIZED (
    SELECT t.id, t.session = ANY (ARRAY(SELECT session FROM present)) AS present, t.detached FROM {schema}.task AS t
    WHERE t.state IN ('running', 'rollback_running') AND EXISTS (SELECT FROM present AS p WHERE p.session = @session)
      AND now() BETWEEN @now::timestamptz - @tolerance::bigint * interval '1 microsecond'
          AND @now::timestamptz + @tolerance::bigint * interval '1 microsecond'
      AND (t.session = ANY (ARRAY(SELECT session FROM spared))) IS NOT TRUE
      AND (t.lease_until <= now() OR t.lease_until IS NULL
           OR t.detached IS NOT TRUE AND (t.session = ANY (ARRAY(SELECT session FROM present))) IS NOT TRUE
              AND NOT EXISTS (
                  SELECT FROM {schema}.agent AS a WHERE a.session = t.session AND a.present_until > a.seen_at
                    AND NOT EXISTS (
                        SELECT FROM unnest(@silent::bigint[], @silent_seen::timestamptz[]) AS s(session, seen_at)
                        WHERE s.session = a.session AND s.seen_at = a.seen_at)))
    LIMIT @limit::bigint
    FOR UPDATE OF t SKIP LOCKED
)
UPDATE {schema}.task AS t SET
    fence = greatest(least(t.fence, 4611686018426339328), 0) + 1, session = @session, claim = 0,
    ran_session = CASE WHEN t.claim = 0 THEN t.ran_session ELSE t.session END, -- also where its reaper has died
    lease_until = now() + @length::bigint * interval '1 microsecond',
    detached = NULL, ping_due = NULL
WHERE t.id = ANY (ARRAY(SELECT id FROM dead))
RETURNING {task_columns},
    t.id = ANY (ARRAY(SELECT id FROM dead WHERE present)), t.id = ANY (ARRAY(SELECT id FROM dead WHERE detached)),
    t.cancel_requested_at IS NOT NULL AND t.state = 'running',
    coalesce((extract(epoch FROM t.deadline - now()) * 1000000)::bigint, 0),
    t.ran_session, (SELECT a.name FROM {schema}.agent AS a WHERE a.session = t.ran_session)
