-- Claims due rows of tenants, of types that have a limit: as claim_limited.sql claims those without a tenant, after lock_limits and lock_tenants
-- in the same transaction. How many rows of its tenant a want may take, lock_tenants has found: without it, this fails. The wants are in the order of turns, so where there is room for some of the rows only, the first ones get it.
WITH limits AS MATERIALIZED (
    SELECT r.kind, r.name, r.rooms, r.rated
    FROM jsonb_to_recordset(current_setting('leasehold.rooms')::jsonb) AS r (kind text, name text, rooms bigint, rated boolean)
), each_tenant AS MATERIALIZED (
    SELECT CASE WHEN s.rooms <> 'none' THEN s.rooms::bigint[] END AS rooms FROM (
        SELECT coalesce(current_setting('leasehold.tenant_rooms', true), '') AS rooms) AS s
), want AS MATERIALIZED (
    SELECT w.type, w.rollback, CASE WHEN l.name IS NULL THEN w.n ELSE least(w.n, l.rooms, e.rooms[w.place]) END AS n, w.policy, w.place, w.tenant, w.low, w.lows,
        now() + w.length * interval '1 microsecond' AS lease_until, nullif(w.deadline, 0) * interval '1 microsecond' AS time_left, {tenant_read} AS read,
        l.name, l.rooms
    FROM unnest(@types::text[], @rollbacks::boolean[], @limits::integer[], @lengths::bigint[], @policies::bigint[],
        @deadlines::bigint[], @tenants::text[], @low_firsts::integer[], @low_counts::integer[])
        WITH ORDINALITY AS w (type, rollback, n, length, policy, deadline, tenant, low, lows, place)
    JOIN limits AS l ON l.kind = w.type CROSS JOIN each_tenant AS e
    WHERE l.name IS NULL OR l.rooms > 0 AND (e.rooms IS NULL OR e.rooms[w.place] > 0)
), common AS MATERIALIZED (
    SELECT w.type, w.rollback, w.policy, w.lease_until, w.time_left, w.read, w.name FROM want AS w LIMIT 1
), first AS MATERIALIZED (
    SELECT found.id, found.batch_id, found.lock, found.sequence, found.bytes, false AS rollback, w.place, w.name, w.rooms FROM want AS w CROSS JOIN LATERAL (
        {tenant_due}
    ) AS found WHERE NOT w.rollback
    UNION ALL
    SELECT found.id, NULL, found.lock, found.sequence, found.bytes, true, w.place, w.name, w.rooms FROM want AS w CROSS JOIN LATERAL (
        SELECT each.id, each.batch_id, each.lock, each.sequence, each.bytes FROM unnest(@regions::text[]) WITH ORDINALITY AS g (region, place)
        CROSS JOIN LATERAL (
            SELECT r.id, r.batch_id, r.lock, r.sequence, r.bytes, r.run_at, p.priority
            FROM {priorities states='rollback_pending' region=g.region of_tenant==w.tenant} CROSS JOIN LATERAL (
            {claim_range states='rollback_pending' region=g.region of_tenant==w.tenant place=w.low-1+array_position((@low_places::integer[])[w.low:w.low+w.lows-1],(g.place::integer-1)*21+11-p.priority)}
            ) AS r LIMIT w.n
        ) AS each ORDER BY each.priority DESC, each.run_at, each.id LIMIT w.n
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
    lock, sequence, tenant, has_after, spilled, payload, rollback_payload, result, checkpoint, labels, bare, cut, read
) AS (
    WITH {claim_take and_limited=,limited=w.name of_want=common}
    RETURNING {task_columns}, {claim_documents}, {tenant_read} - w.read
), spent AS MATERIALIZED (
    SELECT each.name, {schema}.spend_tokens(each.name, each.n) AS done FROM (
        SELECT l.name, count(*) AS n FROM taken AS t JOIN limits AS l ON l.kind = t.type WHERE l.rated GROUP BY l.name
    ) AS each
), tenants_spent AS MATERIALIZED (
    SELECT each.name, {schema}.spend_tenant_tokens(each.name, array_agg(each.tenant), array_agg(each.n)) AS done FROM (
        SELECT l.name, t.tenant, count(*) AS n FROM taken AS t JOIN limits AS l ON l.kind = t.type
        WHERE (SELECT e.rooms IS NOT NULL FROM each_tenant AS e) GROUP BY l.name, t.tenant
    ) AS each GROUP BY each.name
)
SELECT t.id, t.type, t.state, t.fence, t.attempt, t.max_attempts, t.deferrals, t.ever_started, t.key, t.region, t.priority,
    t.traceparent, t.created_by, t.outcome, t.error, t.policy, t.created_at, t.run_at, t.claimed_at, t.lease_until, t.deadline,
    t.batch_id, t.round, t.cause, t.lock, t.sequence, t.tenant, t.has_after, t.spilled, t.payload, t.rollback_payload, t.result, t.checkpoint, t.labels, t.bare, t.cut, t.read, s.done, u.done
FROM taken AS t JOIN limits AS l ON l.kind = t.type LEFT JOIN spent AS s ON s.name = l.name
LEFT JOIN tenants_spent AS u ON u.name = l.name
