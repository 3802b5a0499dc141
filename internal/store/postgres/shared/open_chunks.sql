-- The open chunks of a plan (p): from its low-water mark on, and those that were opened again.
(SELECT r.task_id, r.rows, r.state, r.pass, r.step, r.item, r.part FROM {schema}.chunk_range AS r
WHERE r.plan = p.name AND r.state = 'open' AND (r.pass, r.step) >= (p.open_pass, p.open_step)
UNION ALL
SELECT r.task_id, r.rows, r.state, r.pass, r.step, r.item, r.part FROM {schema}.chunk_range AS r
WHERE r.plan = p.name AND r.state IN ('failed', 'reopened') AND r.state = 'reopened')
