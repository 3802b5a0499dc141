-- Raises unless a named lease is held with a fence. The message is constant: RAISE takes no other before SQLite 3.47.
SELECT RAISE(ABORT, 'the lease is not held with this fence any more: stop, and commit nothing')
    WHERE NOT EXISTS (SELECT 1 FROM lease WHERE name = NEW.name AND fence = NEW.fence AND NOT EXISTS (
        SELECT 1 FROM lapsed_lease WHERE lapsed_lease.fence = lease.fence))
