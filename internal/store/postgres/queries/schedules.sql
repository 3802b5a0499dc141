-- name: due_schedules
-- Returns the store's clock, when the next schedule is due that is not yet, and the schedules that are due, the longest due
-- first, each with what became of its last task. Where none is due it returns one row without a name. It locks nothing.
SELECT now() AS at,
    (SELECT n.next_at FROM {schema}.schedule AS n
        WHERE {may_fire of=n.} AND n.next_at > now() ORDER BY n.next_at LIMIT 1) AS later,
    coalesce(d.name, ''), coalesce(d.task, ''), coalesce(d.cron, ''), coalesce(d.every, ''), coalesce(d.after, ''),
    coalesce(d.timezone, ''), d.payload, coalesce(d.jitter, ''), coalesce(d.from_at, ''), coalesce(d.until_at, ''),
    coalesce(d.missed, ''), coalesce(d.catch_up, ''), coalesce(d.overlap, ''), coalesce(d.version, 0), d.created_at,
    d.cursor_at, d.queued_slot, d.last_slot, coalesce(d.last_task, 0), l.inserted, coalesce(l.live, false), l.ended
FROM (VALUES (0)) AS always (one)
LEFT JOIN LATERAL (
    SELECT s.name, s.task, s.cron, s.every, s.after, s.timezone, s.payload, s.jitter, s.from_at, s.until_at, s.missed,
        s.catch_up, s.overlap, s.version, s.created_at, s.cursor_at, s.queued_slot, s.last_slot, s.last_task, s.next_at
    FROM {schema}.schedule AS s WHERE {may_fire of=s.} AND s.next_at <= now()
    ORDER BY s.next_at, s.name LIMIT @limit
) AS d ON true
LEFT JOIN LATERAL ({schedule_last}) AS l ON true
ORDER BY d.next_at, d.name

-- name: list_schedules
-- Returns the store's clock, and schedules in the order of their names from one name on, each with what became of its last
-- task. Where there is none it returns one row without a name.
SELECT now() AS at, coalesce(d.name, ''), coalesce(d.task, ''), coalesce(d.cron, ''), coalesce(d.every, ''), coalesce(d.after, ''),
    coalesce(d.timezone, ''), d.payload, coalesce(d.jitter, ''), coalesce(d.from_at, ''), coalesce(d.until_at, ''),
    coalesce(d.missed, ''), coalesce(d.catch_up, ''), coalesce(d.overlap, ''), coalesce(d.version, 0), d.created_at,
    d.cursor_at, d.queued_slot, d.last_slot, coalesce(d.last_task, 0), l.inserted, coalesce(l.live, false), l.ended,
    coalesce(d.source, ''), d.next_at, coalesce(d.last_by, ''), coalesce(l.state, ''), coalesce(l.outcome, ''), coalesce(l.error, ''),
    coalesce(d.missed_slots, 0), d.paused_at, coalesce(d.paused_by, ''), d.parked_at, coalesce(d.invalid, '')
FROM (VALUES (0)) AS always (one)
LEFT JOIN LATERAL (
    SELECT s.name, s.task, s.cron, s.every, s.after, s.timezone, s.payload, s.jitter, s.from_at, s.until_at, s.missed,
        s.catch_up, s.overlap, s.version, s.created_at, s.cursor_at, s.queued_slot, s.last_slot, s.last_task, s.source, s.next_at,
        s.last_by, s.missed_slots, s.paused_at, s.paused_by, s.parked_at, s.invalid
    FROM {schema}.schedule AS s WHERE s.name >= @from ORDER BY s.name LIMIT @limit
) AS d ON true
LEFT JOIN LATERAL ({schedule_last}) AS l ON true
ORDER BY d.name

-- name: pause_schedule
SELECT {schema}.pause_schedule(@name, @by)

-- name: resume_schedule
SELECT {schema}.resume_schedule(@name, @by)

-- name: remove_schedule
SELECT {schema}.remove_schedule(@name, @by)

-- name: apply_firings
-- Applies firings whose schedules have the version that was seen, and returns their names. The rows of all firings are in one
-- list, in order; a firing has those from its first to its last. One that another transaction has locked is not applied: it
-- is applying the same firing, or changes the schedule. Rows get their ids in the order in which they are inserted, and
-- created_by leads from an id back to its schedule. Of a firing that is aside nothing but the rows and who requested
-- them is written.
WITH hit AS MATERIALIZED (
    SELECT s.name, s.task, s.payload, f.cursor_at, f.queued_slot, f.missed, f.next_at, f.by, f.invalid, f.first, f.last, f.aside
    FROM unnest(@names::text[], @versions::bigint[], @cursors::timestamptz[], @queued::timestamptz[], @missed::bigint[],
        @next::timestamptz[], @by::text[], @invalid::text[], @first::integer[], @last::integer[], @aside::text[])
        AS f (name, version, cursor_at, queued_slot, missed, next_at, by, invalid, first, last, aside)
    JOIN {schema}.schedule AS s ON s.name = f.name AND s.version = f.version
    FOR UPDATE OF s SKIP LOCKED
), inserted AS (
    INSERT INTO {schema}.task (type, payload, run_at, created_by)
    SELECT h.task, h.payload || jsonb_build_object('slot', (@slot_texts::text[])[i.n]), (@run_at::timestamptz[])[i.n],
        'schedule:' || h.name
    FROM hit AS h CROSS JOIN LATERAL generate_series(h.first, h.last) AS i (n)
    ORDER BY i.n
    RETURNING id, created_by
), newest AS MATERIALIZED (
    SELECT i.created_by, max(i.id) AS id FROM inserted AS i GROUP BY i.created_by
), moved AS (
    UPDATE {schema}.schedule AS s SET
        version = s.version + 1,
        invalid = h.invalid,
        next_at = CASE WHEN h.invalid IS NULL THEN h.next_at END,
        cursor_at = CASE WHEN h.invalid IS NULL THEN h.cursor_at ELSE s.cursor_at END,
        queued_slot = CASE WHEN h.invalid IS NULL THEN h.queued_slot ELSE s.queued_slot END,
        missed_slots = s.missed_slots + CASE WHEN h.invalid IS NULL THEN h.missed ELSE 0 END,
        last_slot = CASE WHEN n.id IS NULL THEN s.last_slot ELSE (@slots::timestamptz[])[h.last] END,
        last_task = coalesce(n.id, s.last_task),
        last_by = CASE WHEN n.id IS NULL THEN s.last_by ELSE h.by END
    FROM hit AS h LEFT JOIN newest AS n ON n.created_by = 'schedule:' || h.name
    WHERE s.name = h.name AND h.aside IS NULL
    RETURNING s.name
), audited AS (
    INSERT INTO {schema}.audit (requested_by, verb, schedule, answer)
    SELECT nullif(h.by, ''), h.aside, h.name, 'inserted ' || (h.last - h.first + 1)
    FROM hit AS h WHERE h.aside IS NOT NULL AND h.last >= h.first
)
SELECT m.name FROM moved AS m UNION ALL SELECT h.name FROM hit AS h WHERE h.aside IS NOT NULL
