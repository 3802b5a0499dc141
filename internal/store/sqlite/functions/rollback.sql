-- INSERT INTO rollback (id, by) rolls a task back, if its type has a rollback; a running one is asked to stop first. SELECT
-- answer FROM rollback WHERE id = … is then cancelling, or the task's state.
CREATE VIEW rollback AS
    SELECT id, cancel_requested_by AS by, iif(state = 'running' AND cancel_requested_at IS NOT NULL, 'cancelling',
        state) AS answer
    FROM tasks;

CREATE TRIGGER rollback_insert INSTEAD OF INSERT ON rollback
BEGIN
    SELECT RAISE(ABORT, 'there is no task with this id') WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE id = NEW.id);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    SELECT RAISE(ABORT, 'the type of the task has no rollback')
    FROM tasks WHERE id = NEW.id AND state NOT IN ('rollback_pending', 'rollback_running', 'rolled_back', 'split')
      AND NOT ({own_rollback of=tasks} OR {type_rollback of=tasks});
    SELECT RAISE(ABORT, 'another task is live with the key of this one: wait for it or cancel it')
    FROM task_archive AS done
    WHERE id = NEW.id AND ever_started AND state IN ('succeeded', 'failed', 'cancelled', 'rollback_failed')
      AND EXISTS (SELECT 1 FROM task WHERE type = done.type AND key = done.key);

    INSERT INTO audit (requested_by, verb, task_id, answer) -- the answer is entered below
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'rollback', id, ''
    FROM tasks
    WHERE id = NEW.id
      AND (state IN ('pending', 'retry_pending')
           OR state = 'running' AND NOT EXISTS (SELECT 1 FROM operation WHERE task_id = NEW.id AND ended_at IS NULL)
           OR ever_started AND state IN ('succeeded', 'failed', 'cancelled', 'rollback_failed'));

    -- What runs: the request is carried out once the attempt has ended.
    INSERT INTO operation (verb, batch_id, task_id, requested_by)
    SELECT 'rollback', batch_id, id, nullif(CAST(NEW.by AS TEXT), '') FROM task
    WHERE id = NEW.id AND state = 'running'
      AND NOT EXISTS (SELECT 1 FROM operation WHERE task_id = NEW.id AND ended_at IS NULL);
    UPDATE task SET cancel_requested_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
        cancel_requested_by = nullif(CAST(NEW.by AS TEXT), '')
    WHERE id = NEW.id AND state = 'running' AND cancel_requested_at IS NULL;
    UPDATE wakeup SET cancel = cancel + 1 WHERE changes() > 0;
    -- What waits, and what has finished: one of the two does nothing. The type has a rollback, else this has raised above.
    INSERT INTO cancel_waiting (id, by, rollback)
    SELECT id, nullif(CAST(NEW.by AS TEXT), ''), ever_started FROM task WHERE id = NEW.id;
    INSERT INTO cancel_follower (id, by) SELECT id, nullif(CAST(NEW.by AS TEXT), '') FROM follow WHERE id = NEW.id;
    INSERT INTO reopen_batch (id)
    SELECT batch_id FROM task_archive
    WHERE id = NEW.id AND ever_started AND state IN ('succeeded', 'failed', 'cancelled', 'rollback_failed');
    INSERT INTO revive (id, verb, run_at)
    SELECT id, 'rollback', strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
    FROM task_archive
    WHERE id = NEW.id AND ever_started AND state IN ('succeeded', 'failed', 'cancelled', 'rollback_failed');
    UPDATE audit SET answer = (SELECT answer FROM rollback WHERE id = NEW.id)
    WHERE id = (SELECT max(id) FROM audit) AND answer = '';
END;
