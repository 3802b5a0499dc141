-- Claims due rows to be run and to be rolled back, for agents of a region.
{claim_wants}, due AS MATERIALIZED (
    SELECT found.id, found.batch_id, found.lock, found.sequence, found.bytes, false AS rollback FROM want AS w CROSS JOIN LATERAL (
        SELECT r.id, r.batch_id, r.lock, r.sequence, r.bytes
        FROM {priorities_in states='pending','retry_pending'} CROSS JOIN LATERAL (
            SELECT each.id, each.batch_id, each.lock, each.sequence, each.bytes FROM unnest(@regions::text[]) WITH ORDINALITY AS g (region, place)
            CROSS JOIN LATERAL (
            {claim_range states='pending','retry_pending' region=g.region place=((w.place-1)*2+g.place-1)*21+11-p.priority}
            ) AS each ORDER BY each.run_at, each.id LIMIT w.n
        ) AS r LIMIT w.n
    ) AS found WHERE NOT w.rollback
    UNION ALL
    SELECT found.id, NULL, found.lock, found.sequence, found.bytes, true FROM want AS w CROSS JOIN LATERAL (
        SELECT r.id, r.batch_id, r.lock, r.sequence, r.bytes
        FROM {priorities_in states='rollback_pending'} CROSS JOIN LATERAL (
            SELECT each.id, each.batch_id, each.lock, each.sequence, each.bytes FROM unnest(@regions::text[]) WITH ORDINALITY AS g (region, place)
            CROSS JOIN LATERAL (
            {claim_range states='rollback_pending' region=g.region place=((w.place-1)*2+g.place-1)*21+11-p.priority}
            ) AS each ORDER BY each.run_at, each.id LIMIT w.n
        ) AS r LIMIT w.n
    ) AS found WHERE w.rollback
), {claim_pick_both}, {claim_take}
RETURNING {task_columns}, {claim_documents}
