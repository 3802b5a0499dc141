-- What configurations declare.

-- name: declare_blocks
-- Notes what a session declares, and nothing else. known is false where the session is not. In the order of the names, so that of several
-- that do so at once each waits for those before it.
WITH want AS (
    SELECT w.kind, w.name, w.hash, w.body::jsonb AS body
    FROM unnest(@kinds::text[], @names::text[], @hashes::text[], @bodies::text[]) AS w (kind, name, hash, body)
), known AS MATERIALIZED (
    SELECT a.session, a.name FROM {schema}.agent AS a WHERE a.session = @session FOR KEY SHARE
), noted AS (
    INSERT INTO {schema}.declaration AS d (kind, name, hash, body, first_by, last_by)
    SELECT w.kind, w.name, w.hash, w.body, k.name, k.name FROM want AS w CROSS JOIN known AS k ORDER BY w.kind, w.name
    ON CONFLICT (kind, name, hash) DO UPDATE SET last_at = now(), last_by = excluded.last_by
    RETURNING d.number
), gone AS (
    DELETE FROM {schema}.declarer AS r
    WHERE r.session IN (SELECT k.session FROM known AS k) AND NOT EXISTS (SELECT FROM noted AS n WHERE n.number = r.number)
), added AS (
    INSERT INTO {schema}.declarer (session, number) SELECT k.session, n.number FROM known AS k CROSS JOIN noted AS n
    ON CONFLICT DO NOTHING
)
SELECT EXISTS (SELECT FROM known)

-- name: declared_blocks
-- Lists what present sessions declare.
SELECT {declared_columns} FROM {declared_by} AS r JOIN {schema}.declaration AS d ON d.number = r.number
ORDER BY d.kind, d.name, d.number

-- name: declarations
-- Lists what present sessions declare, and the newest definition of each other block that was ever loaded.
SELECT e.number, e.kind, e.name, e.hash, e.body::text, e.first_at, e.first_by, e.last_at, e.last_by, coalesce(e.sessions, '{}')
FROM (
    SELECT d.number, d.kind, d.name, d.hash, d.body, d.first_at, d.first_by, d.last_at, d.last_by, r.sessions,
        row_number() OVER (PARTITION BY d.kind, d.name ORDER BY r.sessions IS NULL, d.number DESC) AS place
    FROM {schema}.declaration AS d LEFT JOIN {declared_by} AS r ON r.number = d.number
) AS e
WHERE e.place = 1 OR e.sessions IS NOT NULL ORDER BY e.kind, e.name, e.number LIMIT @limit

-- name: block_history
-- Lists the definitions of a block that were ever loaded, the newest first.
SELECT {declared_columns} FROM {schema}.declaration AS d LEFT JOIN {declared_by} AS r ON r.number = d.number
WHERE d.kind = @kind AND d.name = @name ORDER BY d.number DESC LIMIT @limit
