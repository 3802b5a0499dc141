-- What a diagnosis reads: ops.Examine. Each statement is bounded in rows, and reads the hot table and the archive by their indexes.

-- name: undeclared_types
-- Lists the types of the waiting rows of one class that no present agent with workers declares. {where} is the condition of {index}. The walk
-- goes from one type to the next, by a look in the index each.
WITH RECURSIVE walk (type, n) AS (
    SELECT (SELECT task.type FROM task {index} WHERE {where} ORDER BY task.type LIMIT 1), 1
    UNION ALL
    SELECT (SELECT task.type FROM task {index} WHERE {where} AND task.type > walk.type ORDER BY task.type LIMIT 1), walk.n + 1
    FROM walk WHERE walk.type IS NOT NULL AND walk.n < @steps
)
SELECT walk.type FROM walk
WHERE walk.type IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM agent AS a, json_each(a.types) AS k WHERE a.present_until > @now AND a.workers > 0 AND k.value = walk.type)
LIMIT @most;

-- name: count_undeclared
-- Counts the waiting rows of a type and a class, @most at most.
SELECT count(*) FROM (SELECT 1 FROM task {index} WHERE {where} AND task.type = @type LIMIT @most);

-- name: idle_schedules
-- Lists schedules that do not fire when they should, those first that nobody has paused.
SELECT name, next_at, parked_at, paused_at, ifnull(paused_by, ''), ifnull(invalid, '') FROM schedules
WHERE parked_at IS NOT NULL OR paused_at IS NOT NULL OR invalid IS NOT NULL OR next_at < @before
ORDER BY paused_at IS NOT NULL AND invalid IS NULL, name LIMIT @most;

-- name: blocked_sequences
-- Lists sequences that a failure blocks, by the rule of the view sequences; of those with failures the first @looked are looked at.
SELECT f.type, f.name, f.failed, (SELECT a.finished_at FROM task_archive AS a WHERE a.id = f.failed)
FROM (
    SELECT type, name, min(task_id) AS failed FROM sequence_failure INDEXED BY sequence_failure_name GROUP BY type, name ORDER BY type, name
    LIMIT @looked
) AS f
WHERE NOT EXISTS (SELECT 1 FROM sequence_rule AS p WHERE p.type = f.type AND p.on_failure = 'continue')
    AND NOT EXISTS (SELECT 1 FROM sequence_holder AS h JOIN task AS o ON o.id = h.task_id AND o.type = h.type AND o.sequence = h.name
        WHERE h.type = f.type AND h.name = f.name)
    AND NOT EXISTS (SELECT 1 FROM task AS b INDEXED BY task_sequence_rollback
        WHERE b.sequence IS NOT NULL AND b.state = 'rollback_pending' AND b.type = f.type AND b.sequence = f.name)
    AND NOT EXISTS (SELECT 1 FROM task AS t INDEXED BY task_sequence
        WHERE t.sequence IS NOT NULL AND t.type = f.type AND t.sequence = f.name AND t.id < f.failed)
ORDER BY f.type, f.name LIMIT @most;

-- name: failed_rollbacks
-- Lists tasks whose rollback has failed, the newest first.
SELECT id, type, finished_at FROM task_archive INDEXED BY task_archive_rollback_failed WHERE state = 'rollback_failed' ORDER BY id DESC LIMIT @most;

-- name: stalled_types
-- Counts by type the attempts that have stalled since @since, of the @looked attempts of the newest tasks.
SELECT y.type, count(*), max(y.ended_at) FROM (
    SELECT ifnull((SELECT t.type FROM task AS t WHERE t.id = x.task_id),
            ifnull((SELECT a.type FROM task_archive AS a WHERE a.id = x.task_id), '')) AS type, x.ended_at
    FROM (SELECT e.task_id, e.outcome, e.ended_at FROM attempt AS e ORDER BY e.task_id DESC, e.fence DESC LIMIT @looked) AS x
    WHERE x.outcome = 'stalled' AND x.ended_at > @since
) AS y GROUP BY y.type ORDER BY count(*) DESC, y.type LIMIT @most;
