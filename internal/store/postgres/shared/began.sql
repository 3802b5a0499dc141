-- When a row began that the rollback of its batch may revive; NULL for other rows. The index task_archive_batch has this
-- expression: it is the order in which a batch is rolled back. batch.CanRollBack decides, by the policies as well.
CASE WHEN {of}ever_started AND {of}state IN ('succeeded', 'failed', 'cancelled')
        THEN coalesce({of}started_at, {of}finished_at) END
