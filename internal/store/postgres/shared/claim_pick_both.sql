-- As claim_pick.sql, for runs and rollbacks: each have @bytes of their own, so that neither waits for the other.
room AS MATERIALIZED (
    SELECT each.runs, each.rollbacks, coalesce(each.runs, each.rollbacks) AS rows, each.large, each.locks, each.turns FROM (
        SELECT CASE WHEN sum(d.bytes) FILTER (WHERE NOT d.rollback) > @bytes::float8 THEN {schema}.claim_rows(
                ARRAY(SELECT e.bytes FROM due AS e WHERE NOT e.rollback), @bytes::float8) END AS runs,
            CASE WHEN sum(d.bytes) FILTER (WHERE d.rollback) > @bytes::float8 THEN {schema}.claim_rows(
                ARRAY(SELECT e.bytes FROM due AS e WHERE e.rollback), @bytes::float8) END AS rollbacks,
            max(d.bytes) > 1048576 {or_many} AS large, bool_or(d.lock IS NOT NULL) AS locks,
            bool_or(d.sequence IS NOT NULL) AS turns
        FROM due AS d
    ) AS each
), turn AS MATERIALIZED (
    SELECT l.id FROM unnest((
        SELECT CASE WHEN room.turns THEN {schema}.take_turns(ARRAY(
            SELECT e.id FROM (
                (SELECT d.id, d.sequence FROM due AS d WHERE NOT d.rollback LIMIT (SELECT runs FROM room))
                UNION ALL
                (SELECT d.id, d.sequence FROM due AS d WHERE d.rollback LIMIT (SELECT rollbacks FROM room))
            ) AS e WHERE e.sequence IS NOT NULL)) END FROM room)) AS l (id)
), picked AS MATERIALIZED (
    SELECT e.id, e.batch_id, e.lock FROM (
        (SELECT d.id, d.batch_id, d.lock, d.sequence FROM due AS d WHERE NOT d.rollback LIMIT (SELECT runs FROM room))
        UNION ALL
        (SELECT d.id, d.batch_id, d.lock, d.sequence FROM due AS d WHERE d.rollback LIMIT (SELECT rollbacks FROM room))
    ) AS e WHERE e.sequence IS NULL OR e.id IN (SELECT u.id FROM turn AS u)
)
