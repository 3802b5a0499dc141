-- name: waiting_types
-- Lists the types of the rows that an index has, @steps at most. {where} is the condition of {index}. The walk goes from one type to the next,
-- by a look in the index each.
WITH RECURSIVE walk (type, n) AS (
    SELECT (SELECT task.type FROM task {index} WHERE {where} ORDER BY task.type LIMIT 1), 1
    UNION ALL
    SELECT (SELECT task.type FROM task {index} WHERE {where} AND task.type > walk.type ORDER BY task.type LIMIT 1), walk.n + 1
    FROM walk WHERE walk.type IS NOT NULL AND walk.n < @steps
)
SELECT walk.type FROM walk WHERE walk.type IS NOT NULL;

-- name: count_of_type
-- Counts the rows of a type that an index has, @most at most. The oldest has the lowest id.
SELECT n, (SELECT created_at FROM task WHERE id = low)
FROM (SELECT count(*) AS n, min(id) AS low FROM (SELECT id FROM task {index} WHERE {where} AND task.type = @type LIMIT @most));

-- name: held_types
-- Counts by type those that an index has in another order, @most at most, and those of them that run.
SELECT type, waiting, (SELECT created_at FROM task WHERE id = low), running
FROM (
    SELECT type, sum(NOT runs) AS waiting, min(iif(runs, NULL, id)) AS low, sum(runs) AS running
    FROM (SELECT id, type, state IN ('running', 'rollback_running') AS runs FROM task {index} WHERE {where} LIMIT @most) GROUP BY type);

-- name: last_declared
-- Who declared a type last, as a task type or an alias.
SELECT last_at, ifnull(last_by, ''), ifnull(name, '') FROM declaration
WHERE kind = 'task' AND (name = @type OR instr(json_extract(body, '$.aliases'), json_quote(@type)) > 0)
ORDER BY last_at DESC, number DESC LIMIT 1;

-- name: declarer
-- An agent that is present, has workers and declares a type.
SELECT name FROM agent
WHERE present_until > @now AND workers > 0 AND EXISTS (SELECT 1 FROM json_each(types) WHERE value = @type) ORDER BY name LIMIT 1;

-- name: rows_behind
-- The next rows behind an id.
SELECT id, type = @type, state, sequence IS NOT NULL, ever_started AND {own_rollback of=task} FROM task NOT INDEXED WHERE id > @id
ORDER BY id LIMIT @limit;

-- name: audit_type
-- Notes what was done with a type.
INSERT INTO audit (requested_by, verb, type, reason, answer) VALUES (@by, @verb, @type, @reason, @answer);

-- name: audit_reason
-- Gives the reason with what was noted of rows.
UPDATE audit SET reason = @reason WHERE id > @last;

-- name: last_audit
SELECT ifnull(max(id), 0) FROM audit;

-- name: orphan_sequences
-- The next rows with a sequence of a type, behind a sequence.
SELECT sequence, id FROM task INDEXED BY task_sequence WHERE sequence IS NOT NULL AND type = @type AND sequence > @after
ORDER BY sequence, id LIMIT @limit;

-- name: judge_orphans
-- What keeps rows from getting another type: they run; they may need a rollback that it does not have; it has their keys.
SELECT task.id, ifnull(task.sequence, ''), task.state,
    (task.state = 'rollback_pending' OR task.ever_started AND {own_rollback of=task})
        AND NOT EXISTS (SELECT 1 FROM rollback_policy WHERE type = @into),
    EXISTS (SELECT 1 FROM task AS k INDEXED BY task_key WHERE k.type = @into AND k.key = task.key)
FROM json_each(@ids) CROSS JOIN task NOT INDEXED WHERE task.id = json_each.value;

-- name: judge_sequence
-- Whether a failure blocks a sequence, and whether what a row of it ran may be at work.
SELECT ifnull((SELECT on_failure FROM sequence_rule WHERE type = @type), 'block') <> 'continue'
        AND EXISTS (SELECT 1 FROM sequence_failure INDEXED BY sequence_failure_name WHERE type = @type AND name = @name),
    EXISTS (SELECT 1 FROM sequence_note INDEXED BY sequence_note_until
        WHERE until IS NOT NULL AND type = @type AND name = @name AND until > @now);

-- name: note_moved_locks
-- Has promotions look at the locks of rows that get another type: rows wait for them by type.
INSERT INTO lock_note (name) SELECT DISTINCT lock FROM task WHERE id IN (SELECT value FROM json_each(@ids)) AND lock IS NOT NULL;

-- name: note_moved_turns
-- Likewise at the sequences that are left.
INSERT INTO sequence_note (type, name)
SELECT DISTINCT type, sequence FROM task WHERE id IN (SELECT value FROM json_each(@ids)) AND sequence IS NOT NULL;

-- name: move_followers
UPDATE follow SET type = @into WHERE type = @type
    AND key IN (SELECT key FROM task WHERE id IN (SELECT value FROM json_each(@ids)) AND key IS NOT NULL);

-- name: move_rows
-- What waited for its turn in a sequence of the old type is a candidate of the new one.
UPDATE task SET type = @into, held = nullif(held, 'sequence') WHERE id IN (SELECT value FROM json_each(@ids));

-- name: audit_rows
INSERT INTO audit (requested_by, verb, task_id, reason, answer) SELECT @by, @verb, value, @reason, @answer FROM json_each(@ids);
