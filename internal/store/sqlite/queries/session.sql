-- name: join
INSERT INTO agent (name, region, version, config, workers, types, redact, started_at, seen_at, present_until)
VALUES (@name, @region, @version, @config, @workers, @types, @redact, @now, @now, @until)
RETURNING session;

-- name: present
-- Renews the session, and creates its row again where it has expired.
INSERT INTO agent (session, name, region, version, config, workers, types, redact, started_at, seen_at, present_until, draining, running, done, minute,
    ordered, condition, calm_at)
VALUES (@session, @name, @region, @version, @config, @workers, @types, @redact, @now, @now, @until, @draining, @running, @done, @minute, nullif(@order, ''), nullif(@condition, ''), @calm_at)
ON CONFLICT (session) DO UPDATE SET
    name = excluded.name, region = excluded.region, version = excluded.version, config = excluded.config,
    workers = excluded.workers, types = excluded.types, redact = excluded.redact, seen_at = excluded.seen_at, present_until = excluded.present_until,
    draining = excluded.draining, running = excluded.running, done = excluded.done, minute = excluded.minute,
    condition = excluded.condition, calm_at = excluded.calm_at;

-- name: ordered
-- What an operator wants of the session.
SELECT ifnull(ordered, ''), ifnull(ordered_by, '') FROM agent WHERE session = @session;

-- name: held
-- What the session holds. INDEXED BY, here and below: there are few running rows.
SELECT id, fence, claim, lease_until, ping_due, detached, cancel_requested_at IS NOT NULL AND state = 'running',
    cancel_requested_by,
    CASE WHEN ping_due IS NOT NULL THEN marks END
FROM task INDEXED BY task_running
WHERE session = @session AND state IN ('running', 'rollback_running')
ORDER BY id;

-- name: cancels
-- What the session holds that is to stop. The second condition on the state is the query's own, the first that of the index.
SELECT id, fence, claim, cancel_requested_at IS NOT NULL, cancel_requested_by
FROM task INDEXED BY task_running
WHERE session = @session AND state IN ('running', 'rollback_running') AND state = 'running'
    AND (cancel_requested_at IS NOT NULL
        OR batch_id IN (SELECT id FROM batch INDEXED BY batch_stopping WHERE stopping = 1 AND ended_at IS NULL));

-- name: leave
UPDATE agent SET present_until = @now, seen_at = @now WHERE session = @session;

-- name: keep_policy
INSERT INTO policy (hash, type, body) VALUES (@hash, @type, @body) ON CONFLICT (hash) DO NOTHING;

-- name: policies
SELECT hash, body FROM policy WHERE hash IN (SELECT value FROM json_each(@hashes));

-- name: list_agents
-- Lists sessions by name, the newest first; those that are no more present only if all are asked for.
SELECT session, name, {agent_state now=@now}, ifnull(region, ''), version, config, workers, running, done, minute,
    types, started_at, seen_at, ifnull(ordered_by, ''), ifnull(condition, '')
FROM agent WHERE @every OR present_until > @now
ORDER BY name, session DESC LIMIT 10000;

-- name: present_agents
SELECT session, name, workers, CASE WHEN draining THEN 'drain' ELSE ifnull(ordered, '') END FROM agent
WHERE present_until > @now AND (name = @agent OR CAST(session AS TEXT) = @agent) ORDER BY session;

-- name: order_agent
UPDATE agent SET ordered = nullif(@order, ''), ordered_by = nullif(@by, '') WHERE session = @session;

-- name: note_order
INSERT INTO audit (at, requested_by, verb, agent, answer) VALUES (@now, nullif(@by, ''), @verb, @session, 'requested');
