-- Whether the head of a sequence (h) has ended for good, or waits for other rows, and nothing that it or another row of the sequence ran can
-- be at work any more. One that waits has not started: what comes before it may be what it waits for, after a retry.
-- LIMIT: an EXISTS could be turned into a scan of the table.
(SELECT t.id FROM {schema}.task AS t WHERE t.id = h.task_id AND t.type = h.type AND t.sequence = h.name
            AND coalesce(t.held, '') <> 'after' LIMIT 1) IS NULL
        AND (SELECT o.name FROM {schema}.sequence_note AS o
            WHERE o.until IS NOT NULL AND o.type = h.type AND o.name = h.name AND o.until > clock_timestamp() LIMIT 1) IS NULL
