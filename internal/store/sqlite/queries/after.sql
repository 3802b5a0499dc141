-- Rows that wait for others (after). An INSERT puts down which (the trigger task_waits). The end of a row that others wait for leaves a
-- note, from which agents count down; when nothing is left that a row waits for, its predecessors' states decide.

-- name: blocked
-- Whether there may be something to do, and whether any row waits.
SELECT {ends_left}, EXISTS (SELECT 1 FROM dependent);

-- name: any_dependent
SELECT EXISTS (SELECT 1 FROM dependent);

-- name: note_ends
-- Notes which rows end, before they leave the hot table.
INSERT INTO ended_note (id) SELECT id FROM task WHERE id IN (SELECT value FROM json_each(@ids)) AND awaited;

-- name: ended_notes
-- The rows that notes are about, and whether each is live again.
SELECT ended_note.number, ended_note.id, EXISTS (SELECT 1 FROM task WHERE task.id = ended_note.id) FROM ended_note ORDER BY ended_note.number LIMIT @limit;

-- name: await
UPDATE task SET awaited = 1 WHERE id IN (SELECT value FROM json_each(@ids)) AND awaited IS NULL;

-- name: await_followers
UPDATE follow SET awaited = 1 WHERE id IN (SELECT value FROM json_each(@ids)) AND awaited IS NULL;

-- name: waiting_for
-- Rows that wait for one that has ended, and have not been counted down.
SELECT task_id FROM dependency INDEXED BY dependency_open WHERE on_id = @id AND NOT ended ORDER BY task_id LIMIT @limit;

-- name: count_down
UPDATE dependent SET unfinished = unfinished - 1 WHERE task_id IN (SELECT value FROM json_each(@ids));

-- name: set_ended
UPDATE dependency SET ended = 1 WHERE on_id = @id AND task_id IN (SELECT value FROM json_each(@ids));

-- name: delete_ended_note
DELETE FROM ended_note WHERE number = @number;

-- name: ready
-- Rows of which all predecessors have ended, with their number.
SELECT dependent.task_id, (SELECT count(*) FROM dependency WHERE dependency.task_id = dependent.task_id)
FROM dependent INDEXED BY dependent_ready WHERE dependent.unfinished = 0 ORDER BY dependent.task_id LIMIT @limit;

-- name: live_again
-- Predecessors of a row that are live, whatever was counted down.
SELECT d.on_id FROM dependency AS d WHERE d.task_id = @id
    AND (EXISTS (SELECT 1 FROM task WHERE task.id = d.on_id) OR EXISTS (SELECT 1 FROM follow WHERE follow.id = d.on_id));

-- name: wait_again
UPDATE dependency SET ended = 0 WHERE task_id = @id AND on_id IN (SELECT value FROM json_each(@ids));

-- name: unfinish
UPDATE dependent SET unfinished = @n WHERE task_id = @id;

-- name: bad_predecessor
-- The first predecessor that did not succeed, where the row wants success of all, and its state: '' where it is past its retention.
SELECT d.on_id, ifnull(a.state, '') FROM dependency AS d LEFT JOIN task_archive AS a ON a.id = d.on_id
WHERE d.task_id = @id AND a.state IS NOT 'succeeded'
    AND (SELECT ifnull(t.after_if, 'succeeded') FROM task AS t WHERE t.id = @id) = 'succeeded'
ORDER BY d.on_id LIMIT 1;

-- name: free_dependent
-- It is due now, unless it was to be later, and no earlier than anything of those before it can be at work.
UPDATE task SET held = NULL, run_at = max(run_at, @now, ifnull((
    SELECT max(a.lease_until) FROM dependency AS d JOIN task_archive AS a ON a.id = d.on_id WHERE d.task_id = @id), ''))
WHERE id = @id;

-- name: cancel_dependent
INSERT INTO cancel_waiting (id, by, rollback) VALUES (@id, NULL, false);

-- name: say_why
UPDATE task_archive SET error = @error, cancelled_for = @cause WHERE id = @id;

-- name: forget_dependency
DELETE FROM dependency WHERE task_id = @id;

-- name: forget_dependent
DELETE FROM dependent WHERE task_id = @id;

-- name: revived_notes
SELECT number, id, place FROM revived_note ORDER BY number LIMIT @limit;

-- name: cancelled_for
-- Rows that were cancelled on account of one, and have not been looked at.
SELECT id FROM task_archive INDEXED BY task_archive_cancelled_for WHERE cancelled_for = @id AND id > @place ORDER BY id LIMIT @limit;

-- name: revival_barred
SELECT ifnull({revival_barred of=a.}, '') FROM task_archive AS a WHERE a.id = @id;

-- name: revive_dependent
INSERT INTO revive (id, verb, run_at) VALUES (@id, 'retry', @now);

-- name: say_not_revived
UPDATE task_archive SET error = substr(error, 1, iif(instr(error, '{not_revived}') > 0, instr(error, '{not_revived}') - 1, length(error)))
    || '{not_revived}' || @why WHERE id = @id;

-- name: move_revived_note
UPDATE revived_note SET place = @place WHERE number = @number;

-- name: delete_revived_note
DELETE FROM revived_note WHERE number = @number;

-- name: related
-- What a task names, live or finished.
SELECT after, after_if, NULL FROM task WHERE id = @id AND after IS NOT NULL
UNION ALL
SELECT after, after_if, cancelled_for FROM task_archive WHERE id = @id AND after IS NOT NULL;

-- name: neighbours
SELECT id, type, state FROM task WHERE id IN (SELECT value FROM json_each(@ids))
UNION ALL
SELECT id, type, state FROM task_archive WHERE id IN (SELECT value FROM json_each(@ids))
UNION ALL
SELECT id, type, 'pending' FROM follow WHERE id IN (SELECT value FROM json_each(@ids));

-- name: cancelled_total
-- How many tasks were cancelled on account of one.
SELECT count(*) FROM task_archive INDEXED BY task_archive_cancelled_for WHERE cancelled_for = @id;

-- name: cancelled_neighbours
-- The first of them, with what is in the way of their revival. A retry of the task reopens its own batch.
SELECT c.id, c.type, c.state, ifnull({revival_barred of=c.}, '') FROM (
    SELECT id, type, state, key, iif(batch_id IS @batch, NULL, batch_id) AS batch_id FROM task_archive INDEXED BY task_archive_cancelled_for
    WHERE cancelled_for = @id ORDER BY id LIMIT @limit) AS c;

-- name: waiting_total
-- How many tasks wait for one.
SELECT count(*) FROM dependency INDEXED BY dependency_open WHERE on_id = @id AND NOT ended;

-- name: predecessors
-- What a run gets to know of tasks, in the order of their ids: '' is past its retention.
SELECT u.value, coalesce(t.type, a.type, f.type, ''),
    CASE WHEN t.id IS NOT NULL THEN t.state WHEN a.id IS NOT NULL THEN a.state WHEN f.id IS NOT NULL THEN 'pending' ELSE '' END,
    iif(t.id IS NULL, a.result, t.result)
FROM json_each(@ids) AS u
LEFT JOIN task AS t ON t.id = u.value
LEFT JOIN task_archive AS a ON a.id = u.value
LEFT JOIN follow AS f ON f.id = u.value;
