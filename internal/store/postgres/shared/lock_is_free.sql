-- Whether the holder of a lock (h) has ended, and nothing that it ran can be at work any more. A row without claim does not run: a
-- condition on the state would have the planner read all that run. LIMIT: an EXISTS could be turned into a scan of the table.
(SELECT t.id FROM {schema}.task AS t WHERE t.id = h.task_id AND t.claim IS NOT NULL LIMIT 1) IS NULL
        AND (SELECT o.name FROM {schema}.lock_note AS o
            WHERE o.until IS NOT NULL AND o.name = h.name AND o.until > clock_timestamp() LIMIT 1) IS NULL
