-- INSERT INTO retry_batch (id, by) retries the failed tasks of a batch; agents do it in steps. SELECT answer FROM retry_batch
-- WHERE id = … is then retrying, or the batch's state.
CREATE VIEW retry_batch AS SELECT id, requested_by AS by, iif(operation IS 'retry', 'retrying', state) AS answer FROM batches;

CREATE TRIGGER retry_batch_insert INSTEAD OF INSERT ON retry_batch
BEGIN
    SELECT RAISE(ABORT, 'there is no batch with this id') WHERE NOT EXISTS (SELECT 1 FROM batch WHERE id = NEW.id);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    SELECT RAISE(ABORT, 'the batch is being cancelled or rolled back: wait until it has ended')
    FROM batch WHERE id = NEW.id AND requested IS NOT NULL AND ended_at IS NULL;
    INSERT INTO operation (verb, batch_id, requested_by)
    SELECT 'retry', NEW.id, nullif(CAST(NEW.by AS TEXT), '')
    WHERE NOT EXISTS (SELECT 1 FROM operation WHERE batch_id = NEW.id AND task_id IS NULL AND ended_at IS NULL)
      AND EXISTS (SELECT 1 FROM task_archive WHERE batch_id = NEW.id AND state <> 'succeeded'
                  AND {has_failed of=task_archive.});
    INSERT INTO audit (requested_by, verb, batch_id, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'retry', NEW.id, 'retrying' WHERE changes() > 0;
    UPDATE wakeup SET cancel = cancel + 1 WHERE changes() > 0;
    INSERT INTO reopen_batch (id)
    SELECT NEW.id WHERE EXISTS (SELECT 1 FROM operation WHERE batch_id = NEW.id AND task_id IS NULL AND ended_at IS NULL);
END;
