-- Limits of task types.

-- name: declare_limits
-- Notes the limits that a session declares, puts in force what is to be, and returns the row types that have a limit.
SELECT l.type FROM {schema}.declare_limits(@session, @names::text[], @hashes::text[], @specs::text[], @now::timestamptz, @calm::bigint,
    @tolerance::bigint) AS l (type)

-- name: keep_places
-- Has attempts that the session holds keep their places in limits until their leases end: it is about to settle them, and they may still
-- be at work.
INSERT INTO {schema}.limit_place (task_id, fence, name, until)
SELECT t.id, t.fence, l.name, t.lease_until
FROM unnest(@ids::bigint[], @fences::bigint[]) AS i (id, fence)
JOIN {schema}.task AS t ON t.id = i.id AND t.fence = i.fence
JOIN {schema}.type_limit AS l ON l.type = t.type
WHERE t.session = @session AND t.claim IS NOT NULL AND t.lease_until > now()
ON CONFLICT (task_id, fence) DO NOTHING

-- name: give_tokens
-- Gives back the tokens of rows that the session holds and has never started: it is about to release them.
INSERT INTO {schema}.limit_token (task_id, fence, name)
SELECT t.id, t.fence, l.name
FROM unnest(@ids::bigint[], @fences::bigint[]) AS i (id, fence)
JOIN {schema}.task AS t ON t.id = i.id AND t.fence = i.fence
JOIN {schema}.type_limit AS l ON l.type = t.type
WHERE t.session = @session AND t.claim IS NOT NULL AND l.rate > 0
ON CONFLICT (task_id, fence) DO NOTHING

-- name: lock_limits
-- Locks the limits of row types, and returns how much room they have for the claim that follows in the same transaction.
SELECT r.kind, r.name, r.rooms, r.wait
FROM {schema}.limit_rooms(ARRAY(SELECT DISTINCT k.kind FROM unnest(@types::text[]) AS k (kind))) AS r
