-- Renews leases. It writes lease_until and nothing else, so it stays a heap-only update; renew_more.sql writes what tasks
-- report. FOR NO KEY UPDATE is not blocked by an application that locks the row FOR KEY SHARE. There is no condition on
-- the state, so the primary key is the only way to go; a row without claim has no holder. @ids is sorted; width_bucket
-- bisects it.
WITH held AS MATERIALIZED (
    SELECT t.id FROM {schema}.task AS t
    WHERE t.id = ANY (@ids::bigint[]) AND t.session = @session AND t.claim IS NOT NULL
      AND t.fence = (@fences::bigint[])[width_bucket(t.id, @ids::bigint[])]
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {schema}.task AS t SET lease_until = least(
    greatest(t.lease_until, now() + (@least::bigint[])[width_bucket(t.id, @ids::bigint[])] * interval '1 microsecond'),
    now() + (@most::bigint[])[width_bucket(t.id, @ids::bigint[])] * interval '1 microsecond')
WHERE t.id = ANY (ARRAY(SELECT id FROM held))
RETURNING t.id
