-- For agents and the other functions, not for applications.
--
-- INSERT INTO reopen_batch (id) begins a new round of a batch that has ended, of which a task is revived. It does nothing for one
-- that has not ended.
CREATE VIEW reopen_batch AS SELECT id FROM batch WHERE ended_at IS NOT NULL;

CREATE TRIGGER reopen_batch_insert INSTEAD OF INSERT ON reopen_batch
BEGIN
    UPDATE batch SET ended_at = NULL, round = round + 1, requested = NULL, requested_by = NULL, by_failure = 0, stopping = 0,
        failures_seen = failures
    WHERE id = NEW.id AND ended_at IS NOT NULL;
END;
