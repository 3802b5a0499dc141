-- Limits of task types.

-- name: declare_limits
-- Notes the limits that a session declares, puts in force what is to be, and returns the row types that have a limit.
SELECT l.type FROM {schema}.declare_limits(@session, @names::text[], @hashes::text[], @specs::text[], @now::timestamptz, @calm::bigint,
    @tolerance::bigint) AS l (type)

-- name: give_tokens
-- Gives back the tokens of rows that the session holds and has never started: it is about to release them.
INSERT INTO {schema}.limit_token (task_id, fence, name, tenant)
SELECT t.id, t.fence, l.name, t.tenant
FROM unnest(@ids::bigint[], @fences::bigint[]) AS i (id, fence)
JOIN {schema}.task AS t ON t.id = i.id AND t.fence = i.fence
JOIN {schema}.type_limit AS l ON l.type = t.type
WHERE t.session = @session AND t.claim IS NOT NULL AND (l.rate > 0 OR l.tenant_rate > 0 AND t.tenant IS NOT NULL)
ON CONFLICT (task_id, fence) DO NOTHING

-- name: want_places
-- Notes for those who exchange places of these limits that a session has found no room and runs nothing. It waits for no claim.
UPDATE {schema}.type_limit AS l SET wanted_until = now() + interval '100 milliseconds', wanted_by = @session
WHERE l.type = ANY (ARRAY(
    SELECT k.type FROM {schema}.type_limit AS k
    WHERE k.type = ANY (@names::text[]) AND (k.wanted_until IS NULL OR k.wanted_until NOT BETWEEN now() + interval '40 milliseconds' AND now() + interval '1 second')
    FOR UPDATE SKIP LOCKED))

-- name: lock_limits
-- Locks the limits of row types, and returns how much room they have for the claim that follows in the same transaction.
SELECT r.kind, r.name, r.rooms, r.wait
FROM {schema}.limit_rooms(ARRAY(SELECT DISTINCT k.kind FROM unnest(@types::text[]) AS k (kind))) AS r

-- name: lock_tenants
-- Returns how much room each tenant of a row type has for the claim that follows, after lock_limits.
SELECT r.rooms, r.wait FROM {schema}.tenant_rooms(@type, @tenants::text[]) AS r

-- name: forget_buckets
-- Removes buckets of tenants that are full again: one that is not there is full. A claim that writes one meanwhile makes it stay.
DELETE FROM {schema}.tenant_bucket AS b USING (
    SELECT k.name, k.tenant FROM {schema}.tenant_bucket AS k WHERE k.full_at < now() LIMIT 10000 FOR UPDATE SKIP LOCKED) AS f
WHERE b.name = f.name AND b.tenant = f.tenant
