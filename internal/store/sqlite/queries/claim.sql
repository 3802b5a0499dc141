-- A claim walks the priorities of a type from the highest down (head_due), and takes the due rows of one priority at a time
-- (claim_due, claim_rows). INDEXED BY turns a bad plan into an error. The conditions on the state must be those of the index, word for
-- word, for SQLite to use it. A row of no region may be claimed by every agent; an agent without a region passes '', which
-- nullif makes a comparison with NULL: that half of the union ends at once.

-- name: stopping
-- Whether waiting rows belong to batches that are being stopped, and whether rows with a tenant wait to be run, and to be rolled back. Mostly
-- none do, and then a claim need not look for them.
-- INDEXED BY batch_stopping: it has few entries or none, and the planner cannot know that. INDEXED BY task_batch: task_due has
-- the waiting rows of all batches.
SELECT EXISTS (
    SELECT 1 FROM batch INDEXED BY batch_stopping
    WHERE stopping = 1 AND ended_at IS NULL AND EXISTS (
        SELECT 1 FROM task INDEXED BY task_batch WHERE batch_id = batch.id AND state IN ('pending', 'retry_pending'))),
    EXISTS (SELECT 1 FROM task INDEXED BY task_tenant WHERE state IN ('pending', 'retry_pending') AND held IS NULL AND tenant IS NOT NULL),
    EXISTS (SELECT 1 FROM task INDEXED BY task_tenant_rollback WHERE state = 'rollback_pending' AND held IS NULL AND tenant IS NOT NULL);

-- name: head_due
-- The first row of the highest priority below a bound: one step in the index, so a million rows that are due next year cost as
-- little as one.
SELECT priority, run_at FROM task INDEXED BY task_due
WHERE state IN ('pending', 'retry_pending') AND held IS NULL AND tenant IS NULL AND type = @type AND ifnull(region, '') = @region AND priority < @below
ORDER BY priority DESC, run_at, id LIMIT 1;

-- name: head_rollback
SELECT priority, run_at FROM task INDEXED BY task_rollback
WHERE state = 'rollback_pending' AND held IS NULL AND tenant IS NULL AND type = @type AND ifnull(region, '') = @region AND priority < @below
ORDER BY priority DESC, run_at, id LIMIT 1;

-- name: claim_due
-- Due rows of one type and priority, in order, which claim_rows then takes: at most @limit, without those that are too large to be
-- run. First their ids, from the index alone, and then by CROSS JOIN and NOT INDEXED the rows, of which the agent stops reading when
-- their documents come to its bound.
SELECT {claimable_columns}
FROM (
    SELECT id, run_at FROM task INDEXED BY task_due
    WHERE state IN ('pending', 'retry_pending') AND held IS NULL AND tenant IS NULL AND type = @type AND ifnull(region, '') = ''
        AND priority = @priority AND run_at <= @now
    UNION ALL
    SELECT id, run_at FROM task INDEXED BY task_due
    WHERE state IN ('pending', 'retry_pending') AND held IS NULL AND tenant IS NULL AND type = @type AND ifnull(region, '') = nullif(@region, '')
        AND priority = @priority AND run_at <= @now
    ORDER BY run_at, id LIMIT @limit) AS due
CROSS JOIN task NOT INDEXED ON task.id = due.id WHERE {small_documents};

-- name: claim_startable
-- claim_due while batches are being stopped: their rows are passed over, among the first @look_past. What stands behind these
-- waits until they are cancelled, as it would have waited for them to run.
SELECT {claimable_columns}
FROM (
    SELECT id FROM (
        SELECT id, run_at, batch_id FROM task INDEXED BY task_due
        WHERE state IN ('pending', 'retry_pending') AND held IS NULL AND tenant IS NULL AND type = @type AND ifnull(region, '') = ''
            AND priority = @priority AND run_at <= @now
        UNION ALL
        SELECT id, run_at, batch_id FROM task INDEXED BY task_due
        WHERE state IN ('pending', 'retry_pending') AND held IS NULL AND tenant IS NULL AND type = @type AND ifnull(region, '') = nullif(@region, '')
            AND priority = @priority AND run_at <= @now
        ORDER BY run_at, id LIMIT @look_past)
    WHERE batch_id IS NULL OR batch_id NOT IN (
        SELECT id FROM batch INDEXED BY batch_stopping WHERE stopping = 1 AND ended_at IS NULL)
    ORDER BY run_at, id LIMIT @limit) AS due
CROSS JOIN task NOT INDEXED ON task.id = due.id WHERE {small_documents};

-- name: claim_rollback
-- claim_due of rows that wait for their rollback.
SELECT {claimable_columns}
FROM (
    SELECT id, run_at FROM task INDEXED BY task_rollback
    WHERE state = 'rollback_pending' AND held IS NULL AND tenant IS NULL AND type = @type AND ifnull(region, '') = ''
        AND priority = @priority AND run_at <= @now
    UNION ALL
    SELECT id, run_at FROM task INDEXED BY task_rollback
    WHERE state = 'rollback_pending' AND held IS NULL AND tenant IS NULL AND type = @type AND ifnull(region, '') = nullif(@region, '')
        AND priority = @priority AND run_at <= @now
    ORDER BY run_at, id LIMIT @limit) AS due
CROSS JOIN task NOT INDEXED ON task.id = due.id WHERE {small_documents};

-- name: claim_rows
-- Claims rows that were read in the same transaction. An UPDATE reads and writes the whole row, so one with a document above
-- store.MaxMaxPayload, which no agent runs, must not be claimed.
UPDATE task SET state = @state, session = @session, claim = @claim, fence = {next_fence}, attempt = {next_attempt}, policy = @policy,
    claimed_at = @now, lease_until = @lease_until, deadline = {next_deadline}, limited = @limited
WHERE id IN (SELECT value FROM json_each(@ids));

-- name: claimed
-- What a claim took and the session still holds. INDEXED BY: there are few running rows.
SELECT {task_columns error=own_error of=task. region=ifnull(spilled_from,region) spilled=(ifnull(spilled_from,'')<>'')}
FROM task INDEXED BY task_running
WHERE session = @session AND claim = @claim AND state IN ('running', 'rollback_running')
ORDER BY priority DESC, run_at, id;

-- name: soonest
-- When the first row of one type and priority is due that may start, while batches are being stopped: see claim_startable.
SELECT run_at FROM (
    SELECT id, run_at, batch_id FROM task INDEXED BY task_due
    WHERE state IN ('pending', 'retry_pending') AND held IS NULL AND tenant IS NULL AND type = @type AND ifnull(region, '') = '' AND priority = @priority
    UNION ALL
    SELECT id, run_at, batch_id FROM task INDEXED BY task_due
    WHERE state IN ('pending', 'retry_pending') AND held IS NULL AND tenant IS NULL AND type = @type AND ifnull(region, '') = nullif(@region, '') AND priority = @priority
    ORDER BY run_at, id LIMIT @look_past)
WHERE batch_id IS NULL OR batch_id NOT IN (
    SELECT id FROM batch INDEXED BY batch_stopping WHERE stopping = 1 AND ended_at IS NULL)
ORDER BY run_at LIMIT 1;
