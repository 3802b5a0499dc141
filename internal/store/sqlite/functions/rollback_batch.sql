-- INSERT INTO rollback_batch (id, by, force) cancels what waits of a batch, stops what runs and rolls back what has run;
-- agents do it in steps. If some of its tasks have expired it raises, unless force is 1: then the rest is rolled back. SELECT
-- answer FROM rollback_batch WHERE id = … is then rolling_back, or the batch's state.
CREATE VIEW rollback_batch AS SELECT id, requested_by AS by, 0 AS force, state AS answer FROM batches;

CREATE TRIGGER rollback_batch_insert INSTEAD OF INSERT ON rollback_batch
BEGIN
    SELECT RAISE(ABORT, 'there is no batch with this id') WHERE NOT EXISTS (SELECT 1 FROM batch WHERE id = NEW.id);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    SELECT RAISE(ABORT, 'some tasks of the batch are past their retention and cannot be rolled back: force = 1 rolls back what is left')
    FROM batch WHERE id = NEW.id AND removed > 0 AND NOT ifnull(NEW.force, 0) AND NOT (ended_at IS NULL AND requested IS 'rollback');
    INSERT INTO operation (verb, batch_id, requested_by, force)
    SELECT 'rollback', id, nullif(CAST(NEW.by AS TEXT), ''), ifnull(NEW.force, 0) <> 0
    FROM batch
    WHERE id = NEW.id
      AND (ended_at IS NULL AND requested IS NOT 'rollback'
           OR ended_at IS NOT NULL AND EXISTS (
               SELECT 1 FROM task_archive AS done
               WHERE batch_id = NEW.id AND state IN ('succeeded', 'failed', 'cancelled') AND ever_started
                 AND ({own_rollback of=done} OR {type_rollback of=done})));
    -- From here on: where the statement before changed a row.
    INSERT INTO audit (requested_by, verb, batch_id, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'rollback', NEW.id, 'rolling_back' WHERE changes() > 0;
    UPDATE batch SET requested = 'rollback', requested_by = nullif(CAST(NEW.by AS TEXT), ''), by_failure = 0, stopping = 1, sealed = 1,
        failures_seen = failures, round = round + (ended_at IS NOT NULL), ended_at = NULL
    WHERE changes() > 0 AND id = NEW.id;
    UPDATE wakeup SET cancel = cancel + 1 WHERE changes() > 0;
    UPDATE operation SET ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), superseded = 1
    WHERE changes() > 0 AND batch_id = NEW.id AND task_id IS NULL AND ended_at IS NULL AND verb <> 'rollback';
END;
