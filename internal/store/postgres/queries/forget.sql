-- Removing what is past its retention.

-- name: forget_history
-- Removes the history of the next rows of a day that is not part of the archive any more.
WITH step AS MATERIALIZED (
    SELECT id FROM {schema}.{table} WHERE id > @after ORDER BY id LIMIT @limit
), deleted AS (
    DELETE FROM {schema}.attempt WHERE task_id = ANY (ARRAY(SELECT id FROM step))
), operations AS (
    DELETE FROM {schema}.operation WHERE task_id = ANY (ARRAY(SELECT id FROM step))
), audited AS (
    DELETE FROM {schema}.audit WHERE task_id = ANY (ARRAY(SELECT id FROM step))
)
SELECT max(id) FROM step

-- name: expire_rows
-- Removes rows without a batch from a day that has to stay, but failures that block their sequences, or may, with their history. Those of @keep stay, too.
WITH step AS MATERIALIZED (
    SELECT a.id FROM {schema}.{table} AS a WHERE a.id > @after AND a.batch_id IS NULL
        AND (a.sequence IS NULL OR NOT EXISTS (SELECT FROM {schema}.sequence_failure AS f
            WHERE f.type = a.type AND f.name = a.sequence AND f.task_id = a.id))
      AND (a.id IN (SELECT unnest(@keep::bigint[]))) IS NOT TRUE ORDER BY a.id LIMIT @limit
    FOR UPDATE SKIP LOCKED
), removed AS (
    DELETE FROM {schema}.{table} WHERE id = ANY (ARRAY(SELECT id FROM step))
), deleted AS (
    DELETE FROM {schema}.attempt WHERE task_id = ANY (ARRAY(SELECT id FROM step))
), operations AS (
    DELETE FROM {schema}.operation WHERE task_id = ANY (ARRAY(SELECT id FROM step))
), audited AS (
    DELETE FROM {schema}.audit WHERE task_id = ANY (ARRAY(SELECT id FROM step))
)
SELECT max(id), count(*) FROM step

-- name: forget_agents
-- A session that holds something may be alive, whatever the clock says: a sweep has to know its presence.
WITH gone AS (
    DELETE FROM {schema}.declarer AS r WHERE NOT EXISTS (SELECT FROM {schema}.agent AS a WHERE a.session = r.session)
)
DELETE FROM {schema}.agent AS a
WHERE a.seen_at < now() - @age::bigint * interval '1 microsecond' AND a.present_until < now()
  AND NOT EXISTS (SELECT FROM {schema}.task AS t WHERE t.session = a.session AND t.state IN ('running', 'rollback_running'))

-- name: forget_batches
-- A batch goes when it ended longer ago than its retention (@age, microseconds) and no row of it is left: none is live by
-- its counters, all of which have been summed, and none is in the archive. That look is one step along the index: asked
-- for any row of a batch, the planner would read the table where most of it is of one batch.
WITH old AS MATERIALIZED (
    SELECT b.id FROM {schema}.batch AS b
    LEFT JOIN LATERAL (
        SELECT a.id FROM {schema}.task_archive AS a
        WHERE a.batch_id >= b.id AND a.batch_id <= b.id ORDER BY a.batch_id LIMIT 1) AS done ON true
    WHERE b.ended_at < now() - @age::bigint * interval '1 microsecond' AND done.id IS NULL
      AND b.total = b.succeeded + b.failed + b.cancelled + b.rolled_back + b.rollback_failed
      AND NOT EXISTS (SELECT FROM {schema}.batch_delta AS d WHERE d.batch_id = b.id)
    LIMIT @limit FOR UPDATE OF b SKIP LOCKED
), counted AS (
    DELETE FROM {schema}.batch_delta WHERE batch_id = ANY (ARRAY(SELECT id FROM old))
), operations AS (
    DELETE FROM {schema}.operation WHERE batch_id = ANY (ARRAY(SELECT id FROM old))
), audited AS (
    DELETE FROM {schema}.audit WHERE batch_id = ANY (ARRAY(SELECT id FROM old))
)
DELETE FROM {schema}.batch WHERE id = ANY (ARRAY(SELECT id FROM old))

-- name: forget_leases
-- A named lease goes when it expired longer ago than the retention (@age, microseconds) and no one has taken it. One whose
-- expiry may be the effect of a jump of the clock stays.
DELETE FROM {schema}.lease AS l
WHERE l.name = ANY (ARRAY(
    SELECT o.name FROM {schema}.lease AS o
    WHERE o.acquired_at < now() - @age::bigint * interval '1 microsecond'
      AND o.expires_at < now() - @age::bigint * interval '1 microsecond' AND {schema}.lease_lapsed(o.expires_at, o.expiry_seen_at)
    ORDER BY o.acquired_at LIMIT @limit FOR UPDATE SKIP LOCKED))
