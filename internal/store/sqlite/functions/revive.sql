-- For agents and the other functions, not for applications.
--
-- INSERT INTO revive (id, verb, run_at) takes a finished task out of the archive: to run again with all its attempts (retry),
-- or to be rolled back (rollback); due no earlier than its last attempt is certainly over. One that has never started waits anew for
-- those that it names in after. If others were cancelled on account of a task that is retried, a note says that they are to be revived, too
-- (revived_note). A task whose key a live task has by
-- now stays in the archive. The cause of a rollback is Go's task.Cause; a check compares the two.
CREATE VIEW revive AS SELECT id, '' AS verb, run_at FROM task_archive;

CREATE TRIGGER revive_insert INSTEAD OF INSERT ON revive
BEGIN
    INSERT INTO task (id, type, priority, region, key, payload, labels, traceparent, created_by, max_attempts, created_at,
                      deferrals, attempt, fence, session, policy, outcome, error, checkpoint, batch_id, rollback_payload, lock, sequence, after, after_if,
                      held, tenant, lease_until, run_at, state, ever_started, deadline, cause, round, result, progress, message,
                      failed_task)
    SELECT id, type, priority, region, key, payload, labels, traceparent, created_by, max_attempts, created_at,
           0, 0, fence + 1, session, policy, outcome, error, checkpoint, batch_id, rollback_payload, lock, sequence, after, after_if,
           iif(NOT ever_started AND after <> '[]', 'after', NULL), tenant, lease_until, max(NEW.run_at, ifnull(lease_until, '')), 'pending',
           ever_started AND state <> 'rolled_back', NULL, NULL, round + 1, NULL, NULL, NULL,
           nullif(failed_task, id)
    FROM task_archive WHERE id = NEW.id AND NEW.verb = 'retry'
    UNION ALL
    SELECT id, type, priority, region, key, payload, labels, traceparent, created_by, max_attempts, created_at,
           0, 0, fence + 1, session, policy, outcome, error, checkpoint, batch_id, rollback_payload, lock, sequence, after, after_if, NULL, tenant,
           lease_until, max(NEW.run_at, ifnull(lease_until, '')), 'rollback_pending', ever_started, deadline,
           CASE
               WHEN state = 'rollback_failed' THEN cause
               WHEN state = 'cancelled' THEN 'cancelled'
               WHEN outcome IN ('deferred', 'superseded', 'undelivered', 'drained') THEN 'failed'
               ELSE ifnull(outcome, state)
           END, round, result, progress, message, failed_task
    FROM task_archive WHERE id = NEW.id AND NEW.verb = 'rollback'
    ON CONFLICT (type, key) WHERE key IS NOT NULL DO NOTHING;

    -- A run that succeeded at its first try gets its row of the history now; all others have theirs since they were settled.
    INSERT INTO attempt (task_id, fence, ran_fence, session, policy, phase, attempt, outcome, error, output, result, state,
                         started_at, ended_at)
    SELECT id, fence - 1, fence - 1, session, policy, 'run', 1, 'succeeded', NULL, output, result, 'succeeded',
           started_at, finished_at
    FROM task_archive AS done
    WHERE id = NEW.id AND {first_success of=done.}
      AND EXISTS (SELECT 1 FROM task WHERE id = NEW.id)
      AND NOT EXISTS (SELECT 1 FROM attempt WHERE task_id = NEW.id AND fence = done.fence - 1);
    UPDATE batch SET (succeeded, failed, cancelled, rolled_back, rollback_failed, rolling_back) = (
        SELECT succeeded - (done.state = 'succeeded'), failed - (done.state = 'failed'), cancelled - (done.state = 'cancelled'),
               rolled_back - (done.state = 'rolled_back'), rollback_failed - (done.state = 'rollback_failed'),
               rolling_back + (NEW.verb = 'rollback')
        FROM task_archive AS done WHERE done.id = NEW.id)
    WHERE id = (SELECT batch_id FROM task_archive WHERE id = NEW.id) AND EXISTS (SELECT 1 FROM task WHERE id = NEW.id);
    UPDATE chunk_range SET state = 'open' WHERE task_id = NEW.id AND state <> 'open' AND EXISTS (SELECT 1 FROM task WHERE id = NEW.id);
    DELETE FROM sequence_failure WHERE task_id = NEW.id AND EXISTS (SELECT 1 FROM task WHERE id = NEW.id);
    INSERT INTO revived_note (id, batch_id)
    SELECT id, batch_id FROM task_archive AS done WHERE id = NEW.id AND NEW.verb = 'retry' AND EXISTS (SELECT 1 FROM task WHERE id = NEW.id)
        AND EXISTS (SELECT 1 FROM task_archive AS other WHERE other.cancelled_for = NEW.id);
    DELETE FROM task_archive WHERE id = NEW.id AND EXISTS (SELECT 1 FROM task WHERE id = NEW.id);
    UPDATE wakeup SET due = due + 1 WHERE changes() > 0;
END;
