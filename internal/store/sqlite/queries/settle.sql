-- The end of a lease. A row is archived or released if session and fence still hold it. What is written follows from the
-- settlement alone, and store.Settlement decides it. Only three things are for the row to say: until when its lease lasts,
-- whether its cancellation was requested, and, where the attempt was reaped, in which session it ran and when that claimed it.

-- name: note_progress
-- Writes the last progress updates of a row before it is settled. @cancel_seen: also of a row whose cancellation was requested.
UPDATE task SET progress = ifnull(@progress, progress), message = ifnull(@message, message), checkpoint = ifnull(@checkpoint, checkpoint)
WHERE id = @id AND fence = @fence AND session = @session AND state IN ('running', 'rollback_running')
    AND (cancel_requested_at IS NULL OR @cancel_seen);

-- name: ran
-- Of a row that is being reaped: the session that its attempt ran in, where that is another, and when that claimed it.
SELECT nullif(ran_session, session), claimed_at FROM task WHERE id = @id AND fence = @fence AND session = @session;

-- name: archive
-- Copies finished rows; delete_archived deletes all of a call at once. The result stays where new_result is false. For several
-- rows, the values in parentheses are repeated (listOf): those up to @on_failed are the same for all. CROSS JOIN and NOT
-- INDEXED: for each row of the list its task, by the id.
WITH ended (finished_at, session, state, deferrals, ever_started, outcome, error, output, after_lease, on_failed,
    id, fence, attempt, new_result, result, started_at) AS (
    VALUES (@finished_at, @session, @state, @deferrals, @ever_started, @outcome, @error, @output, @after_lease, @on_failed,
    @id, @fence, @attempt, @new_result, @result, @started_at))
{archive_row new=ended. drops=false cancel_requested_at=task.cancel_requested_at cancel_requested_by=task.cancel_requested_by}
FROM ended CROSS JOIN task NOT INDEXED ON task.id = ended.id
WHERE task.fence = ended.fence AND task.session = ended.session AND task.state IN ('running', 'rollback_running');

-- name: copied
-- Which of the rows were copied to the archive: until delete_archived, they are in both tables.
SELECT task.id FROM task JOIN task_archive ON task_archive.id = task.id WHERE task.id IN (SELECT value FROM json_each(@ids));

-- name: release
-- Returns a row to waiting. Outcome and error stay where @outcome is NULL, run_at where @run_at is, cause where @cause is, the
-- result where @new_result is false. @after_lease: something may be at work until the lease's end, so the row is due no
-- earlier, and keeps that time. A row whose cancellation was requested is released only where @cancel_seen is true: the
-- decision took it into account, or the row is to be rolled back.
UPDATE task SET state = @state, fence = fence + 1, attempt = @attempt, deferrals = @deferrals, ever_started = @ever_started,
    outcome = ifnull(@outcome, outcome), error = iif(@outcome IS NULL, error, @error),
    result = iif(@new_result, @result, result),
    cause = CASE
        WHEN @cause IS NULL THEN cause
        WHEN cancel_requested_at IS NOT NULL THEN 'cancelled'
        ELSE @cause
    END,
    run_at = CASE
        WHEN @run_at IS NULL THEN run_at
        WHEN @after_lease THEN max(@run_at, ifnull(lease_until, @run_at))
        ELSE @run_at
    END,
    first_due = iif(region IS NULL OR @due_anew, NULL, ifnull(first_due, run_at)), -- a row of no region, or of none any more, needs none
    lease_until = iif(@after_lease, lease_until, NULL),
    claim = NULL, claimed_at = NULL, detached = NULL, ping_due = NULL, cancel_requested_at = NULL,
    cancel_requested_by = NULL, ran_session = NULL
WHERE id = @id AND fence = @fence AND session = @session AND state IN ('running', 'rollback_running')
    AND (cancel_requested_at IS NULL OR @cancel_seen);

-- name: unapplied
-- Of a settlement that changed nothing: whether it repeats one that was applied, whether the session still holds the row, and
-- whether the row's cancellation was requested.
SELECT EXISTS (SELECT 1 FROM task_archive WHERE id = @id AND fence = @fence + 1 AND session = @session)
        OR EXISTS (SELECT 1 FROM task WHERE id = @id AND fence = @fence + 1 AND session = @session
            AND NOT state IN ('running', 'rollback_running'))
        OR EXISTS (SELECT 1 FROM attempt WHERE task_id = @id AND fence = @fence AND session = @session),
    EXISTS (SELECT 1 FROM task WHERE id = @id AND fence = @fence AND session = @session
        AND state IN ('running', 'rollback_running')),
    EXISTS (SELECT 1 FROM task WHERE id = @id AND cancel_requested_at IS NOT NULL);

-- name: add_attempt
INSERT INTO attempt (task_id, fence, ran_fence, session, ran_session, policy, phase, attempt, outcome, error, output, result, state, started_at,
    ended_at)
VALUES (@id, @fence, @ran_fence, @session, @ran_session, (SELECT policy FROM task WHERE id = @id), @phase, @attempt, @outcome, @error, @output, @result, @state, @started_at, @now);

-- name: insert_on_failed
-- Inserts the row of on_failed for a task that is in the archive, and still in the hot table.
WITH ended (id, on_failed, state, outcome, error, finished_at, after_lease) AS (
    VALUES (@id, @on_failed, @state, @outcome, @error, @now, @after_lease))
{on_failed_row new=ended.}
FROM ended CROSS JOIN task NOT INDEXED ON task.id = ended.id WHERE task.failed_task IS NULL;

-- name: delete_archived
DELETE FROM task WHERE id IN (SELECT value FROM json_each(@ids));

-- name: any_follower
SELECT EXISTS (SELECT 1 FROM follow);

-- name: insert_followers
-- Makes tasks of the followers of rows that are in the archive, and no longer in the hot table.
INSERT INTO insert_follower (type, key, until)
SELECT task_archive.type, task_archive.key, task_archive.lease_until
FROM json_each(@ids) CROSS JOIN task_archive NOT INDEXED ON task_archive.id = json_each.value
WHERE task_archive.key IS NOT NULL;

-- name: wake_for_due
UPDATE wakeup SET due = due + 1;
