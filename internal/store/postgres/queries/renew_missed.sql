-- Of rows that a renewal skipped, returns those that the session still holds: another transaction has them locked.
SELECT t.id FROM {schema}.task AS t
WHERE t.id = ANY (@ids::bigint[]) AND t.session = @session AND t.claim IS NOT NULL
  AND t.fence = (@fences::bigint[])[width_bucket(t.id, @ids::bigint[])]
