-- name: audit_edge
-- The part of the audit that a list looks at: how many entries, the lowest id, the first and the last time. {of} and {order} are those of an
-- index, which is read backwards.
SELECT count(*), coalesce(min(step.id), 0), min(step.at), max(step.at)
FROM (SELECT a.id, a.at FROM {schema}.audit AS a WHERE {of} ORDER BY {order} LIMIT @look) AS step

-- name: audit
-- The entries of this part that match, newest first.
SELECT a.id, a.at, coalesce(a.requested_by, ''), a.role, a.verb, a.answer, coalesce(a.reason, ''), coalesce(a.task_id, 0),
    coalesce(a.batch_id, 0), coalesce(a.type, ''), coalesce(a.schedule, ''), coalesce(a.chunks, ''), coalesce(a.agent, 0)
FROM (SELECT a.id, a.at, a.requested_by, a.role, a.verb, a.answer, a.reason, a.task_id, a.batch_id, a.type, a.schedule, a.chunks, a.agent
      FROM {schema}.audit AS a WHERE {of} ORDER BY {order} LIMIT @look) AS a WHERE {where} ORDER BY {order} LIMIT @limit
