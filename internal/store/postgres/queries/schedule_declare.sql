-- name: put_declarations
-- Stores declarations that were never loaded before, of a session that is known.
INSERT INTO {schema}.schedule_declaration (name, hash, spec)
SELECT w.name, w.hash, w.spec::jsonb FROM unnest(@names::text[], @hashes::text[], @specs::text[]) AS w (name, hash, spec)
WHERE EXISTS (SELECT FROM {schema}.agent AS a WHERE a.session = @session)
  AND NOT EXISTS (SELECT FROM {schema}.schedule_declaration AS d WHERE d.name = w.name AND d.hash = w.hash)
ORDER BY w.name
ON CONFLICT (name, hash) DO NOTHING

-- name: declare_schedules
-- Notes what a session declares, and forgets what it declared before and what sessions declared that are not known. Returns
-- whether the session is known.
WITH known AS MATERIALIZED (
    SELECT a.session FROM {schema}.agent AS a WHERE a.session = @session
), wanted AS MATERIALIZED (
    SELECT k.session, d.number
    FROM known AS k CROSS JOIN unnest(@names::text[], @hashes::text[]) AS w (name, hash)
    JOIN {schema}.schedule_declaration AS d ON d.name = w.name AND d.hash = w.hash
), gone AS (
    DELETE FROM {schema}.schedule_declarer AS r
    WHERE EXISTS (SELECT FROM known) AND (r.session = @session AND NOT EXISTS (SELECT FROM wanted AS w WHERE w.number = r.number)
       OR NOT EXISTS (SELECT FROM {schema}.agent AS a WHERE a.session = r.session))
), declared AS (
    INSERT INTO {schema}.schedule_declarer (session, number) SELECT w.session, w.number FROM wanted AS w
    ON CONFLICT (session, number) DO NOTHING
)
SELECT EXISTS (SELECT FROM known)

-- name: unsettled_schedules
-- Returns the store's clock, and the names behind one, in their order, whose schedules are not what present sessions declare: it
-- does not exist, was inserted by SQL, is parked, has another declaration in force than the newest, is not declared, or is declared
-- with several task types. Where there is none it returns one row without a name.
WITH present AS MATERIALIZED (
    SELECT DISTINCT r.number FROM {schema}.agent AS a
    JOIN {schema}.schedule_declarer AS r ON r.session = a.session
    WHERE a.present_until > now()
), declared AS MATERIALIZED (
    SELECT d.name, max(d.number) AS newest, count(DISTINCT d.spec->>'task') AS tasks,
        array_agg(d.number ORDER BY d.number) AS numbers, array_agg(d.spec::text ORDER BY d.number) AS specs
    FROM present AS p JOIN {schema}.schedule_declaration AS d ON d.number = p.number
    GROUP BY d.name
), unsettled AS (
    SELECT coalesce(d.name, s.name) AS name, d.numbers, d.specs, s.name IS NOT NULL AS exists, s.source, s.task, s.declared, s.version,
        s.parked_at IS NOT NULL AS parked, coalesce({may_fire of=s.} AND s.next_at <= now(), false) AS due
    FROM declared AS d FULL JOIN {schema}.schedule AS s ON s.name = d.name
    WHERE CASE WHEN d.name IS NULL THEN s.source = 'hcl' AND s.parked_at IS NULL
        ELSE s.name IS NULL OR s.source = 'sql' OR s.parked_at IS NOT NULL OR s.declared <> d.newest OR d.tasks > 1 END
)
SELECT now() AS at, coalesce(u.name, ''), coalesce(u.numbers, '{}'), coalesce(u.specs, '{}'), coalesce(u.exists, false),
    coalesce(u.source, ''), coalesce(u.task, ''), coalesce(u.declared, 0), coalesce(u.version, 0), coalesce(u.parked, false),
    coalesce(u.due, false)
