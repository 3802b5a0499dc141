-- A row is within the store's bounds when it is inserted. RAISE takes only a constant text before SQLite 3.47, so the trigger is
-- created anew when the bound on payloads changes: {bytes}, and {size} in words. A row with a fence is revived from the
-- archive, and is within the largest bound there is. The id is compared with a constant first, so that most inserts do not read
-- sqlite_sequence.
CREATE TRIGGER task_bounds AFTER INSERT ON task
WHEN NEW.fence NOT BETWEEN 0 AND 4611686018427387904 OR NEW.id NOT BETWEEN 1 AND 1099511627776
    OR length(CAST(NEW.payload AS BLOB)) > iif(NEW.fence = 0, {bytes}, 67108864)
    OR length(CAST(NEW.rollback_payload AS BLOB)) > iif(NEW.fence = 0, {bytes}, 67108864)
BEGIN
    SELECT RAISE(ABORT, 'fence must be between 0 and 2^62') WHERE NEW.fence NOT BETWEEN 0 AND 4611686018427387904;
    SELECT RAISE(ABORT, 'id must be left out: the table gives one')
    WHERE NEW.id < 1 OR NEW.id > 4294967296 + ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'task'), 0);
    SELECT RAISE(ABORT, 'payload must be {size} at most: see option max-payload of leasehold migrate')
    WHERE length(CAST(NEW.payload AS BLOB)) > iif(NEW.fence = 0, {bytes}, 67108864);
    SELECT RAISE(ABORT, 'rollback_payload must be {size} at most: see option max-payload of leasehold migrate')
    WHERE length(CAST(NEW.rollback_payload AS BLOB)) > iif(NEW.fence = 0, {bytes}, 67108864);
END;
