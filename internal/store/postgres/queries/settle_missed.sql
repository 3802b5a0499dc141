-- Returns what became of rows that a settlement skipped: still held by the session, so another transaction has them
-- locked, or a cancel is pending of which the decision to go on did not know (@cancel_unseen); settled before by the same
-- attempt; or neither. Each lookup ends at its first row: an EXISTS could be turned into a scan of the table.
SELECT ours.id IS NOT NULL, ours.cancel_requested_at IS NOT NULL AND i.cancel_unseen,
       archived.id IS NOT NULL OR released.id IS NOT NULL OR history.task_id IS NOT NULL
FROM unnest(@ids::bigint[], @fences::bigint[], @cancel_unseen::boolean[]) WITH ORDINALITY AS i (id, fence, cancel_unseen,
    place)
LEFT JOIN LATERAL (
    SELECT t.id, t.cancel_requested_at FROM {schema}.task AS t
    WHERE t.id = i.id AND t.fence = i.fence AND t.session = @session AND t.claim IS NOT NULL LIMIT 1) AS ours ON true
LEFT JOIN LATERAL (
    SELECT t.id FROM {schema}.task AS t
    WHERE t.id = i.id AND t.fence = i.fence + 1 AND t.session = @session
      AND t.state IN ('pending', 'retry_pending', 'rollback_pending') LIMIT 1) AS released ON true
LEFT JOIN LATERAL (
    SELECT a.task_id FROM {schema}.attempt AS a
    WHERE a.task_id = i.id AND a.fence = i.fence AND a.session = @session LIMIT 1) AS history ON true
LEFT JOIN LATERAL (
    SELECT a.id FROM {schema}.task_archive AS a
    WHERE a.id = i.id AND a.fence = i.fence + 1 AND a.session = @session LIMIT 1) AS archived ON true
ORDER BY i.place
