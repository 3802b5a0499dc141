-- name: operations
-- Operations that have not ended, without those about a task that still runs.
SELECT o.id, o.version, o.verb, coalesce(o.batch_id, 0), coalesce(o.task_id, 0), o.requested_at,
    coalesce(o.requested_by, ''), o.done, o.stopped, o.missed, o.after_at, coalesce(o.after_id, 0), o.goal, o.taken, o.refused
FROM {schema}.operation AS o
WHERE o.ended_at IS NULL AND o.id > @after AND NOT (o.task_id IS NOT NULL AND EXISTS (
    SELECT FROM {schema}.task AS t WHERE t.id = o.task_id AND t.state = 'running'))
ORDER BY o.id LIMIT @limit

-- name: any_operation
SELECT EXISTS (SELECT FROM {schema}.operation AS o WHERE o.ended_at IS NULL)

-- name: batch_running
-- Running rows of a batch that do not know of a cancel. By the index task_running, whose condition the first one on the
-- state is: "+ 0" keeps the planner from that of batches, which has a million waiting rows and none that runs.
SELECT t.id, t.fence, t.state
FROM {schema}.task AS t
WHERE t.state IN ('running', 'rollback_running') AND t.state = 'running' AND t.batch_id + 0 = @batch::bigint
  AND t.cancel_requested_at IS NULL
LIMIT @limit

-- name: batch_waiting
-- Waiting rows of a batch. The comparison of whole rows is one walk along the index task_batch, from the cursor on: that
-- spares each look the dead entries of those before. The last condition spares it all of them where nothing waits.
SELECT t.id, t.fence, t.state, t.ever_started, t.ever_started AND coalesce(t.policy = ANY (u.hashes), false),
    t.ever_started AND t.type = ANY (u.types)
FROM {schema}.with_rollback() AS u, {schema}.task AS t
WHERE t.batch_id IS NOT NULL AND (t.batch_id, t.id) > (@batch::bigint, @after::bigint)
  AND (t.batch_id, t.id) < (@batch::bigint + 1, 0) AND t.state IN ('pending', 'retry_pending')
  AND (SELECT v.waiting > 0 FROM {schema}.batches AS v WHERE v.id = @batch::bigint)
ORDER BY t.batch_id, t.id LIMIT @limit

-- name: batch_left
-- How many rows of a batch run or wait to run, and how many it has.
SELECT v.live - v.rolling_back, v.total FROM {schema}.batches AS v WHERE v.id = @batch::bigint

-- name: batch_failed
-- Rows of a batch that did not succeed, by id: one walk along the index task_archive_batch_failed, whose condition this has.
SELECT a.id, a.fence, a.state, coalesce(a.cause, ''), a.finished_at
FROM {schema}.task_archive AS a
WHERE a.batch_id IS NOT NULL AND (a.batch_id, a.id) > (@batch::bigint, @after::bigint) AND (a.batch_id, a.id) < (@batch::bigint + 1, 0)
  AND {has_failed of=a.}
ORDER BY a.batch_id, a.id LIMIT @limit

-- name: batch_finished
-- Finished rows of a batch that were ever started, and not rolled back, started newest first. f names the expression that
-- the index task_archive_batch has. The comparison of whole rows is one walk backwards along that index, from the cursor
-- on, and batch_id IS NOT NULL is its condition.
SELECT f.id, f.fence, f.state, f.ever_started, coalesce(f.policy = ANY (u.hashes), false), f.type = ANY (u.types), f.began
FROM {schema}.with_rollback() AS u,
    (SELECT a.batch_id, a.id, a.fence, a.state, a.ever_started, a.policy, a.type,
         {began of=a.} AS began
     FROM {schema}.task_archive AS a) AS f
WHERE f.batch_id IS NOT NULL
  AND (f.batch_id, f.began, f.id) < (@batch::bigint, coalesce(@after_at::timestamptz, 'infinity'), @after::bigint)
  AND (f.batch_id, f.began, f.id) > (@batch::bigint, '-infinity', 0)
ORDER BY f.batch_id DESC, f.began DESC, f.id DESC LIMIT @limit

-- name: batch_task
-- What has to be known of a row to roll it back.
SELECT t.id, t.fence, t.state, t.ever_started, coalesce(t.policy = ANY (u.hashes), false), t.type = ANY (u.types)
FROM {schema}.tasks AS t, {schema}.with_rollback() AS u WHERE t.id = @id

-- name: apply_step
-- Applies a step. The function's parts have to see what has committed since it began.
SELECT applied, coalesce(changed, 0), coalesce(refused, 0), coalesce(missed, false), coalesce(stopped, false),
    coalesce(over, false)
FROM {schema}.apply_step(
    @operation, @version, @missed, @after_at, @after_id, @goal, @taken, @refused, nullif(@who, ''), @ask, @ask_fences,
    @cancels, @cancel_fences, @cancel_rolls_back, @revives, @revive_fences, @revive_dues, @reopens, @stops, @ends)
