-- name: orphans
-- Lists the types of waiting rows that no present agent declares. It reads the hot table.
SELECT type, waiting, running, oldest_at, declared_at, ifnull(declared_by, ''), ifnull(declared_as, '') FROM orphans ORDER BY type LIMIT 10000;

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
