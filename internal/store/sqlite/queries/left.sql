-- What others may have left to do: mostly there is nothing.
SELECT EXISTS (SELECT 1 FROM lock_note) OR EXISTS (SELECT 1 FROM sequence_note), {ends_left}, EXISTS (SELECT 1 FROM dependent),
    EXISTS (SELECT 1 FROM operation WHERE ended_at IS NULL) OR EXISTS (SELECT 1 FROM bulk_change WHERE ended_at IS NULL);
