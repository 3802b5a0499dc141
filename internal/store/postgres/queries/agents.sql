-- Sessions.

-- name: join
-- Starts a session.
INSERT INTO {schema}.agent (name, region, version, config, workers, types, present_until)
VALUES (@name, nullif(@region, ''), @version, @config, @workers, @types, now() + @presence::bigint * interval '1 microsecond')
RETURNING session

-- name: leave
-- Ends a session's presence.
UPDATE {schema}.agent SET present_until = now(), seen_at = now(), idle = false WHERE session = @session

-- name: sessions
-- Lists the last heartbeats of the other sessions that have not left and expired less than @watch_for (microseconds) ago.
SELECT a.session, a.seen_at, a.present_until - a.seen_at FROM {schema}.agent AS a
WHERE a.session <> @session AND a.present_until > a.seen_at
  AND a.present_until > now() - @watch_for::bigint * interval '1 microsecond'

-- name: idle
-- Notes whether a session waits for a notification of new rows.
UPDATE {schema}.agent SET idle = @idle WHERE session = @session

-- name: agent_types
-- Returns what the present agents declare. An observer (no workers) claims nothing, so it does not count, and what it
-- declares waits all the same.
SELECT types FROM {schema}.agent WHERE present_until > now() AND workers > 0

-- name: takers
-- Counts the present agents that claim tasks, and those that claim tasks of a type.
SELECT count(*), count(*) FILTER (WHERE @type = ANY (types)) FROM {schema}.agent
WHERE present_until > now() AND workers > 0
