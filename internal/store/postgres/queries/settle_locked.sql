-- Of locked rows, returns those that are locked FOR KEY SHARE only, which is what applications do, or have become free.
SELECT t.id FROM {schema}.task AS t
WHERE t.id = ANY (@ids::bigint[])
FOR NO KEY UPDATE SKIP LOCKED
