-- INSERT INTO cancel_batch (id, by) cancels a batch: none of its tasks is claimed from now on. Agents cancel what waits and stop
-- what runs. SELECT answer FROM cancel_batch WHERE id = … is then cancelling, or the batch's state.
CREATE VIEW cancel_batch AS
    SELECT id, requested_by AS by,
           iif(ended_at IS NULL AND (SELECT requested FROM batch WHERE id = batches.id) IS 'cancel', 'cancelling', state) AS answer
    FROM batches;

CREATE TRIGGER cancel_batch_insert INSTEAD OF INSERT ON cancel_batch
BEGIN
    SELECT RAISE(ABORT, 'there is no batch with this id') WHERE NOT EXISTS (SELECT 1 FROM batch WHERE id = NEW.id);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    UPDATE batch SET requested = 'cancel', requested_by = nullif(CAST(NEW.by AS TEXT), ''), by_failure = 0, stopping = 1, sealed = 1,
        failures_seen = failures
    WHERE id = NEW.id AND ended_at IS NULL AND requested IS NULL;
    -- From here on: where the statement before changed a row.
    INSERT INTO audit (requested_by, verb, batch_id, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'cancel', NEW.id, 'cancelling' WHERE changes() > 0;
    INSERT INTO operation (verb, batch_id, requested_by)
    SELECT 'cancel', NEW.id, nullif(CAST(NEW.by AS TEXT), '') WHERE changes() > 0;
    UPDATE wakeup SET cancel = cancel + 1 WHERE changes() > 0;
    UPDATE operation SET ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), superseded = 1
    WHERE changes() > 0 AND batch_id = NEW.id AND task_id IS NULL AND ended_at IS NULL AND verb <> 'cancel';
END;
