-- Whether an archived task that is old enough may go: its batch has ended, no sequence waits for it, and no task names it that waits.
(batch_id IS NULL OR NOT EXISTS (SELECT 1 FROM batch WHERE id = batch_id AND ended_at IS NULL))
    AND (sequence IS NULL OR NOT EXISTS (SELECT 1 FROM sequence_failure WHERE task_id = task_archive.id))
    AND NOT EXISTS (SELECT 1 FROM dependency WHERE on_id = task_archive.id)
