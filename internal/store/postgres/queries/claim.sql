-- Claims due rows to be run, for agents of no region. For each want: the priorities from high to low, in each the due rows
-- in order, until @limits are found. Every range is one walk along the index (task_due), and nothing is looked at beyond the
-- row that ends it.
--
-- The rows are found and locked in a CTE that is computed once: a LIMIT in a subquery that the planner may run again
-- would take too many. The update then goes by primary key.
--
-- @low_times and @low_ids are low-water marks, one for each place in (want, priority); empty arrays: none.
{claim_wants}, due AS MATERIALIZED (
    SELECT found.id, found.batch_id, found.lock, found.sequence, found.bytes FROM want AS w CROSS JOIN LATERAL (
        SELECT r.id, r.batch_id, r.lock, r.sequence, r.bytes
        FROM {priorities states='pending','retry_pending' region=''} CROSS JOIN LATERAL (
            {claim_range states='pending','retry_pending' region='' place=(w.place-1)*21+11-p.priority}
        ) AS r LIMIT w.n
    ) AS found WHERE NOT w.rollback
), {claim_pick}, {claim_take}
RETURNING {task_columns}, {claim_documents}
