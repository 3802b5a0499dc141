-- INSERT INTO hold (id, fence) raises unless the task is held with that fence. Inside a write transaction it stays held until
-- that ends: there is no other writer. A row with claim = 0 is held by a reaper, not by an attempt.
CREATE VIEW hold AS
    SELECT id, fence FROM task WHERE state IN ('running', 'rollback_running');

CREATE TRIGGER hold_insert INSTEAD OF INSERT ON hold
BEGIN
    SELECT RAISE(ABORT, 'the task is not held with this fence any more: stop, and commit nothing')
    WHERE NOT EXISTS (SELECT 1 FROM task WHERE id = NEW.id AND fence = NEW.fence
                      AND state IN ('running', 'rollback_running') AND claim > 0
                      AND lease_until > strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));
END;
