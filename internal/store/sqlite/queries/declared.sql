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
SELECT {declared_columns} FROM declaration AS d
WHERE d.number IN (SELECT r.number FROM declarer AS r JOIN agent AS a ON a.session = r.session WHERE a.present_until > @now)
ORDER BY d.kind, d.name, d.number;

-- name: declarations
-- Lists what present sessions declare, and the newest definition of each other block that was ever loaded.
SELECT {declared_columns} FROM (
    SELECT d.number, d.kind, d.name, d.hash, d.body, d.first_at, d.first_by, d.last_at, d.last_by, d.present,
        row_number() OVER (PARTITION BY d.kind, d.name ORDER BY d.present DESC, d.number DESC) AS place
    FROM (
        SELECT d.number, d.kind, d.name, d.hash, d.body, d.first_at, d.first_by, d.last_at, d.last_by,
            d.number IN (SELECT r.number FROM declarer AS r JOIN agent AS a ON a.session = r.session WHERE a.present_until > @now) AS present
        FROM declaration AS d
    ) AS d
) AS d
WHERE d.place = 1 OR d.present ORDER BY d.kind, d.name, d.number LIMIT @limit;

-- name: block_history
-- Lists the definitions of a block that were ever loaded, the newest first.
SELECT {declared_columns} FROM declaration AS d
WHERE d.kind = @kind AND d.name = @name ORDER BY d.number DESC LIMIT @limit;
