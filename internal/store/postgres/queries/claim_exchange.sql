-- Claims due rows of one type to be run, for agents of no region, in the places of a limit that the statement before it in the same
-- transaction (exchange.sql) has found: as claim_limited.sql, which is for all else, with fewer parts.
WITH want AS MATERIALIZED (
    SELECT w.type, w.rollback, least(w.n, r.rooms) AS n, w.policy, w.place, now() + w.length * interval '1 microsecond' AS lease_until,
        nullif(w.deadline, 0) * interval '1 microsecond' AS time_left, r.name
    FROM unnest(@types::text[], @rollbacks::boolean[], @limits::integer[], @lengths::bigint[], @policies::bigint[],
        @deadlines::bigint[])
        WITH ORDINALITY AS w (type, rollback, n, length, policy, deadline, place)
    JOIN jsonb_to_recordset(current_setting('leasehold.rooms')::jsonb) AS r (kind text, name text, rooms bigint) ON r.kind = w.type
    WHERE r.rooms > 0
), due AS MATERIALIZED (
    SELECT found.id, found.batch_id, found.lock, found.sequence, found.bytes FROM want AS w CROSS JOIN LATERAL (
        SELECT r.id, r.batch_id, r.lock, r.sequence, r.bytes
        FROM {priorities states='pending','retry_pending' region=''} CROSS JOIN LATERAL (
            {claim_range states='pending','retry_pending' region='' place=(w.place-1)*21+11-p.priority}
        ) AS r LIMIT w.n
    ) AS found
), {claim_pick}, {claim_take and_limited=,limited=w.name}
RETURNING {task_columns}, {claim_documents}
