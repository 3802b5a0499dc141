DROP VIEW rollback_batch;
DROP VIEW retry_batch;
DROP VIEW cancel_batch;
DROP VIEW seal_batch;
DROP VIEW rollback;
DROP VIEW retry;
DROP VIEW cancel;
DROP VIEW bring_back;
DROP VIEW call_off;
DROP VIEW complete;
DROP VIEW batches;
DROP VIEW enqueue;
DROP VIEW tasks;
DROP TRIGGER task_joins_batch;
DROP TRIGGER task_bounds;
DROP TRIGGER task_bounds_kept;
DROP TRIGGER task_id;
DROP TABLE audit;
DROP TABLE operation;
DROP TABLE batch;
DROP INDEX policy_undo;
DROP INDEX task_archive_batch_unwell;
DROP INDEX task_archive_started;
DROP INDEX task_archive_batch;
DROP INDEX task_batch;
ALTER TABLE task_archive DROP COLUMN round;
ALTER TABLE task_archive DROP COLUMN cause;
ALTER TABLE task_archive DROP COLUMN rollback_payload;
ALTER TABLE task_archive DROP COLUMN batch_id;
ALTER TABLE task DROP COLUMN round;
ALTER TABLE task DROP COLUMN cause;
ALTER TABLE task DROP COLUMN rollback_payload;
ALTER TABLE task DROP COLUMN batch_id;

-- As they were before.
CREATE TRIGGER task_id AFTER INSERT ON task WHEN EXISTS (SELECT 1 FROM task_archive WHERE id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'id belongs to a finished task: leave it out, the table gives one');
END;

CREATE VIEW tasks AS
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, error, result, NULL AS output, NULL AS started_at, NULL AS finished_at,
           progress, message, checkpoint, cancel_asked, cancel_by, ifnull(detached, 0) AS detached
    FROM task
    UNION ALL
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, error, result, output, started_at, finished_at,
           progress, message, checkpoint, cancel_asked, cancel_by, 0
    FROM task_archive;

CREATE VIEW enqueue AS
    SELECT id, type, payload, run_at, priority, key, region, max_attempts, labels, traceparent, created_by FROM task;

CREATE TRIGGER enqueue_insert INSTEAD OF INSERT ON enqueue
BEGIN
    INSERT INTO task (type, payload, run_at, priority, key, region, max_attempts, labels, traceparent, created_by)
    VALUES (NEW.type, ifnull(NEW.payload, '{}'), ifnull(NEW.run_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
            ifnull(NEW.priority, 0), NEW.key, NEW.region, NEW.max_attempts, NEW.labels, NEW.traceparent, NEW.created_by)
    ON CONFLICT (type, key) WHERE key IS NOT NULL DO NOTHING;
END;

CREATE VIEW complete AS
    SELECT id, fence, result FROM task WHERE state IN ('running', 'rollback_running');

CREATE TRIGGER complete_insert INSTEAD OF INSERT ON complete
BEGIN
    SELECT RAISE(ABORT, 'result must be JSON') WHERE NEW.result IS NOT NULL AND NOT json_valid(NEW.result);
    SELECT RAISE(ABORT, 'result must be 64 KiB at most') WHERE length(CAST(NEW.result AS BLOB)) > 65536;
    SELECT RAISE(ABORT, 'the task is not held with this fence any more: stop, and commit nothing')
    WHERE NOT EXISTS (SELECT 1 FROM task WHERE id = NEW.id AND fence = NEW.fence
                      AND state IN ('running', 'rollback_running') AND claim > 0)
      AND NOT EXISTS (SELECT 1 FROM task_archive WHERE id = NEW.id AND fence = NEW.fence + 1 AND outcome = 'succeeded');
    -- As when an agent settles it: the archive tells all there is of a run that was done at first try.
    INSERT INTO attempt (task_id, fence, ran_fence, session, phase, attempt, outcome, result, state, started_at, ended_at)
    SELECT id, fence, fence, session, iif(state = 'running', 'run', 'rollback'), attempt, 'succeeded', json(NEW.result),
           iif(state = 'running', 'succeeded', 'rolled_back'), claimed_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
    FROM task WHERE id = NEW.id AND fence = NEW.fence
      AND (state = 'rollback_running' OR state = 'running' AND attempt > 1);
    INSERT INTO task_archive (
           id, type, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts, created_at,
           session, claim, policy, lease_until, claimed_at, deadline, checkpoint, progress, message, cancel_asked, cancel_by,
           state, fence, attempt, deferrals, ever_started, outcome, result, started_at, finished_at)
    SELECT id, type, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts, created_at,
           session, claim, policy, lease_until, claimed_at, deadline, checkpoint, progress, message, cancel_asked, cancel_by,
           iif(state = 'running', 'succeeded', 'rolled_back'), fence + 1, attempt, 0, 1, 'succeeded',
           iif(state = 'running' AND attempt = 1, json(NEW.result), ifnull(json(NEW.result), result)), claimed_at,
           strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
    FROM task WHERE id = NEW.id AND fence = NEW.fence AND state IN ('running', 'rollback_running');
    DELETE FROM task WHERE id = NEW.id AND fence = NEW.fence AND state IN ('running', 'rollback_running');
END;

CREATE VIEW cancel AS
    SELECT id, cancel_by AS by, iif(state = 'running' AND cancel_asked IS NOT NULL, 'cancelling', state) AS answer
    FROM tasks;

CREATE TRIGGER cancel_insert INSTEAD OF INSERT ON cancel
BEGIN
    SELECT RAISE(ABORT, 'there is no task with this id') WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE id = NEW.id);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;

    UPDATE task SET cancel_asked = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), cancel_by = nullif(CAST(NEW.by AS TEXT), '')
    WHERE id = NEW.id AND state = 'running' AND cancel_asked IS NULL;
    UPDATE sign SET asked = asked + 1 WHERE changes() > 0; -- rows that the statement before has changed

    -- What was started and waits for its next attempt is undone, if it can be; its type's rollback counts from nought.
    UPDATE task SET state = 'rollback_pending', fence = fence + 1, attempt = 0, deferrals = 0,
        run_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), outcome = 'cancelled',
        error = 'cancelled while it waited' || ifnull(', by ' || nullif(CAST(NEW.by AS TEXT), ''), '')
    WHERE id = NEW.id AND state IN ('pending', 'retry_pending') AND ever_started
      AND EXISTS (SELECT 1 FROM policy WHERE hash = task.policy AND json_type(body, '$.rollback') = 'object');
    UPDATE sign SET n = n + 1 WHERE changes() > 0;

    INSERT INTO task_archive (
           id, type, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts, created_at,
           session, claim, policy, lease_until, claimed_at, deadline, checkpoint, progress, message, attempt, deferrals,
           ever_started, result, state, fence, outcome, error, cancel_asked, cancel_by, finished_at)
    SELECT id, type, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts, created_at,
           session, claim, policy, lease_until, claimed_at, deadline, checkpoint, progress, message, attempt, deferrals,
           ever_started, result, 'cancelled', fence + 1, 'cancelled',
           iif(ever_started, 'cancelled while it waited', 'cancelled before it started') ||
               ifnull(', by ' || nullif(CAST(NEW.by AS TEXT), ''), ''),
           strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), nullif(CAST(NEW.by AS TEXT), ''), strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
    FROM task WHERE id = NEW.id AND state IN ('pending', 'retry_pending');
    DELETE FROM task WHERE id = NEW.id AND state IN ('pending', 'retry_pending');
END;
