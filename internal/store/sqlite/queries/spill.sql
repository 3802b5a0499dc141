-- Rows that have waited too long for agents of their region, by task_spill. INDEXED BY: each is one step in it.

-- name: next_region
-- The next region of which rows of a type wait, after one.
SELECT region FROM task INDEXED BY task_spill
WHERE region IS NOT NULL AND held IS NULL AND state IN ('pending', 'retry_pending', 'rollback_pending')
    AND type = @type AND region > @after
ORDER BY region LIMIT 1;

-- name: any_late
SELECT EXISTS (SELECT 1 FROM task INDEXED BY task_spill
    WHERE region IS NOT NULL AND held IS NULL AND state IN ('pending', 'retry_pending', 'rollback_pending')
        AND type = @type AND region = @region AND ifnull(first_due, run_at) <= @before);

-- name: spill
UPDATE task SET spilled_from = region, region = NULL, first_due = NULL WHERE id IN (
    SELECT id FROM task INDEXED BY task_spill
    WHERE region IS NOT NULL AND held IS NULL AND state IN ('pending', 'retry_pending', 'rollback_pending')
        AND type = @type AND region = @region AND ifnull(first_due, run_at) <= @before
    ORDER BY ifnull(first_due, run_at), id LIMIT @limit);
