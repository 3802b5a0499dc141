-- Claims the rows that are due: their locks are held. What has been committed of a batch since the statement began, only
-- reserve_start sees: it is asked once for each batch, and counts the rows.
--
-- No more than @bytes are taken, of runs and of rollbacks each: in the order of the wants, rows are taken until those
-- before come to that. Only where all of them together are more (large) is that counted row by row, which costs a
-- microsecond each. The window has no order of its own, so it goes by that of the loops.
--
-- A fence is at most store.MaxFence, so that no made-up row keeps others from being claimed.
large AS MATERIALIZED (
    SELECT coalesce(sum(d.bytes) > @bytes::float8, false) AS yes FROM due AS d
), picked AS MATERIALIZED (
    SELECT d.id, d.batch_id FROM due AS d WHERE NOT (SELECT yes FROM large)
    UNION ALL
    SELECT f.id, f.batch_id FROM (
        SELECT d.id, d.batch_id, CASE WHEN d.rollback
            THEN sum(CASE WHEN d.rollback THEN d.bytes END) OVER (ROWS UNBOUNDED PRECEDING)
            ELSE sum(CASE WHEN NOT d.rollback THEN d.bytes END) OVER (ROWS UNBOUNDED PRECEDING) END - d.bytes AS before
        FROM due AS d WHERE (SELECT yes FROM large)
    ) AS f WHERE f.before < @bytes::float8
), barred AS MATERIALIZED (
    SELECT each.batch_id FROM (
        SELECT p.batch_id, count(*) AS n FROM picked AS p WHERE p.batch_id IS NOT NULL GROUP BY p.batch_id
    ) AS each
    WHERE NOT {schema}.reserve_start(each.batch_id, each.n)
)
UPDATE {schema}.task AS t SET
    state = CASE WHEN w.rollback THEN 'rollback_running' ELSE 'running' END,
    session = @session, claim = @number, fence = greatest(least(t.fence, 4611686018426339328), 0) + 1,
    attempt = greatest(least(t.attempt, 1000000), 0) + 1, policy = w.policy, claimed_at = now(),
    lease_until = w.lease_until, deadline = coalesce(t.deadline, t.run_at + w.time_left)
FROM want AS w
WHERE t.id = ANY (ARRAY(
      SELECT p.id FROM picked AS p
      WHERE p.batch_id IS NULL OR p.batch_id <> ALL (ARRAY(SELECT b.batch_id FROM barred AS b))))
  AND w.type = t.type AND w.rollback = (t.state = 'rollback_pending')
