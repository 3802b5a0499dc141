-- What an agent wants to claim. place is that of a want in the arguments. Types with a limit are left to claim_limited.sql: an agent may not
-- know yet that there is one.
WITH want AS MATERIALIZED (
    SELECT w.type, w.rollback, w.n, w.policy, w.place, now() + w.length * interval '1 microsecond' AS lease_until,
        nullif(w.deadline, 0) * interval '1 microsecond' AS time_left
    FROM unnest(@types::text[], @rollbacks::boolean[], @limits::integer[], @lengths::bigint[], @policies::bigint[],
        @deadlines::bigint[])
        WITH ORDINALITY AS w (type, rollback, n, length, policy, deadline, place)
    WHERE NOT EXISTS (SELECT FROM {schema}.type_limit AS l WHERE l.type = w.type)
    ORDER BY w.place -- a plan that merges has them in the order of their types
)
