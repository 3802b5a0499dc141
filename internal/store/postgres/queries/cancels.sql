-- Returns what a session has to stop. The batches are few, and are looked up once. The first condition on the state is
-- that of the index task_running, which the planner does not infer from the second.
SELECT t.id, t.fence, coalesce(t.claim, 0), t.cancel_requested_at IS NOT NULL, coalesce(t.cancel_requested_by, '')
FROM {schema}.task AS t
WHERE t.session = @session AND t.state IN ('running', 'rollback_running') AND t.state = 'running'
  AND (t.cancel_requested_at IS NOT NULL
       OR t.batch_id = ANY (ARRAY(SELECT b.id FROM {schema}.batch AS b WHERE b.stopping AND b.ended_at IS NULL)))
