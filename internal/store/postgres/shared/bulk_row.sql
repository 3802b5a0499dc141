-- What is known of a task that a bulk change has looked at: s is the task, and u with_rollback.
s.id, s.fence, s.state, s.type, coalesce(s.batch_id, 0), s.ever_started, coalesce(s.policy = ANY (u.hashes), false), s.type = ANY (u.types),
s.created_at, s.finished_at, s.labels, coalesce(s.error, ''), s.cancelled,
EXISTS (SELECT FROM {schema}.operation AS p WHERE p.task_id = s.id AND p.ended_at IS NULL), s.follower
