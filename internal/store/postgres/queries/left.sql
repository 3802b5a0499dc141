-- What others may have left to do: mostly there is nothing. One row, or one for each type that is paused.
SELECT EXISTS (SELECT FROM {schema}.lock_note AS n) OR EXISTS (SELECT FROM {schema}.sequence_note AS n),
    {ends_left}, EXISTS (SELECT FROM {schema}.dependent AS d),
    EXISTS (SELECT FROM {schema}.operation AS o WHERE o.ended_at IS NULL) OR EXISTS (SELECT FROM {schema}.bulk_change AS c WHERE c.ended_at IS NULL),
    p.type, p.paused_at, coalesce(p.paused_by, ''), coalesce(p.reason, '')
FROM (VALUES (0)) AS always (one)
LEFT JOIN (SELECT q.type, q.paused_at, q.paused_by, q.reason FROM {schema}.type_pause AS q ORDER BY q.type LIMIT 10000) AS p ON true
ORDER BY p.type
