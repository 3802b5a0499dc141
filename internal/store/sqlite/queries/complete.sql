-- name: attempt
-- Whether an attempt holds its row with the fence, whichever session claimed it.
SELECT EXISTS (SELECT 1 FROM task
    WHERE id = @id AND fence = @fence AND claim > 0 AND state IN ('running', 'rollback_running'));

-- name: complete
INSERT INTO complete (id, fence, result) VALUES (@id, @fence, @result);

-- name: completed
-- Whether an attempt has succeeded, also if its agent settled it, and if it was rolled back since.
SELECT EXISTS (SELECT 1 FROM task_archive WHERE id = @id AND fence = @fence + 1 AND outcome = 'succeeded')
    OR EXISTS (SELECT 1 FROM attempt WHERE task_id = @id AND fence = @fence AND outcome = 'succeeded');
