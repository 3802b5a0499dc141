-- How many of the due rows are taken: no more than @bytes. That is counted row by row only where all of them together are more,
-- since it costs a microsecond each. The due rows are in the order of the loops that found them. large: some document may be more
-- than a claim returns (claim_documents).
room AS MATERIALIZED (
    SELECT CASE WHEN sum(d.bytes) > @bytes::float8
            THEN {schema}.claim_rows(ARRAY(SELECT e.bytes FROM due AS e), @bytes::float8) END AS rows,
        max(d.bytes) > 1048576 AS large, bool_or(d.lock IS NOT NULL) AS locks
    FROM due AS d
), picked AS MATERIALIZED (
    SELECT d.id, d.batch_id, d.lock FROM due AS d LIMIT (SELECT rows FROM room)
)
