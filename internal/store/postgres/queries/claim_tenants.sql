-- Claims due rows of tenants, to be run and to be rolled back: of each want's tenant as many as it says, as claim_region_both.sql does
-- of rows without a tenant. @regions has '' alone for agents of no region. The low-water marks of a want are @low_counts of them from @low_firsts
-- on, each with its place in (region, priority): most tenants have none. All wants are of one type and phase.
{tenant_wants}, common AS MATERIALIZED (
    SELECT w.type, w.rollback, w.policy, w.lease_until, w.time_left, w.read FROM want AS w LIMIT 1
), due AS MATERIALIZED (
    SELECT found.id, found.batch_id, found.lock, found.sequence, found.bytes, false AS rollback FROM want AS w CROSS JOIN LATERAL (
        {tenant_due}
    ) AS found WHERE NOT w.rollback
    UNION ALL
    SELECT found.id, NULL, found.lock, found.sequence, found.bytes, true FROM want AS w CROSS JOIN LATERAL (
        SELECT each.id, each.batch_id, each.lock, each.sequence, each.bytes FROM unnest(@regions::text[]) WITH ORDINALITY AS g (region, place)
        CROSS JOIN LATERAL (
            SELECT r.id, r.batch_id, r.lock, r.sequence, r.bytes, r.run_at, p.priority
            FROM {priorities states='rollback_pending' region=g.region of_tenant==w.tenant} CROSS JOIN LATERAL (
            {claim_range states='rollback_pending' region=g.region of_tenant==w.tenant place=w.low-1+array_position((@low_places::integer[])[w.low:w.low+w.lows-1],(g.place::integer-1)*21+11-p.priority)}
            ) AS r LIMIT w.n
        ) AS each ORDER BY each.priority DESC, each.run_at, each.id LIMIT w.n
    ) AS found WHERE w.rollback
), {claim_pick_both}, {claim_take of_want=common}
RETURNING {task_columns}, {claim_documents}, {tenant_read} - w.read
