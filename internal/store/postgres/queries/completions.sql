-- name: complete
-- Completes an attempt, whichever session holds its row. The function is what SQL's complete calls, too.
SELECT {schema}.take_complete(@id, @fence, false, nullif(@result::text, '')::jsonb)

-- name: completed
-- Reports which attempts have succeeded. A task may be back from the archive by now, to be rolled back: then its history
-- says so. Each lookup ends at its first row: an EXISTS could be turned into a scan of the archive.
SELECT done.id IS NOT NULL OR history.task_id IS NOT NULL
FROM unnest(@ids::bigint[], @fences::bigint[]) WITH ORDINALITY AS i (id, fence, place)
LEFT JOIN LATERAL (
    SELECT a.id FROM {schema}.task_archive AS a
    WHERE a.id = i.id AND a.fence = i.fence + 1 AND a.outcome = 'succeeded' LIMIT 1) AS done ON true
LEFT JOIN LATERAL (
    SELECT h.task_id FROM {schema}.attempt AS h
    WHERE h.task_id = i.id AND h.fence = i.fence AND h.outcome = 'succeeded' LIMIT 1) AS history ON true
ORDER BY i.place
