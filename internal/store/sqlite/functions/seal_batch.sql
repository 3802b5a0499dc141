-- INSERT INTO seal_batch (id): the batch accepts no more rows. SELECT answer FROM seal_batch WHERE id = … is then sealed, or
-- the state of a batch that has ended.
CREATE VIEW seal_batch AS SELECT id, iif(sealed AND ended_at IS NULL, 'sealed', state) AS answer FROM batches;

CREATE TRIGGER seal_batch_insert INSTEAD OF INSERT ON seal_batch
BEGIN
    SELECT RAISE(ABORT, 'there is no batch with this id') WHERE NOT EXISTS (SELECT 1 FROM batch WHERE id = NEW.id);
    UPDATE batch SET sealed = 1, seen = 1 WHERE id = NEW.id AND ended_at IS NULL AND NOT (sealed AND seen);
    UPDATE wakeup SET cancel = cancel + 1 WHERE changes() > 0;
END;
