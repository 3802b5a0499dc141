-- What an agent wants to claim of tenants, as claim_wants.sql: a want for each tenant whose turn it is. low is the number of its first
-- low-water mark, and lows how many it has; 0: none.
WITH want AS MATERIALIZED (
    SELECT w.type, w.rollback, w.n, w.policy, w.tenant, w.low, w.lows, now() + w.length * interval '1 microsecond' AS lease_until,
        nullif(w.deadline, 0) * interval '1 microsecond' AS time_left, {tenant_read} AS read
    FROM unnest(@types::text[], @rollbacks::boolean[], @limits::integer[], @lengths::bigint[], @policies::bigint[],
        @deadlines::bigint[], @tenants::text[], @low_firsts::integer[], @low_counts::integer[])
        AS w (type, rollback, n, length, policy, deadline, tenant, low, lows)
    WHERE NOT EXISTS (SELECT FROM {schema}.type_limit AS l WHERE l.type = (@types::text[])[1])
)
