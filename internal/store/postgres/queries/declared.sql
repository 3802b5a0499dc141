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
SELECT d.number, d.kind, d.name, d.body::text, d.first_at, d.first_by, d.last_at, d.last_by, r.sessions
FROM (
    SELECT r.number, array_agg(r.session ORDER BY r.session) AS sessions
    FROM {schema}.agent AS a JOIN {schema}.declarer AS r ON r.session = a.session
    WHERE a.present_until > now() GROUP BY r.number
) AS r JOIN {schema}.declaration AS d ON d.number = r.number
ORDER BY d.kind, d.name, d.number
