-- What a fold decides on, as scanSummed reads it.
id, name, round, on_failure, ifnull(requested, ''), by_failure, sealed,
    EXISTS (SELECT 1 FROM operation WHERE batch_id = batch.id AND task_id IS NULL AND ended_at IS NULL),
    EXISTS (SELECT 1 FROM operation WHERE batch_id = batch.id AND task_id IS NOT NULL AND ended_at IS NULL)
        OR EXISTS (SELECT 1 FROM revived_note WHERE batch_id = batch.id),
    total, rolling_back, succeeded, failed, cancelled, rolled_back, rollback_failed, failures, failures_seen
