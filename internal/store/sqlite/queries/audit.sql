-- name: audit_edge
-- The part of the audit that a list looks at: how many entries, the lowest id, the first and the last time.
SELECT count(*), ifnull(min(id), 0), min(at), max(at) FROM (SELECT id, at FROM audit WHERE {of} ORDER BY id DESC LIMIT @look);

-- name: audit
-- The entries of this part that match, newest first.
SELECT id, at, ifnull(requested_by, ''), ifnull(role, ''), verb, answer, ifnull(reason, ''), ifnull(task_id, 0), ifnull(batch_id, 0),
    ifnull(type, ''), ifnull(schedule, ''), ifnull(chunks, ''), ifnull(agent, 0)
FROM audit WHERE {of} AND id >= @from AND {where} ORDER BY id DESC LIMIT @limit;
