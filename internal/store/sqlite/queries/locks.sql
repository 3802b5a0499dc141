-- Locks of tasks. A row with a lock comes as a candidate, which claims look at. A claim gives each free lock to its first candidate
-- and holds the others back; a promotion lets the first of those become candidates again once the lock is free.

-- name: lock_standing
-- Whether a lock is held, and then whether it is free all the same: its holder has ended, and nothing that it ran can be at work any
-- more.
SELECT (SELECT state FROM task WHERE id = lock_holder.task_id AND state IN ('running', 'rollback_running')) IS NULL
    AND NOT EXISTS (SELECT 1 FROM lock_note INDEXED BY lock_note_until
        WHERE until IS NOT NULL AND lock_note.name = lock_holder.name AND until > @now)
FROM lock_holder WHERE name = @name;

-- name: take_lock
INSERT INTO lock_holder (name, task_id) VALUES (@name, @id)
ON CONFLICT (name) DO UPDATE SET task_id = excluded.task_id;

-- name: hold_back
UPDATE task SET held = 'lock' WHERE id IN (SELECT value FROM json_each(@ids));

-- name: any_lock
SELECT EXISTS (SELECT 1 FROM lock_holder);

-- name: note_locks
-- Notes that rows have ended or were released, in the transaction that settles them. Those that have ended are in both tables.
INSERT INTO lock_note (name, until)
SELECT lock, CASE WHEN state IN ('running', 'rollback_running')
    THEN (SELECT a.lease_until FROM task_archive AS a WHERE a.id = task.id) ELSE lease_until END
FROM task WHERE id IN (SELECT value FROM json_each(@ids)) AND lock IS NOT NULL;

-- name: due_notes
SELECT id, name FROM lock_note WHERE until IS NULL OR until <= @now ORDER BY id LIMIT @limit;

-- name: next_note
-- When the next note is due.
SELECT min(until) FROM lock_note INDEXED BY lock_note_until WHERE until IS NOT NULL AND until > @now;

-- name: any_note
SELECT EXISTS (SELECT 1 FROM lock_note WHERE until IS NULL OR until <= @now);

-- name: delete_notes
DELETE FROM lock_note WHERE id IN (SELECT value FROM json_each(@ids));

-- name: free_lock
DELETE FROM lock_holder WHERE name = @name;

-- name: next_class
-- The next class of rows that wait for a lock, after one: a type, a region, to be run or to be rolled back. Each part is one step in
-- the index.
SELECT type, region, back FROM (
    SELECT 1 AS part, type, ifnull(region, '') AS region, state = 'rollback_pending' AS back FROM task INDEXED BY task_held
    WHERE held = 'lock' AND lock = @name AND type = @type AND ifnull(region, '') = @region AND (state = 'rollback_pending') > @back
    ORDER BY (state = 'rollback_pending') LIMIT 1)
UNION ALL
SELECT type, region, back FROM (
    SELECT 2 AS part, type, ifnull(region, '') AS region, state = 'rollback_pending' AS back FROM task INDEXED BY task_held
    WHERE held = 'lock' AND lock = @name AND type = @type AND ifnull(region, '') > @region
    ORDER BY ifnull(region, ''), (state = 'rollback_pending') LIMIT 1)
UNION ALL
SELECT type, region, back FROM (
    SELECT 3 AS part, type, ifnull(region, '') AS region, state = 'rollback_pending' AS back FROM task INDEXED BY task_held
    WHERE held = 'lock' AND lock = @name AND type > @type
    ORDER BY type, ifnull(region, ''), (state = 'rollback_pending') LIMIT 1)
LIMIT 1;

-- name: promote_first
-- Lets the first row of a class become a candidate.
UPDATE task SET held = NULL WHERE id = (
    SELECT id FROM task INDEXED BY task_held
    WHERE held = 'lock' AND lock = @name AND type = @type AND ifnull(region, '') = @region AND (state = 'rollback_pending') = @back
    ORDER BY priority DESC, run_at, id LIMIT 1);
