-- What is known of a task that a bulk change looks at: the columns of scanBulkTasks. Documents are read where they are asked for.
id, fence, state, type, ifnull(batch_id, 0), ever_started, {own_rollback of={of}}, {type_rollback of={of}}, created_at, {finished},
iif(@labels, labels, NULL), iif(@errors, ifnull(substr(error, 1, @most_error), ''), ''), cancel_requested_at IS NOT NULL,
EXISTS (SELECT 1 FROM operation WHERE task_id = {of}.id AND ended_at IS NULL)
