-- name: renew
UPDATE task SET lease_until = min(max(lease_until, @least), @most)
WHERE id = @id AND fence = @fence AND session = @session AND state IN ('running', 'rollback_running');

-- name: renew_with_progress
-- renew with progress updates, each of which replaces the one before. Most renewals have none.
UPDATE task SET lease_until = min(max(lease_until, @least), @most),
    progress = ifnull(@progress, progress), message = ifnull(@message, message), checkpoint = ifnull(@checkpoint, checkpoint),
    detached = CASE WHEN @detach THEN 1 ELSE detached END, marks = ifnull(@marks, marks)
WHERE id = @id AND fence = @fence AND session = @session AND state IN ('running', 'rollback_running');
