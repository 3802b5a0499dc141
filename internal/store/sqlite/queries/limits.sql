-- Limits of task types: what sessions declare, and what is in force.

-- name: limited_type
-- The limit of a row type.
SELECT l.type, l.most, l.rate, l.burst, l.tenant_most, l.tenant_rate, l.tenant_burst FROM type_limit JOIN type_limit AS l ON l.type = type_limit.name WHERE type_limit.type = @type;

-- name: count_limited
-- How many rows run that a limit is for. INDEXED BY: there are few of them.
SELECT count(*) FROM task INDEXED BY task_limited
WHERE limited = @name AND limited IS NOT NULL AND state IN ('running', 'rollback_running');

-- name: any_limit
SELECT EXISTS (SELECT 1 FROM type_limit);

-- name: put_limit_declarations
-- Stores declarations that were never loaded before.
INSERT INTO limit_declaration (name, hash, spec)
SELECT json_extract(json_each.value, '$[0]'), json_extract(json_each.value, '$[1]'), json_extract(json_each.value, '$[2]')
FROM json_each(@list) WHERE true
ON CONFLICT (name, hash) DO NOTHING;

-- name: forget_limit_declarers
-- Forgets what a session no longer declares, and what sessions declared that are not known.
DELETE FROM limit_declarer WHERE session = @session AND number NOT IN (
        SELECT limit_declaration.number FROM json_each(@list) CROSS JOIN limit_declaration
        WHERE limit_declaration.name = json_extract(json_each.value, '$[0]')
          AND limit_declaration.hash = json_extract(json_each.value, '$[1]'))
    OR session NOT IN (SELECT agent.session FROM agent);

-- name: put_limit_declarers
INSERT INTO limit_declarer (session, number)
SELECT @session, limit_declaration.number FROM json_each(@list) CROSS JOIN limit_declaration
WHERE limit_declaration.name = json_extract(json_each.value, '$[0]')
  AND limit_declaration.hash = json_extract(json_each.value, '$[1]')
ON CONFLICT (session, number) DO NOTHING;

-- name: limit_declarers
-- What sessions declare, and when they were seen.
SELECT d.number, d.name, d.spec, a.seen_at, a.present_until
FROM limit_declarer AS r JOIN limit_declaration AS d ON d.number = r.number JOIN agent AS a ON a.session = r.session;

-- name: limits_in_force
SELECT type, name, declared, most, rate, burst, tenant_most, tenant_rate, tenant_burst FROM type_limit ORDER BY type;

-- name: put_limit
INSERT INTO type_limit (type, name, declared, most, rate, burst, tenant_most, tenant_rate, tenant_burst)
VALUES (@type, @name, @declared, @most, @rate, @burst, @tenant_most, @tenant_rate, @tenant_burst)
ON CONFLICT (type) DO UPDATE SET name = excluded.name, declared = excluded.declared, most = excluded.most, rate = excluded.rate,
    burst = excluded.burst, tenant_most = excluded.tenant_most, tenant_rate = excluded.tenant_rate, tenant_burst = excluded.tenant_burst;

-- name: remove_limit
DELETE FROM type_limit WHERE type = @type;

-- name: limit_running
-- Has rows of a type that run already count for a limit that is new. INDEXED BY: there are few running rows.
UPDATE task INDEXED BY task_running SET limited = @name WHERE state IN ('running', 'rollback_running') AND type = @type;

-- name: keep_place
-- Has an attempt that is settled in the same transaction keep its place in its limit until its lease ends. NOT INDEXED, here and below: by the id.
INSERT INTO limit_place (task_id, fence, name, kept_at, until, tenant)
SELECT task.id, task.fence, type_limit.name, @now, task.lease_until, task.tenant FROM task NOT INDEXED JOIN type_limit ON type_limit.type = task.type
WHERE task.id = @id AND task.fence = @fence AND task.session = @session AND task.state IN ('running', 'rollback_running')
    AND task.lease_until > @now
ON CONFLICT (task_id, fence) DO NOTHING;

-- name: free_places
-- Frees the places of a limit whose time is over.
DELETE FROM limit_place INDEXED BY limit_place_name WHERE name = @name AND until <= @now;

-- name: cut_places
-- Where the clock was set back, a place lasts no longer than it was to last.
UPDATE limit_place INDEXED BY limit_place_name
SET until = strftime('%Y-%m-%dT%H:%M:%fZ', @now, printf('+%.3f seconds', (julianday(until) - julianday(kept_at)) * 86400)), kept_at = @now
WHERE name = @name AND kept_at > @ahead;

-- name: count_places
-- How many places are kept of a limit by attempts that do not run any more.
SELECT count(*) FROM limit_place INDEXED BY limit_place_name WHERE name = @name AND NOT EXISTS (
    SELECT 1 FROM task WHERE task.id = limit_place.task_id AND task.fence = limit_place.fence
        AND task.state IN ('running', 'rollback_running'));

-- name: bucket
-- The tokens of a limit, and when they were counted.
SELECT tokens, counted_at FROM limit_bucket WHERE name = @name;

-- name: put_bucket
INSERT INTO limit_bucket (name, tokens, counted_at) VALUES (@name, @tokens, @counted_at)
ON CONFLICT (name) DO UPDATE SET tokens = excluded.tokens, counted_at = excluded.counted_at;

-- name: give_token
-- Gives back the token of a row that the session holds and has never started: it is released in the same transaction.
UPDATE limit_bucket SET tokens = tokens + 1 WHERE name = (
    SELECT type_limit.name FROM task NOT INDEXED JOIN type_limit ON type_limit.type = task.type
    WHERE task.id = @id AND task.fence = @fence AND task.session = @session AND task.state IN ('running', 'rollback_running')
        AND type_limit.rate > 0);

-- name: give_tenant_token
-- The same for its tenant.
UPDATE tenant_bucket SET tokens = tokens + 1 WHERE (name, tenant) = (
    SELECT type_limit.name, task.tenant FROM task NOT INDEXED JOIN type_limit ON type_limit.type = task.type
    WHERE task.id = @id AND task.fence = @fence AND task.session = @session AND task.state IN ('running', 'rollback_running')
        AND type_limit.tenant_rate > 0);

-- name: count_tenant_limited
-- How many rows of a tenant run that a limit is for.
SELECT count(*) FROM task INDEXED BY task_limited
WHERE limited = @name AND limited IS NOT NULL AND tenant = @tenant AND state IN ('running', 'rollback_running');

-- name: count_tenant_places
-- How many places are kept of a tenant by attempts that do not run any more.
SELECT count(*) FROM limit_place INDEXED BY limit_place_name WHERE name = @name AND tenant = @tenant AND NOT EXISTS (
    SELECT 1 FROM task WHERE task.id = limit_place.task_id AND task.fence = limit_place.fence
        AND task.state IN ('running', 'rollback_running'));

-- name: tenant_bucket
SELECT tokens, counted_at FROM tenant_bucket WHERE name = @name AND tenant = @tenant;

-- name: put_tenant_bucket
INSERT INTO tenant_bucket (name, tenant, tokens, counted_at, full_at) VALUES (@name, @tenant, @tokens, @counted_at, @full_at)
ON CONFLICT (name, tenant) DO UPDATE SET tokens = excluded.tokens, counted_at = excluded.counted_at, full_at = excluded.full_at;

-- name: delete_full_buckets
-- One that is not there is full.
DELETE FROM tenant_bucket WHERE full_at < @now;
