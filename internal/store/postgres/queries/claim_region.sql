-- Claims due rows to be run as claim.sql does, for agents of a region: rows of the regions in @regions, which are that and none.
-- Their ranges are merged by due time. This may lock rows that are not taken, as many as the limit in a region at most,
-- for the length of the statement: other claims skip them meanwhile. A low-water mark has its place in (want, region,
-- priority).
{claim_wants}, due AS MATERIALIZED (
    SELECT found.id, found.batch_id, found.lock, found.sequence, found.bytes FROM want AS w CROSS JOIN LATERAL (
        SELECT r.id, r.batch_id, r.lock, r.sequence, r.bytes
        FROM {priorities_in states='pending','retry_pending'} CROSS JOIN LATERAL (
            SELECT each.id, each.batch_id, each.lock, each.sequence, each.bytes FROM unnest(@regions::text[]) WITH ORDINALITY AS g (region, place)
            CROSS JOIN LATERAL (
            {claim_range states='pending','retry_pending' region=g.region place=((w.place-1)*2+g.place-1)*21+11-p.priority}
            ) AS each ORDER BY each.run_at, each.id LIMIT w.n
        ) AS r LIMIT w.n
    ) AS found WHERE NOT w.rollback
), {claim_pick}, {claim_take}
RETURNING {task_columns}, {claim_documents}
