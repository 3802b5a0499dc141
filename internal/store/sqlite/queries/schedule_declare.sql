-- name: put_declarations
-- Stores declarations that were never loaded before.
INSERT INTO schedule_declaration (name, hash, spec)
SELECT json_extract(json_each.value, '$[0]'), json_extract(json_each.value, '$[1]'), json_extract(json_each.value, '$[2]')
FROM json_each(@list) WHERE true
ON CONFLICT (name, hash) DO NOTHING;

-- name: is_session
SELECT count(*) FROM agent WHERE session = @session;

-- name: forget_declarers
-- Forgets what a session no longer declares, and what sessions declared that are not known.
DELETE FROM schedule_declarer WHERE session = @session AND number NOT IN (
        SELECT schedule_declaration.number FROM json_each(@list) CROSS JOIN schedule_declaration
        WHERE schedule_declaration.name = json_extract(json_each.value, '$[0]')
          AND schedule_declaration.hash = json_extract(json_each.value, '$[1]'))
    OR session NOT IN (SELECT agent.session FROM agent);

-- name: put_declarers
INSERT INTO schedule_declarer (session, number)
SELECT @session, schedule_declaration.number FROM json_each(@list) CROSS JOIN schedule_declaration
WHERE schedule_declaration.name = json_extract(json_each.value, '$[0]')
  AND schedule_declaration.hash = json_extract(json_each.value, '$[1]')
ON CONFLICT (session, number) DO NOTHING;

-- name: unsettled_schedules
-- The names behind one, in their order, whose schedules are not what present sessions declare: it does not exist, was inserted by
-- SQL, is parked, has another declaration in force than the newest, is not declared, or is declared with several task types.
WITH declared AS MATERIALIZED (
    SELECT d.name, max(d.number) AS newest, count(DISTINCT json_extract(d.spec, '$.task')) AS tasks,
        json_group_array(json_array(d.number, json(d.spec))) AS list
    FROM (
        SELECT DISTINCT schedule_declarer.number FROM agent JOIN schedule_declarer ON schedule_declarer.session = agent.session
        WHERE agent.present_until > @now
    ) AS p JOIN schedule_declaration AS d ON d.number = p.number
    GROUP BY d.name
)
SELECT d.name AS name, d.list, s.name IS NOT NULL, s.source, s.task, s.declared, s.version, s.parked_at IS NOT NULL,
    ifnull({may_fire of=s.} AND s.next_at <= @now, 0)
FROM declared AS d LEFT JOIN schedule AS s ON s.name = d.name
WHERE d.name > @after
  AND (s.name IS NULL OR s.source = 'sql' OR s.parked_at IS NOT NULL OR s.declared <> d.newest OR d.tasks > 1)
UNION ALL
SELECT s.name, '[]', 1, s.source, s.task, s.declared, s.version, 0, {may_fire of=s.} AND s.next_at <= @now
FROM schedule AS s
WHERE s.name > @after AND s.source = 'hcl' AND s.parked_at IS NULL AND s.name NOT IN (SELECT declared.name FROM declared)
ORDER BY name LIMIT @limit;

-- name: any_ahead
-- Whether a schedule is decided ahead of the clock by more than the tolerance, and has not fired there.
SELECT count(*) FROM schedule AS s
WHERE {may_fire of=s.} AND s.next_at > @now AND s.cursor_at > @ahead AND ifnull(s.last_slot, '') <= @now;

-- name: wake_schedules
-- Has such schedules be looked at: the clock was ahead, and is back. Decide moves them to now.
UPDATE schedule SET next_at = @now, version = version + 1
WHERE {may_fire} AND next_at > @now AND cursor_at > @ahead AND ifnull(last_slot, '') <= @now;

-- name: insert_declared
INSERT INTO schedule (name, source, declared, task, cron, every, after, timezone, payload, jitter, from_at, until_at, missed, catch_up, overlap)
SELECT name, 'hcl', number, json_extract(spec, '$.task'), json_extract(spec, '$.cron'), json_extract(spec, '$.every'),
    json_extract(spec, '$.after'), json_extract(spec, '$.timezone'), ifnull(json_extract(spec, '$.payload'), '{}'),
    json_extract(spec, '$.jitter'), json_extract(spec, '$.from_at'), json_extract(spec, '$.until_at'), json_extract(spec, '$.missed'),
    json_extract(spec, '$.catch_up'), json_extract(spec, '$.overlap')
FROM schedule_declaration WHERE number = @number
ON CONFLICT (name) DO NOTHING;

-- name: change_declared
-- The trigger schedule_changed has the schedule go on from the change.
UPDATE schedule SET (task, cron, every, after, timezone, payload, jitter, from_at, until_at, missed, catch_up, overlap, declared, parked_at) = (
    SELECT json_extract(d.spec, '$.task'), json_extract(d.spec, '$.cron'), json_extract(d.spec, '$.every'),
        json_extract(d.spec, '$.after'), json_extract(d.spec, '$.timezone'), ifnull(json_extract(d.spec, '$.payload'), '{}'),
        json_extract(d.spec, '$.jitter'), json_extract(d.spec, '$.from_at'), json_extract(d.spec, '$.until_at'),
        json_extract(d.spec, '$.missed'), json_extract(d.spec, '$.catch_up'), json_extract(d.spec, '$.overlap'), d.number, NULL
    FROM schedule_declaration AS d WHERE d.number = @number)
WHERE name = @name AND version = @version AND source = 'hcl' AND declared <> @number;

-- name: unpark_schedule
UPDATE schedule SET parked_at = NULL, version = version + 1, next_at = iif(invalid IS NULL, @now, NULL)
WHERE name = @name AND version = @version AND source = 'hcl' AND declared = @number;

-- name: park_schedule
UPDATE schedule SET parked_at = @now, version = version + 1 WHERE name = @name AND version = @version AND source = 'hcl';
