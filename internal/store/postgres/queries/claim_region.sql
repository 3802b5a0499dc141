-- Claims due rows as claim.sql does, for agents of a region: rows of the regions in @regions, which are that and none.
-- Their ranges are merged by due time. This may lock rows that are not taken, as many as the limit in a region at most,
-- for the length of the statement: other claims skip them meanwhile. A low-water mark has its place in (want, region,
-- priority).
WITH want AS MATERIALIZED (
    SELECT w.type, w.rollback, w.n, w.policy, w.place, now() + w.length * interval '1 microsecond' AS lease_until,
        nullif(w.deadline, 0) * interval '1 microsecond' AS time_left
    FROM unnest(@types::text[], @rollbacks::boolean[], @limits::integer[], @lengths::bigint[], @policies::bigint[],
        @deadlines::bigint[])
        WITH ORDINALITY AS w (type, rollback, n, length, policy, deadline, place)
), due AS MATERIALIZED (
    SELECT found.id, found.batch_id, found.bytes, false AS rollback FROM want AS w CROSS JOIN LATERAL (
        SELECT r.id, r.batch_id, r.bytes
        FROM generate_series(10, -10, -1) AS p (priority) CROSS JOIN LATERAL (
            SELECT each.id, each.batch_id, each.bytes FROM unnest(@regions::text[]) WITH ORDINALITY AS g (region, place)
            CROSS JOIN LATERAL (
            SELECT t.id, t.run_at, t.batch_id,
                CASE WHEN pg_column_compression(t.payload) IS NULL THEN 1::float8 ELSE 32 END
                    * pg_column_size(t.payload)
                + CASE WHEN t.rollback_payload IS NULL AND t.result IS NULL AND t.checkpoint IS NULL THEN 0
                    ELSE 131072 + 32 * coalesce(pg_column_size(t.rollback_payload), 0)::float8 END AS bytes
            FROM {schema}.task AS t
            WHERE t.state IN ('pending', 'retry_pending')
              AND (t.batch_id IS NULL OR t.batch_id <> ALL (ARRAY(
                  SELECT b.id FROM {schema}.batch AS b WHERE b.stopping AND b.ended_at IS NULL)))
              AND t.type = w.type AND coalesce(t.region, '') = g.region AND t.priority = p.priority
              AND t.run_at <= now()
              AND (t.run_at, t.id) > (coalesce((@low_times::timestamptz[])[((w.place - 1) * 2 + g.place - 1) * 21 + 11 - p.priority],
                                          '-infinity'),
                                      coalesce((@low_ids::bigint[])[((w.place - 1) * 2 + g.place - 1) * 21 + 11 - p.priority], 0))
            ORDER BY t.run_at, t.id LIMIT w.n
            FOR UPDATE OF t SKIP LOCKED
        ) AS each
            ORDER BY each.run_at, each.id LIMIT w.n
        ) AS r LIMIT w.n
    ) AS found WHERE NOT w.rollback
    UNION ALL
    SELECT found.id, NULL, found.bytes, true FROM want AS w CROSS JOIN LATERAL (
        SELECT r.id, r.bytes
        FROM generate_series(10, -10, -1) AS p (priority) CROSS JOIN LATERAL (
            SELECT each.id, each.batch_id, each.bytes FROM unnest(@regions::text[]) WITH ORDINALITY AS g (region, place)
            CROSS JOIN LATERAL (
            SELECT t.id, t.run_at, t.batch_id,
                CASE WHEN pg_column_compression(t.payload) IS NULL THEN 1::float8 ELSE 32 END
                    * pg_column_size(t.payload)
                + CASE WHEN t.rollback_payload IS NULL AND t.result IS NULL AND t.checkpoint IS NULL THEN 0
                    ELSE 131072 + 32 * coalesce(pg_column_size(t.rollback_payload), 0)::float8 END AS bytes
            FROM {schema}.task AS t
            WHERE t.state = 'rollback_pending'
              AND t.type = w.type AND coalesce(t.region, '') = g.region AND t.priority = p.priority
              AND t.run_at <= now()
              AND (t.run_at, t.id) > (coalesce((@low_times::timestamptz[])[((w.place - 1) * 2 + g.place - 1) * 21 + 11 - p.priority],
                                          '-infinity'),
                                      coalesce((@low_ids::bigint[])[((w.place - 1) * 2 + g.place - 1) * 21 + 11 - p.priority], 0))
            ORDER BY t.run_at, t.id LIMIT w.n
            FOR UPDATE OF t SKIP LOCKED
        ) AS each
            ORDER BY each.run_at, each.id LIMIT w.n
        ) AS r LIMIT w.n
    ) AS found WHERE w.rollback
), large AS MATERIALIZED (
    SELECT coalesce(sum(d.bytes) > @bytes::float8, false) AS yes FROM due AS d
), picked AS MATERIALIZED (
    SELECT d.id, d.batch_id FROM due AS d WHERE NOT (SELECT yes FROM large)
    UNION ALL
    SELECT f.id, f.batch_id FROM (
        SELECT d.id, d.batch_id, CASE WHEN d.rollback
            THEN sum(CASE WHEN d.rollback THEN d.bytes END) OVER (ROWS UNBOUNDED PRECEDING)
            ELSE sum(CASE WHEN NOT d.rollback THEN d.bytes END) OVER (ROWS UNBOUNDED PRECEDING) END - d.bytes AS before
        FROM due AS d WHERE (SELECT yes FROM large)
    ) AS f WHERE f.before < @bytes::float8
), barred AS MATERIALIZED (
    SELECT each.batch_id FROM (
        SELECT p.batch_id, count(*) AS n FROM picked AS p WHERE p.batch_id IS NOT NULL GROUP BY p.batch_id
    ) AS each
    WHERE NOT {schema}.reserve_start(each.batch_id, each.n)
)
UPDATE {schema}.task AS t SET
    state = CASE WHEN w.rollback THEN 'rollback_running' ELSE 'running' END,
    session = @session, claim = @number, fence = greatest(least(t.fence, 4611686018426339328), 0) + 1,
    attempt = greatest(least(t.attempt, 1000000), 0) + 1, policy = w.policy, claimed_at = now(),
    lease_until = w.lease_until, deadline = coalesce(t.deadline, t.run_at + w.time_left)
