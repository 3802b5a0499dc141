-- INSERT INTO retry (id, by) revives a task that failed, was cancelled or was rolled back: it waits again, with all its
-- attempts. SELECT answer FROM retry WHERE id = … is then the task's state. A payload takes the place of the task's from then on; then a
-- task in any other state is an error.
CREATE VIEW retry AS SELECT id, cancel_requested_by AS by, state AS answer, payload FROM tasks;

CREATE TRIGGER retry_insert INSTEAD OF INSERT ON retry
BEGIN
    SELECT RAISE(ABORT, 'there is no task with this id') WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE id = NEW.id);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    SELECT RAISE(ABORT, 'only a task that failed, was cancelled or was rolled back can be retried with another payload')
    WHERE NEW.payload IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM task_archive WHERE id = NEW.id AND state IN ('failed', 'cancelled', 'rolled_back'));
    SELECT RAISE(ABORT, 'payload must be JSON') WHERE NEW.payload IS NOT NULL AND NOT json_valid(NEW.payload);
    SELECT RAISE(ABORT, 'the task is a chunk, and its payload is its range: retry it without another payload')
    WHERE NEW.payload IS NOT NULL AND EXISTS (SELECT 1 FROM chunk_range WHERE task_id = NEW.id);
    SELECT RAISE(ABORT, 'the payload is larger than the bound on payloads: see option max-payload of leasehold migrate')
    WHERE length(CAST(NEW.payload AS BLOB)) > (SELECT max_payload FROM setting);
    SELECT RAISE(ABORT, 'the task is to be rolled back: wait for that')
    FROM task_archive WHERE id = NEW.id AND state IN ('failed', 'cancelled', 'rolled_back')
      AND EXISTS (SELECT 1 FROM operation WHERE task_id = NEW.id AND ended_at IS NULL);
    SELECT RAISE(ABORT, 'the batch of the task is being cancelled or rolled back: wait until the batch has ended')
    FROM task_archive WHERE id = NEW.id AND state IN ('failed', 'cancelled', 'rolled_back')
      AND EXISTS (SELECT 1 FROM batch WHERE id = task_archive.batch_id AND requested IS NOT NULL AND ended_at IS NULL);
    SELECT RAISE(ABORT, 'another task is live with the key of this one: wait for it or cancel it')
    FROM task_archive AS done WHERE id = NEW.id AND state IN ('failed', 'cancelled', 'rolled_back')
      AND EXISTS (SELECT 1 FROM task WHERE type = done.type AND key = done.key);

    UPDATE task_archive SET payload = CAST(NEW.payload AS TEXT) WHERE id = NEW.id AND NEW.payload IS NOT NULL;
    INSERT INTO audit (requested_by, verb, task_id, reason, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'retry', id, iif(NEW.payload IS NOT NULL, 'with another payload', NULL), 'pending'
    FROM task_archive WHERE id = NEW.id AND state IN ('failed', 'cancelled', 'rolled_back');
    INSERT INTO reopen_batch (id)
    SELECT batch_id FROM task_archive WHERE id = NEW.id AND state IN ('failed', 'cancelled', 'rolled_back');
    INSERT INTO revive (id, verb, run_at)
    SELECT id, 'retry', strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
    FROM task_archive WHERE id = NEW.id AND state IN ('failed', 'cancelled', 'rolled_back');
END;
