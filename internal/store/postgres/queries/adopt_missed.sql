-- Returns why an attempt could not be adopted: another transaction has its row locked, or another session holds it, to
-- run or to reap (busy); it was settled as failed or rejected, which the history says (ended).
SELECT
    EXISTS (SELECT FROM {schema}.task AS t
            WHERE t.id = @id AND (t.fence = @fence AND t.claim > 0 OR t.fence = @fence + 1 AND t.claim = 0)),
    EXISTS (SELECT FROM {schema}.attempt AS h
            WHERE h.task_id = @id AND h.ran_fence = @fence AND h.outcome IN ('failed', 'rejected'))
