-- How many of the due rows are taken: no more than @bytes. That is counted row by row only where all of them together are more,
-- since it costs a microsecond each. The due rows are in the order of the loops that found them. large: some document may be more
-- than a claim returns (claim_documents).
room AS MATERIALIZED (
    SELECT CASE WHEN sum(d.bytes) > @bytes::float8
            THEN {schema}.claim_rows(ARRAY(SELECT e.bytes FROM due AS e), @bytes::float8) END AS rows,
        max(d.bytes) > 1048576 AS large, bool_or(d.lock IS NOT NULL) AS locks, bool_or(d.sequence IS NOT NULL) AS turns
    FROM due AS d
), turn AS MATERIALIZED ( -- the rows with a sequence whose turn it is; where there are none, nothing reads this
    SELECT l.id FROM unnest((
        SELECT CASE WHEN room.turns THEN {schema}.take_turns(ARRAY(
            SELECT e.id FROM (SELECT d.id, d.sequence FROM due AS d LIMIT (SELECT rows FROM room)) AS e
            WHERE e.sequence IS NOT NULL)) END FROM room)) AS l (id)
), picked AS MATERIALIZED (
    SELECT e.id, e.batch_id, e.lock FROM (
        SELECT d.id, d.batch_id, d.lock, d.sequence FROM due AS d LIMIT (SELECT rows FROM room)
    ) AS e WHERE e.sequence IS NULL OR e.id IN (SELECT u.id FROM turn AS u)
)
