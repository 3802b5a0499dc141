-- What configurations declare.

-- name: agent_name
SELECT name FROM agent WHERE session = @session;

-- name: forget_block_declarers
-- Of a session, and of those that are gone.
DELETE FROM declarer WHERE session = @session OR session NOT IN (SELECT session FROM agent);

-- name: put_block
INSERT INTO declaration (kind, name, hash, body, first_at, first_by, last_at, last_by)
VALUES (@kind, @name, @hash, @body, @now, @by, @now, @by)
ON CONFLICT (kind, name, hash) DO UPDATE SET last_at = excluded.last_at, last_by = excluded.last_by
RETURNING number;

-- name: put_declarer
INSERT INTO declarer (session, number) VALUES (@session, @number);

-- name: declared_blocks
-- Lists what present sessions declare.
SELECT d.number, d.kind, d.name, d.body, d.first_at, d.first_by, d.last_at, d.last_by,
    (SELECT json_group_array(s.session) FROM (
        SELECT a.session FROM declarer AS r JOIN agent AS a ON a.session = r.session
        WHERE r.number = d.number AND a.present_until > @now ORDER BY a.session) AS s) AS sessions
FROM declaration AS d
WHERE d.number IN (SELECT r.number FROM declarer AS r JOIN agent AS a ON a.session = r.session WHERE a.present_until > @now)
ORDER BY d.kind, d.name, d.number;
