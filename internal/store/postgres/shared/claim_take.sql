-- Claims the rows that are picked: their locks are held. What has been committed of a batch since the statement began, only
-- reserve_start sees: it is asked once for each batch, and counts the rows. Which rows with a lock start, take_locks decides; it asks
-- reserve_start, too.
--
-- A fence is at most store.MaxFence, so that no made-up row keeps others from being claimed.
barred AS MATERIALIZED (
    SELECT each.batch_id FROM (
        SELECT p.batch_id, count(*) AS n FROM picked AS p
        WHERE p.batch_id IS NOT NULL AND p.lock IS NULL GROUP BY p.batch_id
    ) AS each
    WHERE NOT {schema}.reserve_start(each.batch_id, each.n)
)
UPDATE {schema}.task AS t SET
    state = CASE WHEN w.rollback THEN 'rollback_running' ELSE 'running' END,
    session = @session, claim = @number, fence = greatest(least(t.fence, 4611686018426339328), 0) + 1,
    attempt = greatest(least(t.attempt, 1000000), 0) + 1, policy = w.policy{and_limited}, claimed_at = now(),
    lease_until = w.lease_until, deadline = coalesce(t.deadline, t.run_at + w.time_left)
FROM {of_want} AS w
WHERE t.id = ANY (ARRAY(
      SELECT p.id FROM picked AS p
      WHERE p.lock IS NULL AND (p.batch_id IS NULL OR p.batch_id <> ALL (ARRAY(SELECT b.batch_id FROM barred AS b)))
      UNION ALL
      SELECT l.id FROM unnest((
          SELECT CASE WHEN room.locks THEN {schema}.take_locks(
              ARRAY(SELECT p.id FROM picked AS p WHERE p.lock IS NOT NULL),
              ARRAY(SELECT p.lock FROM picked AS p WHERE p.lock IS NOT NULL),
              ARRAY(SELECT p.batch_id FROM picked AS p WHERE p.lock IS NOT NULL)) END FROM room)) AS l (id)))
  AND w.type = t.type AND w.rollback = (t.state = 'rollback_pending')