FROM want AS w
WHERE t.id = ANY (ARRAY(
      SELECT p.id FROM picked AS p
      WHERE p.batch_id IS NULL OR p.batch_id <> ALL (ARRAY(SELECT b.batch_id FROM barred AS b))))
  AND w.type = t.type AND w.rollback = (t.state = 'rollback_pending')
RETURNING t.id, t.type, nullif(t.state, 'running'), t.fence, nullif(t.attempt, 1), t.max_attempts, nullif(t.deferrals, 0),
    nullif(t.ever_started, false),
    CASE WHEN pg_column_size(t.payload) > 32768 THEN {schema}.fit(t.payload) ELSE t.payload END,
    CASE WHEN pg_column_size(t.result) > 32768 THEN {schema}.fit(t.result) ELSE t.result END,
    t.labels, t.key, t.region, nullif(t.priority, 0), t.traceparent, t.created_by, t.outcome, t.error, t.policy,
    nullif(t.created_at, t.run_at), t.run_at, t.claimed_at, t.lease_until, t.deadline,
    CASE WHEN pg_column_size(t.checkpoint) > 32768 THEN {schema}.fit(t.checkpoint) ELSE t.checkpoint END,
    t.batch_id, t.round,
    CASE WHEN pg_column_size(t.rollback_payload) > 32768 THEN {schema}.fit(t.rollback_payload) ELSE t.rollback_payload END,
    t.cause,
    CASE WHEN pg_column_size(t.payload) > 32768 OR pg_column_size(t.rollback_payload) > 32768
        OR pg_column_size(t.result) > 32768 OR pg_column_size(t.checkpoint) > 32768
        THEN {schema}.unfit(t.payload, t.rollback_payload, t.result, t.checkpoint) END,
    nullif((SELECT yes FROM large), false)
