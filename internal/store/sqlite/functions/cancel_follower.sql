-- For the other functions, not for applications.
--
-- INSERT INTO cancel_follower (id, by) cancels a follower: it goes to the archive.
CREATE VIEW cancel_follower AS SELECT id, created_by AS by FROM follow;

CREATE TRIGGER cancel_follower_insert INSTEAD OF INSERT ON cancel_follower
BEGIN
    INSERT INTO task_archive (id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
        created_at, attempt, deferrals, ever_started, fence, outcome, error, finished_at, cancel_requested_at, cancel_requested_by,
        rollback_payload, lock, sequence, tenant)
    SELECT id, type, 'cancelled', priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
        created_at, 0, 0, 0, 1, 'cancelled', 'cancelled before it started' || ifnull(', by ' || NEW.by, ''),
        strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), NEW.by, rollback_payload, lock,
        sequence, tenant
    FROM follow WHERE id = NEW.id;
    {note_turn which==NEW.id};
    {note_failure which==NEW.id};
    INSERT INTO ended_note (id) SELECT id FROM follow WHERE id = NEW.id AND awaited;
    DELETE FROM follow WHERE id = NEW.id;
END;
