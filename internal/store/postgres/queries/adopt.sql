-- Claims one row to be reaped, of an attempt that says itself that it is over, whatever its window says: a detached row,
-- or one of this session. The session that reaps the row already (claim 0, and the next fence) gets it again, with the
-- fence that it has: its first reply may have been lost. Otherwise as sweep.sql.
WITH mine AS MATERIALIZED (
    SELECT t.id, t.session, t.detached FROM {schema}.task AS t
    WHERE t.id = @id AND (t.fence = @fence AND t.claim > 0 AND (t.detached OR t.session = @session)
                         OR t.fence = @fence + 1 AND t.claim = 0 AND t.session = @session)
    FOR UPDATE OF t SKIP LOCKED
), dead AS MATERIALIZED (
    SELECT m.id, m.detached, EXISTS (
        SELECT FROM {schema}.agent AS a WHERE a.session = m.session AND {is_present of=a.}) AS present
    FROM mine AS m
)
UPDATE {schema}.task AS t SET
    fence = @fence + 1, session = @session, claim = 0,
    ran_session = CASE WHEN t.claim = 0 THEN t.ran_session ELSE t.session END, -- also where its reaper has died
    lease_until = now() + @length::bigint * interval '1 microsecond',
    detached = NULL, ping_due = NULL
WHERE t.id = ANY (ARRAY(SELECT id FROM dead))
RETURNING {task_columns},
    t.id = ANY (ARRAY(SELECT id FROM dead WHERE present)), t.id = ANY (ARRAY(SELECT id FROM dead WHERE detached)),
    t.cancel_requested_at IS NOT NULL AND t.state = 'running',
    coalesce((extract(epoch FROM t.deadline - now()) * 1000000)::bigint, 0),
    t.ran_session, (SELECT a.name FROM {schema}.agent AS a WHERE a.session = t.ran_session)
