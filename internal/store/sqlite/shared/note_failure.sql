-- Notes which of them have not succeeded. What had succeeded, and was rolled back on request, has not failed.
INSERT OR IGNORE INTO sequence_failure (task_id, type, name)
    SELECT id, type, sequence FROM task_archive WHERE id {which} AND sequence IS NOT NULL
    AND (state IN ('failed', 'cancelled', 'rollback_failed') OR state = 'rolled_back' AND cause IS NOT 'succeeded')
