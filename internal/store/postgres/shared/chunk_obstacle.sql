-- Selects ranges of the passes of a plan before one whose tasks have not finished, or have failed.
c.task_id, c.after_key, c.through_key, c.rows, c.failures, t.id IS NOT NULL AS live, c.state AS noted,
        coalesce(a.state, '') AS state, coalesce(a.cause, '') AS cause, c.pass, c.step, c.item, c.part
    FROM {schema}.chunk_range AS c
    LEFT JOIN {schema}.task AS t ON t.id = c.task_id
    LEFT JOIN LATERAL (
        SELECT r.state, r.cause FROM {schema}.task_archive AS r WHERE r.id = c.task_id AND t.id IS NULL LIMIT 1) AS a ON true
    WHERE c.plan = @name AND c.pass < @below
      AND (t.id IS NOT NULL OR a.state IS NULL AND c.state = 'failed' OR {chunk_failed})
