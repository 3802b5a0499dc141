-- Claims due rows of types that have a limit, as claim_region_both.sql does. The statement before it in the same transaction (lock_limits) has
-- locked the limits and found how much room they have, so nothing that runs is unknown to this one. @regions has '' alone for agents of no
-- region.
--
-- Several wants may share a limit, as the runs and the rollbacks of a type do: each finds as many rows as there is room for all of them, and
-- those wants that come first get it. Rows that were found and are not taken stay locked for the length of the statement. spend_tokens takes
-- the tokens of what was taken. Documents are left out as soon as they may not fit into the buffers of a connection: an agent that is
-- frozen and reads nothing must not keep the limit locked.
--
-- take_locks is asked for the rows that there is room for, so one that it holds back has counted as one for this claim, but takes no token and
-- no place: the claim reports that there may be more.
WITH limits AS MATERIALIZED (
    SELECT r.kind, r.name, r.rooms, r.rated
    FROM jsonb_to_recordset(current_setting('leasehold.rooms')::jsonb) AS r (kind text, name text, rooms bigint, rated boolean)
), want AS MATERIALIZED (
    SELECT w.type, w.rollback, CASE WHEN l.name IS NULL THEN w.n ELSE least(w.n, l.rooms) END AS n, w.policy, w.place,
        now() + w.length * interval '1 microsecond' AS lease_until, nullif(w.deadline, 0) * interval '1 microsecond' AS time_left,
        l.name, l.rooms
    FROM unnest(@types::text[], @rollbacks::boolean[], @limits::integer[], @lengths::bigint[], @policies::bigint[],
        @deadlines::bigint[])
        WITH ORDINALITY AS w (type, rollback, n, length, policy, deadline, place)
    JOIN limits AS l ON l.kind = w.type
    WHERE l.name IS NULL OR l.rooms > 0
    ORDER BY w.place
), first AS MATERIALIZED (
    SELECT found.id, found.batch_id, found.lock, found.sequence, found.bytes, false AS rollback, w.place, w.name, w.rooms FROM want AS w CROSS JOIN LATERAL (
        SELECT r.id, r.batch_id, r.lock, r.sequence, r.bytes
        FROM {priorities_in states='pending','retry_pending'} CROSS JOIN LATERAL (
            SELECT each.id, each.batch_id, each.lock, each.sequence, each.bytes FROM unnest(@regions::text[]) WITH ORDINALITY AS g (region, place)
            CROSS JOIN LATERAL (
            {claim_range states='pending','retry_pending' region=g.region place=((w.place-1)*cardinality(@regions::text[])+g.place-1)*21+11-p.priority}
            ) AS each ORDER BY each.run_at, each.id LIMIT w.n
        ) AS r LIMIT w.n
    ) AS found WHERE NOT w.rollback
    UNION ALL
    SELECT found.id, NULL, found.lock, found.sequence, found.bytes, true, w.place, w.name, w.rooms FROM want AS w CROSS JOIN LATERAL (
        SELECT r.id, r.batch_id, r.lock, r.sequence, r.bytes
        FROM {priorities_in states='rollback_pending'} CROSS JOIN LATERAL (
            SELECT each.id, each.batch_id, each.lock, each.sequence, each.bytes FROM unnest(@regions::text[]) WITH ORDINALITY AS g (region, place)
            CROSS JOIN LATERAL (
            {claim_range states='rollback_pending' region=g.region place=((w.place-1)*cardinality(@regions::text[])+g.place-1)*21+11-p.priority}
            ) AS each ORDER BY each.run_at, each.id LIMIT w.n
        ) AS r LIMIT w.n
    ) AS found WHERE w.rollback
), due AS MATERIALIZED (
    SELECT e.id, e.batch_id, e.lock, e.sequence, e.bytes, e.rollback FROM (
        SELECT f.id, f.batch_id, f.lock, f.sequence, f.bytes, f.rollback, f.name, f.rooms, f.nth,
            row_number() OVER (PARTITION BY f.name ORDER BY f.place, f.nth) AS taken
        FROM (
            SELECT g.id, g.batch_id, g.lock, g.sequence, g.bytes, g.rollback, g.place, g.name, g.rooms, row_number() OVER () AS nth FROM first AS g
        ) AS f
    ) AS e WHERE e.name IS NULL OR e.taken <= e.rooms ORDER BY e.nth
), {claim_pick_both or_many=OR(sum(d.bytes)>32768)}, taken (
    id, type, state, fence, attempt, max_attempts, deferrals, ever_started, key, region, priority, traceparent, created_by, outcome, error,
    policy, created_at, run_at, claimed_at, lease_until, deadline, batch_id, round, cause,
    lock, sequence, tenant, has_after, spilled, payload, rollback_payload, result, checkpoint, labels, bare, cut
) AS (
    WITH {claim_take and_limited=,limited=w.name}
    RETURNING {task_columns}, {claim_documents}
), spent AS MATERIALIZED (
    SELECT each.name, {schema}.spend_tokens(each.name, each.n) AS done FROM (
        SELECT l.name, count(*) AS n FROM taken AS t JOIN limits AS l ON l.kind = t.type WHERE l.rated GROUP BY l.name
    ) AS each
)
SELECT t.id, t.type, t.state, t.fence, t.attempt, t.max_attempts, t.deferrals, t.ever_started, t.key, t.region, t.priority,
    t.traceparent, t.created_by, t.outcome, t.error, t.policy, t.created_at, t.run_at, t.claimed_at, t.lease_until, t.deadline,
    t.batch_id, t.round, t.cause, t.lock, t.sequence, t.tenant, t.has_after, t.spilled, t.payload, t.rollback_payload, t.result, t.checkpoint, t.labels, t.bare, t.cut, s.done
FROM taken AS t JOIN limits AS l ON l.kind = t.type LEFT JOIN spent AS s ON s.name = l.name
