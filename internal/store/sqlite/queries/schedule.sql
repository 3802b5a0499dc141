-- name: next_schedule
SELECT next_at FROM schedule INDEXED BY schedule_next WHERE {may_fire} AND next_at > @now ORDER BY next_at LIMIT 1;

-- name: due_schedules
-- The schedules that are due, the longest due first, each with what became of its last task. An archived row has a lease_until
-- only if its attempt's end is not known.
SELECT s.name, s.task, s.cron, s.every, s.after, s.timezone, s.payload, s.jitter, s.from_at, s.until_at, s.missed, s.catch_up,
    s.overlap, s.version, s.created_at, s.cursor_at, s.queued_slot, s.last_slot, s.last_task,
    ifnull(t.created_at, a.created_at), t.id IS NOT NULL OR ifnull(a.lease_until > @now, 0),
    CASE WHEN t.id IS NULL AND NOT ifnull(a.lease_until > @now, 0)
        THEN max(a.finished_at, ifnull(a.lease_until, a.finished_at)) END
FROM (
    SELECT name, task, cron, every, after, timezone, payload, jitter, from_at, until_at, missed, catch_up, overlap, version,
        created_at, cursor_at, queued_slot, last_slot, last_task, next_at
    FROM schedule INDEXED BY schedule_next WHERE {may_fire} AND next_at <= @now ORDER BY next_at, name LIMIT @limit
) AS s
LEFT JOIN task AS t ON t.id = s.last_task
LEFT JOIN task_archive AS a ON a.id = s.last_task;

-- name: firings_seen
-- Which firings, by their places in the list, have the version that was seen.
SELECT json_each.key FROM json_each(@list) CROSS JOIN schedule
WHERE schedule.name = json_extract(json_each.value, '$[0]') AND schedule.version = json_extract(json_each.value, '$[1]');

-- name: insert_firings
-- created_by leads from an id back to its schedule.
INSERT INTO task (type, payload, run_at, created_at, created_by)
SELECT schedule.task, json_set(schedule.payload, '$.slot', json_extract(json_each.value, '$[1]')),
    json_extract(json_each.value, '$[2]'), @now, 'schedule:' || schedule.name
FROM json_each(@rows) CROSS JOIN schedule WHERE schedule.name = json_extract(json_each.value, '$[0]')
RETURNING id, substr(created_by, length('schedule:') + 1);

-- name: move_schedules
UPDATE schedule SET (version, cursor_at, queued_slot, missed_slots, next_at, last_slot, last_task, last_by) = (
    SELECT schedule.version + 1, json_extract(f.value, '$[1]'), json_extract(f.value, '$[2]'),
        schedule.missed_slots + json_extract(f.value, '$[3]'), json_extract(f.value, '$[4]'),
        ifnull(json_extract(f.value, '$[5]'), schedule.last_slot), ifnull(json_extract(f.value, '$[6]'), schedule.last_task),
        ifnull(json_extract(f.value, '$[7]'), schedule.last_by))
FROM json_each(@list) AS f WHERE schedule.name = json_extract(f.value, '$[0]');

-- name: mark_invalid
UPDATE schedule SET version = schedule.version + 1, next_at = NULL, invalid = json_extract(f.value, '$[1]')
FROM json_each(@list) AS f WHERE schedule.name = json_extract(f.value, '$[0]');

-- name: note_aside
INSERT INTO audit (requested_by, verb, schedule, answer)
SELECT nullif(json_extract(f.value, '$[0]'), ''), json_extract(f.value, '$[1]'), json_extract(f.value, '$[2]'), json_extract(f.value, '$[3]')
FROM json_each(@list) AS f;

-- name: list_schedules
-- Schedules by name, from one on, each with what became of its last task, as in due_schedules.
SELECT s.name, s.task, s.cron, s.every, s.after, s.timezone, s.payload, s.jitter, s.from_at, s.until_at, s.missed, s.catch_up,
    s.overlap, s.version, s.created_at, s.cursor_at, s.queued_slot, s.last_slot, s.last_task,
    ifnull(t.created_at, a.created_at), t.id IS NOT NULL OR ifnull(a.lease_until > @now, 0),
    CASE WHEN t.id IS NULL AND NOT ifnull(a.lease_until > @now, 0)
        THEN max(a.finished_at, ifnull(a.lease_until, a.finished_at)) END,
    s.source, s.next_at, s.last_by, ifnull(t.state, a.state), iif(t.id IS NULL, a.outcome, t.outcome), iif(t.id IS NULL, a.error, t.error),
    s.missed_slots, s.paused_at, s.paused_by, s.parked_at, s.invalid
FROM (
    SELECT name, task, cron, every, after, timezone, payload, jitter, from_at, until_at, missed, catch_up, overlap, version, created_at,
        cursor_at, queued_slot, last_slot, last_task, source, next_at, last_by, missed_slots, paused_at, paused_by, parked_at, invalid
    FROM schedule WHERE name >= @from ORDER BY name LIMIT @limit
) AS s
LEFT JOIN task AS t ON t.id = s.last_task
LEFT JOIN task_archive AS a ON a.id = s.last_task;

-- name: schedule_standing
SELECT s.paused_at IS NOT NULL, s.source = 'hcl' AND EXISTS (
    SELECT 1 FROM schedule_declaration
    JOIN schedule_declarer ON schedule_declarer.number = schedule_declaration.number
    JOIN agent ON agent.session = schedule_declarer.session
    WHERE schedule_declaration.name = s.name AND json_extract(schedule_declaration.spec, '$.task') = s.task
      AND agent.present_until > @now)
FROM schedule AS s WHERE s.name = @name;

-- name: pause_schedule
INSERT INTO pause_schedule (name, by) VALUES (@name, @by);

-- name: resume_schedule
INSERT INTO resume_schedule (name, by) VALUES (@name, @by);

-- name: remove_schedule
INSERT INTO remove_schedule (name, by) VALUES (@name, @by);
