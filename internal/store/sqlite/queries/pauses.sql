-- name: pauses
-- Lists the types that are paused.
SELECT type, paused_at, ifnull(paused_by, ''), ifnull(reason, '') FROM type_pause ORDER BY type LIMIT 10000;

-- name: pause_type
INSERT INTO pause (type, reason, by) VALUES (@type, @reason, @by);

-- name: resume_type
INSERT INTO resume (type, by) VALUES (@type, @by);

-- name: is_paused
SELECT EXISTS (SELECT 1 FROM type_pause WHERE type = @type);
