-- What sessions have counted of the attempts of each type.

-- name: keep_activity
INSERT INTO activity (step, at, type, session, started, ended, outcomes, latency)
VALUES (@step, @at, @type, @session, @started, @ended, @outcomes, @latency)
ON CONFLICT (step, at, type, session) DO UPDATE SET
    started = excluded.started, ended = excluded.ended, outcomes = excluded.outcomes, latency = excluded.latency;

-- name: activity_top
-- The types with the most attempts.
SELECT type FROM activity
WHERE step = @step AND at BETWEEN @from AND @last AND type <> ''
GROUP BY type ORDER BY sum(started + ended) DESC, type LIMIT @top;

-- name: activity
-- The counts of all sessions, one list after another, of one type, or of all for an empty one. To sum each of their places here would take several times as long.
SELECT at, type, group_concat(outcomes, ''), group_concat(latency, '') FROM activity
WHERE step = @step AND at BETWEEN @from AND @last AND (@type = '' OR type = @type)
GROUP BY at, type ORDER BY at, type;

-- name: delete_activity
DELETE FROM activity
WHERE (step, at, type, session) IN (
    SELECT step, at, type, session FROM activity WHERE step = @step AND at BETWEEN @from AND @last LIMIT @limit);
