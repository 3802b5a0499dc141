-- Whether the batch (b) of a pass (s) that is being planned accepts no more rows.
(s.sealed_at IS NULL AND s.batch_id IS NOT NULL AND (b.id IS NULL OR b.sealed OR b.stopping OR b.ended_at IS NOT NULL))
