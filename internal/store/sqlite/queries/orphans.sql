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
