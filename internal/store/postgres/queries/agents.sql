-- Sessions.

-- name: join
-- Starts a session.
INSERT INTO {schema}.agent (name, region, version, config, workers, types, redact, present_until)
VALUES (@name, nullif(@region, ''), @version, @config, @workers, @types, @redact::jsonb, now() + @presence::bigint * interval '1 microsecond')
RETURNING session

-- name: leave
-- Ends a session's presence.
UPDATE {schema}.agent SET present_until = now(), seen_at = now(), idle = false WHERE session = @session

-- name: holders
-- Lists the sessions that hold rows, with their last heartbeats, and whether something of theirs has expired: a lease, or the
-- session where not all of its rows are detached. A session that has left has no heartbeat here.
SELECT t.session, a.seen_at, a.present_until - a.seen_at,
    t.lapsed OR t.attached AND {is_present of=a.} IS NOT TRUE
FROM (
    SELECT t.session, bool_or(t.lease_until <= now() OR t.lease_until IS NULL) AS lapsed,
        bool_or(t.detached IS NOT TRUE) AS attached
    FROM {schema}.task AS t
    WHERE t.state IN ('running', 'rollback_running')
    GROUP BY t.session
) AS t LEFT JOIN {schema}.agent AS a ON a.session = t.session AND a.present_until > a.seen_at

-- name: idle
-- Notes whether a session waits for a notification of new rows.
UPDATE {schema}.agent SET idle = @idle WHERE session = @session

-- name: agent_types
-- Returns what the present agents declare. An observer (no workers) claims nothing, so it does not count, and what it
-- declares waits all the same.
SELECT types FROM {schema}.agent WHERE present_until > now() AND workers > 0

-- name: takers
-- Counts the present agents that claim tasks (a cordoned one claims none), and those that claim tasks of a type.
SELECT count(*), count(*) FILTER (WHERE @type = ANY (types)) FROM {schema}.agent
WHERE present_until > now() AND workers > 0 AND ordered IS NULL

-- name: list_agents
-- Lists sessions by name, the newest first; those that are no more present only if all are asked for.
SELECT session, name, state, coalesce(region, ''), version, config, workers, running, done, done_per_minute, types, started_at, seen_at,
    coalesce(ordered_by, ''), coalesce(condition, '')
FROM {schema}.agents WHERE @every::boolean OR state NOT IN ('absent', 'left')
ORDER BY name, session DESC LIMIT 10000

-- name: order_agent
SELECT {schema}.order_agent(@agent, @verb, @by)
