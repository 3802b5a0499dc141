-- What operators and applications do to a task. The functions are what SQL calls, too.

-- name: cancel
SELECT {schema}.cancel(@id, @by)

-- name: retry
SELECT {schema}.retry(@id, @by, @payload)

-- name: rollback
SELECT {schema}.rollback(@id, @by)

-- name: can_roll_back
-- Reports whether a row of a type can be rolled back; 0: any.
SELECT {schema}.can_roll_back(@type, coalesce(
    (SELECT t.policy FROM {schema}.task AS t WHERE t.id = @id), (SELECT a.policy FROM {schema}.task_archive AS a WHERE a.id = @id)))

-- name: batch_can_roll_back
-- Reports whether a row of a batch can be rolled back, by the rows that are looked at. Where there may be more, and any policy has a rollback, one may.
WITH looked AS MATERIALIZED (
    (SELECT t.type, t.policy FROM {schema}.task AS t WHERE t.batch_id = @id LIMIT @most)
    UNION ALL
    (SELECT a.type, a.policy FROM {schema}.task_archive AS a WHERE a.batch_id = @id LIMIT @most)
), kinds AS MATERIALIZED (
    SELECT DISTINCT type, policy FROM looked
)
SELECT EXISTS (SELECT FROM kinds AS k WHERE {schema}.can_roll_back(k.type, k.policy))
    OR (SELECT count(*) FROM looked) >= @most AND EXISTS (SELECT FROM {schema}.policy AS p WHERE p.body ? 'rollback')