FROM (VALUES (0)) AS always (one)
LEFT JOIN LATERAL (
    SELECT n.name, n.numbers, n.specs, n.exists, n.source, n.task, n.declared, n.version, n.parked, n.due
    FROM unsettled AS n WHERE n.name > @after ORDER BY n.name LIMIT @limit
) AS u ON true
ORDER BY u.name

-- name: wake_schedules
-- Has schedules be looked at that are decided ahead of the clock by more than the tolerance, and have not fired there: the clock
-- was ahead, and is back. Decide moves them to now. Returns how many. One that another transaction has locked is left.
WITH hit AS MATERIALIZED (
    SELECT s.name FROM {schema}.schedule AS s
    WHERE {may_fire of=s.} AND s.next_at > now() AND s.cursor_at > now() + @tolerance::bigint * interval '1 microsecond'
      AND (s.last_slot IS NULL OR s.last_slot <= now())
    FOR UPDATE SKIP LOCKED
), woken AS (
    UPDATE {schema}.schedule AS s SET next_at = date_trunc('milliseconds', now()), version = s.version + 1
    FROM hit AS h WHERE s.name = h.name
    RETURNING s.name
)
SELECT count(*) FROM woken

-- name: insert_declared
-- Inserts schedules as they are declared, and returns how many.
WITH inserted AS (
    INSERT INTO {schema}.schedule (name, source, declared, task, cron, every, after, timezone, payload, jitter, from_at, until_at,
        missed, catch_up, overlap)
    SELECT d.name, 'hcl', d.number, d.spec->>'task', d.spec->>'cron', d.spec->>'every', d.spec->>'after', d.spec->>'timezone',
        coalesce(d.spec->'payload', '{}'), d.spec->>'jitter', d.spec->>'from_at', d.spec->>'until_at', d.spec->>'missed',
        d.spec->>'catch_up', d.spec->>'overlap'
    FROM {schema}.schedule_declaration AS d WHERE d.number = ANY (@numbers::bigint[])
    ORDER BY d.name
    ON CONFLICT (name) DO NOTHING
    RETURNING name
)
SELECT count(*) FROM inserted

-- name: settle_schedules
-- Has schedules that have the version that was seen become what is declared (number), or parks them (number 0), and returns how
-- many. One that another transaction has locked is left. The trigger schedule_changed has a schedule go on from a change.
WITH hit AS MATERIALIZED (
    SELECT s.name, c.number, s.declared
    FROM unnest(@names::text[], @versions::bigint[], @numbers::bigint[]) AS c (name, version, number)
    JOIN {schema}.schedule AS s ON s.name = c.name AND s.version = c.version AND s.source = 'hcl'
    FOR UPDATE OF s SKIP LOCKED
), changed AS (
    UPDATE {schema}.schedule AS s SET
        declared = d.number, parked_at = NULL, task = d.spec->>'task', cron = d.spec->>'cron', every = d.spec->>'every',
        after = d.spec->>'after', timezone = d.spec->>'timezone', payload = coalesce(d.spec->'payload', '{}'),
        jitter = d.spec->>'jitter', from_at = d.spec->>'from_at', until_at = d.spec->>'until_at', missed = d.spec->>'missed',
        catch_up = d.spec->>'catch_up', overlap = d.spec->>'overlap'
    FROM hit AS h JOIN {schema}.schedule_declaration AS d ON d.number = h.number
    WHERE s.name = h.name AND h.declared <> h.number
    RETURNING s.name
), returned AS (
    UPDATE {schema}.schedule AS s SET parked_at = NULL, version = s.version + 1,
        next_at = CASE WHEN s.invalid IS NULL THEN date_trunc('milliseconds', now()) END
    FROM hit AS h WHERE s.name = h.name AND h.declared = h.number
    RETURNING s.name
), parked AS (
    UPDATE {schema}.schedule AS s SET parked_at = date_trunc('milliseconds', now()), version = s.version + 1
    FROM hit AS h WHERE s.name = h.name AND h.number = 0
    RETURNING s.name
)
SELECT (SELECT count(*) FROM changed) + (SELECT count(*) FROM returned) + (SELECT count(*) FROM parked)
