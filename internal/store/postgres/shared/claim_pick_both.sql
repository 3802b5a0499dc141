-- As claim_pick.sql, for runs and rollbacks: each have @bytes of their own, so that neither waits for the other.
room AS MATERIALIZED (
    SELECT each.runs, each.rollbacks, coalesce(each.runs, each.rollbacks) AS rows, each.large, each.locks FROM (
        SELECT CASE WHEN sum(d.bytes) FILTER (WHERE NOT d.rollback) > @bytes::float8 THEN {schema}.claim_rows(
                ARRAY(SELECT e.bytes FROM due AS e WHERE NOT e.rollback), @bytes::float8) END AS runs,
            CASE WHEN sum(d.bytes) FILTER (WHERE d.rollback) > @bytes::float8 THEN {schema}.claim_rows(
                ARRAY(SELECT e.bytes FROM due AS e WHERE e.rollback), @bytes::float8) END AS rollbacks,
            max(d.bytes) > 1048576 {or_many} AS large, bool_or(d.lock IS NOT NULL) AS locks
        FROM due AS d
    ) AS each
), picked AS MATERIALIZED (
    (SELECT d.id, d.batch_id, d.lock FROM due AS d WHERE NOT d.rollback LIMIT (SELECT runs FROM room))
    UNION ALL
    (SELECT d.id, d.batch_id, d.lock FROM due AS d WHERE d.rollback LIMIT (SELECT rollbacks FROM room))
)
