-- What others may have left to do: mostly there is nothing. INDEXED BY: the planner cannot know that nearly all operations have ended.
SELECT EXISTS (SELECT 1 FROM lock_note) OR EXISTS (SELECT 1 FROM sequence_note), {ends_left}, EXISTS (SELECT 1 FROM dependent),
    EXISTS (SELECT 1 FROM operation INDEXED BY operation_open WHERE ended_at IS NULL)
    OR EXISTS (SELECT 1 FROM bulk_change INDEXED BY bulk_change_open WHERE ended_at IS NULL);
