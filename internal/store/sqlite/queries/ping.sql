-- Pings from outside the session that holds the row.

-- name: secret
SELECT key FROM secret;

-- name: pinged
-- What the reply to a ping depends on. A row with claim = 0 is held by a reaper, not by an attempt.
SELECT state, policy, lease_until, claimed_at, deadline, cancel_requested_at IS NOT NULL, cancel_requested_by
FROM task
WHERE id = @id AND fence = @fence AND claim > 0 AND state IN ('running', 'rollback_running') AND lease_until > @now;

-- name: marks
SELECT marks FROM task WHERE id = @id;

-- name: ping
-- @due and @until are NULL for a ping that does not count, @marks where no progress is required or made.
UPDATE task SET progress = ifnull(@progress, progress), message = ifnull(@message, message), checkpoint = ifnull(@checkpoint, checkpoint),
    ping_due = ifnull(@due, ping_due), lease_until = max(lease_until, ifnull(@until, lease_until)), marks = ifnull(@marks, marks)
WHERE id = @id AND fence = @fence;

-- name: policy
SELECT body FROM policy WHERE hash = @hash;
